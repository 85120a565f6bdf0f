//! The instance of a container whose log is meant (upstream `validateContainerLogStatus` in `pkg/kubelet/kubelet.go`).
//! Pure.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, PodStatus};

use crate::pod::waiting::Reason;
use crate::runtime::names::docker_id;

/// Docker's id of the instance: the last one that has ended if `previous`, otherwise the one that runs or ran last.
///
/// # Errors
/// Why there is none, in the kubelet's words.
pub fn of(status: &PodStatus, pod: &str, container: &str, previous: bool) -> Result<String, String> {
    let all =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = all.into_iter().flatten().flatten();
    // A pod that is refused, or waits for others, has no containers.
    let whole = status;
    let not_there = || {
        let part = |text: &Option<String>| text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        let (reason, message) = (part(&whole.reason), part(&whole.message));
        format!("container {container:?} in pod {pod:?} is not available{reason}{message}")
    };
    let status = all.find(|status| status.name == container).ok_or_else(not_there)?;
    let id = |text: Option<&String>| text.and_then(|text| docker_id(text)).map(str::to_owned);
    let none = ContainerState::default();
    let last = status.last_state.as_ref().unwrap_or(&none).terminated.as_ref();
    let last = last.and_then(|ended| id(ended.container_id.as_ref()));
    if previous {
        let why = || format!("previous terminated container {container:?} in pod {pod:?} not found");
        return last.ok_or_else(why);
    }
    let state = status.state.as_ref().unwrap_or(&none);
    if state.running.is_some() {
        return id(status.container_id.as_ref()).ok_or_else(not_there);
    }
    if let Some(ended) = &state.terminated {
        let why = || format!("container {container:?} in pod {pod:?} is terminated");
        return id(ended.container_id.as_ref()).or(last).ok_or_else(why);
    }
    // It waits to run again: the log of its last instance shows why. One that Docker has created may run by now: see
    // `unstarted`.
    last.or_else(|| id(status.container_id.as_ref())).ok_or_else(|| waits(status, pod, container))
}

/// What to tell if Docker has created the instance and not started it: it would end its log at once, also a followed one.
#[must_use]
pub fn unstarted(status: &PodStatus, pod: &str, container: &str) -> Option<String> {
    let all =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let status = all.into_iter().flatten().flatten().find(|status| status.name == container)?;
    let state = status.state.as_ref()?;
    state.waiting.is_some().then(|| waits(status, pod, container))
}

fn waits(status: &ContainerStatus, pod: &str, container: &str) -> String {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let what = match reason {
        "ErrImagePull" => "trying and failing to pull image",
        "ImagePullBackOff" => "image can't be pulled",
        // Docker has created it, and not started it.
        "" if waiting.is_some() => Reason::ContainerCreating.as_str(),
        "" => return format!("container {container:?} in pod {pod:?} is not available"),
        reason => reason,
    };
    format!("container {container:?} in pod {pod:?} is waiting to start: {what}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    };

    use super::*;

    /// A status with a container in this state or with this waiting reason; its last state has the id `last` if
    /// `has_last`.
    fn status(state: &str, has_last: bool) -> PodStatus {
        let ended = |id: &str| ContainerStateTerminated {
            container_id: Some(format!("docker://{id}")),
            ..ContainerStateTerminated::default()
        };
        let state = match state {
            "running" => ContainerState {
                running: Some(ContainerStateRunning { started_at: None }),
                ..ContainerState::default()
            },
            "ended" => ContainerState { terminated: Some(ended("current")), ..ContainerState::default() },
            reason => ContainerState {
                waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message: None }),
                ..ContainerState::default()
            },
        };
        let last =
            has_last.then(|| ContainerState { terminated: Some(ended("last")), ..ContainerState::default() });
        let container = ContainerStatus {
            name: "c".to_owned(),
            container_id: state.waiting.is_none().then(|| "docker://current".to_owned()),
            state: Some(state),
            last_state: last,
            ..ContainerStatus::default()
        };
        PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() }
    }

    #[test]
    fn a_container_of_which_nothing_but_its_id_is_told_has_a_log() {
        let mut known = status("running", false);
        for one in known.container_statuses.iter_mut().flatten() {
            one.state = None;
        }
        assert_eq!(of(&known, "p", "c", false), Ok("current".to_owned()));
    }

    #[test]
    fn the_log_that_is_meant() {
        let find =
            |state: &str, has_last: bool, previous: bool| of(&status(state, has_last), "p", "c", previous);
        let table = [
            ("running", true, false, Ok("current")),
            ("running", true, true, Ok("last")),
            ("running", false, true, Err("previous terminated container \"c\" in pod \"p\" not found")),
            ("ended", false, false, Ok("current")),
            ("CrashLoopBackOff", true, false, Ok("last")),
            (
                "ContainerCreating",
                false,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                "ErrImagePull",
                false,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            ),
            (
                "ImagePullBackOff",
                false,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
        ];
        for (state, has_last, previous, expected) in table {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(find(state, has_last, previous), expected, "{state} {has_last} {previous}");
        }
        let mut created = status("ContainerCreating", false);
        for one in created.container_statuses.iter_mut().flatten() {
            one.container_id = Some("docker://current".to_owned());
        }
        let why = "container \"c\" in pod \"p\" is waiting to start: ContainerCreating";
        assert_eq!(of(&created, "p", "c", false), Ok("current".to_owned()), "it may run by now");
        assert_eq!(unstarted(&created, "p", "c").as_deref(), Some(why));
        assert_eq!(unstarted(&status("running", false), "p", "c"), None);
        assert_eq!(unstarted(&status("ended", false), "p", "c"), None, "its start may have failed");
        let none = of(&PodStatus::default(), "p", "c", false);
        assert_eq!(none, Err("container \"c\" in pod \"p\" is not available".to_owned()));
        let (reason, message) = (Some("Forbidden".to_owned()), Some("Pod was rejected: no".to_owned()));
        let refused = of(&PodStatus { reason, message, ..PodStatus::default() }, "p", "c", false);
        let why = "container \"c\" in pod \"p\" is not available: Forbidden: Pod was rejected: no";
        assert_eq!(refused, Err(why.to_owned()));
    }
}
