//! A value that counts its changes: data that is computed from it can tell whether it is outdated, and every change
//! is counted.

use std::ops::Deref;

/// A value that is read as itself, and changed through [`Versioned::change`] alone.
#[derive(Debug, Default)]
pub(super) struct Versioned<T> {
    value: T,
    version: u64,
}

impl<T> Versioned<T> {
    /// Not changed yet.
    pub(super) fn new(value: T) -> Versioned<T> {
        Versioned { value, version: 0 }
    }

    /// The value, to be changed.
    pub(super) fn change(&mut self) -> &mut T {
        self.version = self.version.wrapping_add(1);
        &mut self.value
    }

    /// How often it was changed.
    pub(super) fn version(&self) -> u64 {
        self.version
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
