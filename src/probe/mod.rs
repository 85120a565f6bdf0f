//! Probes and hooks of running containers (upstream `pkg/kubelet/prober/`,
//! `pkg/kubelet/lifecycle/handlers.go`).
//!
//! Pure: [`spec`] (probes and hooks of a manifest), [`state`] (one probe's counting), [`schedule`] (when
//! which probe is due), [`outcome`] (results and their words), [`http`], [`grpc`] and [`hpack`] (bytes). With
//! I/O: [`net`] and [`tls`] (sockets that never block), [`attempt`] (one attempt in progress) and [`prober`]
//! (the thread with all of them in one `poll`).
//!
//! Never here: the consequence of a result for the pod. A result is sent to the pod's worker as another input
//! of its machine. Only [`tls`] skips the check of a certificate.
//!
//! A machine sends the *whole set* of probes and hooks of its pod (targets with their probes, and hooks in
//! progress) whenever that set changes; attempts that are no longer in it are dropped. Results come back
//! through the pod's mailbox, which keeps the latest of each. One thread has all attempts in one `poll` and
//! none of them blocks, so a server that hangs costs a descriptor and delays no other probe. Each probe has
//! its own grid of periods, with a random start; only readiness is probed immediately. At most eight commands
//! are being started at a time. Their output is read to the end, a part in each turn of the loop.

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
pub use spec::{HookKind, HookStep, HookWish, Kind, Probing, Target, Watch};
