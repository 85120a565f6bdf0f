//! Contents of a manifest, and their effects in containers: volumes, objects, identity, networks,
//! limits, logs.

mod cni;
mod identity;
mod limits;
mod log_paths;
mod network;
mod objects;
mod volumes;
