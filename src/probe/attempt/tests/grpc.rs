//! gRPC health checks of a gRPC server and of other servers. The gRPC server is part of the tests: it reads
//! the call as HTTP/2 specifies it and answers with the bytes that grpcio 1.85.1 (the C core) sent for the
//! same calls.

use super::*;
use crate::probe::hpack::Decoder;

fn grpc(port: u16, service: &str) -> Action {
    Action::Grpc { port, service: service.into() }
}

#[test]
fn grpc_without_a_server_for_it() {
    let port = closed();
    let text = format!(
        "error: failed to connect service at \"127.0.0.1:{port}\": dial tcp 127.0.0.1:{port}: connect: \
         connection refused"
    );
    assert_eq!(ask(&grpc(port, "")), failed(&text));
    let mut kept = Vec::new();
    let silent = server(move |stream| kept.push(stream));
    let Outcome::Failed(text) = ask_shortly(&grpc(silent, "")) else { panic!() };
    assert!(
        text.starts_with(&format!("timeout: failed to connect service \"127.0.0.1:{silent}\"")),
        "{text}"
    );
    let plain = says("HTTP/1.1 400 Bad Request\r\n\r\n");
    let Outcome::Failed(text) = ask(&grpc(plain, "")) else { panic!() };
    assert!(text.starts_with("error: "), "{text}");
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const HEADERS: u8 = 1;
const DATA: u8 = 0;
/// The acknowledgement bit of settings and ping.
const ACK: u8 = 1;

/// A frame: kind, flags, stream, payload.
type Frame = (u8, u8, u32, Vec<u8>);

fn read_frame(stream: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
    let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap()];
    stream.read_exact(&mut payload).unwrap();
    Some((kind, flags, u32::from_be_bytes([s1, s2, s3, s4]), payload))
}

/// Reads a whole call; returns the name of the service.
fn read_call(stream: &mut TcpStream) -> String {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).unwrap();
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let (kind, flags, id, _) = read_frame(stream).unwrap();
    assert_eq!((kind, flags, id), (SETTINGS, 0, 0));
    let (kind, flags, id, block) = read_frame(stream).unwrap();
    assert_eq!((kind, flags, id), (HEADERS, 4, 1));
    let headers = Decoder::default().read(&block).unwrap();
    let header = |name: &str| {
        let found = headers.iter().find(|(of, _)| of == name.as_bytes());
        String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1.clone()).unwrap()
    };
    assert_eq!(header(":method"), "POST");
    assert_eq!(header(":scheme"), "http");
    assert_eq!(header(":path"), "/grpc.health.v1.Health/Check");
    assert!(header(":authority").starts_with("127.0.0.1:"));
    assert_eq!(header("content-type"), "application/grpc");
    assert_eq!(header("te"), "trailers");
    assert!(header("grpc-timeout").ends_with('m'));
    let (kind, flags, id, data) = read_frame(stream).unwrap();
    assert_eq!((kind, flags, id), (DATA, 1, 1), "it ends the stream");
    let (prefix, message) = data.split_at(5);
    assert_eq!(prefix, [0, 0, 0, 0, u8::try_from(message.len()).unwrap()]);
    match message {
        [] => String::new(),
        [0x0a, length, name @ ..] => {
            assert_eq!(usize::from(*length), name.len());
            String::from_utf8(name.to_vec()).unwrap()
        }
        other => panic!("no HealthCheckRequest: {other:?}"),
    }
}

/// Reads the acknowledgements of its settings and its ping, which the protocol requires.
fn read_acks(stream: &mut TcpStream) {
    let mut missing = vec![SETTINGS, PING];
    while !missing.is_empty() {
        let Some((kind, flags, ..)) = read_frame(stream) else { return };
        assert_eq!(flags, ACK);
        missing.retain(|of| *of != kind);
    }
}

/// The server. `cut`: how many bytes it sends at a time.
fn health_server(cut: usize) -> u16 {
    server(move |mut stream| {
        let recorded: &[u8] = match read_call(&mut stream).as_str() {
            "" => include_bytes!("../../../../tests/golden/probe/grpc-serving.bin"),
            "sick" => include_bytes!("../../../../tests/golden/probe/grpc-not-serving.bin"),
            "nope" => include_bytes!("../../../../tests/golden/probe/grpc-not-found.bin"),
            "other" => include_bytes!("../../../../tests/golden/probe/grpc-unimplemented.bin"),
            // Its settings only.
            "slow" => &include_bytes!("../../../../tests/golden/probe/grpc-serving.bin")[..33],
            other => panic!("{other}"),
        };
        stream.set_nodelay(true).unwrap();
        for piece in recorded.chunks(cut) {
            stream.write_all(piece).unwrap();
        }
        thread::spawn(move || read_acks(&mut stream));
    })
}

#[test]
fn grpc_with_the_bytes_of_a_real_server() {
    // Whole, and byte by byte.
    for port in [health_server(4096), health_server(1)] {
        assert_eq!(ask(&grpc(port, "")), Outcome::Passed);
        assert_eq!(ask(&grpc(port, "sick")), failed("service unhealthy (responded with \"NOT_SERVING\")"));
        assert_eq!(
            ask(&grpc(port, "nope")),
            failed(
                "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service: 100% new"
            )
        );
        assert_eq!(
            ask(&grpc(port, "other")),
            failed(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): \
                 Method not found!"
            )
        );
    }
    let slow = ask_with(&grpc(health_server(4096), "slow"), Duration::from_secs(1), None);
    assert_eq!(slow, failed("timeout: health rpc did not complete within 1s"));
}
