//! Which of several counts of a pod is believed, and when a pod that cannot be counted counts as over its limits.
//!
//! Never here: a count, or the time.

use std::cmp::Ordering;

use super::super::amounts::believed;
use crate::base::limits;
use crate::eviction::local::Verdict;
use crate::stats::disk_use::Reach;

/// Returns whether a count shows the pod over a limit, and how much could be counted. If directories move during the
/// counts, the median count decides.
pub(super) fn judged(mut count: impl FnMut() -> (Reach, Verdict)) -> (Verdict, Reach) {
    let (reach, Judged(verdict)) = believed(|| {
        let (reach, verdict) = count();
        (reach, Judged(verdict))
    });
    (verdict, reach)
}

/// The pod has more than could be counted.
pub(super) fn is_cut(reach: Reach) -> bool {
    matches!(reach, Reach::Moved | Reach::Exceeded)
}

/// Whether a pod counts as uncountable after so many failed counts in a row. A pod that creates and removes many files
/// fails a count now and then without bad intent.
pub(super) fn is_hopeless(reach: Reach, rounds: u32) -> bool {
    match reach {
        Reach::Whole | Reach::Unreadable => false,
        Reach::Moved => rounds >= limits::LIMITS_MOVED,
        Reach::Exceeded => rounds >= limits::LIMITS_UNCOUNTED,
    }
}

/// A pod that cannot be counted counts as over its limit, because the limits protect other pods.
pub(super) fn over_uncounted(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Over(_) => verdict,
        Verdict::Within { .. } => Verdict::Over(
            "Pod ephemeral local storage usage cannot be counted: there is too much for the time of a count, it is moved \
             during each one, or files are kept where nobody is shown them. "
                .to_owned(),
        ),
    }
}

/// A verdict, ordered by how near the pod is to a limit.
struct Judged(Verdict);

impl Judged {
    fn nearness(&self) -> u64 {
        match self.0 {
            Verdict::Within { left, .. } => u64::MAX - left,
            Verdict::Over(_) => u64::MAX,
        }
    }
}

impl Ord for Judged {
    fn cmp(&self, other: &Judged) -> Ordering {
        self.nearness().cmp(&other.nearness())
    }
}

impl PartialOrd for Judged {
    fn partial_cmp(&self, other: &Judged) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Judged {
    fn eq(&self, other: &Judged) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Judged {}
