//! `/pods`: the wanted pods with their statuses; `/runningpods/`: the pods that run, according to Docker.

use crate::base::json::json;
use crate::base::table::Table;
use serde_json::Value;

use super::Node;
use crate::network::address;
use crate::runtime::{DockerState, labels};
use crate::server::http::answer::{Answer, JSON};
use crate::status::file;

/// The desired pods, as a `PodList`.
pub fn desired(node: &Node) -> Answer {
    let addresses = address::of_node(&node.node_ips);
    Answer::new(200, JSON, file::pod_list(&node.pods.get(), &addresses))
}

/// The running pods in Docker's list (upstream `pkg/kubelet/server/server.go`, `getRunningPods`).
pub fn running(node: &Node) -> Answer {
    let ours = format!("{}={}", labels::ROOT_DIR, node.root_dir.display());
    let listed = match node.docker.list(vec![ours]) {
        Ok(listed) => listed,
        Err(error) => return Answer::text(500, &error.to_string()),
    };
    let mut pods: Table<String, Value> = Table::new();
    for found in listed.iter().filter(|found| found.state == DockerState::Running) {
        let label = |name: &str| found.labels.get(name).cloned().unwrap_or_default();
        let is_container = label(labels::TYPE) == labels::TYPE_CONTAINER;
        let metadata = json!({
            "name": label(labels::POD_NAME), "namespace": label(labels::POD_NAMESPACE), "uid": label(labels::POD_UID),
        });
        let fresh = || json!({"metadata": metadata, "spec": {"containers": []}, "status": {}});
        let pod = pods.get_or_insert_with(label(labels::POD_UID), fresh);
        if let Some(Value::Array(containers)) = pod.pointer_mut("/spec/containers").filter(|_| is_container) {
            let name = label(labels::CONTAINER_NAME);
            containers.push(json!({"name": name, "image": found.image_id, "resources": {}}));
        }
    }
    let items: Vec<Value> = pods.into_values().collect();
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
    Answer::new(200, JSON, list.to_string())
}
