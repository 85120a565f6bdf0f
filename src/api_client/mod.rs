//! The client of a Kubernetes API server: HTTP/1.1 over TLS, JSON, blocking calls with deadlines.
//!
//! [`kubeconfig`] has the server and the credentials, [`credentials`] keeps them up to date, [`line`] is one
//! connection, [`client`] has all of them, [`watch`] is a stream of events. It has its own connections and uses the
//! parser of Docker's answers: a call needs one deadline for all of its parts, and a watch must end at once when its
//! client is closed or its credentials were replaced; shutting down the socket does that, which a library's
//! connection pool would not allow.
//!
//! Never here: the meaning of a kind of object, a thread, or a wait without an end.

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
pub use rate::Budget;
pub use request::{Method, Request};
pub use watch::{Kind, Next, Watch, WatchEvent};
