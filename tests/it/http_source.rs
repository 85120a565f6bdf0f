//! The URL source's thread against real servers on loopback: good answers, and what every other answer
//! becomes.

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

use super::harness::PATIENCE;
use super::hostile::{self, Authority, Server, drip, ok, redirect, silence, status};
use super::signer::Signer;

const POD_A: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}";
const POD_B: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, image: i}]}}";

/// A source that is polled when the test says so.
struct Rig {
    source: Option<HttpSource>,
    updates: Receiver<SourceUpdate>,
    /// Root directory that goes with it.
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
        let source = HttpSource::start(settings, acceptor, store, send).unwrap();
        Rig { source: Some(source), updates, own: None }
    }

    /// The next update, in short: `full a b`, `same`, `failed WHY`, `refused WHY`, `restored a`.
    fn next(&self) -> String {
        let names = |set: &PodSet| {
            set.pods.iter().map(|p| format!(" {}", p.key.name.trim_end_matches("-n"))).collect::<String>()
        };
        match self.updates.recv_timeout(PATIENCE).expect("an update") {
            SourceUpdate::Full(set) => format!("full{}", names(&set)),
            SourceUpdate::Same => "same".to_owned(),
            SourceUpdate::Forgotten => "forgotten".to_owned(),
            SourceUpdate::Restored(set) => format!("restored{}", names(&set)),
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

    /// As [`Rig::next`], after a poll that is asked for.
    fn poll(&self) -> String {
        self.rescan();
        self.next()
    }
}

/// Polled only when asked.
fn settings(url: &str) -> Settings {
    Settings { frequency: Duration::from_secs(3600), ..Settings::new(ManifestUrl::parse(url).unwrap()) }
}

/// For servers that waste time.
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
    // Another tag and the same content.
    server.send(ok("ETag: W/\"2\"\r\n", POD_A));
    assert_eq!(rig.poll(), "same");
    // What is refused is not what is asked with.
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
        check(ok(&format!("Content-Encoding: {coding}\r\n"), gzip_bomb()), "an encoded (compressed) answer");
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
    // A chunked answer is as good as one with a length.
    server.send(raw(&format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{POD_B}\r\n0\r\n\r\n", POD_B.len())));
    assert_eq!(rig.poll(), "full b");
}

/// A megabyte of blanks in less than a thousand bytes.
fn gzip_bomb() -> Vec<u8> {
    let mut gzip =
        Command::new("gzip").args(["-9", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // What comes out fits the pipe.
    gzip.stdin.take().unwrap().write_all(&[b' '; 900_000]).unwrap();
    let packed = gzip.wait_with_output().unwrap().stdout;
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < 1000, "{}", packed.len());
    packed
}

/// However an answer of 100 MB says how long it is, no more of it is taken than the buffers between both sides
/// hold.
#[test]
fn an_answer_of_100_megabytes_is_given_up_at_once() {
    const WHOLE: usize = 100_000_000;
    let server = Server::start();
    server.send(ok("", POD_A));
    let rig = Rig::start(Settings { max_bytes: 1000, ..settings(&server.url()) });
    assert_eq!(rig.next(), "full a");
    let (tell, sent) = unbounded();
    for framing in [format!("Content-Length: {WHOLE}"), "Transfer-Encoding: chunked".to_owned()] {
        let tell = tell.clone();
        server.answer(move |_, pipe| {
            write!(pipe, "HTTP/1.1 200 OK\r\n{framing}\r\n\r\n")?;
            let chunked = framing.starts_with("Transfer");
            let piece = vec![b'#'; 0x1_0000];
            let mut count = 0;
            while count < WHOLE {
                let head = if chunked { "10000\r\n" } else { "" };
                let tail = if chunked { "\r\n" } else { "" };
                let whole = [head.as_bytes(), &piece, tail.as_bytes()].concat();
                if pipe.write_all(&whole).is_err() {
                    break;
                }
                count += piece.len();
            }
            tell.send(count).unwrap();
            Ok(())
        });
        let told = rig.poll();
        assert!(told.starts_with("failed ") && told.contains("larger than 1000 bytes"), "{told}");
        let count = sent.recv_timeout(PATIENCE).unwrap();
        assert!(count < WHOLE / 5, "{count} bytes were taken");
        // A failure that lasts is told once.
        server.send(ok("", POD_A));
        assert_eq!(rig.poll(), "same");
    }
}

/// Answers with a few bytes changed, cut out or put in, by a seed.
fn spoiled(seed: u64) -> Vec<u8> {
    const WHOLE: &[&str] = &[
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 302 Found\r\nLocation: /x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    ];
    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r",
        b":",
        b" ",
        b"\0",
        b"\xff",
        b"0",
        b"ffffffffffffffff",
        b"-1",
        b"101",
        b"chunked",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut bytes = WHOLE[next(WHOLE.len())].as_bytes().to_vec();
    for _ in 0..=next(3) {
        let at = next(bytes.len());
        let end = bytes.len().min(at + next(4));
        match next(3) {
            0 => _ = bytes.splice(at..end, PIECES[next(PIECES.len())].iter().copied()),
            1 => bytes.truncate(at.max(1)),
            _ => bytes[at] = u8::try_from(next(256)).unwrap(),
        }
    }
    bytes
}

#[test]
fn no_answer_breaks_the_source() {
    let server = Server::start();
    server.send(ok("", POD_A));
    let rig = Rig::start(hasty(&server.url()));
    assert_eq!(rig.next(), "full a");
    for seed in 0..400 {
        server.send(spoiled(seed));
        let seen = server.heads().len();
        rig.rescan();
        while server.heads().len() == seen {
            std::thread::yield_now();
        }
    }
    server.send(ok("", POD_A));
    // Everything that was said in between, up to the good answer.
    let mut told = vec![rig.poll()];
    while told.last().is_some_and(|told| told != "same") {
        told.push(rig.next());
    }
    assert!(told.len() > 5, "{told:?}");
    assert!(
        !told.iter().any(|told| told.contains("the poll ended early") || told.starts_with("full")),
        "{told:?}"
    );
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
    // Nothing that grows without end is read to its end.
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
    let rig = Rig::start(settings(&server.url()));
    while server.heads().is_empty() {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    drop(rig);
    // The server would be waited for for ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn only_what_a_trusted_key_has_signed_is_looked_at() {
    let golden = |name: &str| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature");
        fs::read(directory.join(name)).unwrap()
    };
    let server = Server::start();
    let serve = |body: &[u8], signature: Option<Vec<u8>>| {
        let body = ok("", body);
        let signature = match signature {
            Some(signature) => ok("", signature),
            None => status("404 Not Found"),
        };
        server.answer(move |head, pipe| match head.split(' ').nth(1) {
            Some("/pods.yaml.minisig") => pipe.write_all(&signature),
            _ => pipe.write_all(&body),
        });
    };
    serve(&golden("v1.yaml"), Some(golden("v1.minisig")));
    let root = scratch();
    let key = Verifier::parse(&String::from_utf8(golden("node.pub")).unwrap()).unwrap();
    let rig = Rig::with(settings(&server.url()), &root, Some(key.clone()));
    assert_eq!(rig.next(), "full signed");
    assert!(server.heads().iter().any(|h| h.starts_with("GET /pods.yaml.minisig ")));
    let refused = |body: &[u8], signature: Option<Vec<u8>>, part: &str| {
        serve(body, signature);
        let told = rig.poll();
        assert!(told.starts_with("refused ") && told.contains(part), "{part}: {told}");
    };
    let v2 = golden("v2.yaml");
    refused(&v2, None, "is not signed");
    refused(&v2, Some(golden("v1.minisig")), "signature");
    refused(&golden("v1.yaml"), Some(golden("v1.other.minisig")), "is signed with key");
    for (place, bit) in [(0, 1), (v2.len() / 2, 0x20), (v2.len() - 1, 0x80)] {
        let mut flipped = v2.clone();
        flipped[place] ^= bit;
        refused(&flipped, Some(golden("v2.minisig")), "signature");
    }
    server.answer(|head, pipe| match head.split(' ').nth(1) {
        Some("/pods.yaml.minisig") => pipe.write_all(&status("500 Internal Server Error")),
        _ => pipe.write_all(&ok("", POD_B)),
    });
    assert!(rig.poll().ends_with(": its signature: the server answers 500 Internal Server Error"));
    // What is remembered is remembered as it was signed, and judged by the keys of the next start.
    drop(rig);
    server.answer(|_, pipe| silence(pipe));
    let again = |key: &Verifier| {
        let rig = Rig::with(hasty(&server.url()), &root, Some(key.clone()));
        rig.next()
    };
    assert_eq!(again(&key), "restored signed");
    let other = Verifier::parse(&String::from_utf8(golden("other.pub")).unwrap()).unwrap();
    assert!(again(&other).ends_with("no answer within 700ms"));
    assert_eq!(again(&key), "restored signed");
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn older_signed_answers_of_the_server_are_refused() {
    let (signer, server, root) = (Signer::new(), Server::start(), scratch());
    let serve = |body: &str, comment: &str| {
        let (signature, body) = (ok("", signer.sign(body.as_bytes(), comment)), ok("", body));
        server.answer(move |head, pipe| match head.split(' ').nth(1) {
            Some("/pods.yaml.minisig") => pipe.write_all(&signature),
            _ => pipe.write_all(&body),
        });
    };
    let start = || {
        let key = Verifier::parse(&signer.key()).unwrap();
        Rig::with(settings(&server.url()), &root, Some(key))
    };
    let nothing = r#"{"apiVersion":"v1","kind":"List","items":[]}"#;
    serve(nothing, "version:1");
    let rig = start();
    assert_eq!(rig.next(), "full");
    serve(POD_B, "version:2");
    assert_eq!(rig.poll(), "full b");
    let refused = |told: &str, part: &str| {
        assert!(told.starts_with("refused ") && told.contains(part), "{part}: {told}");
    };
    // Nothing is in it that could be too old, but its absence is.
    serve(nothing, "version:1");
    refused(&rig.poll(), "has version 1, and URL ");
    serve(POD_A, "timestamp:1790000000");
    refused(&rig.poll(), "has timestamp 1790000000, and URL ");
    // After a restart, too.
    drop(rig);
    serve(nothing, "version:1");
    let rig = start();
    assert_eq!(rig.next(), "restored b");
    refused(&rig.next(), "accepted in version 2 already");
    serve(nothing, "version:3");
    assert_eq!(rig.poll(), "full");
    drop(rig);
    fs::remove_dir_all(&root).unwrap();
}

// --- What is remembered --------------------------------------------------------------------------

/// A root directory in which a daemon has remembered this answer of the URL.
fn remembering(url: &str, body: &str, etag: &str) -> PathBuf {
    let root = scratch();
    let mut store = LastGood::new(&root, None, Source::Http);
    store.load();
    let content = Remembered {
        path: ManifestUrl::parse(url).unwrap().identity(),
        version: 1,
        bytes: body.into(),
        etag: Some(etag.to_owned()),
        ..Remembered::default()
    };
    store.remember(content, &[1]);
    store.save_some(Default::default());
    assert!(!store.is_behind(Default::default()));
    root
}

/// What is remembered now: bodies and entity tags.
fn remembered(root: &Path) -> Vec<(String, Option<String>)> {
    let contents = LastGood::new(root, None, Source::Http).load();
    contents.into_iter().map(|c| (String::from_utf8(c.bytes.0).unwrap(), c.etag)).collect()
}

#[test]
fn what_was_accepted_is_restored_while_the_server_says_nothing() {
    let server = Server::start();
    server.answer(|_, pipe| silence(pipe));
    let root = remembering(&server.url(), POD_A, "\"7\"");
    let rig = Rig::with(hasty(&server.url()), &root, None);
    assert_eq!(rig.next(), "restored a");
    assert!(rig.next().ends_with("no answer within 700ms"));
    server.send(status("304 Not Modified"));
    assert_eq!(rig.poll(), "full a");
    assert!(server.heads().iter().all(|head| header(head, "if-none-match") == ["\"7\""]));
    server.send(ok("ETag: \"8\"\r\n", POD_A));
    assert_eq!(rig.poll(), "same");
    // A new entity tag alone is nothing to write.
    assert_eq!(remembered(&root), [(POD_A.to_owned(), Some("\"7\"".to_owned()))]);
    server.send(ok("ETag: \"9\"\r\n", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    assert_eq!(remembered(&root), [(POD_B.to_owned(), Some("\"9\"".to_owned()))]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_was_accepted_is_restored_at_once_when_the_server_is_gone() {
    let url = Server::start().url();
    let rig = Rig::with(settings(&url), &remembering(&url, POD_A, "1"), None);
    assert_eq!(rig.next(), "restored a");
    assert!(rig.next().contains("Connection refused"));
}

#[test]
fn a_quick_answer_needs_no_restoring_and_what_is_not_accepted_any_more_is_not_restored() {
    let server = Server::start();
    server.send(ok("", POD_B));
    let rig = Rig::with(settings(&server.url()), &remembering(&server.url(), POD_A, "1"), None);
    let first = rig.next();
    // On a machine that is very busy the head start may pass before the answer is there.
    assert_eq!(if first == "restored a" { rig.next() } else { first }, "full b");
    let rig = Rig::with(settings(&server.url()), &remembering(&server.url(), "rubbish", "1"), None);
    assert_eq!(rig.next(), "full b");
    assert_eq!(header(server.heads().last().unwrap(), "if-none-match"), [""; 0]);
}

#[test]
fn what_is_forgotten_runs_only_when_the_server_says_so_again() {
    let server = Server::start();
    server.send(ok("ETag: 1\r\n", POD_A));
    let root = scratch();
    let rig = Rig::with(settings(&server.url()), &root, None);
    assert_eq!(rig.next(), "full a");
    let store = directory(&root, Source::Http);
    let forget = || {
        // It is written after it was told.
        let is_whole = |e: fs::DirEntry| e.path().extension().is_some_and(|x| x == "good");
        while !fs::read_dir(&store).is_ok_and(|entries| entries.flatten().any(is_whole)) {
            std::thread::yield_now();
        }
        assert_eq!(forget::forget(&root, Source::Http).unwrap(), Some(1));
    };
    forget();
    assert_eq!(rig.poll(), "full a");
    assert_eq!(header(server.heads().last().unwrap(), "if-none-match"), [""; 0]);
    forget();
    server.send(status("503 Service Unavailable"));
    assert_eq!(rig.poll(), "full");
    assert!(rig.next().contains("503 Service Unavailable"));
    assert!(store.exists() && remembered(&root).is_empty());
    // Now there is nothing that could be forgotten.
    server.send(ok("", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn another_url_restores_nothing_and_takes_the_place() {
    let root = remembering("http://127.0.0.1:9/other?node=1", POD_A, "1");
    let server = Server::start();
    server.send(status("404 Not Found"));
    let rig = Rig::with(settings(&server.url()), &root, None);
    assert!(rig.next().contains("404 Not Found"));
    assert_eq!(remembered(&root).len(), 1);
    server.send(ok("", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    assert_eq!(remembered(&root), [(POD_B.to_owned(), None)]);
    fs::remove_dir_all(&root).unwrap();
}

// --- TLS -----------------------------------------------------------------------------------------

#[test]
fn a_server_must_show_a_certificate_for_its_name_from_a_trusted_authority() {
    let (ours, other) = (Authority::new(), Authority::new());
    let dir = scratch();
    let ca = dir.join("ca.pem");
    fs::write(&ca, &ours.pem).unwrap();
    let check = |authority: &Authority, name: &str, until: i32, part: &str| {
        let server = Server::tls(authority.server(&authority.certify(name, until), false));
        server.send(ok("", POD_A));
        let url = format!("https://localhost:{}/", server.address.port());
        let told = Rig::start(Settings { ca_file: Some(ca.clone()), ..settings(&url) }).next();
        assert!(told.contains(part), "{told}");
        assert_eq!(server.heads().is_empty(), part != "full a", "{told}");
    };
    check(&ours, "localhost", 2100, "full a");
    check(&ours, "elsewhere.example.com", 2100, "certificate is not accepted: it is for another name");
    check(&ours, "localhost", 2001, "certificate is not accepted: it has expired");
    check(&other, "localhost", 2100, "no certificate authority that podkeeper trusts has signed it");
    // The authority's own certificate is none for a server.
    let server = Server::tls(ours.server(&ours.own(), false));
    let url = format!("https://localhost:{}/", server.address.port());
    let told = Rig::start(Settings { ca_file: Some(ca.clone()), ..settings(&url) }).next();
    assert!(told.ends_with("it breaks a rule: CaUsedAsEndEntity"), "{told}");
    // The system's authorities do not know it either, or there are none.
    let server = Server::tls(ours.server(&ours.certify("127.0.0.1", 2100), false));
    server.send(ok("", POD_A));
    let url = format!("https://{}/", server.address);
    let told = Rig::start(settings(&url)).next();
    assert!(told.contains("authorit"), "{told}");
    // By its address, and with the authority's file put in place while the source runs.
    let late = dir.join("late.pem");
    let rig = Rig::start(Settings { ca_file: Some(late.clone()), ..settings(&url) });
    assert!(rig.next().contains("late.pem cannot be read: No such file"));
    fs::write(&late, "nothing").unwrap();
    assert!(rig.poll().ends_with(&format!("no certificate in {}", late.display())));
    fs::write(&late, &ours.pem).unwrap();
    assert_eq!(rig.poll(), "full a");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_server_that_spoils_the_handshake() {
    let plain = Server::start();
    let dir = scratch();
    let ca = dir.join("ca.pem");
    let authority = Authority::new();
    fs::write(&ca, &authority.pem).unwrap();
    let told = |port: u16| {
        let settings = hasty(&format!("https://127.0.0.1:{port}/"));
        Rig::start(Settings { ca_file: Some(ca.clone()), ..settings }).next()
    };
    // It waits for the end of a request's head, which never comes.
    assert!(told(plain.address.port()).ends_with("no TLS handshake within 700ms"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (turn, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            match turn {
                0 => std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap(),
                // A record of TLS, promised long and sent slowly.
                1 => {
                    let _ = std::io::Write::write_all(&mut stream, &[22, 3, 3, 0x3f, 0xff, 2, 0, 0x3f, 0xfb]);
                    let _ = drip(&mut stream, 0);
                }
                _ => return,
            }
        }
    });
    let first = told(port);
    assert!(first.contains("does not speak TLS") || first.contains("in the TLS handshake"), "{first}");
    assert!(told(port).ends_with("no TLS handshake within 700ms"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_client_certificate_is_shown_and_may_rotate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let dir = scratch();
    let [ca, certificate, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| dir.join(name));
    fs::write(&ca, &authority.pem).unwrap();
    let server = Server::tls(authority.server(&authority.certify("localhost", 2100), true));
    server.send(ok("", POD_A));
    let url = format!("https://localhost:{}/", server.address.port());
    let with_ca = Settings { ca_file: Some(ca), ..settings(&url) };
    let told = Rig::start(with_ca.clone()).next();
    assert!(told.contains("CertificateRequired; see --manifest-url-cert-file"), "{told}");
    let client = ClientFiles { certificate: certificate.clone(), key: key.clone() };
    let rig = Rig::start(Settings { client: Some(client), ..with_ca });
    assert!(rig.next().contains("cert.pem cannot be read"));
    let (foreign, mine) = (other.certify("client", 2100), authority.certify("client", 2100));
    fs::write(&certificate, &mine.certificate).unwrap();
    fs::write(&key, &foreign.key).unwrap();
    // Half way through a rotation: an error, and no end of the daemon.
    assert!(rig.poll().contains("key.pem is not usable, or not that of the certificate in"));
    fs::write(&key, &mine.key).unwrap();
    assert_eq!(rig.poll(), "full a");
    fs::write(&certificate, &foreign.certificate).unwrap();
    fs::write(&key, &foreign.key).unwrap();
    let told = rig.poll();
    assert!(told.contains("the server ends the TLS connection: "), "{told}");
    fs::remove_dir_all(&dir).unwrap();
}
