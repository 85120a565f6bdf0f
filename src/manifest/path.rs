//! Field paths, and the list of problems found on them.
//!
//! A path is a chain of borrowed steps on the stack, so walking a pod allocates only for problems. The texts
//! are the API's (`apimachinery/pkg/util/validation/field`).

use std::fmt;

use super::tree::Node;
use crate::base::limits;
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step<'a> {
    /// The document itself.
    Root,
    /// `.name`
    Field(&'a str),
    /// `[3]`
    Index(usize),
    /// `[cpu]`: the key of a map whose keys the user chooses.
    Key(&'a str),
}

/// A field's path from the root of its pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

impl<'a> Path<'a> {
    /// The pod itself.
    pub(crate) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// `self.name`
    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }
    /// `self[index]`
    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }
    /// `self[key]`
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
    /// The child `name` of a map: `[name]` if the user chooses the keys, `.name` otherwise.
    pub(crate) fn child(&'a self, name: &'a str) -> Path<'a> {
        const FREE: [&str; 7] =
            ["labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels", "overhead"];
        match self.step {
            Step::Field(own) if FREE.contains(&own) => self.key(name),
            _ => self.field(name),
        }
    }
    /// The path without its last step; `None` for the root.
    pub(crate) fn parent(&self) -> Option<&Path<'a>> {
        self.parent
    }
    /// The last step.
    pub(crate) fn step(&self) -> Step<'a> {
        self.step
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
            first = parent.parent.is_none();
        }
        match self.step {
            Step::Root => Ok(()),
            // An unknown field comes from the user, and may be as long as the file.
            Step::Field(name) if first => f.write_str(&shorten(name)),
            Step::Field(name) => write!(f, ".{}", shorten(name)),
            Step::Index(i) => write!(f, "[{i}]"),
            Step::Key(key) => write!(f, "[{}]", shorten(key)),
        }
    }
}

/// The problems of one pod.
pub(crate) struct Report<'a> {
    path: &'a str,
    pod: Option<String>,
    root: &'a Node,
    /// Bytes that lists of the pods of this manifest may still take when they are read.
    pub(crate) room: usize,
    /// Errors from this index on become warnings.
    downgraded: Option<usize>,
    /// Fields with a value of the wrong type, which are left out of validation.
    type_errors: Vec<String>,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'a> Report<'a> {
    /// An empty report about the pod written at `root` of the file `path`.
    pub(crate) fn new(path: &'a str, pod: Option<String>, root: &'a Node) -> Report<'a> {
        Report {
            path,
            pod,
            root,
            room: limits::DECODED_MANIFEST,
            downgraded: None,
            type_errors: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The pod's text as a tree.
    pub(crate) fn root(&self) -> &'a Node {
        self.root
    }

    /// The node written for a field.
    pub(crate) fn written(&self, path: &Path<'_>) -> Option<&'a Node> {
        self.root.find(path)
    }

    /// Adds an error: the pod is refused.
    pub(crate) fn error(&mut self, path: &Path<'_>, message: impl Into<String>) {
        let message = message.into();
        if self.errors.len() < limits::PROBLEMS_PER_FILE && !self.is_consequence(path, &message) {
            let problem = self.problem(Severity::Error, path, message);
            self.errors.push(problem);
        }
    }

    /// Adds an error for a value of the wrong type.
    pub(crate) fn type_error(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.error(path, message);
        self.type_errors.push(path.to_string());
    }

    /// True when a field was left out because of its type.
    pub(crate) fn has_type_errors(&self) -> bool {
        !self.type_errors.is_empty()
    }

    /// Whether a problem exists only because a field was left out: it is about that field, above or below it, or
    /// about a name that was not found.
    fn is_consequence(&self, path: &Path<'_>, message: &str) -> bool {
        if self.type_errors.is_empty() {
            return false;
        }
        let path = path.to_string();
        message.starts_with("Not found")
            || self.type_errors.iter().any(|m| is_within(m, &path) || is_within(&path, m))
    }

    /// Adds a warning: the pod is accepted, but this part has no effect.
    pub(crate) fn warning(&mut self, path: &Path<'_>, message: impl Into<String>) {
        let message = message.into();
        if self.warnings.len() < limits::PROBLEMS_PER_FILE && !self.is_consequence(path, &message) {
            let problem = self.problem(Severity::Warning, path, message);
            self.warnings.push(problem);
        }
    }

    fn problem(&self, severity: Severity, path: &Path<'_>, message: String) -> Problem {
        let field = path.to_string();
        Problem {
            severity,
            path: self.path.to_owned(),
            at: Some(self.root.place(path)),
            pod: self.pod.clone(),
            field: Some(field).filter(|f| !f.is_empty()),
            message,
        }
    }

    /// True when there is an error at this field or below it.
    pub(crate) fn has_error_at(&self, path: &Path<'_>) -> bool {
        let wanted = path.to_string();
        self.errors.iter().filter_map(|p| p.field.as_deref()).any(|field| is_within(field, &wanted))
    }

    /// True when no more warnings are kept, so they need not be computed.
    pub(crate) fn is_full_of_warnings(&self) -> bool {
        self.warnings.len() >= limits::PROBLEMS_PER_FILE
    }

    /// True when no more errors are kept.
    pub(crate) fn is_full_of_errors(&self) -> bool {
        self.errors.len() >= limits::PROBLEMS_PER_FILE
    }

    /// True without an error so far.
    pub(crate) fn is_good(&self) -> bool {
        self.errors.is_empty()
    }

    /// The pod is only inspected: errors from here on become warnings.
    pub(crate) fn downgrade_errors(&mut self) {
        self.downgraded = Some(self.errors.len());
    }

    /// Errors, then warnings.
    pub(crate) fn into_problems(mut self) -> impl Iterator<Item = Problem> {
        let downgraded = self.downgraded.unwrap_or(usize::MAX);
        self.errors.iter_mut().skip(downgraded).for_each(|e| e.severity = Severity::Warning);
        self.errors.into_iter().chain(self.warnings)
    }
}

/// True when the first field is the second one, or below it.
fn is_within(field: &str, above: &str) -> bool {
    field.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The text with at most [`limits::PROBLEM_VALUE`] characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(limits::PROBLEM_VALUE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A string in quotes, shortened, control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shorten(text))
}

/// `field.Required`.
pub(crate) fn required(detail: &str) -> String {
    if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") }
}
/// `field.Invalid` of a string.
pub(crate) fn invalid(value: &str, detail: &str) -> String {
    format!("Invalid value: {}: {detail}", quoted(value))
}
/// `field.Invalid` of a number or a boolean.
pub(crate) fn invalid_plain(value: impl fmt::Display, detail: &str) -> String {
    format!("Invalid value: {value}: {detail}")
}
/// `field.Duplicate`.
pub(crate) fn duplicate(value: &str) -> String {
    format!("Duplicate value: {}", quoted(value))
}
/// `field.Forbidden`.
pub(crate) fn forbidden(detail: &str) -> String {
    format!("Forbidden: {detail}")
}
/// `field.NotFound`.
pub(crate) fn not_found(value: &str) -> String {
    format!("Not found: {}", quoted(value))
}
/// `field.NotSupported`.
pub(crate) fn unsupported(value: &str, supported: &[&str]) -> String {
    let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    format!("Unsupported value: {}: supported values: {}", quoted(value), list.join(", "))
}
/// `field.TooLong`.
pub(crate) fn too_long(most: usize) -> String {
    format!("Too long: may not be more than {most} bytes")
}
/// `field.TooMany`.
pub(crate) fn too_many(have: usize, most: usize) -> String {
    format!("Too many: {have}: must have at most {most} items")
}

/// `namespace/name` as written.
pub(crate) fn written_name(node: &Node) -> Option<String> {
    let metadata = node.get("metadata")?;
    let text = |key| metadata.get(key).and_then(Node::as_str).filter(|text| !text.is_empty());
    let namespace = text("namespace").unwrap_or("default");
    Some(format!("{}/{}", shorten(namespace), shorten(text("name")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: an unknown field of 900 KB was repeated in the status file, the log and the memory, once for
    /// each problem.
    #[test]
    fn a_path_is_short_whatever_its_fields_are_called() {
        let long = "x".repeat(1 << 20);
        let spec = Path::ROOT.field(&long);
        let path = spec.field(&long);
        assert!(path.to_string().len() < 3 * limits::PROBLEM_VALUE, "{}", path.to_string().len());
    }
}
