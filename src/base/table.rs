//! A map for few entries: a sorted vector. A `BTreeMap` allocates room for eleven entries with the first one,
//! which is most of what an idle pod would hold, and adds five KiB of code for each type of value.
//!
//! For at most some thousand entries (pods of a node): an insertion moves all entries behind it.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};

mod set;

pub use set::Set;

/// Keys in order, each with one value. Lookup is logarithmic, insertion and removal linear.
#[derive(Clone, PartialEq, Eq)]
pub struct Table<K, V>(Vec<(K, V)>);

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table::new()
    }
}

impl<K, V> Table<K, V> {
    /// An empty table; takes no memory.
    #[must_use]
    pub const fn new() -> Table<K, V> {
        Table(Vec::new())
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// All values, mutable, in the order of their keys.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// The entry with the least key.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        self.0.first().map(|(key, value)| (key, value))
    }

    /// Removes the entry with the least key and returns it.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.0.is_empty() {
            return None;
        }
        let first = self.0.remove(0);
        self.free_if_empty();
        Some(first)
    }

    /// Removes the entry with the greatest key and returns it.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let last = self.0.pop();
        self.free_if_empty();
        last
    }

    /// All values, in the order of their keys.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
        self.free_if_empty();
    }

    /// Frees the memory of an empty table: most tables are empty most of the time.
    fn free_if_empty(&mut self) {
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// The key's position, or the one at which to insert it.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(known, _)| known.borrow().cmp(key))
    }

    /// The value of this key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The value of this key, mutable.
    #[must_use]
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Whether there is an entry with this key.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// Sets the value of this key; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                self.insert_at(at, key, value);
                None
            }
        }
    }

    fn insert_at(&mut self, at: usize, key: K, value: V) {
        if self.0.len() == self.0.capacity() {
            // A vector would start with room for four.
            self.0.reserve_exact(1_usize.saturating_add(self.0.len() / 2));
        }
        self.0.insert(at, (key, value));
    }

    /// The value of this key; inserts `fresh` when there is none.
    pub fn get_or_insert(&mut self, key: K, fresh: V) -> &mut V {
        self.get_or_insert_with(key, || fresh)
    }

    /// The value of this key; inserts what `fresh` makes when there is none.
    pub fn get_or_insert_with(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        let at = match self.place(&key) {
            Ok(at) => at,
            Err(at) => {
                self.insert_at(at, key, fresh());
                at
            }
        };
        match self.0.get_mut(at) {
            Some((_, value)) => value,
            None => unreachable!("it is there or has just been inserted"),
        }
    }

    /// The value of this key; inserts the default when there is none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }

    /// Removes the entry with this key and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        let (_, value) = self.0.remove(at);
        self.free_if_empty();
        Some(value)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Table<K, V> {
    /// The last one of equal keys is kept.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Table<K, V> {
        let mut all = Table::new();
        for (key, value) in entries {
            all.insert(key, value);
        }
        all
    }
}

impl<K: Ord, V> Extend<(K, V)> for Table<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Serialize, V: Serialize> Serialize for Table<K, V> {
    /// A map, in order.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for Table<K, V> {
    /// A map; the last one of equal keys is kept.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Table<K, V>, D::Error> {
        struct Entries<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
            type Value = Table<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<K, V>, A::Error> {
                let mut all = Table::new();
                while let Some((key, value)) = map.next_entry()? {
                    all.insert(key, value);
                }
                Ok(all)
            }
        }

        from.deserialize_map(Entries(PhantomData))
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Table<K, V> {
    fn from(entries: [(K, V); N]) -> Table<K, V> {
        entries.into_iter().collect()
    }
}

impl<'a, K, V> IntoIterator for &'a mut Table<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = std::iter::Map<std::slice::IterMut<'a, (K, V)>, fn(&'a mut (K, V)) -> (&'a K, &'a mut V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }
}

impl<'a, K, V> IntoIterator for &'a Table<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<K, V> IntoIterator for Table<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
impl<Q: Ord + ?Sized, K: Ord + Borrow<Q>, V> std::ops::Index<&Q> for Table<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Table;

    proptest! {
        #[test]
        fn as_the_standard_library(steps in proptest::collection::vec((0_u8..6, 0_u8..12, any::<u16>()), 0..80)) {
            let (mut ours, mut theirs) = (Table::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 | 1 => prop_assert_eq!(ours.insert(key, value), theirs.insert(key, value)),
                    2 => prop_assert_eq!(ours.remove(&key), theirs.remove(&key)),
                    3 => *ours.get_or_default(key) ^= value,
                    4 => prop_assert_eq!(ours.get_mut(&key), theirs.get_mut(&key)),
                    _ => ours.retain(|key, of| u16::from(*key) ^ *of & 1 == value & 1),
                }
                match step {
                    3 => *theirs.entry(key).or_default() ^= value,
                    5 => theirs.retain(|key, of| u16::from(*key) ^ *of & 1 == value & 1),
                    _ => {}
                }
                prop_assert_eq!(ours.get(&key), theirs.get(&key));
                prop_assert_eq!(ours.contains_key(&key), theirs.contains_key(&key));
                prop_assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
                prop_assert!(ours.iter().eq(theirs.iter()));
                prop_assert!(ours.keys().eq(theirs.keys()) && ours.values().eq(theirs.values()));
                prop_assert!(!ours.is_empty() || ours.0.capacity() == 0);
            }
            prop_assert!(theirs.clone().into_iter().collect::<Table<_, _>>() == ours);
            prop_assert!(ours.into_iter().eq(theirs));
        }
    }
}
