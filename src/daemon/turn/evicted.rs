//! Evicted pods. The kubelet leaves them to their controllers; on a node without a control plane no controller would
//! recreate them, so podkeeper starts them again: after five minutes at the earliest, later after each further
//! eviction, and only when the node is no longer short of anything. A pod of an API server stays evicted, as with the
//! kubelet. Evicted pods start one after the other, the highest priority first, to find out which ones fit together.
//!
//! An edited pod is a new pod, and does not wait. The number of evictions outlives the daemon in the status file, and
//! is forgotten when a pod has run for an hour.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use super::Turn;
use super::admission::pressure::EVICTED;
use super::due::Due;
use super::entry::{Blocked, Entry};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::order;
use crate::base::pace::doubled;
use crate::base::table::Table;
use crate::eviction::{Eviction, preemption};
use crate::machine::{StopOrder, Wish};
use crate::pod::{DesiredPod, Source, priority};
use crate::recorder::{ObjectEvent, words};
use crate::status;
use crate::status::snapshot::EvictionView;

/// Why a pod had to go, and so when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was over a limit of its own.
    OwnLimits,
    /// The node was short of something: it does not return while that is so.
    Node,
    /// Another pod needed its room: it returns when there is room again.
    Room,
}

impl Cause {
    /// How long a pod stays away at least, after so many evictions before in a row.
    fn wait(self, before: u32) -> Duration {
        match self {
            Cause::OwnLimits | Cause::Node => doubled(limits::EVICTED_MIN, before, limits::EVICTED_MAX),
            // Room alone decides. A pod that makes room again and again starts less and less often.
            Cause::Room => match before.checked_sub(1) {
                None => Duration::ZERO,
                Some(more) => doubled(limits::EVICTED_MIN, more, limits::EVICTED_MAX),
            },
        }
    }
}

/// A pod that was evicted and is still wanted.
#[derive(Debug)]
pub(super) struct Evicted {
    pub(super) pod: Arc<DesiredPod>,
    pub(super) status: Arc<PodStatus>,
    /// The pod does not start again before.
    until: Mono,
    cause: Cause,
}

impl Evicted {
    /// It made room for another pod, and may return now if there is some.
    pub(super) fn may_fit(&self, now: &Now) -> bool {
        self.cause == Cause::Room && self.until <= now.mono
    }
}

/// Remembered evictions of a pod.
#[derive(Debug, Clone)]
pub(super) struct Evictions {
    /// UID of the evicted pod.
    uid: String,
    /// Number of evictions in a row.
    count: u32,
    /// When the pod could start again after the last one.
    until: Mono,
    /// The same in wall time, for the status.
    until_wall: Timestamp,
    /// Why the pod was evicted last.
    message: String,
    cause: Cause,
}

impl Evictions {
    /// One more of this pod, after those `before`.
    pub(super) fn after(
        before: Option<&Evictions>,
        uid: &str,
        cause: Cause,
        message: &str,
        now: &Now,
    ) -> Evictions {
        let counts = |it: &&Evictions| it.uid == uid && it.counts(now.mono);
        let count = before.filter(counts).map_or(0, |it| it.count.saturating_add(1));
        let wait = cause.wait(count);
        Evictions {
            uid: uid.to_owned(),
            count,
            until: now.mono.after(wait),
            until_wall: now.wall.checked_add(wait).unwrap_or(now.wall),
            message: message.trim_end().to_owned(),
            cause,
        }
    }

    /// The same for the room of another one, of a pod that has not run since: that makes the row no longer.
    pub(super) fn of_a_waiting_one(mut self, message: &str) -> Evictions {
        message.trim_end().clone_into(&mut self.message);
        self.cause = Cause::Room;
        self
    }

    /// Whether they are of the pod with this UID.
    pub(super) fn are_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// The same, where an earlier daemon ordered it this long ago: the next one reads when it began.
    pub(super) fn begun_before(mut self, passed: Duration) -> Evictions {
        self.until_wall = self.until_wall.checked_sub(passed).unwrap_or(self.until_wall);
        self
    }

    /// One more, as the keeper orders.
    fn ordered(before: Option<&Evictions>, eviction: &Eviction, now: &Now) -> Evictions {
        let cause = if eviction.of_the_node { Cause::Node } else { Cause::OwnLimits };
        Evictions::after(before, &eviction.uid, cause, &eviction.message, now)
    }

    /// The next one would count with them.
    fn counts(&self, now: Mono) -> bool {
        now.since(self.until) < limits::EVICTED_MAX
    }
}

/// The order for a pod that comes back when there is room. A control plane has been told that the pod has failed, and makes
/// another one.
pub(super) fn order_of(pod: &Arc<DesiredPod>, order: StopOrder) -> StopOrder {
    match pod.source {
        Source::Api => order,
        Source::File | Source::Http => order.unless_ended(Some(Arc::clone(pod))),
    }
}

impl EvictionView {
    /// How long ago it was ordered, by wall time: at most so long that the pod had to end by then.
    fn age(&self, now: &Now) -> Duration {
        let age = Duration::try_from(now.wall.duration_since(self.began())).unwrap_or_default();
        age.min(Duration::from_secs(u64::from(limits::ROOM_GRACE)))
    }

    /// When it was ordered, wall time.
    fn began(&self) -> Timestamp {
        self.until.checked_sub(self.cause().wait(self.count)).unwrap_or(self.until)
    }

    fn cause(&self) -> Cause {
        match (self.preempted, self.of_the_node) {
            (true, _) => Cause::Room,
            (false, true) => Cause::Node,
            (false, false) => Cause::OwnLimits,
        }
    }
}

impl Entry {
    /// Whether its worker stops the pod of this UID for good, and was not told to hurry recently.
    pub(super) fn can_hurry(&self, uid: &str, now: &Now) -> bool {
        let stops = self.worker.as_ref().is_some_and(|worker| {
            // A worker reports nothing for a pod that was found and that no source wants.
            let is_this = worker.status.as_ref().is_none_or(|status| status.pod.uid == uid);
            is_this && worker.stopping.is_some() && !worker.terminated
        });
        let is_told = self.evictions.as_ref().is_some_and(|it| it.uid == uid && now.mono < it.until);
        self.desired.is_none() && stops && !is_told
    }

    /// Whether its worker runs the pod of this UID, or stops it to run a newer version.
    fn has(&self, uid: &str) -> bool {
        let is_wanted = self.desired.as_ref().is_some_and(|pod| pod.uid == uid);
        let is_replaced = || self.status().is_some_and(|status| status.pod.uid == uid);
        is_wanted || self.desired.is_some() && is_replaced()
    }
}

impl Turn {
    /// Stops a pod by the keeper's order. If it is being stopped already, shortens its grace period. A pod that has
    /// changed since, or has ended, is left alone.
    pub(super) fn evict(&mut self, eviction: Eviction, now: &Now) {
        let Some(entry) = self.entries.get_mut(&eviction.key) else { return };
        if !entry.has(&eviction.uid) {
            return self.hurry(&eviction, now);
        }
        if entry.has_ended() {
            return;
        }
        let Some(ran) = entry.desired.take() else { return };
        // A newer version may wait while this one runs or ends: that version starts again later.
        let newest = entry.blocked.as_ref().map_or(&ran, Blocked::pod);
        let pod = Arc::clone(newest);
        let evictions = Evictions::ordered(entry.evictions.as_ref(), &eviction, now);
        entry.evictions = Some(evictions.clone());
        self.keep_evicted(pod, &evictions, now);
        let Eviction { key, uid, grace, .. } = eviction;
        self.record(
            ObjectEvent::new(key.clone(), uid, None, words::evicted(EVICTED, &evictions.message)),
            now,
        );
        let order = order_of(&ran, StopOrder::new(Some(grace), "it is evicted"));
        self.wish(&key, Wish::Stop(order));
    }

    /// Ends a pod that is being stopped within the eviction's grace period: its own may be years, and other pods would
    /// be evicted for the data that it writes meanwhile.
    fn hurry(&mut self, eviction: &Eviction, now: &Now) {
        let Some(entry) = self.entries.get_mut(&eviction.key) else { return };
        if !entry.can_hurry(&eviction.uid, now) {
            return;
        }
        entry.evictions = Some(Evictions::ordered(entry.evictions.as_ref(), eviction, now));
        self.changed = true;
        let Eviction { key, uid, grace, .. } = eviction;
        let told = words::evicted(EVICTED, eviction.message.trim_end());
        self.record(ObjectEvent::new(key.clone(), uid.clone(), None, told), now);
        let order = StopOrder::new(Some(*grace), "it is evicted while it is being stopped");
        self.wish(key, Wish::Stop(order.unless_ended(None)));
    }

    /// Shows it as evicted until it may return.
    pub(super) fn keep_evicted(&mut self, pod: Arc<DesiredPod>, evictions: &Evictions, now: &Now) {
        let Evictions { until, until_wall, message, cause, .. } = evictions;
        let at = status::seconds(*until_wall).0;
        let begins = match cause {
            Cause::OwnLimits => format!(" It starts again at {at} at the earliest."),
            Cause::Node => format!(
                " It starts again at {at} at the earliest, once the node has been short of nothing for a while."
            ),
            Cause::Room if *until <= now.mono => ". It starts again when there is room.".to_owned(),
            Cause::Room => format!(". It starts again at {at} at the earliest, when there is room."),
        };
        let told = match pod.source {
            // Its controller creates another pod.
            Source::Api => message.clone(),
            Source::File | Source::Http => format!("{message}{begins}"),
        };
        let (reason, condition) = match cause {
            Cause::OwnLimits | Cause::Node => (EVICTED, message.as_str()),
            Cause::Room => (preemption::PREEMPTING, preemption::condition(message)),
        };
        let status = Arc::new(status::evicted(&pod, reason, condition, &told, now.wall));
        self.changed = true;
        let key = pod.key.clone();
        let evicted = Evicted { pod, status, until: *until, cause: *cause };
        self.block(&key, Some(Blocked::Evicted(evicted)));
        if *until > now.mono {
            self.due.replace(*until, Due::Evicted(key));
        }
    }

    /// Takes over what an earlier daemon recorded of the pod's evictions. Returns true if the pod must not start yet.
    /// If the pod runs, it was not stopped: the number of evictions is kept, and it runs on. The recorded time is wall
    /// time, so it is limited to the possible range.
    ///
    /// `is_over`: Docker's list shows that the pod has ended. It is left alone if it had returned before, with new
    /// containers; otherwise it has ended because it was evicted.
    pub(super) fn restore_evicted(&mut self, pod: &Arc<DesiredPod>, is_over: bool, now: &Now) -> bool {
        let Some(earlier) = self.node.evicted_earlier.remove(&pod.key.to_string()) else { return false };
        if earlier.uid != pod.uid {
            return false;
        }
        let left = Duration::try_from(earlier.until.duration_since(now.wall)).unwrap_or_default();
        let cause = earlier.cause();
        let is_stopped = |entry: &Entry| entry.worker.as_ref().is_some_and(|worker| worker.has_stopped);
        let stops = self.entries.get(&pod.key).is_some_and(is_stopped);
        let has_returned = (is_over || !stops) && self.has_new_containers(pod, earlier.began());
        let runs = self.runs(&pod.key, &pod.uid) && !stops || has_returned;
        let least = if cause == Cause::Node && !runs { limits::EVICTED_APART } else { Duration::ZERO };
        // What waits for the node returns one by one, also when its time has passed.
        let left = left.clamp(least, limits::EVICTED_MAX);
        let age = earlier.age(now);
        let EvictionView { uid, mut count, message, until: earlier_until, .. } = earlier;
        if (runs || stops) && !has_returned && cause == Cause::Room {
            // If it has to make room still, it has the rest of its time.
            self.entries.get_or_default(pod.key.clone()).stopped_for = Some((age, now.mono));
            // It did not make room, and does not wait longer for being told once more.
            match count.checked_sub(1) {
                None if !stops || !self.stays_away(pod) => return false,
                None => {}
                Some(less) => count = less,
            }
        }
        let until = now.mono.after(left);
        // The next daemon, too, reads when it was ordered.
        let until_wall = match left.is_zero() {
            true => earlier_until,
            false => now.wall.checked_add(left).unwrap_or(now.wall),
        };
        let evictions = Evictions { uid, count, until, until_wall, message, cause };
        self.entries.get_or_default(pod.key.clone()).evictions = Some(evictions.clone());
        let is_over = match cause {
            Cause::OwnLimits | Cause::Node => left.is_zero(),
            Cause::Room => left.is_zero() && self.fits_again(pod),
        };
        if is_over || runs {
            return false;
        }
        self.keep_evicted(Arc::clone(pod), &evictions, now);
        true
    }

    /// Whether Docker has containers of the pod that were made after this time.
    fn has_new_containers(&self, pod: &DesiredPod, since: Timestamp) -> bool {
        let mut found = self.docker.found.get(&pod.key).into_iter().flatten();
        found.any(|c| c.uid == pod.uid && !c.is_sandbox() && c.created.is_some_and(|at| at > since))
    }

    /// The evictions that a next one would count in a row with.
    pub(super) fn eviction_views(&self, now: &Now) -> Table<String, EvictionView> {
        let view = |it: &Evictions| EvictionView {
            uid: it.uid.clone(),
            count: it.count,
            until: it.until_wall,
            message: it.message.clone(),
            of_the_node: it.cause == Cause::Node,
            preempted: it.cause == Cause::Room,
        };
        let all = self.entries.iter().filter_map(|(key, entry)| Some((key, entry.evictions.as_ref()?)));
        let known = all.filter(|(_, it)| it.counts(now.mono)).map(|(key, it)| (key.to_string(), view(it)));
        // Includes pods that have not come yet, while another eviction would count in a row: the daemon may end before
        // they come.
        let past =
            |it: &EvictionView| Duration::try_from(now.wall.duration_since(it.until)).unwrap_or_default();
        let is_old = |it: &EvictionView| past(it) >= limits::EVICTED_MAX;
        let earlier = self.node.evicted_earlier.iter().filter(|(_, it)| !is_old(it));
        earlier.map(|(key, it)| (key.clone(), it.clone())).chain(known).collect()
    }

    /// Replaces the version of an evicted pod that waits. Returns true if the pod is evicted.
    pub(super) fn replace_evicted(&mut self, pod: &Arc<DesiredPod>) -> bool {
        let Some(Blocked::Evicted(evicted)) =
            self.entries.get_mut(&pod.key).and_then(|entry| entry.blocked.as_mut())
        else {
            return false;
        };
        if evicted.pod.uid != pod.uid {
            return false;
        }
        evicted.pod = Arc::clone(pod);
        true
    }

    /// Starts the next evicted pod whose time has come.
    pub(super) fn return_evicted(&mut self, now: &Now) {
        if !self.docker.listed || self.draining.is_some() {
            return;
        }
        let well = self.node.pressures().is_empty();
        let may = |evicted: &&Evicted| {
            let is_time = match evicted.cause {
                Cause::OwnLimits => true,
                Cause::Node => well,
                // `return_preempted` does.
                Cause::Room => false,
            };
            evicted.pod.source != Source::Api && evicted.until <= now.mono && is_time
        };
        let mut ready: Vec<Arc<DesiredPod>> = self
            .entries
            .values()
            .filter_map(Entry::evicted)
            .filter(may)
            .map(|evicted| Arc::clone(&evicted.pod))
            .collect();
        order::sort_by_key(&mut ready, |pod| {
            let is_behind = self.config.policy.evict_first(pod.source);
            (is_behind, Reverse(priority::of(pod)), pod.key.clone())
        });
        let more = ready.len() > 1;
        let Some(next) = ready.into_iter().next() else { return };
        if now.mono < self.node.returns {
            return self.due.push(self.node.returns, Due::Returns);
        }
        self.node.returns = now.mono.after(limits::EVICTED_APART);
        if more {
            self.due.push(self.node.returns, Due::Returns);
        }
        self.log(log::Level::Info, format!("pod {} was evicted, and starts again", next.key));
        self.block(&next.key, None);
        self.additions(vec![next], now);
    }
}
