//! How often a safety net looks for changes that events should report anyway. After a look that finds nothing, the
//! interval doubles, so a node at rest sleeps; after one that finds something, it is the normal period again. Also the
//! wait after a number of failures.

use std::time::Duration;

use crate::base::limits;

/// The period of one safety net.
#[derive(Debug, Clone)]
pub struct Pace {
    every: Duration,
    now: Duration,
}

impl Pace {
    /// `every`: the time between two looks while there are changes.
    #[must_use]
    pub fn new(every: Duration) -> Pace {
        Pace { every, now: every }
    }

    /// The time to the next look. `quiet`: the last look found nothing new.
    pub fn next(&mut self, quiet: bool) -> Duration {
        let most = self.every.saturating_mul(limits::QUIET_FACTOR);
        self.now = if quiet { self.now.saturating_mul(2).min(most) } else { self.every };
        self.now
    }
}

/// The first wait, doubled `times` times, and at most `most`.
#[must_use]
pub fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_net_that_catches_nothing_is_looked_at_less_often() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(second);
        let told: Vec<u64> =
            [false, true, true, true, true, false, true].map(|quiet| pace.next(quiet).as_secs()).to_vec();
        assert_eq!(told, [1, 2, 4, 5, 5, 1, 2]);
    }
}
