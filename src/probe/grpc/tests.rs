//! The call as bytes; tables of upstream's words. The tests of `attempt` use a server.

use proptest::prelude::*;

use super::*;

fn begin() -> Health {
    Health::begin("10.0.0.1:9000", "", Duration::from_secs(1), &mut Vec::new())
}

fn a_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(kind, flags, stream, payload, &mut out);
    out
}

fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    headers.iter().for_each(|(n, v)| hpack::write(n, v, &mut out));
    out
}

fn settings() -> Vec<u8> {
    a_frame(kind::SETTINGS, 0, 0, &[])
}

/// A complete good answer with this message.
fn answer(message: &[u8]) -> Vec<u8> {
    let mut data = vec![0];
    data.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    data.extend(message);
    [
        settings(),
        a_frame(kind::HEADERS, flag::END_HEADERS, 1, &block(&[(":status", "200")])),
        a_frame(kind::DATA, 0, 1, &data),
        a_frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(&[("grpc-status", "0")])),
    ]
    .concat()
}

fn trailers(headers: &[(&str, &str)]) -> Vec<u8> {
    [settings(), a_frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(headers))].concat()
}

fn fed(bytes: &[u8]) -> Option<Answer> {
    begin().feed(bytes, &mut Vec::new())
}

#[test]
fn statuses_of_the_service() {
    assert_eq!(fed(&answer(&[8, 1])), Some(Answer::Status(1)));
    assert_eq!(fed(&answer(&[8, 2])), Some(Answer::Status(2)));
    // 0 is left out, and unknown fields are ignored.
    assert_eq!(fed(&answer(&[])), Some(Answer::Status(0)));
    assert_eq!(fed(&answer(&[0x12, 2, 9, 9, 8, 1])), Some(Answer::Status(1)));
    assert!(matches!(fed(&answer(&[8])), Some(Answer::Broken(_))));
}

#[test]
fn ends_without_an_answer() {
    let unimplemented = trailers(&[(":status", "200"), ("grpc-status", "12"), ("grpc-message", "no%20way%")]);
    assert_eq!(fed(&unimplemented), Some(Answer::Rpc(12, "no way%".into())));
    let http = trailers(&[(":status", "404")]);
    let text = "unexpected HTTP status code received from server: 404";
    assert_eq!(fed(&http), Some(Answer::Rpc(12, text.into())));
    assert!(matches!(fed(&trailers(&[(":status", "200")])), Some(Answer::Rpc(13, _))));
    assert!(matches!(fed(&trailers(&[(":status", "200"), ("grpc-status", "x")])), Some(Answer::Rpc(2, _))));
    let reset = [settings(), a_frame(kind::RESET, 0, 1, &[0, 0, 0, 7])].concat();
    assert!(matches!(fed(&reset), Some(Answer::Rpc(13, _))));
    let draining = [settings(), a_frame(kind::GOAWAY, 0, 0, &[0; 8])].concat();
    assert!(matches!(fed(&draining), Some(Answer::Rpc(14, _))));
}

#[test]
fn what_does_not_speak_it() {
    assert!(matches!(fed(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Some(Answer::Broken(_))));
    assert!(matches!(fed(&a_frame(kind::DATA, 0, 1, b"x")), Some(Answer::Broken(_))));
    let pushing = [settings(), a_frame(kind::PUSH, 0, 1, &[0; 8])].concat();
    assert!(matches!(fed(&pushing), Some(Answer::Broken(_))));
    let padded = [settings(), a_frame(kind::DATA, flag::PADDED, 1, &[9, 1])].concat();
    assert!(matches!(fed(&padded), Some(Answer::Broken(_))));
    let mut endless = begin();
    let ping = a_frame(kind::PING, flag::END_STREAM, 0, &[0; 8]);
    assert_eq!(endless.feed(&settings(), &mut Vec::new()), None);
    let mut pings = (0..100_000).map(|_| endless.feed(&ping, &mut Vec::new()));
    assert!(pings.any(|end| matches!(end, Some(Answer::Broken(_)))), "it must not go on for ever");
}

#[test]
fn settings_and_pings_are_answered_and_headers_may_be_split() {
    let mut health = begin();
    let mut out = Vec::new();
    let ping = a_frame(kind::PING, 0, 0, b"12345678");
    assert_eq!(health.feed(&[settings(), ping].concat(), &mut out), None);
    let mut expected = a_frame(kind::SETTINGS, flag::END_STREAM, 0, &[]);
    expected.extend(a_frame(kind::PING, flag::END_STREAM, 0, b"12345678"));
    assert_eq!(out, expected);
    assert!(health.is_greeted());
    let headers = block(&[(":status", "200"), ("grpc-status", "5"), ("grpc-message", "unknown service")]);
    let (a, b) = headers.split_at(7);
    let mut split = a_frame(kind::HEADERS, flag::END_STREAM, 1, a);
    split.extend(a_frame(kind::CONTINUATION, flag::END_HEADERS, 1, b));
    assert_eq!(health.feed(&split, &mut out), Some(Answer::Rpc(5, "unknown service".into())));
}

#[test]
fn verdicts() {
    let check = |answer: Answer, expected: &str| {
        let got = judge(&answer, Duration::from_secs(2));
        assert_eq!(got, Outcome::Failed(expected.into()));
    };
    assert_eq!(judge(&Answer::Status(1), Duration::from_secs(1)), Outcome::Passed);
    check(Answer::Status(2), "service unhealthy (responded with \"NOT_SERVING\")");
    check(Answer::Status(0), "service unhealthy (responded with \"UNKNOWN\")");
    check(Answer::Status(3), "service unhealthy (responded with \"SERVICE_UNKNOWN\")");
    check(Answer::Status(9), "service unhealthy (responded with \"9\")");
    let not = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): x";
    check(Answer::Rpc(12, "x".into()), not);
    check(Answer::Rpc(4, "x".into()), "timeout: health rpc did not complete within 2s");
    let other = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service";
    check(Answer::Rpc(5, "unknown service".into()), other);
    check(Answer::Rpc(99, "x".into()), "error: health rpc probe failed: rpc error: code = Code(99) desc = x");
    assert_eq!(
        connect_failed("10.0.0.1:9", "dial tcp 10.0.0.1:9: connect: connection refused"),
        "error: failed to connect service at \"10.0.0.1:9\": dial tcp 10.0.0.1:9: connect: connection refused"
    );
    assert_eq!(
        connect_timed_out("10.0.0.1:9", Duration::from_secs(1)),
        "timeout: failed to connect service \"10.0.0.1:9\" within 1s: context deadline exceeded"
    );
}

#[test]
fn the_service_is_named_in_the_request() {
    let mut out = Vec::new();
    _ = Health::begin("h:1", &"s".repeat(200), Duration::from_secs(1), &mut out);
    let message = [&[0, 0, 0, 0, 203, 0x0a, 200, 1][..], &[b's'; 200]].concat();
    assert!(out.ends_with(&message));
    assert!(out.starts_with(PREFACE));
}

proptest! {
    #[test]
    fn however_it_is_split(cuts in prop::collection::vec(1usize..20, 1..40)) {
        let (whole, mut health, mut at) = (answer(&[8, 1]), begin(), 0);
        let mut end = None;
        for cut in cuts.into_iter().chain([1000]) {
            let next = (at + cut).min(whole.len());
            if end.is_none() {
                end = health.feed(&whole[at..next], &mut Vec::new());
            }
            at = next;
        }
        prop_assert_eq!(end, Some(Answer::Status(1)));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut health = begin();
        let mut out = Vec::new();
        _ = health.feed(&settings(), &mut out);
        _ = health.feed(&bytes, &mut out);
    }
}
