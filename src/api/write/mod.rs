//! Writes: what a client sends becomes what is stored, by the rules of an API server.
//!
//! [`writes`], [`applies`] and [`deletes`] are the verbs; [`form`], [`managed`] and [`patch`] are pure.

mod applies;
mod deletes;
mod form;
mod managed;
pub mod patch;
pub mod writes;
mod written;
