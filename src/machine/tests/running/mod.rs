//! Containers that run: their probes, ends, sizes and deadline.

use super::rig;

mod crashes;
mod deadline;
mod messages;
mod probes;
mod sizes;
mod terminal;
