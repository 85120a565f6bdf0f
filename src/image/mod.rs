//! Images before they are on the node: references, credentials, the rate and the failures of pulls, and the
//! archives of a directory that bring images without a registry.
//!
//! Pure, except for [`node_keys`] (reads credential files), [`fetch`] (pulls), [`grants`] (stores on disk
//! which pods may use which images) and [`preload`] (reads the directory and makes Docker load its
//! archives). `worker::pulls` decides when to pull. Credentials are never printed.

pub mod archive;
pub mod configuration;
pub mod credentials;
pub mod failure;
pub mod fetch;
pub mod grants;
pub mod node_keys;
pub mod preload;
pub mod pull_secrets;
pub mod rate;
pub mod reference;
pub mod remembered;
