//! What to do about one pod: desired + observed + back-off + now -> actions and the next deadline.
//!
//! Pure: no I/O, no clock, no failure. It never orders by wall-clock time: attempt numbers order.

pub mod actions;
pub mod observed;

pub use actions::{Kill, KillReason, PodActions, ProbeVerdict, Probes, SandboxAction, StartRef};
pub use observed::{Exit, Observed, Owned, Role, RunState};
