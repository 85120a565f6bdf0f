//! `--runonce`: podkeeper starts the pods of the first sets, and ends when all of them run (the kubelet's
//! `pkg/kubelet/runonce.go`). Pure.
//!
//! Never here: stopping a pod. Running pods go on running.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use crate::base::limits;
use crate::pod::problem::Severity;
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The state of each pod and of each source that failed, for an operator.
    pub lines: Vec<String>,
    /// All pods run.
    pub is_good: bool,
}

/// The state of a pod.
enum Became {
    Started,
    Failed(String),
    /// The pod does not run yet, and why.
    NotYet(String),
}

/// The result, once it is known or `waited` is long enough; `None` to wait on.
#[must_use]
pub fn report(snapshot: &Snapshot, waited: Duration) -> Option<Report> {
    if waited < limits::RUN_ONCE_REST {
        return None;
    }
    let no_set = |it: &&crate::status::snapshot::SourceView| !it.ready;
    let silent: Vec<_> = snapshot.sources.iter().filter(no_set).collect();
    if !silent.is_empty() && waited < limits::RUN_ONCE_SETS {
        return None;
    }
    let is_last = waited >= limits::RUN_ONCE_PODS;
    if !snapshot.docker.reachable && !is_last {
        return None;
    }
    let is_wanted =
        |view: &&PodView| view.status.reason.as_deref() != Some(UNMANAGED) && view.leaving.is_none();
    let pods: Vec<(&PodView, Became)> =
        snapshot.pods.iter().filter(is_wanted).map(|view| (view, became(view))).collect();
    let wanted = snapshot.sources.iter().map(|source| source.pods).fold(0, usize::saturating_add);
    let is_open = pods.len() < wanted || pods.iter().any(|(_, became)| matches!(became, Became::NotYet(_)));
    if is_open && !is_last {
        return None;
    }
    let mut report = Report { lines: Vec::new(), is_good: true };
    let mut bad = |line: String| {
        report.is_good = false;
        report.lines.push(line);
    };
    for source in silent {
        let why = source.problem.as_deref().unwrap_or("it has not answered");
        bad(format!("no pod manifest update of source {} after {} s: {why}", source.name, waited.as_secs()));
    }
    let errors = snapshot.problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.for_each(|problem| bad(problem.to_string()));
    if let Some(why) = snapshot.docker.problem.as_deref().filter(|_| !snapshot.docker.reachable) {
        bad(format!("Docker does not answer: {why}"));
    }
    if pods.len() < wanted {
        bad(format!("{} of {wanted} pods have not begun after {} s", wanted - pods.len(), waited.as_secs()));
    }
    for (view, became) in pods {
        let key = &view.pod.key;
        match became {
            Became::Started => report.lines.push(format!("started pod {key}")),
            Became::Failed(why) => {
                report.is_good = false;
                report.lines.push(format!("unable to start pod {key}: {why}"));
            }
            Became::NotYet(why) => {
                report.is_good = false;
                let seconds = waited.as_secs();
                report.lines.push(format!(
                    "unable to start pod {key}: timeout error: containers not running after {seconds} s: {why}"
                ));
            }
        }
    }
    Some(report)
}

/// When the report has to be tried again without an event, after `waited`.
#[must_use]
pub fn due(waited: Duration) -> Duration {
    let next = [limits::RUN_ONCE_REST, limits::RUN_ONCE_SETS, limits::RUN_ONCE_PODS]
        .into_iter()
        .find(|due| *due > waited);
    next.unwrap_or(waited).saturating_sub(waited)
}

/// A pod is started when all of its containers run, or it has ended successfully.
fn became(view: &PodView) -> Became {
    let status = &view.status;
    let all = status.container_statuses.as_deref().unwrap_or_default();
    let words = |reason: Option<&String>, message: Option<&String>| {
        let words = [reason, message].into_iter().flatten().filter(|word| !word.is_empty());
        words.cloned().collect::<Vec<_>>().join(": ")
    };
    match status.phase.as_deref() {
        Some("Succeeded") => return Became::Started,
        Some("Failed") => {
            let why = words(status.reason.as_ref(), status.message.as_ref());
            return Became::Failed(if why.is_empty() { which_failed(status) } else { why });
        }
        _ => {}
    }
    let running = |name: &str| {
        let status = all.iter().find(|status| status.name == name);
        status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
    };
    let Some(missing) = view.pod.spec.containers.iter().find(|container| !running(&container.name)) else {
        return Became::Started;
    };
    let init = status.init_container_statuses.iter().flatten();
    let mut waits = init.chain(all).filter_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let why = words(waiting.reason.as_ref(), waiting.message.as_ref());
        Some(format!("container {}: {why}", status.name))
    });
    Became::NotYet(waits.next_back().unwrap_or_else(|| format!("container {} does not run", missing.name)))
}

/// The first container that failed, and how it ended.
fn which_failed(status: &PodStatus) -> String {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut failed = all.filter_map(|container| {
        let ended = container.state.as_ref()?.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        let reason = ended.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("container {} ended with exit code {}{reason}", container.name, ended.exit_code))
    });
    failed.next().unwrap_or_else(|| "a container failed".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::plan::testing::pod;
    use crate::status::snapshot::{DockerView, SourceView};

    fn view(status: serde_json::Value) -> PodView {
        let status: PodStatus = serde_json::from_value(status).unwrap();
        PodView {
            pod: Arc::new(pod("{containers: [{name: app}]}")),
            status: Arc::new(status),
            leaving: None,
            stale: false,
            is_kept: true,
            is_told: true,
            is_over: false,
            others: Vec::new(),
            runs: false,
            returns: false,
        }
    }

    fn snapshot(ready: bool, pods: Vec<PodView>) -> Snapshot {
        let source: SourceView = serde_json::from_value(
            json!({"name": "file", "location": "/m", "ready": ready, "pods": pods.len()}),
        )
        .unwrap();
        let docker = DockerView { reachable: true, ..DockerView::default() };
        Snapshot { sources: vec![source], pods, docker, ..Snapshot::default() }
    }

    #[test]
    fn it_ends_when_everything_runs_or_cannot() {
        let state = |state: serde_json::Value| {
            json!({"phase": "Running", "containerStatuses": [
                {"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
            ]})
        };
        let check = |snapshot: &Snapshot, seconds: u64, expected: Option<(bool, &str)>| {
            let told = report(snapshot, Duration::from_secs(seconds));
            let told = told.as_ref().map(|it| (it.is_good, it.lines.last().map_or("", String::as_str)));
            assert_eq!(told, expected, "{snapshot:?}");
        };
        check(&snapshot(true, Vec::new()), 0, None);
        check(&snapshot(true, Vec::new()), 2, Some((true, "")));
        check(&snapshot(false, Vec::new()), 1, None);
        let silent = "no pod manifest update of source file after 10 s: it has not answered";
        check(&snapshot(false, Vec::new()), 10, Some((false, silent)));
        let key = view(json!({})).pod.key.to_string();
        let started = format!("started pod {key}");
        check(&snapshot(true, vec![view(state(json!({"running": {}})))]), 2, Some((true, &started)));
        check(&snapshot(true, vec![view(json!({"phase": "Succeeded"}))]), 2, Some((true, &started)));
        let refused = view(json!({"phase": "Failed", "reason": "NodePorts", "message": "no port"}));
        let failed = format!("unable to start pod {key}: NodePorts: no port");
        check(&snapshot(true, vec![refused]), 2, Some((false, &failed)));
        let ended = json!({"phase": "Failed", "containerStatuses": [
            {"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"terminated": {"exitCode": 4, "reason": "Error"}}},
        ]});
        let failed = format!("unable to start pod {key}: container app ended with exit code 4: Error");
        check(&snapshot(true, vec![view(ended)]), 2, Some((false, &failed)));
        let waits = || view(state(json!({"waiting": {"reason": "ImagePullBackOff", "message": "no image"}})));
        check(&snapshot(true, vec![waits()]), 1000, None);
        let late = format!(
            "unable to start pod {key}: timeout error: containers not running after 1023 s: container app: \
             ImagePullBackOff: no image"
        );
        check(&snapshot(true, vec![waits()]), 1023, Some((false, &late)));
        // A pod that the main loop has not handled yet.
        let mut fewer = snapshot(true, vec![view(json!({"phase": "Succeeded"}))]);
        fewer.sources[0].pods = 2;
        check(&fewer, 1, None);
        let mut away = snapshot(true, Vec::new());
        away.docker.reachable = false;
        check(&away, 11, None);
    }

    #[test]
    fn it_wakes_when_its_patience_ends() {
        let seconds = Duration::from_secs;
        assert_eq!((due(seconds(0)), due(seconds(4))), (seconds(2), seconds(6)));
        assert_eq!(due(seconds(10)), seconds(1013));
        assert_eq!(due(seconds(2000)), Duration::ZERO);
    }
}
