//! A drained node: pods are stopped in groups, lowest priority first, each group after the one before it has
//! stopped (the kubelet's graceful node shutdown, `pkg/kubelet/nodeshutdown`). Then no pod starts until the
//! node is resumed. Pods that have ended for good are not touched.

use std::sync::Arc;
use std::time::Duration;

use super::Turn;
use super::due::Due;
use super::entry::Entry;
use super::sizes;
use crate::base::clock::{Mono, Now};
use crate::base::duration;
use crate::base::limits;
use crate::base::order;
use crate::base::table::Set;
use crate::daemon::drain::Drain;
use crate::machine::{StopOrder, Wish};
use crate::pod::priority::{self, SYSTEM_CRITICAL};
use crate::pod::{DesiredPod, PodKey};
use crate::status::snapshot::DrainView;

/// A drain, in progress or done.
#[derive(Debug)]
pub(super) struct Draining {
    drain: Drain,
    /// Pods that were ordered to stop.
    told: Set<PodKey>,
    /// Whether the end of the drain was logged.
    done: bool,
    /// Deadlines of the groups.
    pace: Pace,
}

/// How long one group of pods may delay the next.
#[derive(Debug)]
enum Pace {
    /// As long as the grace periods of its pods.
    Unbounded,
    /// The node has a time for the machine's shutdown, with two groups.
    Shutdown(Deadlines),
    /// The machine goes down after a time that is divided among the priorities.
    Shares(Shares),
}

impl Pace {
    /// Whether to stop pods of this priority now. `lowest`: the lowest priority among pods that still run.
    fn is_turn(&self, priority: i32, lowest: Option<i32>, now: &Now) -> bool {
        let is_lowest = Some(priority) == lowest;
        match self {
            Pace::Unbounded => is_lowest,
            Pace::Shutdown(deadlines) => {
                priority < SYSTEM_CRITICAL || lowest >= Some(SYSTEM_CRITICAL) || now.mono >= deadlines.regular
            }
            Pace::Shares(shares) => is_lowest || now.mono >= shares.begin(priority),
        }
    }

    /// The time left for pods of this priority, in whole seconds; `None`: their own grace periods.
    fn left(&self, priority: i32, now: &Now) -> Option<u32> {
        match self {
            Pace::Unbounded => None,
            Pace::Shutdown(deadlines) => Some(deadlines.left(priority, now)),
            Pace::Shares(shares) => Some(whole_seconds(shares.end(priority).since(now.mono))),
        }
    }

    /// When the next group is stopped, even if the one before it still runs.
    fn next(&self, now: &Now) -> Option<Mono> {
        match self {
            Pace::Unbounded => None,
            Pace::Shutdown(deadlines) => Some(deadlines.regular).filter(|at| *at > now.mono),
            Pace::Shares(shares) => {
                shares.priorities.iter().map(|of| shares.begin(*of)).find(|at| *at > now.mono)
            }
        }
    }
}

/// A time that is divided among priorities: each gets an equal share, and the time that earlier groups leave.
#[derive(Debug)]
struct Shares {
    begun: Mono,
    each: Duration,
    /// Priorities of the existing pods, in ascending order, each once.
    priorities: Vec<i32>,
}

impl Shares {
    fn new(within: u32, priorities: Set<i32>, begun: Mono) -> Shares {
        let (usable, groups) =
            (limits::drain_share(within), u32::try_from(priorities.len()).unwrap_or(u32::MAX));
        let each = usable.checked_div(groups.max(1)).unwrap_or_default();
        Shares { begun, each, priorities: priorities.into_iter().collect() }
    }

    fn begin(&self, priority: i32) -> Mono {
        self.at(self.before(priority))
    }

    fn end(&self, priority: i32) -> Mono {
        self.at(self.before(priority).saturating_add(1))
    }

    /// Number of groups before this priority.
    fn before(&self, priority: i32) -> u32 {
        let before = self.priorities.partition_point(|of| *of < priority);
        u32::try_from(before.min(self.priorities.len().saturating_sub(1))).unwrap_or(u32::MAX)
    }

    fn at(&self, shares: u32) -> Mono {
        self.begun.after(self.each.saturating_mul(shares))
    }
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Deadlines of pods at a shutdown (`pkg/kubelet/nodeshutdown`): regular pods first, then critical ones.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    regular: Mono,
    critical: Mono,
    /// Upper bound for a critical pod.
    most: Duration,
}

impl Deadlines {
    /// The time left for pods of this priority, in whole seconds.
    fn left(self, priority: i32, now: &Now) -> u32 {
        let left = match priority < SYSTEM_CRITICAL {
            true => self.regular.since(now.mono),
            false => self.critical.since(now.mono).min(self.most),
        };
        whole_seconds(left)
    }
}

impl Draining {
    /// Forgets that the pod was ordered to stop.
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
                self.node.rooms.next_period();
                let pace = self.pace(&drain, now);
                self.draining = Some(Draining { drain, told: Set::new(), done: false, pace });
                if self.docker.listed {
                    // Pods that admission refused stay refused, and pods that have ended are not touched.
                    let refused = |e: &Entry| e.rejected().is_some() || e.has_ended();
                    let held = all.into_iter().filter(|p| !self.entries.get(&p.key).is_some_and(refused));
                    let held: Vec<Arc<DesiredPod>> = held.collect();
                    held.into_iter().for_each(|pod| self.consider(pod, now));
                }
            }
            None => {
                self.log(log::Level::Info, "the node is resumed: its pods are started".to_owned());
                self.draining = None;
                if self.docker.listed {
                    let (first, others): (Vec<_>, Vec<_>) =
                        all.into_iter().partition(|pod| self.precedes(pod) || self.room(pod).was_had());
                    let mut resized = self.resumed(first, now);
                    resized.extend(self.resumed(others, now));
                    resized.into_iter().for_each(|pod| self.addition(pod, now));
                    // One of them may have been made smaller since.
                    self.readmit(&[], now);
                    self.housekeeping();
                    // Of those that were evicted before the drain.
                    self.due.push(now.mono, Due::Returns);
                }
            }
        }
    }

    /// Admits pods after a drain, and returns those that are to have other sizes. Those that had gone for pods which have gone
    /// meanwhile are among them.
    fn resumed(&mut self, pods: Vec<Arc<DesiredPod>>, now: &Now) -> Vec<Arc<DesiredPod>> {
        let mut resized = Vec::new();
        for pod in self.in_order(pods) {
            resized.extend(self.judge_one_again(pod, now));
        }
        resized
    }

    /// A drain that ends with this boot is the machine's shutdown, which goes on after a time.
    fn pace(&self, drain: &Drain, now: &Now) -> Pace {
        if drain.boot.is_none() {
            return Pace::Unbounded;
        }
        if let Some(time) = self.config.node.host.shutdown() {
            let regular = now.mono.after(time.regular);
            return Pace::Shutdown(Deadlines {
                regular,
                critical: regular.after(time.critical),
                most: time.critical,
            });
        }
        match drain.within {
            None | Some(0) => Pace::Unbounded,
            Some(within) => {
                let priorities = order::set(self.alive().into_iter().map(|(priority, _)| priority));
                Pace::Shares(Shares::new(within, priorities, now.mono))
            }
        }
    }

    /// Orders the pods of the lowest priority to stop, and those whose time has come.
    pub(super) fn drain_on(&mut self, now: &Now) {
        if self.draining.is_none() || !self.docker.listed {
            return;
        }
        let alive = self.alive();
        let lowest = alive.iter().map(|(priority, _)| *priority).min();
        // What had ended would run again after the drain, if it were stopped before its source tells of the pod.
        let until = Some(self.docker.untold_until).filter(|until| now.mono < *until);
        let untold = until.into_iter().flat_map(|_| &alive).map(|(_, key)| key).filter(|key| {
            let is_unattended = self.entries.get(*key).is_none_or(|entry| entry.worker.is_none());
            is_unattended && self.merge.get(key).is_none() && self.is_of_silent(key)
        });
        let untold: Set<PodKey> = order::set(untold.cloned());
        let Some(draining) = &mut self.draining else { return };
        if alive.is_empty() && !std::mem::replace(&mut draining.done, true) {
            self.changed = true;
            self.log(log::Level::Info, "the node is drained: nothing runs".to_owned());
            return;
        }
        draining.done = alive.is_empty();
        let most = draining.drain.grace;
        // A pod that has ended only waits for its sandbox to stop by itself. Stopping it as a whole would
        // remove the containers that show that it has ended, and it would run again after the drain.
        let over = |key: &PodKey| self.entries.get(key).is_some_and(Entry::is_over);
        let pace = &draining.pace;
        let is_turn = |priority: &i32| pace.is_turn(*priority, lowest, now);
        let may_stop = |key: &PodKey| !over(key) && !untold.contains(key);
        let turn = alive.into_iter().filter(|(priority, key)| is_turn(priority) && may_stop(key));
        let turn: Vec<(i32, PodKey)> = turn.collect();
        let until = until.filter(|_| !untold.is_empty());
        if let Some(next) = pace.next(now).into_iter().chain(until).min() {
            self.due.replace(next, Due::Shutdown);
        }
        let turn = turn.into_iter().filter(|(_, key)| draining.told.insert(key.clone()));
        let turn: Vec<(Option<u32>, PodKey)> =
            turn.map(|(priority, key)| (draining.pace.left(priority, now), key)).collect();
        for (left, key) in turn {
            self.changed = true;
            let grace = most.into_iter().chain(left).min().map(|most| most.min(self.own_grace(&key)));
            let mut ran = None;
            if let Some(entry) = self.entries.get_mut(&key) {
                ran = entry.desired.take();
                if let Some(pod) = &ran {
                    // The drain takes its sandbox, and it may be edited before it returns.
                    entry.had = sizes::in_force(pod);
                }
                // Of an earlier daemon, on a node that is drained from the start.
                let held = entry.held().map(|held| &held.pod);
                ran = ran.or_else(|| held.filter(|_| entry.worker.is_none()).cloned());
            }
            let ran = ran.filter(|pod| !self.runs_other(pod));
            self.forget_unfinished(&key);
            let order = StopOrder::new(grace, "the node is drained");
            self.wish(&key, Wish::Stop(order.unless_ended(ran)));
        }
    }

    /// Pods that run or may start to run, with their priority, including pods without a manifest.
    fn alive(&self) -> Vec<(i32, PodKey)> {
        let runs = |entry: &Entry| match &entry.worker {
            None => false,
            Some(worker) => {
                let wanted = entry.desired.is_some() || !worker.terminated;
                wanted && !entry.has_ended() || worker.runs()
            }
        };
        let entries = self.entries.iter().filter(|(_, entry)| runs(entry)).map(|(key, _)| key);
        let found = self.docker.found.iter().filter(|(key, all)| {
            let unattended = self.entries.get(*key).is_none_or(|e| e.worker.is_none());
            unattended && all.iter().any(|c| c.state.is_running())
        });
        let keys = order::set(entries.chain(found.map(|(key, _)| key)));
        keys.into_iter().map(|key| (self.turn_of(key), key.clone())).collect()
    }

    /// The wanted version, else the running one, else the held one.
    fn version(&self, key: &PodKey) -> Option<&DesiredPod> {
        let entry = self.entries.get(key)?;
        let status = entry.status().map(|status| &status.pod);
        let held = entry.held().map(|held| &held.pod);
        entry.desired.as_ref().or(status).or(held).map(Arc::as_ref)
    }

    /// The pod's priority. Pods of an `evict-first` source form one group, before all others: otherwise they would get
    /// one share of the time for each of their priorities.
    fn turn_of(&self, key: &PodKey) -> i32 {
        let is_behind = self.version(key).is_some_and(|pod| self.config.policy.evict_first(pod.source));
        if is_behind { i32::MIN } else { self.priority_of(key) }
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
