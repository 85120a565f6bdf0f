//! The loop's state of one pod identity: the running version, the version that does not run yet and why, and the
//! worker.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use super::admission::Rejection;
use super::aliases::Taken;
use super::evicted::{Evicted, Evictions};
use super::hold::{Held, Why};
use super::networks::Elsewhere;
use super::pods::last::copy_ends;
use super::sizes::Postponed;
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::pod::object::Objects;
use crate::pod::owner::Owner;
use crate::pod::{DesiredPod, PodKey, Source, is_final};
use crate::runtime::DockerState;
use crate::status::resized::Had;

/// State of one pod identity.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Admitted, and sent to the worker.
    pub(super) desired: Option<Arc<DesiredPod>>,
    /// The version that a source wants, while it does not run; `desired` is an older one then.
    pub(super) blocked: Option<Blocked>,
    /// Names on the pods' network that `desired` does not get, as last recorded.
    pub(super) taken: Taken,
    /// A sandbox that is not on the pods' network, as last recorded.
    pub(super) elsewhere: Option<Elsewhere>,
    pub(super) worker: Option<WorkerInfo>,
    /// The worker's thread could not be started.
    pub(super) spawn_failed: Option<SpawnFailed>,
    pub(super) evictions: Option<Evictions>,
    /// The UID of the version that waits for other pods, or has waited and was refused since, and since when.
    pub(super) waited: Option<(String, Mono)>,
    /// The jobs, with their UIDs, that have borrowed the room of the version that waits, when it was ready.
    pub(super) lent_to: Table<PodKey, String>,
    /// An earlier daemon was stopping it for the room of another pod: for how long, and when this one learnt it.
    pub(super) stopped_for: Option<(Duration, Mono)>,
    /// The sizes in force, or before a drain, where its sandbox was made with others or an edit has no room.
    pub(super) had: Option<Had>,
}

/// A thread could not be started.
#[derive(Debug)]
pub(super) struct SpawnFailed {
    /// Number of failures in a row.
    pub(super) times: u32,
    /// The last failure's reason.
    pub(super) why: String,
}

/// A version that a source wants and that does not run. There is at most one for each identity, so that no other
/// event can start a version that no source wants any more.
#[derive(Debug)]
pub(super) enum Blocked {
    /// Refused by admission.
    Rejected(Rejected),
    /// Not started yet.
    Held(Held),
    /// There is no room for its sizes; the pod runs with other ones.
    Postponed(Postponed),
    /// Evicted; it starts again later.
    Evicted(Evicted),
}

#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) pod: Arc<DesiredPod>,
    /// The rejection at the last try.
    pub(super) rejection: Rejection,
    pub(super) status: Arc<PodStatus>,
}

impl Blocked {
    pub(super) fn pod(&self) -> &Arc<DesiredPod> {
        match self {
            Blocked::Rejected(rejected) => &rejected.pod,
            Blocked::Held(held) => &held.pod,
            Blocked::Postponed(postponed) => &postponed.pod,
            Blocked::Evicted(evicted) => &evicted.pod,
        }
    }

    /// The status of a pod that does not run in any version.
    pub(super) fn status(&self) -> Option<&Arc<PodStatus>> {
        match self {
            Blocked::Rejected(rejected) => Some(&rejected.status),
            Blocked::Held(held) => Some(&held.status),
            Blocked::Evicted(evicted) => Some(&evicted.status),
            Blocked::Postponed(_) => None,
        }
    }

    /// Shows the containers of a pod that was refused or evicted as they were in its last status. Returns the status;
    /// `None` for one that comes back.
    pub(super) fn take_ends(&mut self, last: &PodStatus) -> Option<Arc<PodStatus>> {
        let status = match self {
            Blocked::Rejected(rejected) => &mut rejected.status,
            Blocked::Evicted(evicted) => &mut evicted.status,
            Blocked::Held(_) | Blocked::Postponed(_) => return None,
        };
        copy_ends(last, Arc::make_mut(status));
        Some(Arc::clone(status))
    }
}

impl Entry {
    pub(super) fn rejected(&self) -> Option<&Rejected> {
        match &self.blocked {
            Some(Blocked::Rejected(rejected)) => Some(rejected),
            _ => None,
        }
    }

    /// The reason for which the wanted version is refused.
    pub(super) fn refusal(&self) -> Option<&str> {
        let status = match self.blocked.as_ref()? {
            Blocked::Rejected(rejected) => &rejected.status,
            Blocked::Held(held) if held.why == Why::Cycle => &held.status,
            Blocked::Held(_) | Blocked::Postponed(_) | Blocked::Evicted(_) => return None,
        };
        status.reason.as_deref()
    }

    /// Whether it is judged again when other pods change. A control plane creates another pod in place of a refused one.
    pub(super) fn is_refused(&self) -> bool {
        match &self.blocked {
            Some(Blocked::Rejected(rejected)) => rejected.pod.source != Source::Api,
            Some(Blocked::Postponed(_)) => true,
            Some(Blocked::Held(held)) => held.why == Why::Room,
            Some(Blocked::Evicted(_)) | None => false,
        }
    }

    pub(super) fn held(&self) -> Option<&Held> {
        match &self.blocked {
            Some(Blocked::Held(held)) => Some(held),
            _ => None,
        }
    }

    pub(super) fn postponed(&self) -> Option<&Postponed> {
        match &self.blocked {
            Some(Blocked::Postponed(postponed)) => Some(postponed),
            _ => None,
        }
    }

    pub(super) fn evicted(&self) -> Option<&Evicted> {
        match &self.blocked {
            Some(Blocked::Evicted(evicted)) => Some(evicted),
            _ => None,
        }
    }

    /// Whether a pod of this UID runs here, waits, or is being stopped.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        let versions = self.desired.iter().chain(self.blocked.as_ref().map(Blocked::pod));
        let had = self.worker.as_ref().is_some_and(|worker| worker.uids.contains_key(uid));
        had || versions.chain(self.status().map(|status| &status.pod)).any(|pod| pod.uid == uid)
    }

    /// The version that starts when other pods are as far as it waits for.
    pub(super) fn waits(&self) -> Option<&Arc<DesiredPod>> {
        self.held().filter(|held| matches!(held.why, Why::After | Why::Room)).map(|held| &held.pod)
    }

    /// The worker's last status.
    pub(super) fn status(&self) -> Option<&WorkerStatus> {
        self.worker.as_ref()?.status.as_ref()
    }

    /// The version that was accepted last, started or waiting.
    pub(super) fn accepted(&self) -> Option<&Arc<DesiredPod>> {
        self.waits().or(self.desired.as_ref())
    }

    /// How long an earlier daemon and this one have been stopping it for the room of another pod. Time of long ago does
    /// not count.
    pub(super) fn stopped_for(&mut self, now: &Now) -> Duration {
        let bound = Duration::from_secs(u64::from(limits::ROOM_GRACE));
        let earlier = self.stopped_for.take().map(|(had, at)| (had, now.mono.since(at)));
        earlier.filter(|(_, since)| *since < bound).map_or(Duration::ZERO, |(had, since)| had + since)
    }

    /// The worker reports that the pod has ended for good.
    pub(super) fn is_over(&self) -> bool {
        let told = self.status().filter(|status| status.is_over());
        self.desired.as_ref().zip(told).is_some_and(|(pod, status)| pod.uid == status.pod.uid)
    }

    /// The same, or Docker's list shows it and the worker has told nothing yet.
    pub(super) fn has_ended(&self) -> bool {
        let listed = self.worker.as_ref().and_then(|worker| worker.listed_as_over.as_ref());
        self.is_over() || listed.is_some() && self.desired.as_ref().map(|pod| &pod.uid) == listed
    }

    /// The pods that hold ports and resources: the admitted one, started or not, and the one that its worker
    /// still stops (kubernetes/kubernetes#97722). A pod that has ended for good holds them only while one of its
    /// containers runs.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        self.staying().chain(self.leaving())
    }

    /// Those of them that hold what they have until they are told to stop.
    pub(super) fn staying(&self) -> impl Iterator<Item = &Arc<DesiredPod>> {
        // What was stopped begins anew, whatever was told of it before.
        let begins_anew = self.worker.as_ref().is_some_and(|worker| worker.has_stopped);
        let over = self.over().filter(|_| !begins_anew);
        self.desired.iter().filter(move |pod| over != Some(&pod.uid)).chain(self.waits())
    }

    /// The other one, which is being stopped.
    pub(super) fn leaving(&self) -> Option<&Arc<DesiredPod>> {
        let old = |pod: &&Arc<DesiredPod>| {
            self.over() != Some(&pod.uid)
                && self.desired.as_ref().is_none_or(|desired| desired.uid != pod.uid)
        };
        let untold = self.evicted().filter(|_| self.ends_untold());
        self.status().map(|status| &status.pod).filter(old).or(untold.map(|evicted| &evicted.pod))
    }

    /// Its worker stops a pod of which it has told nothing yet, and may have begun to start it.
    pub(super) fn ends_untold(&self) -> bool {
        let ends = |worker: &WorkerInfo| worker.status.is_none() && !worker.terminated;
        self.evicted().is_some() && self.worker.as_ref().is_some_and(ends)
    }

    /// UID of the pod that has ended for good and runs nothing more.
    fn over(&self) -> Option<&String> {
        let worker = self.worker.as_ref()?;
        let told = self.status().filter(|status| !worker.runs() && status.is_over());
        told.map(|status| &status.pod.uid).or(worker.listed_as_over.as_ref())
    }
}

#[derive(Debug, Default)]
pub(super) struct WorkerInfo {
    /// Number of wishes sent since the worker was spawned.
    pub(super) wishes: u64,
    /// UIDs that the worker was told to run, as long as containers of them may exist.
    pub(super) uids: Table<String, Owner>,
    /// The worker reported, after the last wish, that no container of the pod runs.
    pub(super) terminated: bool,
    /// UID of a pod that has ended for good by Docker's list, until the worker tells a status of it.
    pub(super) listed_as_over: Option<String>,
    /// It was ordered to stop a pod: what it told before may be about containers that are being removed.
    pub(super) has_stopped: bool,
    /// Number of wishes sent when it was ordered to stop a pod last.
    pub(super) ordered: u64,
    /// Containers that it was ordered to stop, as long as Docker may have them: their ends are ends of no pod.
    pub(super) stopped: Set<String>,
    /// UID of the pod that has ended so: its files are being removed.
    pub(super) removes: Option<String>,
    pub(super) seen: Table<String, DockerState>,
    /// Number of dead instances of each of its containers.
    pub(super) dead: Vec<u32>,
    pub(super) status: Option<WorkerStatus>,
    /// When it was ordered to stop the pod, wall time; `None` when it was ordered to run it since.
    pub(super) stopping: Option<Timestamp>,
    /// The shortest grace period, seconds, that it was ordered to stop the pod within; `None` where the pod's own counts.
    pub(super) within: Option<u32>,
    /// The local objects that were sent last.
    pub(super) objects: Arc<Objects>,
}

impl WorkerInfo {
    /// Names what it sees as stopped, and these, which Docker listed. What had ended before counts, too: the pod had not.
    pub(super) fn name_stopped(&mut self, listed: Vec<String>) {
        let all: Vec<String> = self.seen.keys().cloned().chain(listed).collect();
        self.stopped.extend(all);
    }

    /// Names these as stopped, and of what it sees no others: one of them may have ended by itself. Before it has read the
    /// order to stop it knows of none. Forgets what Docker has no more. Returns true when others are named than before.
    pub(super) fn note_stopped(
        &mut self,
        killed: Set<String>,
        wishes: u64,
        is_listed: impl Fn(&String) -> bool,
    ) -> bool {
        let before = self.stopped.clone();
        let (seen, is_late) = (&self.seen, wishes < self.ordered);
        self.stopped.retain(|id| if seen.contains_key(id) { is_late } else { is_listed(id) });
        self.stopped.extend(killed);
        self.stopped != before
    }

    /// Whether it sees a container of the life after the stop.
    pub(super) fn lives_anew(&self) -> bool {
        self.stopping.is_none() && self.seen.keys().any(|id| !self.stopped.contains(id))
    }

    /// Whether a container of the pod runs; a sandbox counts.
    pub(super) fn runs(&self) -> bool {
        self.seen.values().any(|state| *state == DockerState::Running)
    }
}

#[derive(Debug)]
pub(super) struct WorkerStatus {
    pub(super) pod: Arc<DesiredPod>,
    pub(super) status: Arc<PodStatus>,
    /// When its stop began, wall time.
    pub(super) leaving: Option<Timestamp>,
}

impl WorkerStatus {
    /// The pod has ended for good, and is not being stopped.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() && self.leaving.is_none()
    }

    /// The pod's phase is final.
    pub(super) fn has_ended(&self) -> bool {
        is_final(self.status.phase.as_deref())
    }

    /// Whether the statuses look the same to pods that wait for this one.
    pub(super) fn is_like(&self, other: &WorkerStatus) -> bool {
        let ready = |status: &PodStatus| {
            status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
        };
        self.status.phase == other.status.phase
            && ready(&self.status) == ready(&other.status)
            && self.leaving.is_some() == other.leaving.is_some()
            && self.pod.uid == other.pod.uid
    }
}
