//! What a manifest says and containers get: volumes, objects, identity, networks, limits, logs.

mod cni;
mod identity;
mod limits;
mod log_paths;
mod network;
mod objects;
mod volumes;
