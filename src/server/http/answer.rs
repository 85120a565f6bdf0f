//! Answers: the results of endpoints, and the bytes of their heads.

use std::fmt::{self, Write as _};

use super::request::{Method, Refused};

/// The kubelet's content type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of JSON.
pub const JSON: &str = "application/json";

/// A status, headers, and a body that is known as a whole.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Headers beside those of the connection and the body's length. No unchecked value of a client is among them:
    /// [`Answer::with`] drops a value that would break the head.
    headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// Without the headers, one of which may be a cookie, and the body, which may be a Secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<answer {} of {} bytes>", self.status, self.body.len())
    }
}

/// How the client sees the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The length of the body in bytes.
    Length(usize),
    /// The last chunk.
    Chunks,
    /// The end of the connection, because HTTP/1.0 has no chunks.
    Close,
    /// There is no body: another protocol follows.
    Upgrade,
}

impl Answer {
    /// An answer with a body of this type.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
        let answer = Answer { status, headers: Vec::new(), body: body.into() };
        if content_type.is_empty() { answer } else { answer.with("Content-Type", content_type) }
    }

    /// Text with a line feed at its end, like Go's `http.Error`.
    #[must_use]
    pub fn text(status: u16, text: &str) -> Answer {
        Answer::new(status, TEXT, format!("{text}\n")).with("X-Content-Type-Options", "nosniff")
    }

    /// The answer to an unreadable request; the connection ends with it.
    #[must_use]
    pub fn refused(refused: Refused) -> Answer {
        Answer::text(refused.status, refused.why)
    }

    /// Adds a header. A value that would break the line is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        let value = value.into();
        if value.bytes().all(|b| b >= 0x20 && b != 0x7f) {
            self.headers.push((name, value));
        }
        self
    }

    /// The bytes of the head.
    #[must_use]
    pub fn head(&self, ends: Ends, is_kept: bool, date: &str) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        // Writing to a string cannot fail.
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let _ = write!(text, "Date: {date}\r\n");
        match ends {
            Ends::Length(length) if self.status != 204 && self.status != 304 => {
                let _ = write!(text, "Content-Length: {length}\r\n");
            }
            Ends::Chunks => text.push_str("Transfer-Encoding: chunked\r\n"),
            Ends::Length(_) | Ends::Close | Ends::Upgrade => {}
        }
        if !is_kept && ends != Ends::Upgrade {
            text.push_str("Connection: close\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// The bytes of the whole answer; `method` decides whether the body is sent.
    #[must_use]
    pub fn bytes(&self, method: Method, is_kept: bool, date: &str) -> Vec<u8> {
        let mut bytes = self.head(Ends::Length(self.body.len()), is_kept, date);
        if method != Method::Head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

/// The reason phrase of a status.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_goes_over_the_wire() {
        let answer = Answer::text(404, "404 page not found");
        let expected = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n\
                        X-Content-Type-Options: nosniff\r\nDate: D\r\nContent-Length: 19\r\n\r\n";
        let sent = answer.bytes(Method::Get, true, "D");
        assert_eq!(String::from_utf8(sent).unwrap(), format!("{expected}404 page not found\n"));
        assert_eq!(String::from_utf8(answer.bytes(Method::Head, true, "D")).unwrap(), expected);
        let closed = String::from_utf8(answer.bytes(Method::Get, false, "D")).unwrap();
        assert!(closed.contains("\r\nConnection: close\r\n"));
        let head = |ends| String::from_utf8(Answer::new(200, "", "").head(ends, true, "D")).unwrap();
        assert!(head(Ends::Chunks).contains("Transfer-Encoding: chunked"));
        assert!(!head(Ends::Close).contains("Content-Length"));
    }

    #[test]
    fn no_value_ends_the_line_it_stands_in() {
        let answer =
            Answer::new(200, JSON, "").with("X-A", "a\r\nX-B: b").with("X-C", "c\u{7f}").with("X-D", "d");
        let head = String::from_utf8(answer.head(Ends::Close, true, "D")).unwrap();
        assert!(!head.contains("X-B") && !head.contains("X-C") && head.contains("X-D: d"), "{head}");
    }

    /// An object of the API may be a Secret, and a header may have what a browser is known by.
    #[test]
    fn k12396_a_formatted_answer_shows_neither_its_body_nor_its_headers() {
        let answer = Answer::new(200, JSON, "canary-of-a-body").with("Set-Cookie", "canary-of-a-header");
        let shown = format!("{answer:?}");
        assert!(!shown.contains("canary") && shown.contains("200"), "{shown}");
    }
}
