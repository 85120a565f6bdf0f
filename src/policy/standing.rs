//! A source's share of the node's limited resources: priorities, room on the disk, and rights when a pod has to be
//! evicted. Unset values follow from the source's standing: a source with a stricter Pod Security level must not harm
//! the others.

use std::fmt;

use super::level::Level;
use super::source_policy::{Policies, SourcePolicy};
use crate::base::duration::duration;
use crate::base::{limits, quantity};
use crate::pod::{Source, priority};

/// An upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// Number of bytes.
    Bytes(u64),
    /// Percent of the total.
    Percent(u8),
    /// No bound.
    All,
}

impl Most {
    /// Parses `10Gi`, `10%` or `*`.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn parse(text: &str) -> Result<Most, String> {
        let wrong = || format!("{text:?} must be a size, like 10Gi, or a part, like 10%, or *");
        match text.trim() {
            "*" => Ok(Most::All),
            text if text.ends_with('%') => share(text).map(Most::Percent),
            text => {
                let bytes = quantity::written(text).ok().and_then(|bytes| u64::try_from(bytes).ok());
                bytes.map(Most::Bytes).ok_or_else(wrong)
            }
        }
    }

    /// The bound in bytes, for a total of `capacity`.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Most::Bytes(bytes) => bytes,
            Most::Percent(percent) => part(capacity, percent),
            Most::All => u64::MAX,
        }
    }

    /// The same part of something else that the file system has, such as inodes: of so many, where it has `capacity` bytes.
    #[must_use]
    pub fn part_of(self, whole: u64, capacity: u64) -> u64 {
        match self {
            Most::Bytes(bytes) => {
                let part = u128::from(whole) * u128::from(bytes) / u128::from(capacity.max(1));
                u64::try_from(part).unwrap_or(u64::MAX)
            }
            Most::Percent(percent) => part(whole, percent),
            Most::All => u64::MAX,
        }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Most::Bytes(bytes) => f.write_str(&quantity::bytes(i64::try_from(*bytes).unwrap_or(i64::MAX))),
            Most::Percent(percent) => write!(f, "{percent}%"),
            Most::All => f.write_str("*"),
        }
    }
}

/// Parses a percentage, `10%`, of at most 100; `*` is 100%.
pub(super) fn share(text: &str) -> Result<u8, String> {
    let percent = match text.trim() {
        "*" => Some(100),
        text => text.strip_suffix('%').and_then(|number| number.trim().parse().ok()),
    };
    percent
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| format!("{text:?} must be a part of at most 100%, like 10%"))
}

/// Parses the longest grace period, `10m`, into whole seconds; `*` means no bound.
pub(super) fn longest(text: &str) -> Result<u32, String> {
    match text.trim() {
        "*" => Ok(u32::MAX),
        text => duration(text).map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
    }
}

/// The percentage of a whole.
#[must_use]
pub fn part(whole: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// A source's standing among the others, by the level that its pods are restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No level.
    Free,
    /// A level as strict as the others'.
    Alike,
    /// A stricter level than another source's.
    Behind,
}

impl Standing {
    fn max_priority(self) -> i32 {
        match self {
            Standing::Free => i32::MAX,
            Standing::Alike => priority::HIGHEST_OF_USERS,
            Standing::Behind => 0,
        }
    }

    fn max_claim_storage(self) -> Most {
        match self {
            Standing::Free => Most::All,
            Standing::Alike => Most::Percent(50),
            Standing::Behind => Most::Percent(10),
        }
    }

    fn max_requests(self) -> u8 {
        match self {
            Standing::Free | Standing::Alike => 100,
            Standing::Behind => 10,
        }
    }

    fn max_grace(self) -> u32 {
        match self {
            Standing::Free | Standing::Alike => u32::MAX,
            Standing::Behind => limits::GRACE_BEHIND,
        }
    }

    fn evict_first(self) -> bool {
        self == Standing::Behind
    }
}

impl Policies {
    /// The highest priority that counts for pods of this source. A source without privileged pods may not have critical
    /// pods either, because these are never evicted, and others would be evicted in their place. A source with a
    /// stricter level than another may not rank before that one's pods at all, unless an operator allows it.
    #[must_use]
    pub fn max_priority(&self, source: Source) -> i32 {
        self.of(source).max_priority.unwrap_or_else(|| self.standing(source, &Source::ALL).max_priority())
    }

    /// Upper bound for all claims of this source on this node's disk together, relative to their file system. Evictions
    /// do not empty claims, and the source itself sets their sizes: without a bound, other pods would be evicted for
    /// the space that its claims fill.
    #[must_use]
    pub fn max_claim_storage(&self, source: Source) -> Most {
        let said = self.of(source).max_claim_storage;
        said.unwrap_or_else(|| self.standing(source, &Source::ALL).max_claim_storage())
    }

    /// Percent of the node's memory or disk up to which the sum of this source's requests counts in full when a pod has
    /// to be evicted: otherwise a pod that requests the whole node would never be above its request, and others would
    /// be evicted first.
    #[must_use]
    pub fn max_requests(&self, source: Source) -> u8 {
        self.of(source).max_requests.unwrap_or_else(|| self.standing(source, &Source::ALL).max_requests())
    }

    /// Whether its pods are restricted to a stricter level than those of another source.
    #[must_use]
    pub fn is_behind(&self, source: Source) -> bool {
        let said = self.of(source).is_behind;
        said.unwrap_or_else(|| self.standing(source, &Source::ALL) == Standing::Behind)
    }

    /// The longest grace period that counts for pods of this source, seconds. A pod that does not end keeps its name,
    /// its ports and its resources for that time, and others wait for it at a drain.
    #[must_use]
    pub fn max_grace(&self, source: Source) -> u32 {
        self.of(source).max_grace.unwrap_or_else(|| self.standing(source, &Source::ALL).max_grace())
    }

    /// Whether this source's pods are evicted before those of others when the node is short, regardless of their known
    /// usage. A pod has many ways to use resources that cannot be attributed to it, and other pods would be evicted for
    /// them.
    #[must_use]
    pub fn evict_first(&self, source: Source) -> bool {
        self.of(source).evict_first.unwrap_or_else(|| self.standing(source, &Source::ALL).evict_first())
    }

    /// The policies for a node with these sources only (all sources if the list is empty): a source cannot be behind
    /// one that the node does not have.
    #[must_use]
    pub fn settled(self, declared: &[Source]) -> Policies {
        let among = if declared.is_empty() { &Source::ALL[..] } else { declared };
        Source::ALL.into_iter().fold(self, |all, source| {
            let (of, standing) = (all.of(source).clone(), all.standing(source, among));
            let policy = SourcePolicy {
                max_priority: of.max_priority.or(Some(standing.max_priority())),
                max_claim_storage: of.max_claim_storage.or(Some(standing.max_claim_storage())),
                max_requests: of.max_requests.or(Some(standing.max_requests())),
                is_behind: Some(standing == Standing::Behind),
                max_grace: of.max_grace.or(Some(standing.max_grace())),
                evict_first: of.evict_first.or(Some(standing.evict_first())),
                ..of
            };
            all.with(source, policy)
        })
    }

    fn standing(&self, source: Source, among: &[Source]) -> Standing {
        let level = |source| self.of(source).pod_security.map_or(Level::Privileged, |at| at.level);
        let loosest = among.iter().copied().map(level).min().unwrap_or(Level::Privileged);
        match level(source) {
            Level::Privileged => Standing::Free,
            own if own > loosest => Standing::Behind,
            Level::Baseline | Level::Restricted => Standing::Alike,
        }
    }
}
