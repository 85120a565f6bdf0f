//! Handlers of typed changes (upstream `HandlePodAdditions`, `HandlePodUpdates`, `HandlePodRemoves`) and of
//! workers' reports.

pub(super) mod last;
pub(super) mod order;
mod readmit;

use std::sync::Arc;
use std::time::Duration;

use super::admission::{self, Chosen, Reason, Rejection, Room};
use super::due::Due;
use super::entry::{Blocked, Entry, Rejected, WorkerInfo, WorkerStatus};
use super::evicted::order_of;
use super::hold::Why;
use super::orphans::{Sweep, vanished};
use super::preempted::HURRIED;
use super::{Effect, Turn};
use crate::base::clock::Now;
use crate::base::limits;
use crate::base::table::Table;
use crate::daemon::config::ApiSource;
use crate::machine::{Hint, Report, StopOrder, Target, Wish};
use crate::merge::{Change, Op};
use crate::node::pressure::Pressures;
use crate::plan;
use crate::pod::owner::Owner;
use crate::pod::{DesiredPod, PodKey, Source, is_final};
use crate::recorder::{ObjectEvent, words};
use crate::status;

/// The stop order for the containers of a refused pod.
pub(super) const REJECTED: StopOrder = StopOrder::new(None, "it was rejected");

impl Turn {
    /// HandlePod*: applies changes in the order of the merge, removals first.
    pub(super) fn apply(&mut self, changes: Vec<Change>, now: &Now) {
        let touched = changes.iter().flat_map(|change| change.pods.iter().map(|pod| pod.key.clone()));
        let touched: Vec<PodKey> = touched.chain(std::mem::take(&mut self.waiting.refused)).collect();
        self.names.due = true;
        for Change { op, pods } in changes {
            match op {
                Op::Remove => pods.iter().for_each(|pod| self.remove(pod)),
                Op::Add | Op::Restore => {
                    self.return_preceding(now);
                    self.additions(pods, now);
                }
                // Delete is an update whose pod has a deletionTimestamp.
                Op::Update | Op::Delete => self.updates(pods, now),
                Op::Reconcile => pods.into_iter().for_each(|pod| self.reconcile(pod, now)),
            }
        }
        self.forget_last();
        self.readmit(&touched, now);
    }

    /// Whether its source has deleted the pod and waits for its end.
    pub(super) fn is_deleted(&self, key: &PodKey, uid: &str) -> bool {
        let pod = self.merge.get(key);
        pod.is_some_and(|pod| pod.uid == uid && pod.metadata.deletion_timestamp.is_some())
    }

    /// Whether the API server has recorded the pod's end and none of its containers runs here: it is not run a second
    /// time.
    pub(super) fn is_past(&self, pod: &DesiredPod) -> bool {
        let is_terminal = is_final(pod.status.phase.as_deref());
        let is_of = |entry: &Entry| entry.is_of(&pod.uid);
        let is_here = self.runs(&pod.key, &pod.uid) || self.entries.get(&pod.key).is_some_and(is_of);
        pod.source == Source::Api && is_terminal && !is_here
    }

    pub(super) fn addition(&mut self, pod: Arc<DesiredPod>, now: &Now) {
        if pod.metadata.deletion_timestamp.is_some() {
            self.remove(&pod);
        } else if self.is_past(&pod) {
            self.changed = true;
            let version =
                |entry: &Entry| entry.desired.as_ref().or(entry.blocked.as_ref().map(Blocked::pod)).cloned();
            // It takes the name from another pod, and no start of its own stops that.
            if let Some(other) = self.entries.get(&pod.key).and_then(version) {
                self.end(&other);
            }
        } else {
            self.consider(pod, now);
        }
    }

    /// Handles a change of only the status, the source or the path: containers made from now on carry the new ones.
    fn reconcile(&mut self, pod: Arc<DesiredPod>, now: &Now) {
        let Some(entry) = self.entries.get(&pod.key) else { return };
        // A version that does not run is judged again: another source may have other rights.
        if entry.blocked.as_ref().is_some_and(|blocked| blocked.pod().uid == pod.uid) {
            self.consider(pod, now);
        } else if let Some(old) = entry.desired.as_ref().filter(|old| old.uid == pod.uid) {
            if old.source == pod.source { self.run(pod) } else { self.consider(pod, now) }
        }
    }

    /// Handles an edited pod, which must pass admission like a new one. Otherwise two writes could do what
    /// a single one may not (a pod with a UID of its own that is edited to be privileged).
    fn updates(&mut self, pods: Vec<Arc<DesiredPod>>, now: &Now) {
        pods.into_iter().for_each(|pod| self.additions(vec![pod], now));
    }

    fn remove(&mut self, pod: &Arc<DesiredPod>) {
        self.changed = true;
        let has_worker = self.entries.get(&pod.key).is_some_and(|entry| entry.worker.is_some());
        if !has_worker && self.sweep == Sweep::Done {
            // An earlier daemon may have begun to start it, and this one has refused it.
            self.sweep = Sweep::AtNextList;
        }
        if self.merge.get(&pod.key).is_some_and(|holder| holder.uid != pod.uid) {
            // Another version takes the name in this merge, and replaces this one.
            return;
        }
        self.end(pod);
    }

    /// Stops a pod that is not wanted any more.
    pub(super) fn end(&mut self, pod: &Arc<DesiredPod>) {
        self.block(&pod.key, None);
        self.node.rooms.settled(&pod.key);
        let order = self.deletion(pod);
        let is_found = self.docker.found.contains_key(&pod.key);
        let Some(entry) = self.entries.get_mut(&pod.key) else {
            // Its deletion began before this daemon did, and this daemon continues it. If Docker is not listed yet, the
            // first list does this.
            if is_found && self.is_deleted(&pod.key, &pod.uid) {
                self.wish(&pod.key, Wish::Stop(order));
            }
            return;
        };
        entry.desired = None;
        // What comes under its name is another pod.
        (entry.had, entry.waited, entry.lent_to) = (None, None, Table::new());
        if entry.worker.is_none() && !is_found {
            self.entries.remove(&pod.key);
            return;
        }
        self.wish(&pod.key, Wish::Stop(order));
    }

    /// The order to stop a pod that its source does not want any more.
    pub(super) fn deletion(&self, pod: &Arc<DesiredPod>) -> StopOrder {
        let grace = pod.metadata.deletion_grace_period_seconds.and_then(crate::base::duration::grace);
        let why = self.why_gone(pod.source);
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        let target = if is_deleted { Target::Deleted } else { Target::Anything };
        let pod = Some(Arc::clone(pod)).filter(|_| is_deleted);
        StopOrder { target, pod, ..StopOrder::new(grace, why) }
    }

    pub(super) fn run(&mut self, pod: Arc<DesiredPod>) {
        self.changed = true;
        self.names.due = true;
        let pod = self.with_runtime(self.with_devices(pod));
        let pod = self.with_names(pod);
        self.block(&pod.key, None);
        // A pod of a source behind does not keep one of the same name waiting for as long as it likes.
        let old = self.entries.get(&pod.key).and_then(|entry| entry.desired.as_ref());
        if old.is_none_or(|old| old.uid != pod.uid)
            && !self.is_behind(&pod)
            && let Some(grace) = self.bounded_end(&pod.key, Some(&pod.uid), Duration::ZERO)
        {
            self.wish(&pod.key, Wish::Stop(StopOrder::new(Some(grace), HURRIED)));
        } else if old.is_none_or(|old| old.uid != pod.uid) && self.follows_vanished(&pod) {
            self.wish(&pod.key, Wish::Stop(vanished()));
        }
        let had = self.untold_sizes(&pod);
        let entry = self.entries.get_or_default(pod.key.clone());
        (entry.had, entry.waited, entry.lent_to) = (had, None, Table::new());
        if entry.desired.as_ref().is_some_and(|old| old.uid != pod.uid) {
            entry.taken.clear();
        }
        entry.desired = Some(Arc::clone(&pod));
        self.node.sizes_earlier.remove(&pod.uid);
        self.node.rooms.settled(&pod.key);
        self.node.sizes_kept.remove(&pod.key.to_string());
        self.wish(&pod.key.clone(), Wish::Run(pod));
    }

    /// Puts a wish into the worker's mailbox, and spawns the worker first when there is none.
    pub(super) fn wish(&mut self, key: &PodKey, wish: Wish) {
        let objects = match &wish {
            Wish::Run(pod) => Some(self.objects_of(pod)),
            Wish::Stop(_) => None,
        };
        if self.entries.get(key).is_none_or(|entry| entry.worker.is_none()) {
            self.out.push(Effect::Spawn { key: key.clone(), found: self.found_of(key) });
        }
        let listed = if matches!(wish, Wish::Stop(_)) { self.listed_ids(key) } else { Vec::new() };
        let entry = self.entries.get_or_default(key.clone());
        let worker = entry.worker.get_or_insert_with(WorkerInfo::default);
        worker.wishes += 1;
        worker.terminated = false;
        worker.stopping = match &wish {
            Wish::Stop(_) => worker.stopping.or(Some(self.now.wall)),
            Wish::Run(_) => None,
        };
        if matches!(wish, Wish::Stop(_)) {
            (worker.has_stopped, worker.ordered) = (true, worker.wishes);
            worker.name_stopped(listed);
        }
        let goes_on = |pod: &DesiredPod| worker.uids.get(&pod.uid).is_some_and(|owner| owner.is(pod));
        let stays_over = match &wish {
            // An edit, or another place of the same manifest.
            Wish::Run(pod) => worker.listed_as_over.as_ref() == Some(&pod.uid) && goes_on(pod),
            Wish::Stop(_) => false,
        };
        worker.listed_as_over.take_if(|_| !stays_over);
        worker.within = match &wish {
            Wish::Stop(order) => worker.within.into_iter().chain(order.grace).min(),
            Wish::Run(_) => None,
        };
        if let Wish::Run(pod) | Wish::Stop(StopOrder { pod: Some(pod), .. }) = &wish {
            worker.uids.insert(pod.uid.clone(), Owner::of(pod));
        }
        // Before the wish, so that a pod never waits for objects that came together with it.
        if let Some(objects) = objects {
            self.send_objects(key, objects);
        }
        self.out.push(Effect::Wish(key.clone(), wish));
    }

    pub(super) fn reject(&mut self, pod: Arc<DesiredPod>, rejection: &Rejection, now: &Now) {
        self.changed = true;
        self.loses_room(&pod.key);
        let (message, reason) = (&rejection.message, rejection.reason.to_string());
        // A pod of a source that precedes waits for the UID.
        let is_awaited = rejection.reason == Reason::DuplicateUid;
        let grace = self.bounded_end(&pod.key, None, Duration::ZERO).filter(|_| is_awaited);
        let entry = self.entries.get_or_default(pod.key.clone());
        if entry.waits().is_some() {
            // Others were refused for the room that it kept while it waited.
            self.due.push(now.mono.after(limits::READMISSION), Due::Refused);
        }
        let ran = entry.desired.take();
        let running = ran.is_some() || entry.worker.is_some();
        let is_same = |old: &&Rejected| old.pod.uid == pod.uid && old.status.reason.as_ref() == Some(&reason);
        let known = entry.rejected().filter(is_same);
        let is_known = known.is_some();
        let new = || Arc::new(status::rejected(&pod, &reason, message, now.wall));
        let status = known.map_or_else(new, |old| Arc::clone(&old.status));
        let blocked =
            Blocked::Rejected(Rejected { pod: Arc::clone(&pod), status, rejection: rejection.clone() });
        self.block(&pod.key, Some(blocked));
        if is_known {
            return;
        }
        let found = self.docker.found.get(&pod.key).map(Vec::as_slice).unwrap_or_default();
        let (stops, runs) =
            (running || !found.is_empty(), running || found.iter().any(|c| c.state.is_running()));
        let words = readmit::refusal(&pod, message, runs);
        let event = words::rejected(&reason, &words);
        self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, event), now);
        if stops {
            let order = StopOrder { grace, ..REJECTED };
            let returns = ran.filter(|ran| ran.uid == pod.uid && rejection.is_for_want_of_room());
            let order = if let Some(ran) = returns { order_of(&ran, order) } else { order };
            self.wish(&pod.key, Wish::Stop(order));
        }
    }

    pub(super) fn admit(&self, pod: &Arc<DesiredPod>, room: Room) -> Result<(), Rejection> {
        #[cfg(test)]
        self.waiting.admitted.set(self.waiting.admitted.get() + 1);
        // What is made for several is theirs who fit first: it is enough for all of them in the end.
        let has_room_made = self.has_room_made(pod);
        // What waits for this pod comes after it, and keeps nothing from it.
        let after = self.waiting.all_on(&pod.key);
        let borrows = self.borrows(pod);
        let before = self.gone_before(pod, room);
        let counts = |of, pod: &&Arc<DesiredPod>| self.counts(room, of, pod, &before);
        let others = self.entries.iter().flat_map(|(key, entry)| {
            let waits = entry.held().filter(|held| match held.why {
                Why::Room => has_room_made,
                Why::After => after.contains(key) || self.lends(&held.pod, borrows),
                Why::Drained | Why::RuntimeClass | Why::Cycle => false,
            });
            let later = move |pod: &&Arc<DesiredPod>| waits.is_some_and(|held| Arc::ptr_eq(&held.pod, pod));
            entry.active().filter(move |pod| !later(pod) && counts((key, entry), pod))
        });
        // The pod itself does not count.
        let earlier = self.earlier(!self.precedes(pod));
        let others = others.chain(earlier).filter(|other| other.key != pod.key);
        self.check_uid(pod)?;
        // Running pods and their replacements add no load. Pods that ran before a restart of the machine or of Docker,
        // or before a drain, are admitted again; otherwise a disk that is always full would leave the node without
        // pods.
        let was_drained = |entry: &Entry| entry.held().is_some_and(|held| held.why == Why::Drained);
        let is_there = self.entries.get(&pod.key).is_some_and(|e| e.desired.is_some() || was_drained(e))
            || self.docker.found.get(&pod.key).is_some_and(|all| !all.is_empty());
        let none = Pressures::new();
        let pressures = if is_there { &none } else { self.node.pressures() };
        let chosen = match (&self.config.sources.api, pod.source) {
            (Some(ApiSource::Cluster(_)), Source::Api) => {
                let node = self.sources.get(&Source::Api).and_then(|state| state.node.as_ref());
                Chosen::ByCluster(node.filter(|_| !is_there))
            }
            _ => Chosen::Here,
        };
        admission::admit(pod, others.map(Arc::as_ref), &self.config, pressures, chosen, room)?;
        if room == Room::NotNeeded || !self.is_behind(pod) {
            return Ok(());
        }
        // An evicted pod of a source that precedes has its ports again when it returns.
        let evicted = self.entries.values().filter_map(Entry::evicted).map(|evicted| &*evicted.pod);
        let returns = |other: &&DesiredPod| other.source != Source::Api && !self.is_behind(other);
        admission::host_ports(pod, evicted.filter(returns))
    }

    /// Whether a container of this UID ran at Docker's last list.
    pub(super) fn runs(&self, key: &PodKey, uid: &str) -> bool {
        let found = self.docker.found.get(key);
        found.is_some_and(|all| all.iter().any(|c| c.uid == uid && c.state.is_running()))
    }

    /// Whether one ran that is no sandbox.
    pub(super) fn runs_containers(&self, key: &PodKey, uid: &str) -> bool {
        let mut found = self.docker.found.get(key).into_iter().flatten();
        found.any(|c| c.uid == uid && c.state.is_running() && !c.is_sandbox())
    }

    pub(super) fn report(&mut self, key: &PodKey, report: Report, now: &Now) {
        let counted = self.counts_earlier(key);
        // The report of a worker that has ended meanwhile is dropped.
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(worker) = entry.worker.as_mut() else { return };
        match report {
            Report::Status { status, pod, terminating } => {
                entry.spawn_failed = None;
                worker.removes = None;
                let began = worker.status.as_ref().and_then(|old| old.leaving).unwrap_or(now.wall);
                let leaving = terminating.then_some(began);
                self.note_name(&pod);
                self.status_reported(key, WorkerStatus { pod, status, leaving }, now);
            }
            Report::Seen(seen, killed, wishes) => {
                let ran = worker.runs();
                worker.seen = seen;
                let found = self.docker.found.get(key);
                let is_there = |id: &String| found.is_some_and(|all| all.iter().any(|c| c.id == *id));
                self.changed |= worker.note_stopped(killed, wishes, is_there) || ran && !worker.runs();
                if ran && !worker.runs() && entry.is_over() || counted && !self.counts_earlier(key) {
                    self.readmit(&[], now);
                }
                self.tell_starved(key);
            }
            Report::Dead(dead) => {
                worker.dead = dead;
                self.bound_dead();
            }
            // A newer wish may want one of them again.
            Report::Freed(uids, wishes) if worker.wishes == wishes => self.freed(key, &uids, now),
            Report::Freed(..) => {}
            Report::Spared(wishes) if worker.wishes == wishes => self.spared(key, now),
            Report::Spared(_) => {}
            Report::Terminated => {
                self.changed = true;
                let last = worker.status.take();
                worker.terminated = true;
                worker.removes = last.as_ref().map(|last| last.pod.uid.clone());
                last.into_iter().for_each(|last| self.keep_last(key, last));
                self.readmit(std::slice::from_ref(key), now);
            }
            Report::Gone(wishes) => {
                // With a newer wish the worker has work again.
                if entry.desired.is_none() && worker.wishes == wishes {
                    self.retire(key, now);
                }
            }
        }
    }

    /// Makes workers remove dead containers when there are too many on the node.
    fn bound_dead(&mut self) {
        let Some(most) = self.config.dead.in_all else { return };
        let workers =
            || self.entries.iter().filter_map(|(key, entry)| Some((key, &entry.worker.as_ref()?.dead)));
        let all = workers().flat_map(|(_, dead)| dead.iter().copied());
        let Some(allowed) = plan::allowance(all, most) else { return };
        let more = |dead: &Vec<u32>| dead.iter().any(|n| usize::try_from(*n).is_ok_and(|n| n > allowed));
        let hints = workers().filter(|(_, dead)| more(dead));
        let hints: Vec<Effect> =
            hints.map(|(key, _)| Effect::Hint(key.clone(), Hint::Dead(allowed))).collect();
        self.out.extend(hints);
    }

    fn status_reported(&mut self, key: &PodKey, new: WorkerStatus, now: &Now) {
        let worker = self.entries.get_mut(key).and_then(|entry| entry.worker.as_mut());
        let Some(worker) = worker else { return };
        self.changed = true;
        let (ended, uid) = (new.has_ended(), new.pod.uid.clone());
        let same = worker.status.as_ref().is_some_and(|old| old.is_like(&new));
        let had_stopped = worker.has_stopped;
        worker.has_stopped &= new.leaving.is_some() || !worker.lives_anew();
        let old = worker.status.replace(new);
        let replaced = old.as_ref().is_some_and(|old| old.pod.uid != uid);
        // After a stop it was judged like others when it was given again.
        let was_over = !had_stopped && old.is_some_and(|old| old.is_over() && !replaced);
        let changed = if same { &[][..] } else { std::slice::from_ref(key) };
        if (ended && !same) || replaced {
            // The pod's resources may be free now.
            self.readmit(changed, now);
        } else {
            self.release(changed, now);
        }
        self.judge_what_goes_on(key, was_over, now);
    }

    /// Ends the thread of a worker that has no work left.
    fn retire(&mut self, key: &PodKey, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.worker = None;
        if entry.blocked.is_none() {
            self.forget_entry(key);
        }
        self.changed = true;
        self.docker.found.change().remove(key);
        if let Some(draining) = &mut self.draining {
            draining.forget(key);
        }
        self.out.push(Effect::Retire(key.clone()));
        // A pod may have waited for this UID.
        self.readmit(std::slice::from_ref(key), now);
    }
}
