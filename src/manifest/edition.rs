//! The version of signed content and the names in it: the words of its trusted comment, and its pods and
//! objects. Pure. [`Record`] has the highest seen edition of each name.
//!
//! Never here: content that is not verified.

use std::fmt;
use std::sync::Arc;

mod record;

pub use self::record::{Known, Record};

use crate::base::order;
use crate::base::table::Set;
use crate::pod::DesiredPod;
use crate::pod::object::LocalObject;
use crate::pod::problem::Refused;

/// SHA-256 of the content without its signature.
pub type Digest = [u8; 32];

/// The version of content, from the signer's trusted comment. A version is higher than every timestamp, and
/// both are higher than none: a signer who has begun to number contents cannot be taken back to timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edition {
    /// The comment has neither.
    #[default]
    Unnumbered,
    /// `timestamp:N`, which minisign adds by default: seconds since the epoch.
    Timestamp(u64),
    /// `version:N`.
    Version(u64),
}

impl Edition {
    /// The edition in a signed comment: words separated by spaces or tabs, as minisign writes them. A
    /// `timestamp:` that is not a number, or one of several, is ignored, because other programs may use the
    /// word.
    ///
    /// # Errors
    /// Several versions, or one that is not a number below 2^64.
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

    /// Parses `--manifest-min-version`: `N`, `version:N` or `timestamp:N`.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Edition, String> {
        let edition = match text.split_once(':') {
            None => number(text).map(Edition::Version),
            Some(("version", text)) => number(text).map(Edition::Version),
            Some(("timestamp", text)) => number(text).map(Edition::Timestamp),
            Some(_) => None,
        };
        edition.ok_or_else(|| "must be N, version:N or timestamp:N, with a number below 2^64".to_owned())
    }

    /// Whether an edition identifies its content: a signer uses each version once, but may sign twice within
    /// a second.
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

/// A number of digits only: no sign, no space.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Signed content, in the form for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its version.
    pub edition: Edition,
    /// Its identity.
    pub digest: Digest,
    /// Names of its pods and objects: `pod default/web-node1`, `ConfigMap default/web`, or a URL.
    pub names: Set<String>,
}

/// Prefix of the names of pods.
const POD: &str = "pod ";
/// Prefix of the names of URLs.
const URL: &str = "URL ";

/// The name of a URL's content as a whole.
#[must_use]
pub fn name_of_url(url: &str) -> String {
    format!("{URL}{url}")
}

/// The names of pods (also refused ones) and local objects in a record.
#[must_use]
pub fn names_of(pods: &[Arc<DesiredPod>], refused: &[Refused], objects: &[Arc<LocalObject>]) -> Set<String> {
    let pods = pods.iter().chain(refused.iter().map(|refused| &refused.pod));
    let pods = pods.map(|pod| format!("{POD}{}", pod.key));
    order::set(pods.chain(objects.iter().map(|object| object.key.to_string())))
}

#[cfg(test)]
mod tests;
