//! Tests of messages before a command is started, over real sockets.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::event::{Timespec, poll};

use super::*;
use crate::server::census::Census;
use crate::server::stream::spdy::testing::{Client as Speaker, data, numbers};
use crate::server::transport::Transport;

/// A command with input and output over SPDY, and its client.
fn begun() -> (Relay, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, peer) = listener.accept().unwrap();
    let seat = Census::new(1, 1).enter(crate::server::census::Client::at(peer.ip())).unwrap();
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
