//! The command line against its man page.

mod man;
