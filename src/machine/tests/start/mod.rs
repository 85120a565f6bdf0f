//! Tests from a manifest to running containers: the waits of a start, its obstacles, and existing containers.

use super::rig;

mod adopt;
mod attach;
mod cgroups;
mod conflicts;
mod fresh;
mod images;
mod judged;
mod network;
mod objects;
mod pull_secrets;
mod volumes;
