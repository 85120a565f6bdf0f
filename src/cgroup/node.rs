//! The cgroups of this node's pods, for workers and the sweep.
//!
//! One lock protects the state in memory and the kernel's files of `kubepods`; it is never held during
//! `systemctl` or a kill. Work on one UID waits only for other work on that UID.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

mod leave;

use leave::moved_words;

use super::cpu;
use super::kubepods::{Kubepods, Manager};
use super::names::container_id;
use super::orders::NoCgroup;
use super::slices::Slices;
use super::tree::Tree;
use super::values::PodCgroup;
use super::{Driver, Naming, Parents};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::pod::qos::Qos;

/// Mount point of cgroups.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// The cgroup below `--cgroup-root` that holds the pods' cgroups if `kubepods` belongs to another program.
pub const OWN_ROOT: &str = "podkeeper";

/// `--cgroups-per-qos` and the related settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--cgroups-per-qos`.
    pub per_qos: bool,
    /// `--cgroup-root`.
    pub root: String,
    /// Weight of all pods together, thousandths of a CPU.
    pub milli_cpu: i64,
    /// Limit of all pods together, bytes; `None` when nothing is reserved.
    pub memory: Option<i64>,
    /// The limits of all pods together are enforced, so whether they are set is reported.
    pub is_enforced: bool,
}

/// The cgroups of all pods. Clones share the state.
#[derive(Debug, Clone)]
pub struct Cgroups {
    settings: Arc<Settings>,
    mount: PathBuf,
    owner: String,
    /// Naming for the machines.
    pub parents: Parents,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    /// Signals that work on a UID has ended.
    freed: Condvar,
    limits: Mutex<Limits>,
}

/// Whether the limits of all pods together were set by the last write.
#[derive(Debug, Default)]
struct Limits {
    last: Option<Limited>,
    told: Option<Limited>,
}

/// Whether the limits of all pods together were written; `Err`: why not.
pub type Limited = Result<(), String>;

#[derive(Debug, Default)]
struct Known {
    /// Whether it is decided if pods have cgroups, and where.
    decided: bool,
    kubepods: Option<Arc<Kubepods>>,
    /// Whether `kubepods` was left to another program.
    moved: bool,
    /// Hierarchies of an earlier daemon, or of earlier flags.
    former: Vec<Arc<Kubepods>>,
    /// Cgroups of pods that another program seems to use here, with the time of their first sight: see
    /// [`Kubepods::strangers`].
    strangers: Vec<(PathBuf, u64, Instant)>,
    /// UIDs whose workers need a cgroup, and where it was marked.
    used: Table<String, Option<PathBuf>>,
    /// UIDs with work in progress on their cgroups.
    busy: Set<String>,
    /// CPU requests of burstable pods by UID: the weight of their class is the sum.
    burstable: Table<String, i64>,
    /// Whether a thread is setting that weight, and whether the weight has changed since it began.
    weighing: bool,
    weight_changed: bool,
}

impl Known {
    /// Whether one of these has existed for [`limits::CGROUP_STRANGER`]. Docker recreates a pod's cgroup, without a
    /// mark, for a container of another podkeeper that starts late; that podkeeper removes it soon.
    fn has_stayed(&mut self, strangers: Set<(PathBuf, u64)>, now: Instant) -> bool {
        let before = std::mem::take(&mut self.strangers);
        let since = |(path, number): &(PathBuf, u64)| {
            let same = before.iter().find(|(old, of_old, _)| old == path && of_old == number);
            same.map_or(now, |(.., since)| *since)
        };
        let with_since = |each| (since(&each), each);
        let known =
            strangers.into_iter().map(with_since).map(|(since, (path, number))| (path, number, since));
        self.strangers = known.take(limits::CGROUP_STRANGERS).collect();
        let long_ago = |since: &Instant| now.saturating_duration_since(*since) >= limits::CGROUP_STRANGER;
        !self.moved && self.strangers.iter().any(|(.., since)| long_ago(since))
    }
}

/// The right to work on the cgroup of one UID.
struct Claim<'a> {
    shared: &'a Shared,
    uid: String,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.shared.lock().busy.remove(&self.uid);
        self.shared.freed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim(&self, uid: &str) -> Claim<'_> {
        let mut known = self.lock();
        while !known.busy.insert(uid.to_owned()) {
            known = self.freed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        Claim { shared: self, uid: uid.to_owned() }
    }

    /// Claims the UID unless work on it is in progress, or a worker needs its cgroup.
    fn claim_unused(&self, uid: &str) -> Option<Claim<'_>> {
        let mut known = self.lock();
        let free = !known.used.contains_key(uid) && known.busy.insert(uid.to_owned());
        free.then(|| Claim { shared: self, uid: uid.to_owned() })
    }
}

/// A UID as key: in names of slices `_` stands for `-`.
fn key(uid: &str) -> String {
    uid.replace('-', "_")
}

impl Cgroups {
    /// Cgroups below this mount point, for the podkeeper with this root directory.
    #[must_use]
    pub fn new(settings: Settings, mount: PathBuf, owner: String) -> Cgroups {
        Cgroups {
            settings: Arc::new(settings),
            mount,
            owner,
            parents: Parents::default(),
            shared: Arc::default(),
        }
    }

    /// Whether it was decided already if pods have cgroups.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.settings.per_qos || self.shared.lock().decided
    }

    /// Takes Docker's driver and decides, once, whether pods have cgroups: creates those of the classes
    /// if that is podkeeper's task. A failure is logged, and pods run without cgroups of their own.
    pub fn decide(&self, driver: &str) {
        if self.is_decided() {
            return;
        }
        let manager = match Driver::parse(driver) {
            None => Err(format!("Docker's cgroup driver {driver:?} makes no cgroups")),
            Some(Driver::Cgroupfs) => Ok((Driver::Cgroupfs, Manager::Files)),
            Some(Driver::Systemd) => match Slices::open() {
                Ok(slices) => Ok((Driver::Systemd, Manager::Slices(slices))),
                Err(error) => Err(format!("cgroups of pods cannot be made: {error}")),
            },
        };
        self.decide_on(manager);
    }

    fn decide_on(&self, manager: Result<(Driver, Manager), String>) {
        let kubepods = manager.and_then(|(driver, manager)| self.try_out(driver, manager));
        let mut known = self.shared.lock();
        known.decided = true;
        match kubepods {
            Ok((kubepods, moved)) => {
                self.parents.set(kubepods.naming.clone());
                (known.kubepods, known.moved) = (Some(Arc::new(kubepods)), moved);
            }
            Err(why) => log::warn!(
                "{why}; pods get no cgroups of their own, only their containers are limited (--cgroups-per-qos=false says so)"
            ),
        }
    }

    fn try_out(&self, driver: Driver, manager: Manager) -> Result<(Kubepods, bool), String> {
        let tree = Tree::open(self.mount.clone(), self.owner.clone());
        let mut kubepods = Kubepods::new(tree, manager, Naming::new(driver, &self.settings.root));
        let _alone = tree_alone(&kubepods);
        let foreign = kubepods.is_foreign();
        if foreign {
            let own = self.own(&kubepods);
            log::warn!("{}", moved_words(&kubepods, &own));
            kubepods = own;
        }
        if driver == Driver::Cgroupfs {
            let failed = |error: io::Error| format!("cgroups of pods cannot be made: {error}");
            self.prepare(&kubepods).map_err(failed)?;
            kubepods.remove_if_unused();
        }
        Ok((kubepods, foreign))
    }

    fn prepare(&self, kubepods: &Kubepods) -> io::Result<()> {
        self.shared.limits().last = Some(kubepods.prepare(&self.settings)?);
        Ok(())
    }

    /// Whether the limits of all pods together are set, if this has changed since the last report. Limits that could
    /// not be written are written again. Calls `systemctl` if systemd manages the cgroups.
    #[must_use]
    pub fn limited(&self) -> Option<Limited> {
        if !self.settings.is_enforced {
            return None;
        }
        let has_failed = matches!(self.shared.limits().last, Some(Err(_)));
        if let Some(kubepods) = self.kubepods().filter(|_| has_failed) {
            let again = kubepods.limit(&self.settings).map_err(|error| error.to_string());
            self.shared.limits().last = Some(again);
        }
        let mut limits = self.shared.limits();
        let news = limits.last.clone().filter(|last| limits.told.as_ref() != Some(last))?;
        limits.told = Some(news.clone());
        Some(news)
    }

    /// The hierarchy that only podkeepers use.
    fn own(&self, kubepods: &Kubepods) -> Kubepods {
        let root = format!("{}/{OWN_ROOT}", self.settings.root);
        kubepods.at(Naming::new(kubepods.naming.driver, &root))
    }

    fn kubepods(&self) -> Option<Arc<Kubepods>> {
        self.shared.lock().kubepods.clone()
    }

    /// Whether creating or changing this pod's cgroup needs no `systemctl`, no wait for other work on it, and
    /// no reclaim of its memory.
    #[must_use]
    pub fn makes_at_once(&self, pod: &PodCgroup) -> bool {
        let known = self.shared.lock();
        let free = !known.busy.contains(&key(&pod.uid));
        let kubepods = known.kubepods.clone();
        drop(known);
        free && kubepods
            .is_none_or(|kubepods| matches!(kubepods.manager, Manager::Files) && !kubepods.lowers_memory(pod))
    }

    /// Ids of the containers that have a cgroup in this pod's cgroup.
    #[must_use]
    pub fn inside(&self, pod: &PodCgroup) -> Vec<String> {
        let Some(kubepods) = self.kubepods() else { return Vec::new() };
        let names = kubepods.tree.below(&kubepods.naming.pod(pod.qos, &pod.uid));
        let ids = names.iter().filter_map(|name| container_id(name).map(str::to_owned));
        ids.take(limits::CGROUP_CONTAINERS).collect()
    }

    /// Creates or changes a pod's cgroup. If another program has taken over `kubepods`, all further cgroups
    /// are created elsewhere; then the first part of the result has a message.
    pub fn ensure(&self, pod: &PodCgroup) -> (Option<String>, Result<(), NoCgroup>) {
        let Some(kubepods) = self.kubepods() else { return (None, Ok(())) };
        let uid = key(&pod.uid);
        let _claim = self.shared.claim(&uid);
        // From now on the parent cgroups are kept.
        let marked = self.shared.lock().used.get_or_default(uid.clone()).clone();
        let path = kubepods.naming.pod(pod.qos, &pod.uid);
        let taken = marked.as_ref() == Some(&path) && !kubepods.tree.is_marked(&path);
        let foreign = || {
            // The lock is needed because another worker may have created it and not marked it yet.
            let mut held = self.shared.lock();
            let _alone = tree_alone(&kubepods);
            kubepods.is_foreign() || held.has_stayed(kubepods.strangers(), Instant::now())
        };
        let (kubepods, moved) = if taken || foreign() { self.move_away(kubepods) } else { (kubepods, None) };
        (moved, self.ensure_on(&kubepods, pod, uid))
    }

    fn ensure_on(&self, kubepods: &Kubepods, pod: &PodCgroup, uid: String) -> Result<(), NoCgroup> {
        let path = kubepods.naming.pod(pod.qos, &pod.uid);
        let taken = |other: String| {
            let why = format!("a pod with the same UID runs in {} for --root-dir {other}", path.display());
            NoCgroup::Taken(why)
        };
        if let Some(other) = kubepods.tree.other_user(&path) {
            return Err(taken(other));
        }
        match &kubepods.manager {
            Manager::Files => {
                // The lock is needed because another worker may be creating or removing the parents. The
                // kernel creates directories quickly.
                let _held = self.shared.lock();
                // Another podkeeper must not remove them, either: they count as unused until this pod's cgroup exists.
                let _alone = tree_alone(kubepods);
                if !kubepods.is_prepared() {
                    self.prepare(kubepods)?;
                }
                kubepods.tree.make(&path)?;
            }
            // A slice appears with its first container.
            Manager::Slices(_) => self.prepare(kubepods)?,
        }
        if kubepods.tree.claim(&path).map_err(taken)? {
            self.shared.lock().used.insert(uid.clone(), Some(path));
        }
        let heavier = pod.qos == Qos::Burstable && self.weight(&uid, Some(pod.milli_cpu));
        kubepods.fill(pod)?;
        if heavier {
            self.weigh(kubepods);
        }
        Ok(())
    }

    /// Removes the cgroup of a pod that has no containers any more.
    ///
    /// # Errors
    /// A process in it cannot be killed, or systemd does not answer.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        let Some(kubepods) = self.kubepods() else { return Ok(()) };
        let name = key(uid);
        let claim = self.shared.claim(&name);
        let changed = self.weight(&name, None);
        let mut known = self.shared.lock();
        // A removal by podkeeper, successful or not, does not count as one by another program.
        if let Some(marked) = known.used.get_mut(&name) {
            *marked = None;
        }
        let former = known.former.clone();
        drop(known);
        former.iter().chain([&kubepods]).try_for_each(|kubepods| kubepods.remove_pod(uid))?;
        self.shared.lock().used.remove(&name);
        drop(claim);
        former.iter().for_each(|kubepods| _ = self.remove_if_unused(kubepods));
        if !self.remove_if_unused(&kubepods) && changed {
            self.weigh(&kubepods);
        }
        Ok(())
    }

    /// Removes `kubepods` and the classes when no worker needs a cgroup: after the last pod the node is as
    /// before the first. Returns whether they are gone.
    fn remove_if_unused(&self, kubepods: &Kubepods) -> bool {
        let known = self.shared.lock();
        if !known.used.is_empty() {
            return false;
        }
        match &kubepods.manager {
            Manager::Files => {
                let _alone = tree_alone(kubepods);
                kubepods.remove_if_unused()
            }
            Manager::Slices(_) => {
                drop(known);
                let gone = kubepods.remove_if_unused();
                // A worker that came meanwhile found the properties set, but they were removed.
                let wanted = !self.shared.lock().used.is_empty();
                if gone
                    && wanted
                    && let Err(error) = self.prepare(kubepods)
                {
                    log::warn!("cgroups of all pods are not as they should be: {error}");
                }
                gone && !wanted
            }
        }
    }

    /// Takes the CPU request of a burstable pod, or the pod's end. Returns whether it has changed.
    fn weight(&self, uid: &str, milli_cpu: Option<i64>) -> bool {
        let all = &mut self.shared.lock().burstable;
        match milli_cpu {
            Some(milli_cpu) => all.insert(uid.to_owned(), milli_cpu) != Some(milli_cpu),
            None => all.remove(uid).is_some(),
        }
    }

    /// Sets the weight of burstable pods; a thread that is setting it already sets this value, too.
    fn weigh(&self, kubepods: &Kubepods) {
        let mut known = self.shared.lock();
        known.weight_changed = true;
        if std::mem::replace(&mut known.weighing, true) {
            return;
        }
        while std::mem::take(&mut known.weight_changed) {
            let shares = cpu::shares(known.burstable.values().copied().fold(0, i64::saturating_add));
            drop(known);
            kubepods.weigh(shares);
            known = self.shared.lock();
        }
        known.weighing = false;
    }
}

/// The lock, if podkeeper creates cgroups itself: see [`Tree::alone`].
fn tree_alone(kubepods: &Kubepods) -> Option<OwnedFd> {
    matches!(kubepods.manager, Manager::Files).then(|| kubepods.tree.alone()).flatten()
}

#[cfg(test)]
mod tests;
