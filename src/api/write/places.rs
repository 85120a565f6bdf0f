//! Places of the elements of a list, by name. Pure.

use serde_json::{Map, Value};

/// See the module. It is a map of JSON, as there are others: each kind of map is five KiB of code.
#[derive(Debug, Default)]
pub struct Places(Map<String, Value>);

fn number(place: &Value) -> Option<usize> {
    place.as_u64().and_then(|place| usize::try_from(place).ok())
}

impl Places {
    /// The place of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.get(name).and_then(number)
    }

    /// Notes a place; returns the one before.
    pub fn insert(&mut self, name: String, place: usize) -> Option<usize> {
        self.0.insert(name, place.into()).as_ref().and_then(number)
    }

    /// Notes a place, unless there is one; returns the one that counts.
    pub fn get_or_insert(&mut self, name: String, place: usize) -> usize {
        let known = self.get(&name);
        known.unwrap_or_else(|| {
            self.insert(name, place);
            place
        })
    }

    /// Forgets a name; returns its place.
    pub fn remove(&mut self, name: &str) -> Option<usize> {
        self.0.remove(name).as_ref().and_then(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_of_a_name_counts_until_another_is_noted() {
        let mut places = Places::default();
        assert_eq!(
            ["a", "b", "a"].map(|name| places.get_or_insert(name.to_owned(), name.len() + 1)),
            [2, 2, 2]
        );
        assert_eq!((places.insert("a".to_owned(), 7), places.insert("c".to_owned(), 8)), (Some(2), None));
        assert_eq!((places.get("a"), places.remove("a"), places.get("a")), (Some(7), Some(7), None));
    }
}
