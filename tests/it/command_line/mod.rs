//! The command line: commands beside a daemon and without one, examples, and pods that somebody looks at from away.

mod away;
mod commands;
mod copies;
mod examples;
mod live;
mod objects;
mod once;
mod streams;
