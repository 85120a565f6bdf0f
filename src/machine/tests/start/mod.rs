//! From a manifest to running containers: what a start waits for, what is in its way, what is taken over.

use super::rig;

mod adopt;
mod attach;
mod cgroups;
mod conflicts;
mod fresh;
mod images;
mod network;
mod objects;
mod pull_secrets;
mod volumes;
