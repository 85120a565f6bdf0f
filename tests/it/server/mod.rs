//! The node's servers, asked over the network by real clients.

pub mod client;
mod endpoints;
mod exposition;
mod forward;
mod streams;
