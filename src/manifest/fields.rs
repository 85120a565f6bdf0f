//! The fields of the API's types, with their meanings: a table of text. Reading them from the types themselves, with a
//! custom deserializer, would compile the code of all types into the program a second time. Pure.

use super::path::{Path, Step};
use crate::base::packed::Packed;

/// Types with their fields: `= TYPE`, then `NAME TYPE MEANING` in each line. A test compares it with the API.
pub(crate) static TYPES: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/fields.txt.packed")));
/// A type that is read as another one in a path.
const ALSO: &[(&str, &str)] = &[("EphemeralContainer", "Container")];

/// One field of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The type's name, with `[]` or `map[string]` before it if needed.
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
}

/// The fields of a type, if the table has it.
pub(crate) fn of(kind: &str) -> impl Iterator<Item = Field> + use<> {
    within(TYPES.text(), kind)
}

/// The fields of a type, if this table of the same form has it.
pub(crate) fn within(table: &'static str, kind: &str) -> impl Iterator<Item = Field> + use<> {
    let bare = kind.trim_start_matches("[]");
    let kind = ALSO.iter().find(|(from, _)| *from == bare).map_or(bare, |(_, to)| to).to_owned();
    let mut lines = table.lines();
    let found = lines.any(|line| line.strip_prefix("= ") == Some(&kind));
    lines.take_while(move |line| found && !line.starts_with("= ")).filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (kind, meaning) = rest.split_once(' ')?;
        Some(Field { name, kind, meaning })
    })
}

/// The names of the fields at a path of a pod; none if there is no type with fields.
pub(crate) fn at(path: &Path<'_>) -> Vec<&'static str> {
    let kind = kind_at(path).filter(|kind| is_one(kind));
    kind.map(|kind| of(kind).map(|field| field.name).collect()).unwrap_or_default()
}

/// Whether this is a single value: only the elements of a list have fields.
fn is_one(kind: &str) -> bool {
    !kind.starts_with("[]")
}

/// The type at a path of a pod.
fn kind_at(path: &Path<'_>) -> Option<&'static str> {
    let parent = || kind_at(path.parent()?);
    match path.step() {
        Step::Root => Some("Pod"),
        Step::Index(_) => parent()?.strip_prefix("[]"),
        Step::Field(name) | Step::Key(name) => {
            let kind = parent().filter(|kind| is_one(kind))?;
            of(kind).find(|field| field.name == name).map(|field| field.kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_the_api_tell_their_fields() {
        let root = Path::ROOT;
        let spec = root.field("spec");
        assert!(at(&root).contains(&"metadata"));
        assert!(at(&spec).contains(&"hostNetwork"));
        let containers = spec.field("containers");
        let container = containers.index(3);
        assert!(at(&container).contains(&"image"));
        let ports = container.field("ports");
        assert!(at(&ports.index(0)).contains(&"hostPort"));
        assert_eq!(at(&ports), [""; 0], "a list");
        for (none, names) in [("typo", at(&spec.field("typo"))), ("image", at(&container.field("image")))] {
            assert_eq!(names, [""; 0], "{none}");
        }
    }
}
