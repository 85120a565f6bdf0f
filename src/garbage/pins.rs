//! Which images `--pinned-images` names. Pure.
//!
//! An entry without `*` is a reference as a manifest has it, with the same defaults (`busybox` is
//! `docker.io/library/busybox:latest`), or an image's id. In any other entry, each `*` stands for any characters,
//! including `/` and `:`, and the whole must match a name of the image in full or as Docker prints it.

use std::fmt;

use crate::base::limits;
use crate::image::reference::{Reference, normal};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// The full reference, or an id.
    Name(String),
    /// The texts between the `*`.
    Glob(Vec<String>),
}

impl Pin {
    /// Reads one entry.
    ///
    /// # Errors
    /// Why the entry matches no image.
    pub fn parse(text: &str) -> Result<Pin, String> {
        if text.len() > limits::PIN {
            return Err(format!("an entry has more than {} characters", limits::PIN));
        }
        if text.contains('*') {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"*._-/:@".contains(&b);
            return match text.bytes().all(plain) {
                true => Ok(Pin::Glob(text.split('*').map(str::to_owned).collect())),
                false => Err(format!("{text:?} fits no name of an image")),
            };
        }
        if is_id(text) {
            return Ok(Pin::Name(text.to_owned()));
        }
        Reference::parse(text).map(|it| Pin::Name(it.normal())).map_err(|why| format!("{text:?}: {why}"))
    }

    /// Whether the entry matches an image with this id and these tags and digests.
    #[must_use]
    pub fn fits<'a>(&self, id: &str, names: impl IntoIterator<Item = &'a String>) -> bool {
        match self {
            Pin::Name(name) => name == id || names.into_iter().any(|known| normal(known) == *name),
            Pin::Glob(parts) => {
                names.into_iter().any(|known| is_like(parts, known) || is_like(parts, &normal(known)))
            }
        }
    }
}

impl fmt::Display for Pin {
    /// In the form that [`Pin::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pin::Name(name) => f.write_str(name),
            Pin::Glob(parts) => f.write_str(&parts.join("*")),
        }
    }
}

/// Whether the text is a complete image id.
fn is_id(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// Whether the text is these parts with anything between them.
fn is_like(parts: &[String], text: &str) -> bool {
    let Some((first, rest)) = parts.split_first() else { return false };
    let Some((last, middle)) = rest.split_last() else { return first == text };
    let Some(mut left) = text.strip_prefix(first.as_str()).and_then(|t| t.strip_suffix(last.as_str())) else {
        return false;
    };
    for part in middle {
        match left.find(part.as_str()) {
            Some(at) => left = left.get(at.saturating_add(part.len())..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_entry_pins() {
        let id = format!("sha256:{}", "ab".repeat(32));
        let check = |pin: &str, name: &str, fits: bool| {
            let pinned = Pin::parse(pin).unwrap().fits(&id, [&name.to_owned()]);
            assert_eq!(pinned, fits, "{pin} and {name}");
        };
        check("busybox", "busybox:latest", true);
        check("docker.io/library/busybox", "busybox:latest", true);
        check("busybox", "busybox:1", false);
        check("busybox:*", "busybox:1", true);
        check("docker.io/library/busybox:*", "busybox:1", true);
        check("*", "x.io/a:1", true);
        check("x.io/*", "x.io/a/b:1", true);
        check("x.io/*", "y.io/x.io/a:1", false);
        check("*/a:*", "x.io/a:1", true);
        check("*a*a*", "x.io/a:1", false);
        check("*a*a*", "x.io/aa:1", true);
        check("x.io/a@*", &format!("x.io/a@{id}"), true);
        check("x.io*o/a:1", "x.io/a:1", false);
        check(&id, "x.io/a:1", true);
        check(&format!("x.io/a@{id}"), &format!("x.io/a@{id}"), true);
        assert!(Pin::parse("*").unwrap().fits(&id, [&"a:1".to_owned()]));
        assert!(!Pin::parse("*").unwrap().fits(&id, []), "an image without a name has none that fits");
    }

    #[test]
    fn an_entry_is_written_as_it_is_read() {
        let id = format!("sha256:{}", "ab".repeat(32));
        for text in ["busybox", "r.io/a:1", "*a**:1", "*", &id] {
            let pin = Pin::parse(text).unwrap();
            assert_eq!(Pin::parse(&pin.to_string()), Ok(pin), "{text}");
        }
    }

    #[test]
    fn what_is_no_entry() {
        for bad in ["", "A", "a b", "a*{b}", "a::b", &"a*".repeat(limits::PIN)] {
            assert!(Pin::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn an_image_fits_its_own_name_with_anything_left_out(name in "[a-z0-9./:-]{1,20}", a in 0usize..20, b in 0usize..20) {
            let (a, b) = (a.min(name.len()), b.min(name.len()));
            let glob = format!("{}*{}", &name[..a.min(b)], &name[a.max(b)..]);
            proptest::prop_assert!(Pin::parse(&glob).unwrap().fits("", [&name]), "{} {}", glob, name);
        }
    }
}
