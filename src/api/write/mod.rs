//! Writes: what a client sends becomes what is stored, by the rules of an API server.
//!
//! [`writes`], [`applies`] and [`deletes`] are the verbs; [`form`], [`managed`], [`patch`] and [`resize`] are pure. [`added`]
//! are the containers that `kubectl debug` adds.

pub mod added;
mod applies;
mod deletes;
pub mod form;
pub mod managed;
pub mod parts;
pub mod patch;
pub mod resize;
pub mod writes;
mod written;
