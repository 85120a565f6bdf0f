//! Bytes and texts that may hold a Secret's value: whatever is formatted with them tells their length alone.
//!
//! The type is what keeps them out of logs and panics, so that no `derive(Debug)` around it can show them.
//! Never here: a `Display`, or a `Debug` that shows more.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Something that is handled like what is in it, and never printed.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concealed<T>(pub T);

impl<T: AsRef<[u8]>> fmt::Debug for Concealed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.as_ref().len())
    }
}

impl<T> Deref for Concealed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Concealed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for Concealed<T> {
    fn from(of: T) -> Concealed<T> {
        Concealed(of)
    }
}

impl From<&str> for Concealed<Vec<u8>> {
    fn from(of: &str) -> Concealed<Vec<u8>> {
        Concealed(of.into())
    }
}
