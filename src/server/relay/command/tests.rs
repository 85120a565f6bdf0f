//! What comes before a command is started, over real sockets.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::server::census::Census;
use crate::server::stream::spdy::testing::{Client as Speaker, data};
use crate::server::transport::Transport;

/// A command with input and output over SPDY, and its client.
fn begun() -> (Relay, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, peer) = listener.accept().unwrap();
    let seat = Census::new(1, 1).enter(peer.ip()).unwrap();
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
