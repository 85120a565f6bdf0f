//! How often the node is looked at while it is short of nothing.
//!
//! The next look comes before a threshold would be crossed if the signal fell twice as fast as it was seen to fall
//! lately, and at least so fast that all there is would be gone in [`limits::EVICTION_WORST`]; never earlier than the
//! kubelet's ten seconds, and never later than two minutes. So a node that is far from its thresholds is looked at
//! every two minutes, and a signal within a thirtieth of its capacity from a threshold as often as by the kubelet.

use std::time::Duration;

use super::manager::Observations;
use super::signal::Signal;
use super::threshold::Threshold;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Table;

/// How fast signals were falling.
#[derive(Debug, Default)]
pub struct Falls {
    last: Option<(Observations, Mono)>,
    /// Units per second.
    speed: Table<Signal, u64>,
}

impl Falls {
    /// Takes the figures of a look.
    pub fn see(&mut self, found: &Observations, now: Mono) {
        if let Some((last, at)) = &self.last {
            let seconds = now.since(*at).as_secs().max(1);
            for (signal, seen) in found {
                let before = last.get(signal).map_or(seen.available, |last| last.available);
                let fall = before.saturating_sub(seen.available) / seconds;
                // The effect of a burst fades over some looks.
                let speed = self.speed.get_or_default(*signal);
                *speed = fall.max(*speed / 2);
            }
        }
        self.last = Some((found.clone(), now));
    }

    /// How long until the next look.
    #[must_use]
    pub fn rest(&self, thresholds: &[Threshold], found: &Observations) -> Duration {
        let each = thresholds.iter().filter_map(|threshold| {
            let seen = found.get(&threshold.signal)?;
            let margin = seen.available.saturating_sub(threshold.value.of(seen.capacity));
            let worst = seen.capacity / limits::EVICTION_WORST.as_secs().max(1);
            let speed = self.speed.get(&threshold.signal).copied().unwrap_or_default().saturating_mul(2);
            Some(Duration::from_secs(margin / speed.max(worst).max(1)))
        });
        each.min().unwrap_or(limits::EVICTION_FAR).clamp(limits::EVICTION_NEAR, limits::EVICTION_FAR)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eviction::manager::Observation;
    use crate::eviction::threshold::Amount;

    fn at(available: u64) -> Observations {
        [(Signal::NodeFs, Observation { available, capacity: 3000 })].into()
    }

    fn threshold() -> Threshold {
        Threshold {
            signal: Signal::NodeFs,
            value: Amount::Part(10_000),
            grace: Duration::ZERO,
            reclaim: None,
        }
    }

    fn rest(readings: &[(u64, u64)]) -> u64 {
        let mut falls = Falls::default();
        for (second, available) in readings {
            falls.see(&at(*available), Mono(Duration::from_secs(*second)));
        }
        falls.rest(&[threshold()], &at(readings.last().unwrap().1)).as_secs()
    }

    #[test]
    fn far_from_its_thresholds_a_node_is_looked_at_rarely() {
        // 10 units a second would empty it in five minutes; the threshold is at 300.
        assert_eq!(rest(&[(0, 3000)]), 120);
        assert_eq!(rest(&[(0, 900)]), 60);
        assert_eq!(rest(&[(0, 600)]), 30);
        assert_eq!(rest(&[(0, 400)]), 10);
        assert_eq!(rest(&[(0, 100)]), 10);
        // A fast fall shortens the interval: twice 20 per second, 1200 above the threshold.
        assert_eq!(rest(&[(0, 2700), (60, 1500)]), 30);
        // The fall is forgotten.
        assert_eq!(rest(&[(0, 2700), (60, 1500), (90, 1500), (120, 1500)]), 120);
        // A clock that does not advance, and a signal that rises.
        assert_eq!(rest(&[(5, 100), (5, 3000)]), 120);
        assert_eq!(Falls::default().rest(&[threshold()], &Observations::new()).as_secs(), 120);
    }

    proptest! {
        /// A signal that falls no faster than assumed is seen before it crosses its threshold, or at most ten seconds
        /// later.
        #[test]
        fn a_threshold_is_not_crossed_between_two_looks(start in 300_u64..3000, speed in 0_u64..10) {
            let rest = Falls::default().rest(&[threshold()], &at(start)).as_secs();
            prop_assert!(rest <= 10 || start.saturating_sub(speed * rest) >= 300);
        }
    }
}
