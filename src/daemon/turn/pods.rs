//! Handlers of typed changes (upstream `HandlePodAdditions`, `HandlePodUpdates`, `HandlePodRemoves`) and of
//! workers' reports.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodStatus;

use super::admission::{self, Rejection};
use super::hold::Why;
use super::uids::Told;
use super::{Effect, Entry, Rejected, Turn, WorkerInfo, WorkerStatus};
use crate::base::clock::Now;
use crate::base::order;
use crate::machine::{Report, StopOrder, Wish};
use crate::merge::{Change, Op};
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::{PodEvent, words};
use crate::status;

/// Order for the containers of a refused pod.
pub(super) const REJECTED: StopOrder = StopOrder { grace: None, why: "it was rejected" };

impl Entry {
    /// The pods that hold ports and resources: the admitted one, started or not, and the one that its worker
    /// still stops (kubernetes/kubernetes#97722). A pod that has ended for good holds nothing once none of
    /// its containers runs.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        let waits = self.held.iter().filter(|h| matches!(h.why, Why::After(_))).map(|h| &h.pod);
        let status = self.worker.as_ref().and_then(|w| w.status.as_ref());
        let runs = self.worker.as_ref().is_some_and(WorkerInfo::runs);
        let is_over = |s: &&WorkerStatus| {
            !runs && matches!(s.status.phase.as_deref(), Some("Succeeded" | "Failed")) && s.leaving.is_none()
        };
        let over = status.filter(is_over).map(|s| &s.pod.uid);
        let old = status.map(|s| &s.pod).filter(|pod| {
            over.is_none() && self.desired.as_ref().is_none_or(|desired| desired.uid != pod.uid)
        });
        self.desired.iter().filter(move |pod| over != Some(&pod.uid)).chain(old).chain(waits)
    }
}

/// The part of a status that other pods may wait for.
fn gist(status: &PodStatus) -> (Option<String>, bool) {
    let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    (status.phase.clone(), ready)
}

impl Turn {
    /// HandlePod*: applies changes in the order of the merge, removals first.
    pub(super) fn apply(&mut self, changes: Vec<Change>, now: &Now) {
        let touched = changes.iter().flat_map(|change| change.pods.iter().map(|pod| pod.key.clone()));
        let touched: Vec<PodKey> = touched.collect();
        for Change { op, pods, .. } in changes {
            match op {
                Op::Remove => pods.iter().for_each(|pod| self.remove(pod)),
                Op::Add | Op::Restore => self.additions(pods, now),
                // Delete is an update whose pod has a deletionTimestamp.
                Op::Update | Op::Delete => self.updates(pods, now),
                Op::Reconcile => pods.into_iter().for_each(|pod| self.reconcile(pod, now)),
            }
        }
        self.readmit(&touched, now);
    }

    /// Running pods are admitted first, so that they keep their ports; then by name, never by time.
    pub(super) fn additions(&mut self, mut pods: Vec<Arc<DesiredPod>>, now: &Now) {
        order::sort_by_key(&mut pods, |pod| (!self.runs(&pod.key, &pod.uid), pod.key.clone()));
        for pod in pods {
            if pod.metadata.deletion_timestamp.is_some() {
                self.remove(&pod);
                continue;
            }
            self.consider(pod, now);
        }
    }

    /// Only the status, the source or the path changed: containers made from now on carry the new ones.
    fn reconcile(&mut self, pod: Arc<DesiredPod>, now: &Now) {
        let Some(entry) = self.entries.get(&pod.key) else { return };
        if entry.held.as_ref().is_some_and(|held| held.pod.uid == pod.uid) {
            self.consider(pod, now);
        } else if let Some(old) = entry.desired.as_ref().filter(|old| old.uid == pod.uid) {
            // Another source may have other rights.
            if old.source == pod.source { self.run(pod) } else { self.consider(pod, now) }
        }
    }

    /// An edited pod must pass admission like a new one. Otherwise two writes could do what one may not (a
    /// pod with a UID of its own that is edited to be privileged).
    fn updates(&mut self, pods: Vec<Arc<DesiredPod>>, now: &Now) {
        pods.into_iter().for_each(|pod| self.additions(vec![pod], now));
    }

    fn remove(&mut self, pod: &Arc<DesiredPod>) {
        self.changed = true;
        if self.merge.get(&pod.key).is_some_and(|holder| holder.uid != pod.uid) {
            // Another version takes the name over in this merge, and replaces this one.
            return;
        }
        self.unhold(&pod.key);
        let Some(entry) = self.entries.get_mut(&pod.key) else { return };
        entry.rejected = None;
        entry.postponed = None;
        entry.desired = None;
        if entry.worker.is_none() && !self.found.contains_key(&pod.key) {
            self.entries.remove(&pod.key);
            return;
        }
        let grace = pod.metadata.deletion_grace_period_seconds.and_then(crate::base::duration::grace);
        self.wish(&pod.key, Wish::Stop(StopOrder { grace, why: "its manifest is gone" }));
    }

    pub(super) fn run(&mut self, pod: Arc<DesiredPod>) {
        self.changed = true;
        let pod = self.with_devices(pod);
        self.unhold(&pod.key);
        let entry = self.entries.entry(pod.key.clone()).or_default();
        entry.rejected = None;
        entry.postponed = None;
        entry.desired = Some(Arc::clone(&pod));
        self.wish(&pod.key.clone(), Wish::Run(pod));
    }

    /// Puts a wish into the worker's mailbox, and spawns the worker first when there is none.
    pub(super) fn wish(&mut self, key: &PodKey, wish: Wish) {
        let known_empty = self.listed && !self.found.contains_key(key);
        let objects = match &wish {
            Wish::Run(pod) => Some(self.objects_of(pod)),
            Wish::Stop(_) => None,
        };
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.worker.is_none() {
            self.out.push(Effect::Spawn { key: key.clone(), known_empty });
        }
        let worker = entry.worker.get_or_insert_with(WorkerInfo::default);
        worker.wishes += 1;
        worker.terminated = false;
        if let Wish::Run(pod) = &wish {
            worker.uids.insert(pod.uid.clone(), Told::of(pod));
        }
        // Before the wish: a pod never waits for objects that came together with it.
        if let Some(objects) = objects {
            self.send_objects(key, objects);
        }
        self.out.push(Effect::Wish(key.clone(), wish));
    }

    pub(super) fn reject(&mut self, pod: Arc<DesiredPod>, rejection: &Rejection, now: &Now) {
        self.changed = true;
        let Rejection { reason, message } = rejection;
        self.unhold(&pod.key);
        let entry = self.entries.entry(pod.key.clone()).or_default();
        entry.postponed = None;
        let known = entry.rejected.as_ref().is_some_and(|old| {
            old.pod.uid == pod.uid && old.status.reason.as_deref() == Some(reason.as_str())
        });
        if known {
            return;
        }
        let status = Arc::new(status::rejected(&pod, reason, message, now.wall));
        entry.rejected = Some(Rejected { pod: Arc::clone(&pod), status });
        let running = entry.desired.take().is_some() || entry.worker.is_some();
        let words = words::rejected(reason, message);
        self.record(PodEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
        if running || self.found.contains_key(&pod.key) {
            self.wish(&pod.key, Wish::Stop(REJECTED));
        }
    }

    /// Rejected pods are admitted again whenever other pods change: on a node without a control plane no
    /// other component would retry them (a deliberate difference from the kubelet). `changed`: pods that
    /// others may wait for.
    pub(super) fn readmit(&mut self, changed: &[PodKey], now: &Now) {
        // A drained node starts no pod, and refused pods may stay refused.
        if !self.listed || self.draining.is_some() {
            return;
        }
        let rejected = self.entries.values().filter_map(|e| e.rejected.as_ref().map(|r| Arc::clone(&r.pod)));
        let rejected: Vec<Arc<DesiredPod>> = rejected.chain(self.postponed()).collect();
        if !rejected.is_empty() {
            self.additions(rejected, now);
        }
        self.release(changed, now);
    }

    pub(super) fn admit(&self, pod: &Arc<DesiredPod>) -> Result<(), Rejection> {
        // The pod itself does not count.
        let others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let others = others.flat_map(|(_, entry)| entry.active());
        self.check_uid(pod)?;
        admission::admit(pod, others.map(Arc::as_ref), &self.config)
    }

    /// A container of this UID ran at Docker's last list.
    pub(super) fn runs(&self, key: &PodKey, uid: &str) -> bool {
        let found = self.found.get(key);
        found.is_some_and(|all| all.iter().any(|c| c.uid == uid && c.state.is_running()))
    }

    pub(super) fn report(&mut self, key: &PodKey, report: Report, now: &Now) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(worker) = entry.worker.as_mut() else { return };
        match report {
            Report::Status { status, pod, terminating } => {
                self.changed = true;
                entry.spawn_failures = 0;
                let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
                let old = worker.status.as_ref();
                let since = old.and_then(|old| old.leaving).unwrap_or(now.wall);
                let replaced = old.is_some_and(|old| old.pod.uid != pod.uid);
                let gist = (gist(&status), terminating, pod.uid.clone());
                let same = old.is_some_and(|old| {
                    (self::gist(&old.status), old.leaving.is_some(), old.pod.uid.clone()) == gist
                });
                worker.status = Some(WorkerStatus { pod, status, leaving: terminating.then_some(since) });
                // The pod's resources may be free now.
                let changed = if same { &[][..] } else { std::slice::from_ref(key) };
                if (over && !same) || replaced {
                    self.readmit(changed, now);
                } else {
                    self.release(changed, now);
                }
            }
            Report::Seen(seen) => {
                let ran = worker.runs();
                worker.seen = seen;
                if ran && !worker.runs() && entry.is_over() {
                    self.readmit(&[], now);
                }
            }
            Report::Terminated => {
                self.changed = true;
                worker.status = None;
                worker.terminated = true;
                self.readmit(std::slice::from_ref(key), now);
            }
            Report::Gone(wishes) => {
                if entry.desired.is_none() && worker.wishes == wishes {
                    entry.worker = None;
                    self.changed = true;
                    self.found.remove(key);
                    if let Some(draining) = &mut self.draining {
                        draining.forget(key);
                    }
                    if self.entries.get(key).is_some_and(|e| e.rejected.is_none() && e.held.is_none()) {
                        self.entries.remove(key);
                    }
                    self.out.push(Effect::Retire(key.clone()));
                    // A pod may have waited for this UID.
                    self.readmit(std::slice::from_ref(key), now);
                }
            }
        }
    }
}
