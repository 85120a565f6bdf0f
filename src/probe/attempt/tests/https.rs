//! HTTPS servers: ordinary ones, ones that break off, and ones that send after their close_notify.

use std::sync::{Arc, mpsc};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

use super::*;

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of this TLS version that handles its connections one by one; returns the action for it. Its
/// certificate has another name, is not signed by a known issuer, and is expired.
fn https(
    version: &'static SupportedProtocolVersion,
    mut treat: impl FnMut(Stream) + Send + 'static,
) -> Action {
    let certificate = include_bytes!("../../../../tests/golden/probe/expired.der");
    let key = include_bytes!("../../../../tests/golden/probe/expired.key.der");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.to_vec())],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_vec())),
        )
        .unwrap();
    let config = Arc::new(config);
    let port = server(move |stream| {
        let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        treat(StreamOwned::new(tls, stream));
    });
    Action::Http(HttpGet { tls: true, ..get(port) })
}

fn asked(tls: &mut Stream) {
    let mut first = [0; 1024];
    let n = tls.read(&mut first).unwrap();
    assert!(first[..n].starts_with(b"GET /state HTTP/1.1\r\n"));
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

#[test]
fn https_without_looking_at_the_certificate() {
    for version in VERSIONS {
        let action = https(version, |mut tls| {
            asked(&mut tls);
            let body = "x".repeat(100_000);
            _ = write!(tls, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{body}");
            _ = tls.flush();
        });
        assert_eq!(ask(&action), Outcome::Passed);
    }
    // A server that does not speak TLS.
    let port = says("SSH-2.0-dropbear\r\n\r\n");
    let Outcome::Failed(text) = ask_shortly(&Action::Http(HttpGet { tls: true, ..get(port) })) else {
        panic!()
    };
    assert!(text.starts_with("Get \"https://"), "{text}");
}

#[test]
fn close_notify_without_fin_is_the_end_of_the_body() {
    for version in VERSIONS {
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\n\r\nok", Outcome::Passed),
            ("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", body_error("unexpected EOF")),
        ] {
            let mut kept = Vec::new();
            let action = https(version, move |mut tls| {
                asked(&mut tls);
                tls.write_all(answer.as_bytes()).unwrap();
                tls.conn.send_close_notify();
                tls.flush().unwrap();
                kept.push(tls);
            });
            assert_eq!(ask(&action), expected, "{answer}");
        }
    }
}

/// Bytes after close_notify must not keep the reader busy: one thread handles all probes.
#[test]
fn a_server_that_talks_on_after_its_goodbye_stops_nobody() {
    for version in VERSIONS {
        let action = https(version, |mut tls| {
            asked(&mut tls);
            tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok").unwrap();
            tls.conn.send_close_notify();
            tls.flush().unwrap();
            while tls.sock.write_all(&[0; 1000]).is_ok() {}
        });
        let Action::Http(HttpGet { port: Ok(port), .. }) = action else { panic!() };
        let redirect = says(&format!(
            "HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:{port}/state\r\nContent-Length: 0\r\n\r\n"
        ));
        for action in [action, http(redirect)] {
            let (out, done) = mpsc::channel();
            thread::spawn(move || out.send(ask(&action)));
            assert_eq!(done.recv_timeout(PATIENCE), Ok(body_error("unexpected EOF")));
        }
    }
}
