//! Work on running containers and at their end: probes, hooks, resizing, the deadline, termination messages.

pub(super) mod deadline;
pub(super) mod hooks;
pub(super) mod messages;
pub(super) mod probes;
pub(super) mod resize;
