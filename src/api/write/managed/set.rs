//! Sets of fields, in the form of `fieldsV1`. Pure.

use std::collections::BTreeMap;

use crate::base::json::json;
use serde_json::{Map, Value};

/// A set of fields, in the form of `fieldsV1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// The item itself is in the set, beside its fields.
    pub itself: bool,
    pub below: BTreeMap<String, Set>,
}

/// The path of a field in a set.
pub type Path = Vec<String>;

impl Set {
    /// Parses `fieldsV1`.
    #[must_use]
    pub fn read(value: &Value) -> Set {
        let mut set = Set::default();
        for (key, inner) in value.as_object().into_iter().flatten() {
            match key.as_str() {
                "." => set.itself = true,
                _ => _ = set.below.insert(key.clone(), Set::read(inner)),
            }
        }
        set
    }

    /// Writes `fieldsV1`.
    #[must_use]
    pub fn write(&self) -> Value {
        let mut map = Map::new();
        if self.itself {
            map.insert(".".to_owned(), json!({}));
        }
        for (key, inner) in &self.below {
            map.insert(key.clone(), inner.write());
        }
        Value::Object(map)
    }

    /// The paths in the set.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut all = Vec::new();
        self.gather(&mut Vec::new(), &mut all);
        all
    }

    fn gather(&self, above: &mut Path, all: &mut Vec<Path>) {
        for (key, inner) in &self.below {
            above.push(key.clone());
            if inner.below.is_empty() || inner.itself {
                all.push(above.clone());
            }
            inner.gather(above, all);
            above.pop();
        }
    }

    /// Whether a path is in the set.
    #[must_use]
    pub fn has(&self, path: &[String]) -> bool {
        match path.split_first() {
            None => self.below.is_empty() || self.itself,
            Some((first, rest)) => self.below.get(first).is_some_and(|inner| inner.has(rest)),
        }
    }

    /// Adds a path.
    pub fn add(&mut self, path: &[String]) {
        if let Some((first, rest)) = path.split_first() {
            let inner = self.below.entry(first.clone()).or_default();
            // An item of a list is owned itself, beside its fields.
            inner.itself |= rest.is_empty() && !first.starts_with("f:");
            inner.add(rest);
        }
    }

    /// Removes a path.
    pub fn take(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        let Some(inner) = self.below.get_mut(first) else { return };
        if rest.is_empty() {
            inner.itself = false;
        } else {
            inner.take(rest);
        }
        if inner.below.is_empty() && !inner.itself {
            self.below.remove(first);
        }
    }
}
