//! The hands of a pod worker: one thread per pod identity carries out what its [`crate::machine::Machine`] decides,
//! and hands in what came of it. [`pulls`] pulls images, [`gate`] says who may start a container, [`needs`] makes
//! ready what a create needs on the node.
//!
//! Never here: a decision about a pod; blocking on Docker.

pub mod gate;
pub mod mailbox;
pub mod needs;
pub mod pulls;
pub mod thread;
