//! Tests of several files together, and of the reports about them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::*;
use crate::base::testing::scratch;
use crate::cli::exit::Exit;
use crate::cli::given::Parsed;
use crate::cli::parse::{Command, Files, UsageError, parse_with};

const OURS: &str = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";
const KUBELETS: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const LINE: &str = "run --pod-manifest-path /m --config /etc/config.yaml --config-dir /etc/config.d";

/// The result for a file of `--config` and those of the directory, by their texts.
fn parsed(line: &str, head: &str, texts: &[&str]) -> Result<Parsed, UsageError> {
    let names = ["/etc/config.yaml", "/etc/config.d/10-a.conf", "/etc/config.d/20-b.conf"].map(PathBuf::from);
    let files: BTreeMap<PathBuf, String> =
        names.iter().cloned().zip(texts.iter().map(|text| format!("{head}{text}"))).collect();
    let read = |path: &Path| files.get(path).map(|text| text.clone().into_bytes()).ok_or("none".to_owned());
    let list = |dir: &Path| Ok(files.keys().filter(|path| path.starts_with(dir)).cloned().collect());
    match parse_with(line.split(' ').map(OsString::from), Files { read: &read, list: &list })? {
        Command::Run(parsed) => Ok(*parsed),
        other => panic!("{other:?}"),
    }
}

fn given<'a>(parsed: &'a Parsed, flag: &str) -> Vec<(&'a str, String)> {
    let of_flag = parsed.given.iter().filter(|given| given.flag.name == flag);
    of_flag.map(|given| (given.value.text(), given.from.to_string())).collect()
}

#[test]
fn each_file_changes_what_those_before_it_say() {
    let base = "maxPods: 5\nsyncFrequency: 30s\nclusterDNS: [10.0.0.1, 10.0.0.2]\nevictionHard: {memory.available: 50Mi, \
                pid.available: '9'}\nnodeLabels:\n  a: b\n  c: d\n";
    let first = "maxPods: 6\nclusterDNS:\n- 10.0.0.3\nnodeLabels: {c: null, e: f}\nresolvConf: resolv.conf\n";
    let second = "evictionHard: {memory.available: 60Mi}\nsyncFrequency: null\nmaxPods: 7\n";
    let o = parsed(LINE, OURS, &[base, first, second]).unwrap();
    assert_eq!(given(&o, "max-pods"), [("7", "/etc/config.d/20-b.conf:5".to_owned())]);
    assert_eq!(given(&o, "cluster-dns"), [("10.0.0.3", "/etc/config.d/10-a.conf:5".to_owned())]);
    assert_eq!(given(&o, "sync-frequency"), []);
    let resolv_conf = ("/etc/config.d/resolv.conf", "/etc/config.d/10-a.conf:7".to_owned());
    assert_eq!(given(&o, "resolv-conf"), [resolv_conf], "it lies beside the file that names it");
    assert_eq!(given(&o, "node-labels")[0].0, "a=b,e=f");
    assert_eq!(given(&o, "eviction-hard")[0].0, "memory.available<60Mi,pid.available<9");
    // A flag overrides every file.
    let o = parsed(&format!("{LINE} --max-pods 8"), OURS, &[base, first, second]).unwrap();
    assert_eq!(given(&o, "max-pods"), [("8", "flag".to_owned())]);
    // A file of the directory needs no `--config` beside it.
    let alone = "run --pod-manifest-path /m --config-dir /etc/config.d";
    assert_eq!(parsed(alone, OURS, &["", first]).unwrap().options.node.gives.max_pods, 6);
    assert_eq!(
        parsed(alone, OURS, &[]).unwrap().options.node.gives.max_pods,
        110,
        "an empty directory says nothing"
    );
}

/// The example of the Kubernetes documentation, "Kubelet Configuration Directory Merging".
#[test]
fn the_kubelets_files_are_merged_as_the_kubelet_does() {
    let base = "port: 20250\nauthorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 5m\n    \
                cacheUnauthorizedTTL: 30s\nserializeImagePulls: false\naddress: 192.168.0.1\n";
    let file = "authorization:\n  mode: AlwaysAllow\n  webhook:\n    cacheAuthorizedTTL: 8m\naddress: 192.168.0.8\n\
                authentication: {anonymous: {enabled: true}}\nmaxOpenFiles: 9\n";
    let o = parsed(LINE, KUBELETS, &[base, file]).unwrap();
    let from = |flag: &str| given(&o, flag)[0].clone();
    assert_eq!(from("port"), ("20250", "/etc/config.yaml:3".to_owned()));
    assert_eq!(from("address"), ("192.168.0.8", "/etc/config.d/10-a.conf:7".to_owned()));
    assert_eq!(from("authorization-mode"), ("AlwaysAllow", "/etc/config.d/10-a.conf:4".to_owned()));
    assert_eq!(from("authorization-webhook-cache-authorized-ttl").0, "8m");
    assert_eq!(
        from("authorization-webhook-cache-unauthorized-ttl"),
        ("30s", "/etc/config.yaml:8".to_owned())
    );
    assert_eq!(o.notes.len(), 1, "{:?}", o.notes);
    assert!(
        o.notes[0].starts_with("/etc/config.d/10-a.conf:9:15: maxOpenFiles has no effect"),
        "{:?}",
        o.notes
    );
}

#[test]
fn what_is_wrong_is_told_with_its_file() {
    let wrong = |head: &str, texts: &[&str]| {
        let error = parsed(LINE, head, texts).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        error.message.lines().map(|line| line.trim_start().to_owned()).collect::<Vec<_>>()
    };
    let told = wrong(OURS, &["maxPod: 5\n", "maxPods: many", "runDri: /x\nmaxPods: null\n"]);
    assert_eq!(
        told,
        [
            "/etc/config.yaml:3:1: unknown field \"maxPod\" (did you mean maxPods?)",
            "/etc/config.d/20-b.conf:3:1: unknown field \"runDri\" (did you mean runDir?)",
        ],
        "a value that a later file takes away is not judged"
    );
    let told = wrong(OURS, &["", "maxPods: [1\n", "--- {}\n"]);
    assert!(told[0].starts_with("/etc/config.d/10-a.conf:"), "{told:?}");
    assert_eq!(told[1], "/etc/config.d/20-b.conf:3:5: one document is wanted, and there are 2");
    // A value that a later file replaces must be valid, too, as far as the earlier file can be read alone.
    let told = wrong(OURS, &["maxPods: [1, {}]\n", "maxPods: 5\n"]);
    assert_eq!(told, ["/etc/config.yaml:3:14: maxPods: a string or a number is wanted, not a map"]);
    let names = ["/etc/config.yaml", "/etc/config.d/10-a.conf"].map(PathBuf::from);
    let files: Vec<(PathBuf, Vec<u8>)> =
        names.into_iter().zip([OURS, KUBELETS].map(|text| text.as_bytes().to_vec())).collect();
    let (file, lines) = merged(&files);
    let told: Vec<String> =
        file.wrong.iter().map(|(at, why)| format!("{}: {why}", lines.place(*at))).collect();
    assert_eq!(
        told,
        [
            "/etc/config.d/10-a.conf:2:7: kind: must be PodkeeperConfiguration, as in /etc/config.yaml: all files are of one kind"
        ]
    );
}

#[test]
fn a_directory_that_cannot_be_read_is_worth_another_try() {
    let read = |_: &Path| Ok(OURS.as_bytes().to_vec());
    let list = |_: &Path| Err("no such directory".to_owned());
    let line = "run --pod-manifest-path /m --config-dir d".split(' ').map(OsString::from);
    let error = parse_with(line, Files { read: &read, list: &list }).unwrap_err();
    assert_eq!(error.exit, Exit::Failure);
    assert_eq!(error.message, "cannot read the configuration directory d: no such directory");
}

#[test]
fn files_of_a_directory_are_those_with_the_ending_in_order() {
    let dir = scratch("config-dir");
    for name in ["20-b.conf", "10-a.conf", "README", "30-c.yaml", ".conf", "9.conf~"] {
        fs::write(dir.join(name), "").unwrap();
    }
    fs::create_dir(dir.join("15-dir.conf")).unwrap();
    let found = list(&dir).unwrap();
    assert_eq!(found, ["10-a.conf", "20-b.conf"].map(|name| dir.join(name)));
    for number in 0..limits::CONFIG_FILES {
        fs::write(dir.join(format!("{number}.conf")), "").unwrap();
    }
    assert!(list(&dir).unwrap_err().contains("more than 256 files"));
    fs::remove_dir_all(&dir).unwrap();
    assert!(list(&dir).is_err());
}
