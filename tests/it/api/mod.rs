//! The API of one node, with the real kubectl: every version that is found; who may do what, and what a bad client can do.

mod kubectl;
mod script;
mod strangers;
