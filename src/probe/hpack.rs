//! HPACK (RFC 7541): header blocks of HTTP/2, as far as one request and its answer need it. Pure.
//!
//! Writing: literals without indexing and without Huffman coding, which every peer must support. Reading: all
//! of HPACK, because servers use all of it.

use std::collections::VecDeque;

use crate::base::limits;

/// A header block that violates the RFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock;

/// Appends one header as a literal that is not indexed. Names are lower case.
pub fn write(name: &str, value: &str, into: &mut Vec<u8>) {
    into.push(0);
    for text in [name, value] {
        integer(text.len(), 7, into);
        into.extend_from_slice(text.as_bytes());
    }
}

/// An integer with a prefix of `bits` bits; the bits above are zero.
fn integer(value: usize, bits: u32, into: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if value < most {
        into.push(u8::try_from(value).unwrap_or(u8::MAX));
        return;
    }
    into.push(u8::try_from(most).unwrap_or(u8::MAX));
    let mut rest = value.saturating_sub(most);
    while rest >= 128 {
        into.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
        rest /= 128;
    }
    into.push(u8::try_from(rest).unwrap_or(0));
}

/// Name and value as bytes.
pub type Header = (Vec<u8>, Vec<u8>);

/// The receiving side of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Newest first.
    table: VecDeque<Header>,
    size: usize,
    /// `None`: the default.
    capacity: Option<usize>,
}

/// Size of a table entry in addition to its bytes.
const OVERHEAD: usize = 32;
const TABLE: usize = 4096;

impl Decoder {
    /// Reads one whole header block.
    ///
    /// # Errors
    /// The block violates the RFC, or is longer than [`limits::GRPC_BYTES`] when decoded.
    pub fn read(&mut self, block: &[u8]) -> Result<Vec<Header>, BadBlock> {
        let mut rest = block;
        let mut headers = Vec::new();
        let mut bytes = 0usize;
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let capacity = read_integer(&mut rest, 5)?;
                if capacity > TABLE {
                    return Err(BadBlock);
                }
                self.capacity = Some(capacity);
                self.shrink();
                continue;
            }
            let header = if first & 0x80 != 0 {
                let index = read_integer(&mut rest, 7)?;
                self.get(index)?
            } else {
                let (bits, keep) = if first & 0x40 != 0 { (6, true) } else { (4, false) };
                let name = match read_integer(&mut rest, bits)? {
                    0 => read_string(&mut rest)?,
                    index => self.get(index)?.0,
                };
                let header = (name, read_string(&mut rest)?);
                if keep {
                    self.size = self.size.saturating_add(cost(&header));
                    self.table.push_front(header.clone());
                    self.shrink();
                }
                header
            };
            bytes = bytes.saturating_add(cost(&header));
            if bytes > limits::GRPC_BYTES {
                return Err(BadBlock);
            }
            headers.push(header);
        }
        Ok(headers)
    }

    fn get(&self, index: usize) -> Result<Header, BadBlock> {
        let index = index.checked_sub(1).ok_or(BadBlock)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        self.table.get(index.saturating_sub(STATIC.len())).cloned().ok_or(BadBlock)
    }

    fn shrink(&mut self) {
        while self.size > self.capacity.unwrap_or(TABLE) {
            let Some(last) = self.table.pop_back() else { return };
            self.size = self.size.saturating_sub(cost(&last));
        }
    }
}

fn cost((name, value): &Header) -> usize {
    name.len().saturating_add(value.len()).saturating_add(OVERHEAD)
}

fn byte(rest: &mut &[u8]) -> Result<u8, BadBlock> {
    let (&first, tail) = rest.split_first().ok_or(BadBlock)?;
    *rest = tail;
    Ok(first)
}

fn read_integer(rest: &mut &[u8], bits: u32) -> Result<usize, BadBlock> {
    let most = (1usize << bits) - 1;
    let mut value = usize::from(byte(rest)?) & most;
    if value < most {
        return Ok(value);
    }
    for shift in [0u32, 7, 14] {
        let next = byte(rest)?;
        value = value.saturating_add(usize::from(next & 127) << shift);
        if next & 128 == 0 {
            return Ok(value);
        }
    }
    Err(BadBlock)
}

fn read_string(rest: &mut &[u8]) -> Result<Vec<u8>, BadBlock> {
    let coded = rest.first().is_some_and(|b| b & 128 != 0);
    let length = read_integer(rest, 7)?;
    let (text, tail) = rest.split_at_checked(length).ok_or(BadBlock)?;
    *rest = tail;
    if coded { unhuffman(text) } else { Ok(text.to_vec()) }
}

/// The code of RFC 7541 appendix B is canonical: its lengths define it. Codes of one length follow each other
/// in the order of their symbols.
fn unhuffman(text: &[u8]) -> Result<Vec<u8>, BadBlock> {
    let mut out = Vec::new();
    let (mut code, mut length) = (0u32, 0u8);
    // First code of the current length.
    let mut first = 0u32;
    for byte in text {
        for bit in (0..8).rev() {
            code = (code << 1) | u32::from((byte >> bit) & 1);
            first <<= 1;
            length += 1;
            let of_length = || LENGTHS.iter().enumerate().filter(|(_, l)| **l == length);
            let count = u32::try_from(of_length().count()).unwrap_or(0);
            if code.wrapping_sub(first) < count {
                let nth = usize::try_from(code.wrapping_sub(first)).unwrap_or(0);
                let symbol = of_length().nth(nth).map(|(symbol, _)| symbol).ok_or(BadBlock)?;
                // 256 is the end symbol, which must not be used.
                out.push(u8::try_from(symbol).map_err(|_| BadBlock)?);
                (code, length, first) = (0, 0, 0);
            } else {
                first = first.wrapping_add(count);
                if length > 30 {
                    return Err(BadBlock);
                }
            }
        }
    }
    // The rest is a prefix of the end symbol: ones, less than a byte.
    let padding = length < 8 && code == (1u32 << length) - 1;
    if padding { Ok(out) } else { Err(BadBlock) }
}

/// Length of each symbol's code, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests;
