//! Docker's framing of container output: 8 bytes of header before each piece, or raw bytes with a tty (Docker
//! Engine API). Pure; a frame may be split over any number of reads, and its bytes are passed on at once.

use super::http1::Malformed;

/// The stream of a container to which bytes belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Echo of standard input; never seen in practice.
    Stdin,
    /// Standard output, and everything with a tty.
    Stdout,
    /// Standard error.
    Stderr,
    /// An error of the engine itself while it copies (kind 3).
    System,
}

/// The demultiplexer.
#[derive(Debug)]
pub struct Frames {
    raw: bool,
    header: Vec<u8>,
    kind: StreamKind,
    left: usize,
}

impl Frames {
    /// `tty`: the container (or exec) has a terminal, so its bytes come unframed.
    #[must_use]
    pub fn new(tty: bool) -> Frames {
        Frames { raw: tty, header: Vec::new(), kind: StreamKind::Stdout, left: 0 }
    }

    /// The first piece of `input`, and how many bytes of `input` were consumed, the piece being the last of
    /// them: it is `input[used - len..used]`. `None` when `input` holds no payload; all of it is consumed
    /// then.
    ///
    /// # Errors
    /// The header is not Docker's: the framing is lost, or the bytes were unframed.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<Piece>, Malformed> {
        let mut used = 0usize;
        if self.raw {
            self.left = input.len();
        }
        while self.left == 0 {
            let Some(&byte) = input.get(used) else { return Ok(None) };
            used = used.saturating_add(1);
            self.header.push(byte);
            if let &[kind, x, y, z, a, b, c, d] = self.header.as_slice() {
                self.kind = match kind {
                    0 => StreamKind::Stdin,
                    1 => StreamKind::Stdout,
                    2 => StreamKind::Stderr,
                    3 => StreamKind::System,
                    _ => return Err(Malformed("a frame of an unknown stream")),
                };
                if [x, y, z] != [0, 0, 0] {
                    return Err(Malformed("a frame header without its zeros"));
                }
                self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
                self.header.clear();
            }
        }
        let len = self.left.min(input.len().saturating_sub(used));
        if len == 0 {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(len);
        Ok(Some(Piece { kind: self.kind, len, used: used.saturating_add(len) }))
    }

    /// Called at the end of the stream: returns whether it ended between two frames.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.raw || (self.left == 0 && self.header.is_empty())
    }
}

/// Where a piece of output lies in the input of [`Frames::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub kind: StreamKind,
    /// Bytes of payload; never 0.
    pub len: usize,
    /// Bytes of input consumed; the payload ends here.
    pub used: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![kind, 0, 0, 0];
        out.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        out.extend(payload);
        out
    }

    type Output = Vec<(StreamKind, Vec<u8>)>;

    /// All pieces, neighbours of one stream joined.
    fn run(tty: bool, parts: &[&[u8]]) -> Result<(Output, bool), Malformed> {
        let mut frames = Frames::new(tty);
        let mut out = Output::new();
        for part in parts {
            let mut rest = *part;
            while let Some(piece) = frames.next(rest)? {
                let payload = &rest[piece.used - piece.len..piece.used];
                match out.last_mut() {
                    Some((kind, bytes)) if *kind == piece.kind => bytes.extend(payload),
                    _ => out.push((piece.kind, payload.to_vec())),
                }
                rest = &rest[piece.used..];
            }
        }
        Ok((out, frames.is_whole()))
    }

    #[test]
    fn frames_come_apart() {
        let bytes = [frame(1, b"out"), frame(2, b""), frame(2, b"err"), frame(3, b"engine")].concat();
        let (out, whole) = run(false, &[&bytes]).unwrap();
        assert_eq!(
            out,
            [
                (StreamKind::Stdout, b"out".to_vec()),
                (StreamKind::Stderr, b"err".to_vec()),
                (StreamKind::System, b"engine".to_vec())
            ]
        );
        assert!(whole);
        assert!(!run(false, &[&bytes[..5]]).unwrap().1, "half a header is not an end");
        assert!(!run(false, &[&bytes[..10]]).unwrap().1, "half a payload is not an end");
    }

    #[test]
    fn a_tty_is_raw() {
        let (out, whole) = run(true, &[b"\x01\x00", b"", b"hello"]).unwrap();
        assert_eq!(out, [(StreamKind::Stdout, b"\x01\x00hello".to_vec())]);
        assert!(whole);
    }

    #[test]
    fn what_is_not_a_frame_is_refused() {
        assert!(run(false, &[b"\x04\0\0\0\0\0\0\x01x"]).is_err());
        assert!(run(false, &[b"\x01\0\x01\0\0\0\0\x01x"]).is_err());
        assert!(run(false, &[b"hello world"]).is_err());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            payloads in prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
            cut in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|(k, p)| frame(*k, p)).collect();
            let mut at: Vec<usize> = cut.iter().map(|i| i.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(run(false, &parts), run(false, &[&bytes]));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), tty: bool) {
            let mut frames = Frames::new(tty);
            let mut rest = bytes.as_slice();
            while let Ok(Some(piece)) = frames.next(rest) {
                prop_assert!(piece.len > 0 && piece.used >= piece.len);
                rest = &rest[piece.used..];
            }
        }
    }
}
