//! An evicted pod comes back by itself, after five minutes. The test does not wait for so long: between the daemon and
//! the C library a few lines move its clock forward, and everything else is real.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};
use crate::node::pressure::Loop;
use crate::node::small_disk::has;

/// The monotonic clock, moved forward by five minutes when the file that `CLOCK_MOVED` names exists.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (clock == CLOCK_MONOTONIC && access(getenv("CLOCK_MOVED"), F_OK) == 0)
        at->tv_sec += 300;
    return result;
}
"#;

fn library(base: &Path) -> PathBuf {
    let (source, library) = (base.join("clock.c"), base.join("clock.so"));
    fs::write(&source, CLOCK).unwrap();
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(made.success());
    library
}

#[test]
fn an_evicted_pod_comes_back_when_its_time_has_come_and_the_node_is_well() {
    let node = Node::prepare(Options::flags(&["--eviction-pressure-transition-period=1s"]));
    let moved = node.base.join("moved");
    let library = library(&node.base).display().to_string();
    node.options.borrow_mut().env =
        vec![("LD_PRELOAD".to_owned(), library), ("CLOCK_MOVED".to_owned(), moved.display().to_string())];
    let (file, root, once) = (node.base.join("disk"), node.root(), node.base.join("once"));
    fs::create_dir(&once).unwrap();
    let _disk = Loop::mount(&file, &root, 64);
    // Uses too much of the disk the first time.
    let script = "trap 'exit 0' TERM; if [ ! -e /once/full ]; then \
                  dd if=/dev/zero of=/data/file bs=1M count=35; touch /once/full; fi; sleep 100000 & wait";
    let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "once", "hostPath": {"path": once}}]);
    let mounts = json!([{"name": "data", "mountPath": "/data"}, {"name": "once", "mountPath": "/once"}]);
    let full = Pod::new("full").script(script).set("/spec/volumes", volumes);
    node.write("full.yaml", full.set("/spec/containers/0/volumeMounts", mounts).text());
    node.write("p.yaml", Pod::new("p").text());
    node.launch();
    let stays = node.wait_running("p", "app");
    node.wait_until("the disk is filled", || once.join("full").exists());
    node.options.borrow_mut().flags.push("--eviction-hard=nodefs.available<30Mi".to_owned());
    node.restart();
    node.wait_until("it is evicted", || node.reason("full") == "Evicted");
    node.wait_gone("full");
    node.wait_until("the node is well again", || !has(&node, "DiskPressure"));
    assert_eq!(node.reason("full"), "Evicted", "its time has not come");
    assert!(node.of("full").is_empty());
    let message = node.pod("full").unwrap().status.unwrap().message.unwrap();
    assert!(message.contains(" It starts again at "), "{message}");

    fs::write(&moved, "").unwrap();
    // Nothing wakes the daemon by itself, because the kernel's clock was not moved.
    node.write("q.yaml", Pod::new("q").text());
    node.wait_phase("full", "Running");
    assert_eq!(node.reason("full"), "");
    node.wait_running("full", "app");
    assert!(node.log().contains("was evicted, and starts again"));
    assert_eq!(node.running("p", "app"), [stays]);
}
