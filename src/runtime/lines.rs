//! Lines of a stream that arrives in pieces: one JSON object each (events, pull progress). Pure.
//!
//! A line that is too long is skipped without being held. It does not end the stream: the same line could
//! come again on every new connection.

use serde_json::Value;

use super::http1::Malformed;
use crate::base::limits;

/// Bytes without a line end so far, and lines that were not taken.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Start of the first line that was not taken.
    start: usize,
    /// There is no line end before this position.
    searched: usize,
    /// The line is too long, and its end has not arrived.
    skipping: bool,
}

/// One line of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The line's JSON.
    Json(Value),
    /// The line was longer than [`limits::STREAM_LINE`].
    TooLong,
}

impl Lines {
    /// The buffer to append received bytes to.
    pub fn space(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.start.min(self.bytes.len()));
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > limits::HTTP_READ.saturating_mul(2) {
            self.bytes = Vec::new();
        }
        &mut self.bytes
    }

    /// The next line; empty lines are skipped. `None` when more bytes are needed. At the end of the stream
    /// (`ended`) the remaining bytes are a line, too.
    ///
    /// # Errors
    /// A line that is not JSON.
    pub fn next(&mut self, ended: bool) -> Result<Option<Line>, Malformed> {
        loop {
            let rest = self.bytes.get(self.searched..).unwrap_or_default();
            let end = match rest.iter().position(|&b| b == b'\n') {
                Some(at) => self.searched.saturating_add(at),
                None if ended && (self.start < self.bytes.len() || self.skipping) => self.bytes.len(),
                None => {
                    self.searched = self.bytes.len();
                    if self.bytes.len().saturating_sub(self.start) > limits::STREAM_LINE {
                        self.skipping = true;
                    }
                    if self.skipping {
                        self.start = self.bytes.len();
                    }
                    return Ok(None);
                }
            };
            let line = self.bytes.get(self.start..end).unwrap_or_default().trim_ascii();
            let long = std::mem::take(&mut self.skipping) || line.len() > limits::STREAM_LINE;
            let json = (!long && !line.is_empty()).then(|| serde_json::from_slice(line));
            self.start = end.saturating_add(1).min(self.bytes.len());
            self.searched = self.start;
            match json {
                _ if long => return Ok(Some(Line::TooLong)),
                None => {}
                Some(Ok(value)) => return Ok(Some(Line::Json(value))),
                Some(Err(_)) => return Err(Malformed("a line of the stream is not JSON")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(parts: &[&[u8]]) -> Result<Vec<Line>, Malformed> {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for part in parts {
            lines.space().extend_from_slice(part);
            while let Some(value) = lines.next(false)? {
                out.push(value);
            }
        }
        while let Some(value) = lines.next(true)? {
            out.push(value);
        }
        Ok(out)
    }

    #[test]
    fn lines() {
        assert_eq!(run(&[b"1\n2\r\n\n{\"a\":\"\\n\"}\n"]).unwrap().len(), 3);
        let two = [1, 2].map(|n| Line::Json(n.into()));
        assert_eq!(run(&[b"1\n2"]).unwrap(), two, "the last line needs no end");
        assert_eq!(run(&[b""]), Ok(vec![]));
        assert_eq!(run(&[b"1\nx\n"]), Err(Malformed("a line of the stream is not JSON")));
        assert_eq!(run(&[b"{\"a\":"]), Err(Malformed("a line of the stream is not JSON")), "torn");
    }

    /// The long line ends neither the stream nor the lines after it, and is not held in memory.
    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = format!("\"{}\"\n", "x".repeat(limits::STREAM_LINE));
        let expected = [Line::Json(1.into()), Line::TooLong, Line::Json(2.into())];
        let text = format!("1\n{long}2\n");
        for size in [text.len(), 4096, 65_537] {
            let parts: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(run(&parts).unwrap(), expected, "in pieces of {size}");
        }
        let torn = long.trim_end().as_bytes();
        assert_eq!(run(&[torn]), Ok(vec![Line::TooLong]));
        let fits = format!("\"{}\"\n", "x".repeat(limits::STREAM_LINE - 2));
        assert!(matches!(run(&[fits.as_bytes()]).unwrap().as_slice(), [Line::Json(_)]));
        let mut lines = Lines::default();
        for _ in 0..1000 {
            lines.space().extend_from_slice(&[b'x'; 16 * 1024]);
            assert_eq!(lines.next(false), Ok(None));
            assert!(lines.bytes.len() <= 2 * limits::STREAM_LINE, "{}", lines.bytes.len());
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            values in prop::collection::vec("[a-z\\n \"]{0,12}", 0..8),
            noise in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
            size in 1usize..20,
        ) {
            let mut bytes: Vec<u8> = Vec::new();
            for value in values {
                bytes.extend(serde_json::to_vec(&value).unwrap());
                bytes.push(b'\n');
            }
            if let Some((at, byte)) = noise && !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let parts: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(run(&parts), run(&[&bytes]));
        }
    }
}
