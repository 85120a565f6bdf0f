//! Streams of kubectl through the API server to the node, in both protocols: every byte arrives in both directions, and
//! so does the exit code. `PODKEEPER_STREAMS=10` makes them ten times as large: exec 100 MiB, cp 200 MiB, port-forward
//! 1,000 connections.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::{fs, thread};

use serde_json::json;

use super::control_plane::ControlPlane;
use super::phase;
use crate::harness::pods::{free_port, much};
use crate::harness::{Bounded as _, Node, Options};

fn times() -> usize {
    std::env::var("PODKEEPER_STREAMS").map_or(1, |times| times.parse().expect("PODKEEPER_STREAMS"))
}

/// Environment of kubectl that selects the protocol.
fn protocol(websocket: bool) -> [(&'static str, String); 2] {
    ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"]
        .map(|name| (name, websocket.to_string()))
}

fn sum_of(bytes: &[u8]) -> String {
    let output = Command::new("sha256sum").ends_with(bytes);
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// `kubectl port-forward`, ended on drop.
struct Forward(std::process::Child);

impl Drop for Forward {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A node with a server that the API server reaches, and a pod on it that serves HTTP.
fn node_with_server(plane: &ControlPlane) -> Node {
    let node = Node::prepare(Options { no_files: true, ..Options::default() });
    node.options.borrow_mut().flags = vec![
        format!("--kubeconfig={}", plane.node(&node.name).display()),
        format!("--client-ca-file={}", plane.file("ca.crt").display()),
        format!("--port={}", free_port()),
        "--node-ip=127.0.0.1".to_owned(),
    ];
    node.launch();
    let script = "echo is served >/tmp/index.html; echo it began; trap 'exit 0' TERM; \
                  httpd -f -p 8080 -h /tmp & wait";
    let name = format!("streams-{}", node.name);
    plane.apply(&super::pod(
        &name,
        &node,
        &json!({"containers": [{
            "name": "app",
            "image": "busybox:static",
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/busybox", "sh", "-c", script],
        }, {
            "name": "talks",
            "image": "busybox:static",
            "imagePullPolicy": "IfNotPresent",
            "stdin": true,
            "command": ["/bin/busybox", "sh", "-c", "while read line; do echo it got $line; done; exec sleep 1000000"],
        }]}),
    ));
    node.wait_until("the pod runs", || phase(&node, &name) == "Running");
    node
}

#[test]
fn every_byte_comes_through_the_api_server_by_spdy_and_by_websocket() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node_with_server(plane);
    let pod = format!("streams-{}", node.name);
    node.wait_until("its log is read through the API server", || {
        let output = plane.kubectl(&["logs", &pod]);
        output.status.success() && words(&output).contains("it began")
    });
    let input = much((times() * 10) << 20);
    let sum = sum_of(&input);
    let file = node.base.join("file");
    fs::write(&file, much((times() * 20) << 20)).unwrap();
    for websocket in [true, false] {
        let kubectl = |arguments: &[&str]| {
            let mut command = plane.command(arguments);
            command.envs(protocol(websocket));
            command
        };
        let script = "sha256sum; echo to standard error >&2; exit 7";
        let output = kubectl(&["exec", "-i", &pod, "--", "sh", "-c", script]).ends_with(&input);
        assert!(words(&output).contains(&sum), "websocket {websocket}: {}", words(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains("to standard error"));
        assert_eq!(output.status.code(), Some(7), "websocket {websocket}");

        let mut attached = kubectl(&["attach", "-i", "-c", "talks", &pod]);
        let mut attached =
            attached.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        attached.stdin.as_mut().unwrap().write_all(b"a word\n").unwrap();
        let lines = BufReader::new(attached.stdout.take().unwrap()).lines();
        let answer = lines.map(Result::unwrap).find(|line| line.starts_with("it got"));
        assert_eq!(answer.as_deref(), Some("it got a word"), "websocket {websocket}");
        _ = attached.kill();
        _ = attached.wait();

        let (there, back) = (format!("{pod}:/tmp/file"), node.base.join("back"));
        let source = file.display().to_string();
        let output = kubectl(&["cp", &source, &there]).ends();
        assert!(output.status.success(), "websocket {websocket}: {}", words(&output));
        let target = back.display().to_string();
        let output = kubectl(&["cp", "--retries=0", &there, &target]).ends();
        assert!(output.status.success(), "websocket {websocket}: {}", words(&output));
        assert!(fs::read(&file).unwrap() == fs::read(&back).unwrap(), "websocket {websocket}: it differs");
        fs::remove_file(back).unwrap();

        connections(kubectl(&["port-forward", &pod, ":8080"]), websocket);
    }
}

/// Each connection has its own answer, and the end of that answer.
fn connections(mut command: Command, websocket: bool) {
    let mut forward = Forward(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut stdout = BufReader::new(forward.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    // Forwarding from 127.0.0.1:12345 -> 8080
    let port: u16 = line.split([':', ' ']).filter_map(|word| word.parse().ok()).next().unwrap_or_else(|| {
        let mut why = String::new();
        _ = forward.0.stderr.take().unwrap().read_to_string(&mut why);
        panic!("websocket {websocket}: {line} {why}")
    });
    // kubectl prints a line for each connection, and ends when nobody reads them.
    thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..5 * times() {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").unwrap();
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    assert!(answer.ends_with("is served\n"), "websocket {websocket}: {answer:?}");
                }
            });
        }
    });
}
