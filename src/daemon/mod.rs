//! The daemon: its settings, its main loop, the body of that loop as a pure function ([`turn`]), and the
//! place where all actors are wired (`wiring`).
//!
//! Never here: how one pod is kept running; that is in `machine/`.

pub mod config;
mod connected;
pub mod drain;
mod earlier;
pub mod events;
pub mod hollow;
mod image_events;
pub mod keeper;
pub mod kmsg;
pub mod main_loop;
mod notify;
pub mod once;
mod publishing;
pub mod reload;
mod settled;
pub mod signals;
pub mod turn;
mod watch;
mod wiring;
