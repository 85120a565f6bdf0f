//! Tests of a configuration file, beside flags and without them.

use std::ffi::OsString;
use std::time::Duration;

use super::*;
use crate::base::table::Set;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::parse::{Command, UsageError, parse};
use crate::manifest::edition::Edition;

const HEAD: &str = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";

fn command(line: &str, file: &str) -> Result<Command, UsageError> {
    let text = format!("{HEAD}{file}");
    parse(line.split_whitespace().map(OsString::from), &|path| {
        assert_eq!(path, Path::new("/etc/podkeeper/config.yaml"));
        Ok(text.clone().into_bytes())
    })
}

fn run(flags: &str, file: &str) -> Options {
    match command(&format!("run --config /etc/podkeeper/config.yaml {flags}"), file) {
        Ok(Command::Run(parsed)) => parsed.options,
        other => panic!("{file}: {other:?}"),
    }
}

#[test]
fn thresholds_are_maps_as_the_kubelet_has_them() {
    use crate::eviction::signal::Signal;
    const FILES: &str = "--pod-manifest-path m";
    let o = run(
        FILES,
        "evictionHard: {memory.available: 50Mi, nodefs.available: 5%}\nevictionPressureTransitionPeriod: 1m\n",
    );
    let hard: Vec<Signal> = o.eviction.hard.unwrap().keys().copied().collect();
    assert_eq!(hard, [Signal::Memory, Signal::NodeFs]);
    assert_eq!(o.eviction.pressure_transition_period, Duration::from_secs(60));
    let o = run(
        FILES,
        "evictionHard: {}\nevictionSoft: {pid.available: 9}\nevictionSoftGracePeriod: {pid.available: 1m}\n",
    );
    assert_eq!(o.eviction.hard.map(|hard| hard.len()), Some(0));
    let given = run(
        "--pod-manifest-path m --eviction-hard pid.available<1",
        "evictionHard: {memory.available: 50Mi}\n",
    )
    .eviction
    .hard;
    assert_eq!(given.unwrap().keys().copied().collect::<Vec<_>>(), [Signal::Pid]);
    let why = command(
        "run --config /etc/podkeeper/config.yaml --pod-manifest-path m",
        "evictionSoft: {pid.available: 9}\n",
    );
    let expected = "evictionSoft (--eviction-soft) grace period must be specified for the soft eviction threshold pid.available";
    assert!(why.as_ref().is_err_and(|why| why.message.contains(expected)), "{why:?}");
}

#[test]
fn fields_are_the_flags() {
    let o = run(
        "",
        "staticPodPath: manifests
staticPodURL: https://example.com/a
staticPodURLHeader: {X-Node: [a, b], Accept: text}
manifestURLMaxSize: 4096
manifestVerifyKey: [a.pub, /b.pub]
manifestMinVersion: 7
nodeLabels: {disk: ssd, zone: '7'}
kubeReserved: {cpu: 100m, memory: 64Mi}
clusterDNS: [10.0.0.10, 'fd00::10']
resolvConf: ''
podSecurity: {file: privileged, http: restricted}
serializeImagePulls: false
registryPullQPS: 0
syncFrequency: 30s
rootDir: /data/podkeeper
verbosity: 2
maxPods: null
devices:
  camera: /dev/video0
  serial: [/dev/ttyS1, [/dev/ttyS2, /dev/gpiochip0]]
",
    );
    assert_eq!(o.sources.manifest_path, Some("/etc/podkeeper/manifests".into()));
    assert_eq!(o.sources.url.unwrap().full(), "https://example.com/a");
    let headers: Vec<_> = o.sources.url_headers.iter().map(|h| format!("{}:{}", h.name, h.value)).collect();
    assert_eq!(headers, ["x-node:a", "x-node:b", "accept:text"]);
    assert_eq!(o.sources.url_max_size, 4096);
    assert_eq!(o.sources.verify_keys, ["/etc/podkeeper/a.pub", "/b.pub"].map(std::path::PathBuf::from));
    assert_eq!(o.sources.manifest_min_version, Edition::Version(7));
    assert_eq!(o.node.labels.get("zone").map(String::as_str), Some("7"));
    assert_eq!(o.node.cluster_dns.len(), 2);
    assert_eq!(
        (o.node.resolv_conf, o.docker.registry_qps, o.docker.serialize_image_pulls),
        (None, 0, Some(false))
    );
    assert_eq!((o.sources.sync_frequency, o.logging.verbosity), (Duration::from_secs(30), 2));
    assert_eq!((o.directories.root, o.node.gives.max_pods), ("/data/podkeeper".into(), 110));
    assert_eq!(o.policy.pod_security.len(), 2);
    let count = |name: &str| o.node.gives.devices.count(name);
    assert_eq!((count("podkeeper.dev/camera"), count("podkeeper.dev/serial")), (1, 2));
}

#[test]
fn a_flag_wins_over_its_field() {
    let file = "staticPodPath: /file\nmaxPods: 5\nstaticPodURLHeader: {a: b}\nclusterDNS: [10.0.0.10]\n";
    let o = run("--pod-manifest-path /flag --manifest-url-header c:d --cluster-dns 10.0.0.11", file);
    assert_eq!(o.sources.manifest_path, Some("/flag".into()));
    assert_eq!(o.node.gives.max_pods, 5);
    let names: Vec<_> = o.sources.url_headers.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["c"]);
    assert_eq!(o.node.cluster_dns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.11"]);
}

#[test]
fn other_commands_take_what_they_know() {
    let file = "runDir: /run/other\nrootDir: /data\nmaxPods: 5\npodSecurity: restricted\n";
    match command("get pods --config=/etc/podkeeper/config.yaml", file) {
        Ok(Command::Get(o, _)) => {
            assert_eq!((o.directories.run, o.node.gives.max_pods), ("/run/other".into(), 110))
        }
        other => panic!("{other:?}"),
    }
    match command("check --config=/etc/podkeeper/config.yaml a.yaml", file) {
        Ok(Command::Check(parsed, _)) => assert_eq!(parsed.options.policy.pod_security.len(), 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_wrong_is_told_with_its_place() {
    let refused = |file: &str| {
        let line = "run --pod-manifest-path /m --config /etc/podkeeper/config.yaml";
        let error = command(line, file).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        error.message
    };
    let check = |file: &str, expected: &str| {
        let message = refused(file);
        assert!(message.contains(expected), "{file}: {message}");
    };
    check("maxPod: 5\nrunDri: /x\n", "config.yaml:3:1: unknown field \"maxPod\" (did you mean maxPods?)\n");
    check("maxPod: 5\nrunDri: /x\n", "config.yaml:4:1: unknown field \"runDri\" (did you mean runDir?)");
    check(
        "maxPods: many\nsyncFrequency: 5\n",
        "config.yaml:3:10: maxPods: parsing \"many\": a whole number is wanted\n",
    );
    check("maxPods: many\nsyncFrequency: 5\n", "config.yaml:4:16: syncFrequency: ");
    check("maxPods: [1, {}]\n", "config.yaml:3:14: maxPods: a string or a number is wanted, not a map");
    check("allowedImages: ['a,b']\n", "cannot hold a comma");
    check("devices: {a: /etc/passwd}\n", "config.yaml:3:14: devices: ");
    check("config: /x\n", "unknown field \"config\"");
    check("tail: 5\n", "unknown field \"tail\"");
    check("maxPods: 1\nmaxPods: 2\n", "config.yaml:4:1: ");
    check("--- {}\n", "one document is wanted, and there are 2");
    check("fileCheckFrequency: 1ms\n", "fileCheckFrequency (--file-check-frequency) 1ms must be");
    check("staticPodURL: 'https://u:secret@a/'\n", "must not hold a user or a password");
    assert!(!refused("staticPodURL: 'https://u:secret@a/'\n").contains("secret"));
}

#[test]
fn bad_values_are_told_beside_unknown_fields_each_at_its_own_place() {
    let file = "maxPod: 5
maxPods: many
sourcePolicy:
  dir: {allowPrivileged: true}
  file:
    allowPrivileged: perhaps
    allowedImages: [ok/, {}]
  http:
    podSecurity: strict
    sharedObjects: http
nodeLabels: {a: b}
devices: {a: [/dev/null, /etc/passwd], b: /etc/shadow}
typo: 1
";
    let error = command("run --pod-manifest-path /m --config /etc/podkeeper/config.yaml", file).unwrap_err();
    let places: Vec<&str> = error
        .message
        .lines()
        .map(|line| line.trim_start().trim_start_matches("/etc/podkeeper/config.yaml:"))
        .map(|line| line.split_once(": ").unwrap().0)
        .collect();
    let expected = ["3:1", "4:10", "6:26", "8:22", "9:26", "11:18", "12:20", "14:26", "14:43", "15:1"];
    assert_eq!(places, expected, "{}", error.message);
}

#[test]
fn the_head_is_wanted_and_the_file_must_be_there() {
    let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let line = words("run --pod-manifest-path /m --config c");
    for (text, expected) in [
        ("", "c: one document is wanted, and there are 0"),
        ("[]", "c:1:1: a map of settings is wanted, not a list"),
        ("kind: Pod", "c:1:7: kind: must be PodkeeperConfiguration"),
        ("kind: KubeletConfiguration", "c: apiVersion: must be kubelet.config.k8s.io/v1beta1"),
        ("apiVersion: kubelet.config.k8s.io/v1beta1", "c: kind: must be KubeletConfiguration"),
        ("kind: PodkeeperConfiguration", "c: apiVersion: must be podkeeper.dev/v1alpha1"),
        ("a: b: c", "c:1:"),
    ] {
        let error = parse(line.clone().into_iter(), &|_| Ok(text.into())).unwrap_err();
        assert!(error.message.contains(expected), "{text}: {error}");
    }
    let error = parse(line.into_iter(), &|_| Err("no such file".to_owned())).unwrap_err();
    assert_eq!(
        (error.exit, error.message.as_str()),
        (Exit::Failure, "cannot read the configuration file c: no such file")
    );
}

#[test]
fn every_flag_of_run_has_one_field() {
    let fields: Vec<String> = flags::all().filter_map(Flag::field).collect();
    assert_eq!(fields.len(), fields.iter().collect::<Set<_>>().len());
    let page = include_str!("../../../man/podkeeper.conf.5");
    for (flag, field) in flags::all().filter_map(|f| f.field().map(|field| (f, field))) {
        let plain = field.to_lowercase() == flag.name.replace('-', "");
        assert!(plain || page.contains(&field), "{field} is not in the man page");
    }
}

#[test]
fn check_refuses_the_values_that_run_refuses() {
    let check = |file: &str| {
        let told = |verb: &str, flags: &str| {
            command(&format!("{verb} --config=/etc/podkeeper/config.yaml {flags}"), file)
                .map_err(|error| error.message)
        };
        let run = told("run", "--pod-manifest-path /m").unwrap_err();
        assert!(run.starts_with("invalid configuration: "), "{run}");
        assert_eq!(told("check", "a.yaml").unwrap_err(), run);
    };
    check("staticPodURL: 'http://10.0.0.1/pods'\n");
    check("manifestURLCertFile: c.pem\n");
    check("syncFrequency: 1ms\nfileCheckFrequency: 1ms\n");
    // A flag of `run` may name the source.
    assert!(command("check --config=/etc/podkeeper/config.yaml a.yaml", "maxPods: 3\n").is_ok());
}
