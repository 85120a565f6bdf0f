//! Commands in containers, with a Docker that stalls in the meantime.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use super::*;
use crate::probe::outcome;
use crate::probe::spec::HookStep;
use crate::runtime::client::Client;
use crate::runtime::testing::{Server, hold, ok, read_request};

/// Timeout of the probe: Docker is always slower.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Five timeouts: an attempt that has not failed by then does not fail.
const LONG: Duration = Duration::from_millis(500);

const RAW: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n";

fn command() -> Action {
    Action::Exec(vec!["test".into()])
}

fn begin(server: &Server) -> (Attempt, Kit) {
    begin_with(server, limits::PROBE_DOCKER)
}

fn begin_with(server: &Server, patience: Duration) -> (Attempt, Kit) {
    let kit = Kit { patience, ..Kit::new(Docker::Engine(Client::new(server.path()))) };
    let action = command();
    let question = Question { id: "c", address: None, action: &action, timeout: Some(TIMEOUT), hook: None };
    (Attempt::begin(&question, &kit), kit)
}

/// The outcome after this time.
fn after(attempt: &mut Attempt, kit: &Kit, time: Duration) -> Option<Outcome> {
    let until = Instant::now() + time;
    loop {
        let outcome = attempt.advance(kit);
        if outcome.is_some() || Instant::now() >= until {
            return outcome;
        }
        let next = attempt.wake().map_or(until, |at| at.min(until));
        crate::runtime::connection::poll(attempt.fds(), None, Some(next));
    }
}

/// Answers the calls before the exec's start.
fn created(stream: &mut UnixStream) {
    read_request(stream);
    stream.write_all(ok("OK").as_bytes()).unwrap();
    read_request(stream);
    stream.write_all(ok(r#"{"Id":"e"}"#).as_bytes()).unwrap();
    read_request(stream);
}

/// A Docker that starts the command, which writes nothing and keeps running; then it answers the next
/// connection with this.
fn started(then: impl FnOnce(UnixStream) + Send + 'static) -> Server {
    Server::start(vec![
        Box::new(|mut stream| {
            created(&mut stream);
            stream.write_all(RAW).unwrap();
            hold(&stream);
        }),
        Box::new(then),
    ])
}

fn inspected(mut stream: UnixStream, answer: &str) {
    read_request(&stream);
    stream.write_all(ok(answer).as_bytes()).unwrap();
    hold(&stream);
}

#[test]
fn an_exec_that_docker_never_confirmed_is_unknown_and_not_failed() {
    let silent = Server::start(vec![Box::new(|stream| hold(&stream))]);
    let (mut attempt, kit) = begin(&silent);
    assert_eq!(after(&mut attempt, &kit, LONG), None);
    let made = Server::start(vec![Box::new(|mut stream| {
        created(&mut stream);
        hold(&stream);
    })]);
    let (mut attempt, kit) = begin(&made);
    assert_eq!(after(&mut attempt, &kit, LONG), None);
}

#[test]
fn a_docker_that_never_answers_is_given_up_as_unknown() {
    let unknown = |server: Server| {
        let (mut attempt, kit) = begin_with(&server, TIMEOUT);
        let outcome = after(&mut attempt, &kit, PATIENCE);
        assert!(matches!(outcome, Some(Outcome::Errored { state: "unknown", .. })), "{outcome:?}");
    };
    unknown(Server::start(vec![Box::new(|stream| hold(&stream))]));
    unknown(Server::start(vec![Box::new(|mut stream| {
        created(&mut stream);
        hold(&stream);
    })]));
    unknown(started(|stream| hold(&stream)));
}

/// A hook runs once, so it is retried if Docker never got the request.
#[test]
fn a_hook_waits_until_docker_can_be_reached() {
    let server = Server::start(vec![
        Box::new(drop),
        Box::new(|mut stream| {
            created(&mut stream);
            stream.write_all(RAW).unwrap();
        }),
        Box::new(|stream| inspected(stream, r#"{"Running": false, "ExitCode": 0}"#)),
    ]);
    let kit = Kit::new(Docker::Engine(Client::new(server.path())));
    let action = command();
    let hook = Some(HookKind::PostStart);
    let question = Question { id: "c", address: None, action: &action, timeout: None, hook };
    let mut attempt = Attempt::begin(&question, &kit);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Passed));
}

/// Regression: it ran a second time, beside the first one, when Docker could not be reached while it ran.
#[test]
fn a_hook_that_has_begun_is_waited_for_when_docker_is_gone_meanwhile() {
    let server = Server::start(vec![
        Box::new(|mut stream| {
            created(&mut stream);
            stream.write_all(RAW).unwrap();
        }),
        Box::new(drop),
        Box::new(drop),
        Box::new(|mut stream| {
            for answer in [r#"{"Running": true, "ExitCode": null}"#, r#"{"Running": false, "ExitCode": 0}"#] {
                read_request(&stream);
                stream.write_all(ok(answer).as_bytes()).unwrap();
            }
            hold(&stream);
        }),
    ]);
    let kit = Kit::new(Docker::Engine(Client::new(server.path())));
    let action = command();
    let hook = Some(HookKind::PreStop);
    let question = Question { id: "c", address: None, action: &action, timeout: None, hook };
    let mut attempt = Attempt::begin(&question, &kit);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Passed));
    assert_eq!(attempt.take_news(), Some(HookStep::Begun));
}

/// Regression: a preStop hook was skipped for good, though the stop signal after it waits for Docker.
#[test]
fn a_pre_stop_that_docker_refuses_or_loses_is_tried_again() {
    let outcome = |kind: HookKind, plan: &[&'static str]| {
        let plan = Arc::new(Mutex::new(plan.iter().rev().copied().collect::<Vec<_>>()));
        let connections = (0..6).map(|_| {
            let plan = Arc::clone(&plan);
            let connection: Box<dyn FnOnce(UnixStream) + Send> =
                Box::new(move |stream| planned(stream, &plan));
            connection
        });
        let server = Server::start(connections.collect());
        let kit = Kit::new(Docker::Engine(Client::new(server.path())));
        let action = command();
        let question = Question { id: "c", address: None, action: &action, timeout: None, hook: Some(kind) };
        let mut attempt = Attempt::begin(&question, &kit);
        let outcome = after(&mut attempt, &kit, PATIENCE);
        (outcome, plan.lock().unwrap().len())
    };
    let passes = (Some(Outcome::Passed), 0);
    assert_eq!(outcome(HookKind::PreStop, &["create 500", "create", "start", "ended"]), passes);
    assert_eq!(outcome(HookKind::PreStop, &["create lost", "create", "start", "ended"]), passes);
    assert_eq!(
        outcome(HookKind::PreStop, &["create", "start 500", "not started", "create", "start", "ended"]),
        passes
    );
    // The start is lost: Docker has not carried it out, or has.
    let lost = ["create", "start lost", "not started", "create", "start", "ended"];
    assert_eq!(outcome(HookKind::PreStop, &lost), passes);
    assert_eq!(outcome(HookKind::PreStop, &["create", "start lost", "ended"]), passes);
    assert_eq!(outcome(HookKind::PreStop, &["create", "start lost", "running", "ended"]), passes);
    // Regression: it ran a second time, beside the first one.
    let once = |plan: &[&'static str]| assert_eq!(outcome(HookKind::PreStop, plan), passes, "{plan:?}");
    once(&["create", "start lost", "seen 500", "ended"]);
    once(&["create", "start lost", "running", "seen 500", "lost", "ended"]);
    once(&["create", "start 500", "running", "ended"]);
    once(&["create", "start junk", "not started", "create", "start", "ended"]);
    once(&["create", "start 500", "cannot", "create", "start", "ended"]);
    // One that ended so has run.
    let (failed, left) = outcome(HookKind::PreStop, &["create", "start lost", "cannot run"]);
    assert!(matches!(failed, Some(Outcome::Failed(_))) && left == 0, "{failed:?}");
    // Regression: it counted as failed while it ran.
    once(&["create", "start", "seen 500", "ended"]);
    let (failed, left) = outcome(HookKind::PostStart, &["create 500", "create"]);
    assert!(matches!(failed, Some(Outcome::Errored { .. })) && left == 1, "{failed:?}");
}

/// Regression: it was started a second time, and ran beside the first.
#[test]
fn a_pre_stop_whose_start_has_no_answer_in_time_is_not_started_again() {
    let plan = ["create", "start hangs", "not started", "running", "ended"];
    let plan = Arc::new(Mutex::new(plan.into_iter().rev().collect::<Vec<_>>()));
    let connections = (0..4).map(|_| {
        let plan = Arc::clone(&plan);
        let connection: Box<dyn FnOnce(UnixStream) + Send> = Box::new(move |stream| planned(stream, &plan));
        connection
    });
    let server = Server::start(connections.collect());
    let kit = Kit { patience: LONG, ..Kit::new(Docker::Engine(Client::new(server.path()))) };
    let (action, hook) = (command(), Some(HookKind::PreStop));
    let question = Question { id: "c", address: None, action: &action, timeout: None, hook };
    let mut attempt = Attempt::begin(&question, &kit);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Passed));
    assert!(plan.lock().unwrap().is_empty());
}

/// A Docker that does with each call what the plan says next.
fn planned(mut stream: UnixStream, plan: &Mutex<Vec<&'static str>>) {
    let refused = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 16\r\n\r\n{\"message\": \"x\"}";
    loop {
        let mut first = [0; 20];
        // The client has gone, or looks whether the connection still stands.
        if !matches!(rustix::net::recv(&stream, &mut first, rustix::net::RecvFlags::PEEK), Ok((_, 1..))) {
            return;
        }
        let is_ping = String::from_utf8_lossy(&first).contains("_ping") || first.starts_with(b"HEAD");
        let step = if is_ping { "ping" } else { plan.lock().unwrap().pop().unwrap_or("end") };
        read_request(&stream);
        let text = match step {
            "ping" => ok("OK"),
            "start junk" => "junk\r\n\r\n".to_owned(),
            "create" => ok(r#"{"Id":"e"}"#),
            "create 500" | "start 500" | "seen 500" => refused.to_owned(),
            "ended" => ok(r#"{"Running": false, "ExitCode": 0}"#),
            "cannot" => ok(r#"{"Running": false, "ExitCode": 126, "Pid": 0}"#),
            "cannot run" => ok(r#"{"Running": false, "ExitCode": 126, "Pid": 7}"#),
            "running" => ok(r#"{"Running": true, "ExitCode": null}"#),
            "not started" => ok(r#"{"Running": false, "ExitCode": null}"#),
            "start hangs" => return hold(&stream),
            "start" => {
                stream.write_all(RAW).unwrap();
                return;
            }
            _ => return,
        };
        stream.write_all(text.as_bytes()).unwrap();
    }
}

#[test]
fn a_command_counts_as_too_slow_only_once_docker_says_that_it_runs() {
    let server = started(|stream| hold(&stream));
    let (mut attempt, kit) = begin(&server);
    assert_eq!(after(&mut attempt, &kit, LONG), None, "Docker does not answer");
    let server = started(|stream| inspected(stream, r#"{"Running": true, "ExitCode": null}"#));
    let (mut attempt, kit) = begin(&server);
    let text = outcome::exec_timed_out(&["test".into()], TIMEOUT);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Failed(text)));
    // Docker did not report its end.
    for (code, expected) in [(0, Outcome::Passed), (1, failed(""))] {
        let answer = format!(r#"{{"Running": false, "ExitCode": {code}}}"#);
        let server = started(move |stream| inspected(stream, &answer));
        let (mut attempt, kit) = begin(&server);
        assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(expected));
    }
}

/// Docker answers immediately that it runs a command while its containerd stalls: it reports the command as
/// running, without a process.
#[test]
fn a_command_that_containerd_has_not_started_is_not_too_slow() {
    const WAITS: &str = r#"{"Running": true, "ExitCode": null, "Pid": 0}"#;
    const RUNS: &str = r#"{"Running": true, "ExitCode": null, "Pid": 7}"#;
    let server = |rounds: usize, then: &'static str| {
        started(move |mut stream| {
            for answer in std::iter::repeat_n(WAITS, rounds).chain(std::iter::once(then)) {
                read_request(&stream);
                stream.write_all(ok(answer).as_bytes()).unwrap();
            }
            hold(&stream);
        })
    };
    let stands = server(5, WAITS);
    let (mut attempt, kit) = begin(&stands);
    assert_eq!(after(&mut attempt, &kit, LONG), None, "it was not started");
    let stands = server(5, WAITS);
    let (mut attempt, kit) = begin_with(&stands, TIMEOUT * 3);
    let outcome = after(&mut attempt, &kit, PATIENCE);
    assert!(matches!(outcome, Some(Outcome::Errored { state: "unknown", .. })), "{outcome:?}");
    let ended = server(3, r#"{"Running": false, "ExitCode": 0, "Pid": 7}"#);
    let (mut attempt, kit) = begin(&ended);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Passed));
    // Its time starts when it is seen to run.
    let begins = server(1, RUNS);
    let (mut attempt, kit) = begin(&begins);
    assert_eq!(after(&mut attempt, &kit, LONG), None, "it has just begun, and Docker does not answer");
}

/// The thread of all probes took a whole core until Docker had told the exit code.
#[test]
fn nothing_spins_while_docker_does_not_tell_how_a_command_has_ended() {
    let server = Server::start(vec![
        Box::new(|mut stream| {
            created(&mut stream);
            stream.write_all(RAW).unwrap();
            thread::sleep(TIMEOUT / 2);
        }),
        Box::new(|stream| hold(&stream)),
    ]);
    let (mut attempt, kit) = begin(&server);
    let (until, mut rounds) = (Instant::now() + LONG, 0);
    while Instant::now() < until {
        assert_eq!(attempt.advance(&kit), None);
        rounds += 1;
        let next = attempt.wake().map_or(until, |at| at.min(until));
        crate::runtime::connection::poll(attempt.fds(), None, Some(next));
    }
    assert!(rounds < 100, "{rounds} rounds in {LONG:?}");
}

#[test]
fn a_stall_of_docker_only_delays() {
    let server = Server::start(vec![
        Box::new(|mut stream| {
            thread::sleep(TIMEOUT * 3);
            created(&mut stream);
            thread::sleep(TIMEOUT * 3);
            stream.write_all(RAW).unwrap();
        }),
        Box::new(|stream| inspected(stream, r#"{"Running": false, "ExitCode": 0}"#)),
    ]);
    let (mut attempt, kit) = begin(&server);
    assert_eq!(after(&mut attempt, &kit, PATIENCE), Some(Outcome::Passed));
}

#[test]
fn a_command_that_never_stops_writing_is_read_a_little_at_a_time() {
    let (started, start) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let (full, filled) = std::sync::mpsc::channel();
    let server = Server::start(vec![Box::new(move |mut stream| {
        created(&mut stream);
        started.send(()).unwrap();
        goes.recv().unwrap();
        // As much as the socket accepts.
        stream.set_nonblocking(true).unwrap();
        let frame = [&[1, 0, 0, 0, 0, 0, 16, 0][..], &[b'x'; 4096]].concat();
        stream.write_all(RAW).unwrap();
        while stream.write_all(&frame).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        full.send(()).unwrap();
        hold(&stream);
    })]);
    let action = command();
    let kit = Kit::new(Docker::Engine(Client::new(server.path())));
    let question = Question { id: "c", address: None, action: &action, timeout: None, hook: None };
    let mut attempt = Attempt::begin(&question, &kit);
    while start.try_recv().is_err() {
        assert_eq!(after(&mut attempt, &kit, Duration::from_millis(1)), None);
    }
    go.send(()).unwrap();
    filled.recv_timeout(PATIENCE).unwrap();
    let waiting = |attempt: &Attempt| rustix::io::ioctl_fionread(attempt.fds().next().unwrap().0).unwrap();
    let before = waiting(&attempt);
    assert_eq!(attempt.advance(&kit), None);
    let taken = before - waiting(&attempt);
    assert!(before > 100_000 && taken > 0 && taken <= 50_000, "{taken} of {before}");
    assert!(attempt.wake().is_some_and(|at| at <= Instant::now()), "it goes on at once");
}
