//! The values of all flags as plain data, and how each is set from text. Pure; the defaults come from the
//! table in `flags` by the same way as what the user gives.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::flags::{self, Id};
use super::parse::strip_kind;
use super::profile::Profile;
use super::value;
use crate::base::limits;
use crate::base::quantity;
use crate::base::table::Table;
use crate::manifest::edition::Edition;
use crate::node;
use crate::node::sysctl;
use crate::pod::Source;
use crate::policy::{self, Exceptions, LevelVersion, Policies, Setting, SourcePolicy};
use crate::runtime::docker::Endpoint;
use crate::source::http::headers::{self, Header};
use crate::source::http::url::ManifestUrl;

/// How `get` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `pod/NAME`.
    Name,
}

/// The values of all flags; what a subcommand does not know keeps its default.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is a flag; flags::FLAGS documents it")]
pub struct Options {
    pub manifest_path: Option<PathBuf>,
    pub verify_keys: Vec<PathBuf>,
    pub manifest_min_version: Edition,
    pub strict: bool,
    pub last_good_key_file: Option<PathBuf>,
    pub source: Option<Source>,
    /// `--source SOURCE=PATH`, of check.
    pub sources: Vec<(Source, PathBuf)>,
    pub grace: Option<u32>,
    pub drain_timeout: Duration,
    pub until_reboot: bool,
    pub file_check_frequency: Duration,
    pub manifest_url: Option<ManifestUrl>,
    pub manifest_url_headers: Vec<Header>,
    pub http_check_frequency: Duration,
    pub manifest_url_ca_file: Option<PathBuf>,
    pub manifest_url_cert_file: Option<PathBuf>,
    pub manifest_url_key_file: Option<PathBuf>,
    pub manifest_url_allow_insecure: bool,
    /// Bytes.
    pub manifest_url_max_size: usize,
    pub sync_frequency: Duration,
    pub hostname_override: Option<String>,
    pub node_labels: BTreeMap<String, String>,
    pub node_ips: Vec<IpAddr>,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// `None` for a resolver on the node itself.
    pub resolv_conf: Option<PathBuf>,
    pub docker_network: Option<String>,
    pub docker_network_cidrs: Vec<String>,
    pub docker: Endpoint,
    pub infra_image: Option<String>,
    pub pull_progress_deadline: Duration,
    /// `None` when it is not said.
    pub serialize_image_pulls: Option<bool>,
    /// `None` for no limit.
    pub max_parallel_image_pulls: Option<usize>,
    /// 0 for no limit.
    pub registry_qps: u32,
    pub registry_burst: u32,
    /// `None` for none.
    pub image_preload_dir: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Bytes; negative for never.
    pub container_log_max_size: i64,
    pub container_log_max_files: i64,
    pub pod_logs_dir: PathBuf,
    pub host_network_sources: Vec<Source>,
    pub pod_security: Table<Source, LevelVersion>,
    /// Of all sources, but for its level and the host's network.
    pub policy: SourcePolicy,
    pub source_policy: Exceptions,
    pub node: node::Options,
    pub root_dir: PathBuf,
    pub run_dir: PathBuf,
    pub verbosity: u8,
    pub namespace: String,
    pub all_namespaces: bool,
    pub output: Output,
    pub watch: bool,
    /// Name of a pod.
    pub for_pod: Option<String>,
    pub no_headers: bool,
    pub container: Option<String>,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    /// `None` for all lines.
    pub tail: Option<u64>,
    pub since: Duration,
    pub stdin: bool,
    pub tty: bool,
    pub image: Option<String>,
    pub target: Option<String>,
    pub profile: Profile,
    pub recursive: bool,
}

impl Options {
    /// What holds when nothing is given.
    ///
    /// # Errors
    /// A default in the table is not one of its flag's values; a test sees to it that all are.
    pub fn defaults() -> Result<Options, String> {
        let mut options = Options {
            manifest_path: None,
            verify_keys: Vec::new(),
            manifest_min_version: Edition::default(),
            strict: false,
            last_good_key_file: None,
            source: None,
            sources: Vec::new(),
            grace: None,
            drain_timeout: Duration::ZERO,
            until_reboot: false,
            file_check_frequency: Duration::ZERO,
            manifest_url: None,
            manifest_url_headers: Vec::new(),
            http_check_frequency: Duration::ZERO,
            manifest_url_ca_file: None,
            manifest_url_cert_file: None,
            manifest_url_key_file: None,
            manifest_url_allow_insecure: false,
            manifest_url_max_size: 0,
            sync_frequency: Duration::ZERO,
            hostname_override: None,
            node_labels: BTreeMap::new(),
            node_ips: Vec::new(),
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            resolv_conf: None,
            docker_network: None,
            docker_network_cidrs: Vec::new(),
            docker: Endpoint::Fake,
            infra_image: None,
            pull_progress_deadline: Duration::ZERO,
            serialize_image_pulls: None,
            max_parallel_image_pulls: None,
            registry_qps: 0,
            registry_burst: 0,
            image_preload_dir: None,
            container_log_max_size: 0,
            container_log_max_files: 0,
            pod_logs_dir: PathBuf::new(),
            host_network_sources: Vec::new(),
            pod_security: Table::new(),
            policy: SourcePolicy::default(),
            source_policy: Exceptions::default(),
            node: node::Options::default(),
            config: None,
            root_dir: PathBuf::new(),
            run_dir: PathBuf::new(),
            verbosity: 0,
            namespace: String::new(),
            all_namespaces: false,
            output: Output::Table,
            watch: false,
            for_pod: None,
            no_headers: false,
            container: None,
            follow: false,
            previous: false,
            timestamps: false,
            tail: None,
            since: Duration::ZERO,
            stdin: false,
            tty: false,
            image: None,
            target: None,
            profile: Profile::General,
            recursive: false,
        };
        for flag in flags::FLAGS.iter().filter(|f| !f.default.is_empty()) {
            let done = options.set(flag.id, OsStr::new(flag.default));
            done.map_err(|why| format!("default of --{}: {why}", flag.name))?;
        }
        Ok(options)
    }

    /// Sets one flag.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set(&mut self, id: Id, raw: &OsStr) -> Result<(), String> {
        let o = self;
        let utf8 = || raw.to_str().ok_or("not UTF-8".to_owned());
        let path =
            || if raw.is_empty() { Err("must not be empty".to_owned()) } else { Ok(PathBuf::from(raw)) };
        let word = || utf8().map(|t| Some(t.to_owned()).filter(|t| !t.is_empty()));
        let switch = || value::boolean(utf8()?);
        let duration = || value::duration(utf8()?);
        match id {
            Id::PodManifestPath => o.manifest_path = Some(path()?),
            Id::ManifestVerifyKey | Id::VerifyKey => o.verify_keys.push(path()?),
            Id::ManifestMinVersion => o.manifest_min_version = Edition::parse(utf8()?)?,
            Id::Strict => o.strict = switch()?,
            Id::LastGoodKeyFile => o.last_good_key_file = Some(path()?),
            Id::Source => match utf8()?.split_once('=') {
                None => o.source = Some(source(utf8()?)?),
                Some((_, "")) => return Err("must not be empty behind the =".to_owned()),
                Some((name, path)) => o.sources.push((source(name)?, path.into())),
            },
            Id::Grace => o.grace = Some(not_negative(utf8()?)?),
            Id::Timeout => o.drain_timeout = duration()?,
            Id::UntilReboot => o.until_reboot = switch()?,
            Id::FileCheckFrequency => o.file_check_frequency = duration()?,
            Id::ManifestUrl => o.manifest_url = word()?.map(|text| ManifestUrl::parse(&text)).transpose()?,
            Id::ManifestUrlHeader => headers::parse(utf8()?, &mut o.manifest_url_headers)?,
            Id::HttpCheckFrequency => o.http_check_frequency = duration()?,
            Id::ManifestUrlCaFile => o.manifest_url_ca_file = Some(path()?),
            Id::ManifestUrlCertFile => o.manifest_url_cert_file = Some(path()?),
            Id::ManifestUrlKeyFile => o.manifest_url_key_file = Some(path()?),
            Id::ManifestUrlAllowInsecure => o.manifest_url_allow_insecure = switch()?,
            Id::ManifestUrlMaxSize => {
                let size = value::number(utf8()?)?;
                let size = usize::try_from(size).ok().filter(|s| (1..=limits::URL_BODY_MAX).contains(s));
                let bounds = || format!("must be between 1 and {}, inclusive", limits::URL_BODY_MAX);
                o.manifest_url_max_size = size.ok_or_else(bounds)?;
            }
            Id::SyncFrequency => o.sync_frequency = duration()?,
            Id::HostnameOverride => o.hostname_override = word()?,
            Id::NodeLabels => value::labels(utf8()?, &mut o.node_labels)?,
            Id::NodeIp => o.node_ips = value::node_ips(utf8()?)?,
            Id::ClusterDns => o.cluster_dns.extend(value::addresses(utf8()?)?),
            Id::ClusterDomain => o.cluster_domain = value::domain(utf8()?)?,
            Id::ResolvConf => o.resolv_conf = Some(PathBuf::from(raw)).filter(|_| !raw.is_empty()),
            Id::DockerNetwork => o.docker_network = value::network(utf8()?)?,
            Id::DockerNetworkCidr => {
                for word in words(utf8()?) {
                    o.docker_network_cidrs.push(value::cidr(word)?);
                }
            }
            Id::DockerEndpoint => o.docker = endpoint(utf8()?)?,
            Id::PodInfraContainerImage => o.infra_image = word()?,
            Id::ImagePullProgressDeadline => o.pull_progress_deadline = duration()?,
            Id::SerializeImagePulls => o.serialize_image_pulls = Some(switch()?),
            Id::MaxParallelImagePulls => {
                let most = usize::try_from(value::number(utf8()?)?).ok().filter(|most| *most > 0);
                o.max_parallel_image_pulls = Some(most.ok_or("must be a positive number")?);
            }
            Id::RegistryQps => o.registry_qps = not_negative(utf8()?)?,
            Id::RegistryBurst => o.registry_burst = not_negative(utf8()?)?,
            Id::ImagePreloadDir => o.image_preload_dir = Some(PathBuf::from(raw)).filter(|_| !raw.is_empty()),
            Id::ContainerLogMaxSize => {
                let size = quantity::value(utf8()?);
                o.container_log_max_size = size.map_err(|_| "must be a quantity, such as 10Mi".to_owned())?;
            }
            Id::ContainerLogMaxFiles => o.container_log_max_files = value::number(utf8()?)?,
            Id::PodLogsDir => o.pod_logs_dir = PathBuf::from(raw),
            Id::HostNetworkSources => o.host_network_sources = value::sources(utf8()?)?,
            Id::AllowPrivileged => o.policy.set(Setting::AllowPrivileged, utf8()?)?,
            Id::PodSecurity => o.pod_security = policy::parse_sources(utf8()?)?,
            Id::AllowedHostPaths => o.policy.set(Setting::AllowedHostPaths, utf8()?)?,
            Id::AllowedImages => o.policy.set(Setting::AllowedImages, utf8()?)?,
            Id::SourcePolicy => o.source_policy.add(utf8()?)?,
            Id::KubeReserved => o.node.kube_reserved = node::parse_reserved(utf8()?)?,
            Id::SystemReserved => o.node.system_reserved = node::parse_reserved(utf8()?)?,
            Id::MaxPods => o.node.max_pods = not_negative(utf8()?)?.into(),
            Id::PodMaxPids => o.node.pod_max_pids = value::number(utf8()?)?,
            Id::CgroupsPerQos => o.node.cgroups_per_qos = switch()?,
            Id::CgroupRoot => o.node.cgroup_root = cgroup_root(utf8()?)?,
            Id::AllowedUnsafeSysctls => o.node.allowed_unsafe_sysctls = sysctl::parse_patterns(utf8()?)?,
            Id::Device => o.node.devices.add(utf8()?)?,
            Id::AllowedDevices => {
                // Given again, it takes the place of what was given before.
                o.policy.allowed_devices.clear();
                o.policy.set(Setting::AllowedDevices, utf8()?)?;
            }
            Id::RequireImageDigest => o.policy.set(Setting::RequireImageDigest, utf8()?)?,
            Id::Config => o.config = Some(path()?),
            Id::RootDir => o.root_dir = path()?,
            Id::RunDir => o.run_dir = path()?,
            Id::Verbosity => {
                let level = value::number(utf8()?)?;
                o.verbosity = u8::try_from(level)
                    .ok()
                    .filter(|l| *l <= 10)
                    .ok_or("must be between 0 and 10, inclusive")?;
            }
            Id::Namespace => o.namespace = word()?.ok_or("must not be empty")?,
            Id::AllNamespaces => o.all_namespaces = switch()?,
            Id::Output => o.output = output(utf8()?)?,
            Id::Watch => o.watch = switch()?,
            Id::For => {
                let text = word()?;
                let name = text.as_deref().and_then(strip_kind).filter(|name| !name.is_empty());
                o.for_pod = Some(name.ok_or("not pod/NAME")?.to_owned());
            }
            Id::NoHeaders => o.no_headers = switch()?,
            Id::Container => o.container = word()?,
            Id::Follow => o.follow = switch()?,
            Id::Previous => o.previous = switch()?,
            Id::Timestamps => o.timestamps = switch()?,
            Id::Tail => {
                let lines = value::number(utf8()?)?;
                o.tail = if lines == -1 {
                    None
                } else {
                    Some(u64::try_from(lines).map_err(|_| "must be greater than or equal to -1")?)
                };
            }
            Id::Since => o.since = duration()?,
            Id::Stdin => o.stdin = switch()?,
            Id::Tty => o.tty = switch()?,
            Id::Image => o.image = word()?,
            Id::Target => o.target = word()?,
            Id::Profile => o.profile = Profile::parse(utf8()?)?,
            Id::Recursive => o.recursive = switch()?,
        }
        Ok(())
    }
}

impl Options {
    /// What pods of each source may do: flags for all sources, and over them what is said of single ones.
    ///
    /// # Errors
    /// None that was not told when the flags were read.
    pub fn policies(&self) -> Result<Policies, String> {
        let mut policies = Policies::all(self.policy.clone());
        for source in Source::ALL {
            let pod_security = self.pod_security.get(&source).copied();
            let host_network = self.host_network_sources.contains(&source);
            let policy = SourcePolicy { pod_security, host_network, ..self.policy.clone() };
            policies = policies.with(source, policy);
        }
        policies.except(&self.source_policy)
    }
}

/// Docker's place: `unix:///PATH` or `fake://`.
///
/// # Errors
/// Anything else.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    match text.split_once("://") {
        Some(("fake", "")) => Ok(Endpoint::Fake),
        Some(("unix", path)) if path.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(path))),
        _ => Err("must be unix:///PATH or fake://".to_owned()),
    }
}

/// A path below the mounted cgroups, without ways up.
fn cgroup_root(text: &str) -> Result<String, String> {
    let up = text.split('/').any(|part| matches!(part, "." | ".."));
    if !text.is_empty() && (!text.starts_with('/') || up) {
        return Err("must be an absolute path below the mounted cgroups".to_owned());
    }
    Ok(text.to_owned())
}

fn not_negative(text: &str) -> Result<u32, String> {
    u32::try_from(value::number(text)?).map_err(|_| "must not be a negative number".to_owned())
}

/// Words with commas between.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// A source that remembers.
fn source(text: &str) -> Result<Source, String> {
    Source::parse(text).filter(|s| *s != Source::Api).ok_or_else(|| "must be file or http".to_owned())
}

fn output(text: &str) -> Result<Output, String> {
    match text {
        "" => Ok(Output::Table),
        "wide" => Ok(Output::Wide),
        "json" => Ok(Output::Json),
        "yaml" => Ok(Output::Yaml),
        "name" => Ok(Output::Name),
        _ => Err("allowed formats are: wide,json,yaml,name".to_owned()),
    }
}
