//! Remembered manifests: boots without manifests, with broken ones, and with a store that was damaged,
//! interrupted in the middle of a write, or forgotten.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use podkeeper::testing::pod::problem::Problem;
use serde_json::json;

use crate::harness::pods::Pod;
use crate::harness::{Bounded as _, Node, Options};
use crate::signer::Signer;

/// The files with remembered manifests.
fn good(node: &Node) -> Vec<PathBuf> {
    ending(node, ".good")
}

fn ending(node: &Node, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.root().join("last-good/file")).into_iter().flatten();
    let paths = entries.map(|e| e.unwrap().path());
    paths.filter(|p| p.to_string_lossy().ends_with(suffix)).collect()
}

fn wait_remembered(node: &Node, count: usize) {
    // One content of each: for a moment an older one may exist beside the newer.
    let of =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned();
    node.wait_until("all is remembered", || {
        let all = good(node);
        let distinct: std::collections::BTreeSet<String> = all.iter().map(of).collect();
        (all.len(), distinct.len()) == (count, count) && ending(node, ".tmp").is_empty()
    });
}

/// A node that ran `web` and then lost its power and its containers.
fn rebooted(options: Options) -> Node {
    let node = Node::with(options);
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    wait_remembered(&node, 1);
    node.kill9();
    node.containers().iter().for_each(|c| node.remove_container(&c.id));
    node
}

fn forget(node: &Node) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
    let output = command.args(["forget", "--source", "file", "--root-dir"]).arg(node.root()).ends();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn source_problem(node: &Node) -> String {
    node.status().and_then(|s| s.sources.into_iter().next()?.problem).unwrap_or_default()
}

#[test]
fn a_manifest_that_is_broken_at_boot_runs_in_its_last_good_version() {
    let node = rebooted(Options::default());
    node.write("web.yaml", "apiVersion: v1\nkind: [torn");
    node.launch();
    let first = node.wait_running("web", "app");
    let told = || node.status().is_some_and(|s| s.problems.iter().any(|p| p.path.ends_with("web.yaml")));
    node.wait_until("the status says that the manifest is broken", told);
    // Again without a reboot: the same containers.
    node.restart();
    node.wait_until("it is told again", told);
    assert_eq!(node.wait_running("web", "app").id, first.id);
    // A corrected manifest is followed.
    node.write("web.yaml", Pod::new("web").set("/metadata/labels", json!({"edition": "2"})).text());
    node.wait_until("the new edition runs", || {
        let running = node.running("web", "app");
        running.len() == 1 && running[0].id != first.id
    });
}

#[test]
fn k3355_a_directory_that_is_missing_at_boot_is_restored() {
    let node = rebooted(Options::default());
    let away = node.base.join("away");
    fs::rename(node.manifests(), &away).unwrap();
    node.launch();
    let first = node.wait_running("web", "app");
    node.wait_until("the status tells both", || {
        let source = node.status().and_then(|s| s.sources.into_iter().next());
        source.is_some_and(|s| {
            s.restored && !s.ready && s.problem.is_some_and(|p| p.contains("does not exist"))
        })
    });
    fs::rename(&away, node.manifests()).unwrap();
    node.wait_until("the source speaks for itself", || {
        node.status().and_then(|s| s.sources.into_iter().next()).is_some_and(|s| s.ready && !s.restored)
    });
    assert_eq!(node.wait_running("web", "app").id, first.id);
    // A removed manifest is gone: now, and after the next start.
    node.remove("web.yaml");
    node.wait_gone("web");
    wait_remembered(&node, 0);
}

#[test]
fn a_damaged_store_is_set_aside() {
    let node = rebooted(Options::default());
    for file in good(&node) {
        let mut bytes = fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    node.launch();
    node.wait_running("web", "app");
    wait_remembered(&node, 1);
    assert_eq!(ending(&node, ".damaged").len(), 1);
    assert_eq!(node.log().matches("are set aside").count(), 1, "{}", node.log());
    node.restart();
    assert_eq!(node.log().matches("are set aside").count(), 1, "{}", node.log());
}

#[test]
fn forget_under_a_running_daemon_and_without_one() {
    let node = rebooted(Options::default());
    let away = node.base.join("away");
    fs::rename(node.manifests(), &away).unwrap();
    node.launch();
    node.wait_running("web", "app");
    let said = forget(&node);
    let pid = node.pid().unwrap();
    assert_eq!(
        said,
        format!("forgotten of source file: 1 content\npodkeeper (process {pid}) looks at the source again\n")
    );
    // The directory cannot be read and nothing is remembered, so the source has no pods.
    node.wait_gone("web");
    assert!(source_problem(&node).contains("does not exist"));
    // Existing files are remembered again, and their pods keep running when the rest is forgotten.
    fs::rename(&away, node.manifests()).unwrap();
    let web = node.wait_running("web", "app");
    wait_remembered(&node, 1);
    assert!(forget(&node).contains("looks at the source again"));
    wait_remembered(&node, 1);
    assert_eq!(node.wait_running("web", "app").id, web.id);
    node.kill9();
    let said = forget(&node);
    assert!(said.ends_with("podkeeper is not running here: the next one begins without it\n"), "{said}");
    assert!(forget(&node).starts_with("nothing is remembered of source file in "));
    // Nothing is known of the manifest now: running pods are left alone, and no pod is started.
    node.write("web.yaml", "torn: [");
    node.launch();
    node.wait_until("the status tells the problem", || !node.status().unwrap().problems.is_empty());
    assert_eq!(node.wait_running("web", "app").id, web.id);
}

#[test]
fn killed_at_any_moment_the_store_is_readable() {
    let node = Node::prepare(Options::flags(&["--docker-endpoint", "fake://"]));
    let mut edition = 0;
    for round in 0..40_u32 {
        node.launch_unawaited();
        let begun = Instant::now();
        // Some daemons die before they have read anything, most in the middle of saving.
        let life = Duration::from_millis(5) + Duration::from_micros(u64::from(round) * 1500);
        while begun.elapsed() < life {
            edition += 1;
            for name in ["a", "b", "c"] {
                let labels = json!({"edition": format!("e{edition}")});
                node.write(&format!("{name}.yaml"), Pod::new(name).set("/metadata/labels", labels).text());
            }
        }
        node.kill9();
    }
    node.launch();
    let editions = || {
        ["a", "b", "c"].map(|name| {
            let labels = node.pod(name).and_then(|p| p.metadata.labels).unwrap_or_default();
            labels.get("edition").cloned().unwrap_or_default()
        })
    };
    let last = format!("e{edition}");
    node.wait_until("the last edition of all is wanted", || editions().iter().all(|e| *e == last));
    // Later contents are saved later.
    node.write("d.yaml", Pod::new("d").text());
    wait_remembered(&node, 4);
    node.kill9();
    // Only the remembered files are left.
    fs::rename(node.manifests(), node.base.join("away")).unwrap();
    node.launch();
    node.wait_until("all are restored", || {
        node.status().is_some_and(|s| s.sources.iter().any(|s| s.restored && s.pods == 4))
    });
    assert!(editions().iter().all(|e| *e == last), "{:?}", editions());
    assert!(!node.log().contains("cannot be used"), "{}", node.log());
    assert_eq!(ending(&node, ".damaged"), [] as [PathBuf; 0]);
}

/// The value behind `key` in one of the files that tell of a thread of the daemon.
fn of_thread(pid: u32, thread: &str, file: &str, key: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|e| e.unwrap().path());
    let is_it = |task: &PathBuf| fs::read_to_string(task.join("comm")).unwrap_or_default().trim() == thread;
    let text = fs::read_to_string(tasks.into_iter().find(is_it).unwrap().join(file)).unwrap();
    text.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim().parse().unwrap()
}

#[test]
fn the_file_source_writes_nothing_while_nothing_changes() {
    let node = rebooted(Options::flags(&["--file-check-frequency", "200ms"]));
    let state = |node: &Node| -> Vec<(u64, i64)> {
        good(node).iter().map(|p| fs::metadata(p).unwrap()).map(|m| (m.ino(), m.ctime_nsec())).collect()
    };
    let before = state(&node);
    node.launch();
    node.wait_phase("web", "Running");
    let pid = node.pid().unwrap();
    let naps = || of_thread(pid, "pk-file", "status", "voluntary_ctxt_switches:");
    // The other threads have their own reasons: the list of images that were seen, for one, is written ten seconds after
    // the last change.
    let written = || of_thread(pid, "pk-file", "io", "write_bytes:");
    let quiet = |node: &Node| {
        let (bytes, naps_before) = (written(), naps());
        node.wait_until("the file source looked ten times", || naps() >= naps_before + 10);
        written() == bytes
    };
    node.wait_until("nothing is written any more", || quiet(&node));
    assert!(quiet(&node));
    // Nothing is written at start either: the existing files are remembered already.
    assert_eq!(state(&node), before);
}

/// Whether a file below this directory holds these bytes.
fn holds(directory: &Path, word: &str) -> bool {
    fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).any(|path| {
        let bytes = fs::read(&path).unwrap_or_default();
        path.is_dir() && holds(&path, word) || bytes.windows(word.len()).any(|w| w == word.as_bytes())
    })
}

#[test]
fn k12396_what_is_remembered_does_not_stand_in_clear() {
    let canary = "canary.7f3a91c2.5be8.d04466aa19f2";
    let node = Node::start();
    let env = json!([{"name": "PASSWORD", "value": canary}]);
    node.write("secretive.yaml", Pod::new("web").set("/spec/containers/0/env", env).text());
    node.wait_phase("web", "Running");
    wait_remembered(&node, 1);
    assert!(holds(&node.manifests(), canary));
    for word in [canary, "PASSWORD", "secretive"] {
        assert!(!holds(&node.root(), word), "{word}");
    }
}

/// A file of the golden directory with signatures.
fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature").join(name)).unwrap()
}

#[test]
fn only_signed_manifests_reach_docker() {
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature/node.pub");
    let node = Node::with(Options::flags(&["--manifest-verify-key", &key.to_string_lossy()]));
    let problem = |part: &str| {
        node.wait_until(&format!("the status says: {part}"), || {
            node.status().is_some_and(|s| s.problems.iter().any(|p| p.message.contains(part)))
        });
    };
    node.write("signed.yaml", golden("v1.yaml"));
    problem("is not signed");
    node.write("signed.yaml.minisig", golden("v1.other.minisig"));
    problem("is signed with key");
    assert_eq!(node.containers(), []);
    // The signature alone changes.
    node.write("signed.yaml.minisig", golden("v1.minisig"));
    let first = node.wait_running("signed", "app");
    let mut flipped = golden("v2.yaml");
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    node.write("signed.yaml", flipped);
    node.write("signed.yaml.minisig", golden("v2.minisig"));
    problem("does not match");
    assert_eq!(node.wait_running("signed", "app").id, first.id);
    // Also after a reboot: the last good version is the signed one.
    wait_remembered(&node, 1);
    node.kill9();
    node.containers().iter().for_each(|c| node.remove_container(&c.id));
    node.launch();
    let restored = node.wait_running("signed", "app");
    node.write("signed.yaml", golden("v2.yaml"));
    let second = node.wait_for("another version runs", || {
        node.running("signed", "app").into_iter().find(|c| c.id != restored.id)
    });
    let script = node.inspect(&second.id)["Config"]["Entrypoint"].to_string();
    assert!(script.contains("version 2"), "{script}");
}

#[test]
fn a_signed_manifest_that_was_replaced_is_not_taken_again() {
    let signer = Signer::new();
    let node = Node::prepare(Options::default());
    let key = node.base.join("test.pub");
    fs::write(&key, signer.key()).unwrap();
    node.options.borrow_mut().flags =
        ["--manifest-verify-key", &key.to_string_lossy(), "--manifest-min-version", "3"]
            .map(str::to_owned)
            .into();
    node.launch();
    let put = |name: &str, content: Vec<u8>, comment: &str| {
        node.write(&format!("{name}.minisig"), signer.sign(&content, comment));
        node.write(name, content);
    };
    let problem = |path: &str, part: &str| {
        node.wait_until(&format!("the status says of {path}: {part}"), || {
            let says = |p: &Problem| p.path.ends_with(path) && p.message.contains(part);
            node.status().is_some_and(|s| s.problems.iter().any(says))
        });
    };
    // Never seen here, and below the version with which this node was installed.
    put("signed.yaml", golden("v1.yaml"), "version:2");
    problem("signed.yaml", "has version 2, and --manifest-min-version asks for version 3 or higher");
    assert_eq!(node.containers(), []);
    put("signed.yaml", golden("v1.yaml"), "version:3");
    let first = node.wait_running("signed", "app");
    put("signed.yaml", golden("v2.yaml"), "version:4");
    let second = node.wait_for("the newer version runs", || {
        node.running("signed", "app").into_iter().find(|c| c.id != first.id)
    });
    put("signed.yaml", golden("v1.yaml"), "version:3");
    problem("signed.yaml", "was accepted in version 4 already: nothing of it is taken");
    node.restart();
    // Under another name, and the first file is gone.
    node.remove("signed.yaml");
    node.remove("signed.yaml.minisig");
    put("other.yaml", golden("v1.yaml"), "version:3");
    problem("other.yaml", "has version 3, and pod default/signed-");
    assert!(node.running("signed", "app").iter().all(|c| c.id == second.id));
    // Older content on purpose, signed with a newer version.
    put("other.yaml", golden("v1.yaml"), "version:5");
    node.wait_for("the older content runs in a newer version", || {
        node.running("signed", "app").into_iter().find(|c| c.id != second.id)
    });
    // And after everything was forgotten.
    put("other.yaml", golden("v2.yaml"), "version:3");
    problem("other.yaml", "was accepted in version 5 already");
    forget(&node);
    node.wait_until("it is taken", || node.status().is_some_and(|s| s.problems.is_empty()));
    node.wait_running("signed", "app");
}

#[test]
fn a_least_version_without_signatures_is_a_usage_error() {
    let node = Node::prepare(Options::flags(&["--manifest-min-version", "3"]));
    let output = node.run_command().ends();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("--manifest-min-version is of signed manifests: it needs"), "{error}");
}

#[test]
fn a_key_file_that_is_none_is_a_usage_error_and_one_that_cannot_be_read_is_tried_again() {
    let node = Node::prepare(Options::default());
    let empty = node.base.join("empty.pub");
    std::fs::write(&empty, "").unwrap();
    let none = format!("{}: holds no minisign public key", empty.display());
    for (path, code, says) in [
        (empty.as_path(), 2, none.as_str()),
        (Path::new("/dev/null"), 1, "/dev/null: cannot be read: it is not a regular file"),
    ] {
        let output = node.run_command().arg("--manifest-verify-key").arg(path).ends();
        assert_eq!(output.status.code(), Some(code));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let all = format!("verification key of manifests: {says}");
        assert!(error.contains(&all), "{error}");
    }
}

#[test]
fn what_runs_and_is_not_signed_any_more_is_listed_and_can_be_looked_into() {
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature/node.pub");
    let node = Node::with(Options::default());
    node.write("web.yaml", Pod::new("web").text());
    let runs = node.wait_running("web", "app");
    assert!(node.stop().success());
    node.options.borrow_mut().flags = vec!["--manifest-verify-key".to_owned(), key.display().to_string()];
    node.launch();
    node.wait_until("the pod is shown as unmanaged", || node.reason("web") == "Unmanaged");
    assert!(node.says(&["get", "pods"]).contains("Unmanaged"), "{}", node.says(&["get", "pods"]));
    node.wait_until("the reason is told", || {
        node.says(&["describe", "pod", "web"]).contains("is not signed")
    });
    assert!(node.says(&["exec", "web", "--", "echo", "inside"]).contains("inside"));
    node.says(&["logs", "web"]);
    let sources = node.says(&["get", "sources"]);
    assert!(sources.contains("Degraded") && sources.contains("is not signed"), "{sources}");
    // Regression: the request was accepted, and carried out when the manifest was accepted again.
    let before = node.containers();
    let refused = node.podkeeper(&["restart", "web"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), &b""[..]), "{error}");
    assert!(error.contains("no manifest in force names it") && error.contains("is not signed"), "{error}");
    assert_eq!(node.containers(), before);
    assert_eq!(node.wait_running("web", "app").id, runs.id);
}
