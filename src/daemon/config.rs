//! The daemon's settings as plain data. `cli/` makes them from flags; every room reads them, and none changes
//! them.

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::api;
use crate::certificates;
use crate::cluster;
use crate::eviction::threshold;
use crate::garbage::images;
use crate::mapping::logs::LogSettings;
use crate::network::NetworkConfig;
use crate::node::Node;
use crate::plan::DeadPolicy;
use crate::pod::Source;
use crate::policy::Policies;
use crate::runtime::docker::Endpoint;
use crate::server;
use crate::source::api as of_cluster;
use crate::source::http;
use crate::source::signature::Verifier;
use crate::source::store;
use crate::worker::pulls::Pace;

/// The API server that pods of [`Source::Api`] come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiSource {
    /// The API server of a cluster.
    Cluster(of_cluster::Settings),
    /// Clients of this node's own API; what they write is stored below the root directory.
    Store,
}

/// Settings of `podkeeper run`. Flag names and defaults are in `cli::flags`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `--hostname-override`, else the host's name; lower case, a DNS-1123 subdomain.
    pub node_name: String,
    /// `--node-labels` plus `kubernetes.io/hostname`, `/os`, `/arch`.
    pub node_labels: BTreeMap<String, String>,
    /// `--root-dir`, absolute: state that outlives a boot, and the lock. Also marks podkeeper's containers.
    pub root_dir: PathBuf,
    /// `--run-dir`, absolute: status file.
    pub run_dir: PathBuf,
    /// `--docker-endpoint`.
    pub docker: Endpoint,
    /// Where pods come from.
    pub sources: Sources,
    /// `--sync-frequency`: the safety net's period.
    pub sync_frequency: Duration,
    /// `--runonce`.
    pub runs_once: bool,
    /// The rights of each source's pods: `--source-policy` over the flags for all sources.
    pub policy: Arc<Policies>,
    /// Where images come from, and when they are removed.
    pub images: Images,
    /// `--pod-logs-dir`: absolute and normalized, and not `/`.
    pub pod_logs_dir: PathBuf,
    /// `--minimum-container-ttl-duration`, `--maximum-dead-containers-per-container`,
    /// `--maximum-dead-containers`.
    pub dead: DeadPolicy,
    /// `--container-log-driver`, `--container-log-max-size`, `--container-log-max-files`.
    pub logs: LogSettings,
    /// `--docker-network`, `--docker-network-cidr`, `--cluster-dns`, `--cluster-domain`, `--resolv-conf`,
    /// `--node-ip`.
    pub network: NetworkConfig,
    /// Resources that this node has and gives to pods: `--kube-reserved`, `--max-pods`, `--device` and similar flags.
    pub node: Arc<Node>,
    /// `--register-node` and the other settings for reporting this node to an API server; `None` without an API server.
    pub cluster: Option<cluster::node::Settings>,
    /// `--bootstrap-kubeconfig`, `--rotate-certificates`, `--rotate-server-certificates`; `None` without an API server.
    pub certificates: Option<certificates::Settings>,
    /// `--eviction-hard`, `--eviction-soft` and the other flags about eviction.
    pub eviction: threshold::Settings,
    /// `--port`, `--read-only-port`, `--healthz-port` and the other flags of these servers.
    pub server: server::Settings,
    /// `--api-address`; `None` when there is no API.
    pub api: Option<api::Settings>,
}

/// Where pods come from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sources {
    /// `--pod-manifest-path`, absolute.
    pub manifest_path: Option<PathBuf>,
    /// `--file-check-frequency`.
    pub file_check_frequency: Duration,
    /// `--manifest-url` and the flags that belong to it.
    pub manifest_url: Option<http::Settings>,
    /// `--kubeconfig` and the flags that belong to it, or `--api-address`.
    pub api: Option<ApiSource>,
    /// Keys of `--manifest-verify-key`; `None` when manifests need no signature.
    pub verifier: Option<Arc<Verifier>>,
    /// `--last-good-key-file`, absolute; `None` for the one below the root directory.
    pub last_good_key_file: Option<PathBuf>,
}

/// Where images come from, and when they are removed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Images {
    /// `--pod-infra-container-image`; `None` for the built-in one.
    pub infra: Option<String>,
    /// `--image-pull-progress-deadline`, `--serialize-image-pulls`, `--max-parallel-image-pulls`,
    /// `--registry-qps`, `--registry-burst`.
    pub pulls: Pace,
    /// `--image-preload-dir`, absolute; `None` for none.
    pub preload_dir: Option<PathBuf>,
    /// `--image-gc-high-threshold`, `--image-gc-low-threshold`, `--minimum-image-ttl-duration`,
    /// `--image-maximum-gc-age`, `--pinned-images`.
    pub garbage: images::Policy,
}

impl Sources {
    /// Whether its pods from an API server are those of a cluster.
    #[must_use]
    pub const fn in_cluster(&self) -> bool {
        matches!(self.api, Some(ApiSource::Cluster(_)))
    }
}

impl Config {
    /// The sources this configuration declares. One that is not declared does not exist: it delays
    /// nothing and owns nothing (kubernetes/kubernetes#59275).
    #[must_use]
    pub fn declared(&self) -> Vec<Source> {
        let file = self.sources.manifest_path.as_ref().map(|_| Source::File);
        let http = self.sources.manifest_url.as_ref().map(|_| Source::Http);
        let api = self.sources.api.as_ref().map(|_| Source::Api);
        file.into_iter().chain(http).chain(api).collect()
    }

    /// The same configuration, with the declared sources written into the policies.
    #[must_use]
    pub fn settled(mut self) -> Config {
        self.policy = Arc::new(Policies::clone(&self.policy).settled(&self.declared()));
        self
    }

    /// Path or URL of a source; a URL without its query, which may hold a secret.
    #[must_use]
    pub fn location(&self, source: Source) -> String {
        let Sources { manifest_path, manifest_url, api, .. } = &self.sources;
        match source {
            Source::File => manifest_path.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
            Source::Http => manifest_url.as_ref().map(|s| s.url.to_string()).unwrap_or_default(),
            Source::Api => match api {
                Some(ApiSource::Cluster(settings)) => settings.kubeconfig.display().to_string(),
                Some(ApiSource::Store) => store::directory(&self.root_dir).display().to_string(),
                None => String::new(),
            },
        }
    }
}
