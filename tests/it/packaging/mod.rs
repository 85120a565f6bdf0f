//! Files that are shipped beside the binary: the units, the examples, the README.

mod files;
mod systemd;
mod systemd_unit;
