//! How new a signed content is, and the highest edition that was seen of each pod and local object: what was
//! signed once and replaced since cannot be put back. Pure.
//!
//! The record goes by what a content is about and not by where it lies: a file is renamed by whoever may write
//! to its directory. The content of a URL has the URL among its names, too, for it says what is gone as well.
//!
//! Never here: looking at content that is not verified.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::base::limits;
use crate::base::order;
use crate::pod::object::LocalObject;
use crate::pod::problem::Refused;
use crate::pod::{DesiredPod, Source};

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

/// The highest that was accepted of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Highest {
    edition: Edition,
    digest: Digest,
    /// A newer content of the same place does without it: only a higher edition brings it back.
    dropped: bool,
    /// Counts up with each entry that is new or changes: tells the oldest.
    order: u64,
}

/// The highest edition of each name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    names: BTreeMap<String, Highest>,
    last: u64,
    /// What the other sources of the node have seen; not kept.
    others: Vec<(Source, Arc<Record>)>,
}

impl Record {
    /// Whether a content may replace what was seen. `source`: for `podkeeper forget`.
    ///
    /// # Errors
    /// Why not, for the operator, with the way out.
    pub fn check(&self, claim: &Claim, source: &str) -> Result<(), String> {
        for name in &claim.names {
            let Some(seen) = self.names.get(name) else { continue };
            let other = claim.digest != seen.digest;
            let why = match claim.edition.cmp(&seen.edition) {
                std::cmp::Ordering::Less => "was accepted",
                std::cmp::Ordering::Equal if seen.dropped => "was accepted and has been replaced since",
                std::cmp::Ordering::Equal if other && seen.edition.is_exact() => {
                    "was accepted with another content"
                }
                _ => continue,
            };
            let (edition, highest) = (claim.edition, seen.edition);
            return Err(format!(
                "has {edition}, and {name} {why} in {highest} already: nothing of it is taken; to go back on \
                 purpose sign it with a higher version in the trusted comment, or forget what was seen: \
                 podkeeper forget --source {source}"
            ));
        }
        self.others.iter().try_for_each(|(other, record)| record.check_of_other(claim, *other))
    }

    /// The same for a content of another source: pods are of the node, and one that was replaced in this source is
    /// not put back by that one. Sources number apart from each other, so nothing is said of equals; and
    /// objects of one name are each source's own.
    fn check_of_other(&self, claim: &Claim, source: Source) -> Result<(), String> {
        for name in claim.names.iter().filter(|name| name.starts_with(POD)) {
            let Some(seen) = self.names.get(name).filter(|seen| claim.edition < seen.edition) else {
                continue;
            };
            let (edition, highest) = (claim.edition, seen.edition);
            return Err(format!(
                "has {edition}, and {name} was accepted in {highest} from source {source} already: nothing of it is \
                 taken; to move it on purpose sign it with a higher version in the trusted comment, or forget what was \
                 seen: podkeeper forget --source {source}"
            ));
        }
        Ok(())
    }

    /// The same, with what other sources have seen in place of what was known of that.
    #[must_use]
    pub fn beside(&self, others: Vec<(Source, Arc<Record>)>) -> Record {
        Record { others, ..self.clone() }
    }

    /// Takes notice of an accepted content. `before`: what the content in its place was about and is nowhere else
    /// now. Answers whether anything is new.
    pub fn note(&mut self, claim: &Claim, before: &BTreeSet<String>) -> bool {
        let mut changed = false;
        if claim.edition != Edition::Unnumbered {
            for name in &claim.names {
                if self.names.get(name).is_none_or(|seen| seen.edition < claim.edition) {
                    let Claim { edition, digest, .. } = *claim;
                    self.put(name, Highest { edition, digest, dropped: false, order: 0 });
                    changed = true;
                }
            }
        }
        for name in before.difference(&claim.names) {
            if let Some(seen) = self.names.get(name).filter(|seen| !seen.dropped).copied() {
                self.put(name, Highest { dropped: true, ..seen });
                changed = true;
            }
        }
        changed
    }

    fn put(&mut self, name: &str, highest: Highest) {
        self.last = self.last.saturating_add(1);
        self.names.insert(name.to_owned(), Highest { order: self.last, ..highest });
    }

    /// Takes over what another one holds that is higher.
    pub fn merge(&mut self, other: &Record) {
        for (name, theirs) in &other.names {
            let ours = self.names.get(name).map(|ours| (ours.edition, ours.dropped));
            if ours.is_none_or(|ours| ours < (theirs.edition, theirs.dropped)) {
                self.put(name, *theirs);
            }
        }
    }

    /// It holds more than is kept.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.names.len() > limits::SEEN_NAMES
    }

    /// Drops the oldest names, first those that nothing is about now, until there is room. Answers how many.
    pub fn trim(&mut self, in_force: &BTreeSet<String>) -> usize {
        let surplus = self.names.len().saturating_sub(limits::SEEN_NAMES);
        let mut oldest: Vec<(bool, u64, String)> = self
            .names
            .iter()
            .map(|(name, seen)| (in_force.contains(name), seen.order, name.clone()))
            .collect();
        order::sort(&mut oldest);
        for (_, _, name) in oldest.iter().take(surplus) {
            self.names.remove(name);
        }
        surplus
    }

    /// As it is kept, oldest entries first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut entries: Vec<(u64, &String, &Highest)> =
            self.names.iter().map(|(name, seen)| (seen.order, name, seen)).collect();
        order::sort_by(&mut entries, |a: &(u64, &String, &Highest), b| a.0.cmp(&b.0));
        let mut out = Vec::new();
        for (_, name, seen) in entries {
            let (kind, number) = match seen.edition {
                Edition::Unnumbered => continue,
                Edition::Timestamp(number) => (1, number),
                Edition::Version(number) => (2, number),
            };
            // A name that is too long for its length cannot be: names of pods are short, and URLs are bounded.
            let Ok(length) = u16::try_from(name.len()) else { continue };
            out.push(kind | u8::from(seen.dropped) << 2);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&seen.digest);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        out
    }

    /// What [`Record::encode`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(mut bytes: &[u8]) -> Option<Record> {
        let mut record = Record::default();
        while let Some((kind, rest)) = bytes.split_first() {
            let (number, rest) = rest.split_first_chunk()?;
            let (digest, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            let number = u64::from_le_bytes(*number);
            let edition = match kind & !4 {
                1 => Edition::Timestamp(number),
                2 => Edition::Version(number),
                _ => return None,
            };
            let name = std::str::from_utf8(name).ok()?;
            if record.names.contains_key(name) || record.names.len() >= limits::SEEN_NAMES {
                return None;
            }
            record.put(name, Highest { edition, digest: *digest, dropped: kind & 4 != 0, order: 0 });
            bytes = rest;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests;
