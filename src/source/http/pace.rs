//! Decides when to poll next. Pure: random numbers are arguments.
//!
//! Many nodes may start at once and ask one server: their polls must spread.

use std::time::Duration;

use crate::base::limits;
use crate::base::pace::doubled;

/// Counts the failures of a source.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    failures: u32,
}

impl Pace {
    /// The wait from the end of a poll to the next one. After an answer it is `frequency`, a tenth more or less. After
    /// failures it begins at `frequency`, doubles up to [`limits::URL_RETRY_MAX`], and is up to a quarter less. `luck`
    /// is a random number.
    pub fn next(&mut self, answered: bool, frequency: Duration, luck: u64) -> Duration {
        // In 0..=1000.
        let luck = u32::try_from(luck % 1001).unwrap_or_default();
        if answered {
            self.failures = 0;
            let tenth = frequency / 10;
            return frequency.saturating_sub(tenth).saturating_add(per_mille(tenth.saturating_mul(2), luck));
        }
        let first = frequency.max(limits::URL_RETRY_MIN);
        let wait = doubled(first, self.failures, limits::URL_RETRY_MAX.max(first));
        self.failures = self.failures.saturating_add(1);
        wait.saturating_sub(per_mille(wait / 4, luck))
    }
}

fn per_mille(whole: Duration, part: u32) -> Duration {
    (whole / 1000).saturating_mul(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn failures_double_up_to_the_bound_and_an_answer_ends_that() {
        let mut pace = Pace::default();
        let mut failing =
            |n: usize| (0..n).map(|_| pace.next(false, 20 * S, 0).as_secs()).collect::<Vec<_>>();
        assert_eq!(failing(6), [20, 40, 80, 160, 300, 300]);
        assert_eq!(failing(100).last(), Some(&300));
        assert_eq!(pace.next(true, 20 * S, 500), 20 * S);
        assert_eq!(pace.next(false, 20 * S, 0), 20 * S);
    }

    #[test]
    fn a_short_frequency_is_no_short_retry_and_a_long_one_stays() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(false, S / 10, 0), S);
        assert_eq!(pace.next(false, S / 10, 0), 2 * S);
        let mut pace = Pace::default();
        assert_eq!(pace.next(false, 3600 * S, 0), 3600 * S);
        assert_eq!(pace.next(false, 3600 * S, 0), 3600 * S);
    }

    proptest::proptest! {
        #[test]
        fn jitter_has_bounds(luck: u64, seconds in 1_u64..100_000, failed in 0_u32..40) {
            let frequency = Duration::from_secs(seconds);
            let wait = Pace::default().next(true, frequency, luck);
            proptest::prop_assert!(wait >= frequency * 9 / 10 && wait <= frequency * 11 / 10);
            let mut pace = Pace { failures: failed };
            let longest = Pace { failures: failed }.next(false, frequency, 0);
            let wait = pace.next(false, frequency, luck);
            proptest::prop_assert!(wait <= longest && wait >= longest * 7 / 10);
            proptest::prop_assert!(longest <= limits::URL_RETRY_MAX.max(frequency));
        }
    }
}
