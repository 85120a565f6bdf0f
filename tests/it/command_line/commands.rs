//! The command line as a process: exit codes, and `logs` and `exec` on a real container that a status
//! file made for the test names.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::Bounded as _;
use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::{Call, CreateBody, Reply};
use serde_json::json;

const SOCKET: &str = "/var/run/docker.sock";

fn podkeeper(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(output: &Output, code: i32, out: &str, err: &str) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    assert_eq!(stdout, out);
    assert!(stderr.contains(err), "{stderr:?} has no {err:?}");
}

/// A container that runs `script`, below a run directory whose status file names it as the container
/// of pod `web`.
struct Node {
    docker: Docker,
    id: String,
    dir: PathBuf,
}

impl Node {
    fn new(name: &str, script: &str) -> Node {
        let docker = Docker::Engine(Client::new(Path::new(SOCKET)));
        let body = CreateBody {
            image: "busybox:static".into(),
            cmd: Some(["/bin/sh", "-c", script].map(String::from).to_vec()),
            ..CreateBody::default()
        };
        let name = format!("podkeeper-it-{name}-{}", std::process::id());
        let Reply::Created { id, .. } =
            docker.call(&Call::Create { name: name.clone(), body: Box::new(body) }).unwrap()
        else {
            panic!("create")
        };
        docker.call(&Call::Start { id: id.clone() }).unwrap();
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let state = json!({"running": {}});
        let container = json!({"name": "app", "containerID": format!("docker://{id}"), "image": "", "imageID": "",
                               "ready": true, "restartCount": 0, "state": state});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
                         "metadata": {"name": "web-n", "namespace": "default"},
                         "spec": {"containers": [{"name": "app"}], "nodeName": "n"},
                         "status": {"phase": "Running", "containerStatuses": [container]}});
        let file = json!({"apiVersion": "podkeeper.dev/v1", "kind": "NodeStatus", "version": "", "pid": 0, "node": "n",
                          "docker": {"endpoint": format!("unix://{SOCKET}"), "reachable": true},
                          "sources": [], "problems": [], "pods": [pod]});
        fs::write(dir.join("status.json"), file.to_string()).unwrap();
        Node { docker, id, dir }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let at = arguments.iter().position(|a| *a == "--").unwrap_or(arguments.len());
        let mut all = arguments.to_vec();
        let dir = self.dir.to_str().unwrap();
        all.splice(at..at, ["--run-dir", dir]);
        podkeeper(&all)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).ends()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.docker.call(&Call::Remove { id: self.id.clone(), force: true });
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn logs_and_exec_on_a_container() {
    let node = Node::new("exec", "echo one; echo two; echo three >&2; exec sleep 1000");
    // Following ends with the container, so here it ends by itself once all three lines were seen.
    let mut follow =
        node.command(&["logs", "web", "-f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let exec = |arguments: &[&str]| node.run(&[&["exec"], arguments].concat());

    check(&exec(&["web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]), 7, "out\n", "err\n");
    check(&exec(&["web", "--", "sh", "-c", "kill -9 $$"]), 137, "", "command terminated with exit code 137");
    check(&exec(&["web", "-c", "x", "--", "sh"]), 1, "", "error: container x is not valid for pod web-n");
    check(&exec(&["nope", "--", "sh"]), 1, "", "error: pods \"nope\" not found");
    let missing = exec(&["web", "--", "/no/such/program"]);
    assert!(matches!(missing.status.code(), Some(126 | 127)), "{missing:?}");
    check(&exec(&["-t", "web", "--", "sh", "-c", "echo x"]), 0, "x\n", "Unable to use a TTY");

    // Standard input to its end, bytes unchanged.
    let mut cat = node.command(&["exec", "-i", "web", "--", "sh", "-c", "cat"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let mut input = cat.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let echoed = cat.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(echoed.stdout == bytes, "{} of {} bytes came back", echoed.stdout.len(), bytes.len());

    // A terminal: `script` provides one, and passes the exit code on.
    let line = format!(
        "{} exec -it web --run-dir {} -- sh -c 'test -t 0 && echo terminal; exit 5'",
        env!("CARGO_BIN_EXE_podkeeper"),
        node.dir.display()
    );
    let script =
        Command::new("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(script.status.code(), Some(5), "{script:?}");
    assert!(text(&script.stdout).contains("terminal\r\n"), "{script:?}");

    node.docker.call(&Call::Kill { id: node.id.clone(), signal: "SIGKILL".into() }).unwrap();
    assert!(follow.wait().unwrap().success());
    let followed = follow.wait_with_output().unwrap();
    // Both streams, as with kubectl. Docker keeps no order between them.
    for logged in [followed, node.run(&["logs", "web"])] {
        let mut lines: Vec<String> = text(&logged.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(
            (logged.status.code(), lines.join(" ")),
            (Some(0), "one three two".to_owned()),
            "{logged:?}"
        );
    }
    let stamped = text(&node.run(&["logs", "web", "-t"]).stdout);
    assert!(stamped.lines().all(|l| l.starts_with("20") && l.contains("Z ")), "{stamped}");
    check(
        &node.run(&["logs", "web", "-p"]),
        1,
        "",
        "previous terminated container \"app\" in pod \"web-n\" not found",
    );
}

#[test]
fn pods_are_shown_when_the_daemon_is_gone() {
    let node = Node::new("get", "exec sleep 1000");
    check(
        &node.run(&["get", "pods", "--no-headers"]),
        0,
        "web-n   1/1   Running   0     <unknown>\n",
        "warning: podkeeper is not running (it was process 0)",
    );
    check(&node.run(&["get", "pod", "web", "-o", "name"]), 0, "pod/web-n\n", "");
    check(&node.run(&["get", "pods", "x"]), 1, "", "error: pods \"x\" not found");
    check(&node.run(&["get", "pods", "-n", "x"]), 0, "", "1 pod is in other namespaces (default): use -A");
}

#[test]
fn exit_codes() {
    let dir = std::env::temp_dir().join(format!("podkeeper-it-exit-{}", std::process::id()));
    fs::create_dir_all(dir.join("root")).unwrap();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let run = |root: &str| {
        let arguments = ["run", "--pod-manifest-path", &at("m"), "--root-dir", root, "--run-dir", &at("run")];
        podkeeper(&arguments).ends()
    };
    check(&podkeeper(&[]).ends(), 2, "", "See 'podkeeper --help'");
    check(&podkeeper(&["run"]).ends(), 2, "", "give --pod-manifest-path DIR");
    let version = format!("podkeeper {}\n", env!("CARGO_PKG_VERSION"));
    check(&podkeeper(&["version"]).ends(), 0, &version, "");
    check(
        &podkeeper(&["get", "pods", "--run-dir", &at("run")]).output().unwrap(),
        1,
        "",
        "has not run since boot",
    );

    let lock = File::create(dir.join("root/lock")).unwrap();
    lock.lock().unwrap();
    check(&run(&at("root")), 3, "", "another podkeeper runs on");
    drop(lock);
    check(&run("/proc/nowhere"), 4, "", "/proc/nowhere cannot be used");

    fs::write(dir.join("bad.yaml"), "a: [").unwrap();
    let bad = podkeeper(&["check", &at("bad.yaml")]).ends();
    check(&bad, 1, "1 file, 0 pods: 1 error, 0 warnings\n", "bad.yaml:1:4: error: ");
    fs::remove_dir_all(&dir).unwrap();
}
