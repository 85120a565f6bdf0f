//! One unary call of the standard gRPC health service over plaintext HTTP/2, as bytes in and bytes out
//! (RFC 9113; grpc.io "gRPC over HTTP2"; upstream `pkg/probe/grpc/grpc.go`). Pure: no socket, no clock.
//!
//! One stream, one small request, one small answer: no flow control is needed. Other frames of the server are
//! acknowledged (settings, ping) or ignored.

use std::time::Duration;

use super::hpack::{self, Decoder};
use super::outcome::Outcome;
use crate::base::limits;
use crate::plan::backoff;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The only stream.
const STREAM: u32 = 1;
const FRAME_HEAD: usize = 9;

mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RESET: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const CONTINUATION: u8 = 9;
}

mod flag {
    /// Also the acknowledgement bit of settings and ping.
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// Result of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The service's state, as the number in the answer.
    Status(u64),
    /// The call ended with a code other than OK.
    Rpc(u32, String),
    /// The server does not speak gRPC correctly.
    Broken(String),
}

/// A call in progress.
#[derive(Debug)]
pub struct Health {
    input: Vec<u8>,
    decoder: Decoder,
    /// An unfinished header block, and whether it ends the stream.
    block: Option<(Vec<u8>, bool)>,
    http_status: Option<String>,
    code: Option<u32>,
    message: String,
    data: Vec<u8>,
    seen: usize,
    greeted: bool,
}

impl Health {
    /// Starts a call; the first bytes to send are appended to `out`. `authority` is host and port.
    #[must_use]
    pub fn begin(authority: &str, service: &str, timeout: Duration, out: &mut Vec<u8>) -> Health {
        out.extend_from_slice(PREFACE);
        // No server push.
        frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0], out);
        let mut block = Vec::new();
        let timeout = format!("{}m", timeout.as_millis());
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("user-agent", super::http::USER_AGENT),
            ("te", "trailers"),
            ("grpc-timeout", &timeout),
        ] {
            hpack::write(name, value, &mut block);
        }
        frame(kind::HEADERS, flag::END_HEADERS, STREAM, &block, out);
        // HealthCheckRequest { service = 1 }, after one byte (not compressed) and its length.
        let mut message = Vec::new();
        if !service.is_empty() {
            message.push(0x0a);
            varint(service.len(), &mut message);
            message.extend_from_slice(service.as_bytes());
        }
        let mut data = vec![0];
        data.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        data.extend_from_slice(&message);
        frame(kind::DATA, flag::END_STREAM, STREAM, &data, out);
        Health {
            input: Vec::new(),
            decoder: Decoder::default(),
            block: None,
            http_status: None,
            code: None,
            message: String::new(),
            data: Vec::new(),
            seen: 0,
            greeted: false,
        }
    }

    /// Whether the server has shown that it speaks HTTP/2.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Takes received bytes; bytes to send are appended to `out`. Returns the result at the end of the call.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        self.seen = self.seen.saturating_add(bytes.len());
        if self.seen > limits::GRPC_ANSWER {
            return Some(Answer::Broken("the answer is too long".to_owned()));
        }
        self.input.extend_from_slice(bytes);
        loop {
            let &[a, b, c, kind, flags, s1, s2, s3, s4] = self.input.first_chunk::<FRAME_HEAD>()?;
            let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
            let stream = u32::from_be_bytes([s1, s2, s3, s4]) & 0x7fff_ffff;
            if length > limits::GRPC_BYTES || (!self.greeted && kind != kind::SETTINGS) {
                return Some(Answer::Broken("the server does not speak HTTP/2".to_owned()));
            }
            let end = FRAME_HEAD.saturating_add(length);
            let payload = self.input.get(FRAME_HEAD..end)?.to_vec();
            self.input.drain(..end);
            self.greeted = true;
            if let Some(answer) = self.frame(kind, flags, stream, &payload, out) {
                return Some(answer);
            }
        }
    }

    /// Result when the connection ends before the call.
    #[must_use]
    pub fn closed(&self) -> Answer {
        Answer::Rpc(14, "error reading from server: EOF".to_owned())
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Answer> {
        let broken = |why: &str| Some(Answer::Broken(why.to_owned()));
        let has = |flag: u8| flags & flag != 0;
        if self.block.is_some() && kind != kind::CONTINUATION {
            return broken("a header block was cut");
        }
        match kind {
            kind::SETTINGS if !has(flag::END_STREAM) => {
                frame(kind::SETTINGS, flag::END_STREAM, 0, &[], out);
                None
            }
            kind::PING if !has(flag::END_STREAM) => {
                frame(kind::PING, flag::END_STREAM, 0, payload, out);
                None
            }
            kind::GOAWAY => {
                // Streams up to this one are still answered.
                let last = payload.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b) & 0x7fff_ffff);
                (last < STREAM).then(|| Answer::Rpc(14, "the connection is draining".to_owned()))
            }
            kind::PUSH => broken("the server pushes"),
            kind::RESET if stream == STREAM => {
                let code = payload.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b));
                Some(Answer::Rpc(13, format!("stream terminated by RST_STREAM with error code: {code}")))
            }
            kind::HEADERS if stream == STREAM => {
                let Some(mut block) = unpadded(payload, has(flag::PADDED)) else {
                    return broken("a frame's padding is wrong");
                };
                if has(flag::PRIORITY) {
                    let Some(rest) = block.get(5..) else { return broken("a frame is too short") };
                    block = rest;
                }
                self.block = Some((block.to_vec(), has(flag::END_STREAM)));
                if has(flag::END_HEADERS) { self.block_end() } else { None }
            }
            kind::CONTINUATION => {
                let Some((block, _)) = &mut self.block else { return broken("a frame out of turn") };
                block.extend_from_slice(payload);
                if block.len() > limits::GRPC_BYTES {
                    return broken("the headers are too long");
                }
                if has(flag::END_HEADERS) { self.block_end() } else { None }
            }
            kind::DATA if stream == STREAM => {
                let Some(data) = unpadded(payload, has(flag::PADDED)) else {
                    return broken("a frame's padding is wrong");
                };
                self.data.extend_from_slice(data);
                if self.data.len() > limits::GRPC_BYTES {
                    return broken("the message is too long");
                }
                if has(flag::END_STREAM) { Some(self.end()) } else { None }
            }
            _ => None,
        }
    }

    fn block_end(&mut self) -> Option<Answer> {
        let (block, last) = self.block.take()?;
        let Ok(headers) = self.decoder.read(&block) else {
            return Some(Answer::Broken("the headers cannot be decoded".to_owned()));
        };
        for (name, value) in headers {
            let value = String::from_utf8_lossy(&value).into_owned();
            match name.as_slice() {
                b":status" => self.http_status = Some(value),
                // Upstream: an unreadable status is code Unknown.
                b"grpc-status" => self.code = Some(value.parse().unwrap_or(2)),
                b"grpc-message" => self.message = unescape(&value),
                _ => {}
            }
        }
        last.then(|| self.end())
    }

    /// Result at the end of the stream.
    fn end(&self) -> Answer {
        let http = self.http_status.as_deref().unwrap_or_default();
        match self.code {
            Some(0) => match message_status(&self.data) {
                Some(status) => Answer::Status(status),
                None => Answer::Broken("the answer is not a HealthCheckResponse".to_owned()),
            },
            Some(code) => Answer::Rpc(code, self.message.clone()),
            None if http != "200" => {
                // Upstream's mapping of HTTP statuses (http2-grpc-status-mapping).
                let code = match http {
                    "400" => 13,
                    "401" => 16,
                    "403" => 7,
                    "404" => 12,
                    "429" | "502" | "503" | "504" => 14,
                    _ => 2,
                };
                Answer::Rpc(code, format!("unexpected HTTP status code received from server: {http}"))
            }
            None => Answer::Rpc(13, "server closed the stream without sending trailers".to_owned()),
        }
    }
}

/// The verdict on an answer, in upstream's words.
#[must_use]
pub fn judge(answer: &Answer, timeout: Duration) -> Outcome {
    Outcome::Failed(match answer {
        Answer::Status(1) => return Outcome::Passed,
        Answer::Status(status) => {
            let word = match status {
                0 => "UNKNOWN".to_owned(),
                2 => "NOT_SERVING".to_owned(),
                3 => "SERVICE_UNKNOWN".to_owned(),
                other => other.to_string(),
            };
            format!("service unhealthy (responded with {word:?})")
        }
        Answer::Rpc(12, message) => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        ),
        Answer::Rpc(4, _) => timed_out(timeout),
        Answer::Rpc(code, message) => {
            format!("error: health rpc probe failed: rpc error: code = {} desc = {message}", code_name(*code))
        }
        Answer::Broken(why) => {
            format!("error: health rpc probe failed: rpc error: code = Unavailable desc = {why}")
        }
    })
}

/// Message of a call that took too long.
#[must_use]
pub fn timed_out(timeout: Duration) -> String {
    format!("timeout: health rpc did not complete within {}", backoff::words(timeout))
}

/// Message when the connection was not made in time.
#[must_use]
pub fn connect_timed_out(address: &str, timeout: Duration) -> String {
    let within = backoff::words(timeout);
    format!("timeout: failed to connect service {address:?} within {within}: context deadline exceeded")
}

/// Message when the connection failed.
#[must_use]
pub fn connect_failed(address: &str, why: &str) -> String {
    format!("error: failed to connect service at {address:?}: {why}")
}

fn code_name(code: u32) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn unpadded(payload: &[u8], padded: bool) -> Option<&[u8]> {
    if !padded {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(padding))?)
}

/// `%41` is `A`; other bytes are unchanged.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.first_chunk::<2>().filter(|_| first == b'%');
        let value =
            hex.and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(value.unwrap_or(first));
        rest = if value.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn varint(mut value: usize, into: &mut Vec<u8>) {
    while value >= 128 {
        into.push(u8::try_from(value % 128).unwrap_or(0) | 128);
        value /= 128;
    }
    into.push(u8::try_from(value).unwrap_or(0));
}

/// Field 1 of the message after the length prefix; 0 when absent, as in protobuf.
fn message_status(data: &[u8]) -> Option<u64> {
    let (&[compressed, a, b, c, d], rest) = data.split_first_chunk::<5>()?;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    if compressed != 0 {
        return None;
    }
    let mut rest = rest.get(..length)?;
    let mut status = 0;
    while !rest.is_empty() {
        let tag = read_varint(&mut rest)?;
        match tag & 7 {
            0 => {
                let value = read_varint(&mut rest)?;
                if tag >> 3 == 1 {
                    status = value;
                }
            }
            1 => rest = rest.get(8..)?,
            2 => {
                let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
