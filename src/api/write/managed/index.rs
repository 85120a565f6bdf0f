//! Objects by the paths of their fields, to look up or remove many of them without searching lists for each. Pure.

use serde_json::Value;

use super::element;
use super::set::Set;
use crate::api::write::patch::strategic::{List, list_of};
use crate::base::order;

/// A value, and the values in it, by names in the form of `fieldsV1`.
pub struct Tree<'v> {
    value: &'v Value,
    /// In the order of their names, each once.
    below: Vec<(String, Tree<'v>)>,
}

impl<'v> Tree<'v> {
    /// The tree of an object of this kind.
    #[must_use]
    pub fn new(kind: &str, value: &'v Value) -> Tree<'v> {
        Tree::of(kind, value, &mut Vec::new())
    }

    /// `path` has the names of the fields above.
    fn of(kind: &str, value: &'v Value, path: &mut Vec<&'v str>) -> Tree<'v> {
        let mut below = Vec::new();
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    path.push(key);
                    below.push((format!("f:{key}"), Tree::of(kind, inner, path)));
                    path.pop();
                }
            }
            Value::Array(items) => {
                let list = list_of(kind, path);
                for item in items.iter().filter(|_| list != List::Atomic) {
                    if let Some(element) = element(item, list) {
                        below.push((element, Tree::of(kind, item, path)));
                    }
                }
            }
            _ => {}
        }
        order::sort_by(&mut below, |a, b| a.0.cmp(&b.0));
        // The first one of two with the same name counts.
        below.dedup_by(|later, first| later.0 == first.0);
        Tree { value, below }
    }

    /// The value at a path.
    #[must_use]
    pub fn at(&self, path: &[String]) -> Option<&'v Value> {
        let mut found = self;
        for part in path {
            let at = found.below.binary_search_by(|(name, _)| name.cmp(part)).ok()?;
            found = &found.below.get(at)?.1;
        }
        Some(found.value)
    }
}

/// Paths whose values are to be removed: a field that is in the set itself goes as a whole.
#[derive(Debug, Default)]
pub struct Cuts(Set);

impl Cuts {
    /// Adds a path.
    pub fn add(&mut self, path: &[String]) {
        let mut at = &mut self.0;
        for part in path {
            at = at.below.entry(part.clone()).or_default();
        }
        at.itself = true;
    }

    /// Removes the values from an object of this kind.
    pub fn take_from(&self, kind: &str, value: &mut Value) {
        cut(&self.0, kind, value, &mut Vec::new());
    }
}

fn cut<'c>(cuts: &'c Set, kind: &str, value: &mut Value, path: &mut Vec<&'c str>) {
    match value {
        Value::Object(map) => {
            for (part, inner) in &cuts.below {
                let Some(name) = part.strip_prefix("f:") else { continue };
                if inner.itself {
                    map.remove(name);
                } else if let Some(found) = map.get_mut(name) {
                    path.push(name);
                    cut(inner, kind, found, path);
                    path.pop();
                }
            }
        }
        Value::Array(items) if !cuts.below.is_empty() => {
            let list = list_of(kind, path);
            items.retain_mut(|item| match element(item, list).and_then(|one| cuts.below.get(&one)) {
                None => true,
                Some(inner) if inner.itself => false,
                Some(inner) => {
                    cut(inner, kind, item, path);
                    true
                }
            });
        }
        _ => {}
    }
}
