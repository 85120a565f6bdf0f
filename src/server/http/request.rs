//! The head of a request.
//!
//! Never here: a guess. Whatever RFC 9112 lets a server refuse is refused.

use std::fmt;

use super::query::{Query, decoded};
use crate::base::http::Framing;
use crate::base::limits;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    /// Any other method, which no endpoint accepts.
    Other,
}

impl Method {
    fn of(text: &str) -> Method {
        match text {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            _ => Method::Other,
        }
    }
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The status of the answer, after which the connection is closed.
    pub status: u16,
    /// The reason in a few words.
    pub why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

const fn bad(why: &'static str) -> Refused {
    Refused { status: 400, why }
}

/// A request without its body.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Path, percent-decoded; begins with `/`.
    pub path: String,
    pub query: Query,
    /// Names in lower case, in the order in which they came.
    headers: Vec<(String, String)>,
    /// How the body ends; never with the connection.
    pub framing: Framing,
    /// HTTP/1.1, whose clients understand chunked bodies; otherwise HTTP/1.0.
    pub is_1_1: bool,
    /// The client accepts another answer on this connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

/// Without headers and query, which may have a token.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{:?} {} with {} headers>", self.method, self.path, self.headers.len())
    }
}

impl Request {
    /// Whether the method is GET or HEAD.
    #[must_use]
    pub fn is_get(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head)
    }

    /// The first header of this name, which is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    /// The user that the client wants to be instead of itself, or the group, if it asks for any.
    #[must_use]
    pub fn impersonated(&self) -> Option<&str> {
        let all = || self.headers.iter().filter(|(name, _)| name.starts_with("impersonate-"));
        let user = all().find(|(name, _)| name == "impersonate-user");
        user.or_else(|| all().next()).map(|(_, value)| value.as_str())
    }

    /// Number of headers.
    #[must_use]
    pub fn header_count(&self) -> usize {
        self.headers.len()
    }

    /// All headers of this name, which is in lower case.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The comma-separated words of all headers of this name, which is in lower case.
    pub fn words(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers(name).flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
    }
}

/// Length of the head in bytes, if `bytes` contain all of it. The search starts at `seen`, the number of bytes that an
/// earlier call has searched.
///
/// # Errors
/// It is longer than [`limits::SERVER_HEAD`].
pub fn end_of_head(bytes: &[u8], seen: usize) -> Result<Option<usize>, Refused> {
    let from = seen.saturating_sub(3);
    let rest = bytes.get(from..).unwrap_or_default();
    let crlf = rest.windows(4).position(|at| at == b"\r\n\r\n").map(|at| at.saturating_add(4));
    let bare = rest.windows(2).position(|at| at == b"\n\n").map(|at| at.saturating_add(2));
    let end = [crlf, bare].into_iter().flatten().min().map(|at| at.saturating_add(from));
    match end {
        Some(end) if end <= limits::SERVER_HEAD => Ok(Some(end)),
        None if bytes.len() <= limits::SERVER_HEAD => Ok(None),
        _ => Err(Refused { status: 431, why: "the head of the request is too long" }),
    }
}

/// Parses a complete head.
///
/// # Errors
/// The error in the head.
pub fn parse(head: &[u8]) -> Result<Request, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; limits::SERVER_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refused { status: 431, why: "the request has too many headers" });
        }
        Err(httparse::Error::Version) => {
            return Err(Refused { status: 505, why: "the server speaks HTTP/1.1 and HTTP/1.0" });
        }
        _ => return Err(bad("this is not an HTTP/1.1 request")),
    }
    let is_1_1 = parsed.version == Some(1);
    let (path, query) = target(parsed.path.unwrap_or_default())?;
    let mut request = Request {
        method: Method::of(parsed.method.unwrap_or_default()),
        path,
        query,
        headers: Vec::with_capacity(parsed.headers.len()),
        framing: Framing::Length(0),
        is_1_1,
        keep_alive: is_1_1,
        expects_continue: false,
    };
    for header in parsed.headers.iter() {
        // The standard reads other bytes as Latin-1; no header that is used has any.
        let value = String::from_utf8_lossy(header.value).trim().to_owned();
        request.headers.push((header.name.to_ascii_lowercase(), value));
    }
    request.framing = framing(&request, is_1_1)?;
    if is_1_1 && request.headers("host").count() != 1 {
        return Err(bad("the request needs one Host header"));
    }
    let has = |token: &str| request.words("connection").any(|word| word.eq_ignore_ascii_case(token));
    request.keep_alive = if is_1_1 { !has("close") } else { has("keep-alive") && !has("close") };
    let expect = request.header("expect").map(str::to_ascii_lowercase);
    match expect.as_deref() {
        None => {}
        Some("100-continue") => request.expects_continue = is_1_1,
        Some(_) => return Err(Refused { status: 417, why: "the server can only expect 100-continue" }),
    }
    Ok(request)
}

/// Path and query of a target in origin form or in absolute form.
fn target(text: &str) -> Result<(String, Query), Refused> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let rest = match () {
        () if lower.starts_with("http://") => text.get(7..).unwrap_or_default(),
        () if lower.starts_with("https://") => text.get(8..).unwrap_or_default(),
        () if text.starts_with('/') => text,
        () => return Err(bad("the target of the request is not a path")),
    };
    let from_path = rest.find(['/', '?']).map_or("", |at| rest.get(at..).unwrap_or_default());
    let (path, query) = from_path.split_once('?').unwrap_or((from_path, ""));
    let path = decoded(path, false).ok_or(bad("the path of the request is not properly encoded"))?;
    if path.contains('\0') {
        return Err(bad("the path of the request holds a zero byte"));
    }
    let path = if path.is_empty() { "/".to_owned() } else { path };
    Ok((path, Query::parse(query).ok_or(bad("the query of the request is not properly encoded"))?))
}

fn framing(request: &Request, is_1_1: bool) -> Result<Framing, Refused> {
    let mut length: Option<u64> = None;
    for value in request.headers("content-length") {
        let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let number = value.parse().ok().filter(|_| is_number);
        let number = number.ok_or(bad("Content-Length is not a number"))?;
        if length.is_some_and(|before| before != number) {
            return Err(bad("two different Content-Length headers"));
        }
        length = Some(number);
    }
    let mut encodings = request.headers("transfer-encoding");
    let Some(encoding) = encodings.next() else { return Ok(Framing::Length(length.unwrap_or(0))) };
    if length.is_some() || !is_1_1 {
        return Err(bad("Transfer-Encoding beside Content-Length, or in HTTP/1.0"));
    }
    if encodings.next().is_some() || !encoding.eq_ignore_ascii_case("chunked") {
        return Err(Refused { status: 501, why: "the only Transfer-Encoding that is known is chunked" });
    }
    Ok(Framing::Chunked)
}

#[cfg(test)]
mod tests;
