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
    hex(&super::sha256::hash(bytes))
}

/// Number of digits of a container's or image's id that are shown to people, as in Docker's own tables.
const SHORT: usize = 12;
/// Number of digits of a whole id.
const WHOLE: usize = 64;

/// Shortens ids in text for people: whole ids of containers and images are cut to twelve digits. A digest after a
/// name, which people copy into manifests (`busybox@sha256:…`), stays whole.
#[must_use]
pub fn short_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let is_id = word.len() == WHOLE && word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let shown = if is_id && !out.ends_with("@sha256:") { word.get(..SHORT) } else { None };
        out.push_str(shown.unwrap_or(word));
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ids_are_cut_and_digests_of_names_are_not() {
        let id = "0123456789abcdef".repeat(4);
        let check = |text: &str, expected: &str| assert_eq!(short_ids(text), expected);
        check(&format!("No such container: {id}"), "No such container: 0123456789ab");
        check(
            &format!("image sha256:{id} is used by /{id}/x"),
            "image sha256:0123456789ab is used by /0123456789ab/x",
        );
        for same in [
            format!("a@sha256:{id} not found"),
            format!("{id}0"),
            format!("x{id}"),
            "é: ü".to_owned(),
            String::new(),
        ] {
            check(&same, &same);
        }
    }
}
