//! Tests of the session with frames as clients write them.

use proptest::prelude::*;
use zlib_rs::{Inflate, InflateError, InflateFlush};

use super::frame::{FIN, Reason, UNIDIRECTIONAL};
use super::headers::Empty;
use super::testing::{Client, Frame, control, data, frames, numbers};
use super::{Event, Session, StreamId, dictionary};
use crate::base::limits;
use crate::server::stream::Fault;

fn events(session: &mut Session, bytes: &[u8]) -> Result<Vec<Event>, Fault> {
    session.receive(bytes);
    let mut events = Vec::new();
    while let Some(event) = session.news()? {
        events.push(event);
    }
    Ok(events)
}

fn sent(session: &mut Session) -> Vec<Frame> {
    let bytes = session.output().rest().to_vec();
    session.output().sent(bytes.len());
    frames(&bytes)
}

/// The events with the data of each stream joined, so that cuts in the bytes do not matter.
fn joined(events: Vec<Event>) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    for event in events {
        match (all.last_mut(), event) {
            (Some(Event::Data { stream: of, bytes: to }), Event::Data { stream, bytes }) if *of == stream => {
                to.extend(bytes);
            }
            (_, event) => all.push(event),
        }
    }
    all
}

fn open(session: &mut Session, client: &mut Client, stream: StreamId) {
    let opened = events(session, &client.open(stream, 0, &[("streamtype", "stdin")])).unwrap();
    assert!(matches!(opened.as_slice(), [Event::Opened { stream: of, .. }] if *of == stream));
    session.accept(stream);
}

#[test]
fn a_command_with_input_and_output() {
    let (mut session, mut client) = (Session::new(), Client::new());
    let mut bytes = client.open(1, 0, &[("streamtype", "error")]);
    bytes.extend(client.open(3, 0, &[("streamtype", "stdin"), ("x", "a\0b")]));
    let got = events(&mut session, &bytes).unwrap();
    let [Event::Opened { stream: 1, headers: error }, Event::Opened { stream: 3, headers: stdin }] =
        got.as_slice()
    else {
        panic!("{got:?}")
    };
    assert_eq!((error.get("streamtype"), error.get("x")), (Some("error"), None));
    assert_eq!((stdin.get("streamtype"), stdin.get("x")), (Some("stdin"), Some("a")));
    session.accept(1);
    session.accept(3);
    let replies = sent(&mut session);
    assert!(matches!(replies.as_slice(), [Frame::Control { kind: 2, .. }, Frame::Control { kind: 2, .. }]));

    let input = [data(3, 0, b"hallo"), data(3, FIN, b"!")].concat();
    let expected = [
        Event::Data { stream: 3, bytes: b"hallo".to_vec() },
        Event::Data { stream: 3, bytes: b"!".to_vec() },
        Event::Finished { stream: 3 },
    ];
    assert_eq!(events(&mut session, &input).unwrap(), expected);
    session.send(3, b"answer");
    session.finish(3);
    session.send(3, b"too late");
    session.finish(3);
    session.go_away();
    session.go_away();
    let expected = [
        Frame::Data { stream: 3, flags: 0, bytes: b"answer".to_vec() },
        Frame::Data { stream: 3, flags: FIN, bytes: Vec::new() },
        Frame::Control { kind: 7, body: [3_u32.to_be_bytes(), [0; 4]].concat() },
    ];
    assert_eq!(sent(&mut session), expected);
    // After GOAWAY no stream is accepted.
    assert_eq!(events(&mut session, &client.open(5, 0, &[])).unwrap(), []);
    let refused = Frame::Control { kind: 3, body: [5_u32.to_be_bytes(), 3_u32.to_be_bytes()].concat() };
    assert_eq!(sent(&mut session), [refused]);
}

#[test]
fn what_clients_say_beside_the_streams() {
    let (mut session, mut client) = (Session::new(), Client::new());
    open(&mut session, &mut client, 1);
    sent(&mut session);
    let mut check = |bytes: Vec<u8>, told: &[Event], answer: &[Frame]| {
        assert_eq!(events(&mut session, &bytes).unwrap(), told, "{bytes:?}");
        assert_eq!(sent(&mut session), answer, "{bytes:?}");
    };
    let ping = |id: u32| Frame::Control { kind: 6, body: id.to_be_bytes().to_vec() };
    check(numbers(6, 0, &[1]), &[], &[ping(1)]);
    check(numbers(6, 0, &[2]), &[], &[]);
    // Settings, window updates, and an unknown type.
    check(numbers(4, 0, &[1, 7, 65_536]), &[], &[]);
    check(numbers(9, 0, &[1, 65_536]), &[], &[]);
    check(control(4711, 0, b"what?"), &[], &[]);
    // Data and resets of streams that do not exist.
    check(data(77, FIN, b"lost"), &[], &[]);
    check(numbers(3, 0, &[77, 5]), &[], &[]);
    check(control(8, 0, &[&1_u32.to_be_bytes()[..], &client.headers(&[("a", "b")])].concat()), &[], &[]);
    let last = control(8, FIN, &[&1_u32.to_be_bytes()[..], &client.headers(&[])].concat());
    check(last, &[Event::Finished { stream: 1 }], &[]);
    check(data(1, 0, b"after its end"), &[], &[]);
    check(numbers(3, 0, &[1, 5]), &[Event::Reset { stream: 1 }], &[]);
    check(numbers(7, 0, &[1, 0]), &[Event::GoneAway], &[]);
}

#[test]
fn streams_are_refused_that_break_the_rules_or_the_bounds() {
    let (mut session, mut client) = (Session::new(), Client::new());
    open(&mut session, &mut client, 3);
    sent(&mut session);
    let refusal = |stream: u32, reason: u32| Frame::Control {
        kind: 3,
        body: [stream.to_be_bytes(), reason.to_be_bytes()].concat(),
    };
    for stream in [0, 2, 3, 1] {
        assert_eq!(events(&mut session, &client.open(stream, 0, &[])).unwrap(), []);
        assert_eq!(sent(&mut session), [refusal(stream, 1)]);
    }
    let mut next = 5;
    while session.streams_open() < limits::SPDY_STREAMS {
        open(&mut session, &mut client, next);
        next += 2;
    }
    sent(&mut session);
    assert_eq!(events(&mut session, &client.open(next, 0, &[])).unwrap(), []);
    assert_eq!(sent(&mut session), [refusal(next, 3)]);
    // A stream that ends on both sides makes room.
    session.reset(3, Reason::Cancel);
    assert_eq!(sent(&mut session), [refusal(3, 5)]);
    open(&mut session, &mut client, next + 2);
}

#[test]
fn a_stream_that_its_opener_ends_at_once_is_there_to_be_written_to() {
    let (mut session, mut client) = (Session::new(), Client::new());
    let told = events(&mut session, &client.open(1, FIN, &[])).unwrap();
    assert!(matches!(told.as_slice(), [Event::Opened { stream: 1, .. }, Event::Finished { stream: 1 }]));
    session.accept(1);
    session.send(1, b"x");
    session.finish(1);
    assert_eq!(sent(&mut session).len(), 3);
    // A stream without our side: nothing can be sent on it.
    events(&mut session, &client.open(3, UNIDIRECTIONAL, &[])).unwrap();
    session.send(3, b"x");
    session.finish(3);
    assert_eq!(sent(&mut session), []);
    assert_eq!(events(&mut session, &data(3, FIN, b"")).unwrap(), [Event::Finished { stream: 3 }]);
    assert_eq!(session.streams_open(), 0);
    // A stream that is reset at once hides no later frame.
    session.receive(&[client.open(5, FIN, &[]), client.open(7, 0, &[])].concat());
    assert!(matches!(session.news(), Ok(Some(Event::Opened { stream: 5, .. }))));
    session.reset(5, Reason::ProtocolError);
    assert!(matches!(session.news(), Ok(Some(Event::Opened { stream: 7, .. }))));
}

#[test]
fn what_is_taken_is_acknowledged() {
    let (mut session, mut client) = (Session::new(), Client::new());
    open(&mut session, &mut client, 1);
    sent(&mut session);
    let half = limits::SPDY_ACKNOWLEDGE as usize;
    let update = |stream: u32, bytes: usize| Frame::Control {
        kind: 9,
        body: [stream.to_be_bytes(), u32::try_from(bytes).unwrap().to_be_bytes()].concat(),
    };
    session.taken(1, half - 1);
    assert_eq!(sent(&mut session), []);
    session.taken(1, 2);
    assert_eq!(sent(&mut session), [update(0, half + 1), update(1, half + 1)]);
    // Unwanted data counts for the connection.
    events(&mut session, &data(9, 0, &vec![0; half])).unwrap();
    assert_eq!(sent(&mut session), [update(0, half)]);
}

#[test]
fn bytes_that_are_not_spdy_end_the_connection() {
    let check = |bytes: &[u8], why: &str| {
        let got = events(&mut Session::new(), bytes);
        assert_eq!(got.map_err(|fault| fault.0), Err(why.to_owned()), "{bytes:?}");
    };
    check(b"\x80GET / HTTP/1.1\r\n", "a SPDY frame of version 71, not 3");
    check(&[0x80, 2, 0, 1, 0, 0, 0, 0], "a SPDY frame of version 2, not 3");
    check(&[0; 8], "SPDY data without a stream");
    check(&[0x80, 3, 0, 4, 0, 0xff, 0xff, 0xff], "a SPDY control frame that is too long");
    check(&numbers(6, 0, &[]), "a SPDY frame of type 6 that is too short");
    check(&numbers(1, 0, &[1, 0]), "a SPDY frame of type 1 that is too short");
    let open = |block: &[u8]| control(1, 0, &[&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], block].concat());
    check(&open(&[]), "a SPDY header block that is too short");
    check(&open(b"plain text"), "a SPDY header block that is not zlib's");
    check(&open(&[0x78, 0x9c, 0xff, 0xff]), "a SPDY header block that cannot be inflated");
    check(&open(&[0x78, 0xbb, 1, 2, 3, 4]), "a SPDY header block with an unknown dictionary");
    let block = |bytes: &[u8]| open(&Client::new().compress(bytes));
    check(&block(&[0, 0, 0, 1, 0, 0, 0, 9, b'x']), "a SPDY header block that is too short");
    check(&block(&[0, 0, 0, 0, 0]), "a SPDY header block that is too long");
    check(&block(&[0xff; 4]), "too many headers in a SPDY frame");
    // A bomb: 4 MiB of zeros in a few KiB.
    let bomb = Client::new().compress(&vec![0; 4 << 20]);
    assert!(bomb.len() < limits::SPDY_CONTROL);
    check(&open(&bomb), "headers of a SPDY frame that are too long");
}

#[test]
fn our_header_blocks_are_read_by_an_ordinary_zlib() {
    let mut empty = Empty::default();
    let mut inflate = Inflate::new(true, 15);
    for _ in 0..3 {
        let (block, mut out) = (empty.block(), [9; 64]);
        let before = inflate.total_out();
        inflate.decompress(&block, &mut out, InflateFlush::SyncFlush).unwrap();
        assert_eq!(inflate.total_out() - before, 4);
        assert_eq!(out[..4], [0; 4]);
        // Flushed like zlib does it: Go's reader returns nothing of a stored block before an empty one follows.
        assert!(block.ends_with(&[0, 0, 0, 0xff, 0xff]));
    }
    // The reader asks for a dictionary only if the stream names one.
    let block = Client::new().headers(&[]);
    let asked = Inflate::new(true, 15).decompress(&block, &mut [0; 64], InflateFlush::SyncFlush);
    assert_eq!(asked, Err(InflateError::NeedDict { dict_id: dictionary::ID }));
}

/// A conversation: possible frames of a client in any order.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let step = (0..6_u8, 0..6_u32, proptest::collection::vec(any::<u8>(), 0..300), any::<bool>());
    proptest::collection::vec(step, 0..40).prop_map(|steps| {
        let mut client = Client::new();
        let mut bytes = Vec::new();
        let mut last = 1;
        for (what, stream, payload, fin) in steps {
            let (stream, flags) = (2 * stream + 1, u8::from(fin));
            let text: String = payload.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
            bytes.extend(match what {
                0 => {
                    last += 2;
                    client.open(last, flags, &[("streamtype", "data"), ("text", &text)])
                }
                1 | 2 => data(stream, flags, &payload),
                3 => numbers(3, 0, &[stream, 5]),
                4 => numbers(6, 0, &[stream]),
                _ => {
                    control(8, flags, &[&stream.to_be_bytes()[..], &client.headers(&[("a", &text)])].concat())
                }
            });
        }
        bytes
    })
}

proptest! {
    #[test]
    fn any_cut_of_the_bytes_gives_the_same(bytes in conversation(), cuts in proptest::collection::vec(1..200_usize, 1..50)) {
        let (mut whole, mut cut) = (Session::new(), Session::new());
        let expected = joined(events(&mut whole, &bytes).unwrap());
        let (mut rest, mut got) = (bytes.as_slice(), Vec::new());
        for size in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            got.extend(events(&mut cut, piece).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(joined(got), expected);
        prop_assert_eq!(sent(&mut cut), sent(&mut whole));
    }

    #[test]
    fn no_bytes_bring_it_down(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = events(&mut Session::new(), &bytes);
    }
}
