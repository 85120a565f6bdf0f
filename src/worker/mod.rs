//! The worker of a pod: one thread per pod identity carries out the decisions of its [`crate::machine::Machine`], and
//! tells it the results. [`pulls`] pulls images, [`gate`] limits how many containers start at a time, [`container_records`]
//! limits what Docker records of containers, [`needs`] prepares what a create needs on the node, [`signalled`] keeps which
//! containers were signalled, [`added`] and [`adding`] add a
//! container to a running pod, `hollow` answers in place of a machine that a hollow node does not have.
//!
//! Never here: a decision about a pod; blocking on Docker.

pub mod added;
pub mod adding;
pub mod container_records;
pub mod gate;
mod hollow;
pub mod judged;
pub mod mailbox;
pub mod needs;
pub mod node;
pub mod pulls;
pub mod signalled;
pub mod thread;
