//! The node looks after itself: its logs, disks, memory and garbage, on a real Docker Engine.

pub mod full_disk;
pub mod images;
pub mod local_limits;
pub mod log_drivers;
mod pressure;
mod small_disk;
