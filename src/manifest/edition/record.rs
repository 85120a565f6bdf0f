//! The highest seen edition of each pod and local object: signed content that was replaced cannot be put back
//! (rollback protection). Pure.
//!
//! The record is keyed by the pods and objects in the content and not by its file, because anyone with write
//! access to the directory can rename files. Content of a URL also has the URL among its names, because it
//! determines the removed pods, too.
//!
//! A record must never be higher than the accepted content.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Claim, Digest, Edition, POD, URL};
use crate::base::limits;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::pod::Source;

/// The highest edition that was accepted for one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Highest {
    pub(super) edition: Edition,
    digest: Digest,
    /// Newer content at the same place lacks this name: only a higher edition restores it.
    pub(super) dropped: bool,
    /// Increases with each new or changed entry, to find the oldest.
    order: u64,
}

/// The highest accepted edition of each name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) names: Table<String, Highest>,
    last: u64,
}

/// The records that a source checks against: its own, and those of the node's other sources. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    own: Arc<Record>,
    others: Vec<(Source, Arc<Record>)>,
}

impl Known {
    /// From a source's own record and those of the other sources.
    #[must_use]
    pub fn new(own: Arc<Record>, others: Vec<(Source, Arc<Record>)>) -> Known {
        Known { own, others }
    }

    /// Checks that content may replace earlier content. `source`: for the hint about `podkeeper forget`.
    ///
    /// # Errors
    /// The reason, for the operator, with a remedy.
    pub fn check(&self, claim: &Claim, source: &str) -> Result<(), String> {
        self.own.check(claim, source)?;
        self.others.iter().try_for_each(|(other, record)| self.check_beside(claim, record, *other))
    }

    /// Checks against the record of another source: pods belong to the node, so a pod that was replaced in
    /// that source must not be put back by this one. Sources number independently, so an equal edition is
    /// accepted while the other source still has the pod: this allows a pod to move. A pod that the other
    /// source dropped comes back in the same edition only if it is this source's, too. Objects of one name
    /// are separate in each source.
    fn check_beside(&self, claim: &Claim, record: &Record, other: Source) -> Result<(), String> {
        for name in claim.names.iter().filter(|name| name.starts_with(POD)) {
            let Some(seen) = record.names.get(name) else { continue };
            let edition = claim.edition;
            let why = match edition.cmp(&seen.edition) {
                Ordering::Less => "was accepted",
                Ordering::Equal if seen.dropped && !self.own.holds(name, edition) => {
                    "was accepted and has been replaced since"
                }
                _ => continue,
            };
            let highest = seen.edition;
            return Err(format!(
                "has {edition}, and {name} {why} in {highest} from source {other} already: nothing of it is \
                 taken; to move it on purpose sign it with a higher version in the trusted comment, or forget what was \
                 seen: podkeeper forget --source {other}"
            ));
        }
        Ok(())
    }

    /// Records accepted content; see [`Record::note`].
    pub fn note(&mut self, claim: &Claim, before: &Set<String>) {
        Arc::make_mut(&mut self.own).note(claim, before);
    }
}

impl Record {
    /// Checks that content of the source may replace its earlier content; see [`Known::check`].
    pub(super) fn check(&self, claim: &Claim, source: &str) -> Result<(), String> {
        let last_said = self.is_last_of_url(claim);
        for name in &claim.names {
            let Some(seen) = self.names.get(name) else { continue };
            let other = claim.digest != seen.digest;
            let why = match claim.edition.cmp(&seen.edition) {
                Ordering::Less => "was accepted",
                Ordering::Equal if seen.dropped && !last_said => "was accepted and has been replaced since",
                Ordering::Equal if other && seen.edition.is_exact() => "was accepted with another content",
                _ => continue,
            };
            let (edition, highest) = (claim.edition, seen.edition);
            return Err(format!(
                "has {edition}, and {name} {why} in {highest} already: nothing of it is taken; to go back on \
                 purpose sign it with a higher version in the trusted comment, or forget what was seen: \
                 podkeeper forget --source {source}"
            ));
        }
        Ok(())
    }

    /// Whether the name is current in this edition, as far as is known.
    fn holds(&self, name: &str, edition: Edition) -> bool {
        self.names.get(name).is_some_and(|seen| seen.edition == edition && !seen.dropped)
    }

    /// Whether no newer content of this URL was seen.
    fn is_last_of_url(&self, claim: &Claim) -> bool {
        let seen = |name: &String| self.names.get(name).map_or(Edition::Unnumbered, |seen| seen.edition);
        claim.names.iter().any(|name| name.starts_with(URL) && seen(name) <= claim.edition)
    }

    /// Records accepted content. `before`: the names in the previous content at its place that are nowhere
    /// else now; the content of a URL replaces everything. Returns whether the record changed.
    pub fn note(&mut self, claim: &Claim, before: &Set<String>) -> bool {
        let mut changed = false;
        let whole = self.is_last_of_url(claim);
        if claim.edition != Edition::Unnumbered {
            for name in &claim.names {
                let is_news = |seen: &Highest| {
                    seen.edition < claim.edition || (whole && seen.dropped && seen.edition == claim.edition)
                };
                if self.names.get(name).is_none_or(is_news) {
                    let Claim { edition, digest, .. } = *claim;
                    self.put(name, Highest { edition, digest, dropped: false, order: 0 });
                    changed = true;
                }
            }
        }
        let all = || self.names.keys().filter(|name| !name.starts_with(URL)).cloned().collect();
        let before = if whole { all() } else { before.clone() };
        for name in before.difference(&claim.names) {
            changed |= self.drop_name(name);
        }
        changed
    }

    /// Records the remembered contents of one place, oldest first. `in_force`: the names in all remembered
    /// content. Returns whether the record changed.
    pub fn learn(&mut self, claims: &[Claim], in_force: &Set<String>) -> bool {
        let (mut before, mut changed) = (Set::new(), false);
        for claim in claims {
            changed |= self.note(claim, &before);
            before.extend(claim.names.difference(in_force).cloned());
        }
        changed
    }

    /// Marks a name that newer content lacks. Returns whether the record changed.
    fn drop_name(&mut self, name: &str) -> bool {
        let Some(seen) = self.names.get(name).filter(|seen| !seen.dropped).copied() else { return false };
        self.put(name, Highest { dropped: true, ..seen });
        true
    }

    /// Completes a record from disk, which may be from an earlier version that did not store the names that a
    /// URL's content lacks. A name whose edition is not that of a URL's content is not in that content.
    #[must_use]
    pub fn settled(mut self) -> Record {
        let urls = self.names.iter().filter(|(name, _)| name.starts_with(URL));
        let editions: Vec<Edition> = urls.map(|(_, seen)| seen.edition).collect();
        if !editions.is_empty() {
            self.names.values_mut().for_each(|seen| seen.dropped |= !editions.contains(&seen.edition));
        }
        self
    }

    fn put(&mut self, name: &str, highest: Highest) {
        self.last = self.last.saturating_add(1);
        self.names.insert(name.to_owned(), Highest { order: self.last, ..highest });
    }

    /// Takes over all higher entries of another record.
    pub fn merge(&mut self, other: &Record) {
        for (name, theirs) in &other.names {
            let ours = self.names.get(name).map(|ours| (ours.edition, ours.dropped));
            if ours.is_none_or(|ours| ours < (theirs.edition, theirs.dropped)) {
                self.put(name, *theirs);
            }
        }
    }

    /// Whether it has more names than the bound.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.names.len() > limits::SEEN_NAMES
    }

    /// Removes the oldest names, first those without a current pod or object, until the bound is met. Returns
    /// their number.
    pub fn trim(&mut self, in_force: &Set<String>) -> usize {
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

    /// The form on disk, oldest entries first.
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
            // No name is too long for its length field: names of pods are short, and URLs are bounded.
            let Ok(length) = u16::try_from(name.len()) else { continue };
            out.push(kind | u8::from(seen.dropped) << 2);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&seen.digest);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        out
    }

    /// Parses the output of [`Record::encode`]; `None` for anything else.
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
