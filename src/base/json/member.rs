//! One member of a JSON object that may be very long, without the rest of it in memory.

use std::io::{self, BufRead, ErrorKind};

/// The text of the member of this name, at most `most` bytes; `null` if the object has none. What comes after it is not
/// read.
///
/// # Errors
/// The text ends before the object does, the member is longer, or it cannot be read.
pub fn member(text: &mut dyn BufRead, name: &str, most: usize) -> io::Result<Vec<u8>> {
    let (mut depth, mut is_text, mut is_escaped) = (0usize, false, false);
    // The last text directly in the object: a key, if a colon follows.
    let mut key = Vec::new();
    let mut found: Option<Vec<u8>> = None;
    loop {
        let bytes = text.fill_buf()?;
        let count = bytes.len();
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        for byte in bytes {
            let is_outside = depth == 1 && !is_text;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => {
                    is_text = !is_text;
                    if is_outside {
                        key.clear();
                    }
                }
                _ if is_text && key.len() > name.len() => {}
                _ if is_text => key.push(*byte),
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' if depth <= 1 => return Ok(found.unwrap_or_else(|| b"null".to_vec())),
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' if is_outside && found.is_some() => return Ok(found.unwrap_or_default()),
                b':' if is_outside && found.is_none() && key == name.as_bytes() => {
                    found = Some(Vec::new());
                    continue;
                }
                _ => {}
            }
            if let Some(found) = &mut found {
                if found.len() >= most {
                    return Err(ErrorKind::FileTooLarge.into());
                }
                found.push(*byte);
            }
        }
        text.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_whatever_comes_before_it() {
        let text = r#"{"E":["\"M\":1","M",{"M":2}],"M ":"M","n":"M","M":{"a":"},\"{","b":[]},"z":"#;
        let read = |text: &str, most| {
            let mut bytes = io::BufReader::with_capacity(3, text.as_bytes());
            member(&mut bytes, "M", most).map(|found| String::from_utf8(found).unwrap())
        };
        let expected = r#"{"a":"},\"{","b":[]}"#;
        assert_eq!(read(text, 100).unwrap(), expected, "what comes after it does not matter");
        assert_eq!(read(text, expected.len()).unwrap(), expected);
        assert_eq!(read(text, expected.len() - 1).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(r#"{"M": 7 }"#, 9).unwrap(), " 7 ");
        assert_eq!(read(r#"{"N":{"M":1}}"#, 9).unwrap(), "null");
        for cut in [r#"{"N":1"#, r#"{"M":[1,2"#, "", r#"{"M"#] {
            assert_eq!(read(cut, 9).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{cut}");
        }
    }
}
