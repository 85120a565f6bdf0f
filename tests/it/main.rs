//! The integration tests, one binary: the simulation of the whole loop, and everything that has to be
//! checked on a real Docker Engine.

#![cfg(test)]

mod api;
mod cluster;
mod command_line;
mod engine;
mod faults;
mod harness;
mod lifecycle;
mod node;
mod packaging;
mod server;
#[path = "../../src/source/testing/signer.rs"]
mod signer;
mod sim;
mod sources;
mod spec;
