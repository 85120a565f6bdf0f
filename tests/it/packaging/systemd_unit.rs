//! The shipped units under a real systemd: the daemon's notifications, its watchdog, and the order in which a machine
//! shuts down.

use std::ffi::OsStr;
use std::fs;

use crate::faults::{assert_untouched, lives};
use crate::harness::pods::Pod;
use crate::harness::{Node, Options};
use crate::packaging::systemd::Booted;

/// Drop-in for the units where `sysinit.target` and `basic.target` never start: the other dependencies that systemd
/// adds by itself.
const ALONE: &str = "[Unit]\nDefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\n";
const UNIT: &str = "podkeeper.service";

/// A node whose daemon is the shipped unit. It is dropped before its machine.
struct Served {
    node: Node,
    machine: Booted,
}

fn packaged(name: &str) -> String {
    let path = format!("{}/packaging/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A command line in the syntax of units.
fn line<'a>(words: impl Iterator<Item = &'a OsStr>) -> String {
    words.map(|word| format!("\"{}\"", word.to_str().unwrap())).collect::<Vec<_>>().join(" ")
}

impl Served {
    /// Starts the daemon, and waits until it has announced that it runs. `settings` are those of the service.
    fn start(flags: &[&str], settings: &str) -> Served {
        let machine = Booted::start();
        let socket = Some(machine.socket());
        let place = Some(machine.base().to_owned());
        let node = Node::prepare(Options {
            endpoint: socket.clone(),
            look_at: socket,
            place,
            ..Options::flags(flags)
        });
        for slice in ["kubepods.slice.d", "kubepods-.slice.d"] {
            machine.install(&format!("{slice}/podkeeper.conf"), &packaged("kubepods.slice.conf"));
        }
        let command = node.run_command();
        let command = line(std::iter::once(command.get_program()).chain(command.get_args()));
        let log = node.base.join("log");
        let own = format!(
            "{ALONE}[Service]\nExecStart=\nExecStart={command}\nStateDirectory=\nConfigurationDirectory=\n\
             RuntimeDirectory=\nLimitCORE=0\nStandardOutput=append:{0}\nStandardError=append:{0}\n{settings}\n",
            log.display()
        );
        machine.install(UNIT, &packaged(UNIT));
        machine.install(&format!("{UNIT}.d/test.conf"), &own);
        let served = Served { node, machine };
        // Returns when the service announces that it is ready.
        served.told("READY=1", || _ = served.machine.systemctl(&["start", UNIT]));
        served
    }

    fn show(&self, property: &str) -> String {
        self.machine.systemctl(&["show", "--value", "-p", property, UNIT])
    }

    fn pid(&self) -> String {
        self.show("MainPID")
    }

    fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.pid());
        assert!(self.machine.enter("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Does something, and waits until the daemon then tells systemd this. Systemd writes notifications to its debug
    /// log, and loses lines of it when there are many.
    fn told(&self, what: &str, does: impl FnOnce()) {
        self.machine.systemctl(&["log-level", "debug"]);
        does();
        self.node.wait_until(&format!("systemd is told {what}"), || {
            let log = self.machine.log();
            log.lines().any(|line| line.contains("Got notification message") && line.contains(what))
        });
        self.machine.systemctl(&["log-level", "info"]);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // While the daemon runs, its pods come back. Where the end of Docker took it down there is no daemon.
        _ = self.machine.enter("systemctl").args(["stop", UNIT]).output();
    }
}

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

/// `PODKEEPER_WATCHDOG`: its seconds.
#[test]
fn systemd_starts_a_daemon_again_that_stands_still_and_no_container() {
    let seconds = std::env::var("PODKEEPER_WATCHDOG").map_or(3, |n| n.parse::<u32>().unwrap());
    let served = Served::start(&[], &format!("WatchdogSec={seconds}s"));
    let node = &served.node;
    assert_eq!((served.show("ActiveState"), served.show("NRestarts")), ("active".into(), "0".into()));
    for name in ["p", "q"] {
        node.write(&format!("{name}.yaml"), pod(name).text());
    }
    for name in ["p", "q"] {
        node.wait_phase(name, "Running");
    }
    node.wait_until("systemd shows what the daemon does", || {
        served.show("StatusText").starts_with("2 pods, 2 running; Docker ")
    });
    let before = lives(node);
    assert_eq!(before.len(), 4);

    let first = served.pid();
    served.told("RELOADING=1", || served.signal("HUP"));
    node.wait_until("the reload is over", || served.show("SubState") == "running");
    assert_eq!(served.pid(), first);

    served.signal("STOP");
    let begun = std::time::Instant::now();
    while served.show("NRestarts") == "0" {
        let most = seconds * 3 + 30;
        assert!(begun.elapsed().as_secs() < most.into(), "not started again:\n{}", served.machine.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    node.wait_until("it is ready again", || served.show("ActiveState") == "active");
    let log = served.machine.log();
    assert!(log.contains("Watchdog timeout (limit "), "{log}");
    let second = served.pid();
    assert_ne!(second, first);
    node.wait_until("the new daemon has its pods", || {
        let status = node.status().filter(|status| status.pid.to_string() == second);
        status.is_some() && ["p", "q"].iter().all(|pod| node.phase(pod) == "Running")
    });
    assert_untouched(&before, node, "the daemon stood still");

    served.told("STOPPING=1", || _ = served.machine.systemctl(&["stop", UNIT]));
    assert_untouched(&before, node, "the daemon was stopped");
    assert_eq!(lives(node), before);
}

/// Everything that `poweroff.target` does before its last step.
#[test]
fn a_machine_that_goes_down_ends_its_pods_in_the_order_of_their_priorities_and_then_docker() {
    let served =
        Served::start(&["--shutdown-grace-period=20s", "--shutdown-grace-period-critical-pods=10s"], "");
    let (node, machine) = (&served.node, &served.machine);
    let order = node.base.join("order");
    fs::create_dir(&order).unwrap();
    let drain = "podkeeper-drain.service";
    let root = node.root().display().to_string();
    let words = |arguments: &[&str]| {
        let command = node.command(&[arguments, &["--root-dir", &root]].concat());
        line(std::iter::once(command.get_program()).chain(command.get_args()))
    };
    let (stop, start) =
        (words(&["drain", "--shutdown", "--timeout", "80s"]), words(&["resume", "--shutdown"]));
    machine.install(drain, &packaged(drain));
    machine.install(
        &format!("{drain}.d/test.conf"),
        &format!("{ALONE}[Service]\nExecStart=\nExecStart=-{start}\nExecStop=\nExecStop={stop}\n"),
    );
    let told = format!("[Service]\nExecStop=/bin/sh -c 'echo docker >>{}/all'\n", order.display());
    machine.install("docker.service.d/test.conf", &told);
    let down = "[Unit]\nDefaultDependencies=no\nRequires=shutdown.target\nAfter=shutdown.target\n";
    machine.install("down.target", down);
    machine.systemctl(&["start", drain]);
    for (name, priority) in [("low", 0), ("middle", 1000), ("critical", 2_000_000_000)] {
        let script = format!(
            "trap 'echo {name} is told >>/order/all; sleep 2; echo {name} ends >>/order/all; exit 0' TERM; \
             sleep 100000 & wait"
        );
        let volume = serde_json::json!([{"name": "order", "hostPath": {"path": order}}]);
        let mount = serde_json::json!([{"name": "order", "mountPath": "/order"}]);
        let pod = pod(name).script(&script).grace(30).set("/spec/priority", priority);
        let pod = pod.set("/spec/volumes", volume).set("/spec/containers/0/volumeMounts", mount);
        node.write(&format!("{name}.yaml"), pod.text());
    }
    for name in ["low", "middle", "critical"] {
        node.wait_phase(name, "Running");
    }
    machine.systemctl(&["start", "--no-block", "--job-mode=replace-irreversibly", "down.target"]);
    let state = || {
        let output = machine.enter("systemctl").args(["is-active", "docker.service"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    node.wait_until("Docker has ended", || state() == "inactive");
    let text = fs::read_to_string(order.join("all")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    // Pods that are not critical end at the same time, in any order.
    lines[..4].sort_unstable();
    let expected = [
        "low ends",
        "low is told",
        "middle ends",
        "middle is told",
        "critical is told",
        "critical ends",
        "docker",
    ];
    assert_eq!(lines, expected, "{text}\n{}", node.log());
    let log = node.log();
    assert!(log.contains("the node is drained: nothing runs"), "{log}");
}
