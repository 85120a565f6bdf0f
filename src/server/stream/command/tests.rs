//! Tests of the same conversation over each protocol.

use super::*;
use crate::server::stream::spdy::testing::{Client, Frame, data, frames as spdy_frames};
use crate::server::stream::websocket::Form;
use crate::server::stream::websocket::testing::{binary, frame, frames};

const ALL: Wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };
const TERMINAL: Wanted = Wanted { stdin: true, stdout: true, stderr: false, tty: true };

fn news(streams: &mut Streams, bytes: &[u8]) -> Vec<News> {
    streams.receive(bytes);
    std::iter::from_fn(|| streams.news().unwrap()).collect()
}

fn sent(streams: &mut Streams) -> Vec<u8> {
    let bytes = streams.output().rest().to_vec();
    streams.output().sent(bytes.len());
    bytes
}

fn open(client: &mut Client, types: &[&str]) -> Vec<u8> {
    (0..).zip(types).flat_map(|(at, kind)| client.open(2 * at + 1, 0, &[("streamtype", kind)])).collect()
}

#[test]
fn a_command_over_spdy() {
    let (mut streams, mut client) = (Streams::new(Command::Spdy(4), ALL), Client::new());
    assert_eq!(news(&mut streams, &open(&mut client, &["error", "stdin", "stdout"])), []);
    assert!(!streams.is_ready(), "the stream for errors of the command is not there");
    let mut more = client.open(7, 0, &[("streamtype", "stderr")]);
    more.extend([data(3, 0, b"in"), data(3, 1, b"put")].concat());
    let input = [News::Input(b"in".to_vec()), News::Input(b"put".to_vec()), News::InputEnded];
    assert_eq!(news(&mut streams, &more), input);
    assert!(streams.is_ready());
    sent(&mut streams);
    streams.write(Channel::Stdout, b"out");
    streams.write(Channel::Stderr, b"err");
    streams.end(&Outcome::Success);
    let piece = |stream: u32, text: &[u8]| Frame::Data { stream, flags: 0, bytes: text.to_vec() };
    let end = |stream: u32| Frame::Data { stream, flags: 1, bytes: Vec::new() };
    let told = spdy_frames(&sent(&mut streams));
    let expected = [
        piece(5, b"out"),
        piece(7, b"err"),
        piece(1, Outcome::Success.json().as_bytes()),
        end(5),
        end(7),
        end(1),
        end(3),
    ];
    assert_eq!(told[..7], expected);
    assert!(matches!(told[7..], [Frame::Control { kind: 7, .. }]));
    streams.end(&Outcome::Exit(1));
    streams.write(Channel::Stdout, b"late");
    assert!(sent(&mut streams).is_empty());
}

#[test]
fn only_a_websocket_has_an_answer_to_its_end() {
    let mut streams = Streams::new(Command::WebSocket(5, Form::Raw), ALL);
    streams.end(&Outcome::Success);
    let answer = frame(0x88, &[0x03, 0xe8]);
    let (first, rest) = answer.split_at(3);
    let more = [binary(&[0, 1]), frame(0x89, b"ping"), first.to_vec()].concat();
    assert!(!streams.is_closed_by(&more), "what comes before it is dropped");
    assert!(streams.is_closed_by(rest));

    let mut streams = Streams::new(Command::WebSocket(5, Form::Raw), ALL);
    streams.end(&Outcome::Success);
    assert!(streams.is_closed_by(&[0xff; 16]), "no frame");

    let mut streams = Streams::new(Command::Spdy(4), ALL);
    streams.end(&Outcome::Success);
    assert!(!streams.is_closed_by(&[0; 64]));
}

#[test]
fn what_the_error_stream_says_in_each_version() {
    let check = |version: u8, outcome: &Outcome, expected: &str| {
        let (mut streams, mut client) = (Streams::new(Command::Spdy(version), ALL), Client::new());
        news(&mut streams, &open(&mut client, &["error", "stdin", "stdout", "stderr"]));
        assert!(streams.is_ready());
        sent(&mut streams);
        streams.end(outcome);
        let told: Vec<u8> = spdy_frames(&sent(&mut streams))
            .into_iter()
            .flat_map(|frame| match frame {
                Frame::Data { stream: 1, bytes, .. } => bytes,
                _ => Vec::new(),
            })
            .collect();
        assert_eq!(String::from_utf8(told).unwrap(), expected, "v{version}");
    };
    for version in 1..4 {
        check(version, &Outcome::Success, "");
        check(version, &Outcome::Exit(3), "command terminated with non-zero exit code: exit status 3");
    }
    check(4, &Outcome::Success, &Outcome::Success.json());
    check(4, &Outcome::Exit(3), &Outcome::Exit(3).json());
}

#[test]
fn a_terminal_is_waited_for_where_the_protocol_has_its_size() {
    let size = |width: u16, height: u16| News::Resized(Size { width, height });
    let (mut streams, mut client) = (Streams::new(Command::Spdy(2), TERMINAL), Client::new());
    news(&mut streams, &open(&mut client, &["error", "stdin", "stdout"]));
    assert!(streams.is_ready());
    let (mut streams, mut client) = (Streams::new(Command::Spdy(3), TERMINAL), Client::new());
    news(&mut streams, &open(&mut client, &["error", "stdin", "stdout"]));
    assert!(!streams.is_ready());
    let mut bytes = client.open(7, 0, &[("streamtype", "resize")]);
    bytes.extend(data(7, 0, br#"{"Width":80,"Height":24}{"Width":90,"Hei"#));
    bytes.extend(data(7, 0, br#"ght":30}"#));
    assert_eq!(news(&mut streams, &bytes), [size(80, 24), size(90, 30)]);
    assert!(streams.is_ready());
    // Data that is no size is ignored.
    assert_eq!(news(&mut streams, &data(7, 0, b"what?")), []);
    assert_eq!(news(&mut streams, &data(7, 0, br#" {"Width":1,"Height":2}"#)), [size(1, 2)]);
    assert_eq!(news(&mut streams, &data(7, 0, &vec![b' '; 4000])), []);
}

#[test]
fn streams_that_nobody_asked_for_say_nothing() {
    let (mut streams, mut client) = (Streams::new(Command::Spdy(4), TERMINAL), Client::new());
    let mut bytes = open(&mut client, &["stderr", "what", "stdin", "stdin"]);
    bytes.extend([data(3, 0, b"?"), data(7, 0, b"second"), data(5, 0, b"first")].concat());
    assert_eq!(news(&mut streams, &bytes), [News::Input(b"first".to_vec())]);
    let ended: Vec<u32> = spdy_frames(&sent(&mut streams))
        .into_iter()
        .filter_map(
            |frame| if let Frame::Data { stream, flags: 1, .. } = frame { Some(stream) } else { None },
        )
        .collect();
    assert_eq!(ended, [1, 3, 7]);
}

#[test]
fn a_command_over_websocket() {
    let mut streams = Streams::new(Command::WebSocket(5, Form::Raw), ALL);
    assert!(streams.is_ready());
    assert_eq!(frames(&sent(&mut streams)), [(0x82, vec![1])], "the client sees that the streams are there");
    let bytes = [
        binary(b"\x00input"),
        binary(b"\x00"),
        binary(b"\x01?"),
        binary(b"\x04{\"Width\":80,\"Height\":24}"),
        binary(&[255, 0]),
        frame(0x88, &[]),
    ];
    let expected = [
        News::Input(b"input".to_vec()),
        News::Resized(Size { width: 80, height: 24 }),
        News::InputEnded,
        News::Gone,
    ];
    assert_eq!(news(&mut streams, &bytes.concat()), expected);

    let mut streams = Streams::new(Command::WebSocket(4, Form::Raw), ALL);
    sent(&mut streams);
    streams.write(Channel::Stdout, b"out");
    streams.end(&Outcome::Exit(7));
    let mut status = vec![3];
    status.extend(Outcome::Exit(7).json().into_bytes());
    let expected = [(0x82, b"\x01out".to_vec()), (0x82, status), (0x88, vec![3, 232])];
    assert_eq!(frames(&sent(&mut streams)), expected);
}

#[test]
fn the_first_channel_is_the_lowest_that_is_written() {
    let check = |stdout: bool, stderr: bool, first: u8| {
        let wanted = Wanted { stdin: true, stdout, stderr, tty: false };
        let mut streams = Streams::new(Command::WebSocket(1, Form::Raw), wanted);
        assert_eq!(frames(&sent(&mut streams)), [(0x82, vec![first])]);
        streams.end(&Outcome::Success);
        assert_eq!(frames(&sent(&mut streams)), [(0x88, vec![3, 232])], "version 1 has no word for success");
    };
    check(true, true, 1);
    check(false, true, 2);
    check(false, false, 3);
}
