//! The client of a Kubernetes API server: HTTP/1.1 over TLS, JSON, blocking calls with a deadline each.
//!
//! [`kubeconfig`] says where the server is and who we are, [`credentials`] keeps that up to date, [`line`] is one
//! connection, [`client`] has all of them, [`watch`] is a stream of events. It has its own connections on the parser
//! that reads Docker's answers: a call needs one deadline for all of it, and a watch must end at once when its client
//! is closed or its credentials were replaced, which shutting the socket down does and a pool inside a library hides.
//!
//! Never here: what a kind of object means, a thread, or a wait without an end.

pub mod client;
pub mod credentials;
pub mod error;
mod json;
pub mod kubeconfig;
mod line;
mod plugin;
pub mod pods;
mod rate;
pub mod request;
pub mod tls;
pub mod watch;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use client::Client;
pub use error::ApiError;
pub use request::{Method, Request};
pub use watch::{Kind, Next, WatchEvent};
