//! Tests of running containers: their probes, ends, resources and deadline.

use super::rig;

mod adopted;
mod crashes;
mod deadline;
mod ends;
mod messages;
mod probes;
mod sizes;
mod terminal;
