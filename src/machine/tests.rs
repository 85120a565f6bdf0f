//! The pod machine against the in-memory engine, call by call. [`rig::Rig`] is the driver.

mod adopt;
mod all;
mod bounds;
mod cgroups;
mod conflicts;
mod crashes;
mod deadline;
mod events;
mod faults;
mod fresh;
mod images;
mod mailbox;
mod messages;
mod network;
mod never_ran;
mod objects;
mod probes;
mod races;
mod rig;
mod sizes;
mod states;
mod stopping;
pub(crate) mod story;
mod terminal;
mod volumes;
mod wishes;
