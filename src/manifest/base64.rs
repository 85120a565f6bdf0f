//! Base64 as Go reads it into a `[]byte` (`encoding/base64`, `StdEncoding`): padding is required, line ends
//! may be anywhere, leftover bits of the last character are ignored.

/// The six bits of a character; `None` when it is not in the alphabet.
pub(crate) fn digit(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The decoded bytes; `None` when the text is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len().div_ceil(4).saturating_mul(3));
    let (mut group, mut filled, mut padding) = (0_u32, 0_u8, 0_u8);
    for byte in text.bytes() {
        match byte {
            b'\r' | b'\n' => continue,
            b'=' if filled >= 2 && filled + padding < 4 => {
                padding += 1;
                continue;
            }
            _ => {}
        }
        let six = digit(byte)?;
        if padding > 0 {
            return None;
        }
        group = (group << 6) | u32::from(six);
        filled += 1;
        if filled == 4 {
            let [_, bytes @ ..] = group.to_be_bytes();
            out.extend(bytes);
            (group, filled) = (0, 0);
        }
    }
    let [_, first, second, _] = group.wrapping_shl(6 * u32::from(4 - filled)).to_be_bytes();
    match (filled, padding) {
        (0, 0) => {}
        (2, 2) => out.push(first),
        (3, 1) => out.extend([first, second]),
        _ => return None,
    }
    Some(out)
}

/// Encodes the bytes, with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for at in 0..4_usize {
            let six = (bits >> (18_usize.saturating_sub(at.saturating_mul(6)))) & 0x3f;
            text.push(if at > group.len() { '=' } else { character(six) });
        }
    }
    text
}

/// The character of six bits.
fn character(six: u32) -> char {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ALPHABET.get(six as usize).copied().map_or('=', char::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_go_writes_it() {
        let check = |bytes: &[u8], text: &str| assert_eq!(encode(bytes), text);
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(&[0xff, 0xef], "/+8=");
        check(&[0xfb, 0xff, 0xbf], "+/+/");
    }

    #[test]
    fn as_go_reads_it() {
        let check = |text: &str, expected: Option<&[u8]>| {
            assert_eq!(decode(text).as_deref(), expected, "{text:?}");
        };
        check("", Some(b""));
        check("Zg==", Some(b"f"));
        check("Zm8=", Some(b"fo"));
        check("Zm9v", Some(b"foo"));
        check("Zm9vYg==", Some(b"foob"));
        check("Zm9v\nYmFy\r\n", Some(b"foobar"));
        check("Z\ng=\n=", Some(b"f"));
        check("Zh==", Some(b"f"));
        check("/+8=", Some(&[0xff, 0xef]));
        check("Zg", None);
        check("Zg=", None);
        check("Zg===", None);
        check("Z===", None);
        check("=", None);
        check("Zg==Zg==", None);
        check("Zm9v=", None);
        check("Zm 9v", None);
        check("Zm-_", None);
        check("Zm9vé", None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "[A-Za-z0-9+/=\n é-]{0,40}") {
            let decoded = decode(&text);
            prop_assert!(decoded.is_none_or(|bytes| bytes.len() <= text.len()));
        }
    }
}
