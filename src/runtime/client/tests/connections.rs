//! Connections: when one is reused, when there is none, and the meaning of a request that breaks
//! off.

use super::*;

#[test]
fn connections_are_used_again() {
    let server = Server::start(vec![
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]").unwrap();
            hold(&s);
        }),
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            // More bytes than requested: this connection is out of step.
            s.write_all([ok("[]"), ok("[]")].concat().as_bytes()).unwrap();
            hold(&s);
        }),
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
            hold(&s);
        }),
    ]);
    let client = Client::with_deadline(server.path(), PATIENT);
    for _ in 0..4 {
        assert_eq!(client.begin(&list()).wait(), Ok(Reply::Containers(vec![])));
    }
    assert_eq!(client.pool().idle.len(), 1);
    drop(client);
    assert_eq!(server.requests().len(), 5);
}

/// A keep-alive connection that the server has closed is not used, and the version is requested
/// again: Docker may have been upgraded meanwhile.
#[test]
fn a_stale_connection_is_noticed_before_use() {
    let (closed, gone) = std::sync::mpsc::channel::<()>();
    let server = Server::start(vec![
        Box::new(move |mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
            drop(s);
            drop(closed);
        }),
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").replace("1.41", "1.45").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
        }),
    ]);
    let client = Client::with_deadline(server.path(), PATIENT);
    assert_eq!(client.begin(&list()).wait(), Ok(Reply::Containers(vec![])));
    assert!(gone.recv().is_err(), "the server hung up");
    assert_eq!(client.begin(&list()).wait(), Ok(Reply::Containers(vec![])));
    assert_eq!(
        server.requests(),
        ["GET /_ping", "GET /v1.41/containers/json?all=1", "GET /_ping", "GET /v1.45/containers/json?all=1"]
    );
}

/// The rule behind kubernetes/kubernetes#40443: a request whose answer is lost is not sent again.
#[test]
fn k40443_no_request_is_sent_twice() {
    let server = Server::start(vec![
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
            hold(&s);
        }),
        // A create comes over a connection of its own.
        Box::new(|s: UnixStream| drop(read_request(&s))),
    ]);
    let client = Client::with_deadline(server.path(), PATIENT);
    assert_eq!(client.begin(&list()).wait(), Ok(Reply::Containers(vec![])));
    let create = Call::Create { name: "x".into(), body: Box::new(CreateBody::default()) };
    assert!(matches!(client.begin(&create).wait(), Err(DockerError::Lost(_))));
    assert_eq!(client.known_version(), None);
    assert_eq!(
        server.requests(),
        ["GET /_ping", "GET /v1.41/containers/json?all=1", "POST /v1.41/containers/create?name=x"]
    );
}

/// A Docker that is being stopped answers on old connections alone. The new ones take the place of old ones.
#[test]
fn each_create_takes_a_new_connection_and_no_more_are_kept() {
    let create = |n: u32| Call::Create { name: n.to_string(), body: Box::new(CreateBody::default()) };
    let answer = |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("{\"Id\":\"a\"}").as_bytes()).unwrap();
        hold(&s);
    };
    let server = Server::start(vec![Box::new(answer), Box::new(answer), Box::new(answer)]);
    let client = Client::with_deadline(server.path(), PATIENT);
    client.remember((1, 41));
    for n in 0..3 {
        client.begin(&create(n)).wait().unwrap();
        assert_eq!(client.pool().idle.len(), 1);
    }
    drop(client);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn many_calls_in_one_thread() {
    let answer = |id: &str| ok(&format!("[{{\"Id\":\"{id}\",\"State\":\"running\"}}]"));
    let (go, wait_for_go) = std::sync::mpsc::channel::<()>();
    let server = Server::start(vec![
        Box::new(move |mut s: UnixStream| {
            read_request(&s);
            // It answers only after the other one.
            wait_for_go.recv().unwrap();
            s.write_all(answer("slow").as_bytes()).unwrap();
        }),
        Box::new(move |mut s: UnixStream| {
            read_request(&s);
            s.write_all(answer("fast").as_bytes()).unwrap();
        }),
    ]);
    let client = Client::with_deadline(server.path(), PATIENT);
    client.remember((1, 41));
    let list = Call::List { labels: vec![] };
    let mut calls = [client.begin(&list), client.begin(&list)];
    let id = |reply: Result<Reply, DockerError>| match reply {
        Ok(Reply::Containers(mut all)) => all.pop().map(|c: ContainerSummary| c.id),
        other => panic!("{other:?}"),
    };
    let mut got = Vec::new();
    while got.len() < 2 {
        assert_eq!(wait_any(calls.iter().filter(|c| c.fd().is_some()), None, None), Polled::Ready);
        for call in calls.iter_mut().filter(|c| c.fd().is_some()) {
            if let Some(reply) = call.advance() {
                got.push(id(reply));
                let _ = go.send(());
            }
        }
    }
    assert_eq!(got, [Some("fast".to_owned()), Some("slow".to_owned())]);
    // A result can be taken only once.
    assert!(matches!(calls[0].advance(), Some(Err(DockerError::Lost(_)))));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn waiting_for_calls_can_be_interrupted_and_ends_in_time() {
    let server = Server::start(vec![Box::new(|s: UnixStream| {
        read_request(&s);
        hold(&s);
    })]);
    let client = Client::with_deadline(server.path(), PATIENT);
    let call = client.begin(&Call::Info);
    let calls = || std::iter::once(&call);
    assert_eq!(wait_any(calls(), None, Some(Instant::now())), Polled::TimedOut);
    let (wake, mut waker) = UnixStream::pair().unwrap();
    waker.write_all(b"!").unwrap();
    assert_eq!(wait_any(calls(), Some(wake.as_fd()), None), Polled::Woken);
    let ready = Pending::ready(Ok(Reply::Done));
    assert_eq!(wait_any([&call, &ready].into_iter(), None, None), Polled::Ready);
    drop(call);
    assert_eq!(server.requests(), ["GET /_ping"], "a dropped call closes its connection");
}

#[test]
fn nobody_there() {
    let server = Server::start(vec![]);
    let nowhere = server.path().with_extension("none");
    let check = |path: &Path, expected: &str| {
        let client = Client::new(path);
        client.remember((1, 41));
        let got = client.begin(&Call::Info).wait();
        let Err(DockerError::Unreachable(why)) = &got else { panic!("{got:?}") };
        assert!(why.contains(expected), "{why}");
        assert_eq!(client.known_version(), None, "another Docker may come up");
    };
    check(&nowhere, "does not exist: is Docker installed and running?");
    std::fs::write(&nowhere, "").unwrap();
    check(&nowhere, "nobody listens on");
    check(Path::new(&format!("/{}", "x".repeat(200))), "is not a path for a socket");
    // A socket whose owner died.
    drop(std::os::unix::net::UnixListener::bind(server.path().with_extension("dead")).unwrap());
    check(&server.path().with_extension("dead"), "nobody listens on");
}

/// A stuck Docker takes no connections from its queue; that must not block the caller.
#[test]
fn a_full_backlog_does_not_block() {
    let server = Server::start(vec![]);
    let path = server.path().with_extension("full");
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let client = Client::new(&path);
    let mut calls = Vec::new();
    let why = loop {
        match client.begin(&Call::Info) {
            Pending::Ready(result) => break result.unwrap_err(),
            call => calls.push(call),
        }
        assert!(calls.len() < 100);
    };
    let DockerError::Unreachable(why) = why else { panic!("{why:?}") };
    assert!(why.contains("takes no more connections"), "{why}");
}
