//! Tests of TLS and of rights, over real sockets.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConnection, StreamOwned};

use super::*;
use crate::base::table::Set;
use crate::base::testing::scratch;
use crate::base::tls::of_any_server;

type Credentials = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn client(&self, name: &str, group: &str) -> Credentials {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

fn speak(rig: &Rig, client: Option<Credentials>) -> StreamOwned<ClientConnection, TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = of_any_server(provider).unwrap();
    let config = match client {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, rig.connect())
}

fn ask(rig: &Rig, client: Option<Credentials>, method: &str, path: &str) -> (u16, String) {
    let mut stream = speak(rig, client);
    write!(stream, "{method} {path} HTTP/1.1\r\n{CLOSE}").unwrap();
    let mut text = String::new();
    _ = stream.read_to_string(&mut text);
    let status = text.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

fn guarded(dir: &std::path::Path, ca: &Authority, allows_anonymous: bool) -> Rig {
    std::fs::write(dir.join("ca.pem"), &ca.pem).unwrap();
    let certificates = Certificates::open(tls::Settings {
        given: None,
        signed: None,
        directory: dir.join("pki"),
        client_ca: Some(dir.join("ca.pem")),
        names: vec!["localhost".to_owned()],
    });
    let groups = |name: &str| Set::from([name.to_owned()]);
    let authorization =
        auth::Authorization::Groups { admin: groups("system:masters"), view: groups("podkeeper:view") };
    let (release, released) = bounded(0);
    let inner = Arc::new(Echo { release: Mutex::new(released) });
    let settings = auth::Settings { allows_anonymous, authorization, ..auth::Settings::default() };
    let guard = Guard { settings, certificates: Arc::clone(&certificates), webhook: None, inner };
    rig_of(Patience::default(), Some(certificates), Arc::new(guard), release)
}

#[test]
fn each_client_gets_what_its_certificate_allows_and_others_401() {
    let dir = scratch("guarded");
    let ca = Authority::new();
    let rig = guarded(&dir, &ca, false);
    let paths = [("GET", "/pods"), ("GET", "/healthz"), ("POST", "/exec/a/b/c"), ("GET", "/nothing")];
    for (method, path) in paths {
        let unauthorized = (401, "Unauthorized".to_owned());
        assert_eq!(ask(&rig, None, method, path), unauthorized, "{method} {path}");
        let of_others = Some(Authority::new().client("eve", "system:masters"));
        assert_eq!(ask(&rig, of_others, method, path), unauthorized, "{method} {path}");
    }
    assert_eq!(ask(&rig, Some(ca.client("root", "system:masters")), "POST", "/exec/a/b/c").0, 200);
    assert_eq!(
        ask(&rig, Some(ca.client("ann", "podkeeper:view")), "GET", "/pods"),
        (200, "Get /pods".to_owned())
    );
    let refused = ask(&rig, Some(ca.client("ann", "podkeeper:view")), "POST", "/exec/a/b/c");
    let words = "Forbidden (user=ann, verb=create, resource=nodes, subresource(s)=[proxy])\n";
    assert_eq!(refused, (403, words.to_owned()));
    assert_eq!(ask(&rig, Some(ca.client("x", "others")), "GET", "/pods").0, 403);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Refused requests made a connection count for more than one that was being opened, and as much as one with rights.
#[test]
fn connections_of_strangers_close_none_of_a_user() {
    let dir = scratch("crowded");
    let ca = Authority::new();
    let rig = guarded(&dir, &ca, false);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut user = speak(&rig, Some(ca.client("ann", "podkeeper:view")));
    user.write_all(get("/pods").as_bytes()).unwrap();
    assert!(one_answer(&mut user).starts_with("HTTP/1.1 200 "));
    let strangers: Vec<_> = (0..limits::SERVER_CONNECTIONS_OF_ADDRESS)
        .map(|_| {
            let mut stranger = speak(&rig, None);
            stranger.write_all(get("/pods").as_bytes()).unwrap();
            assert!(one_answer(&mut stranger).starts_with("HTTP/1.1 401 "));
            stranger
        })
        .collect();
    let mut next = speak(&rig, Some(ca.client("bob", "podkeeper:view")));
    let _last = rig.connect();
    for who in [&mut user, &mut next] {
        who.write_all(get("/metrics").as_bytes()).unwrap();
        assert!(one_answer(who).starts_with("HTTP/1.1 200 "));
    }
    drop(strangers);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn somebody_anonymous_is_somebody_with_no_right() {
    let dir = scratch("anonymous");
    let rig = guarded(&dir, &Authority::new(), true);
    let (status, words) = ask(&rig, None, "GET", "/metrics");
    assert_eq!(status, 403);
    assert!(words.starts_with("Forbidden (user=system:anonymous, verb=get, "), "{words}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_no_tls_ends_and_one_that_never_shakes_hands_too() {
    let dir = scratch("no-tls");
    let ca = Authority::new();
    std::fs::write(dir.join("ca.pem"), &ca.pem).unwrap();
    let certificates = Certificates::open(tls::Settings {
        given: None,
        signed: None,
        directory: dir.join("pki"),
        client_ca: None,
        names: vec!["localhost".to_owned()],
    });
    let patience = Patience { handshake: Duration::from_millis(200), ..Patience::default() };
    let rig = rig(patience, Some(certificates));
    let mut silent = rig.connect();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "after the time of a handshake");
    let mut plain = rig.connect();
    write!(plain, "GET / HTTP/1.1\r\n{CLOSE}").unwrap();
    let mut told = Vec::new();
    _ = plain.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP/1.1 200"), "{told:?}");
    assert_eq!(ask(&rig, None, "GET", "/big").1.len(), 4 << 20, "a large answer over TLS");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn many_bytes_go_over_tls_in_both_directions() {
    let dir = scratch("tls-upgrade");
    let ca = Authority::new();
    let rig = guarded(&dir, &ca, false);
    let mut stream = speak(&rig, Some(ca.client("root", "system:masters")));
    write!(stream, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n{}", "y".repeat(1024))
        .unwrap();
    assert!(one_answer(&mut stream).ends_with(&"y".repeat(1024)));
    write!(stream, "GET /upgrade HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.write_all(b"ping").unwrap();
    let mut text = String::new();
    _ = stream.read_to_string(&mut text);
    assert!(text.ends_with("ping"), "{text}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_certificate_that_nobody_knows_makes_a_stranger() {
    let dir = scratch("forgers");
    let ca = Authority::new();
    let rig = guarded(&dir, &ca, false);
    let forger = || Some(Authority::new().client("eve", "system:masters"));
    let mut forgers: Vec<_> = (0..4 * limits::SERVER_STRANGERS).map(|_| speak(&rig, forger())).collect();
    for stream in &mut forgers {
        write!(stream, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(one_answer(stream).starts_with("HTTP/1.1 401 "));
    }
    // The bodies never come: each request occupies a thread until the server's time limit.
    for stream in &mut forgers {
        write!(stream, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").unwrap();
    }
    let mut known = speak(&rig, Some(ca.client("root", "system:masters")));
    write!(known, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(one_answer(&mut known).ends_with("Get /b"));
    let busy = forgers.iter_mut().filter_map(|stream| {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (&status == b"HTTP/1.1 503").then_some(())
    });
    assert!(busy.count() > 0, "they have as many threads as they like");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// One user with a known certificate occupied every thread of every port.
#[test]
fn one_user_leaves_threads_to_the_others() {
    let dir = scratch("greedy");
    let ca = Authority::new();
    let rig = guarded(&dir, &ca, false);
    let eve = || Some(ca.client("eve", "system:masters"));
    let mut greedy: Vec<_> = (0..96 + 8).map(|_| speak(&rig, eve())).collect();
    // The bodies never come.
    for stream in &mut greedy {
        write!(stream, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").unwrap();
        stream.flush().unwrap();
    }
    let refused = greedy.iter_mut().skip(limits::SERVER_OF_USER).map(one_answer);
    for answer in refused {
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("of this user"), "{answer}");
    }
    let mut root = speak(&rig, Some(ca.client("root", "system:masters")));
    write!(root, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(one_answer(&mut root).ends_with("Get /b"));
    std::fs::remove_dir_all(&dir).unwrap();
}
