//! Image references as Docker and the kubelet read them (distribution's `reference` package). Pure.

use crate::base::limits;

/// A reference in its parts, without the defaults of Docker Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Registry with its port; `None` for Docker Hub.
    domain: Option<&'a str>,
    path: &'a str,
    tag: Option<&'a str>,
    /// With its algorithm.
    digest: Option<&'a str>,
}

/// Docker's message for text that is not a reference.
const INVALID: &str = "invalid reference format";

impl<'a> Reference<'a> {
    /// Reads `busybox`, `registry:5000/team/app:1`, `app@sha256:…`.
    ///
    /// # Errors
    /// Docker's message about the mistake.
    pub fn parse(text: &'a str) -> Result<Reference<'a>, String> {
        if is_hex(text, 64) {
            return Err(format!(
                "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            ));
        }
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (text, None),
        };
        let (domain, rest) = split_domain(named);
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if path.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(format!("{INVALID}: repository name must be lowercase"));
        }
        let valid = domain.is_none_or(is_domain)
            && path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !valid {
            return Err(INVALID.to_owned());
        }
        let reference = Reference { domain, path, tag, digest };
        if reference.repository().len() > limits::REPOSITORY_NAME {
            let most = limits::REPOSITORY_NAME;
            return Err(format!("repository name must not be more than {most} characters"));
        }
        Ok(reference)
    }

    /// Name without tag and digest, in full: `docker.io/library/busybox`.
    #[must_use]
    pub fn repository(&self) -> String {
        match self.domain {
            Some(domain) => format!("{domain}/{}", self.path),
            None if self.path.contains('/') => format!("{HUB}/{}", self.path),
            None => format!("{HUB}/library/{}", self.path),
        }
    }

    /// The registry, with its port.
    #[must_use]
    pub fn registry(&self) -> &'a str {
        self.domain.unwrap_or(HUB)
    }

    /// The full name of the image: equal references have equal text. With a digest, the tag is ignored.
    #[must_use]
    pub fn normal(&self) -> String {
        match (self.digest, self.tag) {
            (Some(digest), _) => format!("{}@{digest}", self.repository()),
            (None, tag) => format!("{}:{}", self.repository(), tag.unwrap_or("latest")),
        }
    }
}

/// [`Reference::registry`] of a text; empty for text that is not a reference.
#[must_use]
pub fn registry(text: &str) -> &str {
    Reference::parse(text).map_or("", |reference| reference.registry())
}

/// [`Reference::normal`] of a text; text that is not a reference is returned as it is.
#[must_use]
pub fn normal(text: &str) -> String {
    Reference::parse(text).map_or_else(|_| text.to_owned(), |r| r.normal())
}

/// Docker Hub's name in references.
const HUB: &str = "docker.io";

/// The registry at the start of a name; `None` for Docker Hub, in any notation.
fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((HUB | "index.docker.io", rest)) => (None, rest),
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_domain(text: &str) -> bool {
    let port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    if let Some(v6) = text.strip_prefix('[') {
        let Some((address, rest)) = v6.split_once(']') else { return false };
        let address =
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
        return address && (rest.is_empty() || rest.strip_prefix(':').is_some_and(port));
    }
    let (host, number) = text.split_once(':').map_or((text, None), |(host, number)| (host, Some(number)));
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(part) && number.is_none_or(port)
}

/// Words of lower-case letters and digits, separated by one dot, one or two underscores, or dashes.
fn is_component(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(word) && text.bytes().next_back().is_some_and(word);
    let mut between = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let separator = |s: &str| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-');
    ends && between.all(separator)
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// With one of the algorithms that Docker knows.
fn is_digest(text: &str) -> bool {
    match text.split_once(':') {
        Some(("sha256", hex)) => is_hex(hex, 64),
        Some(("sha384", hex)) => is_hex(hex, 96),
        Some(("sha512", hex)) => is_hex(hex, 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn what_references_mean() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Reference::parse(text).map(|r| r.normal()), Ok(expected.to_owned()), "{text}");
        };
        check("busybox", "docker.io/library/busybox:latest");
        check("busybox:1.36", "docker.io/library/busybox:1.36");
        check("team/app", "docker.io/team/app:latest");
        check("docker.io/busybox", "docker.io/library/busybox:latest");
        check("index.docker.io/team/app", "docker.io/team/app:latest");
        check("localhost/a", "localhost/a:latest");
        check("127.0.0.1:5000/a/b_c:D", "127.0.0.1:5000/a/b_c:D");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check("Registry/a", "Registry/a:latest");
        check(&format!("a@{SHA}"), &format!("docker.io/library/a@{SHA}"));
        check(&format!("a:1@{SHA}"), &format!("docker.io/library/a@{SHA}"));
        check("a--b.c__d", "docker.io/library/a--b.c__d:latest");
    }

    #[test]
    fn what_is_no_reference() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Reference::parse(text).unwrap_err(), expected, "{text:?}");
        };
        let lower = "invalid reference format: repository name must be lowercase";
        check("", INVALID);
        check("Not A Valid//Name", lower);
        check("Busybox", lower);
        check("x.io/A", lower);
        check("a//b", INVALID);
        check("/a", INVALID);
        check("a/", INVALID);
        check("a b", INVALID);
        check("a:", INVALID);
        check("a:b:c", INVALID);
        check("a:-", INVALID);
        check("a@sha256:12", INVALID);
        check(&format!("{SHA}@{SHA}x"), INVALID);
        check("a___b", INVALID);
        check("a._b", INVALID);
        check("-a", INVALID);
        check("x..io/a", INVALID);
        check("x.io:port/a", INVALID);
        check("{{image}}", INVALID);
        check(&"a".repeat(256), "repository name must not be more than 255 characters");
        let id = SHA.strip_prefix("sha256:").unwrap();
        let words = format!("invalid repository name ({id}), cannot specify 64-byte hexadecimal strings");
        check(id, &words);
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own(text in "[a-zA-Z0-9./:@_-]{0,40}|\\PC{0,20}") {
            if let Ok(reference) = Reference::parse(&text) {
                let once = reference.normal();
                prop_assert_eq!(Reference::parse(&once).map(|r| r.normal()), Ok(once.clone()));
            }
        }
    }
}
