//! Clients that attack the API's port: their cost is bounded, other clients are answered, and no pod is disturbed.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::kubectl::Served;
use super::strangers::unpack;
use crate::harness::pods::Pod;
use crate::server::client::{Identity, Link};

/// Most KiB that an attack may cost at its peak: the need of the connections that the node accepts.
const MOST: u64 = 24 * 1024;
/// KiB by which memory may be larger after the second time than after the first: one body, and the buffers that it grew
/// from. The heap keeps the memory that the first attack took; no attack may take more each time.
const MORE: u64 = 4 * 1024;

/// Memory of the daemon, KiB, by this line of the kernel's report.
fn told(served: &Served, line: &str) -> u64 {
    let pid = served.node.pid().unwrap();
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|known| known.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Memory that the daemon allocated itself. Code that runs for the first time is read from the program's file, and the
/// kernel may drop it.
fn memory(served: &Served) -> u64 {
    told(served, "Pss_Anon:")
}

fn identity(served: &Served, user: &str) -> Identity {
    let read = |part: &str| fs::read(served.node.base.join(format!("{user}.{part}"))).unwrap();
    let certificates = CertificateDer::pem_slice_iter(&read("cert")).map(Result::unwrap).collect();
    (certificates, PrivateKeyDer::from_pem_slice(&read("key")).unwrap())
}

/// Whether a good client, at another address than the bad ones, gets the list of pods.
fn is_answered(served: &Served) -> bool {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--insecure",
        "--max-time",
        "15",
        "--output",
        "/dev/null",
        "--interface",
        "127.0.0.9",
    ]);
    for part in ["cert", "key"] {
        curl.arg(format!("--{part}")).arg(served.node.base.join(format!("view.{part}")));
    }
    curl.args(["--write-out", "%{http_code}"]).arg(format!("https://127.0.0.1:{}/api/v1/pods", served.port));
    curl.output().unwrap().stdout == b"200"
}

/// Ends a connection with a reset.
fn reset(link: Link) {
    let socket = link.into_socket();
    rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
}

/// Measurements between two attacks.
struct Look {
    container: String,
    before: u64,
    most: u64,
}

impl Look {
    fn at(&mut self, served: &Served, what: &str) {
        self.most = self.most.max(memory(served));
        assert!(is_answered(served), "a good client is not answered: {what}");
        let now = served.node.container_status("web", "app").unwrap();
        assert_eq!((now.restart_count, now.container_id.unwrap()), (0, self.container.clone()), "{what}");
        let cost = self.most.saturating_sub(self.before);
        assert!(cost < MOST, "{what}: {cost} KiB more than before");
    }
}

/// Two thousand connections, of which the node accepts a part; some begin a handshake, and none completes it.
fn crowd(served: &Served, look: &mut Look) {
    let mut all = Vec::new();
    for at in 0..2000_u32 {
        let address = (Ipv4Addr::LOCALHOST, served.port).into();
        let Ok(mut socket) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
            continue;
        };
        if at % 2 == 0 {
            // The beginning of a handshake; the rest never comes.
            let _ = socket.write_all(&[0x16, 3, 1, 0x40, 0, 1]);
        }
        all.push(socket);
        if at == 1000 {
            look.at(served, "with a thousand connections");
        }
    }
    look.at(served, "with all connections");
    // Each of them ends within the time limit of a handshake.
    let last = all.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let ended = match last.read(&mut [0; 8]) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    assert!(ended, "a client that says nothing keeps its connection");
    look.at(served, "after the connections");
}

/// Request heads that come byte by byte.
fn slowly(served: &Served, user: &Identity, look: &mut Look) {
    let mut all: Vec<Link> = (0..40).map(|_| Link::open_as(served.port, Some(user))).collect();
    let begun = Instant::now();
    while all.iter().any(|link| !link.is_over) {
        assert!(begun.elapsed() < Duration::from_secs(40), "a head may take for ever");
        for link in all.iter_mut().filter(|link| !link.is_over) {
            link.send(b"G");
            link.turn(true);
        }
    }
    look.at(served, "after heads that come slowly");
}

/// Bodies of one GiB, announced and in chunks.
fn hugely(served: &Served, user: &Identity, look: &mut Look) {
    let piece = [b'x'; 64 * 1024];
    for framing in ["Content-Length: 1073741824", "Transfer-Encoding: chunked"] {
        let mut link = Link::open_as(served.port, Some(user));
        let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: n1\r\nContent-Type: application/json";
        link.send(format!("{head}\r\n{framing}\r\n\r\n").as_bytes());
        let mut sent = 0_u64;
        let begun = Instant::now();
        while !link.is_over && link.received.is_empty() && sent < 1 << 30 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{framing}: {sent} bytes are taken");
            if framing.starts_with("Transfer") {
                link.send(b"10000\r\n");
            }
            link.send(&piece);
            if framing.starts_with("Transfer") {
                link.send(b"\r\n");
            }
            sent += 64 * 1024;
            while !link.is_over && link.received.is_empty() && link.waits_to_send() {
                link.turn(true);
            }
        }
        assert!(sent < 64 << 20, "{framing}: {sent} bytes are taken");
        let answer = String::from_utf8_lossy(&link.received).into_owned();
        assert!(link.is_over || answer.starts_with("HTTP/1.1 413 "), "{answer}");
        look.at(served, framing);
    }
}

/// Watches and commands whose clients disappear without notice, in the middle of a frame.
fn rudely(served: &Served, user: &Identity, look: &mut Look) {
    let pod = served.node.full("web");
    let mut watches = Vec::new();
    for _ in 0..60 {
        let mut link = Link::open_as(served.port, Some(user));
        link.send(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: n1\r\n\r\n");
        link.until("a watch is begun or refused", |link| !link.received.is_empty());
        watches.push(link);
    }
    look.at(served, "with watches that nobody reads");
    watches.into_iter().for_each(reset);
    let target = format!("/api/v1/namespaces/default/pods/{pod}/exec?command=cat&stdin=true&stdout=true");
    for at in 0..20 {
        let mut link = Link::open_as(served.port, Some(user));
        let web_socket = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
        ];
        let spdy = [
            ("Connection", "Upgrade"),
            ("Upgrade", "SPDY/3.1"),
            ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ];
        let head = match at % 2 {
            0 => link.ask("GET", &target, &web_socket),
            _ => link.ask("POST", &target, &spdy),
        };
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        // A frame of 64 KiB, of which only ten bytes come.
        link.send(if at % 2 == 0 {
            &[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]
        } else {
            &[0, 0, 0, 1, 0, 1, 0, 0, 1, 2]
        });
        while link.waits_to_send() {
            link.turn(false);
        }
        reset(link);
    }
    look.at(served, "after resets in the middle of frames");
    served.node.wait_until("watches can be begun again", || {
        let mut link = Link::open_as(served.port, Some(user));
        let head = link.ask("GET", "/api/v1/pods?watch=true&timeoutSeconds=1", &[]);
        head.starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn what_bad_clients_cost_is_bounded_and_no_pod_notices() {
    let served = Served::start(&[]);
    served.node.write("web.yaml", Pod::new("web").text());
    served.node.wait_running("web", "app");
    for user in ["view", "admin"] {
        unpack(&served, user);
    }
    assert!(is_answered(&served));
    let container = served.node.container_status("web", "app").unwrap().container_id.unwrap();
    let before = memory(&served);
    let mut look = Look { container, before, most: before };
    let admin = identity(&served, "admin");
    let mut after = Vec::new();
    for _ in 0..2 {
        crowd(&served, &mut look);
        slowly(&served, &admin, &mut look);
        hugely(&served, &admin, &mut look);
        rudely(&served, &admin, &mut look);
        after.push(memory(&served));
    }
    println!("{before} KiB before, {} at the height, {after:?} after each time", look.most);
    let more = after[1].saturating_sub(after[0]);
    assert!(more < MORE, "the second time has cost {more} KiB more: {after:?}");
}
