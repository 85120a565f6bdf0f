//! The probe, or postStart hook, that keeps a container from being ready, or that had it killed. The status does not have it; the events
//! do, as long as they are kept.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::recorder::object::{EventObject, Events};

/// The begin of the message of a failed postStart hook.
const HOOK: &str = "PostStartHook failed";

/// A line for each running container that is not ready, with the message of its probe.
pub(super) fn unready(pod: &Pod, happened: &Events) -> Vec<String> {
    let status = pod.status.as_ref();
    let all =
        status.into_iter().flat_map(|status| [&status.init_container_statuses, &status.container_statuses]);
    let line = |container: &k8s_openapi::api::core::v1::ContainerStatus| {
        let running = container.state.as_ref()?.running.as_ref().filter(|_| !container.ready)?;
        let kinds = ["Readiness probe", "Startup probe", HOOK];
        let said = last(pod, &container.name, happened, |event| {
            let is_of_probe = kinds.iter().any(|kind| event.message.starts_with(kind));
            is_of_probe && is_within(event, running.started_at.as_ref(), None)
        })?;
        Some(format!("container {}: not ready: {}", container.name, said.message))
    };
    all.flatten().flatten().filter_map(line).collect()
}

/// The probe's message for which a container that has ended was killed.
pub(super) fn killed(
    pod: &Pod,
    container: &str,
    ended: &ContainerStateTerminated,
    happened: &Events,
) -> Option<String> {
    let in_its_life =
        |event: &EventObject| is_within(event, ended.started_at.as_ref(), ended.finished_at.as_ref());
    let kinds = [
        ("failed liveness probe", "Liveness probe"),
        ("failed startup probe", "Startup probe"),
        ("FailedPostStartHook", HOOK),
    ];
    kinds.iter().find_map(|(kill, probe)| {
        last(pod, container, happened, |event| {
            event.reason == "Killing" && event.message.contains(kill) && in_its_life(event)
        })?;
        let said =
            last(pod, container, happened, |event| event.message.starts_with(probe) && in_its_life(event));
        Some(format!("killed: {}", said.map_or(*kill, |event| event.message.as_str())))
    })
}

/// The latest event of a container that matches.
fn last<'a>(
    pod: &Pod,
    container: &str,
    happened: &'a Events,
    is_meant: impl Fn(&EventObject) -> bool,
) -> Option<&'a EventObject> {
    let of = format!("{{{container}}}");
    let is_its = |event: &&EventObject| {
        super::is_of(&event.involved_object, pod) && event.involved_object.field_path.ends_with(&of)
    };
    happened
        .items
        .iter()
        .filter(is_its)
        .filter(|event| is_meant(event))
        .max_by_key(|event| event.last_timestamp.0)
}

/// Whether the event was last seen between these two times, as far as they are known. The status has whole seconds.
fn is_within(event: &EventObject, from: Option<&Time>, to: Option<&Time>) -> bool {
    let at = event.last_timestamp.0.as_second();
    from.is_none_or(|from| at >= from.0.as_second()) && to.is_none_or(|to| at <= to.0.as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &serde_json::Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "default", "uid": "u1"}, "status": status}),
        )
        .unwrap()
    }

    /// Events of: reason, second of the minute, message.
    fn events(all: &[(&str, u32, &str)]) -> Events {
        let event = |(reason, second, message): &(&str, u32, &str)| {
            let at = format!("2026-01-02T03:04:{second:02}Z");
            let object = json!({"apiVersion": "v1", "kind": "Event",
                "metadata": {"name": "e", "namespace": "default", "creationTimestamp": at},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "u1",
                    "fieldPath": "spec.containers{app}"},
                "reason": reason, "message": message, "source": {"component": "podkeeper"},
                "firstTimestamp": at, "lastTimestamp": at, "count": 1, "type": "Warning"});
            serde_json::from_value(object).unwrap()
        };
        Events { items: all.iter().map(event).collect(), ..Events::default() }
    }

    #[test]
    fn the_probe_is_named_that_keeps_a_container_from_being_ready() {
        let status = |ready: bool| {
            json!({"containerStatuses": [{"name": "app", "image": "", "imageID": "", "restartCount": 0, "ready": ready,
                "state": {"running": {"startedAt": "2026-01-02T03:04:10Z"}}}]})
        };
        let readiness = ("Unhealthy", 20, "Readiness probe failed: HTTP 503");
        let told =
            |ready: bool, happened: &[(&str, u32, &str)]| unready(&pod(&status(ready)), &events(happened));
        assert_eq!(told(false, &[readiness]), ["container app: not ready: Readiness probe failed: HTTP 503"]);
        assert_eq!(told(true, &[readiness]), [""; 0]);
        assert_eq!(told(false, &[]), [""; 0], "it is not known");
        assert_eq!(
            told(false, &[("Unhealthy", 9, "Readiness probe failed: old")]),
            [""; 0],
            "of an earlier instance"
        );
        assert_eq!(told(false, &[("Unhealthy", 20, "Liveness probe failed: no")]), [""; 0]);
        let both = [readiness, ("Unhealthy", 21, "Readiness probe failed: later")];
        assert_eq!(told(false, &both), ["container app: not ready: Readiness probe failed: later"]);
    }

    #[test]
    fn the_probe_is_named_for_which_a_container_was_killed() {
        let ended: ContainerStateTerminated =
            serde_json::from_value(json!({"exitCode": 137, "reason": "Error",
            "startedAt": "2026-01-02T03:04:10Z", "finishedAt": "2026-01-02T03:04:40Z"}))
            .unwrap();
        let pod = pod(&json!({}));
        let told = |happened: &[(&str, u32, &str)]| killed(&pod, "app", &ended, &events(happened));
        let said = ("Unhealthy", 30, "Liveness probe failed: no answer");
        let kill = |second| ("Killing", second, "Container app failed liveness probe, will be restarted");
        assert_eq!(told(&[said, kill(31)]).as_deref(), Some("killed: Liveness probe failed: no answer"));
        assert_eq!(told(&[kill(31)]).as_deref(), Some("killed: failed liveness probe"));
        assert_eq!(told(&[said]), None, "it ended by itself");
        assert_eq!(told(&[said, kill(9)]), None, "that was an earlier one");
        assert_eq!(told(&[said, kill(50)]), None, "that was a later one");
        assert_eq!(killed(&pod, "other", &ended, &events(&[said, kill(31)])), None);
    }
}
