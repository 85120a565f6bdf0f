//! Putting things in order, in little code: the standard library makes a sort of its own for each type of
//! element, 4 KiB each, and one for each map that is collected. Here one sort, of positions, serves all. What
//! has a million elements belongs elsewhere.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A stable sort.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let order = permutation(items.len(), &mut |a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    for to in 0..items.len() {
        // What stood here before may have been swapped away, perhaps more than once.
        let mut from = order.get(to).copied().unwrap_or(to);
        while from < to {
            from = order.get(from).copied().unwrap_or(to);
        }
        items.swap(to, from);
    }
}

/// A stable sort by what `key` gives, which is asked for more than once.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// A stable sort.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// All entries; of equal keys the last one.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut all = BTreeMap::new();
    for (key, value) in entries {
        all.insert(key, value);
    }
    all
}

/// All of them, once each.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut all = BTreeSet::new();
    for item in items {
        all.insert(item);
    }
    all
}

/// Which position comes first, second, and so on.
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
}
