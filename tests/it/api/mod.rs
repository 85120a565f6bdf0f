//! The API of one node, with the real kubectl in every version that is found; the rights of each user, and the
//! harm that a bad client can do; and its page, in a real browser.

mod browser;
mod deletes;
mod hostile;
mod kubectl;
mod page;
mod script;
mod short;
mod strangers;
