//! Probes and hooks of running containers (upstream `pkg/kubelet/prober/`,
//! `pkg/kubelet/lifecycle/handlers.go`).
//!
//! Pure: [`spec`] (probes and hooks of a manifest), [`state`] (one probe's counting), [`schedule`] (when
//! which probe is due), [`outcome`] (results and their words), [`http`], [`grpc`] and [`hpack`] (bytes). The
//! rim: [`net`] and [`tls`] (sockets that never block), [`attempt`] (one attempt under way) and [`prober`]
//! (the thread that has them all in one `poll`).
//!
//! Never here: deciding what a result means for the pod. A result goes to the pod's worker as one more input
//! of its machine. Only [`tls`] skips the check of a certificate.
//!
//! A machine sends the *whole set* of probes and hooks of its pod (targets with their probes, and hooks under
//! way) whenever that set changes; attempts that are no longer in it are dropped. Results come back through
//! the pod's mailbox, where the latest of each wins. One thread has all attempts in one `poll` and none of
//! them blocks, so a server that hangs costs a descriptor and delays no other probe. Each probe keeps to its
//! own grid of periods, with a random start; only readiness is asked at once. At most eight commands are
//! being started at a time. Their output is read to the end, a part in each turn of the loop.

pub mod attempt;
pub mod grpc;
pub mod hpack;
pub mod http;
pub mod net;
pub mod outcome;
pub mod prober;
pub mod schedule;
pub mod spec;
pub mod state;
#[cfg(test)]
mod tests;
pub mod tls;

pub use prober::Prober;
pub use spec::{HookKind, HookWish, Kind, Probing, Target, Watch};
