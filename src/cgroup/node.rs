//! The cgroups of this node's pods: what workers and the sweep have done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::slices::Slices;
use super::tree::Tree;
use super::values::{Entry, PodCgroup, memory_file, memory_property, weight_file, weight_property};
use super::{Driver, Naming, Parents};
use crate::order;
use crate::qos::Qos;
use crate::runtime::resources::cpu_shares;

/// Where cgroups are mounted.
pub const MOUNT: &str = "/sys/fs/cgroup";

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
}

/// Who makes and removes cgroups here.
#[derive(Debug)]
enum Keeper {
    /// podkeeper and Docker, as directories.
    Files,
    /// systemd.
    Slices(Slices),
}

/// Where the cgroups are.
#[derive(Debug)]
struct Ground {
    tree: Tree,
    keeper: Keeper,
}

/// All of them. Clones share what is known.
#[derive(Debug, Clone)]
pub struct Cgroups {
    settings: Arc<Settings>,
    mount: PathBuf,
    owner: String,
    /// For the machines.
    pub parents: Parents,
    ground: Arc<OnceLock<Option<Ground>>>,
    /// CPU requests of burstable pods by UID: their class weighs as much as they do.
    burstable: Arc<Mutex<BTreeMap<String, i64>>>,
    /// Held by whoever tells that weight.
    weighing: Arc<Mutex<()>>,
    /// UIDs whose workers count on a cgroup: the sweep may have been told before there was such a pod.
    used: Arc<Mutex<BTreeSet<String>>>,
}

impl Cgroups {
    /// Below this mount point, for the pods of the podkeeper with this root directory.
    #[must_use]
    pub fn new(settings: Settings, mount: PathBuf, owner: String) -> Cgroups {
        Cgroups {
            settings: Arc::new(settings),
            mount,
            owner,
            parents: Parents::default(),
            ground: Arc::default(),
            burstable: Arc::default(),
            weighing: Arc::default(),
            used: Arc::default(),
        }
    }

    /// It is decided already whether pods have cgroups.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.settings.per_qos || self.ground.get().is_some()
    }

    /// Docker uses this driver: decides, once, whether pods have cgroups, by making those of the classes where
    /// they are podkeeper's to make. What cannot be is told, and pods run without.
    pub fn decide(&self, driver: &str) {
        if self.is_decided() {
            return;
        }
        let without = "pods get no cgroups of their own, only their containers are limited";
        let Some(driver) = Driver::parse(driver) else {
            log::warn!("Docker's cgroup driver {driver:?} makes no cgroups: {without}");
            _ = self.ground.set(None);
            return;
        };
        let naming = Naming::new(driver, &self.settings.root);
        match self.try_out(&naming) {
            Ok(ground) => {
                self.parents.set(naming);
                _ = self.ground.set(Some(ground));
            }
            Err(error) => {
                log::warn!(
                    "cgroups of pods cannot be made: {error}; {without} (--cgroups-per-qos=false says so)"
                );
                _ = self.ground.set(None);
            }
        }
    }

    fn try_out(&self, naming: &Naming) -> io::Result<Ground> {
        let tree = Tree::open(self.mount.clone(), self.owner.clone());
        match naming.driver {
            Driver::Systemd => Ok(Ground { tree, keeper: Keeper::Slices(Slices::open()?) }),
            Driver::Cgroupfs => {
                let ground = Ground { tree, keeper: Keeper::Files };
                let used = self.used();
                self.prepare(&ground, naming)?;
                self.leave(&ground, naming, &used);
                Ok(ground)
            }
        }
    }

    /// Makes `kubepods` and the classes, as far as they are not there.
    fn prepare(&self, ground: &Ground, naming: &Naming) -> io::Result<()> {
        let (tree, top) = (&ground.tree, naming.top());
        let shares = cpu_shares(self.settings.milli_cpu);
        let classes = [Qos::BestEffort, Qos::Burstable].map(|class| naming.class(class));
        match &ground.keeper {
            Keeper::Files => {
                let fresh = !tree.exists(&top);
                tree.make(&top)?;
                if fresh {
                    tree.mark(&top);
                }
                let mut files = vec![weight_file(tree.version, shares)];
                files.extend(self.settings.memory.map(|memory| memory_file(tree.version, memory)));
                if let Err(error) = tree.write(&top, &files) {
                    log::warn!("Failed to update Node Allocatable Limits: {error}");
                }
                for class in classes {
                    let fresh = !tree.exists(&class);
                    tree.make(&class)?;
                    if fresh {
                        tree.write(&class, &[weight_file(tree.version, cpu_shares(0))])?;
                    }
                }
            }
            Keeper::Slices(slices) => {
                let memory = memory_property(tree.version, self.settings.memory);
                let top = Naming::unit(&top);
                if let Err(error) = slices.set(&top, &[weight_property(tree.version, shares), memory]) {
                    log::warn!("Failed to update Node Allocatable Limits: {error}");
                }
                for class in classes.map(|class| Naming::unit(&class)) {
                    if !slices.is_told(&class) {
                        slices.set(&class, &[weight_property(tree.version, cpu_shares(0))])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// `kubepods` and the classes go when nobody counts on a cgroup: after the last pod a node is as it was
    /// before the first. Whether they are gone.
    fn leave(&self, ground: &Ground, naming: &Naming, used: &BTreeSet<String>) -> bool {
        if !used.is_empty() {
            return false;
        }
        let (tree, top) = (&ground.tree, naming.top());
        let classes = [Qos::BestEffort, Qos::Burstable].map(|class| naming.class(class));
        match &ground.keeper {
            Keeper::Files => tree.leave(&top, &classes),
            Keeper::Slices(slices) => {
                let top_unit = Naming::unit(&top);
                let ours = slices.is_told(&top_unit) && tree.is_idle(&top, &classes);
                let units = classes.iter().map(|class| Naming::unit(class)).chain([top_unit]);
                // Docker makes a slice's cgroup in every hierarchy, systemd removes it from those it uses.
                let gone = ours && slices.stop(&units.collect::<Vec<_>>()).is_ok();
                if gone {
                    tree.trim(&top, &classes);
                }
                gone
            }
        }
    }

    fn known(&self) -> Option<(&Ground, &Naming)> {
        Some((self.ground.get()?.as_ref()?, self.parents.get()?))
    }

    /// Makes or changes a pod's cgroup.
    ///
    /// # Errors
    /// The kernel's, or systemd's; the pod can run all the same.
    pub fn ensure(&self, pod: &PodCgroup) -> io::Result<()> {
        let Some((ground, naming)) = self.known() else { return Ok(()) };
        let (tree, path) = (&ground.tree, naming.pod(pod.qos, &pod.uid));
        // Held until the pod's own is there, which keeps those above it; a slice is there with its first
        // container, and kept by being used.
        let mut used = self.used();
        used.insert(pod.uid.clone());
        match &ground.keeper {
            Keeper::Files => {
                if !tree.exists(&naming.class(Qos::BestEffort)) {
                    self.prepare(ground, naming)?;
                }
                tree.make(&path)?;
            }
            Keeper::Slices(_) => self.prepare(ground, naming)?,
        }
        drop(used);
        tree.mark(&path);
        if pod.qos == Qos::Burstable && self.weight(&pod.uid, Some(pod.milli_cpu)) {
            self.weigh(ground, naming);
        }
        let files = pod.values.files(tree.version, &tree.huge_pages(&path));
        match &ground.keeper {
            Keeper::Files => tree.write(&path, &files),
            Keeper::Slices(slices) => {
                slices.set(&Naming::unit(&path), &pod.values.properties(tree.version))?;
                let rest: Vec<Entry> =
                    files.into_iter().filter(|(controller, ..)| *controller == "hugetlb").collect();
                tree.write(&path, &rest)
            }
        }
    }

    /// Removes the cgroup of a pod that has no container any more.
    ///
    /// # Errors
    /// Something in it cannot be killed, or systemd does not answer.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        let Some((ground, naming)) = self.known() else { return Ok(()) };
        let changed = self.weight(uid, None);
        let classes = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort];
        take_down(ground, &classes.map(|qos| naming.pod(qos, uid)))?;
        let mut used = self.used();
        used.remove(uid);
        let left = self.leave(ground, naming, &used);
        drop(used);
        if changed && !left {
            self.weigh(ground, naming);
        }
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the cgroups of all pods of ours but these and those of workers.
    pub fn sweep(&self, keep: &BTreeSet<String>) {
        let Some((ground, naming)) = self.known() else { return };
        let keep = order::set(keep.iter().map(|uid| naming.written(uid)));
        for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let class = naming.class(qos);
            for name in ground.tree.ours(&class) {
                let Some(uid) = naming.uid(&name).filter(|uid| !keep.contains(*uid)) else { continue };
                // Held while it is removed: a worker that wants it then makes it anew.
                let used = self.used();
                if used.iter().any(|used| naming.written(used) == uid) {
                    continue;
                }
                match take_down(ground, &[class.join(&name)]) {
                    Ok(()) => log::info!("removed the cgroup of pod {uid}, which is gone"),
                    Err(error) => log::warn!("the cgroup of pod {uid}, which is gone, stays: {error}"),
                }
            }
        }
        self.leave(ground, naming, &self.used());
    }

    /// Notes what a burstable pod requests, or that it is gone; whether that is new.
    fn weight(&self, uid: &str, milli_cpu: Option<i64>) -> bool {
        let mut all = self.burstable.lock().unwrap_or_else(PoisonError::into_inner);
        match milli_cpu {
            Some(milli_cpu) => all.insert(uid.to_owned(), milli_cpu) != Some(milli_cpu),
            None => all.remove(uid).is_some(),
        }
    }

    /// Tells the weight of burstable pods. Who waits for a turn finds it told, mostly.
    fn weigh(&self, ground: &Ground, naming: &Naming) {
        let _turn = self.weighing.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.burstable.lock().unwrap_or_else(PoisonError::into_inner);
        let shares = cpu_shares(all.values().copied().fold(0, i64::saturating_add));
        drop(all);
        let (version, class) = (ground.tree.version, naming.class(Qos::Burstable));
        let told = match &ground.keeper {
            Keeper::Files => ground.tree.write(&class, &[weight_file(version, shares)]),
            Keeper::Slices(slices) => slices.set(&Naming::unit(&class), &[weight_property(version, shares)]),
        };
        if let Err(error) = told {
            log::warn!("the weight of burstable pods stays: {error}");
        }
    }
}

/// Removes cgroups of pods with all in them.
fn take_down(ground: &Ground, paths: &[PathBuf]) -> io::Result<()> {
    let mut stopped = Ok(());
    if let Keeper::Slices(slices) = &ground.keeper {
        let units = paths.iter().filter_map(|path| {
            let unit = Naming::unit(path);
            (ground.tree.exists(path) || slices.is_told(&unit)).then_some(unit)
        });
        stopped = slices.stop(&units.collect::<Vec<_>>());
    }
    // Also what systemd may have left.
    paths.iter().try_for_each(|path| ground.tree.remove(path)).and(stopped)
}

#[cfg(test)]
mod tests;
