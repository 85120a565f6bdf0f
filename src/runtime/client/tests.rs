//! Short calls against a hostile server: the result of the call, and the requests that the server got.

mod connections;

use super::*;
use crate::runtime::testing::{Server, hold, ok, read_request};
use crate::runtime::{ContainerSummary, CreateBody, RefusalKind};
use std::io::Write as _;
use std::os::unix::net::UnixStream;

/// Long enough for a busy machine; a passing test never waits this long.
const PATIENT: Duration = Duration::from_secs(20);
/// A deadline that tests wait for in full.
const SHORT: Duration = Duration::from_millis(60);

fn list() -> Call {
    Call::List { labels: vec![] }
}

fn start() -> Call {
    Call::Start { id: "ab".into() }
}

/// One call on one connection whose answer to the call is `answer`; the server then hangs up.
fn call(answer: &[u8]) -> Result<Reply, DockerError> {
    let answer = answer.to_vec();
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        read_request(&s);
        // A client that has seen enough may hang up in the middle of it.
        let _ = s.write_all(&answer);
    })]);
    Client::with_deadline(server.path(), PATIENT).begin(&start()).wait()
}

fn assert_lost(answer: &[u8]) {
    let got = call(answer);
    let Err(DockerError::Lost(why)) = &got else { panic!("{got:?}") };
    assert!(why.starts_with("POST /containers/ab/start: "), "{why}");
}

#[test]
fn an_answer_that_stops_short_is_lost() {
    assert_lost(b"");
    assert_lost(b"HTTP/1.1 204 No");
    assert_lost(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    assert_lost(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
    assert_lost(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    assert_lost(b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn an_answer_that_is_no_answer() {
    let check = |answer: &[u8], expected: &str| {
        let got = call(answer);
        let why = match &got {
            Err(DockerError::BadAnswer(why)) => why.clone(),
            Err(DockerError::TooLarge(what)) => format!("{what}: the answer is too long"),
            _ => panic!("{got:?}"),
        };
        assert_eq!(why, format!("POST /containers/ab/start: {expected}"));
    };
    check(b"SSH-2.0-OpenSSH\r\n\r\n", "this is not an HTTP answer");
    check(b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n", "Content-Length is not a number");
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "the answer is too long");
    let endless_head = [b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; limits::HTTP_HEAD]].concat();
    check(&endless_head, "the answer's head is too long");
    let endless_body = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'a'; limits::HTTP_BODY + 1]].concat();
    check(&endless_body, "the answer is too long");
}

#[test]
fn answers_that_take_some_reading() {
    let done = Ok(Reply::Done);
    assert_eq!(call(b"HTTP/1.1 204 No Content\r\n\r\n"), done);
    assert_eq!(call(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 N\r\n\r\n"), done);
    assert_eq!(call(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), done);
    assert_eq!(call(b"HTTP/1.0 304 Not Modified\r\n\r\n"), Ok(Reply::Already));
    let text = "Conflict. The container name \\\"/x\\\" is already in use by container \\\"0123456789ab\\\".";
    let answer = format!(
        "HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{{\"message\":\"{text}\"}}\r\n0\r\n\r\n",
        text.len() + 14
    );
    let got = call(answer.as_bytes()).unwrap_err();
    assert_eq!(got.refusal(), Some(&RefusalKind::NameInUse(Some("0123456789ab".into()))));
    let podman =
        r#"{"message":"the container name \"x\" is already in use by 0123456789ab. You have to remove"}"#;
    let answer = format!("HTTP/1.1 500 E\r\nContent-Length: {}\r\n\r\n{podman}", podman.len());
    let got = call(answer.as_bytes()).unwrap_err();
    assert_eq!(got.refusal(), Some(&RefusalKind::NameInUse(Some("0123456789ab".into()))));
}

/// A hundred pods with a quarter of a MiB of annotations each, as Docker writes `<`.
#[test]
fn a_list_may_be_longer_than_any_other_answer() {
    const LABEL: usize = 250_000;
    let entry = |n: usize| {
        let value = "\\u003c".repeat(LABEL);
        format!("{{\"Id\":\"{n}\",\"Labels\":{{\"annotation.x\":\"{value}\"}},\"State\":\"running\"}}")
    };
    let count = limits::HTTP_BODY / (6 * LABEL) + 2;
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\n\r\n[").unwrap();
        for n in 0..count {
            let comma = if n > 0 { "," } else { "" };
            s.write_all(format!("{comma}{}", entry(n)).as_bytes()).unwrap();
        }
        s.write_all(b"]\n").unwrap();
    })]);
    let list = Client::with_deadline(server.path(), PATIENT).begin(&Call::List { labels: vec![] }).wait();
    let Ok(Reply::Containers(found)) = list else { panic!("{list:?}") };
    assert_eq!(found.len(), count);
}

/// The list may take longer while bytes keep coming.
#[test]
fn a_list_may_take_longer_than_a_short_call() {
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\n\r\n[").unwrap();
        for _ in 0..13 {
            std::thread::sleep(PACED / 10);
            s.write_all(b"{\"Id\":\"1\"},").unwrap();
        }
        s.write_all(b"{\"Id\":\"2\"}]").unwrap();
    })]);
    let list = Client::with_deadline(server.path(), PACED).begin(&Call::List { labels: vec![] }).wait();
    let Ok(Reply::Containers(found)) = list else { panic!("{list:?}") };
    assert_eq!(found.len(), 14);
}

#[test]
fn an_answer_without_an_end_is_read_in_parts() {
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\n\r\n[").unwrap();
        let more = vec![b' '; 1 << 20];
        while s.write_all(&more).is_ok() {}
    })]);
    let mut call = Client::with_deadline(server.path(), PATIENT).begin(&list());
    let received = |call: &Pending| match call {
        Pending::InFlight(InFlight(flight)) => flight.exchange.received(),
        Pending::Ready(result) => panic!("{result:?}"),
    };
    let most = (limits::HTTP_TURN + limits::HTTP_READ) as u64;
    while received(&call) < 32 * most {
        wait_any(std::iter::once(&call), None, None);
        let before = received(&call);
        assert!(call.advance().is_none());
        assert!(received(&call) - before <= most);
    }
}

/// Time scale of paced tests: they take about twice this, and a busy machine may be late by a tenth of it.
const PACED: Duration = Duration::from_secs(1);

/// kubernetes/kubernetes#94829: a call that hangs ends at its deadline, and hangs no other call.
#[test]
fn k94829_silence_ends_at_the_deadline_and_holds_nothing_up() {
    let server = Server::start(vec![
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
            read_request(&s);
            hold(&s);
        }),
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("[]").as_bytes()).unwrap();
            hold(&s);
        }),
    ]);
    let client = Client::with_deadline(server.path(), PATIENT);
    assert_eq!(client.ping(), Ok((1, 41)));
    let short = Client::with_deadline(server.path(), SHORT);
    short.remember((1, 41));
    short.put_back(client.connection().unwrap());
    let mut hung = short.begin(&start());
    assert_eq!(hung.advance(), None);
    let list = Call::List { labels: vec![] };
    assert_eq!(client.begin(&list).wait(), Ok(Reply::Containers(vec![])));
    let got = hung.wait();
    assert_eq!(got, Err(DockerError::Timeout("POST /containers/ab/start".into())));
    drop(client);
    // Both connections are closed now, so the server's threads end.
    drop(short);
    // Two connections, two threads: their order is not defined.
    let mut requests = server.requests();
    requests.sort();
    assert_eq!(
        requests,
        ["GET /_ping", "GET /v1.41/containers/json?all=1", "POST /v1.41/containers/ab/start"]
    );
}

/// The call was not sent to a Docker that does not answer the version request, so it may be repeated.
#[test]
fn silence_before_the_call_is_sent_is_no_timeout() {
    let server = Server::start(vec![Box::new(|s: UnixStream| {
        read_request(&s);
        hold(&s);
    })]);
    let got = Client::with_deadline(server.path(), SHORT).begin(&start()).wait();
    let Err(DockerError::Unreachable(why)) = &got else { panic!("{got:?}") };
    assert_eq!(why, "it takes connections but does not answer (POST /containers/ab/start was not sent)");
    assert_eq!(server.requests(), ["GET /_ping"]);
}

#[test]
fn a_ping_that_fails() {
    let check = |answer: &'static str, expected: fn(&DockerError) -> bool| {
        let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
            read_request(&s);
            s.write_all(answer.as_bytes()).unwrap();
        })]);
        let got = Client::with_deadline(server.path(), PATIENT).begin(&start()).wait().unwrap_err();
        assert!(expected(&got), "{answer:?}: {got:?}");
        assert_eq!(server.requests(), ["GET /_ping"]);
    };
    check("", |e| matches!(e, DockerError::Unreachable(_)));
    check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", |e| matches!(e, DockerError::Version(_)));
    check("HTTP/1.1 200 OK\r\nApi-Version: 1.39\r\nContent-Length: 0\r\n\r\n", |e| {
        matches!(e, DockerError::Version(_))
    });
    check("HTTP/1.1 500 E\r\nContent-Length: 2\r\n\r\nno", |e| matches!(e, DockerError::Refused(_)));
    check("nonsense\n\n", |e| matches!(e, DockerError::BadAnswer(_)));
}

/// More than a socket buffer: the call goes on as the server reads, and nothing blocks meanwhile.
#[test]
fn a_large_request_is_written_as_it_is_taken() {
    let (go, wait_for_go) = std::sync::mpsc::channel::<()>();
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        wait_for_go.recv().unwrap();
        read_request(&s);
        s.write_all(ok("{\"Id\":\"1\"}").as_bytes()).unwrap();
    })]);
    let client = Client::with_deadline(server.path(), PATIENT);
    client.remember((1, 41));
    let body = CreateBody { env: vec!["x".repeat(4 << 20)], ..CreateBody::default() };
    let mut pending = client.begin(&Call::Create { name: "x".into(), body: Box::new(body) });
    assert_eq!(pending.advance(), None);
    assert!(pending.wants_write());
    go.send(()).unwrap();
    assert_eq!(pending.wait(), Ok(Reply::Created { id: "1".into(), warnings: vec![] }));
    assert_eq!(server.requests(), ["POST /v1.41/containers/create?name=x"]);
}

/// Docker may refuse a request before it has read all of it.
#[test]
fn an_early_refusal_is_heard() {
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        let mut some = [0u8; 100];
        std::io::Read::read_exact(&mut s, &mut some).unwrap();
        s.write_all(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig").unwrap();
        hold(&s);
    })]);
    let client = Client::with_deadline(server.path(), PATIENT);
    client.remember((1, 41));
    let body = CreateBody { env: vec!["x".repeat(4 << 20)], ..CreateBody::default() };
    let got = client.begin(&Call::Create { name: "x".into(), body: Box::new(body) }).wait();
    let Err(DockerError::Refused(refusal)) = &got else { panic!("{got:?}") };
    assert_eq!((refusal.status, refusal.message.as_str()), (413, "big"));
    drop(client);
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_refused_version_is_asked_for_again() {
    let text = r#"{"message":"client version 1.41 is too old. Minimum supported API version is 1.44"}"#;
    let answer = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(answer.as_bytes()).unwrap();
        read_request(&s);
        s.write_all(ok("OK").replace("1.41", "1.44").as_bytes()).unwrap();
        read_request(&s);
        s.write_all(ok("[]").as_bytes()).unwrap();
    })]);
    let client = Client::with_deadline(server.path(), PATIENT);
    client.remember((1, 41));
    assert!(matches!(client.begin(&list()).wait(), Err(DockerError::Version(_))));
    assert_eq!(client.begin(&list()).wait(), Ok(Reply::Containers(vec![])));
    assert_eq!(
        server.requests(),
        ["GET /v1.41/containers/json?all=1", "GET /_ping", "GET /v1.44/containers/json?all=1"]
    );
}
