//! The head of an answer, read as far as it describes the body and its end. Pure.
//!
//! Never here: the server's words in an error.

use crate::base::http::Framing;
use crate::base::limits;

/// The head of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// 200 to 999.
    pub status: u16,
    /// Fields in the server's order, with their names as sent; values that are not visible ASCII are left out.
    fields: Vec<(String, String)>,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub is_chunked: bool,
}

impl Head {
    /// The first value of this field.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// How the end of the body is recognised; `None` when the head does not say.
    #[must_use]
    pub fn framing(&self) -> Option<Framing> {
        if self.is_chunked { Some(Framing::Chunked) } else { self.length.map(Framing::Length) }
    }
}

/// Bytes that are no head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// The head at the beginning of these bytes, and its length; `None` when it is incomplete. Interim answers (1xx) are
/// heads of their own: see [`is_interim`].
///
/// # Errors
/// The bytes are no head.
pub fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Broken> {
    let mut headers = [httparse::EMPTY_HEADER; limits::HTTP_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = response.parse(bytes).map_err(|_| Broken)? else { return Ok(None) };
    let mut head =
        Head { status: response.code.filter(|code| *code >= 100).ok_or(Broken)?, ..Head::default() };
    for header in response.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = number(value).ok_or(Broken)?;
            if head.length.is_some_and(|before| before != length) {
                return Err(Broken);
            }
            head.length = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            // podkeeper accepts no other coding.
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Broken);
            }
            head.is_chunked = true;
        } else if let Ok(text) = std::str::from_utf8(value)
            && value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
        {
            head.fields.push((header.name.to_owned(), text.to_owned()));
        }
    }
    Ok(Some((head, end)))
}

/// Whether another answer follows. That is not so after 101: podkeeper asks for no other protocol.
#[must_use]
pub fn is_interim(head: &Head) -> bool {
    (100..200).contains(&head.status) && head.status != 101
}

/// Digits only: no sign, no blanks, no overflow.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The reason phrase of a status, if RFC 9110 or a related RFC has one.
#[must_use]
pub fn reason(status: u16) -> Option<&'static str> {
    Some(match status {
        101 => "Switching Protocols",
        201 => "Created",
        202 => "Accepted",
        203 => "Non Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        304 => "Not Modified",
        305 => "Use Proxy",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Entity",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<(Head, usize)>, Broken> {
        head(text.as_bytes())
    }

    #[test]
    fn a_head_says_how_the_body_ends() {
        let check = |fields: &str, framing: Option<Framing>| {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\nrest");
            let (head, end) = read(&text).unwrap().unwrap();
            assert_eq!((head.status, head.framing(), &text[end..]), (200, framing, "rest"), "{fields}");
        };
        check("", None);
        check("Content-Length: 12\r\n", Some(Framing::Length(12)));
        check("content-length:12\r\nContent-Length: 12 \r\n", Some(Framing::Length(12)));
        check("Transfer-Encoding: Chunked\r\nContent-Length: 9\r\n", Some(Framing::Chunked));
        let refuse = |text: &str| assert_eq!(read(text), Err(Broken), "{text}");
        refuse("SSH-2.0-OpenSSH\r\n\r\n");
        refuse("HTTP/1.1 099 No\r\n\r\n");
        for field in ["Content-Length: -1", "Content-Length: x", "Content-Length: 99999999999999999999"] {
            refuse(&format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n"));
        }
        refuse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
        refuse("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
        refuse(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(limits::HTTP_HEADERS + 1)));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
    }

    #[test]
    fn the_first_of_a_field_counts_and_only_visible_text() {
        let bytes = b"HTTP/1.0 404 Who\r\nETag: \"1\"\r\netag: 2\r\nX: \xff\r\nY:\r\n\r\n";
        let (head, _) = head(bytes).unwrap().unwrap();
        assert_eq!((head.status, head.text("ETAG"), head.text("x")), (404, Some("\"1\""), None));
        assert_eq!((head.text("y"), head.text("z")), (Some(""), None));
        assert_eq!((reason(404), reason(599)), (Some("Not Found"), None));
    }

    #[test]
    fn an_interim_answer_is_not_the_last_one() {
        for (status, is) in [(100, true), (103, true), (101, false), (200, false), (404, false)] {
            assert_eq!(is_interim(&Head { status, ..Head::default() }), is, "{status}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = head(&bytes);
        }
    }
}
