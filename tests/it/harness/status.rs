//! Lookups in the status file of a node.

use super::*;

impl Node {
    /// The status file, once there is one.
    pub fn status(&self) -> Option<StatusFile> {
        let bytes = fs::read(self.run_dir().join("status.json")).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    /// A pod's name on this node.
    pub fn full(&self, pod: &str) -> String {
        format!("{pod}-{}", self.name)
    }

    /// A pod in the status file; `pod` is the name in the manifest.
    pub fn pod(&self, pod: &str) -> Option<ApiPod> {
        let name = self.full(pod);
        self.status()?.pods.into_iter().find(|p| p.metadata.name.as_deref() == Some(&name))
    }

    /// Phase of a pod in the status file; empty for a pod that is missing.
    pub fn phase(&self, pod: &str) -> String {
        self.pod(pod).and_then(|p| p.status).and_then(|s| s.phase).unwrap_or_default()
    }

    /// Reason of a pod in the status file.
    pub fn reason(&self, pod: &str) -> String {
        self.pod(pod).and_then(|p| p.status).and_then(|s| s.reason).unwrap_or_default()
    }

    /// Status of a container of a pod, init and ephemeral containers too.
    pub fn container_status(&self, pod: &str, container: &str) -> Option<ContainerStatus> {
        let status = self.pod(pod)?.status?;
        let all =
            [status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses];
        all.into_iter().flatten().flatten().find(|c| c.name == container)
    }

    /// How often a container was restarted, by the status file.
    pub fn restarts(&self, pod: &str, container: &str) -> i32 {
        self.container_status(pod, container).map_or(0, |status| status.restart_count)
    }

    /// Reason for which a container waits, by the status file; empty when it does not wait.
    pub fn waits_for(&self, pod: &str, container: &str) -> String {
        let state = self.container_status(pod, container).and_then(|c| c.state);
        state.and_then(|s| s.waiting).and_then(|w| w.reason).unwrap_or_default()
    }
}
