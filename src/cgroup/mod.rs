//! Cgroups of pods (upstream `pkg/kubelet/cm`): `kubepods`, below it the classes of service,
//! below those one cgroup for each pod, in which Docker makes those of the containers.
//!
//! [`names`] and [`values`] are pure; [`tree`] writes to one mounted hierarchy, [`slices`] tells systemd;
//! `ground` is one `kubepods`; [`node`] is what workers use, each through its [`hand`]. Nothing is remembered: what
//! there is stands in the kernel's tree, and a cgroup bears a mark of the root directory it belongs to.
//!
//! Never here: processes of containers. Those are Docker's, and a cgroup is killed empty only when no
//! container of its pod exists any more.
//!
//! A pod's cgroup is ordered before the first call that makes something in it, again whenever it should differ, and with
//! each further sandbox; creates wait for the answer, which may be that it cannot be had. It is dropped when no container of
//! its UID is known any more, and the worker is gone only after that. Nothing is locked while `systemctl` runs: orders for
//! one UID wait for one another. Whether pods have cgroups at all is decided once, when Docker has said its driver. Nothing
//! asks whether a container is in the right cgroup: what was made without one stays so until it is made anew.
//!
//! A `kubepods` without a mark is another program's, and so is one from which marked cgroups of pods vanish: then pods get
//! another root. What an earlier flag had made is found by its marks. With systemd's driver nothing is made here. systemd is
//! told of slices by `systemctl set-property --runtime`, which start with the first container, and `systemctl stop` ends
//! them; its own drop-ins below `/run` hold what it was told, so nothing is told twice. (Seen with systemd 252: limits
//! written to a slice's files are gone with the next `daemon-reload`, and a slice in which nothing runs stays as a unit.)
//! Only huge pages, of which systemd knows nothing, are files with it too, written once the sandbox has started.

mod ground;
pub mod hand;
pub mod names;
pub mod node;
pub mod slices;
pub mod tree;
pub mod values;

pub use hand::{Hand, Order, Report};
pub use names::{Driver, Naming, Parents};
pub use node::Cgroups;
pub use values::{PodCgroup, Values};
