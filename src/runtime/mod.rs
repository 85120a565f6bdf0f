//! Docker as podkeeper sees it: the calls it makes, the answers it gets, the errors that mean something.
//!
//! Only this room speaks to Docker. [`request`] turns a [`Call`] into HTTP, [`reply`] turns the answer
//! back, [`http1`] is the parser on bytes: these three are pure. [`client`] owns sockets, [`fake`] is the
//! in-memory Docker with the same interface. Deciding what to call is `plan/`'s and `worker/`'s work.

pub mod labels;
pub mod types;

pub use types::*;
