//! Files that are shipped beside the program: the service unit, the examples, the README's manifest.

use std::path::{Path, PathBuf};

use podkeeper::testing::manifest::{self, Context};
use podkeeper::testing::pod::Source;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The out-of-memory killer killed containerd, systemd stopped the kubelet with it, and nothing started it
/// again. Hence: last to be killed, always restarted, and no dependency that stops the daemon.
#[test]
fn k86420_the_unit_survives_docker_and_the_oom_killer() {
    let unit = read("packaging/systemd/podkeeper.service");
    let lines: Vec<&str> = unit.lines().map(str::trim).filter(|l| !l.starts_with('#')).collect();
    let has = |line: &str| assert!(lines.contains(&line), "the unit has no line {line}");
    has("OOMScoreAdjust=-999");
    has("Restart=always");
    has("Wants=docker.service");
    has("After=docker.service");
    // Containers survive when the daemon is stopped or killed.
    has("KillMode=process");
    for word in ["Requires=", "BindsTo=", "PartOf=", "Requisite="] {
        assert!(!lines.iter().any(|l| l.starts_with(word)), "{word} would stop us with somebody else");
    }
}

/// The optional unit that drains at shutdown: before Docker and the daemon are stopped, without leaving the
/// node drained, also where no boot follows, and within its own time.
#[test]
fn the_drain_unit_runs_before_docker_stops() {
    let unit = read("packaging/systemd/podkeeper-drain.service");
    let lines: Vec<&str> = unit.lines().map(str::trim).filter(|l| !l.starts_with('#')).collect();
    for line in [
        "After=docker.service docker.socket containerd.service podkeeper.service",
        "ExecStart=-/usr/bin/podkeeper resume --config /etc/podkeeper/config.yaml --shutdown",
        "RemainAfterExit=yes",
        "RefuseManualStop=yes",
        "ExecStop=/usr/bin/podkeeper drain --config /etc/podkeeper/config.yaml --shutdown --timeout 80s",
        "TimeoutStopSec=90s",
    ] {
        assert!(lines.contains(&line), "the unit has no line {line}");
    }
}

/// Boot must not wait for a network that may never come (kubeedge/kubeedge#4441).
#[test]
fn k4441_the_unit_waits_for_no_network() {
    let unit = read("packaging/systemd/podkeeper.service");
    let told: Vec<&str> = unit.lines().filter(|l| !l.trim_start().starts_with('#')).collect();
    assert!(!told.iter().any(|l| l.contains("network")), "{told:?}");
}

fn decoded(path: &Path, text: &str) {
    let path = path.to_string_lossy();
    let context = Context { node_name: "node1", source: Source::File, path: &path };
    let decoded = manifest::decode(text.as_bytes(), &context);
    assert_eq!(decoded.problems, [], "{path}");
    assert!(!decoded.pods.is_empty(), "{path} holds no pod");
}

/// Every example, and the manifest in the README, is accepted without a warning.
#[test]
fn examples_are_good_manifests() {
    let dir = top().join("packaging/examples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    // The examples of single features are below, and `examples` runs them.
    files.retain(|path| path.is_file());
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        decoded(&file, &std::fs::read_to_string(&file).unwrap());
    }
    let readme = read("README.md");
    let shown = readme
        .split("    # /etc/podkeeper/manifests/web.yaml\n")
        .nth(1)
        .expect("the README shows a manifest");
    let manifest: Vec<&str> = shown.lines().map_while(|l| l.strip_prefix("    ")).collect();
    decoded(Path::new("README.md"), &manifest.join("\n"));
}

/// The table of upstream bugs names existing tests, and misses none.
#[test]
fn every_named_bug_is_in_the_table() {
    let table = read("tests/it/KUBELET-BUGS.md");
    let mut sources = Vec::new();
    collect(&top().join("src"), &mut sources);
    collect(&top().join("tests"), &mut sources);
    let mut names: Vec<String> = Vec::new();
    for file in sources {
        let text = std::fs::read_to_string(&file).unwrap();
        let named =
            text.lines().filter_map(|l| l.trim().strip_prefix("fn k")).filter_map(|l| l.split('(').next());
        let numbered = named.filter(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        names.extend(numbered.map(|n| format!("k{n}")));
    }
    let missing: Vec<&String> = names.iter().filter(|n| !table.contains(n.as_str())).collect();
    assert!(missing.is_empty(), "not in tests/it/KUBELET-BUGS.md: {missing:#?}");
    let listed = table.split('`').filter(|w| w.starts_with('k') && w.contains('_'));
    let gone: Vec<&str> = listed.filter(|w| !names.iter().any(|n| n == w)).collect();
    assert!(gone.is_empty(), "in the table, but no test: {gone:#?}");
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}
