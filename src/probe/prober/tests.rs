//! The thread, with the in-memory engine and servers on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::base::clock::Mono;
use crate::pod::{Source, turn};
use crate::probe::spec::{Action, HookStep, HookWish, Probing, Target, Timing};
use crate::runtime::docker::Endpoint;

const PATIENCE: Duration = Duration::from_secs(60);

struct Listener(mpsc::Sender<News>);

impl ProbeListener for Listener {
    fn notify(&self, news: News) {
        _ = self.0.send(news);
    }
}

fn listener() -> (Arc<dyn ProbeListener>, mpsc::Receiver<News>) {
    let (out, heard) = mpsc::channel();
    (Arc::new(Listener(out)), heard)
}

fn prober() -> Prober {
    let clock = System::start();
    Prober::new(Docker::connect(&Endpoint::Fake, clock), clock).unwrap()
}

fn key(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

fn tcp(port: u16) -> Action {
    Action::Tcp { host: None, port: Ok(port) }
}

fn ready(id: &str, action: Action, timeout: u64) -> Target {
    let s = Duration::from_secs;
    let timing = Timing { initial_delay: s(0), period: s(1), timeout: s(timeout), successes: 1, failures: 1 };
    Target {
        id: id.into(),
        container: "app".into(),
        started: Mono::default(),
        adopted: false,
        address: Some(Ipv4Addr::LOCALHOST.into()),
        probes: [None, Some(Arc::new(Probing { timing, action })), None],
    }
}

fn watch(targets: Vec<Target>) -> Watch {
    Watch { source: Some(Source::File), targets, hooks: Vec::new() }
}

fn passed(id: &str) -> News {
    News::Probed {
        id: id.into(),
        kind: Kind::Readiness,
        since: Mono::default(),
        verdict: ProbeVerdict::Success,
    }
}

/// A server that accepts connections and sends nothing; its port.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn a_hundred_probes_that_hang_delay_nobody() {
    let prober = prober();
    let (_kept, port) = silent();
    let get = crate::probe::spec::HttpGet {
        tls: false,
        host: None,
        port: Ok(port),
        path: "/".into(),
        headers: Vec::new(),
    };
    let (deaf, heard_of_hanging) = listener();
    let hanging = (0..100).map(|n| ready(&format!("h{n}"), Action::Http(get.clone()), 3600)).collect();
    prober.watch(&key("hangs"), deaf, watch(hanging));
    let (listener, heard) = listener();
    prober.watch(&key("web"), listener, watch(vec![ready("a", tcp(port), 1)]));
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(passed("a")));
    assert!(heard_of_hanging.try_recv().is_err());
}

#[test]
fn a_probe_that_turns_is_told_and_one_that_stays_is_not() {
    let prober = prober();
    let (server, port) = silent();
    let (listener, heard) = listener();
    prober.watch(&key("web"), listener, watch(vec![ready("a", tcp(port), 1)]));
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(passed("a")));
    drop(server);
    let said = heard.recv_timeout(PATIENCE);
    assert!(
        matches!(&said, Ok(News::Said { id, reason: "Unhealthy", text, .. })
            if id == "a" && text.starts_with("Readiness probe failed: dial tcp 127.0.0.1:")),
        "{said:?}"
    );
    let failed = News::Probed {
        id: "a".into(),
        kind: Kind::Readiness,
        since: Mono::default(),
        verdict: ProbeVerdict::Failure,
    };
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(failed));
    assert!(heard.try_recv().is_err());
}

#[test]
fn the_end_of_an_old_worker_does_not_silence_its_successor() {
    let prober = prober();
    let (_server, port) = silent();
    let (old, _) = listener();
    let (new, heard) = listener();
    prober.watch(&key("web"), Arc::clone(&old), watch(vec![ready("a", tcp(port), 1)]));
    prober.watch(&key("web"), new, watch(vec![ready("b", tcp(port), 1)]));
    prober.watch(&key("web"), old, Watch::default());
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(passed("b")));
}

/// What it served had ended with it.
#[test]
fn a_failure_does_not_count_against_a_container_that_has_ended() {
    let (_, port) = silent();
    let mut target = ready("gone", tcp(port), 1);
    target.probes.rotate_right(1);
    let (listener, heard) = listener();
    let prober = prober();
    prober.watch(&key("web"), listener, watch(vec![target]));
    let told =
        |news: &News| matches!(news, News::Said { text, .. } if text.contains("the container has ended"));
    loop {
        let news = heard.recv_timeout(PATIENCE).unwrap();
        assert!(!matches!(news, News::Probed { .. }), "{news:?}");
        if told(&news) {
            break;
        }
    }
}

#[test]
fn names_are_looked_up_beside() {
    let prober = prober();
    let (_server, port) = silent();
    let action = Action::Tcp { host: Some("localhost".into()), port: Ok(port) };
    let (listener, heard) = listener();
    prober.watch(&key("web"), listener, watch(vec![ready("a", action, 30)]));
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(passed("a")));
}

#[test]
fn hooks_run_once_and_their_end_is_told() {
    let prober = prober();
    let (_server, port) = silent();
    let (listener, heard) = listener();
    let hook = |id: &str, action: Action| HookWish {
        id: id.into(),
        kind: HookKind::PreStop,
        action,
        address: Some(Ipv4Addr::LOCALHOST.into()),
    };
    let hooks = vec![hook("a", tcp(port)), hook("b", Action::Exec(vec!["true".into()]))];
    let all = Watch { source: Some(Source::File), targets: Vec::new(), hooks };
    prober.watch(&key("web"), Arc::clone(&listener), all.clone());
    let mut ends: Vec<(String, bool)> = (0..2)
        .map(|_| match heard.recv_timeout(PATIENCE).unwrap() {
            News::Hooked { id, result, .. } => (id, result.is_ok()),
            other => panic!("{other:?}"),
        })
        .collect();
    ends.sort();
    // The engine has no container `b`.
    assert_eq!(ends, [("a".to_owned(), true), ("b".to_owned(), false)]);
    // If they are sent again, no hook runs again: the next message is another probe's result.
    let mut more = all;
    more.targets.push(ready("c", tcp(port), 1));
    prober.watch(&key("web"), listener, more);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(passed("c")));
}

/// Commands of one source that take long made the probes of another late by their number.
#[test]
fn execs_of_one_source_take_no_turn_from_those_of_another() {
    use Source::{File, Http};
    let check = |waiting: &[Source], starting: &[Source], expected: Option<usize>| {
        let starting: Vec<Option<Source>> = starting.iter().copied().map(Some).collect();
        let turn = turn::first(waiting.iter().copied().map(Some), &starting, limits::PROBE_EXECS);
        assert_eq!(turn, expected, "{waiting:?}, {starting:?}");
    };
    let busy = [Http; limits::PROBE_EXECS];
    check(&[Http, Http], &busy[1..], Some(0));
    check(&[Http, Http], &busy, None);
    check(&[Http, Http, File], &busy, Some(2));
    check(&[File, Http], &busy, Some(0));
    check(&[], &[], None);
}

#[test]
fn nothing_to_ask_needs_no_thread() {
    let prober = prober();
    let (listener, _) = listener();
    prober.watch(&key("web"), listener, Watch::default());
    assert!(!prober.shared.lock().running);
}

/// A preStop hook is told to wait, and runs, when Docker cannot be reached for a while.
#[test]
fn a_command_of_a_hook_waits_for_docker_and_says_so() {
    let clock = System::start();
    let nowhere = Endpoint::Unix("/nowhere/docker.sock".into());
    let prober = Prober::new(Docker::connect(&nowhere, clock), clock).unwrap();
    let (listener, heard) = listener();
    let action = Action::Exec(vec!["true".into()]);
    let hooks = vec![HookWish { id: "a".into(), kind: HookKind::PreStop, action, address: None }];
    prober.watch(&key("web"), listener, Watch { source: Some(Source::File), targets: Vec::new(), hooks });
    let waits = News::HookAt { id: "a".into(), kind: HookKind::PreStop, step: HookStep::Waits };
    for _ in 0..2 {
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(waits.clone()));
    }
}
