//! The cgroups of this node's pods, as workers and the sweep use them.
//!
//! One lock protects the state in memory and the kernel's files of `kubepods`; it is never held during
//! `systemctl` or a kill. Work on one UID waits only for other work on that UID.

use std::collections::BTreeSet;
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
use crate::base::table::Table;
use crate::pod::qos::Qos;

/// Mount point of cgroups.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// The cgroup below `--cgroup-root` that holds the pods' cgroups where `kubepods` belongs to another program.
pub const OWN_ROOT: &str = "podkeeper";

/// `--cgroups-per-qos` and what belongs to it.
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
    /// All pods together are held to their share: whether that is so is told.
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

/// Whether the limits of all pods together hold, as they were written last.
#[derive(Debug, Default)]
struct Limits {
    last: Option<Limited>,
    told: Option<Limited>,
}

/// The limits of all pods together were written, or why they were not.
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
    /// Cgroups of pods that another program seems to use here, and since when: see [`Kubepods::strangers`].
    strangers: Vec<(PathBuf, u64, Instant)>,
    /// UIDs whose workers need a cgroup, and where it was marked.
    used: Table<String, Option<PathBuf>>,
    /// UIDs with work under way on their cgroup.
    busy: BTreeSet<String>,
    /// CPU requests of burstable pods by UID: the weight of their class is the sum.
    burstable: Table<String, i64>,
    /// Whether a thread sets that weight, and whether the weight has changed since it began.
    weighing: bool,
    weight_changed: bool,
}

impl Known {
    /// Whether one of these was there [`limits::CGROUP_STRANGER`] ago. Docker makes a pod's cgroup again, without a mark,
    /// for a container of another podkeeper that it starts late; that podkeeper ends it at once.
    fn has_stayed(&mut self, strangers: BTreeSet<(PathBuf, u64)>, now: Instant) -> bool {
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

    /// Claims the UID unless work on it is under way, or a worker needs its cgroup.
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

    /// Whether it is decided already if pods have cgroups.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.settings.per_qos || self.shared.lock().decided
    }

    /// Takes Docker's driver and decides, once, whether pods have cgroups: it makes those of the classes
    /// where podkeeper makes them. A failure is logged, and pods run without cgroups of their own.
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

    /// Whether the limits of all pods together hold, when that is not what was told last. Limits that could not be
    /// written are written again. Calls `systemctl` where systemd makes cgroups.
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

    /// The hierarchy in which only podkeepers make cgroups.
    fn own(&self, kubepods: &Kubepods) -> Kubepods {
        let root = format!("{}/{OWN_ROOT}", self.settings.root);
        kubepods.at(Naming::new(kubepods.naming.driver, &root))
    }

    fn kubepods(&self) -> Option<Arc<Kubepods>> {
        self.shared.lock().kubepods.clone()
    }

    /// Whether making or changing this pod's cgroup needs no `systemctl`, no wait for other work on it, and no
    /// memory reclaimed from it.
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

    /// Makes or changes a pod's cgroup. When another program has taken `kubepods` over, all further cgroups
    /// are made elsewhere, which the first part of the result says.
    pub fn ensure(&self, pod: &PodCgroup) -> (Option<String>, Result<(), NoCgroup>) {
        let Some(kubepods) = self.kubepods() else { return (None, Ok(())) };
        let uid = key(&pod.uid);
        let _claim = self.shared.claim(&uid);
        // From now on the parent cgroups stay.
        let marked = self.shared.lock().used.get_or_default(uid.clone()).clone();
        let path = kubepods.naming.pod(pod.qos, &pod.uid);
        let taken = marked.as_ref() == Some(&path) && !kubepods.tree.is_marked(&path);
        let foreign = || {
            // The lock: another worker may have made it and not marked it yet.
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
                // The lock: another worker may be making or removing the parents. Kernel directories are
                // quickly made.
                let _held = self.shared.lock();
                // And another podkeeper, to which they are unused until this pod's is there.
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

    /// Removes the cgroup of a pod that has no container any more.
    ///
    /// # Errors
    /// A process in it cannot be killed, or systemd does not answer.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        let Some(kubepods) = self.kubepods() else { return Ok(()) };
        let name = key(uid);
        let claim = self.shared.claim(&name);
        let changed = self.weight(&name, None);
        let mut known = self.shared.lock();
        // A removal by podkeeper does not count as one by another program, whether it succeeds or not.
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

    /// Removes `kubepods` and the classes when no worker needs a cgroup: after the last pod a node is as it
    /// was before the first. Returns whether they are gone.
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
                // A worker that came meanwhile found the properties set, and they are gone now.
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

    /// Takes the CPU request of a burstable pod, or its end. Returns whether it has changed.
    fn weight(&self, uid: &str, milli_cpu: Option<i64>) -> bool {
        let all = &mut self.shared.lock().burstable;
        match milli_cpu {
            Some(milli_cpu) => all.insert(uid.to_owned(), milli_cpu) != Some(milli_cpu),
            None => all.remove(uid).is_some(),
        }
    }

    /// Sets the weight of burstable pods; a thread that is setting it already sets this one too.
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

/// Where podkeeper makes cgroups itself: see [`Tree::alone`].
fn tree_alone(kubepods: &Kubepods) -> Option<OwnedFd> {
    matches!(kubepods.manager, Manager::Files).then(|| kubepods.tree.alone()).flatten()
}

#[cfg(test)]
mod tests;
