//! A drained node: pods are stopped in groups, lowest priority first, each group after the one before it has
//! stopped (the kubelet's graceful node shutdown, `pkg/kubelet/nodeshutdown`). Then no pod starts until the
//! node is resumed. Pods that have ended for good are not touched.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Turn;
use super::due::Due;
use super::entry::Entry;
use crate::base::clock::{Mono, Now};
use crate::base::duration;
use crate::base::limits;
use crate::base::order;
use crate::daemon::drain::Drain;
use crate::machine::{StopOrder, Wish};
use crate::pod::priority::{self, SYSTEM_CRITICAL};
use crate::pod::{DesiredPod, PodKey};
use crate::status::snapshot::DrainView;

/// A drain, under way or done.
#[derive(Debug)]
pub(super) struct Draining {
    drain: Drain,
    /// Pods that were told to stop.
    told: BTreeSet<PodKey>,
    /// Whether the end of the drain was logged.
    done: bool,
    /// The machine goes down: when each of the two groups has to have ended.
    shutdown: Option<Deadlines>,
}

/// When pods have to have ended at a shutdown (`pkg/kubelet/nodeshutdown`): those that are not critical, then the others.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    regular: Mono,
    critical: Mono,
    /// The most that a critical pod gets.
    most: Duration,
}

impl Deadlines {
    /// The time that is left for pods of this priority, whole seconds.
    fn left(self, priority: i32, now: &Now) -> u32 {
        let left = match priority < SYSTEM_CRITICAL {
            true => self.regular.since(now.mono),
            false => self.critical.since(now.mono).min(self.most),
        };
        u32::try_from(left.as_secs()).unwrap_or(u32::MAX)
    }
}

impl Draining {
    /// The pod may have to be told again.
    pub(super) fn forget(&mut self, key: &PodKey) {
        self.told.remove(key);
    }
}

impl Turn {
    pub(super) fn set_drain(&mut self, drain: Option<Drain>, now: &Now) {
        if self.draining.as_ref().map(|d| &d.drain) == drain.as_ref() {
            return;
        }
        self.changed = true;
        let all: Vec<Arc<DesiredPod>> = self.merge.pods().cloned().collect();
        match drain {
            Some(drain) => {
                let line =
                    "the node is drained: its pods are stopped, and none is started until podkeeper resume";
                self.log(log::Level::Info, line.to_owned());
                // A drain that ends with this boot is the machine's shutdown.
                let bounded = self.config.node.host.shutdown().filter(|_| drain.boot.is_some());
                let shutdown = bounded.map(|time| {
                    let regular = now.mono.after(time.regular);
                    Deadlines { regular, critical: regular.after(time.critical), most: time.critical }
                });
                if let Some(deadlines) = shutdown {
                    self.due.replace(deadlines.regular, Due::Shutdown);
                }
                self.draining = Some(Draining { drain, told: BTreeSet::new(), done: false, shutdown });
                if self.docker.listed {
                    // Pods that admission refused stay refused, and pods that have ended are not touched.
                    let refused = |e: &Entry| e.rejected().is_some() || e.is_over();
                    let held = all.into_iter().filter(|p| !self.entries.get(&p.key).is_some_and(refused));
                    let held: Vec<Arc<DesiredPod>> = held.collect();
                    held.into_iter().for_each(|pod| self.consider(pod, now));
                }
            }
            None => {
                self.log(log::Level::Info, "the node is resumed: its pods are started".to_owned());
                self.draining = None;
                if self.docker.listed {
                    self.additions(all, now);
                    self.housekeeping();
                }
            }
        }
    }

    /// Tells the pods of the lowest priority to stop; at a shutdown with a time of its own all that are not critical, and
    /// the others when those have ended or their time is over.
    pub(super) fn drain_on(&mut self, now: &Now) {
        if self.draining.is_none() || !self.docker.listed {
            return;
        }
        let alive = self.alive();
        let lowest = alive.iter().map(|(priority, _)| *priority).min();
        let Some(draining) = &mut self.draining else { return };
        if alive.is_empty() && !std::mem::replace(&mut draining.done, true) {
            self.changed = true;
            self.log(log::Level::Info, "the node is drained: nothing runs".to_owned());
            return;
        }
        draining.done = alive.is_empty();
        let (most, shutdown) = (draining.drain.grace, draining.shutdown);
        // A pod that has ended only waits for its sandbox to stop by itself. Stopping it as a whole would
        // remove the containers that show that it has ended, and it would run again after the drain.
        let over = |key: &PodKey| self.entries.get(key).is_some_and(Entry::is_over);
        let is_next = |priority: i32| match shutdown {
            None => Some(priority) == lowest,
            Some(deadlines) => {
                priority < SYSTEM_CRITICAL || lowest >= Some(SYSTEM_CRITICAL) || now.mono >= deadlines.regular
            }
        };
        let turn = alive.into_iter().filter(|(priority, key)| is_next(*priority) && !over(key));
        let turn: Vec<PodKey> =
            turn.map(|(_, key)| key).filter(|key| draining.told.insert(key.clone())).collect();
        for key in turn {
            self.changed = true;
            let left = shutdown.map(|deadlines| deadlines.left(self.priority_of(&key), now));
            let grace = most.into_iter().chain(left).min().map(|most| most.min(self.own_grace(&key)));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.desired = None;
            }
            self.wish(&key, Wish::Stop(StopOrder { grace, why: "the node is drained" }));
        }
    }

    /// Pods that run or may start to run, with their priority; pods without a manifest too.
    fn alive(&self) -> Vec<(i32, PodKey)> {
        let runs = |entry: &Entry| match &entry.worker {
            None => false,
            Some(worker) => {
                let wanted = entry.desired.is_some() && !entry.is_over();
                wanted || !worker.terminated && !entry.is_over() || worker.runs()
            }
        };
        let entries = self.entries.iter().filter(|(_, entry)| runs(entry)).map(|(key, _)| key);
        let found = self.docker.found.iter().filter(|(key, all)| {
            let unattended = self.entries.get(*key).is_none_or(|e| e.worker.is_none());
            unattended && all.iter().any(|c| c.state.is_running())
        });
        let keys = order::set(entries.chain(found.map(|(key, _)| key)));
        keys.into_iter().map(|key| (self.priority_of(key), key.clone())).collect()
    }

    /// The version that is wanted, else the one that runs, else the one that is held.
    fn version(&self, key: &PodKey) -> Option<&DesiredPod> {
        let entry = self.entries.get(key)?;
        let status = entry.status().map(|status| &status.pod);
        let held = entry.held().map(|held| &held.pod);
        entry.desired.as_ref().or(status).or(held).map(Arc::as_ref)
    }

    fn priority_of(&self, key: &PodKey) -> i32 {
        self.version(key).map(priority::of).unwrap_or_default()
    }

    fn own_grace(&self, key: &PodKey) -> u32 {
        let of_spec = self.version(key).and_then(|p| p.spec.termination_grace_period_seconds);
        let of_spec = of_spec.and_then(duration::grace);
        let written = self.docker.found.get(key).into_iter().flatten().filter_map(|c| c.grace).max();
        of_spec.or(written).unwrap_or(limits::GRACE_DEFAULT)
    }

    pub(super) fn drain_view(&self) -> Option<DrainView> {
        let draining = self.draining.as_ref()?;
        let left: Vec<String> = self.alive().iter().map(|(_, key)| key.to_string()).collect();
        Some(DrainView {
            since: draining.drain.since,
            grace_seconds: draining.drain.grace,
            stopped: self.docker.listed && left.is_empty(),
            left,
        })
    }
}
