//! Every call of the Docker client against the engine that runs on this machine. Needs the image
//! `busybox:static`; every object has a name of its own and is removed by its guard.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use podkeeper::testing::base::table::Table;
use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::connection::Wait;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::event_stream::{EventAction, EventNext};
use podkeeper::testing::runtime::frames::StreamKind;
use podkeeper::testing::runtime::pull::Patience;
use podkeeper::testing::runtime::request::{AttachOptions, LogOptions};
use podkeeper::testing::runtime::stream::{Output, OutputStream};
use podkeeper::testing::runtime::{
    Call, ContainerDetail, CreateBody, DockerError, DockerState, Empty, ExecBody, HostConfig, Namespaces,
    PortBinding, RefusalKind, Reply,
};

use crate::harness::{ask_docker, tag_image, untag_image};

const SOCKET: &str = "/var/run/docker.sock";
const IMAGE: &str = "busybox:static";
const LABEL: &str = "podkeeper.dev/client-test";

fn docker() -> Docker {
    Docker::Engine(Client::new(Path::new(SOCKET)))
}

/// Long enough for a busy machine.
fn patient() -> Wait<'static> {
    Wait::at_most(Duration::from_secs(60))
}

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("pk-client-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A container that is removed with the test.
struct Container {
    docker: Docker,
    name: String,
    id: String,
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.docker.call(&Call::Remove { id: self.name.clone(), force: true });
    }
}

fn body(label: &str, command: &[&str]) -> CreateBody {
    CreateBody {
        image: IMAGE.to_owned(),
        cmd: Some(command.iter().map(|&word| word.to_owned()).collect()),
        labels: BTreeMap::from([(LABEL.to_owned(), label.to_owned())]),
        host_config: HostConfig {
            namespaces: Namespaces { network_mode: "none".to_owned(), ..Namespaces::default() },
            ..HostConfig::default()
        },
        ..CreateBody::default()
    }
}

impl Container {
    fn create(name: &str, body: CreateBody) -> Container {
        let docker = docker();
        let create = Call::Create { name: name.to_owned(), body: Box::new(body) };
        match docker.call(&create) {
            Ok(Reply::Created { id, .. }) => Container { docker, name: name.to_owned(), id },
            other => panic!("{name}: {other:?}"),
        }
    }

    /// A container that is created and started, with the shell as its first process.
    fn run(script: &str) -> Container {
        let name = unique();
        let container = Container::create(&name, body(&name, &["sh", "-c", script]));
        assert_eq!(container.start(), Ok(Reply::Done));
        container
    }

    fn start(&self) -> Result<Reply, DockerError> {
        self.docker.call(&Call::Start { id: self.id.clone() })
    }

    fn kill(&self, signal: &str) -> Result<Reply, DockerError> {
        self.docker.call(&Call::Kill { id: self.id.clone(), signal: signal.to_owned() })
    }

    fn remove(&self, force: bool) -> Result<Reply, DockerError> {
        self.docker.call(&Call::Remove { id: self.id.clone(), force })
    }

    fn inspect(&self) -> ContainerDetail {
        match self.docker.call(&Call::Inspect { id: self.id.clone() }) {
            Ok(Reply::Container(detail)) => *detail,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    fn exit_code(&self) -> i64 {
        let begun = Instant::now();
        loop {
            let detail = self.inspect();
            if detail.state == DockerState::Exited {
                return detail.exit_code;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn exec(&self, tty: bool, stdin: bool, command: &[&str]) -> String {
        let body = ExecBody {
            attach_stdin: stdin,
            attach_stdout: true,
            attach_stderr: true,
            tty,
            cmd: command.iter().map(|&word| word.to_owned()).collect(),
        };
        match self.docker.call(&Call::ExecCreate { id: self.id.clone(), body }) {
            Ok(Reply::ExecCreated { id }) => id,
            other => panic!("{other:?}"),
        }
    }

    /// The exit code of an exec whose output has ended; the engine may need a moment to report it.
    fn exec_code(&self, exec: &str) -> i64 {
        for _ in 0..5000 {
            match self.docker.call(&Call::ExecInspect { id: exec.to_owned() }) {
                Ok(Reply::Exec(detail)) if detail.running => {}
                Ok(Reply::Exec(detail)) => return detail.exit_code.expect("an ended exec has a code"),
                other => panic!("{other:?}"),
            }
        }
        panic!("the exec does not end");
    }
}

fn refusal(result: Result<Reply, DockerError>) -> RefusalKind {
    match result {
        Err(DockerError::Refused(refusal)) => refusal.kind,
        other => panic!("not refused: {other:?}"),
    }
}

/// Standard output and standard error until the end.
fn drain(output: &mut OutputStream) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match output.next(&patient()).unwrap() {
            Output::Bytes(StreamKind::Stderr, bytes) => err.extend(bytes),
            Output::Bytes(_, bytes) => out.extend(bytes),
            Output::Idle => panic!("no end of the output"),
            Output::End => return (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap()),
        }
    }
}

#[test]
fn ping_and_info() {
    let docker = docker();
    let (major, minor) = Client::new(Path::new(SOCKET)).ping().unwrap();
    assert!((major, minor) >= (1, 40));
    let Ok(Reply::Info(info)) = docker.call(&Call::Info) else { panic!("no info") };
    let version = String::from_utf8_lossy(&ask_docker("GET", "/version")).into_owned();
    assert!(version.contains(&format!("\"Version\":\"{}\"", info.server_version)), "{version}");
    assert!(info.cpus > 0 && info.memory > 0 && !info.cgroup_driver.is_empty(), "{info:?}");
}

#[test]
fn the_life_of_a_container() {
    let name = unique();
    let trap = "trap 'exit 7' TERM; while :; do sleep 0.01; done";
    let container = Container::create(&name, body(&name, &["sh", "-c", trap]));
    let detail = container.inspect();
    assert_eq!(
        (detail.state, detail.name.as_str(), detail.image.as_str()),
        (DockerState::Created, &*name, IMAGE)
    );
    assert_eq!((detail.started_at, detail.finished_at), (None, None));
    assert_eq!(detail.labels.get(LABEL), Some(&name));

    assert_eq!(container.start(), Ok(Reply::Done));
    assert_eq!(container.start(), Ok(Reply::Already));
    let list = Call::List { labels: vec![format!("{LABEL}={name}")] };
    let Ok(Reply::Containers(list)) = container.docker.call(&list) else { panic!("no list") };
    let seen: Vec<_> = list.iter().map(|c| (&c.id, c.name.as_str(), c.state)).collect();
    assert_eq!(seen, [(&container.id, name.as_str(), DockerState::Running)]);
    assert!(list[0].status.starts_with("Up"), "{:?}", list[0]);
    let both = Call::List { labels: vec![format!("{LABEL}={name}"), "no.such/label".to_owned()] };
    assert_eq!(container.docker.call(&both), Ok(Reply::Containers(vec![])));

    assert_eq!(refusal(container.remove(false)), RefusalKind::StillRunning);
    // The shell may not have set its trap at first.
    while container.inspect().state == DockerState::Running {
        _ = container.kill("SIGTERM");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(container.exit_code(), 7);
    let detail = container.inspect();
    assert_eq!((detail.state, detail.exit_code), (DockerState::Exited, 7));
    assert!(detail.finished_at > detail.started_at && detail.started_at.is_some(), "{detail:?}");
    assert_eq!(refusal(container.kill("SIGKILL")), RefusalKind::NotRunning);

    assert_eq!(container.remove(false), Ok(Reply::Done));
    assert_eq!(refusal(container.remove(false)), RefusalKind::NoSuchContainer);
    assert_eq!(refusal(container.start()), RefusalKind::NoSuchContainer);
    let inspect = container.docker.call(&Call::Inspect { id: container.id.clone() });
    assert_eq!(refusal(inspect), RefusalKind::NoSuchContainer);
}

#[test]
fn k40443_a_name_in_use_names_its_holder() {
    let name = unique();
    let holder = Container::create(&name, body(&name, &["true"]));
    let again = Call::Create { name: name.clone(), body: Box::new(body(&name, &["true"])) };
    assert_eq!(refusal(holder.docker.call(&again)), RefusalKind::NameInUse(Some(holder.id.clone())));
}

#[test]
fn creates_and_starts_that_are_refused() {
    let name = unique();
    let create = |body: CreateBody| docker().call(&Call::Create { name: name.clone(), body: Box::new(body) });
    let missing = CreateBody { image: "podkeeper.invalid/none:1".to_owned(), ..body(&name, &[]) };
    assert_eq!(refusal(create(missing)), RefusalKind::NoSuchImage);
    let mut clash = body(&name, &["true"]);
    clash.hostname = Some("x".to_owned());
    clash.host_config.namespaces.network_mode = "container:x".to_owned();
    assert_eq!(refusal(create(clash)), RefusalKind::BadRequest);

    let nothing = Container::create(&name, body(&name, &["/no/such/program"]));
    assert_eq!(refusal(nothing.start()), RefusalKind::CannotRun);
    let detail = nothing.inspect();
    assert_eq!((detail.state, detail.exit_code), (DockerState::Created, 127));
    assert!(detail.error.contains("/no/such/program"), "{}", detail.error);
    let other = unique();
    let no_path = Container::create(&other, body(&other, &["no-such-program"]));
    assert_eq!(refusal(no_path.start()), RefusalKind::CannotRun);
    let other = unique();
    let directory = Container::create(&other, body(&other, &["/tmp"]));
    assert_eq!(refusal(directory.start()), RefusalKind::CannotRun);

    let other = unique();
    let mut join = body(&other, &["true"]);
    join.host_config.namespaces.network_mode = format!("container:{}", nothing.id);
    let join = Container::create(&other, join);
    assert_eq!(refusal(join.start()), RefusalKind::SandboxNotRunning);
}

#[test]
fn a_host_port_that_is_taken() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let publish = || {
        let name = unique();
        let mut published = body(&name, &["sleep", "600"]);
        published.host_config.namespaces.network_mode = String::new();
        published.exposed_ports = Table::from([("80/tcp".to_owned(), Empty {})]);
        let binding = PortBinding { host_ip: String::new(), host_port: port.clone() };
        published.host_config.port_bindings = Table::from([("80/tcp".to_owned(), vec![binding])]);
        Container::create(&name, published)
    };
    let first = publish();
    assert_eq!(first.start(), Ok(Reply::Done));
    assert_eq!(first.inspect().ips.len(), 1);
    assert_eq!(refusal(publish().start()), RefusalKind::PortInUse);
}

#[test]
fn logs() {
    let container = Container::run("echo one; echo two >&2; echo three");
    assert_eq!(container.exit_code(), 0);
    let log =
        |options: LogOptions| drain(&mut container.docker.logs(&container.id, &options, false).unwrap());
    let plain = LogOptions { follow: false, tail: None, since: None, timestamps: false };
    assert_eq!(log(plain.clone()), ("one\nthree\n".to_owned(), "two\n".to_owned()));
    let (out, err) = log(LogOptions { tail: Some(1), ..plain.clone() });
    assert_eq!([out, err].concat().lines().count(), 1, "the streams' order is the engine's affair");
    assert_eq!(log(LogOptions { follow: true, ..plain.clone() }).0, "one\nthree\n");
    let (out, _) = log(LogOptions { timestamps: true, since: Some("1.5".to_owned()), ..plain.clone() });
    assert!(out.starts_with("20") && out.contains("Z one\n"), "{out}");
    let none = container.docker.logs("no-such-container", &plain, false).unwrap_err();
    assert_eq!(none.refusal(), Some(&RefusalKind::NoSuchContainer));
}

#[test]
fn logs_are_followed_to_the_end() {
    let container = Container::run("echo first; while [ ! -e /go ]; do sleep 0.01; done; echo last");
    let follow = LogOptions { follow: true, tail: None, since: None, timestamps: false };
    let mut output = container.docker.logs(&container.id, &follow, false).unwrap();
    assert_eq!(output.next(&patient()).unwrap(), Output::Bytes(StreamKind::Stdout, b"first\n"));
    assert_eq!(output.next(&Wait::at_most(Duration::ZERO)).unwrap(), Output::Idle);
    let exec = container.exec(false, false, &["touch", "/go"]);
    drain(&mut container.docker.exec_start(&exec, false).unwrap().output);
    assert_eq!(drain(&mut output).0, "last\n");
}

#[test]
fn exec_with_output_input_and_exit_code() {
    let container = Container::run("sleep 600");
    let script = "echo out; echo err >&2; exit 3";
    let exec = container.exec(false, false, &["sh", "-c", script]);
    let mut both = container.docker.exec_start(&exec, false).unwrap();
    assert_eq!(drain(&mut both.output), ("out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(container.exec_code(&exec), 3);

    // More than any buffer on the way, so that both directions must move at the same time; then the
    // end of input.
    let exec = container.exec(false, true, &["cat"]);
    let mut both = container.docker.exec_start(&exec, false).unwrap();
    let mut input = both.input;
    let text = "0123456789abcdef".repeat(40_000);
    let sent = text.clone();
    let writer = std::thread::spawn(move || {
        assert_eq!(input.write_all(sent.as_bytes(), &patient()), Ok(true));
        input.close();
    });
    let (out, err) = drain(&mut both.output);
    writer.join().unwrap();
    assert!(out == text && err.is_empty(), "{} of {} bytes came back; {err}", out.len(), text.len());
    assert_eq!(container.exec_code(&exec), 0);

    let exec = container.exec(false, false, &["/no/such/program"]);
    let mut both = container.docker.exec_start(&exec, false).unwrap();
    let (out, err) = drain(&mut both.output);
    assert!([out, err].concat().contains("/no/such/program"));
    assert_eq!(container.exec_code(&exec), 126);

    let none = container.docker.exec_start("no-such-exec", false).unwrap_err();
    assert_eq!(none.refusal(), Some(&RefusalKind::NotFound));
}

#[test]
fn exec_with_a_terminal() {
    let container = Container::run("sleep 600");
    let exec = container.exec(true, true, &["sh", "-c", "read line; stty size; echo $line; exit 4"]);
    let mut both = container.docker.exec_start(&exec, true).unwrap();
    let resize = Call::ExecResize { id: exec.clone(), rows: 33, columns: 99 };
    assert_eq!(container.docker.call(&resize), Ok(Reply::Done));
    assert_eq!(both.input.write_all(b"hello\n", &patient()), Ok(true));
    let (out, _) = drain(&mut both.output);
    assert!(out.contains("33 99\r\nhello\r\n"), "{out:?}");
    assert_eq!(container.exec_code(&exec), 4);
}

#[test]
fn attach_both_ways() {
    let name = unique();
    let script = "read line; echo got $line; read line; stty size";
    let tty = CreateBody { open_stdin: true, tty: true, ..body(&name, &["sh", "-c", script]) };
    let container = Container::create(&name, tty);
    let options = AttachOptions { stdin: true, logs: true };
    let mut both = container.docker.attach(&container.id, options, true).unwrap();
    assert_eq!(container.start(), Ok(Reply::Done));
    assert!(container.inspect().tty);
    let resize = Call::Resize { id: container.id.clone(), rows: 11, columns: 77 };
    assert_eq!(container.docker.call(&resize), Ok(Reply::Done));
    assert_eq!(both.input.write_all(b"a line\nanother\n", &patient()), Ok(true));
    let (out, _) = drain(&mut both.output);
    assert!(out.contains("got a line\r\n") && out.ends_with("11 77\r\n"), "{out:?}");
    assert_eq!(container.exit_code(), 0);
    // Regression: Docker keeps an attach to a container that has ended for its next start, and says nothing.
    let late = AttachOptions { stdin: true, logs: false };
    let refused = container.docker.attach_running(&container.id, late, true).unwrap_err();
    assert_eq!(refused.refusal(), Some(&RefusalKind::NotRunning));
}

#[test]
fn events_of_one_container() {
    let name = unique();
    let labels = vec![format!("{LABEL}={name}")];
    let mut events = docker().events(&labels, Some(0)).unwrap();
    let container = Container::create(&name, body(&name, &["sh", "-c", "exit 5"]));
    container.start().unwrap();
    assert_eq!(container.exit_code(), 5);
    container.remove(false).unwrap();
    let mut seen = Vec::new();
    let mut last = 0;
    while seen.last() != Some(&EventAction::Destroy) {
        let event = match events.next(&patient()) {
            EventNext::Event(event) => event,
            other => panic!("after {seen:?}: {other:?}"),
        };
        assert_eq!(event.id, container.id);
        assert_eq!(event.labels.get(LABEL), Some(&name));
        if event.action == EventAction::Die {
            assert_eq!(event.labels.get("exitCode").map(String::as_str), Some("5"));
        }
        assert!(event.time_nano >= last);
        last = event.time_nano;
        seen.push(event.action);
    }
    assert_eq!(seen, [EventAction::Create, EventAction::Start, EventAction::Die, EventAction::Destroy]);
    assert_eq!(events.next(&Wait::at_most(Duration::ZERO)), EventNext::Idle);
}

/// Tags of a test; they are removed with it.
struct Tags(Vec<String>);

impl Drop for Tags {
    fn drop(&mut self) {
        for tag in &self.0 {
            untag_image(tag);
        }
    }
}

/// The archive of an image.
fn save(image: &str) -> Vec<u8> {
    let mut all = ask_docker("GET", &format!("/images/{image}/get"));
    assert!(all.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&all[..200.min(all.len())]));
    let head = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    all.split_off(head + 4)
}

#[test]
fn images() {
    let docker = docker();
    let repo = unique();
    let name = format!("{repo}:one");
    let _tags = Tags(vec![name.clone()]);
    tag_image(IMAGE, &repo, "one");
    let inspect = Call::ImageInspect { image: name.clone() };
    let Ok(Reply::Image(image)) = docker.call(&inspect) else { panic!("no image") };
    assert!(image.tags.contains(&name) && image.id.starts_with("sha256:") && image.size > 0, "{image:?}");
    let archive = save(&name);
    assert!(untag_image(&name));
    assert_eq!(refusal(docker.call(&inspect)), RefusalKind::NoSuchImage);

    assert_eq!(docker.load(&mut archive.as_slice(), &patient()), Ok(vec![name.clone()]));
    let Ok(Reply::Image(again)) = docker.call(&inspect) else { panic!("no image") };
    assert_eq!(again.id, image.id);
    let garbage = docker.load(&mut &b"this is no archive"[..], &patient());
    assert!(matches!(garbage, Err(DockerError::Refused(_))), "{garbage:?}");
}

#[test]
fn a_pull_from_nowhere_is_refused() {
    let result = docker().pull("localhost:1/none:1", None, &Patience::of(patient()), &mut |_| {});
    let Err(DockerError::Refused(refusal)) = &result else { panic!("{result:?}") };
    assert!(refusal.message.contains("connection refused"), "{refusal:?}");
}
