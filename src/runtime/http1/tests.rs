//! The parser against tables, arbitrary splits and noise.

use super::*;
use proptest::prelude::*;

/// The result: status, keep-alive, body, leftover bytes, and whether the answer is whole at EOF.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    head: Option<Head>,
    body: Vec<u8>,
    left: Vec<u8>,
    whole: bool,
    error: Option<Malformed>,
}

fn run(limit: u64, parts: &[&[u8]]) -> Outcome {
    let mut parser = Parser::new(limit);
    let (mut body, mut left, mut error) = (Vec::new(), Vec::new(), None);
    for part in parts {
        match parser.feed(part, &mut body) {
            Ok(used) => left.extend(&part[used..]),
            Err(why) => {
                error = Some(why);
                assert_eq!(parser.feed(b"x", &mut body), Err(why), "an error stays");
                break;
            }
        }
    }
    if error.is_some() {
        left.clear();
    }
    Outcome { whole: error.is_none() && parser.finish(), head: parser.head().cloned(), body, left, error }
}

fn check(input: &[u8], status: u16, keep_alive: bool, body: &[u8], left: &[u8], whole: bool) {
    let got = run(1000, &[input]);
    let shown = String::from_utf8_lossy(input).into_owned();
    let head = got.head.unwrap_or_else(|| panic!("no head in {shown:?}: {:?}", got.error));
    assert_eq!((head.status, head.keep_alive), (status, keep_alive), "{shown:?}");
    assert_eq!((got.body.as_slice(), got.left.as_slice(), got.whole), (body, left, whole), "{shown:?}");
}

#[test]
fn answers() {
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", 200, true, b"OK", b"", true);
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOKextra", 200, true, b"OK", b"extra", true);
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nOK", 200, true, b"OK", b"", false);
    check(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, true, b"", b"", true);
    check(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 200, false, b"x", b"", true);
    check(
        b"HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 0\r\n\r\n",
        200,
        false,
        b"",
        b"",
        true,
    );
    check(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, b"x", b"", true);
    check(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        200,
        true,
        b"x",
        b"",
        true,
    );
    check(b"HTTP/1.1 200 OK\r\n\r\nall of it", 200, false, b"all of it", b"", true);
    check(b"HTTP/1.1 200\n\nbare line feeds", 200, false, b"bare line feeds", b"", true);
}

#[test]
fn answers_without_a_body() {
    check(b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", 204, true, b"", b"", true);
    check(b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, true, b"", b"", true);
    check(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n\x01\0left", 101, false, b"", b"\x01\0left", true);
    check(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 1\r\n\r\n1",
        201,
        true,
        b"1",
        b"",
        true,
    );
}

#[test]
fn chunked_answers() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |body: &str| [HEAD, body].concat().into_bytes();
    check(&chunked("3\r\nabc\r\n0\r\n\r\n"), 200, true, b"abc", b"", true);
    check(&chunked("3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), 200, true, b"abc0123456789", b"", true);
    check(&chunked("1\r\na\r\n0\r\nX-Trailer: 1\r\nY: 2\r\n\r\nnext"), 200, true, b"a", b"next", true);
    check(&chunked("1\na\n0\n\n"), 200, true, b"a", b"", true);
    // EOF in the middle of a chunk, between chunks, before the last line.
    check(&chunked("5\r\nab"), 200, true, b"ab", b"", false);
    check(&chunked("2\r\nab\r\n"), 200, true, b"ab", b"", false);
    check(&chunked("2\r\nab\r\n0\r\n"), 200, true, b"ab", b"", false);
    for (bad, why) in [
        ("x\r\n", "the size of a chunk is not a number"),
        ("\r\n", "the size of a chunk is not a number"),
        ("-1\r\n", "the size of a chunk is not a number"),
        ("+1\r\n", "the size of a chunk is not a number"),
        ("1ffffffffffffffff\r\n", "the size of a chunk is not a number"),
        ("ffffffffffffffff\r\n", "the answer is too long"),
        ("2\r\nabc\r\n", "a chunk is longer than it said"),
    ] {
        assert_eq!(run(1000, &[&chunked(bad)]).error, Some(Malformed(why)), "{bad:?}");
    }
    assert_eq!(
        run(1000, &[&chunked(&"0".repeat(limits::HTTP_CHUNK_LINE + 1))]).error,
        Some(Malformed("the line before a chunk is too long"))
    );
    let trailers = format!("0\r\n{}", "A: b\r\n".repeat(limits::HTTP_TRAILERS / 6 + 1));
    assert_eq!(run(1000, &[&chunked(&trailers)]).error, Some(Malformed("the trailers are too long")));
}

#[test]
fn what_is_not_an_answer() {
    let check = |input: &str, why: &'static str| {
        assert_eq!(run(10, &[input.as_bytes()]).error, Some(Malformed(why)), "{input:.60?}");
    };
    check("hello\r\n\r\n", "this is not an HTTP answer");
    check("\r\nHTTP/1.1 200 OK\r\n\r\n", "this is not an HTTP answer");
    check("HTTP/1.1 099 X\r\n\r\n", "the status is not a number from 100 to 999");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "Content-Length is not a number");
    check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length is not a number");
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "two different Content-Length headers",
    );
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "a Transfer-Encoding other than chunked");
    check("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", "the answer is too long");
    check("HTTP/1.1 200 OK\r\n\r\n01234567890", "the answer is too long");
    check(
        &format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(limits::HTTP_HEAD)),
        "the answer's head is too long",
    );
    check(
        &format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(limits::HTTP_HEADERS + 1)),
        "too many headers",
    );
    check(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(limits::HTTP_INTERIM + 1), "too many interim answers");
}

#[test]
fn a_body_of_exactly_the_limit_is_fine() {
    for body in [
        "Content-Length: 4\r\n\r\nabcd",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
        "\r\nabcd",
    ] {
        let got = run(4, &[format!("HTTP/1.1 200 OK\r\n{body}").as_bytes()]);
        assert_eq!((got.body.as_slice(), got.whole, got.error), (b"abcd".as_slice(), true, None), "{body:?}");
    }
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..60);
    let framing = 0usize..4;
    let noise = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (200u16..600, prop::collection::vec(body, 0..4), framing, noise, any::<bool>()).prop_map(
        |(status, parts, framing, noise, interim)| {
            let mut out = Vec::new();
            if interim {
                out.extend(b"HTTP/1.1 102 Wait\r\n\r\n");
            }
            out.extend(format!("HTTP/1.1 {status} Word\r\nApi-Version: 1.41\r\n").bytes());
            let all = parts.concat();
            match framing {
                0 => out.extend(format!("Content-Length: {}\r\n\r\n", all.len()).bytes()),
                1 => out.extend(b"Transfer-Encoding: chunked\r\n\r\n"),
                2 => out.extend(b"\r\n"),
                _ => out.extend(b"Content-Length: 3\r\n\r\n"),
            }
            if framing == 1 {
                for part in parts.iter().filter(|p| !p.is_empty()) {
                    out.extend(format!("{:x}\r\n", part.len()).bytes());
                    out.extend(part);
                    out.extend(b"\r\n");
                }
                out.extend(b"0\r\nT: 1\r\n\r\n");
            } else {
                out.extend(all);
            }
            if let Some((at, byte)) = noise {
                let at = at.index(out.len());
                out[at] = byte;
            }
            out
        },
    )
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        bytes in answer(),
        cut in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        limit in 0u64..200,
    ) {
        let mut at: Vec<usize> = cut.iter().map(|i| i.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let parts: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = run(limit, &[&bytes]);
        prop_assert_eq!(&run(limit, &parts), &whole);
        prop_assert_eq!(&run(limit, &single), &whole);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(100, &[&bytes]);
        let mut head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        head.extend(&bytes);
        let got = run(100, &[&head]);
        prop_assert!(got.body.len() <= 100);
    }
}
