//! Messages about a pod that does not exist.

use super::standing::is_outdated;
use super::{is_called, names, namespace};
use crate::base::human::many;
use crate::base::logging::one_line;
use crate::cli::flags::Options;
use crate::pod::problem::{Problem, Severity};
use crate::status::snapshot::StatusFile;

/// The message when there is nothing to list.
#[must_use]
pub fn none_found(options: &Options) -> String {
    match options.command.all_namespaces {
        true => "No resources found".to_owned(),
        false => format!("No resources found in {} namespace.", options.command.namespace),
    }
}

/// The message for a name that does not exist: `pods "x" not found`, and where such a pod is instead.
#[must_use]
pub fn not_found(file: &StatusFile, wanted: &str, name: &str) -> String {
    let elsewhere = file.pods.iter().find(|p| namespace(p) != wanted && names(name, p, &file.node));
    match elsewhere.map(namespace) {
        Some(other) => {
            format!("pods \"{name}\" not found in namespace {wanted}; there is one with -n {other}")
        }
        None => match refused(file, wanted, name) {
            Some(why) => format!("pods \"{name}\" not found, for its manifest is not taken: {why}"),
            None if is_outdated(file) => {
                format!("pods \"{name}\" not found in the last known state, which is not current")
            }
            None => format!("pods \"{name}\" not found{}", in_manifests(file)),
        },
    }
}

/// The reason why a pod of a manifest does not exist: the first error about it.
fn refused(file: &StatusFile, wanted: &str, name: &str) -> Option<String> {
    let is_its = |problem: &&Problem| {
        let of = problem.pod.as_deref().and_then(|pod| pod.split_once('/'));
        // Manifests name pods without the node's suffix.
        let is_called = |pod: &str| is_called(name, pod, &file.node) || is_called(pod, name, &file.node);
        let is_named = of.is_some_and(|(namespace, pod)| namespace == wanted && is_called(pod));
        problem.severity == Severity::Error && is_named
    };
    file.problems.iter().find(is_its).map(|problem| one_line(&problem.to_string()))
}

/// A hint that the pod may be in a manifest with errors.
fn in_manifests(file: &StatusFile) -> String {
    match file.problems.iter().filter(|p| p.severity == Severity::Error).count() {
        0 => match file.sources.iter().find_map(|source| Some((&source.name, source.problem.as_ref()?))) {
            Some((name, why)) => format!("; source {name} is not read now: {}", one_line(why)),
            None => String::new(),
        },
        n => format!("; manifests have {}: podkeeper check lists them all", many(n, "error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::status::node_object::STATUS_UNKNOWN;
    use crate::status::snapshot::ConditionView;

    /// `describe` said "not found" of a pod whose manifest had an error, and did not mention the error.
    #[test]
    fn it_is_said_why_a_pod_is_not_there() {
        let mut file = crate::cli::pods::tests::node().file;
        file.problems = vec![Problem {
            severity: Severity::Error,
            path: "/m/x.yaml".to_owned(),
            at: Some((3, 5)),
            pod: Some("default/later".to_owned()),
            field: None,
            message: "no good".to_owned(),
        }];
        let why = "not found, for its manifest is not taken: /m/x.yaml:3:5: pod default/later: no good";
        for name in ["later", "later-node1"] {
            assert_eq!(not_found(&file, "default", name), format!("pods \"{name}\" {why}"));
        }
        let other = not_found(&file, "other", "later");
        assert_eq!(other, "pods \"later\" not found; manifests have 1 error: podkeeper check lists them all");
        file.problems.clear();
        for source in &mut file.sources {
            source.problem = None;
        }
        assert_eq!(not_found(&file, "default", "later"), "pods \"later\" not found");
        file.conditions = vec![ConditionView {
            type_: "Ready".to_owned(),
            is_true: false,
            reason: STATUS_UNKNOWN.to_owned(),
            message: String::new(),
            since: Timestamp::UNIX_EPOCH,
        }];
        let unknown = not_found(&file, "default", "later");
        assert_eq!(unknown, "pods \"later\" not found in the last known state, which is not current");
        file.conditions.clear();
        file.sources[0].problem = Some("it hangs".to_owned());
        let name = &file.sources[0].name;
        let expected = format!("pods \"later\" not found; source {name} is not read now: it hangs");
        assert_eq!(not_found(&file, "default", "later"), expected);
    }
}
