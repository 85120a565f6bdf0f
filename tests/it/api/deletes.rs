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
