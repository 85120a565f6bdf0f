//! A set for few items: a sorted vector. As with `Table`, each kind of `BTreeSet` would be KiBs of code of its own.
//!
//! Made of any number of items at once ([`FromIterator`]); an insertion moves all items behind it, so item by item only
//! for some thousand.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::base::order;

/// Items in order, each once. A search is logarithmic, insertion and removal linear.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Vec<T>", bound(deserialize = "T: Deserialize<'de> + Ord"))]
pub struct Set<T>(Vec<T>);

impl<T> Default for Set<T> {
    fn default() -> Set<T> {
        Set::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

impl<T> Set<T> {
    /// An empty set; takes no memory.
    #[must_use]
    pub const fn new() -> Set<T> {
        Set(Vec::new())
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// All items, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The least item.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The greatest item.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Removes the greatest item and returns it.
    pub fn pop_last(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the items for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }
}

impl<T: Ord> Set<T> {
    fn place<Q: Ord + ?Sized>(&self, item: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|known| known.borrow().cmp(item))
    }

    /// Whether this item is in it.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(item).is_ok()
    }

    /// Adds an item; returns false if it was there.
    pub fn insert(&mut self, item: T) -> bool {
        match self.place(&item) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, item);
                true
            }
        }
    }

    /// Removes an item; returns whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        match self.place(item) {
            Ok(at) => {
                self.0.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    /// The items that the other set does not have, in order.
    pub fn difference<'a>(&'a self, other: &'a Set<T>) -> impl Iterator<Item = &'a T> {
        self.0.iter().filter(|item| !other.contains(*item))
    }

    /// Whether the other set has all items of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Set<T>) -> bool {
        self.0.iter().all(|item| other.contains(item))
    }

    /// Whether no item is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Set<T>) -> bool {
        !self.0.iter().any(|item| other.contains(item))
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    /// Of equal items the first is kept.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Set<T> {
        let mut all = Vec::new();
        items.into_iter().for_each(|item| all.push(item));
        if !all.is_sorted() {
            order::sort(&mut all);
        }
        all.dedup();
        Set(all)
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<T: Ord> From<Vec<T>> for Set<T> {
    fn from(items: Vec<T>) -> Set<T> {
        items.into_iter().collect()
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(items: [T; N]) -> Set<T> {
        items.into_iter().collect()
    }
}

impl<'a, T> IntoIterator for &'a Set<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: Serialize> Serialize for Set<T> {
    /// A list, in order.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Set;

    proptest! {
        #[test]
        fn as_the_standard_library(
            first in proptest::collection::vec(0_u8..20, 0..20),
            steps in proptest::collection::vec((0_u8..4, 0_u8..20), 0..60),
        ) {
            let mut ours: Set<u8> = first.iter().copied().collect();
            let mut theirs: BTreeSet<u8> = first.iter().copied().collect();
            let (before, their_before) = (ours.clone(), theirs.clone());
            for (step, item) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(ours.insert(item), theirs.insert(item)),
                    2 => prop_assert_eq!(ours.remove(&item), theirs.remove(&item)),
                    _ => {
                        ours.retain(|of| of % 5 != item % 5);
                        theirs.retain(|of| of % 5 != item % 5);
                    }
                }
                prop_assert!(ours.iter().eq(theirs.iter()));
                prop_assert_eq!(ours.contains(&item), theirs.contains(&item));
                prop_assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
                prop_assert_eq!((ours.first(), ours.last()), (theirs.first(), theirs.last()));
                prop_assert!(ours.difference(&before).eq(theirs.difference(&their_before)));
                prop_assert_eq!(ours.is_subset(&before), theirs.is_subset(&their_before));
                prop_assert_eq!(ours.is_disjoint(&before), theirs.is_disjoint(&their_before));
            }
            prop_assert_eq!(serde_json::to_string(&ours).unwrap(), serde_json::to_string(&theirs).unwrap());
            prop_assert!(ours.into_iter().eq(theirs));
        }
    }
}
