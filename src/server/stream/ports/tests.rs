//! Tests of the same conversation over each protocol.

use super::*;
use crate::server::stream::spdy::testing::{Client, Frame, data, frames as spdy_frames, numbers};
use crate::server::stream::websocket::Form;
use crate::server::stream::websocket::testing::{binary, frame, frames};

fn news(pairs: &mut Pairs, bytes: &[u8]) -> Vec<News> {
    pairs.receive(bytes);
    std::iter::from_fn(|| pairs.news().unwrap()).collect()
}

fn sent(pairs: &mut Pairs) -> Vec<u8> {
    let bytes = pairs.output().rest().to_vec();
    pairs.output().sent(bytes.len());
    bytes
}

fn open(client: &mut Client, stream: u32, kind: &str, port: &str, request: Option<&str>) -> Vec<u8> {
    let mut headers = vec![("streamtype", kind), ("port", port)];
    headers.extend(request.map(|id| ("requestid", id)));
    client.open(stream, u8::from(kind == "error"), &headers)
}

const FIRST: PairId = PairId(0);
const SECOND: PairId = PairId(1);

fn piece(stream: u32, flags: u8, bytes: &[u8]) -> Frame {
    Frame::Data { stream, flags, bytes: bytes.to_vec() }
}

fn sent_data(pairs: &mut Pairs) -> Vec<Frame> {
    let frames = spdy_frames(&sent(pairs));
    frames.into_iter().filter(|frame| matches!(frame, Frame::Data { .. })).collect()
}

#[test]
fn connections_over_spdy() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
    let mut bytes = open(&mut client, 1, "error", "80", Some("0"));
    bytes.extend(open(&mut client, 3, "data", "80", Some("0")));
    // The second pair comes in the other order, with data before it is complete.
    bytes.extend(open(&mut client, 5, "data", "443", Some("1")));
    bytes.extend([data(5, 1, b"early"), data(3, 0, b"hallo")].concat());
    bytes.extend(open(&mut client, 7, "error", "443", Some("1")));
    let expected = [
        News::Opened { pair: FIRST, port: 80 },
        News::Data { pair: FIRST, bytes: b"hallo".to_vec() },
        News::Opened { pair: SECOND, port: 443 },
        News::Data { pair: SECOND, bytes: b"early".to_vec() },
        News::Ended { pair: SECOND },
    ];
    assert_eq!(news(&mut pairs, &bytes), expected);
    sent(&mut pairs);
    pairs.write(FIRST, b"answer");
    pairs.finish(FIRST);
    assert_eq!(sent_data(&mut pairs), [piece(3, 0, b"answer"), piece(3, 1, b"")]);
    assert_eq!(news(&mut pairs, &data(3, 0, b"more")), [News::Data { pair: FIRST, bytes: b"more".to_vec() }]);
    pairs.close(FIRST, None);
    pairs.close(FIRST, Some("never said"));
    assert_eq!(sent_data(&mut pairs), [piece(1, 1, b"")], "no word means success");
    pairs.close(SECOND, Some("refused"));
    assert_eq!(sent_data(&mut pairs), [piece(7, 0, b"refused"), piece(7, 1, b""), piece(5, 1, b"")]);
    assert_eq!(news(&mut pairs, &data(3, 1, b"late")), []);
    assert!(!pairs.is_over());
    // A request id may be used again.
    let again =
        [open(&mut client, 9, "error", "80", Some("0")), open(&mut client, 11, "data", "80", Some("0"))];
    assert_eq!(news(&mut pairs, &again.concat()), [News::Opened { pair: PairId(2), port: 80 }]);
    assert_eq!(news(&mut pairs, &numbers(3, 0, &[11, 5])), [News::Reset { pair: PairId(2) }]);
}

#[test]
fn old_clients_name_no_pair() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
    let bytes =
        [open(&mut client, 1, "error", "80", None), open(&mut client, 3, "data", "80", None)].concat();
    assert_eq!(news(&mut pairs, &bytes), [News::Opened { pair: FIRST, port: 80 }]);
}

#[test]
fn streams_that_say_no_port_are_reset() {
    let check = |kind: &str, port: &str| {
        let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
        assert_eq!(news(&mut pairs, &open(&mut client, 1, kind, port, Some("0"))), []);
        let reset = [1_u32.to_be_bytes(), 1_u32.to_be_bytes()].concat();
        assert_eq!(spdy_frames(&sent(&mut pairs)), [Frame::Control { kind: 3, body: reset }]);
    };
    check("data", "0");
    check("data", "65536");
    check("data", "http");
    check("data", "");
    check("stdin", "80");
}

#[test]
fn halves_of_pairs_are_given_up() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
    let bytes =
        [open(&mut client, 1, "error", "80", Some("a")), open(&mut client, 3, "data", "80", Some("b"))];
    assert_eq!(news(&mut pairs, &bytes.concat()), []);
    sent(&mut pairs);
    pairs.look();
    assert!(sent(&mut pairs).is_empty());
    pairs.look();
    let told = spdy_frames(&sent(&mut pairs));
    let text = b"error forwarding port: request a: timed out waiting for streams";
    assert_eq!(told[..2], [piece(1, 0, text), piece(1, 1, b"")]);
    assert!(matches!(told[2..], [Frame::Control { kind: 3, .. }]));
    // Early data is bounded.
    let bytes =
        [open(&mut client, 5, "data", "80", Some("c")), data(5, 0, &vec![0; limits::FORWARD_EARLY + 1])];
    assert_eq!(news(&mut pairs, &bytes.concat()), []);
    assert!(matches!(spdy_frames(&sent(&mut pairs)).last(), Some(Frame::Control { kind: 3, .. })));
}

#[test]
fn the_early_data_of_all_halves_has_one_bound() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
    let (mut kept, mut stream) = (0, 1);
    for at in 0..100 {
        let id = at.to_string();
        let bytes = open(&mut client, stream, "data", "80", Some(&id));
        let bytes = [bytes, data(stream, 0, &vec![0; limits::FORWARD_EARLY])].concat();
        assert_eq!(news(&mut pairs, &bytes), []);
        let is_reset = matches!(spdy_frames(&sent(&mut pairs)).last(), Some(Frame::Control { kind: 3, .. }));
        kept += if is_reset { 0 } else { limits::FORWARD_EARLY };
        stream += 2;
    }
    assert!(kept > 0 && kept <= limits::FORWARD_WAITING, "{kept}");
    // A very long request id is refused.
    let long = "r".repeat(60_000);
    assert_eq!(news(&mut pairs, &open(&mut client, stream, "data", "80", Some(&long))), []);
    assert!(matches!(spdy_frames(&sent(&mut pairs)).last(), Some(Frame::Control { kind: 3, .. })));
}

#[test]
fn no_more_connections_than_the_bound() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Spdy, &[]), Client::new());
    let mut opened = 0;
    for at in 0..=u32::try_from(limits::FORWARDED).unwrap() {
        let id = at.to_string();
        let mut bytes = open(&mut client, 4 * at + 1, "error", "80", Some(&id));
        bytes.extend(open(&mut client, 4 * at + 3, "data", "80", Some(&id)));
        opened += news(&mut pairs, &bytes).len();
    }
    assert_eq!(opened, limits::FORWARDED);
    assert!(matches!(spdy_frames(&sent(&mut pairs)).last(), Some(Frame::Control { kind: 3, .. })));
}

#[test]
fn connections_through_a_tunnel() {
    let (mut pairs, mut client) = (Pairs::new(Forward::Tunnel, &[]), Client::new());
    let bytes =
        [open(&mut client, 1, "error", "80", Some("0")), open(&mut client, 3, "data", "80", Some("0"))]
            .concat();
    // Messages may end anywhere.
    let mut messages: Vec<u8> = bytes.chunks(7).flat_map(binary).collect();
    messages.extend(binary(&data(3, 0, b"hallo")));
    messages.extend(frame(0x88, &[]));
    let expected = [
        News::Opened { pair: FIRST, port: 80 },
        News::Data { pair: FIRST, bytes: b"hallo".to_vec() },
        News::Gone,
    ];
    let (before, after) = messages.split_at(messages.len() - 6);
    assert_eq!(news(&mut pairs, before), expected[..2]);
    pairs.write(FIRST, b"answer");
    pairs.end();
    let told = frames(&sent(&mut pairs));
    let inner: Vec<u8> =
        told.iter().filter(|(first, _)| *first == 0x82).flat_map(|(_, bytes)| bytes.clone()).collect();
    assert!(spdy_frames(&inner).contains(&piece(3, 0, b"answer")));
    assert!(matches!(spdy_frames(&inner).last(), Some(Frame::Control { kind: 7, .. })));
    assert_eq!(told.last(), Some(&(0x88, vec![3, 232])));
    assert_eq!(news(&mut pairs, after), expected[2..]);
}

#[test]
fn ports_over_websocket() {
    let mut pairs = Pairs::new(Forward::WebSocket(Form::Raw), &[80, 443]);
    let opened = [News::Opened { pair: FIRST, port: 80 }, News::Opened { pair: SECOND, port: 443 }];
    assert_eq!(news(&mut pairs, &[]), opened);
    let first = [vec![0, 80, 0], vec![1, 80, 0], vec![2, 187, 1], vec![3, 187, 1]].map(|bytes| (0x82, bytes));
    assert_eq!(frames(&sent(&mut pairs)), first);
    let bytes = [binary(b"\x02hallo"), binary(b"\x03?"), binary(b"\x09?"), binary(b"\x00")].concat();
    assert_eq!(news(&mut pairs, &bytes), [News::Data { pair: SECOND, bytes: b"hallo".to_vec() }]);
    pairs.write(SECOND, b"answer");
    pairs.close(FIRST, Some("refused"));
    pairs.write(FIRST, b"late");
    assert_eq!(frames(&sent(&mut pairs)), [(0x82, b"\x02answer".to_vec()), (0x82, b"\x01refused".to_vec())]);
    assert!(!pairs.is_over());
    pairs.close(SECOND, None);
    assert!(pairs.is_over());
    pairs.end();
    assert_eq!(frames(&sent(&mut pairs)), [(0x88, vec![3, 232])]);
}

#[test]
fn ports_of_a_request() {
    let check = |values: &[&str], expected: Result<&[u16], &str>| {
        let got = requested(values.iter().copied());
        assert_eq!(got.as_deref().map_err(String::as_str), expected, "{values:?}");
    };
    check(&["80"], Ok(&[80]));
    check(&["80,443", "80"], Ok(&[80, 443, 80]));
    check(&[], Err("query parameter \"port\" is required"));
    check(&[""], Err("query parameter \"port\" cannot be empty"));
    check(&["0"], Err("port \"0\" must be > 0"));
    check(&["x"], Err("unable to parse \"x\" as a port: invalid digit found in string"));
    check(&["80,"], Err("unable to parse \"80,\" as a port: cannot parse integer from empty string"));
    check(&[["80"; 101].join(",").as_str()], Err("more than 100 ports"));
}
