//! Files that are shipped beside the binary: the unit, the setup, the documents.

mod files;
mod systemd;
mod systemd_unit;
