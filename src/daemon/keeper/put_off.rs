//! How long an eviction is put off while the layers of pods that have ended are emptied. Pods that end one after the
//! other must not delay it again and again, but layers with very many files are emptied part by part, for a bounded time.
//!
//! Never here: what is emptied.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;

/// What was put off in this shortage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PutOff {
    /// Since when the next eviction is put off.
    since: Option<Mono>,
    /// Since when the collector's runs have had more to empty.
    slow_since: Option<Mono>,
}

impl PutOff {
    /// Whether the next eviction is put off. `has_more`: the last run of the collector had more to empty, on the disk that
    /// is short. `goes_first`: a pod may go that goes before others anyway, and may be filling the disk. `has_ended`:
    /// a pod has ended since that run.
    pub(super) fn decide(
        &mut self,
        has_more: bool,
        goes_first: bool,
        has_ended: &dyn Fn() -> bool,
        now: Mono,
    ) -> bool {
        self.slow_since = has_more.then_some(self.slow_since.unwrap_or(now));
        // A chain of pods that go first is put off once, not each of them.
        let (since, longest): (Option<Mono>, Duration) = match goes_first {
            true => (self.slow_since, limits::EVICTION_PATIENCE),
            false => (self.since, limits::COLLECT_LONGEST),
        };
        let goes_on = has_more && now.since(since.unwrap_or(now)) < longest;
        let puts_off = goes_on || self.since.is_none() && has_ended();
        self.since = puts_off.then_some(self.since.unwrap_or(now));
        puts_off
    }

    /// An eviction is not put off now, for another reason.
    pub(super) fn none(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_waits_for_one_run_and_longer_for_one_that_gets_on() {
        let at = |seconds| Mono(Duration::from_secs(seconds));
        let mut put_off = PutOff::default();
        assert!(!put_off.decide(false, false, &|| false, at(0)));
        assert!(put_off.decide(false, false, &|| true, at(1)), "a pod has ended");
        assert!(!put_off.decide(false, false, &|| true, at(2)), "and another one");
        assert!(put_off.decide(true, false, &|| true, at(3)));
        assert!(put_off.decide(true, false, &|| true, at(302)));
        assert!(!put_off.decide(true, false, &|| true, at(303)));
        assert!(put_off.decide(true, false, &|| false, at(304)), "the next eviction has its own time");
    }

    /// Regression: while Docker removed a layer with 500,000 links, each pod of a source that goes first filled the disk
    /// for 44 s before it was evicted.
    #[test]
    fn a_chain_of_pods_that_go_first_is_put_off_once() {
        let at = |seconds| Mono(Duration::from_secs(seconds));
        let mut put_off = PutOff::default();
        assert!(put_off.decide(true, true, &|| false, at(0)));
        assert!(put_off.decide(true, true, &|| false, at(29)));
        assert!(!put_off.decide(true, true, &|| false, at(30)));
        for next in [44, 58, 400] {
            assert!(!put_off.decide(true, true, &|| false, at(next)), "{next}");
        }
        assert!(put_off.decide(true, true, &|| true, at(401)), "its own layer is emptied first");
        assert!(!put_off.decide(true, true, &|| true, at(402)));
        assert!(!put_off.decide(false, true, &|| false, at(403)), "nothing is emptied any more");
        assert!(put_off.decide(true, true, &|| false, at(404)), "something else is");
    }
}
