//! Turns of sources at places of which there are few. Each source has its own: what takes long for one source delays no
//! pod of another. Pure.

use super::Source;

/// The first that may begin: sources of those that wait, in their order, and of those that hold a place. A source holds at
/// most `most` places; `None` is a source of its own.
pub fn first(
    mut waiting: impl Iterator<Item = Option<Source>>,
    busy: &[Option<Source>],
    most: usize,
) -> Option<usize> {
    waiting.position(|source| busy.iter().filter(|of| **of == source).count() < most)
}
