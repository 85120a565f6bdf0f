//! Orphans: podkeeper's containers that no manifest names (upstream `pkg/kubelet/kubelet_pods.go`,
//! `HandlePodCleanups`). They are stopped once the source that made them has reported and every other source
//! has reported or was restored. While their source cannot be read they are left alone.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::docker::Known;
use super::entry::{Blocked, Entry, WorkerInfo};
use super::sources::Content;
use super::{Effect, InUse, Turn, unmanaged};
use crate::base::duration::grace;
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::machine::{Hint, StopOrder, Wish};
use crate::node::devices::ASSIGNED;
use crate::plan::Owned;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, PodKey, Source};
use crate::runtime::DockerState;

/// When the files of pods that vanished while the daemon was down are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sweep {
    /// As soon as every source has reported. UIDs of pods whose volumes were ordered to be removed before, as they are over
    /// in any case.
    First(Set<String>),
    /// As soon as every source has reported once more.
    Due,
    /// Once more, with the next list: files were kept that may belong to no pod.
    AtNextList,
    /// They are removed. From now on each worker removes the files of its own pod.
    Done,
}

/// Decision on the containers of an orphan.
pub(super) enum Verdict {
    Stop,
    /// This source has not reported since the daemon started.
    Wait(Source),
    /// Their manifest exists and cannot be read; its path.
    Keep(String),
}

/// Why a pod is stopped whose source no manifest can come from.
const WITHOUT: &str = "podkeeper was started without the source that named it";

/// Why a pod is stopped that was deleted at the server, without a grace period, while no daemon saw it.
const GONE: &str = "the API server has it no more";

impl Turn {
    /// Sweeps, and stops the orphans whose time has come.
    pub(super) fn housekeeping(&mut self) {
        if !self.docker.listed {
            return;
        }
        self.sweep();
        self.forget_sizes();
        let Known { deleted, found, .. } = &mut self.docker;
        deleted.retain(|key, _| found.contains_key(key));
        let unclaimed: Vec<PodKey> = self
            .docker
            .found
            .keys()
            .filter(|key| self.merge.get(key).is_none_or(|pod| self.is_past(pod) && self.runs_other(pod)))
            .filter(|key| self.entries.get(key).is_none_or(|e| e.worker.is_none()))
            .filter(|key| !self.is_refused_and_over(key))
            .cloned()
            .collect();
        self.logged.kept.retain(|key, _| unclaimed.contains(key));
        let mut is_stopped = false;
        for key in unclaimed {
            let Some(verdict) = self.docker.found.get(&key).map(|all| self.verdict(all)) else { continue };
            // The snapshot shows a pod without a manifest, and the reason.
            self.changed = true;
            match verdict {
                Verdict::Wait(_) => {}
                Verdict::Stop => {
                    self.logged.kept.remove(&key);
                    let order = self.order_for(&key);
                    self.wish(&key, Wish::Stop(order));
                    is_stopped = true;
                }
                Verdict::Keep(path) => {
                    // A file that is only not settled yet is not logged.
                    if self.is_wrong(&path) && self.logged.kept.get(&key) != Some(&path) {
                        let line = format!(
                            "pod {key} runs, but its manifest {path} is not accepted: it is left alone, and not restarted"
                        );
                        self.log(log::Level::Warn, line);
                        self.logged.kept.insert(key, path);
                    }
                }
            }
        }
        self.hurry_vanished();
        // Docker has carried out a call for a pod that has ended its deletion here: while anything is found of it, the server
        // is not told.
        let deleted = self.merge.pods().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        let deleted = deleted.filter(|pod| self.docker.found.contains_key(&pod.key));
        let has_none = |pod: &&Arc<DesiredPod>| self.entries.get(&pod.key).is_none_or(|e| e.worker.is_none());
        for pod in deleted.filter(has_none).cloned().collect::<Vec<_>>() {
            self.end(&pod);
        }
        if is_stopped {
            // A pod of a source that precedes may wait for its UID.
            let now = self.now;
            self.readmit(&[], &now);
        }
    }

    /// Whether a container of another pod runs under its name: this one has ended, so no start stops that.
    pub(super) fn runs_other(&self, pod: &DesiredPod) -> bool {
        let found = self.docker.found.get(&pod.key);
        found.is_some_and(|all| all.iter().any(|c| c.uid != pod.uid && c.state.is_running()))
    }

    /// The order to stop an orphan: that of its source, if its deletion is known.
    pub(super) fn order_for(&mut self, key: &PodKey) -> StopOrder {
        let found = self.docker.found.get(key);
        let deleted = self.docker.deleted.remove(key);
        let deleted = deleted.filter(|pod| found.into_iter().flatten().any(|c| c.uid == pod.uid));
        match deleted {
            Some(pod) => self.deletion(&pod),
            None if self.is_of_no_source(key) => StopOrder::new(None, WITHOUT),
            None if self.is_of_server(key) => vanished(),
            None if self.is_refused(key) => StopOrder::new(None, "the policy of its source refuses it"),
            None => StopOrder::new(None, "no manifest names it"),
        }
    }

    fn is_refused(&self, key: &PodKey) -> bool {
        self.refused(key).next().is_some()
    }

    /// The pods of this name that the policies of their sources refuse.
    pub(super) fn refused(&self, key: &PodKey) -> impl Iterator<Item = &Arc<DesiredPod>> {
        let refused = self.sources.values().flat_map(|source| &source.refused);
        refused.map(|it| &it.refused.pod).filter(move |pod| pod.key == *key)
    }

    /// Whether the source that made it is not configured.
    fn is_of_no_source(&self, key: &PodKey) -> bool {
        self.made_by(key).is_some_and(|source| !self.sources.contains_key(&source))
    }

    /// Goes on faster with stops that an earlier daemon had begun of pods that the server has no more. Where the server has
    /// told this daemon of the pod, the source knows why it is there no more, and marks what was deleted by force.
    fn hurry_vanished(&mut self) {
        let api = self.sources.get(&Source::Api);
        if api.is_some_and(|api| matches!(api.content, Content::Accepted(_))) {
            let merge = &self.merge;
            self.docker.finishing.retain(|key| merge.get(key).is_none_or(|pod| pod.source != Source::Api));
        }
        let order = vanished();
        let is_slow = |key: &PodKey| {
            let worker = self.entries.get(key).and_then(|entry| entry.worker.as_ref());
            worker.is_some_and(|worker| {
                let is_short = worker.within.zip(order.grace).is_some_and(|(within, most)| within <= most);
                worker.stopping.is_some() && !worker.terminated && !is_short
            })
        };
        let found = self.docker.found.iter().filter(|(key, all)| {
            self.docker.finishing.contains(*key)
                && is_slow(key)
                && self.merge.get(key).is_none()
                && self.is_of_server(key)
                && matches!(self.verdict(all), Verdict::Stop)
        });
        for key in found.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.docker.finishing.remove(&key);
            self.wish(&key, Wish::Stop(order.clone()));
        }
    }

    /// Whether a pod of the cluster runs still under the name of this one: the server had to be told by force to let another
    /// one have it.
    pub(super) fn follows_vanished(&self, pod: &DesiredPod) -> bool {
        let mut others = self.docker.found.get(&pod.key).into_iter().flatten().filter(|c| c.uid != pod.uid);
        self.config.sources.in_cluster()
            && pod.source == Source::Api
            && others.any(|c| c.state.is_running() && c.manifest.source == Some(Source::Api))
    }

    /// Whether the API server of a cluster had named it. That removes a pod without the node's word only when it is told to
    /// by force: others may have what the pod had. The kubelet gives such a pod a second (`HandlePodCleanups`).
    fn is_of_server(&self, key: &PodKey) -> bool {
        self.config.sources.in_cluster() && !self.is_refused(key) && self.made_by(key) == Some(Source::Api)
    }

    /// The source of its newest container.
    pub(super) fn made_by(&self, key: &PodKey) -> Option<Source> {
        let owner = self.docker.found.get(key).into_iter().flatten().max_by_key(|c| c.attempt);
        owner.and_then(|owner| owner.manifest.source)
    }

    /// A found pod that no source wants may vanish without its worker's knowledge, so the sweep runs once
    /// more with the next list.
    fn sweep(&mut self) {
        match self.sweep {
            Sweep::First(_) | Sweep::Due if self.merge.all_ready() => {}
            Sweep::First(_) => return self.sweep_what_is_over(),
            Sweep::Due | Sweep::AtNextList | Sweep::Done => return,
        }
        let gone = self.blocked_without_worker(|_| true);
        let wanted = self.merge.pods().map(|pod| pod.uid.clone()).filter(|uid| !gone.contains(uid));
        // A refused pod may have the UID of another one.
        let known = self.entries.values().flat_map(goes_on).map(|pod| pod.uid.clone());
        let mut pods = order::set(wanted.chain(known));
        let sure = pods.len();
        pods.extend(self.docker.found.values().flatten().map(|c| c.uid.clone()));
        self.sweep = if pods.len() > sure { Sweep::AtNextList } else { Sweep::Done };
        let containers = order::set(self.docker.found.values().flatten().map(|c| c.id.clone()));
        self.out.push(Effect::Sweep(InUse { pods, containers }));
    }

    /// While a source has told nothing yet, only the volumes of pods that are known to be over: a disk must not stay full, and
    /// others be evicted for it, because a server does not answer. Volumes whose removal had begun need no order.
    fn sweep_what_is_over(&mut self) {
        let Sweep::First(told) = &self.sweep else { return };
        let is_found = |uid: &String| self.docker.found.values().flatten().any(|c| c.uid == *uid);
        let is_desired = |uid: &String| self.entries.values().flat_map(goes_on).any(|pod| pod.uid == *uid);
        // A source that precedes another one may have a pod of the UID of a pod that is refused here.
        let is_sure = |it: &Blocked| {
            let is_silent = |source: &Source| *source < it.pod().source && !self.merge.ready(*source);
            !matches!(it, Blocked::Rejected(_)) || !self.sources.keys().any(is_silent)
        };
        let mut over = self.blocked_without_worker(is_sure);
        over.retain(|uid| !told.contains(uid) && !is_found(uid) && !is_desired(uid));
        if over.is_empty() {
            return;
        }
        if let Sweep::First(told) = &mut self.sweep {
            over.iter().for_each(|uid| _ = told.insert(uid.clone()));
        }
        self.out.push(Effect::RemoveVolumes(over));
    }

    /// UIDs of pods that were evicted or refused and have no worker: an earlier daemon may have been removing their volumes
    /// when it ended.
    fn blocked_without_worker(&self, counts: impl Fn(&Blocked) -> bool) -> Set<String> {
        let blocked = self.entries.values().filter(|entry| entry.worker.is_none());
        let blocked = blocked.filter_map(|entry| entry.blocked.as_ref()).filter(|it| counts(it));
        let is_gone = |it: &&Blocked| matches!(it, Blocked::Evicted(_) | Blocked::Rejected(_));
        order::set(blocked.filter(is_gone).map(|it| it.pod().uid.clone()))
    }

    /// Whether a source reports an error about this path.
    fn is_wrong(&self, path: &str) -> bool {
        let mut problems = self.sources.values().flat_map(|s| &s.problems);
        problems.any(|p| p.path == path && p.severity == Severity::Error)
    }

    /// Learns from the first list which pods of an earlier daemon run that no source has told yet, or tells no more.
    /// Of those that it has not written down only the containers are known, and not what they request.
    pub(super) fn know_earlier(&mut self) {
        let mut written = std::mem::take(&mut self.node.pods_earlier);
        let unclaimed = self.docker.found.iter().filter_map(|(key, all)| {
            let newest = all.iter().filter(|c| c.state.is_running()).max_by_key(|c| c.attempt)?;
            let is_other = self.merge.get(key).is_none_or(|pod| pod.uid != newest.uid);
            // One that was being stopped is made anew, maybe with less.
            (is_other || newest.killed).then(|| {
                let known = written.iter_mut().find(|pod| pod.metadata.uid.as_ref() == Some(&newest.uid));
                let (spec, metadata) =
                    known.map(|pod| (pod.spec.take(), pod.metadata.clone())).unwrap_or_default();
                let mut pod = unmanaged::pod(key, newest, spec.unwrap_or_default());
                pod.metadata.labels = metadata.labels;
                let notes = pod.metadata.annotations.get_or_insert_default();
                notes.extend(metadata.annotations.unwrap_or_default());
                let mut own = all.iter().filter(|c| c.uid == newest.uid);
                if let Some(devices) = own.find_map(|c| c.kept()?.devices.clone()) {
                    pod.metadata.annotations.get_or_insert_default().insert(ASSIGNED.to_owned(), devices);
                }
                (key.clone(), Arc::new(pod))
            })
        });
        self.node.earlier = unclaimed.collect();
    }

    /// Forgets those that run no more. Returns true if there were any.
    pub(super) fn forget_earlier(&mut self) -> bool {
        let mut earlier = std::mem::take(&mut self.node.earlier);
        let before = earlier.len();
        earlier.retain(|key, pod| match self.entries.get(key).and_then(|entry| entry.desired.as_ref()) {
            Some(desired) if desired.uid == pod.uid => self.ends_still(key, &pod.uid),
            _ => self.runs_still(key, &pod.uid),
        });
        self.node.earlier = earlier;
        self.node.earlier.len() < before
    }

    /// The pods of an earlier daemon that still hold ports and resources, though no source tells them: the kubelet forgets
    /// them. `staying`: also those that nobody has told to stop, and nobody may.
    pub(super) fn earlier(&self, staying: bool) -> Vec<&Arc<DesiredPod>> {
        let all = self.node.earlier.iter().filter(|(key, pod)| {
            let entry = self.entries.get(key);
            let mut known = entry.into_iter().flat_map(|entry| entry.desired.iter().chain(entry.leaving()));
            if known.any(|it| it.uid == pod.uid) {
                return self.ends_still(key, &pod.uid);
            }
            match entry.and_then(|entry| entry.worker.as_ref()) {
                Some(worker) if worker.terminated => false,
                // Another version waits for its end.
                Some(worker) if entry.is_some_and(|entry| entry.desired.is_some()) => {
                    self.runs_for(worker, key, &pod.uid)
                }
                Some(_) => true,
                None if !self.runs_still(key, &pod.uid) => false,
                None => {
                    let is_stopped =
                        || self.docker.found.get(key).is_some_and(|all| self.is_stopped_next(all));
                    staying || self.is_unfinished(key, &pod.uid) || is_stopped()
                }
            }
        });
        all.map(|(_, pod)| pod).collect()
    }

    /// Those of which another version is shown, and those whose server has told nothing yet of which only the ends are known;
    /// before Docker's first list all of an earlier daemon's that no source tells.
    pub(super) fn replaced(&self) -> Vec<Pod> {
        if !self.node.pods_earlier.is_empty() {
            let told = order::set(self.merge.pods().map(|pod| Some(pod.uid.as_str())));
            let untold = |pod: &&Pod| !told.contains(&pod.metadata.uid.as_deref());
            return self.node.pods_earlier.iter().filter(untold).cloned().collect();
        }
        let all = self.node.earlier.iter().filter(|(key, pod)| {
            self.merge.get(key).is_some() && !pod.spec.containers.is_empty() && self.runs_still(key, &pod.uid)
        });
        let written = |(_, pod): (&PodKey, &Arc<DesiredPod>)| {
            let metadata = ObjectMeta { uid: Some(pod.uid.clone()), ..ObjectMeta::default() };
            Pod { metadata, spec: Some(PodSpec::clone(&pod.spec)), status: None }
        };
        all.map(written).chain(self.untold_ends()).collect()
    }

    /// How many pods hold ports and resources; one that is being replaced counts once.
    pub(super) fn active_pods(&self) -> usize {
        let entries = self.entries.iter().filter(|(_, entry)| entry.active().next().is_some());
        let earlier = self.earlier(true);
        order::set(entries.map(|(key, _)| key).chain(earlier.iter().map(|pod| &pod.key))).len()
    }

    /// Whether such a pod of this identity counts.
    pub(super) fn counts_earlier(&self, key: &PodKey) -> bool {
        self.node.earlier.contains_key(key) && self.earlier(true).iter().any(|pod| pod.key == *key)
    }

    /// Whether a container of this UID runs, as its worker sees it, or as Docker's list shows it before that has told.
    fn runs_for(&self, worker: &WorkerInfo, key: &PodKey, uid: &str) -> bool {
        if worker.seen.is_empty() {
            return self.runs_still(key, uid);
        }
        let mut own =
            self.docker.found.get(key).into_iter().flatten().filter(|c| c.uid == uid && !c.is_sandbox());
        own.any(|c| worker.seen.get(&c.id) == Some(&DockerState::Running))
    }

    /// Whether a container of this UID that an earlier daemon has told to end runs still, as its worker sees it.
    fn ends_still(&self, key: &PodKey, uid: &str) -> bool {
        let worker = self.entries.get(key).and_then(|entry| entry.worker.as_ref());
        let seen = worker.map(|worker| &worker.seen).filter(|seen| !seen.is_empty());
        let found = self.docker.found.get(key).into_iter().flatten();
        let mut ending =
            found.filter(|c| c.uid == uid && c.killed && c.state.is_running() && !c.is_sandbox());
        ending.any(|c| match seen {
            Some(seen) => seen.get(&c.id) == Some(&DockerState::Running),
            None => !self.node.earlier_ended.contains(&c.id),
        })
    }

    /// Whether a container that ran at Docker's last list runs still, as its worker sees it. The sandbox of a pod of an earlier
    /// daemon goes with its containers: others may have got what they held.
    pub(super) fn runs_still_as_seen(&self, listed: &Owned) -> bool {
        if self.node.earlier.contains_key(&listed.key) && !self.counts_earlier(&listed.key) {
            return false;
        }
        let worker = self.entries.get(&listed.key).and_then(|entry| entry.worker.as_ref());
        listed.state.is_running()
            && match worker.filter(|worker| worker.terminated || !worker.seen.is_empty()) {
                Some(worker) => worker.seen.get(&listed.id) == Some(&DockerState::Running),
                None => !self.node.earlier_ended.contains(&listed.id),
            }
    }

    pub(super) fn runs_still(&self, key: &PodKey, uid: &str) -> bool {
        let found = self.docker.found.get(key).into_iter().flatten();
        let mut running = found.filter(|c| c.uid == uid && c.state.is_running() && !c.is_sandbox());
        running.any(|c| !self.node.earlier_ended.contains(&c.id))
    }

    /// Notes that a container of such a pod has ended: the next list may be minutes away, and others wait for its room.
    pub(super) fn note_end_of_earlier(&mut self, key: &PodKey, hint: &Hint) {
        let (Hint::Changed(id) | Hint::Removed(id) | Hint::Started(id)) = hint else { return };
        if !self.node.earlier.contains_key(key) {
            return;
        }
        if matches!(hint, Hint::Started(_)) {
            self.node.earlier_ended.remove(id);
        } else if self.node.earlier_ended.insert(id.clone()) {
            let now = self.now;
            self.readmit(&[], &now);
        }
    }

    fn is_stopped_next(&self, all: &[Owned]) -> bool {
        matches!(self.verdict(all), Verdict::Stop)
    }

    pub(super) fn verdict(&self, all: &[Owned]) -> Verdict {
        let owner = all.iter().max_by_key(|c| c.attempt);
        let named = owner.and_then(|owner| owner.manifest.source);
        let Some(source) = named.filter(|s| self.sources.contains_key(s)) else {
            // Its source is not configured, so no source can claim it.
            return match self.sources.keys().find(|s| !self.merge.ready(**s)) {
                None => Verdict::Stop,
                Some(other) => Verdict::Wait(*other),
            };
        };
        // The pod may have moved to another source, so that source must report first; restored content
        // counts.
        let silent = self.sources.iter().find(|(_, state)| !state.heard).map(|(source, _)| source);
        if let Some(waited) = Some(&source).filter(|s| !self.merge.ready(**s)).or(silent) {
            return Verdict::Wait(*waited);
        }
        match owner.and_then(|owner| owner.manifest.origin.as_deref()) {
            Some(path) if self.merge.may_be_wanted(source, path) => Verdict::Keep(path.to_owned()),
            _ => Verdict::Stop,
        }
    }
}

/// The order to stop a pod that the API server has no more.
pub(super) fn vanished() -> StopOrder {
    StopOrder::new(grace(limits::API_FORCED_GRACE), GONE)
}

/// The versions of a pod that run or are held.
fn goes_on(entry: &Entry) -> impl Iterator<Item = &Arc<DesiredPod>> {
    entry.desired.iter().chain(entry.held().map(|held| &held.pod))
}
