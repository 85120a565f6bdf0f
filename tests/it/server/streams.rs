//! Exec, attach, port-forward and run on a real Docker, by clients that speak kubectl's protocols.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Link, Spdy, WebSocket, neglect};
use crate::harness::pods::{CRASHES, FLOODS, Pod, WRITES, free_port, much};
use crate::harness::{Node, Options};

/// A node with the kubelet's port open to everyone, and a pod on it that runs.
pub(super) fn node_with(pod: &Pod) -> (Node, u16) {
    let port = free_port();
    let flags = [
        &format!("--port={port}"),
        "--address=127.0.0.1",
        "--anonymous-auth",
        "--authorization-mode=AlwaysAllow",
    ];
    let node = Node::with(Options::flags(&flags));
    node.write("web.json", pod.text());
    // The server knows the same as the status file.
    node.wait_until("it is known that the pod runs", || {
        let status = node.container_status("web", "app");
        status.and_then(|status| status.state?.running).is_some()
    });
    (node, port)
}

fn exec(node: &Node, streams: &str, command: &[&str]) -> String {
    let words: String = command.iter().map(|word| format!("&command={}", encoded(word))).collect();
    format!("/exec/default/{}/app?{streams}{words}", node.full("web"))
}

fn encoded(word: &str) -> String {
    word.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

pub(super) const V4: &str = "v4.channel.k8s.io";

/// The exit code in a status; 0 for success.
fn code(status: &str) -> i64 {
    let status: Value = serde_json::from_str(status).unwrap();
    match status["status"].as_str() {
        Some("Success") => 0,
        _ => status["details"]["causes"][0]["message"].as_str().unwrap().parse().unwrap(),
    }
}

#[test]
fn a_command_over_spdy_reads_its_input_to_the_end_and_tells_its_exit_code() {
    let (node, port) = node_with(&Pod::new("web"));
    let target = exec(&node, "input=1&output=1&error=1", &["sh", "-c", "cat; echo done >&2; exit 7"]);
    let mut spdy = Spdy::open(port, &target, V4);
    let streams = ["error", "stdin", "stdout", "stderr"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let [error, stdin, stdout, stderr] = streams;
    let input = much(8 << 20);
    for piece in input.chunks(32 * 1024) {
        spdy.send(stdin, piece, false);
    }
    spdy.send(stdin, &[], true);
    assert!(spdy.whole(stdout).bytes == input, "the output is the input");
    assert_eq!(spdy.whole(stderr).text(), "done\n");
    assert_eq!(code(&spdy.whole(error).text()), 7);

    // Without input and errors, to its successful end.
    let mut spdy = Spdy::open(port, &exec(&node, "output=1", &["echo", "two words"]), V4);
    let [error, stdout] = ["error", "stdout"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    assert_eq!(spdy.whole(stdout).text(), "two words\n");
    assert_eq!(code(&spdy.whole(error).text()), 0);

    // Docker reports this itself, in the output, or refuses.
    let mut spdy = Spdy::open(port, &exec(&node, "output=1", &["not-there"]), V4);
    let [error, stdout] = ["error", "stdout"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let (told, output) = (spdy.whole(error).text(), spdy.whole(stdout).text());
    assert!(told.contains("Failure") && (told + &output).contains("not-there"), "{output}");
}

#[test]
fn a_command_over_websocket() {
    let (node, port) = node_with(&Pod::new("web"));
    let target = exec(&node, "input=1&output=1&error=1", &["sh", "-c", "cat; echo done >&2; exit 3"]);
    let mut socket = WebSocket::open(port, &target, "v5.channel.k8s.io");
    let input = much(4 << 20);
    for piece in input.chunks(32 * 1024) {
        socket.send(0, piece);
    }
    socket.send(255, &[0]);
    socket.until("the connection is closed", |socket| socket.is_closed);
    assert!(socket.heard[&1].bytes == input, "the output is the input");
    assert_eq!(socket.heard[&2].text(), "done\n");
    assert_eq!(code(&socket.heard[&3].text()), 3);
}

#[test]
fn a_terminal_has_the_size_that_the_client_tells() {
    let (node, port) = node_with(&Pod::new("web"));
    let target = exec(&node, "input=1&output=1&tty=1", &["sh"]);
    let mut spdy = Spdy::open(port, &target, V4);
    let streams = ["error", "stdin", "stdout", "resize"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let [error, stdin, stdout, resize] = streams;
    spdy.send(resize, br#"{"Width":81,"Height":27}"#, false);
    // If the size came too early, stty prints another one: it is asked until the size is right.
    spdy.send(stdin, b"until stty size | grep '27 81'; do :; done; exit 5\n", false);
    let output = spdy.whole(stdout).text();
    assert!(output.contains("\r\n27 81\r\n"), "{output}");
    assert_eq!(code(&spdy.whole(error).text()), 5);
}

#[test]
fn output_that_the_client_does_not_take_waits_in_the_command() {
    let (node, port) = node_with(&Pod::new("web"));
    let memory = || {
        let status = fs::read_to_string(format!("/proc/{}/status", node.pid().unwrap())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = memory();
    let target = exec(&node, "output=1", &["head", "-c", "67108864", "/dev/zero"]);
    let mut spdy = Spdy::open(port, &target, V4);
    let [error, stdout] = ["error", "stdout"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    neglect(&mut spdy.link, Duration::from_secs(2));
    let grown = memory().saturating_sub(before);
    assert!(grown < 4096, "the daemon holds {grown} KiB more");
    assert_eq!(spdy.whole(stdout).bytes.len(), 64 << 20);
    assert_eq!(code(&spdy.whole(error).text()), 0);
}

#[test]
fn attach_speaks_to_the_container_itself() {
    let pod = Pod::new("web")
        .script("while read line; do echo got $line; done; exec sleep 100000")
        .set("/spec/containers/0/stdin", true);
    let (node, port) = node_with(&pod);
    let target = format!("/attach/default/{}/app?input=1&output=1&error=1", node.full("web"));
    let mut spdy = Spdy::open(port, &target, V4);
    let streams = ["error", "stdin", "stdout", "stderr"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let [_error, stdin, stdout, _stderr] = streams;
    // The end of the client's input is not the end of the container's, which has no `stdinOnce`.
    spdy.send(stdin, b"this\nand that\n", true);
    let expected = "got this\ngot and that\n";
    spdy.until("the container answers", |spdy| {
        spdy.heard.get(&stdout).is_some_and(|heard| heard.text() == expected)
    });
}

/// Regression: the client waited for ever when the container ended before Docker was asked; and an exit code made
/// `kubectl run` print the whole output again.
#[test]
fn an_attach_to_a_container_that_ends_is_over_and_has_no_exit_code() {
    let script = "until test -e /end; do echo first; sleep 0.1; done; echo last; exit 9";
    let pod = |name: &str| Pod::new(name).script(script).set("/spec/restartPolicy", "Never");
    let (node, port) = node_with(&pod("web"));
    node.write("other.json", pod("other").text());
    node.wait_until("the other pod runs", || {
        let status = node.container_status("other", "app");
        status.and_then(|status| status.state?.running).is_some()
    });
    let begun = |name: &str| {
        let target = format!("/attach/default/{}/app?input=1&output=1&error=1", node.full(name));
        Spdy::open(port, &target, V4)
    };
    let streams = |spdy: &mut Spdy| {
        ["error", "stdin", "stdout", "stderr"].map(|kind| spdy.stream(&[("streamtype", kind)]))
    };
    let mut early = begun("web");
    let [error, _, stdout, _] = streams(&mut early);
    early
        .until("it is attached", |spdy| spdy.heard.get(&stdout).is_some_and(|heard| !heard.bytes.is_empty()));
    node.inside("web", "app", "touch /end");
    assert!(early.whole(stdout).text().ends_with("first\nlast\n"));
    assert_eq!(code(&early.whole(error).text()), 0);

    let mut late = begun("other");
    node.inside("other", "app", "touch /end");
    node.wait_phase("other", "Failed");
    let [error, ..] = streams(&mut late);
    let told = late.whole(error).text();
    assert!(told.contains("error attaching to container: the container has ended"), "{told}");
}

/// Regression: the container waited in its writes for a client that did not read, up to four hours, and Docker did not see
/// its end.
#[test]
fn an_attach_that_is_not_read_ends_and_the_container_goes_on() {
    let (node, port) = node_with(&Pod::new("web").script(WRITES));
    let target = format!("/attach/default/{}/app?output=1", node.full("web"));
    let mut spdy = Spdy::open(port, &target, V4);
    let [error, _stdout] = ["error", "stdout"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let mut socket = WebSocket::open(port, &target, "v5.channel.k8s.io");
    let why = "nothing took the output for 10 s, or too little";
    node.wait_until("both attaches are ended", || {
        neglect(&mut spdy.link, Duration::from_millis(50));
        neglect(&mut socket.link, Duration::from_millis(50));
        node.log().matches(why).count() == 2
    });
    let count = || node.inside("web", "app", "cat /count");
    let before = count();
    node.wait_until("the container goes on", || count() != before);
    // Clients that read again are told.
    assert!(spdy.whole(error).text().contains(why));
    socket.until("it is told", |socket| socket.heard.get(&3).is_some_and(|heard| heard.text().contains(why)));
}

/// Regression: the connection was closed five seconds after the end, and the next ping of a slow kubectl met a closed socket:
/// what it had not read by then was lost.
#[test]
fn a_slow_client_that_pings_gets_all_of_an_output() {
    let (node, port) = node_with(&Pod::new("web"));
    let length = 2_000_000;
    let script = format!("yes a line of output | head -c {length}; touch /end");
    let mut socket =
        WebSocket::open(port, &exec(&node, "output=1", &["sh", "-c", &script]), "v5.channel.k8s.io");
    socket.link.take_at_most(64 * 1024);
    node.wait_until("all is written", || {
        node.inside("web", "app", "test -e /end && echo ended").contains("ended")
    });
    let ended = Instant::now();
    // Longer than the connection lingers for a client that says nothing.
    while ended.elapsed() < Duration::from_secs(18) {
        socket.ping();
        neglect(&mut socket.link, Duration::from_secs(1));
    }
    socket.until("the end is told", |socket| socket.heard.contains_key(&3));
    assert!(socket.heard[&3].text().contains("Success"), "{}", socket.heard[&3].text());
    assert_eq!(socket.heard[&1].bytes.len(), length);
}

/// Regression: a client that had answered the end and kept its socket had one of the places of streams for five minutes.
#[test]
fn a_stream_whose_end_the_client_has_answered_is_closed_soon() {
    let (node, port) = node_with(&Pod::new("web"));
    let target = exec(&node, "output=1", &["echo", "here"]);
    let mut socket = WebSocket::open(port, &target, "v5.channel.k8s.io");
    socket.until("the end is told", |socket| socket.is_closed);
    assert_eq!(socket.heard[&1].text(), "here\n");
    socket.answer_close();
    // The server has said that it sends no more; what it is sent is refused when it has closed its side.
    socket.link.is_over = false;
    node.wait_until("the server closes the connection, whatever it is sent", || {
        (0..4096).for_each(|_| socket.ping());
        socket.link.turn(false);
        socket.link.is_over
    });
}

/// Regression: a client that did not read hid the container's crash for four hours.
#[test]
fn a_crash_is_seen_while_no_client_reads_the_output_of_an_exec() {
    let (node, port) = node_with(&Pod::new("web").script(CRASHES));
    let target = exec(&node, "output=1", &["sh", "-c", FLOODS]);
    let mut spdy = Spdy::open(port, &target, V4);
    _ = ["error", "stdout"].map(|kind| spdy.stream(&[("streamtype", kind)]));
    let _socket = WebSocket::open(port, &target, "v5.channel.k8s.io");
    node.wait_until("the container runs anew", || node.restarts("web", "app") > 0);
}

#[test]
fn run_gives_the_output_of_a_command() {
    let (node, port) = node_with(&Pod::new("web"));
    let run = |cmd: &str| {
        let mut link = Link::open(port);
        let target = format!("/run/default/{}/app?cmd={}", node.full("web"), encoded(cmd));
        let head = link.ask("POST", &target, &[("Content-Length", "0"), ("Connection", "close")]);
        while !link.is_over {
            link.turn(true);
        }
        (head.lines().next().unwrap().to_owned(), String::from_utf8(link.received).unwrap())
    };
    assert_eq!(run("echo hallo"), ("HTTP/1.1 200 OK".to_owned(), "hallo\n".to_owned()));
    let (status, body) = run("false");
    assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
    assert!(body.contains("exited with 1"), "{body}");
}

#[test]
fn what_cannot_be_streamed_is_refused_in_the_kubelets_words() {
    let (node, port) = node_with(&Pod::new("web"));
    let ask = |method: &str, target: &str, headers: &[(&str, &str)]| {
        let mut link = Link::open(port);
        let headers = [headers, &[("Content-Length", "0"), ("Connection", "close")][..]].concat();
        let head = link.ask(method, target, &headers);
        while !link.is_over {
            link.turn(true);
        }
        (head.split(' ').nth(1).unwrap().to_owned(), String::from_utf8(link.received).unwrap())
    };
    let refused = |status: &str, text: &str| (status.to_owned(), format!("{text}\n"));
    let none = exec(&node, "", &["true"]);
    let text = "you must specify at least 1 of stdin, stdout, stderr";
    assert_eq!(ask("POST", &none, &[]), refused("400", text));
    let nobody = "/exec/default/nobody/app?output=1&command=true";
    assert_eq!(ask("POST", nobody, &[]), refused("404", "pod does not exist"));
    let other = format!("/exec/default/{}/other?output=1&command=true", node.full("web"));
    assert_eq!(ask("POST", &other, &[]), refused("500", "container not found (\"other\")"));
    let (status, text) = ask("POST", &exec(&node, "output=1", &["true"]), &[]);
    assert_eq!(status, "400");
    assert!(text.starts_with("unable to upgrade: header X-Stream-Protocol-Version does not exist"), "{text}");
    let uid = node.pod("web").unwrap().metadata.uid.unwrap();
    let by_uid = format!("/exec/default/{}/{uid}/app?output=1&command=true", node.full("web"));
    assert_eq!(ask("POST", &by_uid, &[]).0, "400", "the pod is found by its UID as well");
    assert_eq!(json!(ask("POST", &by_uid.replace(&uid, "another"), &[]).0), "404");
}

#[test]
fn a_client_that_breaks_the_protocol_loses_its_connection_and_nothing_else() {
    let (node, port) = node_with(&Pod::new("web"));
    let target = exec(&node, "input=1&output=1", &["cat"]);
    let mut other = Spdy::open(port, &target, V4);
    let [_error, stdin, stdout] =
        ["error", "stdin", "stdout"].map(|kind| other.stream(&[("streamtype", kind)]));
    other.send(stdin, b"before\n", false);
    other.until("it is answered", |spdy| {
        spdy.heard.get(&stdout).is_some_and(|heard| heard.text() == "before\n")
    });

    let check = |breaks: &dyn Fn(&mut Spdy)| {
        let mut spdy = Spdy::open(port, &target, V4);
        breaks(&mut spdy);
        while !spdy.link.is_over {
            spdy.link.turn(true);
        }
    };
    check(&|spdy| spdy.link.send(b"\x80GET / HTTP/1.1\r\n\r\n"));
    check(&|spdy| spdy.link.send(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]));
    check(&|spdy| spdy.send(0, b"nobody's", false));
    // Disconnected in the middle of a frame, without notice.
    let mut spdy = Spdy::open(port, &target, V4);
    spdy.link.send(&[0x80, 3, 0, 1, 0, 0, 1, 0, 0, 0]);
    spdy.link.turn(false);
    drop(spdy);
    // A WebSocket message that is larger than allowed.
    let mut socket = WebSocket::open(port, &target, V4);
    socket.link.send(&[0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0]);
    socket.until("it is closed", |socket| socket.is_closed);
    node.wait_until("the log says why", || node.log().contains("WebSocket: Space limit exceeded"));

    other.send(stdin, b"after\n", true);
    assert_eq!(other.whole(stdout).text(), "before\nafter\n");
}
