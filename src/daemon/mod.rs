//! The daemon: its settings, its main loop, the body of that loop as a pure function, and the one place where
//! everything is wired ([`sync`]).
//!
//! Never here: how one pod is kept running; that is `worker/`.

pub mod config;
pub mod drain;
pub mod events;
pub mod signals;
pub mod sync;
pub mod turn;
