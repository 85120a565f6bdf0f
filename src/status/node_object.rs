//! The node as the API's `Node`, and its row in kubectl's table: from the daemon's data and the machine's own. Pure.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::snapshot::{ConditionView, DockerView, NodeView, Snapshot, StatusFile};
use crate::base::clock::Timestamp;
use crate::base::human;
use crate::base::logging::one_line;
use crate::node::facts::Facts;

/// The daemon's data about the node.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub node: &'a str,
    pub addresses: &'a [String],
    pub docker: &'a DockerView,
    /// The node is drained, or being drained.
    pub drained: bool,
    pub conditions: &'a [ConditionView],
    pub info: &'a NodeView,
    /// podkeeper's version.
    pub version: &'a str,
}

impl<'a> About<'a> {
    /// Data from the daemon's status file.
    #[must_use]
    pub fn of_file(file: &'a StatusFile) -> About<'a> {
        About {
            node: &file.node,
            addresses: &file.addresses,
            docker: &file.docker,
            drained: file.drain.is_some(),
            conditions: &file.conditions,
            info: &file.info,
            version: &file.version,
        }
    }

    /// Data from this daemon's snapshot.
    #[must_use]
    pub fn of_snapshot(snapshot: &'a Snapshot, addresses: &'a [String], version: &'a str) -> About<'a> {
        About {
            node: &snapshot.node,
            addresses,
            docker: &snapshot.docker,
            drained: snapshot.drain.is_some(),
            conditions: &snapshot.conditions,
            info: &snapshot.info,
            version,
        }
    }

    /// This program's version, in place of the kubelet's.
    #[must_use]
    pub fn kubelet_version(&self) -> String {
        format!("podkeeper-{}", one_line(self.version))
    }

    /// `docker (27.1.0)`.
    #[must_use]
    pub fn runtime(&self) -> String {
        match &self.docker.version {
            Some(version) => format!("docker ({version})"),
            None => "docker".to_owned(),
        }
    }

    /// The cells of `printNode` in `pkg/printers/internalversion/printers.go`.
    #[must_use]
    pub fn cells(&self, facts: &Facts, wide: bool, now: Timestamp) -> Vec<String> {
        let ready = self.conditions.iter().find(|condition| condition.type_ == "Ready");
        let mut status = match ready {
            Some(ready) if ready.is_true => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if self.drained {
            status.push_str(",SchedulingDisabled");
        }
        let age = self.info.started.map(|started| now.as_second().saturating_sub(started.as_second()));
        let age = age.map_or_else(|| "<unknown>".to_owned(), human::duration);
        let mut cells = vec![one_line(self.node), status, "<none>".to_owned(), age, self.kubelet_version()];
        if wide {
            let ip = self.addresses.first().map_or("<none>", String::as_str);
            cells.extend([one_line(ip), "<none>".to_owned()]);
            cells.extend([&facts.os_image, &facts.kernel, &self.runtime()].map(|text| one_line(text)));
        }
        cells
    }

    /// The API's `Node`.
    #[must_use]
    pub fn object(&self, facts: &Facts) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), self.node.into());
        metadata.insert("labels".to_owned(), json!(self.info.labels));
        if let Some(started) = self.info.started {
            metadata.insert("creationTimestamp".to_owned(), seconds(started).into());
        }
        let spec = if self.drained { json!({"unschedulable": true}) } else { json!({}) };
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "spec": spec,
            "status": self.status(facts),
        })
    }

    /// Its status.
    #[must_use]
    pub fn status(&self, facts: &Facts) -> Value {
        let addresses = self.addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip}));
        let addresses: Vec<Value> =
            addresses.chain([json!({"type": "Hostname", "address": self.node})]).collect();
        json!({
            "addresses": addresses,
            "allocatable": self.info.allocatable,
            "capacity": self.info.capacity,
            "conditions": self.conditions.iter().map(condition).collect::<Vec<_>>(),
            "declaredFeatures": DECLARED_FEATURES,
            "nodeInfo": {
                "architecture": facts.architecture,
                "bootID": facts.boot_id,
                "containerRuntimeVersion": self.runtime(),
                "kernelVersion": facts.kernel,
                "kubeletVersion": self.kubelet_version(),
                "machineID": facts.machine_id,
                "operatingSystem": "linux",
                "osImage": facts.os_image,
                "systemUUID": facts.system_uuid,
            },
        })
    }
}

/// Features without whose declaration a scheduler keeps the pods that need them away from the node
/// (`staging/src/k8s.io/component-helpers/nodedeclaredfeatures`), sorted as the kubelet sorts them. Not here, for they are
/// not done: `InPlacePodLevelResourcesVerticalScaling`; `ExtendWebSocketsToKubelet`, which no pod needs.
const DECLARED_FEATURES: [&str; 2] =
    ["InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"];

/// A condition in the API's form.
#[must_use]
pub fn condition(c: &ConditionView) -> Value {
    json!({"type": c.type_, "status": status_word(c), "reason": c.reason, "message": c.message,
           "lastTransitionTime": seconds(c.since)})
}

/// Reason of conditions that are not kept up to date any more (`pkg/controller/nodelifecycle`).
pub const STATUS_UNKNOWN: &str = "NodeStatusUnknown";

/// `True`, `False` or `Unknown`.
#[must_use]
pub fn status_word(condition: &ConditionView) -> &'static str {
    match condition.is_true {
        _ if condition.reason == STATUS_UNKNOWN => "Unknown",
        true => "True",
        false => "False",
    }
}

fn seconds(time: Timestamp) -> String {
    super::seconds(time).0.to_string()
}
