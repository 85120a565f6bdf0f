//! The parts of a pod that are streams: logs, exec, attach and port-forward, with the code of the kubelet's server.

use serde_json::Value;

use super::failure::Failure;
use crate::server::http::request::Request;
use crate::server::kubelet::{Node, container_logs, streams};
use crate::server::service::Reply;

/// Answers a request for a part of a pod.
///
/// # Errors
/// The container is ambiguous.
pub fn answer(node: &Node, pod: &Value, part: &str, request: &Request) -> Result<Reply, Failure> {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let place = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
    if part == "portforward" {
        return Ok(streams::forward(node, &place, request));
    }
    let container = container(pod, request.query.get("container").unwrap_or_default())?;
    let rest = format!("{place}/{container}");
    // A refusal before an upgrade has the kubelet's words, also through an API server.
    Ok(match part {
        "log" => as_status(container_logs::answer(node, &rest, &request.query)),
        "exec" => streams::command(node, &rest, request, false, streams::API),
        _ => streams::command(node, &rest, request, true, streams::API),
    })
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
