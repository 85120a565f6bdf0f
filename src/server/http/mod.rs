//! HTTP/1.1 as a server speaks it, on bytes: requests in, answers out. Pure.
//!
//! Never here: a socket or a clock. A request that can be read in two ways is refused: a proxy in front may have read
//! it in the other one.

pub mod answer;
pub mod query;
pub mod request;
