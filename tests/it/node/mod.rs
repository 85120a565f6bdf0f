//! The node's upkeep: its logs, disks, memory and garbage, on a real Docker Engine.

pub mod full_disk;
mod hung;
pub mod images;
mod killed;
pub mod local_limits;
pub mod log_drivers;
mod pressure;
mod reserved;
mod returns;
mod root_dir;
mod secrets;
mod small_disk;
mod stats;
