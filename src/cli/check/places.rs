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
        Some(self.text(path, pod)?.nearest(field))
    }
}
