//! Cgroups of pods (upstream `pkg/kubelet/cm`): `kubepods`, below it the classes of service,
//! below those one cgroup for each pod, in which Docker makes those of the containers.
//!
//! [`names`] and [`values`] are pure; [`tree`] writes to one mounted hierarchy, [`slices`] tells systemd;
//! `ground` is one `kubepods`; [`node`] is what workers use, each through its [`hand`]. Nothing is remembered: what
//! there is stands in the kernel's tree, and a cgroup bears a mark of the root directory it belongs to.
//!
//! Never here: processes of containers. Those are Docker's, and a cgroup is killed empty only when no
//! container of its pod exists any more.

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
