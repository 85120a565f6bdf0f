//! The parts of a pod that are streams: logs, exec, attach and port-forward, with the code of the kubelet's server.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::Value;

use super::failure::Failure;
use super::value::part;
use crate::base::json;
use crate::server::http::request::Request;
use crate::server::kubelet::{Node, container_logs, streams};
use crate::server::service::Reply;
use crate::status::container_log;

/// Answers a request for a part of a pod.
///
/// # Errors
/// The container is ambiguous, or has no log yet.
pub fn answer(node: &Node, pod: &Value, wanted: &str, request: &Request) -> Result<Reply, Failure> {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let place = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
    if wanted == "portforward" {
        return Ok(streams::forward(node, &place, request));
    }
    let container = container(pod, request.query.get("container").unwrap_or_default())?;
    let rest = format!("{place}/{container}");
    if let Some(why) = not_made(pod, &container).filter(|_| wanted == "log") {
        return Err(Failure::new(400, why));
    }
    // A refusal before an upgrade has the kubelet's words, also through an API server.
    Ok(match wanted {
        "log" => as_status(container_logs::answer(node, &rest, &request.query)),
        "exec" => streams::command(node, &rest, request, false, streams::API),
        _ => streams::command(node, &rest, request, true, streams::API),
    })
}

/// Why an added container has no log: it is being made, or could not be made. The node's pods do not have it yet.
fn not_made(pod: &Value, container: &str) -> Option<String> {
    let added = part(pod, "/spec/ephemeralContainers").as_array().into_iter().flatten();
    let mut added = added.filter_map(|one| one.get("name")?.as_str());
    added.find(|name| *name == container)?;
    let status: PodStatus = json::read(part(pod, "/status")).ok()?;
    container_log::of(&status, part(pod, "/metadata/name").as_str().unwrap_or_default(), container, false)
        .err()
}

/// The container of a request (`pkg/registry/core/pod/strategy.go`).
fn container(pod: &Value, wanted: &str) -> Result<String, Failure> {
    let names = |path: &str| -> Vec<String> {
        let all = pod.pointer(path).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(|one| one.get("name")?.as_str().map(str::to_owned)).collect()
    };
    let pod_name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let regular = names("/spec/containers");
    if !wanted.is_empty() {
        let others =
            ["/spec/initContainers", "/spec/ephemeralContainers", "/status/ephemeralContainerStatuses"];
        let mut all = regular.into_iter().chain(others.into_iter().flat_map(names));
        return all
            .find(|name| name == wanted)
            .ok_or_else(|| Failure::new(400, format!("container {wanted} is not valid for pod {pod_name}")));
    }
    match regular.as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let names = several.join(" ");
            let why =
                format!("a container name must be specified for pod {pod_name}, choose one of: [{names}]");
            Err(Failure::new(400, why))
        }
    }
}

/// A refusal of a log in the form of the API.
fn as_status(reply: Reply) -> Reply {
    let Reply::Whole(answer) = reply else { return reply };
    if answer.status < 400 {
        return Reply::Whole(answer);
    }
    let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
    Failure::new(answer.status, text).answer().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::json;

    /// It was called unknown while its image was pulled.
    #[test]
    fn an_added_container_has_no_log_before_it_runs() {
        let with = |state: Value| {
            let status = json!({"name": "look", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            json!({
                "metadata": {"name": "web"}, "spec": {"ephemeralContainers": [{"name": "look"}]},
                "status": {"ephemeralContainerStatuses": [status]},
            })
        };
        let waits = with(json!({"waiting": {"reason": "ContainerCreating"}}));
        let why = "container \"look\" in pod \"web\" is waiting to start: ContainerCreating";
        assert_eq!(not_made(&waits, "look").as_deref(), Some(why));
        let failed = with(json!({"terminated": {"exitCode": 128, "message": "no such image"}}));
        let why = "container \"look\" in pod \"web\" is terminated";
        assert_eq!(not_made(&failed, "look").as_deref(), Some(why));
        let ended = with(json!({"terminated": {"exitCode": 0, "containerID": "docker://abc"}}));
        assert_eq!(not_made(&ended, "look"), None);
        assert_eq!(not_made(&waits, "app"), None, "the kubelet's server knows it");
    }
}
