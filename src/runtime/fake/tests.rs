//! The engine's rules, one by one; that they are Docker's is checked in `tests/it/fake_like_real.rs`.

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
    body.host_config.network_mode = mode.into();
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
fn create_refuses_what_docker_refuses() {
    let mut s = sim();
    let check = |s: &mut Sim, name: &str, change: &dyn Fn(&mut CreateBody), expected: Result<(), &str>| {
        let mut b = body("sleep 1");
        change(&mut b);
        match (s.create(name, b), expected) {
            (Ok(Reply::Created { id, .. }), Ok(())) => assert_eq!(id.len(), 64),
            (answer, Err(text)) => refused(answer, 400, RefusalKind::BadRequest, text),
            (answer, expected) => panic!("{answer:?} instead of {expected:?}"),
        }
    };
    check(&mut s, "ok", &|_| {}, Ok(()));
    check(&mut s, "x1", &|b| b.cmd = None, Err("No command specified"));
    check(&mut s, "x2", &|b| (b.image, b.cmd) = ("pause:1".into(), None), Ok(()));
    let bad_name = "Invalid container name (-x), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed";
    check(&mut s, "-x", &|_| {}, Err(bad_name));
    check(&mut s, "x3", &|b| b.host_config.memory = Some(1000), Err("Minimum memory limit allowed is 6MB"));
    let quota = "CPU cfs quota can not be less than 1ms (i.e. 1000)";
    check(&mut s, "x3", &|b| b.host_config.cpu_quota = Some(10), Err(quota));
    check(&mut s, "x3", &|b| b.stop_signal = Some("SIGFOO".into()), Err("Invalid signal: SIGFOO"));
    check(&mut s, "x3", &|b| *b = binding("", "99999"), Err("invalid port specification: \"99999\""));
    check(&mut s, "x3", &|b| b.host_config.pid_mode = "container:no".into(), Err("No such container: no"));
    check(&mut s, "x3", &|b| b.host_config.network_mode = "container:no".into(), Ok(()));
    let hostname = "conflicting options: hostname and the network mode";
    check(
        &mut s,
        "x4",
        &|b| {
            *b = joining("container:no");
            b.hostname = Some("h".into());
        },
        Err(hostname),
    );
    let script = "\"dance\" is not a word of a fake script";
    check(&mut s, "x4", &|b| b.env.push("PODKEEPER_FAKE=dance".into()), Err(script));
    let mut missing = body("x");
    missing.image = "nope".into();
    refused(s.create("y1", missing), 404, RefusalKind::NoSuchImage, "No such image: nope:latest");
}

#[test]
fn create_names_the_holder_of_a_name() {
    let mut s = sim();
    let a = s.made("a1", body("sleep 1"));
    let text = format!(
        "Conflict. The container name \"/a1\" is already in use by container \"{a}\". You have to remove (or \
         rename) that container to be able to reuse that name."
    );
    refused(s.create("a1", body("sleep 1")), 409, RefusalKind::NameInUse(Some(a.clone())), &text);
    assert_eq!(s.remove(&a, false), Ok(Reply::Done));
    assert_ne!(s.made("a1", body("sleep 1")), a);
}

#[test]
fn a_life_from_create_to_destroy() {
    let mut s = sim();
    let a = s.made("a1", body("sleep 1000"));
    let d = s.inspect("a1").unwrap();
    assert_eq!((d.state, d.exit_code, d.started_at, d.finished_at), (DockerState::Created, 0, None, None));
    assert_eq!(s.status(&a), "Created");
    let dead = format!("Cannot kill container: a1: Container {a} is not running");
    refused(s.kill("a1", "SIGTERM"), 409, RefusalKind::NotRunning, &dead);
    assert_eq!(s.start(&a), Ok(Reply::Done));
    assert_eq!(s.start(&a), Ok(Reply::Already));
    assert_eq!(s.status(&a), "Up Less than a second");
    assert_eq!(s.inspect(&a).unwrap().ips, ["172.17.0.2"]);
    s.pass(10_000);
    assert_eq!(s.status(&a), "Up 10 seconds");
    let running = format!(
        "You cannot remove a running container {a}. Stop the container before attempting removal or force \
         remove"
    );
    refused(s.remove(&a, false), 409, RefusalKind::StillRunning, &running);
    // PID 1 without a handler does not hear TERM.
    assert_eq!(s.kill(&a, "SIGTERM"), Ok(Reply::Done));
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running);
    refused(s.kill(&a, "SIGFOO"), 400, RefusalKind::BadRequest, "Invalid signal: SIGFOO");
    refused(s.kill(&a, "0"), 400, RefusalKind::BadRequest, "Invalid signal: 0");
    assert_eq!(s.kill(&a, "9"), Ok(Reply::Done));
    let d = s.inspect(&a).unwrap();
    assert_eq!((d.state, d.exit_code, d.oom_killed), (DockerState::Exited, 137, false));
    assert_eq!((d.finished_at, d.ips), (Some(s.now.wall), vec![]));
    s.pass(61_000);
    assert_eq!(s.status(&a), "Exited (137) About a minute ago");
    assert_eq!(s.start(&a), Ok(Reply::Done));
    let d = s.inspect(&a).unwrap();
    assert_eq!((d.state, d.exit_code, d.finished_at.is_some()), (DockerState::Running, 0, true));
    assert_eq!(s.state.get(&a).unwrap().starts, 2);
    assert_eq!(s.remove(&a, true), Ok(Reply::Done));
    refused(s.remove(&a, true), 404, RefusalKind::NoSuchContainer, &format!("No such container: {a}"));
    let cannot = "Cannot kill container: a1: No such container: a1";
    refused(s.kill("a1", "KILL"), 404, RefusalKind::NoSuchContainer, cannot);
    let expected =
        ["create", "start", "kill 15", "kill 9", "die 137", "start", "kill 9", "die 137", "destroy"];
    assert_eq!(s.events(), expected.map(|e| format!("a1 {e}")));
}

#[test]
fn a_start_that_fails_leaves_it_created() {
    let mut s = sim();
    let m = s.made("m1", body("/no-such-thing x"));
    let text = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start \
                container process: exec: \"/no-such-thing\": stat /no-such-thing: no such file or directory: \
                unknown";
    refused(s.start(&m), 400, RefusalKind::CannotRun, text);
    let d = s.inspect(&m).unwrap();
    assert_eq!((d.state, d.exit_code, d.error.as_str()), (DockerState::Created, 127, text));
    assert_eq!((d.started_at, d.finished_at, s.status(&m)), (None, None, "Created".into()));
    assert_eq!(s.events(), ["m1 create"]);
}

#[test]
fn a_sandbox_that_does_not_run_cannot_be_joined() {
    let mut s = sim();
    let mut donor = body("x");
    donor.host_config.ipc_mode = "shareable".into();
    let sandbox = s.up("s1", donor);
    let a = s.up("a1", joining(&format!("container:{sandbox}")));
    assert_eq!(s.inspect(&a).unwrap().ips, Vec::<String>::new());
    let b = s.made("b1", joining(&format!("container:{sandbox}")));
    let mut ipc = body("sleep 9");
    ipc.host_config.ipc_mode = format!("container:{sandbox}");
    let c = s.made("c1", ipc);
    let mut pid = body("sleep 9");
    pid.host_config.pid_mode = format!("container:{sandbox}");
    let p = s.up("p1", pid);
    assert_eq!(s.kill(&sandbox, "SIGTERM"), Ok(Reply::Done));
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running, "its network's owner is dead, it is not");
    assert_eq!(s.inspect(&p).unwrap().exit_code, 137, "its PID 1 is dead, and so is it");
    let text = format!("cannot join network of a non running container: {sandbox}");
    refused(s.start(&b), 409, RefusalKind::SandboxNotRunning, &text);
    let d = s.inspect(&b).unwrap();
    assert_eq!((d.state, d.exit_code, d.error), (DockerState::Created, 128, text.clone()));
    let ipc = format!("can't join IPC of container {sandbox}: container {sandbox} is not running");
    refused(s.start(&c), 500, RefusalKind::NotRunning, &ipc);
    refused(s.start(&p), 500, RefusalKind::NotRunning, &format!("container {sandbox} is not running"));
    // Having run, it keeps its exit code and times.
    assert_eq!(s.kill(&a, "KILL"), Ok(Reply::Done));
    refused(s.start(&a), 409, RefusalKind::SandboxNotRunning, &text);
    let d = s.inspect(&a).unwrap();
    assert_eq!(
        (d.state, d.exit_code, d.error, d.finished_at.is_some()),
        (DockerState::Exited, 137, text, true)
    );
    assert_eq!(s.remove(&sandbox, false), Ok(Reply::Done));
    let gone = format!("No such container: {sandbox}");
    refused(s.start(&b), 404, RefusalKind::NoSuchContainer, &gone);
}

#[test]
fn host_ports_are_held_from_start_to_death() {
    let mut s = sim();
    let a = s.up("a1", binding("", "8080"));
    let b = s.made("b1", binding("", "8080"));
    let answer = s.start(&b);
    let Err(DockerError::Refused(r)) = &answer else { panic!("{answer:?}") };
    assert_eq!((r.status, &r.kind), (500, &RefusalKind::PortInUse));
    assert!(r.message.starts_with("driver failed programming external connectivity on endpoint b1 ("));
    assert!(
        r.message.ends_with("): Bind for 0.0.0.0:8080 failed: port is already allocated"),
        "{}",
        r.message
    );
    assert_eq!((s.inspect(&b).unwrap().exit_code, s.status(&b)), (128, "Created".into()));
    let c = s.made("c1", binding("127.0.0.1", "8080"));
    let text = s.start(&c).unwrap_err().to_string();
    let listen = "listen tcp4 127.0.0.1:8080: bind: address already in use";
    assert!(text.ends_with(&format!("Error starting userland proxy: {listen}")), "{text}");
    let mut unexposed = binding("", "8080");
    unexposed.exposed_ports.clear();
    s.up("d1", unexposed);
    let mut host = binding("", "8080");
    host.host_config.network_mode = "host".into();
    s.up("e1", host);
    s.kill(&a, "KILL").unwrap();
    assert_eq!(s.start(&b), Ok(Reply::Done));
    assert_eq!((s.inspect(&b).unwrap().exit_code, s.inspect(&b).unwrap().error), (0, String::new()));
    s.up("f1", binding("127.0.0.1", "9000"));
    s.up("g1", binding("127.0.0.2", "9000"));
}

#[test]
fn scripts_take_their_time() {
    let mut s = sim();
    let scripted = |script: &str| {
        let mut b = body("server");
        b.env.push(format!("PODKEEPER_FAKE={script}"));
        b
    };
    let a = s.up("a1", scripted("exit=3@500"));
    let o = s.up("o1", scripted("oom@800"));
    let t = s.up("t1", scripted("term=143@100 kill@50"));
    assert_eq!(s.state.next_due(), Some(Mono(millis(500))));
    s.pass(499);
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running);
    s.pass(1001);
    let (d, at) = (s.inspect(&a).unwrap(), Timestamp::from_millisecond(1_800_000_000_500).unwrap());
    assert_eq!((d.state, d.exit_code, d.finished_at), (DockerState::Exited, 3, Some(at)));
    let d = s.inspect(&o).unwrap();
    assert_eq!((d.exit_code, d.oom_killed), (137, true));
    s.kill(&t, "TERM").unwrap();
    s.pass(99);
    assert_eq!(s.inspect(&t).unwrap().state, DockerState::Running);
    s.pass(1);
    assert_eq!(s.inspect(&t).unwrap().exit_code, 143);
    // A timer of an earlier life does not touch the next one.
    s.start(&t).unwrap();
    s.kill(&t, "KILL").unwrap();
    s.kill(&t, "TERM").unwrap();
    assert_eq!(s.inspect(&t).unwrap().state, DockerState::Running, "stuck in the kernel for 50 ms");
    s.pass(50);
    assert_eq!(s.inspect(&t).unwrap().exit_code, 137);
    s.start(&t).unwrap();
    s.pass(1000);
    assert_eq!(s.inspect(&t).unwrap().state, DockerState::Running);
    s.state.behave("t1", Behaviour::exits(9, millis(0)));
    s.kill(&t, "KILL").unwrap();
    s.pass(50);
    s.start(&t).unwrap();
    s.pass(0);
    assert_eq!(s.inspect(&t).unwrap().exit_code, 9);
    let events = s.events();
    assert!(events.ends_with(&["t1 start".into(), "t1 die 9".into()]), "{events:?}");
    assert!(events.windows(2).any(|w| w == ["o1 oom", "o1 die 137"]), "{events:?}");
}

#[test]
fn own_stop_signal() {
    let mut s = sim();
    let mut b = body("server");
    b.stop_signal = Some("SIGQUIT".into());
    let a = s.up("a1", b);
    s.kill(&a, "SIGUSR1").unwrap();
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running);
    s.kill(&a, "SIGQUIT").unwrap();
    assert_eq!(
        (s.inspect(&a).unwrap().exit_code, s.inspect(&a).unwrap().stop_signal),
        (0, Some("SIGQUIT".into()))
    );
}

#[test]
fn status_texts() {
    let mut s = sim();
    let a = s.up("a1", body("server"));
    let mut passed = 0;
    for (at, text) in [
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "About a minute"),
        (120, "2 minutes"),
        (3599, "59 minutes"),
        (3600, "About an hour"),
        (5400, "2 hours"),
        (47 * 3600, "47 hours"),
        (48 * 3600, "2 days"),
        (14 * 86400, "2 weeks"),
        (60 * 86400, "2 months"),
        (800 * 86400, "2 years"),
    ] {
        s.pass((at - passed) * 1000);
        passed = at;
        assert_eq!(s.status(&a), format!("Up {text}"));
    }
}

#[test]
fn list_is_filtered_by_label_and_newest_first() {
    let mut s = sim();
    let mut other = body("x");
    other.labels = BTreeMap::from([("l".into(), "2".into()), ("k".into(), "a=b".into())]);
    s.made("a1", body("x"));
    s.made("b1", other);
    let names = |s: &mut Sim, labels: &[&str]| s.list(labels).into_iter().map(|c| c.name).collect::<Vec<_>>();
    assert_eq!(names(&mut s, &[]), ["b1", "a1"]);
    assert_eq!(names(&mut s, &["l"]), ["b1", "a1"]);
    assert_eq!(names(&mut s, &["l=1"]), ["a1"]);
    assert_eq!(names(&mut s, &["k=a=b", "l=2"]), ["b1"]);
    assert_eq!(names(&mut s, &["k=a", "l"]), Vec::<String>::new());
}

#[test]
fn containers_are_found_by_id_name_and_beginning() {
    let mut s = sim();
    let a = s.made("a1", body("x"));
    for key in [a.as_str(), "a1", "/a1", &a[..12]] {
        assert_eq!(s.inspect(key).unwrap().id, a, "{key}");
    }
    refused(
        s.call(Call::Inspect { id: String::new() }),
        404,
        RefusalKind::NoSuchContainer,
        "No such container: ",
    );
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

#[test]
fn a_restarted_engine_runs_nothing() {
    for (how, codes) in [(Restart::Orderly, [0, 137]), (Restart::PowerCut, [255, 255])] {
        let mut s = sim();
        let ids = [s.up("a1", body("server")), s.up("b1", body("sleep 1000"))];
        s.state.restart_engine(how, s.now);
        assert_eq!(s.events(), ["end: the fake engine closed the connection"]);
        s.seen = s.state.subscribe(Some(0)).unwrap();
        s.pass(2_000_000);
        for (id, code) in ids.iter().zip(codes) {
            let d = s.inspect(id).unwrap();
            assert_eq!((d.state, d.exit_code), (DockerState::Exited, code), "{how:?}");
        }
        assert_eq!(s.events(), Vec::<String>::new(), "the ring is new");
    }
}

#[test]
fn a_stopped_engine_is_unreachable_while_containers_live_on() {
    let mut s = sim();
    let a = s.up("a1", body("server"));
    s.state.set_down(true);
    assert!(matches!(s.inspect(&a), Err(DockerError::Unreachable(_))));
    assert!(matches!(s.state.subscribe(None), Err(DockerError::Unreachable(_))));
    assert!(matches!(s.state.pull("x", s.now), Err(DockerError::Unreachable(_))));
    s.state.set_down(false);
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running);
}

#[test]
fn hooks_crash_kill_and_take_away() {
    let mut s = sim();
    let a = s.up("a1", body("server"));
    s.state.crash("a1", 2, s.now);
    s.start(&a).unwrap();
    s.state.oom(&a, s.now);
    s.start(&a).unwrap();
    s.state.remove_behind_our_back(&a, s.now);
    assert_eq!(s.state.containers().count(), 0);
    s.state.plant("odd name!", &[("x", "")], true, s.now);
    assert_eq!(s.list(&["x"])[0].name, "odd name!");
    let expected = [
        "a1 create",
        "a1 start",
        "a1 die 2",
        "a1 start",
        "a1 oom",
        "a1 die 137",
        "a1 start",
        "a1 kill 9",
        "a1 die 137",
        "a1 destroy",
        "odd name! create",
        "odd name! start",
    ];
    assert_eq!(s.events(), expected);
}

/// Lets one fault come with every call it fits.
fn with_fault(fault: Fault) -> Sim {
    let mut s = sim();
    s.state.faults = FaultPlan::seeded(1, &[(fault, 10_000)], Mono(millis(60_000)));
    s
}

#[test]
fn faults_that_hide_whether_it_was_done() {
    for (fault, done, late) in [
        (Fault::Hang, false, false),
        (Fault::HangDone, true, true),
        (Fault::HangLate, false, true),
        (Fault::Lost, false, false),
        (Fault::LostDone, true, true),
        (Fault::Refused500, false, false),
        (Fault::NoSpace, false, false),
    ] {
        let mut s = with_fault(fault);
        let answer = s.create("a1", body("x")).unwrap_err();
        let fits = match fault {
            Fault::Hang | Fault::HangDone | Fault::HangLate => matches!(answer, DockerError::Timeout(_)),
            Fault::Lost | Fault::LostDone => matches!(answer, DockerError::Lost(_)),
            _ => answer.refusal() == Some(&RefusalKind::Server),
        };
        assert!(fits, "{fault:?}: {answer:?}");
        assert_eq!(s.state.get("a1").is_some(), done, "{fault:?}");
        s.pass(60_000);
        assert_eq!(s.state.get("a1").is_some(), late, "{fault:?}");
        assert!(s.create("b1", body("x")).is_ok(), "{fault:?} is over");
    }
}

#[test]
fn k40443_name_held_by_a_ghost_a_foreigner_or_a_stale_one() {
    for fault in [Fault::NameGhost, Fault::NameForeign, Fault::NameStale] {
        let mut s = with_fault(fault);
        let Some(RefusalKind::NameInUse(Some(holder))) = kind_of(s.create("a1", body("x"))) else {
            panic!("{fault:?}")
        };
        let again = kind_of(s.create("a1", body("x")));
        assert_eq!(again, Some(RefusalKind::NameInUse(Some(holder.clone()))), "{fault:?}");
        let found = s.inspect(&holder);
        match fault {
            Fault::NameGhost => {
                assert!(found.is_err() && s.list(&[]).is_empty());
                assert_eq!(kind_of(s.remove(&holder, true)), Some(RefusalKind::NoSuchContainer));
            }
            Fault::NameForeign => {
                assert!(!found.unwrap().labels.contains_key("l"));
                s.pass(60_000);
                assert_eq!(s.status(&holder), "gone");
            }
            _ => {
                let d = found.unwrap();
                assert_eq!((d.state, d.labels["l"].as_str()), (DockerState::Exited, "1"));
                assert_eq!(d.labels[labels::POD_UID], "stale");
                s.state.faults = FaultPlan::none();
                s.remove(&holder, false).unwrap();
                s.made("a1", body("x"));
            }
        }
    }
}

#[test]
fn a_container_vanishes_between_list_and_inspect() {
    let mut s = with_fault(Fault::Vanished);
    let a = s.up("a1", body("x"));
    assert_eq!(s.list(&[]).len(), 1);
    assert_eq!(s.inspect(&a).unwrap_err().refusal(), Some(&RefusalKind::NoSuchContainer));
    assert_eq!(s.list(&[]), []);
}

#[test]
fn k22312_removal_that_fails_for_ever_or_goes_on() {
    let mut s = with_fault(Fault::Undeletable);
    let a = s.up("a1", body("x"));
    for _ in 0..3 {
        assert_eq!(kind_of(s.remove(&a, true)), Some(RefusalKind::Server));
        assert_eq!((s.inspect(&a).unwrap().state, s.status(&a)), (DockerState::Removing, "Dead".into()));
    }
    assert_eq!(kind_of(s.start(&a)), Some(RefusalKind::RemovalInProgress));
    assert_eq!(kind_of(s.kill(&a, "KILL")), Some(RefusalKind::NotRunning));
    assert_eq!(kind_of(s.create("a1", body("x"))), Some(RefusalKind::NameInUse(Some(a.clone()))));
    s.state.faults = FaultPlan::none();
    s.state.refuse_removal(&a, false);
    assert_eq!(s.remove(&a, false), Ok(Reply::Done));

    let mut s = with_fault(Fault::SlowRemove);
    let a = s.made("a1", body("x"));
    assert!(matches!(s.remove("a1", false), Err(DockerError::Timeout(_))));
    assert_eq!(s.status(&a), "Removal In Progress");
    s.state.faults = FaultPlan::none();
    let text = "removal of container a1 is already in progress";
    refused(s.remove("a1", true), 409, RefusalKind::RemovalInProgress, text);
    s.pass(15_000);
    assert_eq!((s.status(&a), s.events()), ("gone".into(), vec!["a1 create".into(), "a1 destroy".into()]));
}

#[test]
fn k94829_one_inspect_hangs() {
    let mut s = sim();
    let (a, b) = (s.up("a1", body("x")), s.up("b1", body("x")));
    s.state.hang_inspect("a1", true);
    assert!(matches!(s.inspect(&a), Err(DockerError::Timeout(_))));
    assert!(matches!(s.inspect("a1"), Err(DockerError::Timeout(_))));
    assert!(s.inspect(&b).is_ok());
    assert_eq!(s.list(&[]).len(), 2);
    s.state.hang_inspect("a1", false);
    assert!(s.inspect(&a).is_ok());
}

#[test]
fn k2062_fields_left_out_of_inspect() {
    use Field::{
        Created, Error, FinishedAt, Image, ImageId, Ips, LogPath, NetworkMode, StartedAt, StopSignal,
    };
    let mut s = sim();
    let mut b = body("server");
    b.stop_signal = Some("SIGINT".into());
    let a = s.up("a1", b);
    let full = s.inspect(&a).unwrap();
    s.state.drop_inspect_fields(&[
        Created,
        StartedAt,
        FinishedAt,
        Error,
        Image,
        ImageId,
        StopSignal,
        NetworkMode,
        Ips,
        LogPath,
    ]);
    let mut expected = full.clone();
    (expected.created, expected.started_at, expected.stop_signal) = (None, None, None);
    (expected.image, expected.image_id, expected.network_mode) = Default::default();
    expected.ips.clear();
    expected.networks = None;
    assert_eq!(s.inspect(&a).unwrap(), expected);
    s.state.drop_inspect_fields(&[]);
    assert_eq!(s.inspect(&a).unwrap(), full);
}

#[test]
fn k2309_events_lost_doubled_overtaken_silent_cut() {
    for (fault, seen, replayed) in [
        (Fault::EventLost, "", "a1 create, a1 start"),
        (
            Fault::EventTwice,
            "a1 create, a1 create, a1 start, a1 start",
            "a1 create, a1 create, a1 start, a1 start",
        ),
        (Fault::EventOvertaken, "a1 start, a1 create", "a1 start, a1 create"),
        (Fault::EventsSilent, "", "a1 create, a1 start"),
        (Fault::EventsCut, "end: the fake engine closed the connection", "a1 create, a1 start"),
    ] {
        let mut s = with_fault(fault);
        s.up("a1", body("x"));
        assert_eq!(s.events().join(", "), seen, "{fault:?}");
        s.state.faults = FaultPlan::none();
        s.seen = s.state.subscribe(Some(0)).unwrap();
        assert_eq!(s.events().join(", "), replayed, "{fault:?}");
        s.state.crash("a1", 0, s.now);
        assert_eq!(s.events(), ["a1 die 0"], "{fault:?} is over");
    }
    let mut s = with_fault(Fault::EventOvertaken);
    s.made("a1", body("x"));
    assert_eq!(s.events(), Vec::<String>::new());
    s.pass(100);
    assert_eq!(s.events(), ["a1 create"], "nothing overtook it");
}

#[test]
fn the_same_seed_hurts_in_the_same_places() {
    let run = |seed| {
        let mut s = sim();
        s.state.faults = FaultPlan::all(seed, 500, Mono(millis(90_000)));
        let mut answers = Vec::new();
        for n in 0..200 {
            let name = format!("c{}", n % 7);
            answers.push(format!("{:?}", s.create(&name, body("server"))));
            answers.push(format!("{:?}", s.start(&name)));
            answers.push(format!("{:?}", s.kill(&name, "KILL")));
            answers.push(format!("{:?}", s.remove(&name, true)));
            s.pass(500);
        }
        (answers, s.events())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    let last = run(3).0.split_off(4 * 190);
    let calm = last.iter().all(|a| !a.contains("fake") && !a.contains("no space"));
    assert!(calm, "after its time the plan does nothing: {last:?}");
}

/// A driven engine with one image.
fn driven() -> Fake {
    let fake = Fake::new(Arc::new(System::start()), 1);
    fake.drive().unwrap();
    fake.with(|state| state.add_image("busybox:1", false));
    fake
}

fn up(fake: &Fake, name: &str, body: CreateBody) -> String {
    let create = Call::Create { name: name.into(), body: Box::new(body) };
    let Ok(Reply::Created { id, .. }) = fake.perform(&create) else { panic!() };
    assert_eq!(fake.perform(&Call::Start { id: id.clone() }), Ok(Reply::Done));
    id
}

/// All that comes until the stream ends by itself.
fn read_all(fd: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    UnixStream::from(fd).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_driven_fake_lets_time_pass_and_streams_events() {
    let fake = driven();
    let events = fake.events(&["l=1".into()], None).unwrap();
    fake.with(|state| state.plant("other", &[], true, System::start().now()));
    let id = up(&fake.clone(), "a1", body("sleep 0.02"));
    let mut lines = BufReader::new(UnixStream::from(events)).lines();
    for expected in ["create", "start", "die"] {
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["Action"], &line["Actor"]["ID"]), (&expected.into(), &id.clone().into()));
        assert_eq!((&line["Type"], &line["from"]), (&"container".into(), &"busybox:1".into()));
        assert_eq!(line["Actor"]["Attributes"]["l"], "1");
        assert_eq!(line["timeNano"].as_i64().unwrap() / 1_000_000_000, line["time"].as_i64().unwrap());
    }
    fake.with(State::cut_events);
    assert!(lines.next().is_none());
    let replayed = fake.events(&[], Some(0)).unwrap();
    fake.with(State::cut_events);
    assert_eq!(read_all(replayed).iter().filter(|b| **b == b'\n').count(), 5);
}

#[test]
fn a_slow_reader_of_events_gets_them_later() {
    let fake = driven();
    let events = fake.events(&[], None).unwrap();
    let mut big = body("x");
    big.labels.insert("big".into(), "x".repeat(10_000));
    for n in 0..100 {
        let create = Call::Create { name: format!("a{n}"), body: Box::new(big.clone()) };
        fake.perform(&create).unwrap();
    }
    let lines = BufReader::new(UnixStream::from(events)).lines();
    for (n, line) in lines.take(100).enumerate() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(line["Actor"]["Attributes"]["name"], format!("a{n}"));
    }
}

#[test]
fn logs_attach_and_exec_are_streams() {
    let fake = driven();
    let frame = |text: &str| {
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, u8::try_from(text.len()).unwrap()];
        bytes.extend(text.as_bytes());
        bytes
    };
    let mut talks = body("sh");
    talks.cmd = Some(["sh", "-c", "echo one; echo two; sleep 9"].map(str::to_string).to_vec());
    let a = up(&fake, "a1", talks.clone());
    talks.tty = true;
    up(&fake, "b1", talks);
    assert_eq!(read_all(fake.logs("a1", false, None).unwrap()), frame("one\ntwo\n"));
    assert_eq!(read_all(fake.logs("a1", false, Some(1)).unwrap()), frame("two\n"));
    assert_eq!(read_all(fake.logs("a1", false, Some(0)).unwrap()), Vec::<u8>::new());
    assert_eq!(read_all(fake.logs("b1", false, None).unwrap()), b"one\ntwo\n");
    let (follow, attached) = (fake.logs("a1", true, None).unwrap(), fake.attach("a1").unwrap());
    let exec = |words: &[&str]| {
        let cmd = words.iter().map(ToString::to_string).collect();
        let body =
            ExecBody { attach_stdin: false, attach_stdout: true, attach_stderr: true, tty: false, cmd };
        match fake.perform(&Call::ExecCreate { id: a.clone(), body }) {
            Ok(Reply::ExecCreated { id }) => id,
            other => panic!("{other:?}"),
        }
    };
    let e = exec(&["sh", "-c", "echo hi; sleep 0.02; exit 3"]);
    assert_eq!(read_all(fake.exec_start(&e, false).unwrap()), frame("hi\n"));
    let done = Reply::Exec(ExecDetail { running: false, not_started: false, exit_code: Some(3) });
    assert_eq!(fake.perform(&Call::ExecInspect { id: e }), Ok(done));
    let e = exec(&["sleep", "100"]);
    let cut = fake.exec_start(&e, false).unwrap();
    fake.with(|state| state.crash("a1", 0, System::start().now()));
    assert_eq!(read_all(follow), frame("one\ntwo\n"));
    assert_eq!((read_all(attached), read_all(cut)), (vec![], vec![]));
    assert_eq!(fake.attach("a1").unwrap_err().refusal(), Some(&RefusalKind::NotRunning));
    assert_eq!(fake.logs("zz", false, None).unwrap_err().refusal(), Some(&RefusalKind::NoSuchContainer));
}

#[test]
fn a_pull_takes_its_time_and_is_given_up() {
    let fake = driven();
    assert_eq!(fake.pull("x:1", None), Ok(()));
    fake.with(|state| state.script_pull("y:1", Pull::Takes(millis(5))));
    let given_up = fake.pull("y:1", Some(millis(1)));
    assert!(matches!(given_up, Err(DockerError::Stalled(_))));
    let inspect = Call::ImageInspect { image: "y:1".into() };
    assert!(fake.perform(&inspect).is_err());
    assert_eq!(fake.pull("y:1", Some(millis(5000))), Ok(()));
    assert!(fake.perform(&inspect).is_ok());
}
