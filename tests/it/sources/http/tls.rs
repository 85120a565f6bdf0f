//! TLS: certificates of the server and of the node.

use super::*;

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
    // The authority's own certificate is not valid for a server.
    let server = Server::tls(ours.server(&ours.own(), false));
    let url = format!("https://localhost:{}/", server.address.port());
    let told = Rig::start(Settings { ca_file: Some(ca.clone()), ..settings(&url) }).next();
    assert!(told.ends_with("it breaks a rule: CaUsedAsEndEntity"), "{told}");
    // The system's authorities do not include it either, or there are none.
    let server = Server::tls(ours.server(&ours.certify("127.0.0.1", 2100), false));
    server.send(ok("", POD_A));
    let url = format!("https://{}/", server.address);
    let told = Rig::start(settings(&url)).next();
    assert!(told.contains("authorit"), "{told}");
    // By the server's address, and with the authority's file put in place while the source runs.
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
    // The server waits for the end of a request's head, which never comes.
    assert!(told(plain.address.port()).ends_with("no TLS handshake within 700ms"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (turn, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            match turn {
                0 => std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap(),
                // A TLS record, announced as long and sent slowly.
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
    // Half-way through a rotation: an error, and the daemon goes on.
    assert!(rig.poll().contains("key.pem is not usable, or not that of the certificate in"));
    fs::write(&key, &mine.key).unwrap();
    assert_eq!(rig.poll(), "full a");
    fs::write(&certificate, &foreign.certificate).unwrap();
    fs::write(&key, &foreign.key).unwrap();
    let told = rig.poll();
    assert!(told.contains("the server ends the TLS connection: "), "{told}");
    fs::remove_dir_all(&dir).unwrap();
}
