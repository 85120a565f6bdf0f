//! The sync loop's body, one event at a time. [`rig::Rig`] turns events and effects into words.

mod admission;
mod aliases;
mod cluster;
mod docker;
mod drain;
mod early;
mod evicted;
mod hold;
mod hurried;
mod leaving;
mod names;
mod networks;
mod objects;
mod orphans;
mod over;
mod ports;
mod preempted;
mod priorities;
mod removals;
pub(crate) mod rig;
mod sizes;
mod snapshot;
mod sources;
mod uids;
mod workers;
