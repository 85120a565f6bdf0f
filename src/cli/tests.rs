//! The command line against its man page, and the rules of this room.

mod man;
mod reads;
mod synopsis;
