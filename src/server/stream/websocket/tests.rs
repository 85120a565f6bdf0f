//! Tests of sockets and channels with frames as clients write them.

use proptest::prelude::*;

use super::channels::{Channels, Form, News};
use super::socket::{Message, Socket};
use super::testing::{binary, frame, frames};
use crate::base::limits;
use crate::server::stream::Fault;

fn messages(socket: &mut Socket, bytes: &[u8]) -> Result<Vec<Message>, Fault> {
    socket.receive(bytes);
    let mut messages = Vec::new();
    while let Some(message) = socket.news()? {
        messages.push(message);
    }
    Ok(messages)
}

fn sent(socket: &mut Socket) -> Vec<(u8, Vec<u8>)> {
    let bytes = socket.output().rest().to_vec();
    socket.output().sent(bytes.len());
    frames(&bytes)
}

fn bytes_of(text: &[u8]) -> Message {
    Message::Bytes(text.to_vec())
}

#[test]
fn messages_pings_and_the_end() {
    let mut socket = Socket::new();
    let all = [
        binary(b"one"),
        frame(0x81, b"text"),
        frame(0x02, b"in "),
        frame(0x89, b"ping"),
        frame(0x00, b"three "),
        frame(0x80, b"parts"),
        frame(0x8a, b"an answer nobody asked for"),
        binary(b""),
    ]
    .concat();
    let expected = [bytes_of(b"one"), bytes_of(b"text"), bytes_of(b"in three parts"), bytes_of(b"")];
    assert_eq!(messages(&mut socket, &all).unwrap(), expected);
    assert_eq!(sent(&mut socket), [(0x8a, b"ping".to_vec())]);
    socket.send(b"answer".to_vec());
    socket.send_text("text".to_owned());
    assert_eq!(sent(&mut socket), [(0x82, b"answer".to_vec()), (0x81, b"text".to_vec())]);
    let close = [3, 232];
    assert_eq!(messages(&mut socket, &frame(0x88, &close)).unwrap(), [Message::Closed]);
    assert_eq!(sent(&mut socket), [(0x88, close.to_vec())]);
    socket.send(b"too late".to_vec());
    assert_eq!(messages(&mut socket, &binary(b"too late")).unwrap(), []);
    assert_eq!(sent(&mut socket), []);
}

#[test]
fn we_end_it() {
    let mut socket = Socket::new();
    socket.send(b"last".to_vec());
    socket.close();
    socket.close();
    assert_eq!(sent(&mut socket), [(0x82, b"last".to_vec()), (0x88, vec![3, 232])]);
    // The client's bytes from before it saw that, and its answer.
    let told = messages(&mut socket, &[binary(b"late"), frame(0x88, &[3, 232])].concat()).unwrap();
    assert_eq!(told, [bytes_of(b"late"), Message::Closed]);
}

#[test]
fn bytes_that_are_not_websocket_end_the_connection() {
    let check = |bytes: &[u8], code: u16, why: &str| {
        let mut socket = Socket::new();
        let Err(Fault(got)) = messages(&mut socket, bytes) else { panic!("{bytes:?} is taken") };
        assert!(got.contains(why), "{got}");
        assert_eq!(sent(&mut socket), [(0x88, code.to_be_bytes().to_vec())], "{why}");
    };
    check(&[0x82, 3, b'a', b'b', b'c'], 1002, "unmasked");
    check(&frame(0xf2, b"x"), 1002, "eserved bits");
    check(&frame(0x83, b"x"), 1002, "invalid opcode");
    check(&frame(0x80, b"goes on without having begun"), 1002, "ontinue frame");
    check(&frame(0x09, b"a ping in parts"), 1002, "ragmented");
    check(&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], 1009, "too long");
    let half = vec![0; limits::WEBSOCKET_MESSAGE / 2 + 1];
    check(&[frame(0x02, &half), frame(0x80, &half)].concat(), 1009, "too long");
}

fn channels(form: Form, closes: bool, bytes: &[u8]) -> Vec<News> {
    let mut channels = Channels::new(form, closes);
    channels.receive(bytes);
    std::iter::from_fn(|| channels.news().unwrap()).collect()
}

#[test]
fn a_message_belongs_to_a_channel() {
    let data = |channel: u8, bytes: &[u8]| News::Data { channel, bytes: bytes.to_vec() };
    let raw = [binary(b"\x00hallo"), binary(b""), binary(b"\x04"), binary(&[255, 0])].concat();
    let mut expected = vec![data(0, b"hallo"), data(4, b""), data(255, &[0])];
    assert_eq!(channels(Form::Raw, false, &raw), expected);
    expected[2] = News::Ended { channel: 0 };
    assert_eq!(channels(Form::Raw, true, &raw), expected);
    let text = [frame(0x81, b"0aGFsbG8="), frame(0x81, b"0?"), frame(0x81, b"!aGFsbG8="), frame(0x88, b"")];
    assert_eq!(channels(Form::Base64, false, &text.concat()), [data(0, b"hallo"), News::Closed]);
}

#[test]
fn what_is_sent_on_a_channel() {
    let check = |form: Form, bytes: &[u8], expected: &[(u8, Vec<u8>)]| {
        let mut channels = Channels::new(form, false);
        channels.send(2, bytes);
        assert_eq!(frames(channels.output().rest()), expected);
    };
    check(Form::Raw, b"", &[(0x82, vec![2])]);
    check(Form::Raw, b"ab", &[(0x82, b"\x02ab".to_vec())]);
    check(Form::Base64, b"", &[(0x81, b"2".to_vec())]);
    check(Form::Base64, b"hallo", &[(0x81, b"2aGFsbG8=".to_vec())]);
    let mut long = Channels::new(Form::Raw, false);
    long.send(1, &vec![7; limits::WEBSOCKET_DATA + 1]);
    let lengths: Vec<usize> = frames(long.output().rest()).iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [limits::WEBSOCKET_DATA + 1, 2]);
}

proptest! {
    #[test]
    fn any_cut_of_the_bytes_gives_the_same(
        messages_sent in proptest::collection::vec((0..4_u8, proptest::collection::vec(any::<u8>(), 0..400)), 0..20),
        cuts in proptest::collection::vec(1..150_usize, 1..40),
    ) {
        let bytes: Vec<u8> = messages_sent.iter().flat_map(|(what, payload)| match what {
            0 => frame(0x89, &payload[..payload.len().min(125)]),
            1 => [frame(0x02, payload), frame(0x80, payload)].concat(),
            _ => binary(payload),
        }).collect();
        let (mut whole, mut cut) = (Socket::new(), Socket::new());
        let expected = messages(&mut whole, &bytes).unwrap();
        let (mut rest, mut got) = (bytes.as_slice(), Vec::new());
        for size in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            got.extend(messages(&mut cut, piece).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn no_bytes_bring_it_down(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = messages(&mut Socket::new(), &bytes);
    }
}
