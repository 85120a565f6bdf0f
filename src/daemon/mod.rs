//! The daemon: its settings, its main loop, the body of that loop as a pure function ([`turn`]), and the one place
//! where everything is wired (`wiring`).
//!
//! Never here: how one pod is kept running; that is `machine/`.

pub mod config;
pub mod drain;
pub mod events;
pub mod main_loop;
pub mod signals;
pub mod turn;
mod wiring;
