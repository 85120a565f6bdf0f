//! The place in a manifest of the field that a problem is about.

use crate::base::table::Table;
use crate::manifest::tree::{Node, Place};
use crate::pod::problem::Problem;

/// The texts of pods, by file and name.
#[derive(Debug, Default)]
pub(super) struct Places(Table<(String, String), Node>);

impl Places {
    /// Remembers a pod's text. The first text of a name counts.
    pub(super) fn add(&mut self, path: &str, pod: &str, text: Node) {
        self.0.get_or_insert((path.to_owned(), pod.to_owned()), text);
    }

    fn text(&self, path: &str, pod: &str) -> Option<&Node> {
        self.0.get(&(path.to_owned(), pod.to_owned()))
    }

    /// The place of a problem that has none yet: that of its field, or of its pod.
    pub(super) fn of(&self, problem: &Problem) -> Option<Place> {
        let field = problem.field.as_deref().unwrap_or("spec");
        self.of_field(&problem.path, problem.pod.as_deref()?, field)
    }

    /// The place of the field, or of the nearest field above it that is written.
    pub(super) fn of_field(&self, path: &str, pod: &str, field: &str) -> Option<Place> {
        let text = self.text(path, pod)?;
        let (mut node, mut place) = (text, text.at);
        for step in steps(field) {
            if let Some(entry) = node.entries().iter().find(|entry| entry.key == step) {
                (node, place) = (&entry.value, entry.at);
            } else if let Some(item) = step.parse().ok().and_then(|i: usize| node.items().get(i)) {
                (node, place) = (item, item.at);
            } else {
                break;
            }
        }
        Some(place)
    }
}

/// The steps of a path such as `spec.containers[0].image` or `metadata.annotations[podkeeper.dev/after]`.
fn steps(field: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (step, more) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        steps.push(step);
        rest = more.strip_prefix('.').unwrap_or(more);
    }
    steps
}
