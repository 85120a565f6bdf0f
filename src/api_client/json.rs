//! Parses a server's bytes into a value of bounded size in memory. Pure.

use serde_json::Value;

use super::error::ApiError;
use crate::base::limits;
use crate::runtime::http1::Head;

/// Parses the bytes of an answer.
///
/// # Errors
/// The bytes are not JSON, or have too many values for the memory.
pub fn parse(bytes: &[u8], head: &Head) -> Result<Value, ApiError> {
    if !is_bounded(bytes) {
        return Err(ApiError::BadAnswer(format!(
            "what the server sends has more than {} values",
            limits::API_VALUES
        )));
    }
    serde_json::from_slice(bytes).map_err(|_| ApiError::of_no_json(head, bytes))
}

/// Whether there are at most [`limits::API_VALUES`] values: each takes memory, even with a short text.
#[must_use]
pub fn is_bounded(bytes: &[u8]) -> bool {
    let (mut values, mut in_text, mut is_escaped) = (1_usize, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values = values.saturating_add(1),
            _ => {}
        }
    }
    values <= limits::API_VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_not_what_stands_in_texts() {
        let check = |text: &str, times: usize, is_good: bool| {
            let text = format!("[{}0]", text.repeat(times));
            assert_eq!(is_bounded(text.as_bytes()), is_good, "{times} of {}", &text[..20]);
        };
        let most = limits::API_VALUES;
        check("0,", most - 2, true);
        check("0,", most, false);
        check("{},", most / 2, false);
        check("[],", most / 4, true);
        check(r#"",,,,\",,[[{{","#, most / 4, true);
    }
}
