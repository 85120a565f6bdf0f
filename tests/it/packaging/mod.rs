//! What is shipped beside the binary: the unit, the setup, the files.

mod files;
mod systemd;
mod systemd_unit;
