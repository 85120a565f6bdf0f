//! Tests of heads: those that are read, and those that are refused.

use proptest::prelude::*;

use super::*;

fn read(head: &str) -> Result<Request, u16> {
    parse(head.replace('\n', "\r\n").as_bytes()).map_err(|refused| refused.status)
}

#[test]
fn a_request_is_read() {
    let head = "POST /exec/ns/p%20d/c?command=ls&command=-l&tty=1 HTTP/1.1\nHost: n1:10250\n\
                X-Stream-Protocol-Version: v4.channel.k8s.io, v3.channel.k8s.io\n\
                X-Stream-Protocol-Version: channel.k8s.io\nConnection: Upgrade\nUpgrade: SPDY/3.1\nContent-Length: 0\n\n";
    let request = read(head).unwrap();
    assert_eq!((request.method, request.path.as_str()), (Method::Post, "/exec/ns/p d/c"));
    assert_eq!(request.query.all("command").collect::<Vec<_>>(), ["ls", "-l"]);
    let words: Vec<_> = request.words("x-stream-protocol-version").collect();
    assert_eq!(words, ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"]);
    assert_eq!((request.framing, request.keep_alive), (Framing::Length(0), true));
    assert_eq!(request.header("upgrade"), Some("SPDY/3.1"));
}

#[test]
fn what_is_refused_and_how() {
    let table: &[(&str, Result<(), u16>)] = &[
        ("GET / HTTP/1.1\nHost: a\n\n", Ok(())),
        ("GET / HTTP/1.0\n\n", Ok(())),
        ("GET http://a:1/pods?x=1 HTTP/1.1\nHost: a\n\n", Ok(())),
        ("GET / HTTP/1.1\n\n", Err(400)),
        ("GET / HTTP/1.1\nHost: a\nHost: b\n\n", Err(400)),
        ("GET * HTTP/1.1\nHost: a\n\n", Err(400)),
        ("CONNECT a:1 HTTP/1.1\nHost: a\n\n", Err(400)),
        ("GET / HTTP/2.0\nHost: a\n\n", Err(505)),
        ("GET /%zz HTTP/1.1\nHost: a\n\n", Err(400)),
        ("GET /%00 HTTP/1.1\nHost: a\n\n", Err(400)),
        ("GET /%ff HTTP/1.1\nHost: a\n\n", Err(400)),
        ("POST / HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 1\n\n", Ok(())),
        ("POST / HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 2\n\n", Err(400)),
        ("POST / HTTP/1.1\nHost: a\nContent-Length: +1\n\n", Err(400)),
        ("POST / HTTP/1.1\nHost: a\nContent-Length: 99999999999999999999\n\n", Err(400)),
        ("POST / HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", Err(400)),
        ("POST / HTTP/1.0\nTransfer-Encoding: chunked\n\n", Err(400)),
        ("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: gzip, chunked\n\n", Err(501)),
        ("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n", Err(501)),
        ("POST / HTTP/1.1\nHost: a\nTransfer-Encoding: Chunked\n\n", Ok(())),
        ("POST / HTTP/1.1\nHost: a\nExpect: 200-ok\n\n", Err(417)),
        ("GET / HTTP/1.1\nHost: a\n folded: 1\n\n", Err(400)),
        ("GET / HTTP/1.1\nHost : a\n\n", Err(400)),
        ("nonsense\n\n", Err(400)),
        ("\u{16}\u{3}\u{1}\n\n", Err(400)),
    ];
    for (head, expected) in table {
        assert_eq!(read(head).map(drop), *expected, "{head:?}");
    }
    let many = format!("GET / HTTP/1.1\nHost: a\n{}\n", "x: y\n".repeat(limits::SERVER_HEADERS));
    assert_eq!(read(&many).map(drop), Err(431));
}

#[test]
fn a_connection_is_kept_as_the_client_says() {
    let keeps = |version: &str, connection: &str| {
        read(&format!("GET / HTTP/{version}\nHost: a\nConnection: {connection}\n\n")).unwrap().keep_alive
    };
    assert!(keeps("1.1", "") && keeps("1.0", "Keep-Alive") && keeps("1.1", "Upgrade"));
    assert!(!keeps("1.1", "a, Close") && !keeps("1.0", "") && !keeps("1.0", "keep-alive, close"));
}

#[test]
fn the_end_of_a_head_is_found_wherever_it_is_cut() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody";
    for seen in 0..=24 {
        assert_eq!(end_of_head(bytes, seen), Ok(Some(27)), "{seen}");
    }
    assert_eq!(end_of_head(&bytes[..26], 0), Ok(None));
    assert_eq!(end_of_head(b"GET / HTTP/1.1\nHost: a\n\n", 0), Ok(Some(24)));
    let long = vec![b'a'; limits::SERVER_HEAD + 1];
    assert_eq!(end_of_head(&long, 0).map_err(|refused| refused.status), Err(431));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = end_of_head(&bytes, 7);
    }

    #[test]
    fn nearly_requests_are_read_or_refused(text in "(GET|POST|x) [/%a-f0-9?&=+]{0,20} HTTP/1.[01]\r\n([a-zA-Z-]{1,20}: [ -~]{0,20}\r\n){0,5}\r\n") {
        let _ = parse(text.as_bytes());
    }
}

/// Headers have tokens, and a query may have one.
#[test]
fn k12396_a_formatted_request_shows_neither_its_headers_nor_its_query() {
    let head = "GET /pods?token=canary-1 HTTP/1.1\nHost: a\nAuthorization: Bearer canary-2\n\n";
    let shown = format!("{:?}", read(head).unwrap());
    assert!(!shown.contains("canary") && shown.contains("/pods"), "{shown}");
}
