//! Writes: a client's object becomes a stored one, by the rules of an API server.
//!
//! [`writes`], [`applies`] and [`deletes`] are the verbs; [`form`], [`managed`], [`patch`] and [`resize`] are pure.
//! [`added`] makes the containers of `kubectl debug`.

pub mod added;
mod applies;
mod deletes;
pub mod form;
pub mod managed;
pub mod parts;
pub mod patch;
mod places;
pub mod resize;
pub mod writes;
pub mod written;
