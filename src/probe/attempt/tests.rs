//! Real servers on loopback, well-behaved and hostile ones.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::base::clock::System;
use crate::runtime::docker::Endpoint;

mod exec;
mod grpc;
mod https;

fn kit() -> Kit {
    Kit::new(Docker::connect(&Endpoint::Fake, System::start()))
}

const LOCAL: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Runs an attempt as the prober does.
fn ask_with(action: &Action, timeout: Duration, hook: Option<HookKind>) -> Outcome {
    let kit = kit();
    let question = Question { id: "c", address: LOCAL, action, timeout: Some(timeout), hook };
    let mut attempt = Attempt::begin(&question, &kit);
    loop {
        if let Some(outcome) = attempt.advance(&kit) {
            return outcome;
        }
        crate::runtime::connection::poll(attempt.fds(), None, attempt.wake());
    }
}

fn ask(action: &Action) -> Outcome {
    ask_with(action, Duration::from_secs(30), None)
}

/// For servers that never answer.
fn ask_shortly(action: &Action) -> Outcome {
    ask_with(action, Duration::from_millis(200), None)
}

/// A server that handles its connections one by one; returns its port.
fn server(mut treat: impl FnMut(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(&mut treat));
    port
}

/// Reads the head of a request.
fn request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Answers every request with these bytes, and closes.
fn says(answer: &str) -> u16 {
    let answer = answer.to_owned();
    server(move |mut stream| {
        request(&mut stream);
        _ = stream.write_all(answer.as_bytes());
    })
}

fn get(port: u16) -> HttpGet {
    HttpGet { tls: false, host: None, port: Ok(port), path: "/state".into(), headers: Vec::new() }
}

fn http(port: u16) -> Action {
    Action::Http(get(port))
}

fn failed(text: &str) -> Outcome {
    Outcome::Failed(text.into())
}

/// A port without a listener.
fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn http_statuses() {
    for (head, expected) in [
        ("200 OK", Outcome::Passed),
        ("204 No Content", Outcome::Passed),
        ("399 Odd", Outcome::Warned("Probe terminated redirects, Response body: secret".into())),
        ("404 Not Found", failed("HTTP probe failed with statuscode: 404")),
        ("503 Busy", failed("HTTP probe failed with statuscode: 503")),
    ] {
        let port = says(&format!("HTTP/1.1 {head}\r\n\r\nsecret"));
        assert_eq!(ask(&http(port)), expected, "{head}");
    }
}

#[test]
fn bodies() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Outcome::Passed),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Outcome::Passed),
        ("HTTP/1.0 200 OK\r\n\r\nok", Outcome::Passed),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Outcome::Passed),
        // Cut short: an error of the probe.
        ("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", body_error("unexpected EOF")),
    ] {
        assert_eq!(ask(&http(says(answer))), expected, "{answer}");
    }
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n{}", "x".repeat(300_000));
    assert_eq!(ask(&http(says(&huge))), Outcome::Passed, "what is longer is cut");
    let moved = format!("HTTP/1.1 300 Many\r\n\r\n{}", "x".repeat(50_000));
    let Outcome::Warned(text) = ask(&http(says(&moved))) else { panic!() };
    assert_eq!(text.len(), "Probe terminated redirects, Response body: ".len() + 10 * 1024);
}

#[test]
fn a_server_that_keeps_the_connection_open_is_not_waited_for() {
    let mut kept = Vec::new();
    let port = server(move |mut stream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        kept.push(stream);
    });
    assert_eq!(ask(&http(port)), Outcome::Passed);
}

#[test]
fn transport_errors() {
    let port = closed();
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(ask(&http(port)), failed(&format!("Get \"http://127.0.0.1:{port}/state\": {refused}")));
    assert_eq!(ask(&Action::Tcp { host: None, port: Ok(port) }), failed(&refused));
    let port = says("");
    assert_eq!(ask(&http(port)), failed(&format!("Get \"http://127.0.0.1:{port}/state\": EOF")));
    let port = says("SSH-2.0-dropbear\r\n\r\n");
    let Outcome::Failed(text) = ask(&http(port)) else { panic!() };
    assert!(text.contains("malformed HTTP response"), "{text}");
    let unknown = Action::Tcp { host: None, port: Err("invalid port number: 0".into()) };
    assert_eq!(ask(&unknown), Outcome::unknown("invalid port number: 0"));
}

#[test]
fn a_server_that_never_answers_or_drips_runs_into_the_timeout() {
    let mut kept = Vec::new();
    let silent = server(move |stream| kept.push(stream));
    let waiting = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let url = format!("Get \"http://127.0.0.1:{silent}/state\"");
    assert_eq!(ask_shortly(&http(silent)), failed(&format!("{url}: {waiting}")));
    let drip = |first: &'static str| {
        server(move |mut stream| {
            thread::spawn(move || {
                request(&mut stream);
                _ = stream.write_all(first.as_bytes());
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            });
        })
    };
    let port = drip("HTTP/1.1 200 OK\r\nX: ");
    let url = format!("Get \"http://127.0.0.1:{port}/state\"");
    assert_eq!(ask_shortly(&http(port)), failed(&format!("{url}: {waiting}")));
    // The head has arrived: the body is an error of the probe.
    let port = drip("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    let text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    assert_eq!(ask_shortly(&http(port)), body_error(text));
}

#[test]
fn redirects_stay_with_the_host() {
    let target = says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let to = |location: String| says(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\nmoved"));
    assert_eq!(ask(&http(to(format!("http://127.0.0.1:{target}/x")))), Outcome::Passed);
    let warned = Outcome::Warned("Probe terminated redirects, Response body: moved".into());
    assert_eq!(ask(&http(to(format!("http://127.0.0.2:{target}/x")))), warned);
    assert_eq!(ask(&http(to(format!("http://localhost:{target}/x")))), warned);
    let port = to("/state".into());
    let text = format!("Get \"http://127.0.0.1:{port}/state\": stopped after 10 redirects");
    assert_eq!(ask(&http(port)), failed(&text));
}

#[test]
fn a_hook_is_content_with_any_answer() {
    let hook = |port| ask_with(&http(port), Duration::from_secs(30), Some(HookKind::PreStop));
    assert_eq!(hook(says("HTTP/1.1 500 No\r\n\r\n")), Outcome::Passed);
    assert!(matches!(hook(closed()), Outcome::Failed(_)));
    // https to a plain server is repeated over http.
    let port = server(|mut stream| {
        let mut first = [0; 1024];
        let n = stream.read(&mut first).unwrap();
        let status = if first[..n].starts_with(b"GET /state ") { "200 OK" } else { "400 Bad Request" };
        // Immediately: the client closes the connection as soon as it sees the protocol.
        stream.write_all(format!("HTTP/1.0 {status}\r\n\r\n").as_bytes()).unwrap();
    });
    let action = Action::Http(HttpGet { tls: true, ..get(port) });
    assert_eq!(ask_with(&action, Duration::from_secs(30), Some(HookKind::PreStop)), Outcome::Passed);
    let url = format!("https://127.0.0.1:{port}/state");
    assert_eq!(ask(&action), failed(&format!("Get \"{url}\": {}", tls::PLAIN)));
}

#[test]
fn tcp_connects_and_is_content() {
    let mut kept = Vec::new();
    let port = server(move |stream| kept.push(stream));
    assert_eq!(ask(&Action::Tcp { host: None, port: Ok(port) }), Outcome::Passed);
    assert_eq!(ask(&Action::Tcp { host: Some("127.0.0.1".into()), port: Ok(port) }), Outcome::Passed);
}

#[test]
fn names_are_asked_for() {
    let kit = kit();
    let action = Action::Tcp { host: Some("pod.example".into()), port: Ok(80) };
    let question = Question {
        id: "c",
        address: None,
        action: &action,
        timeout: Some(Duration::from_secs(9)),
        hook: None,
    };
    let mut attempt = Attempt::begin(&question, &kit);
    assert_eq!(attempt.advance(&kit), None);
    assert_eq!(attempt.wants_name(), Some("pod.example"));
    attempt.named(&Err("no such host".into()));
    assert_eq!(attempt.advance(&kit), Some(failed("dial tcp: lookup pod.example: no such host")));
}
