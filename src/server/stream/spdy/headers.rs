//! Header blocks: inflates those of the client, and writes ours.
//!
//! A block of a few bytes can inflate to gigabytes, so the size is checked while inflating. Ours are not compressed:
//! every reader understands a zlib stream of stored blocks, and a server's headers are empty.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::dictionary;
use crate::base::limits;
use crate::server::stream::{Fault, fault};

/// Names, in lower case, and values. The first of several values of a name counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of a header; its name in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the names and values of an inflated block.
    fn parse(block: &[u8]) -> Result<Headers, Fault> {
        let mut rest = block;
        let count = number(&mut rest).ok_or_else(too_short)?;
        if count > limits::SPDY_HEADER_COUNT {
            return fault("too many headers in a SPDY frame");
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = text(&mut rest).ok_or_else(too_short)?;
            let value = text(&mut rest).ok_or_else(too_short)?;
            let first = value.split('\0').next().unwrap_or_default();
            headers.push((name.to_ascii_lowercase(), first.to_owned()));
        }
        if rest.is_empty() { Ok(Headers(headers)) } else { fault("a SPDY header block that is too long") }
    }
}

fn too_short() -> Fault {
    Fault("a SPDY header block that is too short".to_owned())
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (bytes, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*bytes)).ok()
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = number(rest)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// Size of deflate's window, bytes.
const WINDOW: usize = 32 * 1024;

/// Reads the header blocks of one connection, in the order of their frames.
pub struct Inflater {
    /// `None` until the first block, which begins with zlib's header.
    state: Option<Box<DecompressorOxide>>,
    /// Ring buffer of the inflated bytes.
    window: Vec<u8>,
    at: usize,
}

impl std::fmt::Debug for Inflater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflater").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Inflater {
    /// For a new connection. Memory is allocated with the first block.
    #[must_use]
    pub fn new() -> Inflater {
        Inflater { state: None, window: Vec::new(), at: 0 }
    }

    /// The headers of the next block. After an error the connection's later blocks cannot be read either.
    ///
    /// # Errors
    /// It is no zlib data, too long, or not a list of headers.
    pub fn read(&mut self, block: &[u8]) -> Result<Headers, Fault> {
        Headers::parse(&self.inflate(block)?)
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, Fault> {
        let (mut state, mut rest) = match self.state.take() {
            Some(state) => (state, block),
            None => (Box::default(), self.begin(block)?),
        };
        let mut inflated = Vec::new();
        loop {
            let (status, used, written) =
                decompress(&mut state, rest, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            rest = rest.get(used..).unwrap_or_default();
            let end = self.at.saturating_add(written);
            inflated.extend_from_slice(self.window.get(self.at..end).unwrap_or_default());
            self.at = end % WINDOW;
            if inflated.len() > limits::SPDY_HEADERS {
                return fault("headers of a SPDY frame that are too long");
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if rest.is_empty() => break,
                _ => return fault("a SPDY header block that cannot be inflated"),
            }
        }
        self.state = Some(state);
        Ok(inflated)
    }

    /// Reads zlib's header (RFC 1950), puts the dictionary into the window, and returns the rest.
    fn begin<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], Fault> {
        let Some(([method, flags], rest)) = block.split_first_chunk::<2>() else { return Err(too_short()) };
        let is_zlib =
            method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]) % 31 == 0;
        if !is_zlib {
            return fault("a SPDY header block that is not zlib's");
        }
        self.window = vec![0; WINDOW];
        self.at = 0;
        if flags & 0x20 == 0 {
            return Ok(rest);
        }
        let Some((id, rest)) = rest.split_first_chunk::<4>() else { return Err(too_short()) };
        if u32::from_be_bytes(*id) != dictionary::ID {
            return fault("a SPDY header block with an unknown dictionary");
        }
        let bytes = dictionary::bytes();
        self.at = bytes.len();
        self.window.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Ok(rest)
    }
}

/// Writes header blocks without headers.
#[derive(Debug, Default)]
pub struct Empty {
    begun: bool,
}

impl Empty {
    /// The next block of the connection.
    pub fn block(&mut self) -> Vec<u8> {
        // zlib's header without a dictionary, once; then a stored block that is not the last: its length, the
        // complement of that, and a count of no headers; then an empty one, because Go's reader returns nothing before
        // it.
        const HEADER: [u8; 2] = [0x78, 0x01];
        const STORED: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let mut block = Vec::with_capacity(HEADER.len() + STORED.len());
        if !std::mem::replace(&mut self.begun, true) {
            block.extend(HEADER);
        }
        block.extend(STORED);
        block
    }
}
