//! HTTP/1.1 for servers, on bytes: requests in, answers out. Pure.
//!
//! Never here: a socket or a clock. An ambiguous request is refused: a proxy in front may have read it in the other
//! way.

pub mod answer;
pub mod query;
pub mod request;
