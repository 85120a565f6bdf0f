//! Tests of the servers' core over real sockets: answers to good and bad clients.

mod secured;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::http::answer::{Answer, TEXT};
use super::service::{Asked, Reply, Service};
use super::*;

/// A service that answers by the path.
struct Echo {
    /// Ends the wait of `/wait`.
    release: Mutex<Receiver<()>>,
}

impl Service for Echo {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let request = asked.request;
        match request.path.as_str() {
            "/body" => match asked.body.read(1024) {
                Ok(body) => Answer::new(200, TEXT, body).into(),
                Err(refused) => Answer::refused(refused).into(),
            },
            "/wait" => {
                _ = self.release.lock().unwrap().recv();
                Answer::new(200, TEXT, "waited").into()
            }
            "/stream" => Reply::Stream(
                Answer::new(200, TEXT, ""),
                Box::new(|sink| {
                    sink.write(b"first ")?;
                    sink.write(b"")?;
                    sink.write(b"second")
                }),
            ),
            "/breaks" => Reply::Stream(
                Answer::new(200, TEXT, ""),
                Box::new(|sink| {
                    sink.write(b"first ")?;
                    Err(io::ErrorKind::Other.into())
                }),
            ),
            "/endless" => Reply::Stream(
                Answer::new(200, TEXT, ""),
                Box::new(|sink| {
                    loop {
                        sink.write(&[b'x'; 8192])?;
                    }
                }),
            ),
            "/big" => Answer::new(200, TEXT, vec![b'b'; 4 << 20]).into(),
            "/upgrade" => Reply::Upgrade(
                Answer::new(101, "", "").with("Connection", "Upgrade").with("Upgrade", "echo"),
                Box::new(|mut upgraded| {
                    let mut bytes = upgraded.early.clone();
                    while bytes.len() < 4 {
                        if upgraded.transport.read(&mut bytes, 16).is_err() {
                            return;
                        }
                        std::thread::yield_now();
                    }
                    let _ = upgraded.transport.write(&bytes);
                }),
            ),
            path => Answer::new(200, TEXT, format!("{:?} {path}", request.method)).into(),
        }
    }
}

/// Servers with one port.
struct Rig {
    address: SocketAddr,
    release: crossbeam_channel::Sender<()>,
    servers: Servers,
}

fn rig(patience: Patience, certificates: Option<Arc<Certificates>>) -> Rig {
    let (release, released) = bounded(0);
    let service = Arc::new(Echo { release: Mutex::new(released) });
    rig_of(patience, certificates, service, release)
}

fn rig_of(
    patience: Patience,
    certificates: Option<Arc<Certificates>>,
    service: Arc<dyn Service>,
    release: crossbeam_channel::Sender<()>,
) -> Rig {
    let address = free_address();
    let ports = vec![Port { name: "a test", address, certificates, service }];
    Rig { address, release, servers: servers_of(patience, ports) }
}

/// A port that the system chose; it is free again for the servers.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn servers_of(patience: Patience, ports: Vec<Port>) -> Servers {
    let (woken, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    let wake = Arc::new(wake);
    let (end, ended) = bounded(0);
    let back = bounded(limits::SERVER_THREADS);
    let listen = Listen::new(ports, back, (woken, Arc::clone(&wake)), ended, patience);
    let thread = std::thread::spawn(move || listen.run());
    Servers { end: Some(end), wake, thread: Some(thread) }
}

impl Rig {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends these bytes, and reads until the connection ends.
    fn exchange(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

/// Reads one answer with `Content-Length`, and nothing after it.
fn one_answer(stream: &mut impl Read) -> String {
    let mut text = Vec::new();
    let mut byte = [0u8];
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

const CLOSE: &str = "Host: a\r\nConnection: close\r\n\r\n";

#[test]
fn requests_follow_one_another_on_a_connection_also_without_waiting() {
    let rig = rig(Patience::default(), None);
    let mut stream = rig.connect();
    for path in ["/a", "/b"] {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(one_answer(&mut stream).ends_with(&format!("Get {path}")));
    }
    write!(
        stream,
        "GET /c HTTP/1.1\r\nHost: a\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\n\r\nGET /e HTTP/1.1\r\n{CLOSE}"
    )
    .unwrap();
    for path in ["/c", "/d", "/e"] {
        assert!(one_answer(&mut stream).ends_with(&format!("Get {path}")));
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it ends as the last request asks");
}

#[test]
fn bodies_are_read_passed_over_and_bounded() {
    let rig = rig(Patience::default(), None);
    let mut stream = rig.connect();
    write!(
        stream,
        "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    .unwrap();
    assert!(one_answer(&mut stream).ends_with("\r\n\r\nabc"));
    write!(
        stream,
        "POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /next HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    .unwrap();
    assert!(one_answer(&mut stream).ends_with("Post /other"));
    assert!(one_answer(&mut stream).ends_with("Get /next"), "the body is no request");
    write!(stream, "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let mut awaited = [0; 25];
    stream.read_exact(&mut awaited).unwrap();
    assert_eq!(&awaited, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    assert!(one_answer(&mut stream).ends_with("hi"));
    let long =
        format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741824\r\n\r\n{}", "x".repeat(2048));
    assert!(rig.exchange(&long).starts_with("HTTP/1.1 413 "), "and it is not read");
    let endless = format!(
        "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n{}\r\n",
        "x".repeat(2048)
    );
    assert!(rig.exchange(&endless).starts_with("HTTP/1.1 413 "));
}

#[test]
fn a_stream_is_chunked_and_one_that_breaks_does_not_end_well() {
    let rig = rig(Patience::default(), None);
    let whole = rig.exchange(&format!("GET /stream HTTP/1.1\r\n{CLOSE}"));
    assert!(whole.ends_with("\r\n\r\n6\r\nfirst \r\n6\r\nsecond\r\n0\r\n\r\n"), "{whole}");
    let old = rig.exchange("GET /stream HTTP/1.0\r\n\r\n");
    assert!(old.ends_with("\r\n\r\nfirst second") && !old.contains("chunked"), "{old}");
    let broken = rig.exchange(&format!("GET /breaks HTTP/1.1\r\n{CLOSE}"));
    assert!(broken.ends_with("6\r\nfirst \r\n"), "no last chunk: {broken}");
}

#[test]
fn a_connection_can_speak_another_protocol() {
    let rig = rig(Patience::default(), None);
    let head = "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let answer = rig.exchange(&format!("{head}ping"));
    assert!(
        answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n") && answer.ends_with("\r\n\r\nping"),
        "{answer}"
    );
}

#[test]
fn nonsense_is_refused_and_the_connection_ends() {
    let rig = rig(Patience::default(), None);
    assert!(rig.exchange("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(rig.exchange("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n", "x".repeat(limits::SERVER_HEAD));
    assert!(rig.exchange(&long).starts_with("HTTP/1.1 431 "));
}

#[test]
fn a_client_that_sends_its_head_byte_by_byte_loses_its_connection() {
    let head = Duration::from_millis(300);
    let rig = rig(Patience { head, ..Patience::default() }, None);
    let mut slow = rig.connect();
    let begun = Instant::now();
    let mut got = Ok(1);
    while got.as_ref().is_ok_and(|read| *read != 0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is never closed");
        _ = slow.write_all(b"x");
        slow.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        got = match slow.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(1),
            other => other,
        };
    }
    assert!(begun.elapsed() >= head);
    assert!(rig.exchange(&format!("GET /a HTTP/1.1\r\n{CLOSE}")).ends_with("Get /a"), "others are served");
}

#[test]
fn the_end_comes_also_while_requests_are_under_way() {
    let rig = rig(Patience::default(), None);
    let mut waiting = rig.connect();
    write!(waiting, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut silent = rig.connect();
    rig.release.send(()).unwrap();
    assert!(one_answer(&mut waiting).ends_with("waited"), "the request was under way");
    write!(waiting, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    drop(rig.servers);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    drop(rig.release);
}

#[test]
fn strangers_of_one_address_have_a_part_of_the_threads() {
    let rig = rig(Patience::default(), None);
    let mut waiting: Vec<TcpStream> = (0..limits::SERVER_STRANGERS).map(|_| rig.connect()).collect();
    for stream in &mut waiting {
        write!(stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    // The threads take their requests a moment later.
    let mut refused = String::new();
    while !refused.starts_with("HTTP/1.1 503 ") {
        refused = rig.exchange(&format!("GET /a HTTP/1.1\r\n{CLOSE}"));
    }
    assert!(refused.contains("Retry-After: 1\r\n"));
    // A request that came after a probe was refused in its place.
    let release = rig.release.clone();
    std::thread::spawn(move || while release.send_timeout((), Duration::from_secs(5)).is_ok() {});
    let all: Vec<String> = waiting.iter_mut().map(one_answer).collect();
    let waited = all.iter().filter(|answer| answer.ends_with("waited")).count();
    assert!(waited >= limits::SERVER_STRANGERS / 2, "{all:?}");
    let mut served = String::new();
    while !served.ends_with("Get /a") {
        served = rig.exchange(&format!("GET /a HTTP/1.1\r\n{CLOSE}"));
    }
}

#[test]
fn strangers_of_one_port_take_nothing_from_those_of_another() {
    let (release, released) = bounded(0);
    let echo: Arc<dyn Service> = Arc::new(Echo { release: Mutex::new(released) });
    let port = |name, address| Port { name, address, certificates: None, service: Arc::clone(&echo) };
    let (address, healthz) = (free_address(), free_address());
    let ports = vec![port("a test", address), port("health checks", healthz)];
    let rig = Rig { address, release, servers: servers_of(Patience::default(), ports) };
    let mut waiting: Vec<TcpStream> = (0..limits::SERVER_STRANGERS).map(|_| rig.connect()).collect();
    for stream in &mut waiting {
        write!(stream, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    while !rig.exchange(&format!("GET /a HTTP/1.1\r\n{CLOSE}")).starts_with("HTTP/1.1 503 ") {}
    let mut check = TcpStream::connect(healthz).unwrap();
    write!(check, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(one_answer(&mut check).ends_with("Get /healthz"));
}

#[test]
fn of_too_many_connections_the_oldest_goes_first() {
    let rig = rig(Patience::default(), None);
    let mut silent: Vec<TcpStream> =
        (0..limits::SERVER_CONNECTIONS_OF_ADDRESS + 20).map(|_| rig.connect()).collect();
    assert!(rig.exchange(&format!("GET /b HTTP/1.1\r\n{CLOSE}")).ends_with("Get /b"), "a new one is served");
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the one that waited longest is closed");
    let last = silent.last_mut().unwrap();
    write!(last, "GET /c HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(one_answer(last).ends_with("Get /c"));
}

/// A connection from this address of the loopback network.
fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Three addresses without any rights closed every connection that had sent no request yet.
#[test]
fn addresses_whose_requests_were_answered_close_no_connection_of_others() {
    let rig = rig(Patience::default(), None);
    let asks = |last: u8| {
        let mut stream = connect_from([127, 0, 2, last], rig.address);
        write!(stream, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        one_answer(&mut stream);
        stream
    };
    let each = limits::SERVER_CONNECTIONS / 3 + 1;
    let mut all: Vec<TcpStream> = (0..each).flat_map(|_| [1, 2, 3].map(asks)).collect();
    let mut slow = rig.connect();
    all.extend((0..20).flat_map(|_| [1, 2, 3].map(asks)));
    write!(slow, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(one_answer(&mut slow).ends_with("Get /b"));
}

#[test]
fn an_answer_larger_than_any_buffer_arrives_whole_and_only_its_head_where_that_is_asked_for() {
    let rig = rig(Patience::default(), None);
    let big = rig.exchange(&format!("GET /big HTTP/1.1\r\n{CLOSE}"));
    assert_eq!(big.split_once("\r\n\r\n").unwrap().1.len(), 4 << 20);
    let head = rig.exchange(&format!("HEAD /big HTTP/1.1\r\n{CLOSE}"));
    assert!(head.contains("Content-Length: 4194304\r\n") && head.ends_with("\r\n\r\n"));
    let head = rig.exchange(&format!("HEAD /stream HTTP/1.1\r\n{CLOSE}"));
    assert!(head.ends_with("\r\n\r\n") && head.contains("chunked"), "{head}");
}
