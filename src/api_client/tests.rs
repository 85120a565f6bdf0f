//! The client against a real server over TLS.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::testing::{Answerer, Authority, Server, begin, chunk, json};
use super::{ApiError, Budget, Client, Kind, Method, Next, Request};
use crate::base::testing::scratch;

const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    server: Server,
    authority: Authority,
    directory: std::path::PathBuf,
    client: Client,
}

fn rig(name: &str, user: &str, answer: Box<Answerer>) -> Rig {
    let (authority, directory) = (Authority::new(), scratch(name));
    let server = Server::start(&authority, answer);
    let client = Client::new(server.kubeconfig(&directory, &authority, user));
    Rig { server, authority, directory, client }
}

fn ok() -> Box<Answerer> {
    Box::new(|_, out| json(out, 200, "{}"))
}

#[test]
fn calls_share_a_connection_and_send_what_they_are_given() {
    let rig = rig("api-calls", "token: abc", ok());
    rig.client.call(&Request::get("/api/v1/pods?a=b"), PATIENCE).unwrap();
    let body = serde_json::json!({"a": 1});
    rig.client.call(&Request::with(Method::StrategicPatch, "/x", &body), PATIENCE).unwrap();
    rig.client.call(&Request::with(Method::Post, "/y", &body), PATIENCE).unwrap();
    assert_eq!(rig.server.lines(), ["GET /api/v1/pods?a=b", "PATCH /x", "POST /y"]);
    assert_eq!(rig.server.connections.load(Ordering::SeqCst), 1);
    let asked = rig.server.asked.lock().unwrap()[1].clone();
    assert_eq!(asked.body, r#"{"a":1}"#);
    assert!(asked.headers.contains("Authorization: Bearer abc\n"), "{}", asked.headers);
    assert!(asked.headers.contains("Content-Type: application/strategic-merge-patch+json\n"));
    assert!(!format!("{:?}", rig.client).contains("abc"));
}

#[test]
fn a_connection_that_the_server_has_closed_costs_no_call() {
    // The server closes the connection after each answer without announcing it.
    let rig = rig("api-stale", "", Box::new(|_, out| json(out, 200, "{}").map(|_| false)));
    for _ in 0..5 {
        rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
    }
    // A GET without an answer on a reused connection is sent again, a POST is not.
    let rig = self::rig(
        "api-stale-2",
        "",
        Box::new(|asked, out| match asked.line.as_str() {
            "GET /a" => json(out, 200, "{}"),
            _ if asked.connection == 0 => Ok(false),
            _ => json(out, 200, "{}"),
        }),
    );
    rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
    rig.client.call(&Request::get("/b"), PATIENCE).unwrap();
    assert_eq!(rig.server.lines(), ["GET /a", "GET /b", "GET /b"]);
    let rig = self::rig(
        "api-stale-3",
        "",
        Box::new(|asked, out| match asked.line.as_str() {
            "GET /a" => json(out, 200, "{}"),
            _ => Ok(false),
        }),
    );
    rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
    let error =
        rig.client.call(&Request::with(Method::Post, "/b", &serde_json::json!({})), PATIENCE).unwrap_err();
    assert_eq!(
        error,
        ApiError::Unreachable("the server closed the connection before it answered".to_owned())
    );
    assert_eq!(rig.server.lines(), ["GET /a", "POST /b"]);
}

#[test]
fn errors_are_told_apart() {
    let rig = rig(
        "api-errors",
        "",
        Box::new(|asked, out| match asked.line.as_str() {
            "GET /gone" => {
                json(out, 410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"old"}"#)
            }
            "GET /page" => json(out, 200, "<html>Sign in</html>"),
            "GET /late" => {
                thread::sleep(Duration::from_millis(300));
                json(out, 200, "{}")
            }
            _ => Ok(out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").is_err()),
        }),
    );
    let ask = |path: &str, within: u64| {
        rig.client.call(&Request::get(path), Duration::from_millis(within)).unwrap_err()
    };
    assert!(ask("/gone", 20_000).is_gone());
    assert!(ask("/page", 20_000).to_string().contains("a web page"));
    assert!(ask("/late", 100).to_string().contains("did not answer in time"));
    assert!(ask("/half", 20_000).to_string().contains("before the end of its answer"));
}

#[test]
fn a_server_that_nobody_trusts_is_not_spoken_to() {
    let rig = rig("api-trust", "token: abc", ok());
    let other = Authority::new();
    fs::write(rig.directory.join("ca.crt"), &other.pem).unwrap();
    let error = rig.client.call(&Request::get("/a"), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("has signed it (certificate-authority in the kubeconfig)"), "{error}");
    let path = rig.directory.join("kubeconfig");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("certificate-authority: ca.crt", "insecure-skip-tls-verify: true");
    fs::write(&path, &text).unwrap();
    Client::new(path.clone()).call(&Request::get("/a"), PATIENCE).unwrap();
    let text = text
        .replace("insecure-skip-tls-verify: true", "certificate-authority: ca.crt, tls-server-name: other");
    fs::write(&path, text).unwrap();
    fs::write(rig.directory.join("ca.crt"), &rig.authority.pem).unwrap();
    let error = Client::new(path).call(&Request::get("/a"), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("it is for another name"), "{error}");
}

#[test]
fn a_kubeconfig_that_comes_later_is_read_then() {
    let rig = rig("api-later", "", ok());
    let path = rig.directory.join("kubeconfig");
    let text = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = rig.client.call(&Request::get("/a"), PATIENCE).unwrap_err();
    assert!(matches!(&error, ApiError::BadCredentials(why) if why.contains("cannot be read")), "{error}");
    fs::write(&path, text).unwrap();
    rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
}

#[test]
fn a_token_file_is_read_again_when_the_server_refuses_the_token() {
    let rig = rig(
        "api-token",
        "tokenFile: token",
        Box::new(|asked, out| {
            let good = asked.headers.contains("Bearer new\n");
            json(out, if good { 200 } else { 401 }, r#"{"kind":"Status","code":401,"reason":"Unauthorized"}"#)
        }),
    );
    fs::write(rig.directory.join("token"), "old\n").unwrap();
    assert!(rig.client.call(&Request::get("/a"), PATIENCE).unwrap_err().code() == Some(401));
    fs::write(rig.directory.join("token"), "new\n").unwrap();
    rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
    assert_eq!(rig.server.connections.load(Ordering::SeqCst), 1);
}

/// Answers watches with one event, and then with empty lines only.
fn watched() -> Box<Answerer> {
    Box::new(|asked, out| {
        if !asked.line.contains("watch=1") {
            return json(out, if asked.line.contains("refuse") { 401 } else { 200 }, "{}");
        }
        begin(out)?;
        chunk(out, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}\n")?;
        loop {
            // Until the client is gone.
            thread::sleep(Duration::from_millis(50));
            chunk(out, "\n")?;
        }
    })
}

#[test]
fn a_watch_ends_when_its_client_is_closed() {
    let rig = rig("api-watch", "", watched());
    let mut watch = rig.client.watch("/pods?watch=1", PATIENCE).unwrap();
    let Next::Event(event) = watch.next(PATIENCE).unwrap() else { panic!("no event") };
    assert_eq!((event.kind, event.version()), (Kind::Added, "7"));
    assert_eq!(watch.next(Duration::from_millis(120)).unwrap(), Next::Quiet);
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(watch.next(Duration::from_secs(600)).is_err()));
    let begun = Instant::now();
    rig.client.close();
    assert!(ended.recv_timeout(PATIENCE).unwrap());
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(rig.client.call(&Request::get("/a"), PATIENCE), Err(ApiError::Closed));
}

/// A SIGHUP cut the heartbeat that was under way, and the log said that the server had closed the connection.
#[test]
fn what_the_source_reads_is_cut_and_other_calls_get_their_answers() {
    let (open, gate) = mpsc::channel::<()>();
    let (gate, watched) = (std::sync::Mutex::new(gate), watched());
    let rig = rig(
        "api-cut-source",
        "",
        Box::new(move |asked, out| {
            if asked.line != "GET /slow" {
                return watched(asked, out);
            }
            let _ = gate.lock().unwrap().recv_timeout(PATIENCE);
            json(out, 200, "{}")
        }),
    );
    let source = rig.client.source();
    // A call of the source whose connection others use then.
    source.call(&Request::get("/a"), PATIENCE).unwrap();
    let heartbeat = rig.client.heartbeat();
    let beats = thread::spawn(move || heartbeat.call(&Request::get("/slow"), PATIENCE));
    let until = |lines: usize| {
        while rig.server.lines().len() < lines {
            thread::sleep(Duration::from_millis(5));
        }
    };
    until(2);
    let lists = {
        let source = source.clone();
        thread::spawn(move || source.call(&Request::get("/slow"), PATIENCE))
    };
    until(3);
    let mut watch = source.watch("/pods?watch=1", PATIENCE).unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Next::Event(_))));
    assert_eq!(rig.server.connections.load(Ordering::SeqCst), 3);
    rig.client.cut_source();
    assert!(watch.next(PATIENCE).is_err());
    assert!(matches!(lists.join().unwrap(), Err(ApiError::Unreachable(_))));
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    assert!(beats.join().unwrap().is_ok(), "the heartbeat was cut");
}

#[test]
fn a_new_certificate_cuts_watches_and_is_used_at_once() {
    let user = "client-certificate: c.pem, client-key: k.pem";
    let rig = rig("api-rotation", user, watched());
    let write = |pair: &super::testing::Pair| {
        fs::write(rig.directory.join("k.pem"), &pair.key).unwrap();
        fs::write(rig.directory.join("c.pem"), &pair.certificate).unwrap();
    };
    let der = |pair: &super::testing::Pair| {
        CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap().to_vec()
    };
    let (first, second) =
        (rig.authority.sign("system:node:a", &[]), rig.authority.sign("system:node:a", &[]));
    write(&first);
    let mut watch = rig.client.watch("/pods?watch=1", PATIENCE).unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Next::Event(_))));
    rig.client.call(&Request::get("/a"), PATIENCE).unwrap();
    write(&second);
    // The server rejects the old one: this makes the client check the files.
    assert!(rig.client.call(&Request::get("/refuse"), PATIENCE).unwrap_err().code() == Some(401));
    let shown: Vec<Option<Vec<u8>>> =
        rig.server.asked.lock().unwrap().iter().map(|asked| asked.certificate.clone()).collect();
    assert_eq!(shown.first(), Some(&Some(der(&first))));
    assert_eq!(shown.last(), Some(&Some(der(&second))));
    assert!(watch.next(PATIENCE).is_err(), "the watch goes on with the old identity");
}

#[test]
fn a_connection_that_breaks_at_any_byte_of_a_watch_is_an_error_and_no_event() {
    let event = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}\n";
    let whole = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n0\r\n\r\n",
        event.len()
    );
    let (length, cut) = (whole.len(), Arc::new(AtomicUsize::new(0)));
    let at = Arc::clone(&cut);
    let rig = rig(
        "api-cut",
        "",
        Box::new(move |_, out| {
            out.write_all(&whole.as_bytes()[..at.load(Ordering::SeqCst)])?;
            out.flush()?;
            Ok(false)
        }),
    );
    for to in (0..=length).step_by(3).chain([length]) {
        cut.store(to, Ordering::SeqCst);
        let mut events = 0;
        let end = rig.client.watch("/pods?watch=1", PATIENCE).and_then(|mut watch| {
            loop {
                match watch.next(PATIENCE)? {
                    Next::Event(_) => events += 1,
                    other => break Ok(other),
                }
            }
        });
        assert_eq!(end.is_ok(), to == length, "cut at {to}: {end:?}");
        assert!(events <= 1);
    }
}

#[test]
fn calls_past_the_bound_wait_and_heartbeats_do_not() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let rig = rig(
        "api-bound",
        "",
        Box::new(move |asked, out| {
            if asked.line == "GET /slow" {
                let _ = gate.lock().unwrap().recv_timeout(PATIENCE);
            }
            json(out, 200, "{}")
        }),
    );
    let slow: Vec<_> = (0..crate::base::limits::API_CALLS + 2)
        .map(|_| {
            let client = rig.client.clone();
            thread::spawn(move || client.call(&Request::get("/slow"), PATIENCE))
        })
        .collect();
    while rig.server.lines().len() < crate::base::limits::API_CALLS {
        thread::sleep(Duration::from_millis(5));
    }
    let error = rig.client.call(&Request::get("/a"), Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().contains("too many calls"), "{error}");
    rig.client.heartbeat().call(&Request::get("/a"), PATIENCE).unwrap();
    for _ in &slow {
        open.send(()).unwrap();
    }
    assert!(slow.into_iter().all(|call| call.join().unwrap().is_ok()));
}

#[test]
fn an_answer_of_more_values_than_memory_can_hold_is_not_read() {
    let many =
        format!(r#"{{"kind":"PodList","items":[],"x":[{}0]}}"#, "0,".repeat(crate::base::limits::API_VALUES));
    let rig = rig("api-values", "", Box::new(move |_, out| json(out, 200, &many)));
    let error = rig.client.call(&Request::get("/a"), PATIENCE).unwrap_err().to_string();
    assert!(error.contains("more than 500000 values"), "{error}");
}

/// Calls that have to wait for their turn must not take the notice of one that waits for a place.
#[test]
fn a_place_that_becomes_free_goes_to_a_call_whose_turn_has_come() {
    let (answer, answers) = mpsc::channel::<()>();
    let answers = std::sync::Mutex::new(answers);
    let rig = rig(
        "api-turns",
        "",
        Box::new(move |asked, out| {
            if asked.line == "GET /first" {
                answers.lock().unwrap().recv().unwrap();
            }
            json(out, 200, "{}")
        }),
    );
    let budget = Budget { qps: 2, burst: 1, calls: 1 };
    let client = Client::with(rig.directory.join("kubeconfig"), budget);
    let begun = Instant::now();
    let call = |path: &'static str| {
        let client = client.clone();
        thread::spawn(move || client.call(&Request::get(path), PATIENCE).map(drop))
    };
    let mut calls = vec![call("/first")];
    while rig.server.lines().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    // Their turns come after half a second and after one second.
    calls.push(call("/second"));
    thread::sleep(Duration::from_millis(50));
    calls.push(call("/third"));
    thread::sleep(Duration::from_millis(750).saturating_sub(begun.elapsed()));
    answer.send(()).unwrap();
    for call in calls {
        call.join().unwrap().unwrap();
    }
    assert_eq!(rig.server.lines(), ["GET /first", "GET /second", "GET /third"]);
}
