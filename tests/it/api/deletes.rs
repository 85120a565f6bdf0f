//! Deletions over the API that outlive their daemon.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::kubectl::{Served, programs};
use crate::harness::Container;
use crate::harness::pods::{IGNORES_TERM, Pod};

/// Makes a pod that ends by KILL alone, with a grace period of ten minutes.
fn deaf(served: &Served, program: &PathBuf) {
    let pod = Pod::new("deaf").script(IGNORES_TERM).grace(600).text();
    let made = served.kubectl(program, "admin", &["create", "-f", "-"], &pod);
    assert!(made.status.success(), "{made:?}");
    served.node.wait_until("it is deaf by now", || {
        served.kubectl(program, "admin", &["logs", "deaf"], "").stdout.starts_with(b"started")
    });
}

fn delete(served: &Served, program: &PathBuf, grace: &str) {
    let words = ["delete", "pod", "deaf", "--wait=false", grace];
    // A daemon that begins does not answer, or does not show the pod yet.
    let deleted = || served.kubectl(program, "admin", &words, "").status.success();
    served.node.wait_until("the deletion is accepted", deleted);
}

/// The next daemon gave the pod its own grace period.
#[test]
fn a_deletion_keeps_its_grace_period_over_restarts_of_the_daemon_and_can_be_hurried() {
    let Some(program) = programs().pop() else {
        println!("there is no kubectl in PATH: the API was not tried with it");
        return;
    };
    let served = Served::start(&[]);
    let runs = || served.node.containers().iter().any(Container::runs);
    deaf(&served, &program);
    let asked = Instant::now();
    delete(&served, &program, "--grace-period=20");
    served.node.kill9();
    served.node.launch();
    delete(&served, &program, "--grace-period=500");
    served.node.wait_until("it is killed in time", || !runs());
    // Whole seconds are stored.
    assert!(asked.elapsed() >= Duration::from_secs(19), "{:?}", asked.elapsed());
    served.node.wait_until("it is gone", || {
        !served.kubectl(&program, "admin", &["get", "pod", "deaf"], "").status.success()
    });

    deaf(&served, &program);
    delete(&served, &program, "--grace-period=500");
    served.node.kill9();
    served.node.launch();
    delete(&served, &program, "--grace-period=2");
    served.node.wait_until("it is killed soon", || !runs());
}

/// Regression: the API said "deleted" of a pod that the node was ending by itself, and the object stayed: the pod ran
/// again when the file's pod of its name was gone.
#[test]
fn a_pod_that_the_node_is_ending_by_itself_can_be_deleted() {
    let Some(program) = programs().pop() else {
        println!("there is no kubectl in PATH: the API was not tried with it");
        return;
    };
    let served = Served::start(&[]);
    let full = served.node.full("late");
    let name = full.rsplit('/').next().unwrap();
    let kubectl = |words: &[&str], input: &str| served.kubectl(&program, "admin", words, input);
    let pod = Pod::new(name).script(IGNORES_TERM).grace(8).text();
    let made = kubectl(&["create", "-f", "-"], &pod);
    assert!(made.status.success(), "{made:?}");
    let logs = || kubectl(&["logs", name], "").stdout.starts_with(b"started");
    served.node.wait_until("it is deaf by now", logs);
    served.node.write("late.yaml", Pod::new("late").script("sleep 1000").text());
    let leaves = || {
        let got = kubectl(&["get", "pod", name, "-o", "jsonpath={.metadata.deletionTimestamp}"], "");
        !got.stdout.is_empty()
    };
    served.node.wait_until("the file's pod takes its name", leaves);
    let deleted = kubectl(&["delete", "pod", name, "--wait=false"], "");
    assert!(deleted.status.success(), "{deleted:?}");
    served.node.wait_phase("late", "Running");
    served.node.wait_until("nothing is wrong with the API's pods", || {
        !served.node.says(&["get", "sources"]).contains("the name is held")
    });
    served.node.remove("late.yaml");
    served.node.wait_gone("late");
    // A moment after its containers.
    served.node.wait_until("the API has it no more", || {
        String::from_utf8_lossy(&kubectl(&["get", "pod", name], "").stderr).contains("not found")
    });
}
