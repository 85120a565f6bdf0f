//! The wait for the ends of evicted pods, one for each resource.

use std::time::Duration;

use super::ending::{End, Ending, Step};
use super::{Act, Manager, Observations, worth};
use crate::base::clock::Mono;
use crate::base::limits;
use crate::eviction::rank::Candidate;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::Threshold;
use crate::node::pressure::Pressure;

impl Manager {
    /// Looks at the pods that are being evicted; returns what is to be done for one of them now.
    pub(super) fn follow(&mut self, end: impl Fn(Pressure, &str) -> End, now: Mono) -> Option<Act> {
        for of in Pressure::ALL {
            let Some(ending) = self.endings.get_mut(&of) else { continue };
            if let End::Goes(steps) = end(of, &ending.uid) {
                match ending.step(steps, now) {
                    Step::Wait => continue,
                    Step::Ask => return Some(Act::Ask),
                    Step::Kill => return Some(Act::Kill(of)),
                    Step::Hangs => _ = self.stubborn.insert(ending.uid.clone(), ending.used),
                    Step::Over => {
                        self.endings.remove(&of);
                        continue;
                    }
                }
            }
            self.endings.remove(&of);
            self.settling.begin(now);
        }
        None
    }

    /// Whether the next eviction has to wait because a pod that does not end has all that is missing: others that end at
    /// once, and do not help, would go one after the other.
    pub(super) fn waits_for_stubborn(&self, threshold: &Threshold, found: &Observations, now: Mono) -> bool {
        let missing = found.get(&threshold.signal).map_or(0, |seen| worth::missing(threshold, *seen));
        let is_enough = |(of, used): &(Signal, u64)| *of == threshold.signal && *used >= missing;
        self.stubborn.values().any(is_enough)
            && self.evicted.is_some_and(|at| now.since(at) < limits::EVICTION_PATIENCE)
    }

    /// A pod was evicted for another reason: waits for its end, once, before one is evicted for this signal. Returns
    /// false if that was done already, or if the end of another pod is awaited for the same resource.
    ///
    /// All such pods together are awaited for a bounded time in one shortage, or many slow ends would shield the pod
    /// that fills a disk; for a short time while a pod may go that goes before others anyway. When one of them has not got on
    /// for its time, only those that have got on meanwhile are awaited.
    pub fn awaits(
        &mut self,
        signal: Signal,
        (uid, gets_on): (&str, bool),
        pods: &[Candidate],
        now: Mono,
    ) -> bool {
        let of = signal.pressure();
        if !gets_on && self.stubborn.values().any(|(_, used)| *used == 0) {
            return false;
        }
        if self.endings.contains_key(&of) || self.stubborn.contains_key(uid) {
            return false;
        }
        let since = *self.awaited.get_or_insert(of, now);
        let may_go =
            |pod: &Candidate| pod.goes_first && !pod.is_critical() && !self.stubborn.contains_key(&pod.uid);
        let is_short = pods.iter().any(may_go);
        let longest = if is_short { limits::EVICTION_PATIENCE } else { limits::EVICTION_LONGEST };
        let at_most = since.after(longest);
        if now >= at_most {
            return false;
        }
        self.settling.forget();
        self.endings.insert(of, Ending::of_another(uid.to_owned(), signal, at_most, now));
        true
    }

    /// Takes how long Docker took to answer; `None`: it did not answer.
    pub fn asked(&mut self, took: Option<Duration>, now: Mono) {
        self.endings.values_mut().for_each(|ending| ending.told(took, now));
    }

    /// Nothing runs of the pod that was evicted for this: it hangs otherwise.
    pub fn killed_nothing(&mut self, of: Pressure) {
        self.endings.get_mut(&of).into_iter().for_each(Ending::hangs);
    }

    /// UID of a pod whose end is awaited.
    #[must_use]
    pub fn ending(&self) -> Option<&str> {
        self.endings.values().next().map(|ending| ending.uid.as_str())
    }

    /// Whether an evicted pod still runs because Docker, which has to stop it, does not answer.
    #[must_use]
    pub fn waits_for_docker(&self) -> bool {
        self.endings.values().any(Ending::waits_for_docker)
    }
}
