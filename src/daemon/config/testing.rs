//! Settings of a daemon whose loop runs without its threads. For tests only.

use std::path::PathBuf;
use std::time::Duration;

use super::{Config, Sources};
use crate::eviction::threshold;
use crate::mapping::logs::LogSettings;
use crate::runtime::docker::Endpoint;
use crate::server;

/// A node with manifests in `/m`, on the in-memory Docker, with all optional features off.
#[must_use]
pub fn config(node_name: &str, root_dir: &str) -> Config {
    let labels = [("kubernetes.io/hostname", node_name), ("kubernetes.io/os", "linux")];
    Config {
        node_name: node_name.into(),
        node_labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        root_dir: root_dir.into(),
        run_dir: "/run/podkeeper".into(),
        docker: Endpoint::Fake,
        sources: Sources {
            manifest_path: Some(PathBuf::from("/m")),
            file_check_frequency: Duration::from_secs(20),
            ..Sources::default()
        },
        sync_frequency: Duration::from_secs(60),
        runs_once: false,
        policy: Default::default(),
        images: Default::default(),
        pod_logs_dir: "/var/log/pods".into(),
        network: Default::default(),
        dead: Default::default(),
        logs: LogSettings { driver: Default::default(), max_bytes: None, max_files: 5 },
        node: Default::default(),
        cluster: None,
        certificates: None,
        eviction: threshold::Settings::none(),
        server: server::Settings::default(),
        api: None,
    }
}
