//! Image references as Docker reads them, and entries of the allow list.
//!
//! Names are compared by their parts, never as text, so that `registry.example.com.evil.io` does not match
//! `registry.example.com`. No entry allows an invalid reference, or one that might be an image's ID.

use std::fmt;

/// A normalized reference: `busybox` is `library/busybox` of `docker.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    domain: &'a str,
    path: String,
    tag: Option<&'a str>,
    /// With its algorithm: `sha256:…`.
    digest: Option<&'a str>,
}

const DOCKER_HUB: &str = "docker.io";

/// The registry at the beginning of a name, if there is one, and the rest (distribution's
/// `splitDockerDomain`).
fn split_domain(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((first, rest)) if is_domain_like(first) => {
            (if first == "index.docker.io" { DOCKER_HUB } else { first }, rest)
        }
        _ => (DOCKER_HUB, name),
    }
}

fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_domain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b))
}

fn is_path(text: &str) -> bool {
    let component = |part: &str| {
        let end = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        end(part.bytes().next())
            && end(part.bytes().next_back())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    text.split('/').all(component)
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// `sha256:` and 64 lower-case hexadecimal digits.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && is_hex(hex))
}

/// Whether the image is named by a SHA-256 digest.
pub(super) fn is_pinned(image: &str) -> bool {
    Reference::parse(image).is_some_and(|r| r.digest.is_some())
}

impl<'a> Reference<'a> {
    /// `None` for a name that Docker would refuse, for a digest other than SHA-256, and for a name that
    /// Docker could take for the ID of a local image: it does not show the image's origin.
    pub(super) fn parse(text: &'a str) -> Option<Reference<'a>> {
        // Docker looks the prefix of an ID up with and without its algorithm.
        if text.split_once(':').is_some_and(|(algorithm, hex)| algorithm.starts_with("sha") && is_hex(hex)) {
            return None;
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|d| !is_digest(d)) {
            return None;
        }
        // A colon before the last slash belongs to the registry's port.
        let last = name.rfind('/').map_or(0, |at| at.saturating_add(1));
        let (name, tag) = match name.get(last..)?.find(':') {
            Some(at) => {
                let at = last.saturating_add(at);
                (name.get(..at)?, name.get(at.saturating_add(1)..))
            }
            None => (name, None),
        };
        if tag.is_some_and(|t| !is_tag(t)) {
            return None;
        }
        if tag.is_none() && digest.is_none() && !name.contains('/') && is_hex(name) {
            return None;
        }
        let (domain, rest) = split_domain(name);
        let single = domain == DOCKER_HUB && !rest.contains('/');
        let path = if single { format!("library/{rest}") } else { rest.to_owned() };
        (is_domain(domain) && is_path(&path)).then_some(Reference { domain, path, tag, digest })
    }
}

/// An entry of `--allowed-images`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedImage {
    domain: String,
    scope: Scope,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// Every repository below this path; empty for the whole registry.
    Below(String),
    /// This repository: with this tag, or this digest, or any.
    Repository { path: String, tag: Option<String>, digest: Option<String> },
}

impl fmt::Display for AllowedImage {
    /// A form that parses to the same entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let domain = &self.domain;
        match &self.scope {
            Scope::Below(path) if path.is_empty() => write!(f, "{domain}/"),
            Scope::Below(path) => write!(f, "{domain}/{path}/"),
            Scope::Repository { path, tag, digest } => {
                write!(f, "{domain}/{path}")?;
                if let Some(tag) = tag {
                    write!(f, ":{tag}")?;
                }
                digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
            }
        }
    }
}

impl AllowedImage {
    /// Parses `registry.example.com/team/` (all below), `registry.example.com` (the whole registry),
    /// `busybox` (one repository of Docker Hub, with any tag and digest), `busybox:1.36` (this tag,
    /// without a digest), `busybox@sha256:…`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<AllowedImage, String> {
        let wrong =
            || format!("{text:?} is neither an image nor the beginning of one that ends with a slash");
        if let Some(below) = text.strip_suffix('/').filter(|below| !below.is_empty()) {
            let (domain, path) = if is_domain_like(below.split('/').next().unwrap_or_default()) {
                split_domain(text)
            } else {
                (DOCKER_HUB, text)
            };
            let path = path.strip_suffix('/').unwrap_or(path);
            if !is_domain(domain) || !(path.is_empty() || is_path(path)) {
                return Err(wrong());
            }
            return Ok(AllowedImage { domain: domain.to_owned(), scope: Scope::Below(path.to_owned()) });
        }
        // A single word with a dot is a registry, not an official image of Docker Hub.
        let (host, port) = text.split_once(':').unwrap_or((text, "0"));
        let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        if !text.contains(['/', '@']) && (host.contains('.') || host == "localhost") && is_port {
            return AllowedImage::parse(&format!("{text}/"));
        }
        let Reference { domain, path, tag, digest } = Reference::parse(text).ok_or_else(wrong)?;
        let scope =
            Scope::Repository { path, tag: tag.map(str::to_owned), digest: digest.map(str::to_owned) };
        Ok(AllowedImage { domain: domain.to_owned(), scope })
    }

    pub(super) fn allows(&self, image: &Reference<'_>) -> bool {
        self.domain == image.domain
            && match &self.scope {
                Scope::Below(path) if path.is_empty() => true,
                Scope::Below(path) => image.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')),
                Scope::Repository { path, tag, digest } => {
                    *path == image.path
                        // Docker ignores the tag beside a digest, so a tag allows no digest.
                        && tag.as_deref().is_none_or(|tag| {
                            digest.is_some() || (image.digest.is_none() && tag == image.tag.unwrap_or("latest"))
                        })
                        && digest.as_deref().is_none_or(|digest| image.digest == Some(digest))
                }
            }
    }
}
