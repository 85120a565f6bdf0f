//! Tests of the command line against its man pages, and of the rules of this room.

mod man;
mod reads;
mod synopsis;
