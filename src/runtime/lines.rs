//! Lines of a stream that comes in pieces: one JSON object each (events, pull progress). Pure.

use serde_json::Value;

use super::http1::Malformed;
use crate::limits;

/// Bytes that are not a whole line yet, and lines that nobody took.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Start of the first line that was not taken.
    start: usize,
    /// No line end before here.
    searched: usize,
}

impl Lines {
    /// Where to append what was read.
    pub fn space(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.start.min(self.bytes.len()));
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > limits::HTTP_READ.saturating_mul(2) {
            self.bytes = Vec::new();
        }
        &mut self.bytes
    }

    /// The next line as JSON; empty lines are skipped. `None` when more must be read. At the end of the
    /// stream (`ended`) what is left is a line, too.
    ///
    /// # Errors
    /// A line that is no JSON, or longer than [`limits::STREAM_LINE`].
    pub fn next(&mut self, ended: bool) -> Result<Option<Value>, Malformed> {
        loop {
            let rest = self.bytes.get(self.searched..).unwrap_or_default();
            let end = match rest.iter().position(|&b| b == b'\n') {
                Some(at) => self.searched.saturating_add(at),
                None if ended && self.start < self.bytes.len() => self.bytes.len(),
                None => {
                    self.searched = self.bytes.len();
                    return if self.bytes.len().saturating_sub(self.start) > limits::STREAM_LINE {
                        Err(Malformed("a line of the stream is too long"))
                    } else {
                        Ok(None)
                    };
                }
            };
            let line = self.bytes.get(self.start..end).unwrap_or_default().trim_ascii();
            let json = (!line.is_empty()).then(|| serde_json::from_slice(line));
            let long = line.len() > limits::STREAM_LINE;
            self.start = end.saturating_add(1).min(self.bytes.len());
            self.searched = self.start;
            match json {
                _ if long => return Err(Malformed("a line of the stream is too long")),
                None => {}
                Some(Ok(value)) => return Ok(Some(value)),
                Some(Err(_)) => return Err(Malformed("a line of the stream is not JSON")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(parts: &[&[u8]]) -> Result<Vec<Value>, Malformed> {
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
        assert_eq!(run(&[b"1\n2"]).unwrap(), [1, 2], "the last line needs no end");
        assert_eq!(run(&[b""]).unwrap(), Vec::<Value>::new());
        assert_eq!(run(&[b"1\nx\n"]), Err(Malformed("a line of the stream is not JSON")));
        assert_eq!(run(&[b"{\"a\":"]), Err(Malformed("a line of the stream is not JSON")), "torn");
    }

    #[test]
    fn a_line_has_a_bound() {
        let long = vec![b' '; limits::STREAM_LINE + 1];
        assert_eq!(run(&[&long]), Err(Malformed("a line of the stream is too long")));
        let long = format!("\"{}\"\n", "x".repeat(limits::STREAM_LINE));
        assert_eq!(run(&[long.as_bytes()]), Err(Malformed("a line of the stream is too long")));
        let fits = format!("\"{}\"\n", "x".repeat(limits::STREAM_LINE - 2));
        assert_eq!(run(&[fits.as_bytes()]).unwrap().len(), 1);
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
