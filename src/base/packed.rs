//! Texts that are compressed in the program, because they are large and seldom read: the build script packs them. Each
//! costs its memory from its first use on.
//!
//! Never here: a text that each daemon reads.

use std::sync::OnceLock;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// A packed text.
#[derive(Debug)]
pub struct Packed {
    bytes: &'static [u8],
    text: OnceLock<String>,
}

impl Packed {
    /// Takes what the build script wrote: the length of the text, four bytes, the lowest first; then raw deflate.
    #[must_use]
    pub const fn new(bytes: &'static [u8]) -> Packed {
        Packed { bytes, text: OnceLock::new() }
    }

    /// The text; empty if the bytes are not of the build script.
    pub fn text(&'static self) -> &'static str {
        self.text.get_or_init(|| unpack(self.bytes).unwrap_or_default())
    }
}

fn unpack(bytes: &[u8]) -> Option<String> {
    let (length, packed) = bytes.split_first_chunk()?;
    let mut text = vec![0; usize::try_from(u32::from_le_bytes(*length)).ok()?];
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, ..) = decompress(&mut state, packed, &mut text, 0, flags);
    (status == TINFLStatus::Done).then(|| String::from_utf8(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back_and_anything_else_is_empty() {
        static STYLE: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/page.css.packed")));
        assert_eq!(STYLE.text(), include_str!("../api/page/page.css"));
        assert!(STYLE.bytes.len() < STYLE.text().len() / 2);
        for wrong in [
            &b""[..],
            b"\x05",
            b"\x05\0\0\0",
            b"\x05\0\0\0\xff\xff\xff",
            &STYLE.bytes[..STYLE.bytes.len() / 2],
        ] {
            assert_eq!(unpack(wrong), None, "{wrong:?}");
        }
    }
}
