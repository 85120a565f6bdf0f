//! The API of one node: who may do what, and what a bad client can do.

mod served;
mod strangers;
