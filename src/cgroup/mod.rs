//! Cgroups of pods (upstream `pkg/kubelet/cm`): `kubepods`, below it the classes of service, below those one
//! cgroup for each pod, in which Docker creates those of the containers.
//!
//! [`names`] and [`values`] are pure; [`tree`] writes to one mounted hierarchy, [`slices`] calls systemd;
//! `kubepods` is one `kubepods`; workers use [`node`], each through its [`orders`]. No state is stored:
//! the state is the kernel's tree, and a cgroup has a mark with the root directory that it belongs to.
//!
//! Never here: processes of containers. Those are Docker's, and the processes in a cgroup are killed only
//! when no container of its pod exists any more.
//!
//! A pod's cgroup is ordered before the first call that creates a container in it, again whenever its values
//! change, and with each further sandbox; creates wait for the answer, which may be an error. It is removed
//! when no container of its UID exists any more, and the worker ends only after that. No lock is held while
//! `systemctl` runs: orders for one UID wait for one another. Whether pods have cgroups at all is decided
//! once, when Docker's driver is known. A container that was created without a pod's cgroup stays outside of
//! it until it is recreated.
//!
//! A `kubepods` without a mark belongs to another program, and so does one from which marked cgroups of pods
//! vanish, or in which programs run in pods' cgroups that stay without a mark: then pods get another root, with their
//! next sandbox. Cgroups of earlier flags are found by their marks. With systemd's driver podkeeper creates no cgroup.
//! It sets properties of slices by `systemctl set-property --runtime`; slices start with the first container, and
//! `systemctl stop` ends them. Systemd's own drop-ins below `/run` hold the properties, so no property is set twice.
//! (Seen with systemd 252: limits written to a slice's files are lost with the next `daemon-reload`, and a slice
//! without processes stays as a unit.) Only huge pages, which systemd does not support, are written to files there,
//! too, once the sandbox has started.

mod alone;
pub mod cpu;
pub mod engine;
mod kubepods;
pub mod names;
pub mod node;
pub mod orders;
pub mod resource;
pub mod slices;
pub mod tree;
pub mod values;

pub use names::{Driver, Naming, Parents};
pub use node::Cgroups;
pub use orders::{NoCgroup, Order, PodCgroups, Report};
pub use values::PodCgroup;
