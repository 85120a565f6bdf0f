//! The life of containers, from create to removal.

use super::*;

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
    check(
        &mut s,
        "x3",
        &|b| b.host_config.resources.memory = Some(1000),
        Err("Minimum memory limit allowed is 6MB"),
    );
    let quota = "CPU cfs quota can not be less than 1ms (i.e. 1000)";
    check(&mut s, "x3", &|b| b.host_config.resources.cpu_quota = Some(10), Err(quota));
    check(&mut s, "x3", &|b| b.stop_signal = Some("SIGFOO".into()), Err("Invalid signal: SIGFOO"));
    check(&mut s, "x3", &|b| *b = binding("", "99999"), Err("invalid port specification: \"99999\""));
    check(
        &mut s,
        "x3",
        &|b| b.host_config.namespaces.pid_mode = "container:no".into(),
        Err("No such container: no"),
    );
    check(&mut s, "x3", &|b| b.host_config.namespaces.network_mode = "container:no".into(), Ok(()));
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
    // PID 1 without a handler ignores TERM.
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
    donor.host_config.namespaces.ipc_mode = "shareable".into();
    let sandbox = s.up("s1", donor);
    let a = s.up("a1", joining(&format!("container:{sandbox}")));
    assert_eq!(s.inspect(&a).unwrap().ips, Vec::<String>::new());
    let b = s.made("b1", joining(&format!("container:{sandbox}")));
    let mut ipc = body("sleep 9");
    ipc.host_config.namespaces.ipc_mode = format!("container:{sandbox}");
    let c = s.made("c1", ipc);
    let mut pid = body("sleep 9");
    pid.host_config.namespaces.pid_mode = format!("container:{sandbox}");
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
    // After a run it keeps its exit code and times.
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
    host.host_config.namespaces.network_mode = "host".into();
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
