//! Seeded random numbers that spread requests of many nodes over time. Pure.

use std::time::Duration;

use crate::base::limits;

/// A generator (xorshift) for spreading only, not for secrets.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance(seed | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.checked_rem(most).unwrap_or_default()
    }

    fn part(&mut self, of: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(of.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The period, lengthened by at most one part in [`limits::HEARTBEAT_JITTER`].
    pub fn jitter(&mut self, period: Duration) -> Duration {
        let more = self.part(period / limits::HEARTBEAT_JITTER);
        period.saturating_add(more)
    }

    /// A time between half the period and one and a half periods.
    pub fn around(&mut self, period: Duration) -> Duration {
        let more = self.part(period);
        (period / 2).saturating_add(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_bounds() {
        let ten = Duration::from_secs(10);
        let mut chance = Chance::new(0);
        for _ in 0..100 {
            let (jitter, around) = (chance.jitter(ten), chance.around(ten));
            assert!(jitter >= ten && jitter <= ten + ten / 25, "{jitter:?}");
            assert!(around >= ten / 2 && around <= ten + ten / 2, "{around:?}");
        }
        assert_eq!(chance.jitter(Duration::ZERO), Duration::ZERO);
    }
}
