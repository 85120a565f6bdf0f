//! The commands that carry streams: logs of several containers, `attach`, `port-forward`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::pods::{CRASHES, FLOODS, OBEYS, Pod, WRITES, container};
use crate::harness::{Node, PATIENCE};

/// A command that keeps running; it ends with the test.
struct Goes(Child);

impl Goes {
    fn start(node: &Node, arguments: &[&str]) -> Goes {
        let mut command = node.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Goes(command.spawn().unwrap())
    }
}

impl Drop for Goes {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn says(script: &str) -> String {
    format!("echo {script}; {}", OBEYS.replace("echo started; ", ""))
}

#[test]
fn logs_of_all_containers_and_of_chosen_pods() {
    let node = Node::start();
    let chosen = |name: &str| {
        Pod::new(name).set("/metadata/labels", json!({"app": "web"})).script(&says(&format!("of-{name}")))
    };
    let init = json!({"name": "first", "image": container("x", "x")["image"], "command": ["echo", "begins"]});
    node.write("a.yaml", chosen("a").and(container("other", &says("of-other"))).init(init).text());
    node.write("b.yaml", chosen("b").text());
    node.write("c.yaml", Pod::new("c").script(&says("of-c")).text());
    for pod in ["a", "b", "c"] {
        node.wait_phase(pod, "Running");
    }
    node.wait_until("all have written", || {
        ["a", "b", "c"].iter().all(|pod| node.says(&["logs", pod]).contains("of-"))
    });
    let (a, b) = (node.full("a"), node.full("b"));
    assert_eq!(node.says(&["logs", "a", "--all-containers"]), "begins\nof-a\nof-other\n");
    assert_eq!(node.says(&["logs", "a", "other", "--prefix"]), format!("[pod/{a}/other] of-other\n"));
    let expected = format!("[pod/{a}/app] of-a\n[pod/{b}/app] of-b\n");
    assert_eq!(node.says(&["logs", "-l", "app=web", "--prefix"]), expected);
    assert_eq!(node.says(&["logs", "a", "--limit-bytes", "3"]), "of-");
    assert_eq!(node.says(&["logs", "a", "--since-time", "2100-01-01T00:00:00Z"]), "");
    let names = node.says(&[
        "get",
        "pods",
        "-l",
        "app in (web)",
        "--field-selector",
        "status.phase=Running",
        "-o",
        "name",
    ]);
    assert_eq!(names, format!("pod/{a}\npod/{b}\n"));

    let many =
        node.podkeeper(&["logs", "-l", "app=web", "--all-containers", "-f", "--max-log-requests", "3"]);
    assert_eq!(many.status.code(), Some(1), "{many:?}");
    let mut follows = Goes::start(&node, &["logs", "-l", "app=web", "-f", "--prefix"]);
    let lines = BufReader::new(follows.0.stdout.take().unwrap()).lines().take(2);
    let mut lines: Vec<String> = lines.map(Result::unwrap).collect();
    lines.sort();
    assert_eq!(lines.join("\n") + "\n", expected);
}

#[test]
fn attach_joins_the_streams_of_a_container() {
    let node = Node::start();
    let cat = "while read line; do echo got $line; done";
    let pod = Pod::new("reads").script(cat).set("/spec/containers/0/stdin", json!(true));
    node.write("reads.yaml", pod.text());
    node.write("deaf.yaml", Pod::new("deaf").text());
    node.wait_phase("reads", "Running");
    node.wait_phase("deaf", "Running");

    let mut attached = Goes::start(&node, &["attach", "-i", "reads"]);
    let mut input = attached.0.stdin.take().unwrap();
    input.write_all(b"one\n").unwrap();
    let mut lines = BufReader::new(attached.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "got one");
    // The end of the input is not the end of the output, and not of an input that other clients have too.
    let mut short = Goes::start(&node, &["attach", "-i", "reads"]);
    short.0.stdin.take().unwrap().write_all(b"short\n").unwrap();
    let mut answer = BufReader::new(short.0.stdout.take().unwrap()).lines();
    assert_eq!(answer.next().unwrap().unwrap(), "got short");
    assert_eq!(lines.next().unwrap().unwrap(), "got short");
    // A second `attach` sees later lines as well.
    let mut second = Goes::start(&node, &["attach", "reads"]);
    let mut seen = BufReader::new(second.0.stdout.take().unwrap()).lines();
    // The second one may not be attached yet for the first lines.
    node.wait_until("both are attached", || {
        input.write_all(b"two\n").unwrap();
        node.says(&["logs", "reads"]).matches("got two").count() > 3
    });
    assert_eq!(seen.next().unwrap().unwrap(), "got two");

    let refused = node.podkeeper(&["attach", "-i", "deaf"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("takes no standard input: its manifest does not say stdin: true"), "{why}");
}

/// Regression: a reader of some kilobytes a second hid the container's end for minutes.
#[test]
fn attach_ends_when_too_little_of_its_output_is_taken() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script(WRITES).text());
    node.wait_phase("web", "Running");
    let mut attached = Goes::start(&node, &["attach", "web"]);
    let mut output = attached.0.stdout.take().unwrap();
    let mut piece = [0; 1024];
    node.wait_until("it ends", || {
        _ = output.read(&mut piece).unwrap();
        // Ten kilobytes a second.
        std::thread::sleep(Duration::from_millis(100));
        attached.0.try_wait().unwrap().is_some()
    });
    let mut why = String::new();
    attached.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("nothing took the output for 10 s, or too little"), "{why}");
}

/// Regression: a reader slower than the container was cut after ten seconds, however much it had taken.
#[test]
fn attach_goes_on_while_enough_of_its_output_is_taken() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script("trap 'exit 0' TERM; yes a line of output").text());
    node.wait_phase("web", "Running");
    let mut attached = Goes::start(&node, &["attach", "web"]);
    let mut output = attached.0.stdout.take().unwrap();
    let (begun, mut taken, mut piece) = (Instant::now(), 0, [0; 4096]);
    // Half a megabyte a second, for two windows of ten seconds.
    while begun.elapsed() < Duration::from_secs(25) {
        let count = output.read(&mut piece).unwrap();
        assert_ne!(count, 0, "it ended after {:?} and {taken} bytes", begun.elapsed());
        taken += count;
        std::thread::sleep(Duration::from_millis(8));
    }
    assert!(attached.0.try_wait().unwrap().is_none() && taken > 4_000_000, "{taken}");
}

/// Regression: the container waited in its writes for as long as `attach` had an output that nobody read.
#[test]
fn attach_ends_when_nothing_takes_its_output_and_the_container_goes_on() {
    let node = Node::start();
    let pod = Pod::new("web").script(WRITES).set("/spec/containers/0/stdin", json!(true));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let count = || node.inside("web", "app", "cat /count");
    let mut attached = Goes::start(&node, &["attach", "web"]);
    node.wait_until("it ends", || attached.0.try_wait().unwrap().is_some());
    let mut why = String::new();
    attached.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("nothing took the output for 10 s, or too little"), "{why}");
    assert_eq!(attached.0.wait().unwrap().code(), Some(1));
    let before = count();
    node.wait_until("the container goes on", || count() != before);

    // Nothing takes the message either, and the input is still open.
    let (_unread, output) = std::io::pipe().unwrap();
    let mut command = node.command(&["attach", "-i", "web"]);
    command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output);
    let _attached = Goes(command.spawn().unwrap());
    let rests = || {
        let before = count();
        std::thread::sleep(Duration::from_secs(1));
        count() == before
    };
    node.wait_until("the container waits", rests);
    node.wait_until("the container goes on again", || !rests());
}

/// Regression: Docker did not see the crash of a container as long as nobody read the output of an exec in it.
#[test]
fn a_crash_is_seen_while_nothing_takes_the_output_of_exec() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script(CRASHES).text());
    node.wait_phase("web", "Running");
    let mut exec = Goes::start(&node, &["exec", "web", "--", "sh", "-c", FLOODS]);
    node.wait_until("the container runs anew", || node.restarts("web", "app") > 0);
    let (mut output, mut why) = (Vec::new(), String::new());
    exec.0.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    exec.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("the container has ended, which Docker does not see"), "{why}");
    assert_eq!(exec.0.wait().unwrap().code(), Some(1));
}

#[test]
fn port_forward_reaches_a_pod_that_was_restarted_meanwhile() {
    let node = Node::start();
    let serve = "mkdir -p /www; hostname >/www/name; httpd -f -p 127.0.0.1:8080 -h /www & wait";
    let ports = json!([{"name": "http", "containerPort": 8080}]);
    let pod = Pod::new("web").script(serve).set("/spec/containers/0/ports", ports);
    node.write("web.yaml", pod.text());
    let first = node.wait_running("web", "app");
    node.wait_phase("web", "Running");

    let mut forward = Goes::start(&node, &["port-forward", "web", ":http"]);
    let mut said = String::new();
    BufReader::new(forward.0.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let words = said.strip_prefix("Forwarding from ").unwrap_or_else(|| {
        let mut why = String::new();
        _ = forward.0.stderr.take().unwrap().read_to_string(&mut why);
        panic!("{said:?} {why}")
    });
    let (at, remote) = words.trim_end().split_once(" -> ").unwrap();
    assert_eq!(remote, "8080");
    let at: SocketAddr = at.parse().unwrap();
    let ask = || -> Option<String> {
        let mut stream = TcpStream::connect(at).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /name HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.rsplit_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned())
    };
    let name = node.full("web");
    node.wait_until("the pod answers", || ask().as_deref() == Some(&name));

    node.inside("web", "app", "kill -9 $(pidof httpd)");
    node.wait_until("another container runs", || {
        node.container_status("web", "app").is_some_and(|status| {
            status.container_id.is_some_and(|id| !id.ends_with(&first.id))
                && status.state.is_some_and(|state| state.running.is_some())
        })
    });
    node.wait_until("the pod answers again", || ask().as_deref() == Some(&name));
    rustix::process::kill_process(rustix::process::Pid::from_child(&forward.0), Signal::INT).unwrap();
    assert!(!forward.0.wait().unwrap().success());
}
