//! How new a signed content is, and what it is about: the words of its trusted comment, and names. Pure. [`Record`]
//! is the highest edition that was seen of each name.
//!
//! Never here: looking at content that is not verified.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

mod record;

pub use self::record::{Known, Record};

use crate::base::order;
use crate::pod::DesiredPod;
use crate::pod::object::LocalObject;
use crate::pod::problem::Refused;

/// SHA-256 of a content without its signature.
pub type Digest = [u8; 32];

/// How new a content is, as its signer says in the trusted comment. Of different kinds, a version is above every
/// time, and both are above nothing: who once numbered contents is not taken back to times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edition {
    /// The comment says neither.
    #[default]
    Unnumbered,
    /// `timestamp:N`, which minisign writes by itself: seconds since the epoch.
    Timestamp(u64),
    /// `version:N`.
    Version(u64),
}

impl Edition {
    /// The edition that a signed comment names: words between spaces or tabs, as minisign writes them. A
    /// `timestamp:` that is no number, or one of several, says nothing: the word is not ours alone.
    ///
    /// # Errors
    /// Several versions, or one that is no number below 2^64.
    pub fn of_comment(comment: &str) -> Result<Edition, &'static str> {
        let values =
            |name: &'static str| comment.split_whitespace().filter_map(move |word| word.strip_prefix(name));
        let mut versions = values("version:");
        match (versions.next(), versions.next()) {
            (Some(_), Some(_)) => Err("its trusted comment names more than one version"),
            (Some(text), None) => number(text)
                .map(Edition::Version)
                .ok_or("the version in its trusted comment is no number below 2^64"),
            (None, _) => {
                let mut times = values("timestamp:");
                let time = times.next().filter(|_| times.next().is_none()).and_then(number);
                Ok(time.map_or(Edition::Unnumbered, Edition::Timestamp))
            }
        }
    }

    /// Of `--manifest-min-version`: `N`, `version:N` or `timestamp:N`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Edition, String> {
        let edition = match text.split_once(':') {
            None => number(text).map(Edition::Version),
            Some(("version", text)) => number(text).map(Edition::Version),
            Some(("timestamp", text)) => number(text).map(Edition::Timestamp),
            Some(_) => None,
        };
        edition.ok_or_else(|| "must be N, version:N or timestamp:N, with a number below 2^64".to_owned())
    }

    /// Two contents of it are the same content: a signer gives each number once, but may sign twice in a second.
    fn is_exact(self) -> bool {
        matches!(self, Edition::Version(_))
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edition::Unnumbered => f.write_str("no version"),
            Edition::Timestamp(seconds) => write!(f, "timestamp {seconds}"),
            Edition::Version(number) => write!(f, "version {number}"),
        }
    }
}

/// Digits and nothing else: no sign, no space.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A signed content, as far as the record is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// How new it is.
    pub edition: Edition,
    /// Which it is.
    pub digest: Digest,
    /// What it is about: `pod default/web-node1`, `ConfigMap default/web`, a URL.
    pub names: BTreeSet<String>,
}

/// What the names of pods begin with.
const POD: &str = "pod ";
/// What those of URLs begin with.
const URL: &str = "URL ";

/// The name of a URL's content as a whole.
#[must_use]
pub fn name_of_url(url: &str) -> String {
    format!("{URL}{url}")
}

/// What pods, also refused ones, and local objects are called here.
#[must_use]
pub fn names_of(
    pods: &[Arc<DesiredPod>],
    refused: &[Refused],
    objects: &[Arc<LocalObject>],
) -> BTreeSet<String> {
    let pods = pods.iter().chain(refused.iter().map(|refused| &refused.pod));
    let pods = pods.map(|pod| format!("{POD}{}", pod.key));
    order::set(pods.chain(objects.iter().map(|object| object.key.to_string())))
}

#[cfg(test)]
mod tests;
