//! The one flag table: parsing, `--help` and the man page are made from it or checked against it. A flag
//! that is not here does not exist. Names are the kubelet's (`run`) and kubectl's (the rest).

pub use super::verbs::Verb;

/// Groups of flags in `--help` and the man page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Where pods come from.
    Sources,
    /// Name and labels of the node.
    Node,
    /// Docker and images.
    Docker,
    /// What pods may do.
    Policy,
    /// Where things are kept.
    Directories,
    /// Log lines.
    Logging,
    /// Of the commands that look at pods.
    Pods,
}

impl Section {
    /// In the order of `--help`.
    pub const ALL: &[Section] = &[
        Section::Sources,
        Section::Node,
        Section::Docker,
        Section::Policy,
        Section::Directories,
        Section::Logging,
        Section::Pods,
    ];

    /// Heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Section::Sources => "Sources of pods",
            Section::Node => "Node",
            Section::Docker => "Docker",
            Section::Policy => "What pods may do",
            Section::Directories => "Directories",
            Section::Logging => "Logging",
            Section::Pods => "Flags",
        }
    }
}

/// Which flag: what the parser matches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the name of the flag in the table below")]
pub enum Id {
    PodManifestPath,
    FileCheckFrequency,
    ManifestVerifyKey,
    ManifestMinVersion,
    VerifyKey,
    Strict,
    LastGoodKeyFile,
    Source,
    Grace,
    Timeout,
    UntilReboot,
    ManifestUrl,
    ManifestUrlHeader,
    HttpCheckFrequency,
    ManifestUrlCaFile,
    ManifestUrlCertFile,
    ManifestUrlKeyFile,
    ManifestUrlAllowInsecure,
    ManifestUrlMaxSize,
    SyncFrequency,
    HostnameOverride,
    NodeLabels,
    NodeIp,
    ClusterDns,
    ClusterDomain,
    ResolvConf,
    DockerEndpoint,
    PodInfraContainerImage,
    DockerNetwork,
    DockerNetworkCidr,
    ImagePullProgressDeadline,
    SerializeImagePulls,
    MaxParallelImagePulls,
    RegistryQps,
    RegistryBurst,
    ImagePreloadDir,
    ContainerLogMaxSize,
    ContainerLogMaxFiles,
    PodLogsDir,
    HostNetworkSources,
    AllowPrivileged,
    KubeReserved,
    SystemReserved,
    MaxPods,
    PodMaxPids,
    CgroupsPerQos,
    CgroupRoot,
    AllowedUnsafeSysctls,
    Device,
    AllowedDevices,
    PodSecurity,
    AllowedHostPaths,
    AllowedImages,
    RequireImageDigest,
    SourcePolicy,
    Config,
    RootDir,
    RunDir,
    Verbosity,
    Namespace,
    AllNamespaces,
    Output,
    Watch,
    For,
    NoHeaders,
    Container,
    Follow,
    Previous,
    Timestamps,
    Tail,
    Since,
    Stdin,
    Tty,
    Image,
    Target,
    Profile,
    Recursive,
}

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing, or `=true`, `=false`.
    Switch,
    /// A value; the word stands for it in help.
    Value(&'static str),
}

/// One row of the table.
#[derive(Debug)]
pub struct Flag {
    /// For the parser.
    pub id: Id,
    /// Long name with dashes, without the leading ones.
    pub name: &'static str,
    /// One-letter name.
    pub short: Option<char>,
    /// Value or switch.
    pub takes: Takes,
    /// As one would write it; empty for none (a switch is off).
    pub default: &'static str,
    /// One line, no full stop.
    pub help: &'static str,
    /// Group.
    pub section: Section,
    /// Subcommands that know it.
    pub verbs: &'static [Verb],
}

const IMAGES: &[Verb] = &[Verb::Run, Verb::Pull, Verb::Load];
const RUN: &[Verb] = &[Verb::Run];
const RUN_CHECK: &[Verb] = &[Verb::Run, Verb::Check];
const PODS: &[Verb] = &[Verb::Get, Verb::Describe, Verb::Logs, Verb::Exec, Verb::Debug];
const COMMANDS: &[Verb] = &[Verb::Exec, Verb::Debug];
const LISTS: &[Verb] = &[Verb::Get, Verb::Describe];
const STREAMS: &[Verb] = &[Verb::Logs, Verb::Exec, Verb::Debug];
const ALMOST_ALL: &[Verb] =
    &[Verb::Run, Verb::Drain, Verb::Resume, Verb::Get, Verb::Describe, Verb::Logs, Verb::Exec, Verb::Debug];

const CONFIGURED: &[Verb] = &[
    Verb::Run,
    Verb::Check,
    Verb::Forget,
    Verb::Drain,
    Verb::Resume,
    Verb::Get,
    Verb::Describe,
    Verb::Logs,
    Verb::Exec,
    Verb::Debug,
    Verb::Pull,
    Verb::Load,
];

const fn flag(
    id: Id,
    names: (&'static str, Option<char>),
    takes: Takes,
    default: &'static str,
    (section, verbs): (Section, &'static [Verb]),
    help: &'static str,
) -> Flag {
    Flag { id, name: names.0, short: names.1, takes, default, help, section, verbs }
}

use Takes::{Switch, Value};

/// Every flag. `-h`/`--help` belongs to every subcommand and is not listed.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    flag(Id::PodManifestPath, ("pod-manifest-path", None), Value("PATH"), "", (Section::Sources, RUN),
         "Directory of manifests (.yaml, .yml, .json), or one file"),
    flag(Id::FileCheckFrequency, ("file-check-frequency", None), Value("DURATION"), "20s", (Section::Sources, RUN),
         "Longest time between two looks at the manifests; changes are seen at once anyway"),
    flag(Id::ManifestVerifyKey, ("manifest-verify-key", None), Value("FILE"), "", (Section::Sources, RUN),
         "Take only manifests signed with a minisign key of this file; may be given again"),
    flag(Id::ManifestMinVersion, ("manifest-min-version", None), Value("N"), "", (Section::Sources, RUN_CHECK),
         "Refuse signed manifests of a lower version: N or timestamp:N of the trusted comment"),
    flag(Id::VerifyKey, ("verify-key", None), Value("FILE"), "", (Section::Sources, &[Verb::Check]),
         "Check signatures too: as run does with --manifest-verify-key"),
    flag(Id::Strict, ("strict", None), Switch, "false", (Section::Sources, &[Verb::Check]),
         "Warnings are errors"),
    flag(Id::LastGoodKeyFile, ("last-good-key-file", None), Value("FILE"), "", (Section::Sources, RUN),
         "32 random bytes that seal what is remembered; made below the root directory when not given"),
    flag(Id::Source, ("source", None), Value("SOURCE[=PATH]"), "", (Section::Sources, &[Verb::Check, Verb::Forget]),
         "The source that is meant: file or http; with a path (of check), that of these manifests"),
    flag(Id::ManifestUrl, ("manifest-url", None), Value("URL"), "", (Section::Sources, RUN),
         "URL of manifests; https, or http to loopback"),
    flag(Id::ManifestUrlHeader, ("manifest-url-header", None), Value("NAME:VALUE,..."), "", (Section::Sources, RUN),
         "Headers of the requests to the URL; may be repeated"),
    flag(Id::HttpCheckFrequency, ("http-check-frequency", None), Value("DURATION"), "20s", (Section::Sources, RUN),
         "Time between two requests to the URL, a tenth more or less"),
    flag(Id::ManifestUrlCaFile, ("manifest-url-ca-file", None), Value("FILE"), "", (Section::Sources, RUN),
         "Certificate authorities of the URL's server, PEM; the system's when not given"),
    flag(Id::ManifestUrlCertFile, ("manifest-url-cert-file", None), Value("FILE"), "", (Section::Sources, RUN),
         "Client certificate for the URL's server, PEM"),
    flag(Id::ManifestUrlKeyFile, ("manifest-url-key-file", None), Value("FILE"), "", (Section::Sources, RUN),
         "Key of the client certificate, PEM"),
    flag(Id::ManifestUrlAllowInsecure, ("manifest-url-allow-insecure", None), Switch, "false", (Section::Sources, RUN),
         "Allow http to other machines: whoever can change the answer is root on this node"),
    flag(Id::ManifestUrlMaxSize, ("manifest-url-max-size", None), Value("BYTES"), "1048576", (Section::Sources, RUN),
         "Largest answer of the URL"),
    flag(Id::SyncFrequency, ("sync-frequency", None), Value("DURATION"), "1m", (Section::Sources, RUN),
         "Longest time between two comparisons of all pods with Docker"),
    flag(Id::HostnameOverride, ("hostname-override", None), Value("NAME"), "", (Section::Node, &[Verb::Run, Verb::Check]),
         "Name of this node; the host's own name when not given"),
    flag(Id::NodeLabels, ("node-labels", None), Value("K=V,..."), "", (Section::Node, RUN_CHECK),
         "Labels of this node, for the nodeSelector of pods"),
    flag(Id::NodeIp, ("node-ip", None), Value("IP[,IP]"), "", (Section::Node, RUN),
         "Addresses of this node, IPv4 and IPv6; those of the default routes when not given"),
    flag(Id::ClusterDns, ("cluster-dns", None), Value("IP,..."), "", (Section::Node, RUN),
         "Name servers of pods with dnsPolicy ClusterFirst; the node's own when not given"),
    flag(Id::ClusterDomain, ("cluster-domain", None), Value("DOMAIN"), "", (Section::Node, RUN),
         "Domain of the cluster, for search lists and full host names"),
    flag(Id::ResolvConf, ("resolv-conf", None), Value("FILE"), "/etc/resolv.conf", (Section::Node, RUN),
         "Resolver settings that pods start from; empty for a resolver at 127.0.0.1"),
    flag(Id::KubeReserved, ("kube-reserved", None), Value("RESOURCE=N,..."), "", (Section::Node, RUN_CHECK),
         "CPU, memory and ephemeral-storage kept for podkeeper and Docker: pods get the rest"),
    flag(Id::SystemReserved, ("system-reserved", None), Value("RESOURCE=N,..."), "", (Section::Node, RUN_CHECK),
         "The same for everything else on the node"),
    flag(Id::MaxPods, ("max-pods", None), Value("N"), "110", (Section::Node, RUN_CHECK),
         "Most pods on this node"),
    flag(Id::PodMaxPids, ("pod-max-pids", None), Value("N"), "-1", (Section::Node, RUN),
         "Most processes of a pod; -1 for no limit"),
    flag(Id::CgroupsPerQos, ("cgroups-per-qos", None), Switch, "true", (Section::Node, RUN),
         "Give each pod a cgroup, below one for its class of service"),
    flag(Id::CgroupRoot, ("cgroup-root", None), Value("PATH"), "", (Section::Node, RUN),
         "Cgroup in which those of the pods are made, below kubepods; the topmost when not given"),
    flag(Id::Device, ("device", None), Value("NAME=PATH,..."), "", (Section::Node, RUN_CHECK),
         "Devices below /dev that are one unit of resource podkeeper.dev/NAME; may be repeated"),
    flag(Id::DockerEndpoint, ("docker-endpoint", None), Value("URL"), "unix:///var/run/docker.sock", (Section::Docker, IMAGES),
         "Docker's socket; fake:// is a Docker in memory, for load tests"),
    flag(Id::PodInfraContainerImage, ("pod-infra-container-image", None), Value("IMAGE"), "", (Section::Docker, RUN),
         "Image of the pods' sandbox; one built into podkeeper when not given"),
    flag(Id::DockerNetwork, ("docker-network", None), Value("NAME"), "", (Section::Docker, RUN),
         "Docker network of the pods, made when missing: there they find each other by name"),
    flag(Id::DockerNetworkCidr, ("docker-network-cidr", None), Value("CIDR,..."), "", (Section::Docker, RUN),
         "Subnets that network is made with, IPv4 and IPv6; Docker's choice when not given"),
    flag(Id::ImagePullProgressDeadline, ("image-pull-progress-deadline", None), Value("DURATION"), "1m", (Section::Docker, IMAGES),
         "A pull without progress for so long is given up"),
    flag(Id::SerializeImagePulls, ("serialize-image-pulls", None), Switch, "", (Section::Docker, RUN),
         "Pull one image after the other; on unless --max-parallel-image-pulls is 2 or more"),
    flag(Id::MaxParallelImagePulls, ("max-parallel-image-pulls", None), Value("N"), "", (Section::Docker, RUN),
         "Most pulls at once when they are not serialized; at most 16"),
    flag(Id::RegistryQps, ("registry-qps", None), Value("N"), "5", (Section::Docker, RUN),
         "Pulls that may begin in a second; one more fails and is backed off; 0 for no limit"),
    flag(Id::RegistryBurst, ("registry-burst", None), Value("N"), "10", (Section::Docker, RUN),
         "Pulls that may begin at once, if --registry-qps is not 0"),
    flag(Id::ImagePreloadDir, ("image-preload-dir", None), Value("DIR"), "/var/lib/podkeeper/images", (Section::Docker, RUN),
         "Image archives (.tar, .tar.gz, .tgz, .tar.zst) that Docker is given; empty for none"),
    flag(Id::ContainerLogMaxSize, ("container-log-max-size", None), Value("SIZE"), "1Mi", (Section::Docker, RUN),
         "Size at which Docker rotates the log of a container; negative for never"),
    flag(Id::ContainerLogMaxFiles, ("container-log-max-files", None), Value("N"), "5", (Section::Docker, RUN),
         "Most log files of a container; at least 2"),
    flag(Id::HostNetworkSources, ("host-network-sources", None), Value("LIST"), "*", (Section::Policy, RUN_CHECK),
         "Sources whose pods may use the host's network: file, http, api, or * for all"),
    flag(Id::AllowPrivileged, ("allow-privileged", None), Switch, "false", (Section::Policy, RUN_CHECK),
         "Let containers ask for privileged mode"),
    flag(Id::AllowedUnsafeSysctls, ("allowed-unsafe-sysctls", None), Value("LIST"), "", (Section::Policy, RUN_CHECK),
         "Namespaced sysctls beyond the safe ones, or patterns such as kernel.shm*"),
    flag(Id::AllowedDevices, ("allowed-devices", None), Value("PATH,..."), "", (Section::Policy, RUN_CHECK),
         "Devices and their directories that pods may name; all with --allow-privileged"),
    flag(Id::PodSecurity, ("pod-security", None), Value("[SOURCE=]LEVEL[:VERSION],..."), "", (Section::Policy, RUN_CHECK),
         "Pod Security Standards: privileged, baseline or restricted; privileged when not given"),
    flag(Id::AllowedHostPaths, ("allowed-host-paths", None), Value("LIST"), "", (Section::Policy, RUN_CHECK),
         "Paths that hostPath volumes may be at or below, with :ro read-only; all when not given"),
    flag(Id::AllowedImages, ("allowed-images", None), Value("LIST"), "", (Section::Policy, RUN_CHECK),
         "Images, or beginnings of images that end with a slash; all when not given"),
    flag(Id::RequireImageDigest, ("require-image-digest", None), Switch, "false", (Section::Policy, RUN_CHECK),
         "Every image must be named by its digest"),
    flag(Id::SourcePolicy, ("source-policy", None), Value("SOURCE=NAME=VALUE[;...]"), "", (Section::Policy, RUN_CHECK),
         "Other than for all: what pods of file, http or api may do and see; may be repeated"),
    flag(Id::Config, ("config", None), Value("FILE"), "", (Section::Directories, CONFIGURED),
         "Settings of run that no flag gives, as YAML or JSON"),
    flag(Id::RootDir, ("root-dir", None), Value("DIR"), "/var/lib/podkeeper", (Section::Directories, &[Verb::Run, Verb::Forget, Verb::Drain, Verb::Resume, Verb::Pull]),
         "What outlives a boot, and the lock; also marks our containers"),
    flag(Id::RunDir, ("run-dir", None), Value("DIR"), "/run/podkeeper", (Section::Directories, ALMOST_ALL),
         "Where the daemon keeps its status file, on tmpfs"),
    flag(Id::PodLogsDir, ("pod-logs-dir", None), Value("DIR"), "/var/log/pods", (Section::Directories, RUN),
         "Links to the logs of containers, by pod; those by container are in containers beside it"),
    flag(Id::Verbosity, ("v", Some('v')), Value("N"), "0", (Section::Logging, RUN),
         "Log more: 2 decisions, 4 everything"),
    flag(Id::Grace, ("grace", None), Value("SECONDS"), "", (Section::Pods, &[Verb::Drain]),
         "Longest grace of any pod; each pod's own when not given"),
    flag(Id::Timeout, ("timeout", None), Value("DURATION"), "5m", (Section::Pods, &[Verb::Drain]),
         "How long to wait until all are stopped"),
    flag(Id::UntilReboot, ("until-reboot", None), Switch, "false", (Section::Pods, &[Verb::Drain]),
         "The next boot of the machine resumes the node"),
    flag(Id::Namespace, ("namespace", Some('n')), Value("NAMESPACE"), "default", (Section::Pods, PODS),
         "Namespace of the pod; a node has no current one"),
    flag(Id::AllNamespaces, ("all-namespaces", Some('A')), Switch, "false", (Section::Pods, LISTS),
         "Pods of all namespaces"),
    flag(Id::Output, ("output", Some('o')), Value("FORMAT"), "", (Section::Pods, &[Verb::Get, Verb::Check]),
         "wide, json, yaml or name (json alone of check); a table when not given"),
    flag(Id::Watch, ("watch", Some('w')), Switch, "false", (Section::Pods, &[Verb::Get]),
         "After listing, wait and print each row that changes"),
    flag(Id::For, ("for", None), Value("pod/NAME"), "", (Section::Pods, &[Verb::Get]),
         "Of the events, those of this pod"),
    flag(Id::NoHeaders, ("no-headers", None), Switch, "false", (Section::Pods, &[Verb::Get]),
         "Leave the table's heading out"),
    flag(Id::Container, ("container", Some('c')), Value("NAME"), "", (Section::Pods, STREAMS),
         "Container; the pod's default or first one when not given"),
    flag(Id::Follow, ("follow", Some('f')), Switch, "false", (Section::Pods, &[Verb::Logs]),
         "Go on printing what comes"),
    flag(Id::Previous, ("previous", Some('p')), Switch, "false", (Section::Pods, &[Verb::Logs]),
         "Of the container that ran before this one"),
    flag(Id::Timestamps, ("timestamps", Some('t')), Switch, "false", (Section::Pods, &[Verb::Logs]),
         "Put the time before each line"),
    flag(Id::Tail, ("tail", None), Value("N"), "-1", (Section::Pods, &[Verb::Logs]),
         "Only the last N lines; -1 for all"),
    flag(Id::Since, ("since", None), Value("DURATION"), "0s", (Section::Pods, &[Verb::Logs]),
         "Only lines that are newer than this"),
    flag(Id::Stdin, ("stdin", Some('i')), Switch, "false", (Section::Pods, COMMANDS),
         "Pass standard input to the command"),
    flag(Id::Tty, ("tty", Some('t')), Switch, "false", (Section::Pods, COMMANDS),
         "Give the command a terminal"),
    flag(Id::Image, ("image", None), Value("IMAGE"), "", (Section::Pods, &[Verb::Debug]),
         "Image of the container that is added"),
    flag(Id::Target, ("target", None), Value("CONTAINER"), "", (Section::Pods, &[Verb::Debug]),
         "Container of the pod whose processes the added one sees"),
    flag(Id::Profile, ("profile", None), Value("PROFILE"), "general", (Section::Pods, &[Verb::Debug]),
         "What it may do: legacy, general, baseline, restricted, netadmin or sysadmin"),
    flag(Id::Recursive, ("recursive", None), Switch, "false", (Section::Pods, &[Verb::Explain]),
         "Show the fields below the fields as well"),
];

impl Flag {
    /// Its field in the configuration file: of `run` alone, and named as `KubeletConfiguration`
    /// names it, else after the flag.
    #[must_use]
    pub fn field(&self) -> Option<String> {
        const INITIALS: &[&str] = &["url", "ca", "ip", "dns", "cidr", "qos"];
        if self.id == Id::Config || !self.verbs.contains(&Verb::Run) {
            return None;
        }
        let kubelets = match self.id {
            Id::PodManifestPath => "staticPodPath",
            Id::ManifestUrl => "staticPodURL",
            Id::ManifestUrlHeader => "staticPodURLHeader",
            Id::RegistryQps => "registryPullQPS",
            Id::PodMaxPids => "podPidsLimit",
            Id::Device => "devices",
            Id::Verbosity => "verbosity",
            _ => "",
        };
        if !kubelets.is_empty() {
            return Some(kubelets.to_owned());
        }
        let mut name = String::new();
        for (at, word) in self.name.split('-').enumerate() {
            match word.split_at_checked(1) {
                Some((first, rest)) if at > 0 && !INITIALS.contains(&word) => {
                    name.push_str(&first.to_uppercase());
                    name.push_str(rest);
                }
                _ if at > 0 => name.push_str(&word.to_uppercase()),
                _ => name.push_str(word),
            }
        }
        Some(name)
    }

    /// Its value is a path of a file or a directory.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(
            self.id,
            Id::PodManifestPath
                | Id::ManifestVerifyKey
                | Id::LastGoodKeyFile
                | Id::ManifestUrlCaFile
                | Id::ManifestUrlCertFile
                | Id::ManifestUrlKeyFile
                | Id::ResolvConf
                | Id::ImagePreloadDir
                | Id::PodLogsDir
                | Id::RootDir
                | Id::RunDir
        )
    }
}

/// The flags a subcommand knows, in the table's order.
pub fn of(verb: Verb) -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(move |f| f.verbs.contains(&verb))
}
