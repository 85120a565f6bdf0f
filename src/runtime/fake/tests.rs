//! The engine's rules, one by one; `tests/it/engine/fake_like_real.rs` checks that they are Docker's.

mod containers;
mod driven;
mod faults;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::clock::{Clock as _, Mono, Now, System, Timestamp};
use crate::runtime::*;

/// An engine with two images and a clock that is moved by hand.
struct Sim {
    state: State,
    now: Now,
    seen: Cursor,
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn sim() -> Sim {
    let mut state = State::new(7);
    state.add_image("busybox:1", false);
    state.add_image("pause:1", true);
    let seen = state.subscribe(None).unwrap();
    Sim {
        state,
        now: Now { mono: Mono(millis(0)), wall: Timestamp::from_second(1_800_000_000).unwrap() },
        seen,
    }
}

fn body(command: &str) -> CreateBody {
    CreateBody {
        image: "busybox:1".into(),
        cmd: Some(command.split(' ').map(str::to_string).collect()),
        labels: BTreeMap::from([("l".to_string(), "1".to_string())]),
        ..CreateBody::default()
    }
}

fn joining(mode: &str) -> CreateBody {
    let mut body = body("sleep 1000");
    body.host_config.namespaces.network_mode = mode.into();
    body
}

fn binding(ip: &str, port: &str) -> CreateBody {
    let mut body = body("sleep 1000");
    body.exposed_ports.insert("80/tcp".into(), Empty {});
    let one = PortBinding { host_ip: ip.into(), host_port: port.into() };
    body.host_config.port_bindings.insert("80/tcp".into(), vec![one]);
    body
}

impl Sim {
    fn call(&mut self, call: Call) -> Result<Reply, DockerError> {
        self.state.perform(&call, self.now)
    }

    fn create(&mut self, name: &str, body: CreateBody) -> Result<Reply, DockerError> {
        self.call(Call::Create { name: name.into(), body: Box::new(body) })
    }

    fn made(&mut self, name: &str, body: CreateBody) -> String {
        match self.create(name, body) {
            Ok(Reply::Created { id, .. }) => id,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn start(&mut self, id: &str) -> Result<Reply, DockerError> {
        self.call(Call::Start { id: id.into() })
    }

    /// Creates and starts.
    fn up(&mut self, name: &str, body: CreateBody) -> String {
        let id = self.made(name, body);
        assert_eq!(self.start(&id), Ok(Reply::Done), "{name}");
        id
    }

    fn kill(&mut self, id: &str, signal: &str) -> Result<Reply, DockerError> {
        self.call(Call::Kill { id: id.into(), signal: signal.into() })
    }

    fn remove(&mut self, id: &str, force: bool) -> Result<Reply, DockerError> {
        self.call(Call::Remove { id: id.into(), force })
    }

    fn inspect(&mut self, id: &str) -> Result<ContainerDetail, DockerError> {
        match self.call(Call::Inspect { id: id.into() })? {
            Reply::Container(detail) => Ok(*detail),
            other => panic!("{other:?}"),
        }
    }

    fn list(&mut self, labels: &[&str]) -> Vec<ContainerSummary> {
        match self.call(Call::List { labels: labels.iter().map(ToString::to_string).collect() }) {
            Ok(Reply::Containers(list)) => list,
            other => panic!("{other:?}"),
        }
    }

    /// State and status text.
    fn status(&mut self, id: &str) -> String {
        self.list(&[]).into_iter().find(|c| c.id == id).map_or("gone".into(), |c| c.status)
    }

    fn pass(&mut self, ms: u64) {
        self.now.mono = self.now.mono.after(millis(ms));
        self.now.wall = self.now.wall.checked_add(millis(ms)).unwrap();
        self.state.advance(self.now);
    }

    /// `name action` of every new event, with its exit code or signal.
    fn events(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match self.state.next_event(&mut self.seen) {
                EventNext::Event(e) => {
                    let more = e.labels.get("exitCode").or(e.labels.get("signal"));
                    let more = more.map(|m| format!(" {m}")).unwrap_or_default();
                    seen.push(format!("{} {}{more}", e.labels["name"], e.action));
                }
                EventNext::Idle => return seen,
                EventNext::End(why) => {
                    seen.push(format!("end: {why}"));
                    return seen;
                }
            }
        }
    }
}

/// Status, kind and text of a refusal.
fn refused(answer: Result<Reply, DockerError>, status: u16, kind: RefusalKind, text: &str) {
    match answer {
        Err(DockerError::Refused(r)) => {
            assert_eq!((r.status, &r.kind, r.message.as_str()), (status, &kind, text));
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn kind_of(answer: Result<Reply, DockerError>) -> Option<RefusalKind> {
    answer.err()?.refusal().cloned()
}

#[test]
fn images() {
    let mut s = sim();
    let call = |s: &mut Sim, image: &str| s.call(Call::ImageInspect { image: image.into() });
    let nope = "no such image: nope: No such image: nope:latest";
    refused(call(&mut s, "nope"), 404, RefusalKind::NoSuchImage, nope);
    let Ok(Reply::Image(box1)) = call(&mut s, "docker.io/library/busybox:1") else { panic!() };
    assert_eq!(call(&mut s, &box1.id), Ok(Reply::Image(box1.clone())));
    assert_eq!(call(&mut s, &box1.id[7..19]), Ok(Reply::Image(box1.clone())));
    let other = s.state.replace_image("busybox:1", "7");
    let Ok(Reply::Image(now)) = call(&mut s, "busybox:1") else { panic!() };
    assert_eq!((now.id.as_str(), now.user.as_str()), (other.as_str(), "7"));
    assert!(call(&mut s, &box1.id).is_ok(), "the one before has lost its name only");
    s.state.remove_image("busybox:1");
    let nope = "no such image: busybox:1: No such image: busybox:1";
    refused(call(&mut s, "busybox:1"), 404, RefusalKind::NoSuchImage, nope);
}

#[test]
fn pulls_and_loads() {
    let mut s = sim();
    let present = |s: &Sim, name: &str| s.state.image(name).is_some();
    assert_eq!(s.state.pull("quay.io/a/b", s.now), Ok(Duration::ZERO));
    assert!(present(&s, "quay.io/a/b:latest"));
    assert_eq!(s.state.pull("x:5000/a@sha256:00", s.now), Ok(Duration::ZERO));
    assert!(present(&s, "x:5000/a:tag@sha256:00"), "the digest counts");
    let denied = s.state.pull("no-such-repo:1", s.now).unwrap_err();
    assert!(denied.to_string().starts_with("pull access denied for no-such-repo,"), "{denied}");
    s.state.script_pull("b:1", Pull::Fails("dial tcp: no route".into()));
    assert_eq!(s.state.pull("b:1", s.now).unwrap_err().to_string(), "dial tcp: no route");
    s.state.script_pull("b:1", Pull::Takes(millis(50)));
    assert_eq!(s.state.pull("b:1", s.now), Ok(millis(50)));
    assert!(!present(&s, "b:1"));

    let mut tar = Vec::new();
    for (name, text) in
        [("a.json", "{}"), ("manifest.json", r#"[{"Config":"a.json","RepoTags":["p:1","p:2"]}]"#)]
    {
        let mut head = [0u8; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
        tar.extend(head);
        tar.extend(text.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    assert_eq!(s.state.load(&tar, s.now), Ok(vec!["p:1".to_string(), "p:2".to_string()]));
    assert!(present(&s, "p:1") && present(&s, "p:2"));
    for bad in [&b"junk"[..], &tar[..1500], &[0; 1024]] {
        assert!(s.state.load(bad, s.now).unwrap_err().to_string().starts_with("Error processing tar file"));
    }
}

#[test]
fn execs() {
    let mut s = sim();
    let a = s.made("a1", body("server"));
    let exec = |s: &mut Sim, words: &str| {
        let cmd = words.split('|').filter(|w| !w.is_empty()).map(str::to_string).collect();
        let body =
            ExecBody { attach_stdin: false, attach_stdout: true, attach_stderr: true, tty: false, cmd };
        s.call(Call::ExecCreate { id: a.clone(), body })
    };
    refused(exec(&mut s, "true"), 409, RefusalKind::NotRunning, &format!("Container {a} is not running"));
    s.start(&a).unwrap();
    refused(exec(&mut s, ""), 400, RefusalKind::BadRequest, "No exec command specified");
    let made = |s: &mut Sim, words: &str| match exec(s, words) {
        Ok(Reply::ExecCreated { id }) => id,
        other => panic!("{other:?}"),
    };
    let state = |s: &mut Sim, id: &str| match s.call(Call::ExecInspect { id: id.into() }) {
        Ok(Reply::Exec(e)) => (e.running, e.exit_code),
        other => panic!("{other:?}"),
    };
    let e = made(&mut s, "sh|-c|echo hi; sleep 2; exit 4");
    assert_eq!(state(&mut s, &e), (false, None));
    assert_eq!(s.state.exec_start(&e, s.now), Ok("hi\n".into()));
    assert_eq!(state(&mut s, &e), (true, None));
    s.pass(2000);
    assert_eq!(state(&mut s, &e), (false, Some(4)));
    assert!(s.state.exec_start(&e, s.now).unwrap().ends_with("has already run\r\n"));
    let m = made(&mut s, "no-such");
    assert!(s.state.exec_start(&m, s.now).unwrap().contains("executable file not found in $PATH"));
    assert_eq!(state(&mut s, &m), (false, Some(126)));
    for _ in 0..crate::base::limits::FAKE_EXECS {
        made(&mut s, "true");
    }
    let forgotten = s.call(Call::ExecInspect { id: e.clone() });
    refused(forgotten, 404, RefusalKind::NotFound, &format!("No such exec instance: {e}"));
    s.kill(&a, "KILL").unwrap();
    assert_eq!(kind_of(s.call(Call::ExecInspect { id: m })), Some(RefusalKind::NotFound));
}

#[test]
fn events_carry_all_labels_and_are_never_at_one_time() {
    let mut s = sim();
    s.up("a1", body("sleep 9"));
    let mut times = Vec::new();
    while let EventNext::Event(e) = s.state.next_event(&mut s.seen) {
        let labels: Vec<_> = e.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["image=busybox:1", "l=1", "name=a1"]);
        times.push(e.time_nano);
    }
    assert_eq!(times, [1_800_000_000_000_000_000, 1_800_000_000_000_000_001]);
}

#[test]
fn the_ring_keeps_256_events_and_replays_since() {
    let mut s = sim();
    let a = s.made("a1", body("server"));
    let early = s.seen;
    for _ in 0..150 {
        s.pass(1000);
        s.start(&a).unwrap();
        s.kill(&a, "KILL").unwrap();
    }
    s.seen = early;
    assert_eq!(s.events().len(), 256, "who lags misses the oldest");
    let last = 1_800_000_150_000_000_000;
    s.seen = s.state.subscribe(Some(last)).unwrap();
    assert_eq!(s.events(), ["a1 start", "a1 kill 9", "a1 die 137"]);
    s.seen = s.state.subscribe(Some(0)).unwrap();
    assert_eq!(s.events().len(), 256);
    s.seen = s.state.subscribe(None).unwrap();
    assert_eq!(s.events(), Vec::<String>::new());
    s.state.cut_events();
    assert_eq!(s.events(), ["end: the fake engine closed the connection"]);
}
