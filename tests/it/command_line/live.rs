//! The command line beside a daemon that runs: commands that a user types on a node, and the daemon's
//! behaviour meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::pods::{OBEYS, Pod, container};
use crate::harness::{Bounded as _, Node, Options, PATIENCE};

/// A node on which `web` (containers `app` and `other`) runs.
fn web() -> Node {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").and(container("other", OBEYS)).text());
    node.wait_phase("web", "Running");
    node
}

/// Reports the kernel's counters, in the columns of kubectl.
#[test]
fn top_tells_what_uses_cpu_and_memory() {
    let node = Node::start();
    let volume = json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    let fills = format!("dd if=/dev/zero of=/memory/file bs=1M count=32; echo full; {OBEYS}");
    let mut full = container("full", &fills);
    full["volumeMounts"] = json!([{"name": "memory", "mountPath": "/memory"}]);
    let busy = Pod::new("busy").script("while :; do :; done").and(full).set("/spec/volumes", volume);
    node.write("busy.yaml", busy.text());
    node.write("idle.yaml", Pod::new("idle").text());
    node.wait_phase("busy", "Running");
    node.wait_phase("idle", "Running");
    let logs = || node.podkeeper(&["logs", "busy", "-c", "full"]).stdout;
    node.wait_until("the volume is full", || String::from_utf8_lossy(&logs()).contains("full"));

    let lines = |arguments: &[&str]| -> Vec<Vec<String>> {
        let output = node.podkeeper(arguments);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let number = |cell: &str, unit: &str| cell.strip_suffix(unit).unwrap().parse::<u64>().unwrap();
    let (busy, idle) = (node.full("busy"), node.full("idle"));

    let pods = lines(&["top", "pods", "--sort-by", "cpu"]);
    let of = |pod: &str| pods.iter().find(|row| row[0] == pod).unwrap_or_else(|| panic!("{pod}: {pods:?}"));
    assert_eq!(pods[0], ["NAME", "CPU(cores)", "MEMORY(bytes)"]);
    assert_eq!(pods[1][0], busy);
    assert!(number(&of(&busy)[1], "m") > number(&of(&idle)[1], "m"), "{pods:?}");
    assert!(number(&of(&busy)[2], "Mi") >= 32 && number(&of(&idle)[2], "Mi") < 32, "{pods:?}");

    let containers = lines(&["top", "pod", "busy", "--containers", "--sort-by", "memory", "--no-headers"]);
    let names: Vec<[&str; 2]> = containers.iter().map(|row| [&*row[0], &*row[1]]).collect();
    assert_eq!(names, [[busy.as_str(), "full"], [busy.as_str(), "app"]], "{containers:?}");
    assert!(number(&containers[0][3], "Mi") >= 32, "{containers:?}");
    assert!(number(&containers[1][2], "m") > number(&containers[0][2], "m"), "{containers:?}");

    let machine = lines(&["top", "node"]);
    assert_eq!(machine[0], ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]);
    assert!(number(&machine[1][1], "m") > 0 && number(&machine[1][4], "%") <= 100, "{machine:?}");

    node.remove("idle.yaml");
    node.wait_until("it is gone", || node.pod("idle").is_none());
    let gone = node.podkeeper(&["top", "pods", "idle"]);
    assert_eq!(String::from_utf8_lossy(&gone.stderr), "error: pods \"idle\" not found\n");
    assert_eq!(gone.status.code(), Some(1));
}

/// Nothing is written while nothing changes, so the state alone does not show whether its writer still works.
#[test]
fn a_daemon_that_hangs_is_told_and_a_pod_outlives_it_with_its_age() {
    let node = web();
    let errors = || String::from_utf8(node.podkeeper(&["get", "pods"]).stderr).unwrap();
    assert_eq!(errors(), "");
    node.signal(Signal::STOP);
    let told = errors();
    node.signal(Signal::CONT);
    assert!(told.contains("cannot write its answer: this is the state it wrote at 2"), "{told}");
    assert_eq!(errors(), "");
    let times = || {
        let pod = node.pod("web").unwrap();
        let seen = pod.metadata.annotations.unwrap().remove("kubernetes.io/config.seen");
        (seen.unwrap(), pod.status.unwrap().start_time.unwrap())
    };
    let before = times();
    node.restart();
    node.wait_phase("web", "Running");
    assert_eq!(times(), before);
}

/// A subcommand that keeps running: its lines as they come.
struct Live {
    child: Child,
    lines: Receiver<String>,
}

impl Live {
    fn start(mut command: Command) -> Live {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Live { child, lines }
    }

    /// The next line that contains this.
    fn until(&self, part: &str) -> String {
        let begun = Instant::now();
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with {part:?}: {error}; seen: {seen:#?}"),
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(out: ChildStdout) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .take_while(|line| send.send(line.clone()).is_ok())
            .count()
    });
    lines
}

#[test]
fn get_pods_lists_in_every_format() {
    let node = web();
    let full = node.full("web");
    let table = node.says(&["get", "pods"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(rows[1][..4], [&full, "2/2", "Running", "0"]);
    assert_eq!(rows.len(), 2);
    let ip = node.pod("web").and_then(|p| p.status).and_then(|s| s.pod_ip).unwrap();
    let wide = node.says(&["get", "pods", "-o", "wide", "--no-headers"]);
    let cells: Vec<&str> = wide.split_whitespace().collect();
    assert_eq!(cells[5..7], [&ip, &node.name]);
    assert_eq!(node.says(&["get", "pods", "-o", "name"]), format!("pod/{full}\n"));
    let one: Value = serde_json::from_str(&node.says(&["get", "pods", "web", "-o", "json"])).unwrap();
    let list: Value = serde_json::from_str(&node.says(&["get", "pods", "-o", "json"])).unwrap();
    let yaml: Value = serde_saphyr::from_str(&node.says(&["get", "pods", "web", "-o", "yaml"])).unwrap();
    assert_eq!((&one["metadata"]["name"], &one["status"]["phase"]), (&json!(full), &json!("Running")));
    assert_eq!((&list["items"][0], &yaml), (&one, &one));
    assert_eq!(node.podkeeper(&["get", "pods", "nobody"]).status.code(), Some(1));
    assert_eq!(node.says(&["get", "pods", "-n", "elsewhere"]), "");
}

#[test]
fn get_pods_watches_a_restart() {
    let node = web();
    let watch = Live::start(node.command(&["get", "pods", "-w"]));
    assert!(watch.until(&node.full("web")).contains("Running"));
    let app = node.wait_running("web", "app");
    node.kill_container(&app.id, "SIGKILL");
    let row = watch.until("1 (");
    assert!(row.starts_with(&node.full("web")), "{row}");
    node.remove("web.yaml");
    watch.until("Terminating");
}

#[test]
fn describe_tells_everything_about_a_pod() {
    let node = web();
    let page = node.says(&["describe", "pod", "web"]);
    let app = node.wait_running("web", "app");
    let manifest = node.manifests().join("web.yaml").display().to_string();
    for part in [&node.full("web"), &format!("docker://{}", app.id), &manifest, "State:", "Running", "Ready"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn logs_choose_and_follow() {
    let node = Node::start();
    let talks = "trap 'echo bye; exit 0' TERM; echo one; echo two; echo three >&2; sleep 100000 & wait";
    node.write("web.yaml", Pod::new("web").script(talks).and(container("other", OBEYS)).text());
    node.wait_phase("web", "Running");
    node.wait_until("it has talked", || node.says(&["logs", "web"]).lines().count() == 3);
    let logs = |flags: &[&str]| node.says(&[&["logs", "web"], flags].concat());
    // Docker keeps no order between both streams.
    let sorted = |flags: &[&str]| {
        let mut lines: Vec<String> = logs(flags).lines().map(str::to_owned).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(sorted(&["-c", "app"]), "one three two");
    assert_eq!(logs(&["-c", "other"]), "started\n");
    assert_eq!(logs(&["--tail", "1"]).lines().count(), 1);
    assert_eq!(logs(&["--tail", "0"]), "");
    assert_eq!(sorted(&["--since", "1h"]), "one three two");
    let stamped = logs(&["-t"]);
    let first = stamped.lines().next().unwrap();
    let (time, word) = first.split_once(' ').unwrap();
    let known = ["one", "two", "three"].contains(&word);
    assert!(time.parse::<podkeeper::testing::base::clock::Timestamp>().is_ok() && known, "{first}");
    let none = node.podkeeper(&["logs", "web", "-p"]);
    assert_eq!(none.status.code(), Some(1));

    let follow = Live::start(node.command(&["logs", "web", "-f", "--tail", "0"]));
    let app = node.wait_running("web", "app");
    // The stream must be open before there is anything to print; there is no sign of that until then.
    let begun = Live::start(node.command(&["logs", "web", "-f"]));
    begun.until("two");
    node.kill_container(&app.id, "SIGTERM");
    begun.until("bye");
    follow.lines.iter().for_each(drop);
    node.wait_until("attempt 1 runs", || node.running("web", "app").iter().any(|c| c.attempt == 1));
    node.wait_until("the previous log is known", || node.podkeeper(&["logs", "web", "-p"]).status.success());
    assert_eq!(sorted(&["-p"]), "bye one three two");
    assert_eq!(node.podkeeper(&["logs", "web", "-c", "nobody"]).status.code(), Some(1));
}

#[test]
fn exec_passes_input_output_and_exit_code() {
    let node = web();
    let output = node.podkeeper(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"out\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("err\n"));
    let hostname = node.says(&["exec", "web", "-c", "other", "--", "hostname"]);
    assert_eq!(hostname.trim(), node.full("web"));

    let mut command = node.command(&["exec", "-i", "web", "--", "wc", "-c"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than any buffer on the way can hold.
    let writer = thread::spawn(move || input.write_all(&vec![b'x'; 1 << 20]));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.trim(), (1 << 20).to_string());
}

#[test]
fn exec_gives_a_terminal() {
    let node = web();
    // `script` (of bsdutils, which is installed everywhere) provides the terminal, and passes the exit code on. The
    // size follows the start, as with every client of Docker.
    let inner =
        "test -t 0 && test -t 1 && echo terminal; until stty size | grep 33; do sleep 0.05; done; exit 4";
    let line = format!(
        "stty rows 33 cols 77; '{}' exec -it web --run-dir '{}' -- sh -c '{inner}'",
        env!("CARGO_BIN_EXE_podkeeper"),
        node.run_dir().display()
    );
    let mut command = Command::new("script");
    let output = command.args(["-qec", &line, "/dev/null"]).ends();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("terminal"), "{text}");
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("33 77"), "{text}");
}

#[test]
fn a_command_line_without_a_daemon_says_so() {
    let node = web();
    assert!(node.stop().success());
    let output = node.podkeeper(&["get", "pods"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("podkeeper is not running"));
    assert!(String::from_utf8_lossy(&output.stdout).contains(&node.full("web")));
}

#[test]
fn sighup_looks_at_the_manifests_again() {
    // The target of a link is outside the directory: no event reports its change, and the timer is far away.
    let node = Node::with(Options::flags(&["--file-check-frequency=1h"]));
    let target = node.base.join("target.yaml");
    let text = |edition: &str| Pod::new("web").set("/metadata/labels/edition", edition).text();
    fs::write(&target, text("1")).unwrap();
    std::os::unix::fs::symlink(&target, node.manifests().join("web.yaml")).unwrap();
    node.wait_phase("web", "Running");
    let old = node.wait_running("web", "app");
    let beside = node.base.join("beside.yaml");
    fs::write(&beside, text("2")).unwrap();
    fs::rename(beside, &target).unwrap();
    node.signal(Signal::HUP);
    node.wait_until("the edit counts", || node.running("web", "app").iter().any(|c| c.uid != old.uid));
}

/// Counters of the daemon that would grow if it did anything: bytes written, changes of the status
/// file, and wake-ups over all threads.
fn activity(node: &Node) -> (u64, u64, u64, u64) {
    let pid = node.pid().unwrap();
    let number = |text: &str, name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let status = fs::metadata(node.run_dir().join("status.json")).unwrap();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // A thread may end between the listing and the reading. Kernel messages about other tests' networks are noise here.
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let texts = texts.filter(|text| !text.starts_with("Name:\tpk-kmsg\n"));
    let woken = texts.map(|text| number(&text, "voluntary_ctxt_switches:")).sum();
    (number(&io, "wchar:"), number(&io, "write_bytes:"), status.ino(), woken)
}

#[test]
fn nothing_is_written_and_nobody_wakes_up_while_nothing_changes() {
    const QUIET: Duration = Duration::from_secs(4);
    let node = web();
    let mut last = (activity(&node), Instant::now());
    node.wait_until("four seconds without a byte, a new file or a wake-up", || {
        let now = activity(&node);
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() >= QUIET
    });
    // The directories hold nothing but the lock, the remembered manifests, files of the pod, the status, the objects
    // and the events.
    let names = |dir| -> BTreeSet<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let known = BTreeSet::from(["images-seen", "last-good", "lock", "pods"].map(str::to_owned));
    assert_eq!(names(node.root()), known);
    assert_eq!(
        names(node.run_dir()),
        BTreeSet::from(["events.json", "lock", "objects.json", "status.json"].map(str::to_owned))
    );
}

#[test]
fn k38784_nothing_listens_on_the_network() {
    let node = web();
    let pid = node.pid().unwrap();
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: BTreeSet<String> = links
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    assert!(!sockets.is_empty(), "it speaks to Docker");
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let inodes = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9));
        let ours: Vec<&str> = inodes.filter(|inode| sockets.contains(*inode)).collect();
        assert_eq!(ours, [""; 0], "{table}");
    }
}
