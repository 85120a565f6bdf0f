//! Paths for log collectors: links to Docker's files that are made and removed with containers, and
//! rotation.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::harness::pods::Pod;
use crate::harness::{Container, Node, Options};

/// Both links of a container.
fn links(node: &Node, pod: &str, container: &Container) -> [PathBuf; 2] {
    let Container { id, uid, container, attempt, .. } = container;
    let full = node.full(pod);
    let dir = node.pod_logs();
    [
        dir.join(format!("default_{full}_{uid}/{container}/{attempt}.log")),
        dir.with_file_name("containers").join(format!("{full}_default_{container}-{id}.log")),
    ]
}

fn all_links(node: &Node) -> usize {
    fn count(dir: &Path) -> usize {
        let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() && !path.is_symlink() { count(&path) } else { 1 }).sum()
    }
    count(node.pod_logs().parent().unwrap())
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).map(|meta| meta.ino()).unwrap_or_default()
}

#[test]
fn logs_are_found_by_name_as_long_as_their_container_is_there() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let first = node.wait_running("web", "app");
    let paths = links(&node, "web", &first);
    for path in &paths {
        node.wait_until("the log is found", || {
            fs::read_to_string(path).is_ok_and(|text| text.contains("started"))
        });
    }
    // A new daemon writes nothing.
    let before = paths.each_ref().map(|path| inode(path));
    node.restart();
    node.wait_phase("web", "Running");
    assert_eq!(paths.each_ref().map(|path| inode(path)), before);
    // The dead container that is kept has its log; the log of the one before is removed with its
    // container.
    node.kill_container(&first.id, "KILL");
    node.wait_until("a second one", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    let second = node.wait_running("web", "app");
    let now = links(&node, "web", &second);
    node.wait_until("both are found", || now.iter().chain(&paths).all(|path| path.exists()));
    node.remove("web.yaml");
    node.wait_gone("web");
    node.wait_until("no link is left", || all_links(&node) == 0);
}

#[test]
fn links_of_containers_that_were_removed_without_us_are_swept_at_start() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    node.write("gone.yaml", Pod::new("gone").text());
    let web = links(&node, "web", &node.wait_running("web", "app"));
    let gone = links(&node, "gone", &node.wait_running("gone", "app"));
    node.wait_until("all are found", || web.iter().chain(&gone).all(|path| path.exists()));
    node.kill9();
    node.of("gone").iter().for_each(|c| node.remove_container(&c.id));
    node.remove("gone.yaml");
    // Dangling, and not this podkeeper's: one without an owner, and one of a podkeeper with another
    // root directory.
    let foreign = node.pod_logs().join("default_other_1");
    fs::create_dir_all(foreign.join("app")).unwrap();
    symlink("/elsewhere", foreign.join(".podkeeper")).unwrap();
    symlink("/nowhere", foreign.join("app/0.log")).unwrap();
    let stray = node.pod_logs().with_file_name("containers").join("a_b_c-d.log");
    symlink("/nowhere", &stray).unwrap();
    node.launch();
    node.wait_until("they are swept", || gone.iter().all(|path| !path.is_symlink()));
    node.wait_until("their directory too", || !gone[0].parent().unwrap().parent().unwrap().exists());
    assert!(web.iter().all(|path| path.exists()));
    assert!(foreign.join("app/0.log").is_symlink() && stray.is_symlink());
}

#[test]
fn k110630_docker_rotates_and_other_limits_restart_nothing() {
    let node = Node::with(Options::flags(&["--container-log-max-size=16Ki", "--container-log-max-files=2"]));
    // Writes 1 MiB without pauses.
    let script = "i=0; while [ $i -lt 1024 ]; do head -c 1023 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; \
                  trap 'exit 0' TERM; sleep 100000 & wait";
    node.write("loud.yaml", Pod::new("loud").script(script).text());
    let loud = node.wait_running("loud", "app");
    let config = node.inspect(&loud.id)["HostConfig"]["LogConfig"].clone();
    assert_eq!(
        config,
        serde_json::json!({"Type": "json-file", "Config": {"max-size": "16384", "max-file": "2"}})
    );
    let file = PathBuf::from(node.inspect(&loud.id)["LogPath"].as_str().unwrap());
    let rotated = file.with_file_name(format!("{}.1", file.file_name().unwrap().to_str().unwrap()));
    node.wait_until("it is rotated", || rotated.exists());
    let third = file.with_file_name(format!("{}.2", file.file_name().unwrap().to_str().unwrap()));
    assert!(!third.exists());
    // A line may exceed the limit, but no more than one line.
    let size = |path: &Path| fs::metadata(path).map(|meta| meta.len()).unwrap_or_default();
    assert!(size(&rotated) < 16384 + 4096 && size(&file) < 16384 + 4096);
    node.options.borrow_mut().flags = vec!["--container-log-max-size=-1".into()];
    node.restart();
    node.wait_phase("loud", "Running");
    assert_eq!(node.wait_running("loud", "app").id, loud.id);
    node.write("quiet.yaml", Pod::new("quiet").text());
    let quiet = node.wait_running("quiet", "app");
    let config = node.inspect(&quiet.id)["HostConfig"]["LogConfig"].clone();
    assert_eq!(config, serde_json::json!({"Type": "json-file", "Config": {}}));
}
