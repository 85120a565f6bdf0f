//! Images before they are there: what a reference means, who may pull it, how far a pull has come, what a
//! failed one is called, and the archives of a directory that bring images without any registry.
//!
//! Pure but for [`node_keys`] (reads credential files), [`grants`] (remembers on disk who may have what) and [`preload`] (reads the directory and has Docker
//! load what is in it). Who pulls when is `worker::pulls`' business. Credentials are never printed.

pub mod archive;
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
