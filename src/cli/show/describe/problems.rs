//! The problems of a pod: what is wrong in its manifest, and what its status shows.

use std::fmt::Write;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::{Page, probes};
use crate::base::logging::one_line;
use crate::base::order;
use crate::cli::pods;
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::PodKey;
use crate::pod::problem::{Problem, Severity};
use crate::pod::waiting::Reason;
use crate::recorder::object::Events;
use crate::status::REJECTED;
use crate::status::file::STALE;
use crate::status::snapshot::{StatusFile, UNMANAGED};
use crate::status::task::Task;

/// Adds the problems of this pod: errors first.
pub(super) fn describe(page: &mut Page, file: &StatusFile, pod: &Pod, happened: &Events) {
    let annotations = pod.metadata.annotations.as_ref();
    let is_stale = annotations.is_some_and(|all| all.contains_key(STALE));
    let mut list: Vec<&Problem> = file.problems.iter().filter(|p| is_about(p, file, pod)).collect();
    if is_stale && list.iter().all(|p| p.severity != Severity::Error) {
        // Another object of its file may be wrong: a file is accepted whole or not at all.
        let all = file.problems.iter().filter(|p| p.severity == Severity::Error);
        list.extend(all.filter(|p| is_of_file(p, file, pod)));
    }
    order::sort_by_key(&mut list, |p| p.severity);
    // The reader must learn that the pod's source fails, or that its content is not stored.
    let source = annotations.and_then(|a| a.get(CONFIG_SOURCE));
    let source = file.sources.iter().find(|known| Some(&known.name) == source);
    let failing = source.and_then(|source| source.problem.as_ref().map(|why| (&source.name, why)));
    let mut told = of_status(pod, &list, happened);
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    let key = PodKey { namespace: part(&pod.metadata.namespace), name: part(&pod.metadata.name) };
    if file.stuck.contains(&Task::Pod(key).to_string()) {
        told.push(
            "podkeeper hangs at its work for this pod: a file system or the system does not answer"
                .to_owned(),
        );
    }
    told.extend(probes::unready(pod, happened));
    if is_stale {
        let is_unread = source.is_some_and(|source| source.restored);
        let older = "what runs is an older version of the pod than its source holds now";
        let remembered = "it is what is remembered of its source, which was not read since podkeeper started";
        told.push(if is_unread { remembered } else { older }.to_owned());
    }
    // Otherwise a pod whose containers are not known looks like one that waits.
    let away = pods::without_docker(&file.docker);
    if list.is_empty() && failing.is_none() && told.is_empty() && away.is_none() {
        return page.field(0, "Problems", "<none>");
    }
    page.line(0, "Problems:");
    if let Some(away) = away {
        let _ = writeln!(page.0, "  Error\t{}", one_line(&away));
    }
    if let Some((name, why)) = failing {
        let _ = writeln!(page.0, "  Error\tsource {name}: {}", one_line(why));
    }
    for text in told {
        let _ = writeln!(page.0, "  Error\t{}", one_line(&text));
    }
    for problem in list {
        let word = match problem.severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
        };
        // The page is about this pod: its name is left out.
        let others = problem.pod.clone().filter(|_| !is_about(problem, file, pod));
        let text = Problem { pod: others, ..problem.clone() };
        let _ = writeln!(page.0, "  {word}\t{}", one_line(&text.to_string()));
    }
}

/// Problems that the pod's status shows, without those that `list` has already.
fn of_status(pod: &Pod, list: &[&Problem], happened: &Events) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let mut told = Vec::new();
    let is_wrong = status.phase.as_deref() == Some("Failed") || status.reason.as_deref() == Some(UNMANAGED);
    if let Some(reason) = status.reason.as_deref().filter(|_| is_wrong) {
        let message = status.message.as_deref().unwrap_or_default();
        let message = message.strip_prefix(REJECTED).unwrap_or(message);
        if message.is_empty() || !list.iter().any(|problem| problem.message.contains(message)) {
            told.push(joined(&[reason, message]));
        }
    }
    // Sizes that an edit asks for and that are not in force.
    let pending = status.conditions.iter().flatten().filter(|it| it.type_ == "PodResizePending");
    for resize in pending.filter(|it| it.status == "True") {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        told.push(joined(&[&resize.type_, &part(&resize.reason), &part(&resize.message)]));
    }
    let all =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    for container in all.into_iter().flatten().flatten() {
        let name = format!("container {}", container.name);
        let state = container.state.as_ref();
        let waiting = state.and_then(|state| state.waiting.as_ref());
        if let Some((reason, message)) = waiting.and_then(|w| Some((w.reason.as_deref()?, &w.message))) {
            let message = message.as_deref().unwrap_or_default();
            // At first each container waits for one of these reasons.
            let starts = [Reason::ContainerCreating, Reason::PodInitializing].map(Reason::as_str);
            if !message.is_empty() || !starts.contains(&reason) {
                let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
                let probe = last.and_then(|ended| probes::killed(pod, &container.name, ended, happened));
                let last = last.map(|ended| format!("it ended with {}", end(ended)));
                let last = last.into_iter().chain(probe).collect::<Vec<_>>().join(": ");
                told.push(joined(&[&name, reason, message, &last]));
            }
        }
        let ended = state.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code != 0);
        if let Some(ended) = ended {
            let probe = probes::killed(pod, &container.name, ended, happened);
            told.push(joined(&[&name, &end(ended), &probe.unwrap_or_default()]));
        }
    }
    told
}

/// `OOMKilled: exit code 137`, with its termination message.
fn end(ended: &ContainerStateTerminated) -> String {
    let code = format!("exit code {}", ended.exit_code);
    let (reason, message) = (ended.reason.as_deref(), ended.message.as_deref());
    joined(&[reason.unwrap_or_default(), &code, message.unwrap_or_default()])
}

/// `container app: ErrImagePull: no such host`.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// Whether a problem is about this pod. Problems name a pod as written: without the node's suffix. A problem without a
/// name is about its whole file or answer.
fn is_about(problem: &Problem, file: &StatusFile, pod: &Pod) -> bool {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    let Some(about) = problem.pod.as_deref() else { return is_of_file(problem, file, pod) };
    let Some((namespace, name)) = about.split_once('/') else { return false };
    let written = full.strip_suffix(&file.node).and_then(|n| n.strip_suffix('-')).unwrap_or(full);
    pod.metadata.namespace.as_deref() == Some(namespace) && (name == full || name == written)
}

/// Whether a problem is in the file or answer that this pod comes from.
fn is_of_file(problem: &Problem, file: &StatusFile, pod: &Pod) -> bool {
    let part = |name: &Option<String>| name.clone().unwrap_or_default();
    let key = format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name));
    let origin = file.origins.get(&key).and_then(|origin| origin.strip_prefix(&problem.path));
    origin.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `describe` said that an older version runs, and not why: a policy had refused the edit, or another pod of the file
    /// had an error.
    #[test]
    fn a_page_says_why_an_older_version_runs() {
        let mut file = pods::tests::node().file;
        let web = pods::find(&file, "default", "web").unwrap();
        let annotations = file.pods[web].metadata.annotations.get_or_insert_default();
        annotations.insert(STALE.to_owned(), "true".to_owned());
        file.origins.insert("default/web-node1".to_owned(), "/m/two.yaml#1".to_owned());
        let problem = |pod: &str, message: &str| Problem {
            severity: Severity::Error,
            path: "/m/two.yaml".to_owned(),
            at: Some((5, 3)),
            pod: Some(pod.to_owned()),
            field: None,
            message: message.to_owned(),
        };
        let page = |file: &StatusFile| {
            let mut page = Page::default();
            describe(&mut page, file, &file.pods[web], &Events::default());
            page.0
        };
        file.problems = vec![problem("default/other", "spec is wrong")];
        let (older, whole) =
            ("an older version of the pod", "Error\t/m/two.yaml:5:3: pod default/other: spec is wrong");
        assert!(page(&file).contains(older) && page(&file).contains(whole), "{}", page(&file));
        file.problems.push(problem("default/web-node1", "PodSecurity: no; the version before it stays"));
        let own = "Error\t/m/two.yaml:5:3: PodSecurity: no; the version before it stays";
        assert!(page(&file).contains(own) && !page(&file).contains(whole), "{}", page(&file));
        file.pods[web].metadata.annotations = None;
        file.problems.truncate(1);
        assert!(!page(&file).contains(whole), "it runs as written");
    }

    #[test]
    fn what_the_status_says_is_wrong_is_a_problem() {
        let check = |status: serde_json::Value, expected: &[&str]| {
            let pod = Pod { status: serde_json::from_value(status).unwrap(), ..Pod::default() };
            assert_eq!(of_status(&pod, &[], &Events::default()), expected);
        };
        let waits = |reason: &str, message: &str| {
            serde_json::json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "", "imageID": "",
                "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]})
        };
        check(waits("ContainerCreating", ""), &[]);
        check(waits("PodInitializing", ""), &[]);
        check(waits("ContainerCreating", "no disk"), &["container app: ContainerCreating: no disk"]);
        check(waits("ImagePullBackOff", "Back-off"), &["container app: ImagePullBackOff: Back-off"]);
        check(
            waits("CreateContainerConfigError", "configmap \"c\" not found"),
            &["container app: CreateContainerConfigError: configmap \"c\" not found"],
        );
        let refused = serde_json::json!({"phase": "Failed", "reason": "NodePorts",
            "message": "Pod was rejected: host port 80 is taken"});
        check(refused, &["NodePorts: host port 80 is taken"]);
        check(
            serde_json::json!({"phase": "Pending", "reason": "WaitingForPods", "message": "Waits for a"}),
            &[],
        );
        let ended = serde_json::json!({"phase": "Failed", "initContainerStatuses": [{"name": "first", "image": "",
            "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}]});
        check(ended, &["container first: Error: exit code 2"]);
        let resize = |status: &str| {
            serde_json::json!({"phase": "Running", "conditions": [{"type": "PodResizePending", "status": status,
                "reason": "Infeasible", "message": "Node didn't have enough capacity: memory"}]})
        };
        check(resize("True"), &["PodResizePending: Infeasible: Node didn't have enough capacity: memory"]);
        check(resize("False"), &[]);
        let mut crashes = waits("CrashLoopBackOff", "back-off 10s");
        crashes["containerStatuses"][0]["lastState"] =
            serde_json::json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "bye"}});
        check(
            crashes,
            &["container app: CrashLoopBackOff: back-off 10s: it ended with OOMKilled: exit code 137: bye"],
        );
    }
}
