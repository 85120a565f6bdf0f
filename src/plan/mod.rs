//! Decisions for one pod: desired + observed + back-off + now -> actions and the next deadline.
//!
//! Pure: no I/O, no clock, no failure. It never orders by wall-clock time, only by attempt numbers.

pub mod actions;
pub mod all;
pub mod backoff;
mod init;
mod message;
pub mod observed;
mod past;
pub mod restart;
pub mod sandbox;
mod stop;
mod surplus;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;

pub use actions::{Kill, KillReason, ProbeVerdict, Probes, SandboxAction, StartRef, runs_again};
pub use message::Way;
pub use observed::{Deadline, Exit, Kept, Link, Manifest, Observed, Owned, PreStop, Role, RunState};
pub use past::{is_of_earlier_life, is_past};
pub use stop::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, stop_now};
pub use surplus::{DeadPolicy, allowance, next_due, surplus};
