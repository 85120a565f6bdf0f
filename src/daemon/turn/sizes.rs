//! Resources that a pod gets from the node: units of devices, and room for a resize of a running pod.
//!
//! An edit of sizes keeps the UID: `manifest::hash::shape` is the written pod without its sizes, and
//! `merge::names` gives a claim of the same shape at the same place the UID of the pod that holds the name or
//! runs; the shape of an API server's pod is its UID. The class of service and the set of limits belong to the shape. The old version runs on while there
//! is no room; meanwhile each limit of the pod's cgroup is the larger one of both versions. Units of devices are
//! written into the pod's annotation, and so onto its sandbox, where the next daemon finds them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};

use super::Turn;
use super::admission::{Rejection, fits};
use super::entry::{Blocked, Entry};
use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::node::devices::ASSIGNED;
use crate::pod::{self, DesiredPod, PodKey};
use crate::recorder::{ObjectEvent, words};
use crate::status;
use crate::status::resized::{Had, Resized};
use crate::status::snapshot::UNMANAGED;

/// New sizes without room: the pod keeps its old ones.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) pod: Arc<DesiredPod>,
    why: Pending,
    message: String,
    since: crate::base::clock::Timestamp,
}

/// Why a resize waits, as in the kubelet's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// The node will never have room for them.
    Infeasible,
    /// The node has no room for them now.
    Deferred,
}

impl Pending {
    fn as_str(self) -> &'static str {
        match self {
            Pending::Infeasible => "Infeasible",
            Pending::Deferred => "Deferred",
        }
    }
}

impl Turn {
    /// The pod with its units of devices written on it. It was admitted, so there are enough.
    pub(super) fn with_devices(&self, pod: Arc<DesiredPod>) -> Arc<DesiredPod> {
        let pools = &self.config.node.devices;
        let written =
            |pod: &DesiredPod| pod.metadata.annotations.as_ref().and_then(|a| a.get(ASSIGNED)).cloned();
        if pools.is_empty() || written(&pod).is_some() {
            return pod;
        }
        let desired = self.entries.get(&pod.key).and_then(|e| e.desired.as_ref());
        let mut found = self.docker.found.get(&pod.key).into_iter().flatten().filter(|c| c.uid == pod.uid);
        let before = match desired.filter(|old| old.uid == pod.uid) {
            Some(old) => written(old),
            None => found.find_map(|c| c.kept()?.devices.clone()),
        };
        let others = self.entries.iter().filter(|(key, _)| **key != pod.key);
        let others = others.flat_map(|(_, entry)| entry.active()).filter_map(|pod| written(pod));
        // A running pod that no source has claimed yet keeps its units.
        let found = self.docker.found.iter().filter(|(key, _)| **key != pod.key).flat_map(|(_, all)| all);
        let found = found.filter(|c| self.runs_still_as_seen(c)).filter_map(|c| c.kept()?.devices.clone());
        let taken: Vec<String> = others.chain(found).collect();
        match pools.assign(&pod, before.as_deref(), &taken) {
            None => pod,
            Some(given) => {
                let mut pod = Arc::unwrap_or_clone(pod);
                pod.metadata.annotations.get_or_insert_default().insert(ASSIGNED.to_owned(), given);
                Arc::new(pod)
            }
        }
    }

    /// The pod with the sizes that it had, if it is not known what runs of it and they differ from those that it is to have:
    /// it gets its room first, and the resize is decided when all others have theirs.
    pub(super) fn before_resize(&self, pod: &DesiredPod) -> Option<Arc<DesiredPod>> {
        if self.entries.get(&pod.key).is_some_and(|entry| entry.desired.is_some()) {
            return None;
        }
        let text = self.had(pod).or_else(|| self.was_made_with(pod))?;
        pod::sizes::with(pod, text).map(Arc::new)
    }

    /// The sizes that the pod had before a drain, or at the end of an earlier daemon.
    fn had(&self, pod: &DesiredPod) -> Option<&str> {
        let shape = pod.shape.as_deref()?;
        let kept = || self.node.sizes_kept.get(&pod.key.to_string()).filter(|had| had.shape == shape);
        let here = self.entries.get(&pod.key).and_then(|entry| entry.had.as_ref());
        if let Some(had) = here.filter(|had| had.shape == shape) {
            return Some(&had.sizes);
        }
        // The status file of a drained node has what is wanted, not what ran.
        let earlier = || self.node.sizes_earlier.get(&pod.uid);
        kept().map(|had| &had.sizes).or_else(earlier).map(String::as_str)
    }

    /// The sizes with which a pod of this shape was made.
    fn was_made_with(&self, pod: &DesiredPod) -> Option<&str> {
        let shape = pod.shape.as_deref()?;
        // What has ended may have had another UID: an edit has that of a pod that runs.
        let found = self.docker.found.get(&pod.key).into_iter().flatten();
        let of_pod = found.filter(|c| c.manifest.shape.as_deref() == Some(shape));
        let latest = of_pod.filter_map(|c| Some((c.attempt, c.kept()?.sizes.as_deref()?))).max();
        latest.map(|(_, sizes)| sizes)
    }

    /// The sizes of a pod that is to run with them, if its sandbox does not tell the same.
    pub(super) fn untold_sizes(&self, pod: &DesiredPod) -> Option<Had> {
        let shape = pod.shape.clone()?;
        let sizes = pod::sizes::text(&pod.spec);
        let found = self.docker.found.get(&pod.key).into_iter().flatten().filter(|c| c.uid == pod.uid);
        let made_with = found.filter_map(|c| Some((c.attempt, c.kept()?.sizes.as_ref()?))).max();
        let differs = match made_with {
            Some((_, made_with)) => *made_with != sizes,
            None => {
                // It is being made, or too many sizes are not on it.
                let old = self.entries.get(&pod.key).and_then(|entry| entry.desired.as_ref());
                old.is_some_and(|old| old.uid == pod.uid && pod::sizes::text(&old.spec) != sizes)
            }
        };
        differs.then_some(Had { shape, sizes })
    }

    /// Forgets the earlier sizes of pods that nobody wants and of which nothing is left: what its source gives again later is
    /// a new pod.
    pub(super) fn forget_sizes(&mut self) {
        if !self.all_heard() || self.node.sizes_earlier.is_empty() && self.node.sizes_kept.is_empty() {
            return;
        }
        let found = || self.docker.found.iter().flat_map(|(_, all)| all);
        let uids = self.merge.pods().map(|pod| &*pod.uid).chain(found().map(|container| &*container.uid));
        let uids = order::set(uids);
        self.node.sizes_earlier.retain(|uid, _| uids.contains(&**uid));
        let keys = self.merge.pods().map(|pod| &pod.key).chain(self.docker.found.keys());
        let keys: Set<String> = if self.node.sizes_kept.is_empty() {
            Set::new()
        } else {
            order::set(keys.map(ToString::to_string))
        };
        self.node.sizes_kept.retain(|key, _| keys.contains(key));
    }

    /// Sizes that pods have or had and that no sandbox tells, for the next daemon. `None` as long as Docker is not listed.
    pub(super) fn all_untold_sizes(&self) -> Option<Resized> {
        if !self.docker.listed {
            return None;
        }
        let all_heard = self.all_heard();
        let is_wanted = |key: &String| self.merge.pods().any(|pod| pod.key.to_string() == *key);
        let kept = self.node.sizes_kept.iter().filter(|(key, _)| !all_heard || is_wanted(key));
        let kept = kept.map(|(key, had)| (key.clone(), had.clone()));
        let here = self.entries.iter().filter_map(|(key, e)| Some((key.to_string(), e.had.clone()?)));
        Some(kept.chain(here).collect())
    }

    /// Forgets what is known of a pod that has no worker and waits for nothing; its source may want it again.
    pub(super) fn forget_entry(&mut self, key: &PodKey) {
        let had = self.entries.remove(key).and_then(|entry| entry.had);
        if let Some(had) = had.filter(|_| self.merge.get(key).is_some()) {
            self.node.sizes_kept.insert(key.to_string(), had);
        }
    }

    /// Returns true when the refused pod is a resize of a running one: the pod runs on with its old sizes,
    /// and the resize waits.
    pub(super) fn postpone(&mut self, pod: &Arc<DesiredPod>, rejection: &Rejection, now: &Now) -> bool {
        let node = &self.config.node;
        let Some(entry) = self.entries.get(&pod.key) else { return false };
        // A file's pod with a UID of its own has no shape, and an API server allows no edit that a node would refuse
        // except sizes; the kubelet admits a pod only once.
        let resized = |old: &Arc<DesiredPod>| old.uid == pod.uid && old.shape == pod.shape;
        if !rejection.is_for_want_of_room() || !entry.desired.as_ref().is_some_and(resized) {
            return false;
        }
        let had = entry.desired.as_deref().and_then(in_force);
        let (why, message) = match fits::infeasible(pod, node) {
            Some(message) => (Pending::Infeasible, message),
            None => (Pending::Deferred, rejection.message.clone()),
        };
        let old = entry.postponed().filter(|old| old.why == why);
        let told = old.is_some_and(|old| old.message == message);
        let since = old.map_or(now.wall, |old| old.since);
        let event = words::resize_pending(why.as_str(), &message);
        let postponed = Postponed { pod: Arc::clone(pod), why, message, since };
        self.block(&pod.key, Some(Blocked::Postponed(postponed)));
        self.entries.get_or_default(pod.key.clone()).had = had;
        if !told {
            self.changed = true;
            self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, event), now);
        }
        true
    }
}

/// The sizes of a pod that runs; `None` for one that is never made anew with others.
pub(super) fn in_force(pod: &DesiredPod) -> Option<Had> {
    Some(Had { shape: pod.shape.clone()?, sizes: pod::sizes::text(&pod.spec) })
}

/// The sizes of pods in a status file, by UID: the file holds what runs, not what its source wants. Of a pod without a
/// manifest it may hold only what Docker's list tells, which are no sizes.
pub(super) fn of_earlier(pods: &[Pod]) -> Table<String, String> {
    let of = |pod: &Pod| {
        let sizes = pod::sizes::text(pod.spec.as_ref()?);
        let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
        let is_known = reason != Some(UNMANAGED) || sizes != pod::sizes::text(&PodSpec::default());
        Some((pod.metadata.uid.clone()?, sizes)).filter(|_| is_known)
    };
    pods.iter().rev().filter_map(of).collect()
}

impl Entry {
    /// The status, with the kubelet's condition of a waiting resize.
    pub(super) fn with_resize(&self, status: &Arc<PodStatus>) -> Arc<PodStatus> {
        let Some(postponed) = self.postponed() else { return Arc::clone(status) };
        let mut status = PodStatus::clone(status);
        let generation = postponed.pod.metadata.generation;
        status.observed_generation = status.observed_generation.max(generation);
        status.conditions.get_or_insert_default().push(PodCondition {
            type_: "PodResizePending".to_owned(),
            status: "True".to_owned(),
            reason: Some(postponed.why.as_str().to_owned()),
            message: Some(postponed.message.clone()),
            last_transition_time: Some(status::seconds(postponed.since)),
            observed_generation: generation,
            ..PodCondition::default()
        });
        Arc::new(status)
    }
}
