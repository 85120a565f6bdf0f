//! Every bound, time-out and capacity, named. Such a number anywhere else is a mistake.
//!
//! Each file has the bounds of one part; users write `limits::NAME`.

mod api;
mod api_client;
mod certificates;
mod cluster;
mod cni;
mod command;
mod daemon;
mod docker;
mod eviction;
mod hollow;
mod images;
mod pods;
mod server;
mod sources;
mod status;
mod streams;

pub use api::*;
pub use api_client::*;
pub use certificates::*;
pub use cluster::*;
pub use cni::*;
pub use command::*;
pub use daemon::*;
pub use docker::*;
pub use eviction::*;
pub use hollow::*;
pub use images::*;
pub use pods::*;
pub use server::*;
pub use sources::*;
pub use status::*;
pub use streams::*;
