//! No inotify instance is available (kubermatic/kubermatic#7490). The limit belongs to the user namespace, so the
//! daemon gets a namespace of its own, where it is root as before and the limit is 0; other processes keep theirs.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn k7490_without_inotify_the_directory_is_polled() {
    let node = Node::prepare(Options::flags(&["--file-check-frequency", "1s"]));
    let daemon = node.run_command();
    // The capability would have no effect outside the namespace, so Docker is not asked for it.
    let limit = "echo 0 > /proc/sys/user/max_inotify_instances && \
                 exec setpriv --bounding-set=-sys_resource -- \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--", "sh", "-c", limit, "sh"]);
    command.arg(daemon.get_program()).args(daemon.get_args());
    let log = File::create(node.base.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut daemon = Daemon(command.spawn().expect("unshare"));
    node.wait_until("the daemon writes its status", || node.status().is_some());
    for name in ["p", "q"] {
        node.write(&format!("{name}.yaml"), Pod::new(name).text());
        node.wait_running(name, "app");
    }
    node.remove("p.yaml");
    node.wait_until("the removed pod is gone", || node.of("p").is_empty());
    assert!(daemon.0.try_wait().unwrap().is_none(), "the daemon ended:\n{}", node.log());
    let log = node.log();
    let said = log.lines().filter(|line| line.contains("cannot be watched")).count();
    assert_eq!(said, 1, "said once:\n{log}");
}
