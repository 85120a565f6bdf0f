//! The API of one node, with the real kubectl: every version that is found; who may do what, and what a bad client
//! can do; and its page, in a real browser.

mod browser;
mod hostile;
mod kubectl;
mod page;
mod script;
mod strangers;
