//! The node's servers, asked over the network by clients as they are.

pub mod client;
mod endpoints;
mod exposition;
mod streams;
