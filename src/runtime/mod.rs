//! Docker for podkeeper: calls, answers, and errors.
//!
//! Only this room calls Docker. [`request`] turns a [`Call`] into HTTP, [`reply`] parses the answer
//! ([`refusal`] when Docker refuses), [`http1`] and [`frames`] are the parsers on bytes: these are pure.
//! [`docker`] is the interface for other rooms; [`client`] owns the sockets behind it, [`stream`] and
//! [`event_stream`] are its long answers, and [`fake`] is the in-memory Docker with the same interface.
//! `plan/` and `machine/` decide which calls to make.

pub mod body;
pub mod client;
pub mod connection;
pub mod docker;
pub mod engine_root;
pub mod event_stream;
pub(crate) mod exchange;
pub mod exec;
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(dead_code, reason = "what tests steer it with stands with what it does")
)]
pub mod fake;
pub mod frames;
pub mod http1;
pub mod labels;
pub mod life;
mod lines;
mod list;
pub mod names;
pub mod progress;
pub mod pull;
pub mod refusal;
pub mod reply;
pub mod request;
pub mod sandbox_image;
pub mod stream;
pub mod types;

pub use body::*;
pub use types::*;

#[cfg(test)]
pub(crate) mod testing;
