//! Bytes as hexadecimal digits, and the SHA-256 in that form.

use std::fmt::Write as _;

/// Two lower-case digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SHA-256 of these bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&hmac_sha256::Hash::hash(bytes))
}
