//! Pod workers: one thread per pod identity. The [`machine`] decides (pure: wishes, Docker's replies and
//! the time go in, calls and reports come out); [`thread`] carries out. [`pulls`] pulls images.
//!
//! Never here: another pod's business, sources, blocking on Docker for a grace period (invariant 10).

mod cgroups;
mod conflicts;
mod deadline;
pub mod gate;
mod hooks;
mod identity;
mod job;
mod life;
mod logs;
pub mod machine;
pub mod mailbox;
pub mod needs;
pub mod output;
pub mod pulls;
pub mod state;
pub mod thread;

mod images;
mod look;
mod made;
mod messages;
mod network;
mod probes;
mod publish;
mod replies;
mod resize;
mod sandbox;
mod start;
mod stop;
mod tell;
#[cfg(test)]
pub(crate) mod tests;
mod volumes;

pub use machine::Machine;
pub use mailbox::{Hint, Inbox, PullOutcome, Pulled, Slot, StopOrder, Wish};
pub use output::{FromPod, Output, PullRequest, Report, Settings, Step, Token};
pub use state::{State, Trigger};
