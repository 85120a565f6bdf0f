//! The pods that the user means: the status file, filtered by namespace and name.

mod missing;
mod standing;

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;

use super::flags::{self, Options};
use crate::base::human::many;
use crate::base::limits;
use crate::base::logging::one_line;
use crate::base::order;
use crate::pod::fields;
use crate::pod::problem::Severity;
use crate::status::snapshot::{SourceView, StatusFile};
pub use missing::{none_found, not_found};
pub(super) use standing::{Daemon, docker_is_away, without_docker};
pub use standing::{load, must_answer};

/// The daemon's root directory. The file of an earlier version does not have it: the default is assumed.
#[must_use]
pub fn root_dir(file: &StatusFile) -> PathBuf {
    let root = if file.root_dir.is_empty() { flags::ROOT_DIR } else { file.root_dir.as_str() };
    PathBuf::from(root)
}

/// Whether `given` names the pod: by its name, with or without the node's suffix.
fn names(given: &str, pod: &Pod, node: &str) -> bool {
    is_called(given, pod.metadata.name.as_deref().unwrap_or_default(), node)
}

/// Whether `given` is this name of a pod, with or without the node's suffix.
#[must_use]
pub fn is_called(given: &str, name: &str, node: &str) -> bool {
    name == given || name.strip_prefix(given).and_then(|rest| rest.strip_prefix('-')) == Some(node)
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

/// Index of the pod of that name in a namespace; the full name wins over the name without the suffix.
#[must_use]
pub fn find(file: &StatusFile, wanted: &str, name: &str) -> Option<usize> {
    let of = |full: bool| {
        file.pods.iter().position(|p| {
            let same = p.metadata.name.as_deref() == Some(name);
            namespace(p) == wanted && if full { same } else { names(name, p, &file.node) }
        })
    };
    of(true).or_else(|| of(false))
}

/// Indices of the pods that `get` and `describe` show, sorted by namespace and name (or in the order of the given
/// names), and messages about names that do not exist.
#[must_use]
pub fn select(file: &StatusFile, options: &Options, given: &[String]) -> (Vec<usize>, Vec<String>) {
    let wanted = options.command.namespace.as_str();
    if given.is_empty() {
        let mut all: Vec<(usize, &Pod)> = file.pods.iter().enumerate().collect();
        all.retain(|(_, p)| options.command.all_namespaces || namespace(p) == wanted);
        let command = &options.command;
        all.retain(|(_, p)| command.selector.matches(p.metadata.labels.as_ref()));
        all.retain(|(_, p)| command.field_selector.matches(|name| fields::value(p, name)));
        order::sort_by_key(&mut all, |(_, p)| (namespace(p), p.metadata.name.as_deref().unwrap_or_default()));
        return (all.into_iter().map(|(index, _)| index).collect(), Vec::new());
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in given {
        match find(file, wanted, name) {
            Some(index) if found.contains(&index) => {}
            Some(index) => found.push(index),
            None => missing.push(not_found(file, wanted, name)),
        }
    }
    (found, missing)
}

/// The message when there is nothing to list.
#[must_use]
pub fn nothing(file: &StatusFile, options: &Options) -> String {
    let mut text = none_found(options);
    if options.command.all_namespaces {
        return text;
    }
    let mut others: Vec<&str> = file.pods.iter().map(namespace).collect();
    let chosen = !options.command.selector.is_empty() || !options.command.field_selector.is_empty();
    if !others.is_empty() && !chosen {
        let (many, count) = (if others.len() == 1 { "pod is" } else { "pods are" }, others.len());
        order::sort(&mut others);
        others.dedup();
        others.truncate(5);
        let places = others.join(", ");
        text.push_str(&format!("\n{count} {many} in other namespaces ({places}): use -A, or -n NAMESPACE."));
    }
    text
}

/// Errors of manifests: without them a reader would miss a pod in the list, or take the old version of a pod for the
/// one in its file.
#[must_use]
pub fn errors(file: &StatusFile) -> Vec<String> {
    let all: Vec<_> = file.problems.iter().filter(|p| p.severity == Severity::Error).collect();
    let shown = all.iter().take(limits::ERRORS_SHOWN);
    let mut lines: Vec<String> = shown.map(|p| format!("warning: {}", one_line(&p.to_string()))).collect();
    let more = all.len().saturating_sub(limits::ERRORS_SHOWN);
    if more > 0 {
        lines.push(format!("warning: {more} more errors in manifests (podkeeper check lists them all)"));
    }
    lines
}

/// A line for each source that could not be read or whose content is not accepted, with the content that counts
/// meanwhile, and a line about threads that hang: without them the list would look current.
#[must_use]
pub fn failing(file: &StatusFile) -> Vec<String> {
    let line = |source: &SourceView| {
        let why = one_line(source.problem.as_deref()?);
        let kept = match (source.ready || source.restored, source.pods) {
            (false, _) => "nothing is known of it yet: none of its pods is started or stopped".to_owned(),
            (true, 0) => "no pod of it is in force".to_owned(),
            (true, n) => format!("what it said last counts: {}", many(n, "pod")),
        };
        Some(format!("warning: source {}: {why}; {kept}", source.name))
    };
    let hangs = (!file.stuck.is_empty()).then(|| {
        let all = one_line(&file.stuck.join(", "));
        format!("warning: podkeeper hangs at its work, for a disk may not answer, and nothing is done there: {all}")
    });
    file.sources.iter().filter_map(line).chain(hangs).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::parse::{Command, LogsOf, parse};
    use crate::status::file::{self, Status};

    /// A node in many states: see `tests/golden/cli/node.json`.
    pub(crate) fn node() -> Status {
        file::parse(include_bytes!("../../tests/golden/cli/node.json")).unwrap()
    }

    pub(crate) fn options(line: &str) -> (Box<Options>, Vec<String>) {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::Get(options, names) | Command::Describe(options, names)) => (options, names),
            Ok(Command::Logs(options, LogsOf::Pod(pod))) => (options, vec![pod]),
            Ok(Command::Logs(options, LogsOf::Selected)) => (options, Vec::new()),
            Ok(Command::Exec(options, pod, _)) => (options, vec![pod]),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn check(line: &str, expected: &[&str], missing: &[&str]) {
        let file = node().file;
        let (options, names) = options(line);
        let (found, not) = select(&file, &options, &names);
        let found: Vec<_> = found.iter().map(|i| file.pods[*i].metadata.name.as_deref().unwrap()).collect();
        assert_eq!(
            (found.as_slice(), not.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
            (expected, missing)
        );
    }

    #[test]
    fn a_list_says_which_sources_fail_and_what_counts_meanwhile() {
        let mut file = node().file;
        file.sources.clear();
        assert_eq!(failing(&file), [""; 0]);
        let mut source = |ready, restored, pods, problem: Option<&str>| {
            file.sources = vec![SourceView {
                location: "https://example.com/pods".into(),
                ready,
                restored,
                pods,
                problem: problem.map(str::to_owned),
                ..SourceView::silent("http")
            }];
            failing(&file).join("\n")
        };
        let down = Some("https://example.com/pods: no answer\nwithin 10 s");
        let says = "warning: source http: https://example.com/pods: no answer\\nwithin 10 s; ";
        assert_eq!(source(true, false, 3, None), "");
        assert_eq!(source(true, false, 3, down), format!("{says}what it said last counts: 3 pods"));
        assert_eq!(source(false, true, 1, down), format!("{says}what it said last counts: 1 pod"));
        assert_eq!(source(true, false, 0, down), format!("{says}no pod of it is in force"));
        assert_eq!(
            source(false, false, 0, down),
            format!("{says}nothing is known of it yet: none of its pods is started or stopped")
        );
    }

    #[test]
    fn a_list_says_what_hangs() {
        let mut file = node().file;
        file.sources.clear();
        assert_eq!(failing(&file), [""; 0]);
        file.stuck = vec!["pod default/a".to_owned(), "the file source".to_owned()];
        let says = "warning: podkeeper hangs at its work, for a disk may not answer, and nothing is done there: \
                    pod default/a, the file source";
        assert_eq!(failing(&file), [says]);
    }

    #[test]
    fn names_with_and_without_the_nodes_suffix() {
        check("get pods web", &["web-node1"], &[]);
        check("get pods web-node1 web", &["web-node1"], &[]);
        check(
            "get pods nope web",
            &["web-node1"],
            &["pods \"nope\" not found; manifests have 2 errors: podkeeper check lists them all"],
        );
        check(
            "get pods we",
            &[],
            &["pods \"we\" not found; manifests have 2 errors: podkeeper check lists them all"],
        );
        check(
            "get pods proxy",
            &[],
            &["pods \"proxy\" not found in namespace default; there is one with -n kube-system"],
        );
        check("get pods -n kube-system proxy", &["proxy-node1"], &[]);
        check("get pods -n empty", &[], &[]);
    }

    #[test]
    fn an_empty_namespace_is_not_an_empty_node() {
        let (o, _) = options("get pods -n empty");
        let text = nothing(&node().file, &o);
        assert!(text.starts_with("No resources found in empty namespace.\n"), "{text}");
        assert!(text.contains("pods are in other namespaces (default, kube-system): use -A"), "{text}");
        let none = StatusFile { pods: vec![], ..node().file };
        assert_eq!(nothing(&none, &o), "No resources found in empty namespace.");
        let (o, _) = options("get pods -A");
        assert_eq!(nothing(&none, &o), "No resources found");
    }

    #[test]
    fn errors_in_manifests_are_told_up_to_a_bound() {
        let mut file = node().file;
        let errors = |file: &StatusFile| errors(file).join("\n");
        assert_eq!(
            errors(&file),
            "warning: /etc/podkeeper/manifests/web-old.yaml: pod default/web: is in web.yaml too: the one that \
             runs keeps the name\nwarning: /etc/podkeeper/manifests/x.yaml:1:1: not YAML"
        );
        let error = file.problems.iter().find(|p| p.severity == Severity::Error).unwrap().clone();
        file.problems = vec![error; limits::ERRORS_SHOWN + 2];
        assert!(
            errors(&file).ends_with("\nwarning: 2 more errors in manifests (podkeeper check lists them all)"),
            "{}",
            errors(&file)
        );
        file.problems.clear();
        assert_eq!(errors(&file), "");
    }
}
