//! Tests of messages before a command is started, over real sockets.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, poll};

use super::*;
use crate::server::census::{Census, Seat};
use crate::server::stream::spdy::testing::{Client as Speaker, data, numbers};
use crate::server::transport::Transport;

/// An accepted connection, and its client.
fn connected() -> (TcpStream, Seat, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, peer) = listener.accept().unwrap();
    let seat = Census::new(1, 1).enter(crate::server::census::Client::at(peer.ip())).unwrap();
    (socket, seat, client)
}

/// A command with input and output over SPDY, and its client.
fn begun() -> (Relay, TcpStream) {
    let (socket, seat, client) = connected();
    let transport = Transport::new(socket, None, seat).unwrap();
    let relay = Relay {
        client: Client::new(Upgraded { transport, early: Vec::new() }),
        streams: Streams::new(
            Command::Spdy(4),
            Wanted { stdin: true, stdout: true, stderr: false, tty: false },
        ),
        input: Vec::new(),
        is_ended: false,
        size: None,
        has_poured: false,
        active: Instant::now(),
        pace: Pace::default(),
    };
    (relay, client)
}

#[test]
fn streams_that_come_with_much_input_before_them_are_found_at_once() {
    let (mut relay, mut client) = begun();
    let mut speaker = Speaker::new();
    let mut bytes = speaker.open(1, 0, &[("streamtype", "error")]);
    bytes.extend(speaker.open(3, 0, &[("streamtype", "stdin")]));
    for _ in 0..3 * limits::STREAM_TURN {
        bytes.extend(data(3, 0, b"x"));
    }
    bytes.extend(speaker.open(5, 0, &[("streamtype", "stdout")]));
    client.write_all(&bytes).unwrap();
    relay.wait_for_streams().unwrap();
    assert_eq!(relay.input.len(), 3 * limits::STREAM_TURN);
}

#[test]
fn a_client_that_takes_no_answers_costs_no_time() {
    let (mut relay, mut client) = begun();
    client.set_nonblocking(true).unwrap();
    let (tell, told) = crossbeam_channel::bounded(1);
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
        relay.wait_for_streams().is_err()
    });
    let file = format!("/proc/self/task/{}/schedstat", told.recv().unwrap());
    let time = || {
        let text = fs::read_to_string(&file).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    };
    // Pings are sent until they are not read any more, and until those that were read are answered.
    let pings = numbers(6, 0, &[1]).repeat(4096);
    let (begun, mut at) = (Instant::now(), 0);
    loop {
        match client.write(&pings[at..]) {
            Ok(count) => at = (at + count) % pings.len(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let before = time();
                let mut set = [PollFd::new(&client, PollFlags::OUT)];
                let patience = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
                let is_full = poll(&mut set, Some(&patience)).unwrap() == 0;
                if is_full && time().saturating_sub(before) < Duration::from_millis(50) {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < limits::STREAMS_CREATED / 2, "it does not come to rest");
    }
    drop(client);
    assert!(thread.join().unwrap(), "it has gone");
}

/// The end of TLS had no room in the socket, and a thread ran in circles until the client closed.
#[test]
fn a_client_that_takes_nothing_at_the_end_costs_no_time() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, secret) = (vec![key.cert.der().clone()], key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(chain, secret.try_into().unwrap()).unwrap();
    let (socket, seat, client) = connected();
    let mut transport = Transport::new(socket, Some(Arc::new(config)), seat).unwrap();
    let theirs = crate::base::tls::of_any_server(provider).unwrap().with_no_client_auth();
    let theirs = rustls::ClientConnection::new(Arc::new(theirs), "localhost".try_into().unwrap()).unwrap();
    let shaking = std::thread::spawn(move || {
        let mut stream = rustls::StreamOwned::new(theirs, client);
        stream.write_all(b"x").unwrap();
        stream
    });
    let mut read = Vec::new();
    while read.is_empty() {
        transport.read(&mut read, 1).unwrap();
    }
    let client = shaking.join().unwrap();
    while transport.write(&[0; 16_384]).unwrap() > 0 {}
    assert!(transport.wants_write(), "there is no room for more");
    let time = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let begun = time();
    Client::new(Upgraded { transport, early: Vec::new() }).linger(Duration::from_secs(1), &mut |_| false);
    let spent = time() - begun;
    assert!((spent.tv_sec, spent.tv_nsec) < (0, 200_000_000), "{spent:?}");
    drop(client);
}
