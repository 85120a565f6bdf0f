//! A driven fake behind a real socket: time that passes by itself, and streams.

use super::*;

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

/// All bytes until the stream ends by itself.
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
