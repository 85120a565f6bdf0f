//! A `KubeletConfiguration` as the configuration file. Each field of it is known: it is a flag; or it has no effect,
//! for a reason that is reported; or it is refused, because podkeeper would do something else. Pure.
//!
//! Upstream: `staging/src/k8s.io/kubelet/config/v1beta1/types.go`. Never here: the kubelet's defaults. A field that the
//! file leaves out has podkeeper's default; above all, nothing listens.

use super::{File, setting, unknown_among};
use crate::cli::flags;
use crate::manifest::tree::{Data, Entry, Node};

/// `apiVersion` of the file.
pub(super) const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// `kind` of the file.
pub(super) const KIND: &str = "KubeletConfiguration";

/// The type that the value of a field without effect must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Number,
    Text,
    List,
    Map,
    /// A duration, or a number of its smallest unit.
    Time,
}

/// The meaning of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Means {
    /// This flag; 0 and an empty text mean that the field is not set, as in the kubelet.
    Flag(&'static str),
    /// This flag; 0 and an empty text are values.
    Pointer(&'static str),
    /// No effect: the type of the value, and the reason.
    Without(Shape, &'static str),
    /// Only this value is accepted, for this reason.
    Only(&'static str, &'static str),
}

use Means::{Flag, Only, Pointer, Without};
use Shape::{Bool, List, Map, Number, Text, Time};

const EVENTS: &str = "an object has 25 events in a row, and then one in five minutes";
const CALLS: &str = "an API server gets 50 requests in a second, and 100 at once, at most";
const DOCKER: &str = "Docker does it its own way";
const PINNED: &str = "processors and memory are not given to containers one by one";
const UNIT: &str = "the service that starts podkeeper sets it";
const NO_PROFILE: &str = "there is no such handler";
const MEASURED: &str = "it is measured when it is needed";
const NO_CHAINS: &str = "podkeeper makes no rules of iptables";

/// Every field, as a path, with its meaning.
pub(crate) static FIELDS: &[(&str, Means)] = &[
    ("enableServer", Only("true", "nothing listens unless port or readOnlyPort is given; leave them out")),
    ("staticPodPath", Flag("pod-manifest-path")),
    ("podLogsDir", Flag("pod-logs-dir")),
    ("syncFrequency", Flag("sync-frequency")),
    ("fileCheckFrequency", Flag("file-check-frequency")),
    ("httpCheckFrequency", Flag("http-check-frequency")),
    ("staticPodURL", Flag("manifest-url")),
    ("staticPodURLHeader", Flag("manifest-url-header")),
    ("address", Flag("address")),
    ("port", Flag("port")),
    ("readOnlyPort", Flag("read-only-port")),
    ("tlsCertFile", Flag("tls-cert-file")),
    ("tlsPrivateKeyFile", Flag("tls-private-key-file")),
    ("tlsCipherSuites", Without(List, "all suites that are spoken are good ones")),
    ("tlsCurvePreferences", Without(List, "all key exchanges that are spoken are good ones")),
    ("tlsMinVersion", Without(Text, "TLS 1.2 is the lowest that is spoken")),
    ("rotateCertificates", Flag("rotate-certificates")),
    ("serverTLSBootstrap", Flag("rotate-server-certificates")),
    ("authentication.x509.clientCAFile", Flag("client-ca-file")),
    ("authentication.webhook.enabled", Flag("authentication-token-webhook")),
    ("authentication.webhook.cacheTTL", Flag("authentication-token-webhook-cache-ttl")),
    ("authentication.anonymous.enabled", Flag("anonymous-auth")),
    ("authorization.mode", Flag("authorization-mode")),
    ("authorization.webhook.cacheAuthorizedTTL", Flag("authorization-webhook-cache-authorized-ttl")),
    ("authorization.webhook.cacheUnauthorizedTTL", Flag("authorization-webhook-cache-unauthorized-ttl")),
    ("registryPullQPS", Pointer("registry-qps")),
    ("registryBurst", Flag("registry-burst")),
    (
        "imagePullCredentialsVerificationPolicy",
        Without(
            Text,
            "an image that was pulled with a secret is for pods with that secret, and any other for all",
        ),
    ),
    ("preloadedImagesVerificationAllowlist", Without(List, "preloaded images are for all pods")),
    ("eventRecordQPS", Without(Number, EVENTS)),
    ("eventBurst", Without(Number, EVENTS)),
    ("enableDebuggingHandlers", Pointer("enable-debugging-handlers")),
    ("enableContentionProfiling", Without(Bool, NO_PROFILE)),
    ("healthzPort", Pointer("healthz-port")),
    ("healthzBindAddress", Flag("healthz-bind-address")),
    ("oomScoreAdj", Without(Number, UNIT)),
    ("clusterDomain", Flag("cluster-domain")),
    ("clusterDNS", Flag("cluster-dns")),
    ("streamingConnectionIdleTimeout", Without(Text, "the kubelet does not use it any more, either")),
    ("nodeStatusUpdateFrequency", Flag("node-status-update-frequency")),
    ("nodeStatusReportFrequency", Flag("node-status-report-frequency")),
    ("nodeLeaseDurationSeconds", Flag("node-lease-duration-seconds")),
    ("imageMinimumGCAge", Flag("minimum-image-ttl-duration")),
    ("imageMaximumGCAge", Flag("image-maximum-gc-age")),
    ("imageGCHighThresholdPercent", Pointer("image-gc-high-threshold")),
    ("imageGCLowThresholdPercent", Pointer("image-gc-low-threshold")),
    ("volumeStatsAggPeriod", Without(Text, MEASURED)),
    ("kubeletCgroups", Flag("kubelet-cgroups")),
    ("systemCgroups", Flag("system-cgroups")),
    ("cgroupRoot", Flag("cgroup-root")),
    ("cgroupsPerQOS", Pointer("cgroups-per-qos")),
    ("cgroupDriver", Without(Text, "it is Docker's, which is asked")),
    ("cpuManagerPolicy", Without(Text, PINNED)),
    ("singleProcessOOMKill", Without(Bool, DOCKER)),
    ("cpuManagerPolicyOptions", Without(Map, PINNED)),
    ("cpuManagerReconcilePeriod", Without(Text, PINNED)),
    ("draManagerReconcilePeriod", Without(Text, "there is no dynamic resource allocation")),
    ("memoryManagerPolicy", Without(Text, PINNED)),
    ("topologyManagerPolicy", Without(Text, PINNED)),
    ("topologyManagerScope", Without(Text, PINNED)),
    ("topologyManagerPolicyOptions", Without(Map, PINNED)),
    ("qosReserved", Without(Map, PINNED)),
    ("runtimeRequestTimeout", Without(Text, "each kind of call has a deadline of its own")),
    ("hairpinMode", Without(Text, DOCKER)),
    ("maxPods", Flag("max-pods")),
    ("podCIDR", Without(Text, "--docker-network-cidr says it for --docker-network")),
    ("podPidsLimit", Pointer("pod-max-pids")),
    ("resolvConf", Pointer("resolv-conf")),
    ("runOnce", Flag("runonce")),
    ("cpuCFSQuota", Without(Bool, "limits of CPU always hold")),
    ("cpuCFSQuotaPeriod", Without(Text, "the period is 100ms")),
    ("nodeStatusMaxImages", Pointer("node-status-max-images")),
    ("maxOpenFiles", Without(Number, UNIT)),
    ("contentType", Without(Text, "podkeeper and an API server speak JSON")),
    ("kubeAPIQPS", Without(Number, CALLS)),
    ("kubeAPIBurst", Without(Number, CALLS)),
    ("serializeImagePulls", Pointer("serialize-image-pulls")),
    ("maxParallelImagePulls", Pointer("max-parallel-image-pulls")),
    ("evictionHard", Flag("eviction-hard")),
    ("evictionSoft", Flag("eviction-soft")),
    ("evictionSoftGracePeriod", Flag("eviction-soft-grace-period")),
    ("evictionPressureTransitionPeriod", Flag("eviction-pressure-transition-period")),
    ("evictionMaxPodGracePeriod", Flag("eviction-max-pod-grace-period")),
    ("evictionMinimumReclaim", Flag("eviction-minimum-reclaim")),
    (
        "mergeDefaultEvictionSettings",
        Only("false", "thresholds that are given replace the defaults; name all of them in evictionHard"),
    ),
    ("podsPerCore", Without(Number, "maxPods alone bounds them")),
    ("enableControllerAttachDetach", Without(Bool, "no volume that needs attaching is mounted")),
    ("protectKernelDefaults", Flag("protect-kernel-defaults")),
    ("makeIPTablesUtilChains", Without(Bool, NO_CHAINS)),
    ("iptablesMasqueradeBit", Without(Number, NO_CHAINS)),
    ("iptablesDropBit", Without(Number, NO_CHAINS)),
    ("featureGates", Without(Map, "what podkeeper can, it does always")),
    ("failSwapOn", Without(Bool, "podkeeper runs with swap and without")),
    ("memorySwap.swapBehavior", Without(Text, "limits of memory hold for swap, too")),
    ("containerLogMaxSize", Flag("container-log-max-size")),
    ("containerLogMaxFiles", Pointer("container-log-max-files")),
    ("containerLogMaxWorkers", Without(Number, "Docker rotates logs")),
    ("containerLogMonitorInterval", Without(Text, "Docker rotates logs")),
    (
        "configMapAndSecretChangeDetectionStrategy",
        Without(Text, "an object is looked up when a pod of it comes, and then once a minute"),
    ),
    ("systemReserved", Flag("system-reserved")),
    ("kubeReserved", Flag("kube-reserved")),
    ("reservedSystemCPUs", Without(Text, PINNED)),
    ("showHiddenMetricsForVersion", Without(Text, "no metric is hidden")),
    ("systemReservedCgroup", Flag("system-reserved-cgroup")),
    ("kubeReservedCgroup", Flag("kube-reserved-cgroup")),
    ("enforceNodeAllocatable", Flag("enforce-node-allocatable")),
    ("allowedUnsafeSysctls", Flag("allowed-unsafe-sysctls")),
    ("volumePluginDir", Without(Text, "there are no plugins of volumes")),
    ("providerID", Without(Text, "podkeeper knows nothing of clouds")),
    ("kernelMemcgNotification", Without(Bool, MEASURED)),
    ("logging.format", Without(Text, "log lines have one form")),
    ("logging.flushFrequency", Without(Time, "log lines are written at once")),
    ("logging.verbosity", Flag("v")),
    ("logging.vmodule", Without(List, "the environment variable PODKEEPER_LOG does it")),
    ("logging.options", Without(Map, "log lines have one form")),
    ("enableSystemLogHandler", Pointer("enable-system-log-handler")),
    ("enableSystemLogQuery", Without(Bool, NO_PROFILE)),
    ("shutdownGracePeriod", Flag("shutdown-grace-period")),
    ("shutdownGracePeriodCriticalPods", Flag("shutdown-grace-period-critical-pods")),
    (
        "shutdownGracePeriodByPodPriority",
        Without(List, "pods end in the order of their priorities within shutdownGracePeriod"),
    ),
    ("crashLoopBackOff.maxContainerRestartPeriod", Flag("max-container-restart-period")),
    ("reservedMemory", Without(List, PINNED)),
    ("enableProfilingHandler", Without(Bool, NO_PROFILE)),
    ("enableDebugFlagsHandler", Without(Bool, NO_PROFILE)),
    ("seccompDefault", Without(Bool, "Docker's profile holds for every container that names none")),
    ("memoryThrottlingFactor", Without(Number, "memory.high is not set")),
    ("memoryReservationPolicy", Without(Text, "memory.min is not set")),
    ("registerWithTaints", Flag("register-with-taints")),
    ("registerNode", Pointer("register-node")),
    ("tracing", Without(Map, "there are no traces")),
    ("localStorageCapacityIsolation", Without(Bool, "limits of local storage always hold")),
    ("containerRuntimeEndpoint", Without(Text, "podkeeper speaks to Docker: --docker-endpoint")),
    ("imageServiceEndpoint", Without(Text, "podkeeper speaks to Docker: --docker-endpoint")),
    ("failCgroupV1", Without(Bool, "both versions of cgroups will do")),
    ("userNamespaces.idsPerPod", Without(Number, DOCKER)),
];

/// Reads a document, without `apiVersion` and `kind`.
pub(super) fn read(document: &Node, file: &mut File) {
    fields("", document, file);
}

/// Reads the fields of a map; `above` is the path of the map, with a full stop at its end.
fn fields(above: &str, map: &Node, file: &mut File) {
    let head = |entry: &&Entry| above.is_empty() && matches!(entry.key.as_str(), "apiVersion" | "kind");
    for entry in map.entries().iter().filter(|entry| !head(entry)) {
        let name = format!("{above}{}", entry.key);
        if matches!(entry.value.data, Data::Null) {
            continue;
        }
        match FIELDS.iter().find(|(field, _)| *field == name) {
            Some((_, means)) => field(&name, *means, entry, file),
            None => below(&name, entry, file),
        }
    }
}

/// Reads a map of fields, or reports that the field is unknown.
fn below(name: &str, entry: &Entry, file: &mut File) {
    let above = format!("{name}.");
    if !FIELDS.iter().any(|(field, _)| field.starts_with(&above)) {
        let all = FIELDS.iter().map(|(field, _)| *field);
        file.wrong.push((entry.at, unknown_among(name, all)));
    } else if let Data::Map(_) = entry.value.data {
        fields(&above, &entry.value, file);
    } else {
        let why = format!("{name}: a map is wanted, not {}", entry.value.kind());
        file.wrong.push((entry.value.at, why));
    }
}

fn field(name: &str, means: Means, entry: &Entry, file: &mut File) {
    let at = entry.value.at;
    match means {
        Flag(_) if is_zero(&entry.value.data) => {}
        Flag(flag) | Pointer(flag) => {
            if let Some(flag) = flags::all().find(|known| known.name == flag) {
                let made = setting(flag, name, entry, &mut file.wrong);
                file.settings.push(made);
            }
        }
        Without(shape, why) => match shape.fits(&entry.value.data) {
            true => file.notes.push((at, format!("{name} has no effect: {why}"))),
            false => {
                let why = format!("{name}: {} is wanted, not {}", shape.words(), entry.value.kind());
                file.wrong.push((at, why));
            }
        },
        Only(value, why) => {
            if !matches!(entry.value.data, Data::Bool(on) if on.to_string() == value) {
                file.wrong.push((at, format!("{name}: must be {value}: {why}")));
            }
        }
    }
}

/// Whether it is the zero value of a field that is no pointer: the kubelet takes its default there.
fn is_zero(data: &Data) -> bool {
    match data {
        Data::Number(number) => number.as_f64() == Some(0.0),
        Data::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Data::Null | Data::Bool(_) | Data::List(_) | Data::Map(_) => false,
    }
}

impl Shape {
    fn fits(self, data: &Data) -> bool {
        matches!(
            (self, data),
            (Bool, Data::Bool(_))
                | (Number, Data::Number(_))
                | (Text, Data::String(_))
                | (List, Data::List(_))
                | (Map, Data::Map(_))
                | (Time, Data::String(_) | Data::Number(_))
        )
    }

    fn words(self) -> &'static str {
        match self {
            Bool => "true or false",
            Number => "a number",
            Text => "a string",
            List => "a list",
            Map => "a map",
            Time => "a duration",
        }
    }
}

#[cfg(test)]
mod tests;
