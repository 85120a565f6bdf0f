//! The command line: commands beside a daemon and without one, examples, and pods that are removed.

mod away;
mod commands;
mod copies;
mod examples;
mod live;
mod objects;
mod once;
mod streams;
