//! Probes and hooks: what is asked of a running container from outside (upstream
//! `pkg/kubelet/prober/`, `pkg/kubelet/lifecycle/handlers.go`).
//!
//! Pure: [`spec`] (what a manifest asks for), [`state`] (one probe's counting), [`schedule`] (all of them,
//! and when which is due), [`outcome`] (results and their words), [`http`], [`grpc`] and [`hpack`] (bytes).
//! The rim: [`net`] and [`tls`] (sockets that never block), [`attempt`] (one question on its way) and
//! [`prober`] (the thread that has them all in one `poll`).
//!
//! Never here: deciding what a result means for the pod. A result goes to the pod's worker and is one more
//! input of its machine. Nothing outside of [`tls`] leaves a certificate unchecked.
//!
//! A machine tells the *whole set* of what is to be asked of its pod (targets with their probes, and hooks under way)
//! whenever that set changes; what is no longer in it is given up. Results come back through the pod's mailbox, where the
//! latest of each wins. One thread has all attempts in one `poll` and none of them blocks, so a server that hangs costs a
//! descriptor and delays no other probe. Each probe keeps to its own grid of periods, with a random beginning; readiness
//! alone is asked at once. At most eight commands are being started at a time, and their output is read to the end, a part
//! in each turn of the loop.

pub mod attempt;
pub mod grpc;
pub mod hpack;
pub mod http;
pub mod net;
pub mod outcome;
pub mod prober;
pub mod schedule;
pub mod spec;
#[cfg(test)]
mod spec_05;
pub mod state;
pub mod tls;

pub use outcome::Outcome;
pub use prober::Prober;
pub use spec::{Action, HookKind, HookWish, Kind, Probing, Target, Watch};
