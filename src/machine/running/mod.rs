//! What goes on while containers of a pod run, and when they end: probes, hooks, other sizes, the deadline, termination
//! messages.

pub(super) mod deadline;
pub(super) mod hooks;
pub(super) mod messages;
pub(super) mod probes;
pub(super) mod resize;
