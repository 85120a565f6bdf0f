//! `run`: makes the configuration from flags, makes and locks the directories, starts logging, then the daemon.
//! Everything that can be refused is refused here, before Docker is asked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use super::exit::Exit;
use super::flags::server::OfNode;
use super::flags::{Options, Verb};
use super::given::Parsed;
use super::parse::UsageError;
use super::{configz, fail, lock, reload, rules, say, value};
use crate::base::{limits, logging, order};
use crate::certificates::files::Place;
use crate::certificates::request::Kind;
use crate::daemon::config::{ApiSource, Config, Images, Sources};
use crate::daemon::main_loop;
use crate::eviction;
use crate::mapping::logs::LogSettings;
use crate::network::{Cni, DockerNetwork, NetworkConfig};
use crate::node::sys;
use crate::node::{Machine, Node};
use crate::plan::DeadPolicy;
use crate::source::signature::{GROUP, KeyFileError, Verifier};
use crate::source::{api, http};
use crate::worker::pulls::Pace;

/// Runs the daemon until it ends. `arguments` follow the word `run`; SIGHUP reads them again.
pub fn run(parsed: &Parsed, arguments: Vec<OsString>) -> Exit {
    let options = &parsed.options;
    logging::init(options.logging.verbosity);
    let host = sys::hostname();
    let config = match configuration(Verb::Run, parsed, &host) {
        Ok(config) => config,
        Err(error) => {
            say(&error.to_string());
            return error.exit;
        }
    };
    // Held until the process ends: the kernel releases the locks, however it ends.
    let _locks = match lock::prepare(&config) {
        Ok(locks) => locks,
        Err(error) => {
            fail(&error.to_string());
            return error.exit();
        }
    };
    log::info!(
        "podkeeper {} starts on node {}: root directory {}, run directory {}",
        super::VERSION,
        config.node_name,
        config.root_dir.display(),
        config.run_dir.display()
    );
    for note in &parsed.notes {
        log::info!("{note}");
    }
    for flag in rules::without_effect(options) {
        log::warn!("{flag}");
    }
    let restore = lock::restore(config.run_dir.clone());
    let config = Arc::new(config);
    let settings = reload::reader(arguments, parsed, &config, host);
    match main_loop::run(config, restore, settings) {
        Ok(None) => Exit::Ok,
        Ok(Some(report)) => {
            let told = super::print(&report.lines.iter().map(|line| format!("{line}\n")).collect::<String>());
            if report.is_good { told } else { fail("runonce failed: not all pods run") }
        }
        Err(error) => fail(&error.to_string()),
    }
}

/// Makes the configuration from flags. `host` is the host's name; errors name the flags of the command `verb`.
pub(super) fn configuration(verb: Verb, parsed: &Parsed, host: &str) -> Result<Config, UsageError> {
    let options = &parsed.options;
    let refuse = |message: String| UsageError { message, verb: Some(verb), exit: Exit::Usage };
    let node_name = options.node.hostname_override.as_deref().unwrap_or(host).trim().to_lowercase();
    if !value::is_dns_subdomain(&node_name) {
        let why = "is not an RFC 1123 subdomain: give this node a name with --hostname-override";
        return Err(refuse(format!("the host's name {host:?} {why}")));
    }
    let full = |path: &Path| absolute(path).map_err(|e| refuse(format!("path {}: {e}", path.display())));
    let node_labels = node_labels(options, &node_name);
    let verifier = verifier(options, &node_name, &node_labels)
        .map_err(|(exit, why)| UsageError { exit, ..refuse(why) })?;
    let eviction = options.eviction.settings().map_err(refuse)?;
    let root_dir = full(&options.directories.root)?;
    let machine = machine(verb, options, &root_dir);
    let directory = options.server.directory(&root_dir, &full)?;
    let certificates = options.certificates(&node_name, &directory, &full)?;
    let serving = certificates.as_ref().filter(|settings| settings.serves);
    let of_node = OfNode {
        name: &node_name,
        ips: &options.node.ips,
        root_dir: &root_dir,
        has_api_server: options.sources.kubeconfig.is_some(),
        signed: serving.map(|_| Place::of(Kind::Serving, &directory).current()),
        configz: configz::text(parsed).into(),
    };
    let api = options.server.api(&node_name, of_node.has_api_server);
    let server = options.server.settings(of_node, &full)?;
    let port = server.main.map(|at| at.port());
    let cluster = options.sources.kubeconfig.as_ref().map(|_| options.cluster_node(&node_name, port));
    Ok(Config {
        node_name,
        node_labels,
        root_dir,
        run_dir: full(&options.directories.run)?,
        docker: options.docker.endpoint.clone(),
        sources: Sources {
            manifest_path: options.sources.manifest_path.as_deref().map(full).transpose()?,
            file_check_frequency: options.sources.file_check_frequency,
            manifest_url: manifest_url(options, &full)?,
            api: api_source(options, &full)?,
            verifier,
            last_good_key_file: options.sources.last_good_key_file.as_deref().map(full).transpose()?,
        },
        sync_frequency: options.sources.sync_frequency,
        runs_once: options.sources.runs_once,
        policy: Arc::new(options.policy.policies().map_err(refuse)?),
        images: images(options, &full)?,
        pod_logs_dir: options.directories.pod_logs.clone(),
        network: network(options, &full)?,
        dead: DeadPolicy {
            min_age: options.docker.dead_min_age,
            per_container: usize::try_from(options.docker.dead_per_container).ok(),
            in_all: usize::try_from(options.docker.dead_in_all).ok(),
        },
        logs: LogSettings {
            driver: options.docker.log_driver,
            max_bytes: u64::try_from(options.docker.log_max_size).ok(),
            max_files: u32::try_from(options.docker.log_max_files).unwrap_or(u32::MAX),
        },
        node: Arc::new(node(options, machine, &eviction).map_err(refuse)?),
        eviction,
        cluster,
        certificates,
        server,
        api,
    }
    .settled())
}

/// Settings of pulls and of image collection.
fn images(
    options: &Options,
    full: &impl Fn(&Path) -> Result<PathBuf, UsageError>,
) -> Result<Images, UsageError> {
    Ok(Images {
        infra: options.docker.infra_image.clone(),
        pulls: Pace {
            deadline: options.docker.pull_progress_deadline,
            at_once: pulls_at_once(options),
            rate: options.docker.registry_qps,
            burst: options.docker.registry_burst,
        },
        preload_dir: options.docker.image_preload_dir.as_deref().map(full).transpose()?,
        garbage: options.garbage.images(),
    })
}

/// The node's own labels, and those of flags.
fn node_labels(options: &Options, node_name: &str) -> BTreeMap<String, String> {
    let own = [
        ("kubernetes.io/hostname", node_name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", sys::architecture(std::env::consts::ARCH)),
    ];
    let mut node_labels = order::map(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    node_labels.extend(options.node.labels.clone());
    node_labels
}

/// The machine that the node is on.
fn machine(verb: Verb, options: &Options, root_dir: &Path) -> Machine {
    match verb {
        Verb::Hollow => Machine { capacity: options.hollow.capacity, ..Machine::default() },
        _ => sys::machine(root_dir),
    }
}

/// The node and its resources.
fn node(
    options: &Options,
    machine: Machine,
    eviction: &eviction::threshold::Settings,
) -> Result<Node, String> {
    let left = eviction::threshold::evicted_below(&eviction.thresholds, machine.capacity);
    Ok(Node::new(&options.node.gives, machine)?.evicts_below(left))
}

/// The network's settings.
fn network(
    options: &Options,
    full: &impl Fn(&Path) -> Result<PathBuf, UsageError>,
) -> Result<NetworkConfig, UsageError> {
    let cidrs = options.docker.network_cidrs.clone();
    Ok(NetworkConfig {
        docker_network: options.docker.network.clone().map(|name| DockerNetwork { name, cidrs }),
        cluster_dns: options.node.cluster_dns.clone(),
        cluster_domain: options.node.cluster_domain.clone(),
        resolv_conf: options.node.resolv_conf.clone(),
        node_ips: options.node.ips.clone(),
        cni: Cni {
            is_on: options.network.is_cni,
            conf_dir: full(&options.network.cni_conf_dir)?,
            bin_dirs: options.network.cni_bin_dirs.clone(),
            cache_dir: full(&options.network.cni_cache_dir)?,
        },
    })
}

/// The keys that manifests must be signed with; `None` when no key file is given.
fn verifier(
    options: &Options,
    node_name: &str,
    node_labels: &BTreeMap<String, String>,
) -> Result<Option<Arc<Verifier>>, (Exit, String)> {
    if options.sources.verify_keys.is_empty() {
        return Ok(None);
    }
    let verifier = Verifier::load(&options.sources.verify_keys).map_err(|error| match error {
        KeyFileError::Unread(why) => (Exit::Failure, format!("verification key of manifests: {why}")),
        KeyFileError::Invalid(why) => (Exit::Usage, format!("verification key of manifests: {why}")),
    })?;
    let verifier = verifier.at_least(options.sources.manifest_min_version);
    let group = node_labels.get(GROUP).map(String::as_str);
    Ok(Some(Arc::new(verifier.of_node(node_name, group))))
}

/// The number of parallel pulls: one, unless pulls are not serialized.
fn pulls_at_once(options: &Options) -> usize {
    let most = options.docker.max_parallel_image_pulls;
    match options.docker.serializes_pulls() {
        true => 1,
        false => most.unwrap_or(limits::PULLS_AT_ONCE).min(limits::PULLS_AT_ONCE),
    }
}

/// The settings of the URL source; `full` makes paths absolute.
fn manifest_url(
    o: &Options,
    full: &impl Fn(&Path) -> Result<PathBuf, UsageError>,
) -> Result<Option<http::Settings>, UsageError> {
    let Some(url) = o.sources.url.clone() else { return Ok(None) };
    let client = match (&o.sources.url_cert_file, &o.sources.url_key_file) {
        (Some(certificate), Some(key)) => {
            Some(http::tls::ClientFiles { certificate: full(certificate)?, key: full(key)? })
        }
        _ => None,
    };
    Ok(Some(http::Settings {
        headers: o.sources.url_headers.clone(),
        frequency: o.sources.http_check_frequency,
        ca_file: o.sources.url_ca_file.as_deref().map(full).transpose()?,
        client,
        max_bytes: o.sources.url_max_size,
        ..http::Settings::new(url)
    }))
}

/// The API server as a source; `full` makes paths absolute.
fn api_source(
    o: &Options,
    full: &impl Fn(&Path) -> Result<PathBuf, UsageError>,
) -> Result<Option<ApiSource>, UsageError> {
    // Without a cluster the node's own API has a store.
    let store = o.server.api_address.map(|_| ApiSource::Store);
    let Some(path) = &o.sources.kubeconfig else { return Ok(store) };
    let settings = api::Settings { kubeconfig: full(path)?, remembers: o.sources.api_last_good };
    Ok(Some(ApiSource::Cluster(settings)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::parse::{Command, parse};

    pub(crate) fn parsed(line: &str) -> Parsed {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::Run(parsed)) => *parsed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn configuration_from_flags() {
        let config =
            configuration(Verb::Run, &parsed("run --pod-manifest-path m/ --node-labels a=b"), "Node1")
                .unwrap();
        assert_eq!(config.node_name, "node1");
        assert!(config.sources.manifest_path.clone().unwrap().is_absolute());
        assert_eq!(config.node_labels.get("kubernetes.io/hostname").map(String::as_str), Some("node1"));
        assert_eq!(config.node_labels.get("a").map(String::as_str), Some("b"));
        assert_eq!(config.declared().len(), 1);
        let config = configuration(
            Verb::Run,
            &parsed("run --pod-manifest-path m --hostname-override EDGE-7 "),
            "my_host",
        )
        .unwrap();
        assert_eq!(config.node_name, "edge-7");
        let line = "run --pod-manifest-path m --docker-network pods --docker-network-cidr 10.9.0.0/16,fd09::/64 \
             --cluster-dns 10.96.0.10 --cluster-domain Cluster.Local. --resolv-conf= --node-ip fd00::1";
        let network = configuration(Verb::Run, &parsed(line), "n").unwrap().network;
        let cidrs = ["10.9.0.0/16", "fd09::/64"].map(str::to_owned).to_vec();
        assert_eq!(network.docker_network, Some(DockerNetwork { name: "pods".to_owned(), cidrs }));
        assert_eq!((network.cluster_domain.as_str(), network.resolv_conf), ("cluster.local", None));
        assert_eq!((network.cluster_dns.len(), network.node_ips.len()), (1, 1));
        let error = configuration(Verb::Run, &parsed("run --pod-manifest-path m"), "my_host").unwrap_err();
        assert!(error.message.contains("\"my_host\" is not an RFC 1123 subdomain"), "{}", error.message);
        let wrong = |key: &str| {
            let line = format!("run --pod-manifest-path m --manifest-verify-key {key}");
            let error = configuration(Verb::Run, &parsed(&line), "n").unwrap_err();
            (error.exit, error.message)
        };
        let (exit, message) = wrong("/nowhere/key");
        assert_eq!(exit, Exit::Failure, "systemd tries again: {message}");
        assert!(
            message.starts_with("verification key of manifests: /nowhere/key: cannot be read"),
            "{message}"
        );
        assert_eq!(wrong(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).0, Exit::Usage);
    }
}
