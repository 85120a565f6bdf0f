//! The ends of containers on the real Docker: their termination messages, and the reasons for which
//! they ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use serde_json::json;

use crate::harness::history::History;
use crate::harness::pods::{IGNORES_TERM, OBEYS, Pod, container};
use crate::harness::{Container, Node, Options};

/// End of the container's newest instance, if it has ended.
fn end(node: &Node, pod: &str, container: &str) -> Option<ContainerStateTerminated> {
    node.container_status(pod, container)?.state?.terminated
}

/// Runs a script once under policy Never, and returns its end.
fn ends(node: &Node, name: &str, pod: Pod) -> ContainerStateTerminated {
    node.write(&format!("{name}.yaml"), pod.restart_policy("Never").text());
    node.wait_for(&format!("{name} has ended"), || end(node, name, "app"))
}

fn message(end: &ContainerStateTerminated) -> &str {
    end.message.as_deref().unwrap_or_default()
}

fn policy(pod: Pod, policy: &str) -> Pod {
    pod.set("/spec/containers/0/terminationMessagePolicy", policy)
}

/// Termination files that are left on disk.
fn files(node: &Node) -> BTreeSet<PathBuf> {
    fn walk(at: PathBuf, all: &mut BTreeSet<PathBuf>) {
        match fs::read_dir(&at) {
            Ok(entries) => entries.for_each(|entry| walk(entry.unwrap().path(), all)),
            Err(_) => _ = all.insert(at),
        }
    }
    let mut all = BTreeSet::new();
    if node.root().join("pods").exists() {
        walk(node.root().join("pods"), &mut all);
    }
    all
}

#[test]
fn last_words_from_the_file_and_from_the_log() {
    let node = Node::start();
    let pod = |name: &str, script: &str| Pod::new(name).script(script);
    let plain = pod("plain", "echo -n sorry >/dev/termination-log; exit 3");
    let own_path = pod("path", "echo -n elsewhere >/tmp/words; exit 0")
        .set("/spec/containers/0/terminationMessagePath", "/tmp/words");
    let long = pod("long", "for n in $(seq 3000); do echo $n; done >/dev/termination-log; exit 1");
    let log =
        policy(pod("log", "for n in $(seq 100); do echo line $n; done; exit 1"), "FallbackToLogsOnError");
    let fine = policy(pod("fine", "echo nothing to see; exit 0"), "FallbackToLogsOnError");
    let both = policy(
        pod("both", "echo from the log; echo -n from the file >/dev/termination-log; exit 1"),
        "FallbackToLogsOnError",
    );
    let silent = pod("silent", "echo not told; exit 1");
    for (name, pod) in [
        ("plain", plain),
        ("path", own_path),
        ("long", long),
        ("log", log),
        ("fine", fine),
        ("both", both),
        ("silent", silent),
    ] {
        node.write(&format!("{name}.yaml"), pod.restart_policy("Never").text());
    }
    let told = |name: &str| node.wait_for(&format!("{name} has ended"), || end(&node, name, "app"));
    let check = || {
        let plain = told("plain");
        assert_eq!((message(&plain), plain.exit_code, plain.reason.as_deref()), ("sorry", 3, Some("Error")));
        assert_eq!(message(&told("path")), "elsewhere");
        let long = told("long");
        assert!(message(&long).len() == 4096 && message(&long).ends_with("2999\n3000\n"), "{long:?}");
        let log = told("log");
        assert!(message(&log).starts_with("line 21\n") && message(&log).ends_with("line 100\n"), "{log:?}");
        assert_eq!(message(&told("fine")), "", "it succeeded");
        assert_eq!(told("fine").reason.as_deref(), Some("Completed"));
        assert_eq!(message(&told("both")), "from the file");
        assert_eq!(message(&told("silent")), "");
    };
    check();
    let describe = node.says(&["describe", "pod", "plain"]);
    assert!(describe.contains("Message:") && describe.contains("sorry"), "{describe}");
    // A new daemon has only the dead containers and their files.
    node.restart();
    node.wait_until("the last words are known again", || {
        end(&node, "plain", "app").is_some_and(|e| message(&e) == "sorry")
            && end(&node, "log", "app").is_some_and(|e| message(&e).ends_with("line 100\n"))
            && end(&node, "both", "app").is_some_and(|e| message(&e) == "from the file")
            && end(&node, "long", "app").is_some_and(|e| message(&e).len() == 4096)
    });
    check();
}

#[test]
fn a_crash_leaves_its_words_in_the_last_state_and_files_go_with_their_containers() {
    let node = Node::start();
    let script = "echo -n \"I was $(hostname)\" >/dev/termination-log; exit 1";
    node.write("crash.yaml", Pod::new("crash").script(script).text());
    node.wait_until("its last words are told", || {
        let last = node.container_status("crash", "app").and_then(|c| c.last_state?.terminated);
        last.is_some_and(|end| message(&end) == format!("I was {}", node.full("crash")))
    });
    node.wait_until("the first instance is gone", || {
        !node.of("crash").iter().any(|c| c.container == "app" && c.attempt == 0)
    });
    node.wait_until("its file with it", || !files(&node).iter().any(|f| f.ends_with("00000000")));
    assert!(!files(&node).is_empty());
    node.remove("crash.yaml");
    node.wait_until("nothing of it is left", || node.of("crash").is_empty() && files(&node).is_empty());
}

#[test]
fn files_of_pods_that_vanished_meanwhile_are_removed() {
    let node = Node::with(Options::flags(&["--sync-frequency=1s"]));
    for name in ["stays", "goes", "vanishes"] {
        node.write(&format!("{name}.yaml"), Pod::new(name).text());
    }
    for name in ["stays", "goes", "vanishes"] {
        node.wait_phase(name, "Running");
    }
    // A termination file and a hosts file for each pod.
    assert_eq!(files(&node).len(), 6);
    let stays = node.wait_running("stays", "app");
    node.stop();
    node.remove("goes.yaml");
    node.remove("vanishes.yaml");
    for container in node.of("vanishes") {
        node.remove_container(&container.id);
    }
    node.launch();
    node.wait_until("only two files are left", || files(&node).len() == 2);
    let left = files(&node);
    assert!(left.iter().all(|file| file.to_string_lossy().contains(&stays.uid)), "{left:?}");
    let pods = || node.root().join("pods").read_dir().unwrap().count();
    node.wait_until("only one pod has a directory", || pods() == 1);
    assert_eq!(node.running("stays", "app"), [stays]);
}

#[test]
fn out_of_memory_is_told_as_the_reason() {
    let node = Node::start();
    let script = "echo started; x=a; while :; do x=$x$x; done";
    let pod =
        Pod::new("oom").script(script).set("/spec/containers/0/resources/limits", json!({"memory": "16Mi"}));
    let end = ends(&node, "oom", pod);
    assert_eq!((end.exit_code, end.reason.as_deref()), (137, Some("OOMKilled")), "{end:?}");
    node.wait_phase("oom", "Failed");
    // The kernel's own message, which also comes where Docker has missed the kill.
    if fs::File::open("/dev/kmsg").is_ok() {
        let pod = format!("of pod default/{}, container ", node.full("oom"));
        node.wait_until("the log names the process that was killed", || {
            let log = node.log();
            log.lines().any(|line| line.contains("the kernel killed process sh (") && line.contains(&pod))
        });
    }
    node.restart();
    node.wait_phase("oom", "Failed");
    node.wait_until("also for a new daemon", || {
        self::end(&node, "oom", "app").is_some_and(|end| end.reason.as_deref() == Some("OOMKilled"))
    });
}

/// Docker marks the container, whichever of its processes was killed: the mark shows when the
/// container ends.
#[test]
fn a_child_that_is_out_of_memory_takes_no_container_with_it() {
    let node = Node::start();
    let script =
        "sh -c 'x=a; while :; do x=$x$x; done'; echo child $?; trap 'exit 0' TERM; sleep 100000 & wait";
    let pod = Pod::new("child").script(script).restart_policy("Never");
    node.write(
        "child.yaml",
        pod.set("/spec/containers/0/resources/limits", json!({"memory": "16Mi"})).text(),
    );
    let app = node.wait_running("child", "app");
    node.wait_until("the child is killed", || node.says(&["logs", "child"]).contains("child 137"));
    if fs::File::open("/dev/kmsg").is_ok() {
        let pod = format!("of pod default/{}, container ", node.full("child"));
        node.wait_until("the log names the child", || {
            let log = node.log();
            log.lines().any(|line| line.contains("the kernel killed process sh (") && line.contains(&pod))
        });
    }
    assert_eq!(node.running("child", "app"), std::slice::from_ref(&app));
    let status = node.container_status("child", "app").unwrap();
    assert_eq!((status.restart_count, status.ready), (0, true));
    assert_eq!(
        (status.state.unwrap().terminated, status.last_state.and_then(|s| s.terminated)),
        (None, None)
    );
    assert_eq!(node.phase("child"), "Running");
    let events = node.says(&["get", "events"]);
    assert!(!events.contains("SystemOOM"), "the node has memory: {events}");

    node.kill_container(&app.id, "TERM");
    let end = node.wait_for("it has ended", || end(&node, "child", "app"));
    let marked = node.inspect(&app.id)["State"]["OOMKilled"].as_bool().unwrap();
    let reason = if marked { "OOMKilled" } else { "Completed" };
    assert_eq!((end.exit_code, end.reason.as_deref()), (0, Some(reason)), "{end:?}");
    node.wait_phase("child", "Succeeded");
}

#[test]
fn reasons_of_ends() {
    let node = Node::start();
    let check = |name: &str, pod: Pod, code: i32, reason: &str| {
        let end = ends(&node, name, pod);
        assert_eq!((end.exit_code, end.reason.as_deref(), end.signal), (code, Some(reason), None), "{end:?}");
        assert!(end.container_id.is_some() && end.started_at.is_some() && end.finished_at.is_some());
        end
    };
    check("done", Pod::new("done").script("exit 0"), 0, "Completed");
    check("failed", Pod::new("failed").script("exit 42"), 42, "Error");
    // Like with the kubelet, a signal is shown only by its exit code.
    check(
        "signal",
        Pod::new("signal").script("kill -SEGV $$; sleep 1; kill -USR1 $$; exit 139"),
        139,
        "Error",
    );
    let missing = Pod::new("missing").set("/spec/containers/0/command", json!(["/no/such/program"]));
    let end = check("missing", policy(missing, "FallbackToLogsOnError"), 127, "ContainerCannotRun");
    assert!(message(&end).contains("/no/such/program"), "{end:?}");
    node.wait_phase("missing", "Failed");
}

#[test]
fn a_container_waits_for_a_root_directory_that_cannot_be_written_and_says_so() {
    let node = Node::prepare(Options::default());
    let obstacle = node.root().join("pods");
    fs::write(&obstacle, "no directory").unwrap();
    node.write(
        "web.yaml",
        Pod::new("web").script("echo -n words >/dev/termination-log; exec sleep 100000").text(),
    );
    node.launch();
    let waits = |pod: k8s_openapi::api::core::v1::Pod| {
        let state = pod.status?.container_statuses?.into_iter().next()?.state?;
        state.waiting?.reason
    };
    node.wait_until("its container waits", || {
        node.pod("web").and_then(waits).as_deref() == Some("CreateContainerConfigError")
    });
    assert!(node.log().contains("cannot be written"), "{}", node.log());
    fs::remove_file(&obstacle).unwrap();
    node.wait_phase("web", "Running");
}

#[test]
fn each_container_of_a_pod_has_its_own_words() {
    let node = Node::start();
    let say = |words: &str| format!("echo -n {words} >/dev/termination-log; exit 0");
    let pod = Pod::new("job")
        .restart_policy("Never")
        .script(&say("app"))
        .init(container("init", &say("init")))
        .and(container("other", &say("other")));
    node.write("job.yaml", pod.text());
    node.wait_phase("job", "Succeeded");
    for name in ["init", "app", "other"] {
        assert_eq!(message(&end(&node, "job", name).unwrap()), name);
    }
    let long = format!("{} exit 0", "for n in $(seq 4000); do echo -n x; done >/dev/termination-log;");
    let mut many = Pod::new("many").restart_policy("Never").script(&long);
    for n in 1..6 {
        many = many.and(container(&format!("c{n}"), &long));
    }
    node.write("many.yaml", many.text());
    node.wait_phase("many", "Succeeded");
    for name in ["app", "c1", "c5"] {
        assert_eq!(message(&end(&node, "many", name).unwrap()).len(), 12288 / 6, "{name}");
    }
}

const EXCEEDED: [&str; 3] =
    ["Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"];

fn verdict(node: &Node, pod: &str) -> [String; 3] {
    let status = node.pod(pod).and_then(|p| p.status).unwrap_or_default();
    [status.phase, status.reason, status.message].map(Option::unwrap_or_default)
}

#[test]
fn a_pod_past_its_deadline_is_stopped_within_its_grace_and_failed_for_good() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = |name: &str, script: &str| {
        Pod::new(name).script(script).grace(3).set("/spec/activeDeadlineSeconds", 4)
    };
    node.write("stubborn.yaml", pod("stubborn", IGNORES_TERM).text());
    node.write("always.yaml", pod("always", OBEYS).text());
    node.write("failing.yaml", pod("failing", OBEYS).restart_policy("OnFailure").text());
    let all = ["stubborn", "always", "failing"];
    let is_over = |pod: &str| verdict(&node, pod) == EXCEEDED && !node.of(pod).iter().any(Container::runs);
    for pod in all {
        node.wait_until(&format!("{pod} is over"), || is_over(pod));
    }
    let signals = history.times(&node.full("stubborn"), "app", "kill");
    let left = signals[1] - signals[0];
    assert!((2_000_000_000..10_000_000_000).contains(&left), "{left} ns from TERM to KILL");
    let describe = node.says(&["describe", "pod", "always"]);
    assert!(describe.contains("DeadlineExceeded"), "{describe}");
    let before: BTreeSet<String> = node.containers().into_iter().map(|c| c.id).collect();
    // Killed, so that it cannot write anything at its end.
    node.kill9();
    node.launch();
    for pod in all {
        node.wait_until(&format!("{pod} is still over"), || is_over(pod));
    }
    // When a later pod runs, these would have been started.
    node.write("later.yaml", Pod::new("later").text());
    node.wait_phase("later", "Running");
    let later = node.full("later");
    let after = node.containers().into_iter().filter(|c| c.pod != later);
    assert_eq!(after.map(|c| c.id).collect::<BTreeSet<_>>(), before);
    assert!(all.iter().all(|pod| is_over(pod)));
}

#[test]
fn a_deadline_goes_on_while_the_daemon_does_not_run() {
    let node = Node::start();
    node.write("job.yaml", Pod::new("job").set("/spec/activeDeadlineSeconds", 8).text());
    let app = node.wait_running("job", "app");
    node.wait_phase("job", "Running");
    node.kill9();
    // The test is about this time, and has to wait for it.
    node.wait_until("eight seconds of life have passed", || {
        let up = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let started = app.started_at.unwrap().as_second();
        i64::try_from(up.as_secs()).unwrap() > started + 9
    });
    assert!(node.container(&app.id).unwrap().runs());
    node.launch();
    node.wait_until("it is over at once", || verdict(&node, "job") == EXCEEDED);
    assert_eq!(node.of("job").iter().filter(|c| c.container == "app").count(), 1);
}

#[test]
fn restart_rules_restart_what_the_pod_would_not() {
    let node = Node::start();
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let script = "exit $CODE";
    let pod = |name: &str, code: &str| {
        Pod::new(name)
            .restart_policy("Never")
            .script(script)
            .set("/spec/containers/0/env", json!([{"name": "CODE", "value": code}]))
            .set("/spec/containers/0/restartPolicy", "Never")
            .set("/spec/containers/0/restartPolicyRules", rules.clone())
    };
    node.write("matches.yaml", pod("matches", "42").text());
    node.write("other.yaml", pod("other", "41").text());
    node.wait_phase("other", "Failed");
    assert_eq!(node.container_status("other", "app").unwrap().restart_count, 0);
    node.wait_until("the rule has restarted it", || {
        node.container_status("matches", "app").is_some_and(|c| c.restart_count >= 1)
    });
    assert_eq!(node.phase("matches"), "Running");
}
