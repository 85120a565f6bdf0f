//! Tests of a `KubeletConfiguration` as the configuration file.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::base::table::Set;
use crate::cli::flags::server::Mode;
use crate::cli::given::Parsed;
use crate::cli::parse::{Command, UsageError, parse};

fn parsed(file: &str) -> Result<Parsed, UsageError> {
    let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{file}");
    let line = "run --pod-manifest-path /m --config /var/lib/kubelet/config.yaml";
    match parse(line.split(' ').map(OsString::from), &|_: &Path| Ok(text.clone().into_bytes()))? {
        Command::Run(parsed) => Ok(*parsed),
        other => panic!("{other:?}"),
    }
}

fn told(file: &str) -> String {
    parsed(file).unwrap_err().message
}

#[test]
fn every_field_is_there_once_and_names_a_flag_of_run() {
    let names: Set<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), FIELDS.len());
    for (name, means) in FIELDS {
        if let Flag(flag) | Pointer(flag) = means {
            let found = flags::all().find(|known| known.name == *flag);
            assert!(found.is_some_and(|flag| flag.field().is_some()), "{name}: --{flag}");
        }
        // A field of the same name in our own file is the same flag.
        if let Some(ours) = flags::all().find(|flag| flag.field().as_deref() == Some(*name)) {
            assert!(matches!(means, Flag(flag) | Pointer(flag) if *flag == ours.name), "{name}");
        }
    }
}

/// The file that `kubeadm init` writes.
const KUBEADM: &str = "\
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
cpuManagerReconcilePeriod: 0s
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
staticPodPath: manifests
syncFrequency: 0s
volumeStatsAggPeriod: 0s
";

#[test]
fn a_file_of_kubeadm_is_taken() {
    let Parsed { options, notes, .. } = parsed(KUBEADM).unwrap();
    assert_eq!(options.sources.sync_frequency, Duration::from_secs(60));
    assert_eq!(options.eviction.pressure_transition_period, Duration::from_secs(300));
    assert_eq!(options.node.cluster_domain, "cluster.local");
    let notes = notes.join("\n");
    assert!(
        notes.contains("/var/lib/kubelet/config.yaml:10:15: cgroupDriver has no effect: it is Docker's"),
        "{notes}"
    );
    assert_eq!(options.server.mode, Mode::Webhook);
}

#[test]
fn zero_is_a_default_or_a_value_as_in_the_kubelet() {
    let options =
        parsed("maxPods: 0\nregistryPullQPS: 0\nregistryBurst: 0\nresolvConf: ''\n").unwrap().options;
    assert_eq!((options.node.gives.max_pods, options.docker.registry_qps), (110, 0));
    assert_eq!(options.node.resolv_conf, None);
    let options = parsed("maxPods: 7\nlogging: {verbosity: 2}\nevictionHard: {}\n").unwrap().options;
    assert_eq!((options.node.gives.max_pods, options.logging.verbosity), (7, 2));
    assert_eq!(options.eviction.hard.map(|hard| hard.len()), Some(0));
}

#[test]
fn what_would_mean_something_else_is_refused_with_its_place() {
    let cases = [
        ("maxPod: 5\n", "config.yaml:3:1: unknown field \"maxPod\" (did you mean maxPods?)"),
        ("rootDir: /x\n", "3:1: unknown field \"rootDir\""),
        ("authentication: {x509: {clientCA: a}}\n", "3:25: unknown field \"authentication.x509.clientCA\""),
        ("authentication: true\n", "3:17: authentication: a map is wanted, not a boolean"),
        ("enableServer: false\n", "3:15: enableServer: must be true: nothing listens"),
        ("mergeDefaultEvictionSettings: true\n", "mergeDefaultEvictionSettings: must be false"),
        ("maxPods: many\n", "3:10: maxPods: parsing \"many\""),
        ("failSwapOn: 'no'\n", "3:13: failSwapOn: true or false is wanted, not a string"),
        ("authorization: {mode: Nobody}\n", "authorization.mode: must be Groups, Webhook or AlwaysAllow"),
    ];
    for (file, expected) in cases {
        let told = told(file);
        assert!(told.contains(expected), "{file}: {told}");
    }
}
