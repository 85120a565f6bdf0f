//! The URL source's thread against real servers on loopback: good answers, and the result of every
//! other answer.

mod remembered;
mod signed;
mod spoiled;
mod tls;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use podkeeper::testing::pod::Source;
use podkeeper::testing::source::accept::Acceptor;
use podkeeper::testing::source::http::tls::ClientFiles;
use podkeeper::testing::source::http::url::ManifestUrl;
use podkeeper::testing::source::http::{HttpSource, Patience, Settings, headers};
use podkeeper::testing::source::last_good::{LastGood, Remembered, directory, forget};
use podkeeper::testing::source::signature::Verifier;
use podkeeper::testing::source::{PodSet, SourceUpdate};
use podkeeper::testing::status::task::Pulses;

use crate::harness::PATIENCE;
use crate::harness::hostile::{self, Authority, Server, drip, ok, redirect, silence, status};
use crate::signer::Signer;

const POD_A: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}";
const POD_B: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, image: i}]}}";

/// A source that is polled when the test demands it.
struct Rig {
    source: Option<HttpSource>,
    updates: Receiver<SourceUpdate>,
    /// Root directory that is removed with it.
    own: Option<PathBuf>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Its thread writes there.
        self.source = None;
        if let Some(root) = &self.own {
            fs::remove_dir_all(root).unwrap();
        }
    }
}

impl Rig {
    fn start(settings: Settings) -> Rig {
        let root = scratch();
        let mut rig = Rig::with(settings, &root, None);
        rig.own = Some(root);
        rig
    }

    /// A source with this root directory, and these keys for its manifests.
    fn with(settings: Settings, root: &Path, verifier: Option<Verifier>) -> Rig {
        let (out, updates) = unbounded();
        let mut acceptor = Acceptor::new(Source::Http, "n".to_owned());
        acceptor.max_bytes = settings.max_bytes;
        acceptor.verifier = verifier.map(Arc::new);
        let send = Box::new(move |update: podkeeper::testing::source::FromSource| {
            assert_eq!(update.source, Source::Http);
            out.send(update.update).is_ok()
        });
        let store = LastGood::new(root, None, Source::Http);
        let source = HttpSource::start(settings, acceptor, store, send, Pulses::default()).unwrap();
        Rig { source: Some(source), updates, own: None }
    }

    /// The next update, in short form: `full a b`, `same`, `failed WHY`, `refused WHY`, `restored a`.
    fn next(&self) -> String {
        let names = |set: &PodSet| {
            set.pods.iter().map(|p| format!(" {}", p.key.name.trim_end_matches("-n"))).collect::<String>()
        };
        match self.updates.recv_timeout(PATIENCE).expect("an update") {
            SourceUpdate::Full(set) => format!("full{}", names(&set)),
            SourceUpdate::Same => "same".to_owned(),
            SourceUpdate::Forgotten => "forgotten".to_owned(),
            SourceUpdate::Restored(set) | SourceUpdate::Remembered(set) => format!("restored{}", names(&set)),
            SourceUpdate::Store(trouble) => format!("store {trouble:?}"),
            SourceUpdate::Failed(why) => format!("failed {why}"),
            SourceUpdate::Refused { why, problems } => {
                assert!(!problems.is_empty());
                format!("refused {why}")
            }
        }
    }

    fn rescan(&self) {
        self.source.as_ref().unwrap().rescan();
    }

    /// Like [`Rig::next`], after a poll that the test demands.
    fn poll(&self) -> String {
        self.rescan();
        self.next()
    }
}

/// Settings of a source that is polled only on demand.
fn settings(url: &str) -> Settings {
    Settings { frequency: Duration::from_secs(3600), ..Settings::new(ManifestUrl::parse(url).unwrap()) }
}

/// Settings with short limits, for servers that waste time.
fn hasty(url: &str) -> Settings {
    let patience = Patience {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_millis(700),
        whole: Duration::from_millis(1500),
    };
    Settings { patience, ..settings(url) }
}

fn scratch() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("podkeeper-http-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

fn header<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let pairs = head.lines().filter_map(|line| line.split_once(": "));
    pairs.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn a_version_that_is_known_is_not_sent_again() {
    let server = Server::start();
    let time = "Sat, 21 Nov 2026 00:00:00 GMT";
    server.send(ok(&format!("ETag: \"1\"\r\nLast-Modified: {time}\r\n"), POD_A));
    let rig = Rig::start(settings(&server.url()));
    assert_eq!(rig.next(), "full a");
    server.send(status("304 Not Modified"));
    assert_eq!(rig.poll(), "same");
    // Another entity tag and the same content.
    server.send(ok("ETag: W/\"2\"\r\n", POD_A));
    assert_eq!(rig.poll(), "same");
    // The validators of a refused answer are not sent.
    server.send(ok("ETag: \"3\"\r\n", "rubbish"));
    assert!(rig.poll().starts_with("refused its content is not accepted: http://127.0.0.1:"));
    server.send(ok("", format!("{POD_A}\n---\n{POD_B}")));
    assert_eq!(rig.poll(), "full a b");
    server.send(ok("", "{apiVersion: v1, kind: PodList, items: []}"));
    assert_eq!(rig.poll(), "full");
    let heads = server.heads();
    let asked: Vec<_> =
        heads.iter().map(|h| (header(h, "if-none-match"), header(h, "if-modified-since"))).collect();
    let nothing = (vec![], vec![]);
    let second = (vec!["W/\"2\""], vec![]);
    assert_eq!(
        asked,
        [
            nothing.clone(),
            (vec!["\"1\""], vec![time]),
            (vec!["\"1\""], vec![time]),
            second.clone(),
            second,
            nothing
        ]
    );
    assert!(heads[0].starts_with("GET /pods.yaml HTTP/1.1\r\n"), "{}", heads[0]);
    assert_eq!(header(&heads[0], "accept-encoding"), ["identity"]);
    assert_eq!(header(&heads[0], "host"), [server.address.to_string()]);
}

#[test]
fn the_operators_headers_are_sent() {
    let server = Server::start();
    server.send(ok("", POD_A));
    let mut settings = settings(&format!("{}?token=s3cret", server.url()));
    headers::parse("X-A:1,x-b:2,X-A:0", &mut settings.headers).unwrap();
    headers::parse("Host:pods.example.com,Authorization:Basic abc", &mut settings.headers).unwrap();
    let rig = Rig::start(settings);
    assert_eq!(rig.next(), "full a");
    let head = server.heads().remove(0);
    assert!(head.starts_with("GET /pods.yaml?token=s3cret "), "{head}");
    assert_eq!(header(&head, "x-a"), ["1", "0"]);
    assert_eq!(header(&head, "x-b"), ["2"]);
    assert_eq!(header(&head, "host"), ["pods.example.com"]);
    assert_eq!(header(&head, "authorization"), ["Basic abc"]);
}

#[test]
fn what_is_no_usable_answer_fails_and_changes_nothing() {
    let server = Server::start();
    let rig = Rig::start(Settings { max_bytes: 1000, ..settings(&format!("{}?token=s3cret", server.url())) });
    let shown = server.url();
    assert_eq!(rig.next(), format!("failed {shown}: the server answers 404 Not Found"));
    let good = ok("ETag: \"1\"\r\n", POD_A);
    server.send(good.clone());
    assert_eq!(rig.poll(), "full a");
    let check = |answer: Vec<u8>, part: &str| {
        server.send(answer);
        let told = rig.poll();
        assert!(told.starts_with(&format!("failed {shown}: ")), "{told}");
        assert!(told.contains(part) && !told.contains("s3cret"), "{told}");
        server.send(good.clone());
        assert_eq!(rig.poll(), "same");
    };
    let head = "HTTP/1.1 200 OK\r\n";
    let raw = |rest: &str| format!("{head}{rest}").into_bytes();
    check(status("500 Internal Server Error"), "the server answers 500 Internal Server Error");
    check(status("401 Unauthorized"), "the server answers 401 Unauthorized");
    check(status("204 No Content"), "the server answers 204 No Content");
    check(status("206 Partial Content"), "the server answers 206 Partial Content");
    check(status("599"), "the server answers 599");
    check(ok("", ""), "the server's answer is empty; no pods at all are said with");
    check(ok("", " \n\t"), "the server's answer is empty");
    check(ok("Content-Type: text/HTML; charset=utf-8\r\n", POD_A), "a web page (HTML)");
    check(ok("", "\n <!DOCTYPE html><html></html>"), "a web page (HTML)");
    for coding in ["gzip", "GZIP", "identity, gzip"] {
        check(
            ok(&format!("Content-Encoding: {coding}\r\n"), spoiled::gzip_bomb()),
            "an encoded (compressed) answer",
        );
    }
    check(ok("", "#".repeat(1001)), "larger than 1000 bytes");
    check(raw(&format!("Content-Length: 999\r\n\r\n{POD_A}")), "ended before the answer was whole");
    check(
        raw(&format!("Transfer-Encoding: chunked\r\n\r\n200\r\n{POD_A}")),
        "ended before the answer was whole",
    );
    check(raw(&format!("\r\n{POD_A}")), "neither a length nor chunks");
    check(raw("Content-Le"), "ended before the answer was whole");
    check(Vec::new(), "ended before the answer was whole");
    check(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), "breaks the rules of HTTP");
    check(raw(&format!("X: {}\r\n\r\n", "x".repeat(100_000))), "head is larger than 16384 bytes");
    check(raw("Content-Length: banana\r\n\r\nx"), "");
    check(redirect("https://127.0.0.1/s3cret"), "a redirect to another server (https://127.0.0.1)");
    check(redirect("http://169.254.169.254/latest"), "another server (http://169.254.169.254)");
    check(redirect(&shown), "redirects more than 5 times");
    check(redirect(""), "a redirect that names no place");
    // A chunked answer is as valid as one with a length.
    server.send(raw(&format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{POD_B}\r\n0\r\n\r\n", POD_B.len())));
    assert_eq!(rig.poll(), "full b");
}

#[test]
fn a_redirect_on_the_same_server_is_followed() {
    let server = Server::start();
    server.answer(|head, pipe| {
        let answer = match head.split(' ').nth(1) {
            Some("/pods.yaml") => redirect("/v2/pods"),
            Some("/v2/pods") => redirect("pods.json?x=1#y"),
            Some("/v2/pods.json?x=1") => ok("", POD_A),
            other => panic!("{other:?}"),
        };
        pipe.write_all(&answer)
    });
    assert_eq!(Rig::start(settings(&server.url())).next(), "full a");
}

#[test]
fn who_wastes_time_is_given_up() {
    let server = Server::start();
    server.send(ok("", POD_A));
    let rig = Rig::start(hasty(&server.url()));
    assert_eq!(rig.next(), "full a");
    let slow_head = |pipe: &mut dyn hostile::Pipe| {
        pipe.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
        drip(pipe, b'x')
    };
    server.answer(move |_, pipe| slow_head(pipe));
    assert!(rig.poll().ends_with("no answer within 700ms"));
    server.answer(|_, pipe| {
        pipe.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
        drip(pipe, b' ')
    });
    assert!(rig.poll().ends_with("the answer was not whole within 1.5s"));
    server.answer(|_, pipe| silence(pipe));
    assert!(rig.poll().ends_with("no answer within 700ms"));
    // An answer that grows without end is not read to its end.
    server.answer(|_, pipe| {
        pipe.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            pipe.write_all(b"400\r\n")?;
            pipe.write_all(&[b'x'; 0x400])?;
            pipe.write_all(b"\r\n")?;
        }
    });
    assert!(rig.poll().contains("larger than 1048576 bytes"));
    server.send(ok("", POD_A));
    assert_eq!(rig.poll(), "same");
}

#[test]
fn one_bad_item_refuses_the_list_and_is_told_once() {
    let server = Server::start();
    let list = |items: &str| format!("{{apiVersion: v1, kind: List, items: [{items}]}}");
    server.send(ok("", list(POD_A)));
    let rig = Rig::start(settings(&server.url()));
    assert_eq!(rig.next(), "full a");
    let nameless = POD_B.replace("name: b", "");
    server.send(ok("", list(&format!("{POD_A}, {nameless}"))));
    let refused = rig.poll();
    assert!(refused.starts_with("refused its content is not accepted: "), "{refused}");
    assert!(refused.contains("name is needed for the pod"), "{refused}");
    let seen = server.heads().len();
    while server.heads().len() < seen + 3 {
        rig.rescan();
    }
    server.send(status("503 Service Unavailable"));
    assert!(rig.poll().ends_with("the server answers 503 Service Unavailable"));
    server.send(ok("", list(&format!("{POD_A}, {nameless}"))));
    assert_eq!(rig.poll(), refused);
    server.send(ok("", list(&format!("{POD_A}, {POD_B}"))));
    assert_eq!(rig.poll(), "full a b");
}

#[test]
fn the_deepest_manifest_fits_the_threads_stack() {
    let server = Server::start();
    for depth in [99, 200_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        server.send(ok("", POD_A.replace("{name: a}", &format!("{{name: a, annotations: {{x: {deep}}}}}"))));
        assert!(Rig::start(settings(&server.url())).next().starts_with("refused "));
        server.send(ok("", &deep));
        assert!(Rig::start(settings(&server.url())).next().starts_with("refused "));
    }
}

#[test]
fn names_and_places_where_nobody_listens() {
    let server = Server::start();
    server.send(ok("", POD_A));
    let port = server.address.port();
    assert_eq!(Rig::start(settings(&format!("http://localhost:{port}/"))).next(), "full a");
    drop(server);
    let told = Rig::start(settings(&format!("http://127.0.0.1:{port}/"))).next();
    assert!(told.contains("no connection: Connection refused"), "{told}");
    let mut nowhere = settings("https://podkeeper.invalid/?s3cret");
    nowhere.patience.connect = Duration::from_millis(300);
    let told = Rig::start(nowhere).next();
    assert!(told.starts_with("failed https://podkeeper.invalid/: the name podkeeper.invalid c"), "{told}");
}

#[test]
fn the_end_waits_for_no_server() {
    let server = Server::start();
    server.answer(|_, pipe| silence(pipe));
    let mut for_ever = settings(&server.url());
    (for_ever.patience.first_byte, for_ever.patience.whole) = (PATIENCE * 10, PATIENCE * 10);
    let rig = Rig::start(for_ever);
    while server.heads().is_empty() {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    drop(rig);
    assert!(begun.elapsed() < PATIENCE, "it waits for the server");
}
