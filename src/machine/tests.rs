//! Tests of the machine against the in-memory engine, call by call. [`rig::Rig`] drives it.

mod all;
mod bounds;
mod events;
mod faults;
mod hung;
mod lost;
mod mailbox;
mod never_ran;
mod races;
mod rig;
mod running;
mod runs;
mod spared;
mod start;
mod states;
mod stopping;
pub(crate) mod story;
mod wishes;
