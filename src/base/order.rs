//! Sorting and collecting with little machine code: the standard library compiles a separate sort for each
//! element type (4 KiB each) and for each map that is collected. Here one sort, of positions, serves all
//! types. Not for collections of a million elements.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::table::Set;

/// A stable sort.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order = permutation(items.len(), &mut |a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    // Each cycle of the permutation is walked once.
    for start in 0..items.len() {
        let mut to = start;
        while let Some(from) = order.get_mut(to).map(|from| std::mem::replace(from, to))
            && from != start
        {
            items.swap(to, from);
            to = from;
        }
    }
}

/// A stable sort by key; `key` is called more than once per element.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// A stable sort.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Collects the entries; the last one of equal keys is kept.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut all = BTreeMap::new();
    for (key, value) in entries {
        all.insert(key, value);
    }
    all
}

/// Collects the items, each once.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> Set<T> {
    items.into_iter().collect()
}

/// A set of many numbers. It is one of pairs, as others are: each kind of set is five KiB of code.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Numbers(BTreeSet<(u64, u64)>);

impl Numbers {
    /// Returns true if the number is new.
    pub fn insert(&mut self, number: u64) -> bool {
        self.0.insert((0, number))
    }

    /// Returns true if the number was there.
    pub fn remove(&mut self, number: u64) -> bool {
        self.0.remove(&(0, number))
    }

    /// Whether the number is there.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.0.contains(&(0, number))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(_, number)| *number)
    }
}

/// The positions in sorted order.
fn permutation(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_standard_library(items in proptest::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
            let (mut ours, mut theirs) = (items.clone(), items.clone());
            super::sort_by_key(&mut ours, |item| item.0);
            theirs.sort_by_key(|item| item.0);
            prop_assert_eq!(&ours, &theirs);
            super::sort(&mut ours);
            theirs.sort();
            prop_assert_eq!(&ours, &theirs);
            prop_assert_eq!(super::map(items.clone()), items.iter().copied().collect());
            prop_assert_eq!(super::set(items.clone()), items.into_iter().collect());
        }
    }

    /// Regression: each element was looked for along its whole cycle, which took minutes here.
    #[test]
    fn a_rotated_list_is_sorted_in_time() {
        let mut items: Vec<u32> = (1..1_000_000).chain([0]).collect();
        super::sort(&mut items);
        assert!(items.is_sorted());
    }
}
