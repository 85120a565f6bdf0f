//! The cgroups of this node's pods: what workers and the sweep have done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::tree::Tree;
use super::values::{PodCgroup, weight_file};
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

/// All of them. Clones share what is known.
#[derive(Debug, Clone)]
pub struct Cgroups {
    settings: Arc<Settings>,
    mount: PathBuf,
    owner: String,
    /// For the machines.
    pub parents: Parents,
    tree: Arc<OnceLock<Option<Tree>>>,
    /// CPU requests of burstable pods by UID: their class weighs as much as they do.
    burstable: Arc<Mutex<BTreeMap<String, i64>>>,
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
            tree: Arc::default(),
            burstable: Arc::default(),
            used: Arc::default(),
        }
    }

    /// It is decided already whether pods have cgroups.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.settings.per_qos || self.tree.get().is_some()
    }

    /// Docker uses this driver: decides, once, whether pods have cgroups, by making those of the
    /// classes. What cannot be is told, and pods run without.
    pub fn decide(&self, driver: &str) {
        if self.is_decided() {
            return;
        }
        let without = "pods get no cgroups of their own, only their containers are limited";
        let Some(driver) = Driver::parse(driver) else {
            log::warn!("Docker's cgroup driver {driver:?} makes no cgroups: {without}");
            _ = self.tree.set(None);
            return;
        };
        let naming = Naming::new(driver, &self.settings.root);
        let tree = Tree::open(self.mount.clone(), self.owner.clone());
        let used = self.used();
        match self.prepare(&tree, &naming) {
            Ok(()) => {
                self.leave(&tree, &naming, &used);
                self.parents.set(naming);
                _ = self.tree.set(Some(tree));
            }
            Err(error) => {
                log::warn!(
                    "cgroups of pods cannot be made: {error}; {without} (--cgroups-per-qos=false says so)"
                );
                _ = self.tree.set(None);
            }
        }
    }

    fn prepare(&self, tree: &Tree, naming: &Naming) -> io::Result<()> {
        if naming.driver == Driver::Systemd {
            // systemd makes slices when something is put into them.
            return Ok(());
        }
        let fresh = !tree.exists(&naming.top());
        tree.make(&naming.top())?;
        if fresh {
            tree.mark(&naming.top());
        }
        let shares = cpu_shares(self.settings.milli_cpu);
        let mut files = vec![weight_file(tree.version, shares)];
        if let Some(memory) = self.settings.memory {
            let file = match tree.version {
                super::values::Version::V1 => "memory.limit_in_bytes",
                super::values::Version::V2 => "memory.max",
            };
            files.push(("memory", file.to_owned(), memory.to_string()));
        }
        if let Err(error) = tree.write(&naming.top(), &files) {
            log::warn!("Failed to update Node Allocatable Limits: {error}");
        }
        for (class, shares) in [(Qos::BestEffort, cpu_shares(0)), (Qos::Burstable, cpu_shares(0))] {
            let fresh = !tree.exists(&naming.class(class));
            tree.make(&naming.class(class))?;
            if fresh {
                tree.write(&naming.class(class), &[weight_file(tree.version, shares)])?;
            }
        }
        Ok(())
    }

    /// `kubepods` and the classes go when nobody counts on a cgroup: after the last pod a node is as it was
    /// before the first.
    fn leave(&self, tree: &Tree, naming: &Naming, used: &BTreeSet<String>) {
        if naming.driver == Driver::Cgroupfs && used.is_empty() {
            tree.leave(&naming.top());
        }
    }

    fn known(&self) -> Option<(&Tree, &Naming)> {
        Some((self.tree.get()?.as_ref()?, self.parents.get()?))
    }

    /// Makes or changes a pod's cgroup.
    ///
    /// # Errors
    /// The kernel's; the pod can run all the same.
    pub fn ensure(&self, pod: &PodCgroup) -> io::Result<()> {
        let Some((tree, naming)) = self.known() else { return Ok(()) };
        let path = naming.pod(pod.qos, &pod.uid);
        // Held until the pod's own is there, which keeps those above it.
        let mut used = self.used();
        used.insert(pod.uid.clone());
        if naming.driver == Driver::Cgroupfs {
            if !tree.exists(&naming.class(Qos::BestEffort)) {
                self.prepare(tree, naming)?;
            }
            tree.make(&path)?;
        }
        drop(used);
        tree.mark(&path);
        if pod.qos == Qos::Burstable {
            self.weigh(tree, naming, |all| all.insert(pod.uid.clone(), pod.milli_cpu) != Some(pod.milli_cpu));
        }
        tree.write(&path, &pod.values.files(tree.version, &tree.huge_pages(&path)))
    }

    /// Removes the cgroup of a pod that has no container any more.
    ///
    /// # Errors
    /// Something in it cannot be killed.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        let Some((tree, naming)) = self.known() else { return Ok(()) };
        self.weigh(tree, naming, |all| all.remove(uid).is_some());
        for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            tree.remove(&naming.pod(qos, uid))?;
        }
        let mut used = self.used();
        used.remove(uid);
        self.leave(tree, naming, &used);
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the cgroups of all pods of ours but these and those of workers.
    pub fn sweep(&self, keep: &BTreeSet<String>) {
        let Some((tree, naming)) = self.known() else { return };
        let keep = order::set(keep.iter().map(|uid| naming.written(uid)));
        for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
            let class = naming.class(qos);
            for name in tree.ours(&class) {
                let Some(uid) = naming.uid(&name).filter(|uid| !keep.contains(*uid)) else { continue };
                // Held while it is removed: a worker that wants it then makes it anew.
                let used = self.used();
                if used.iter().any(|used| naming.written(used) == uid) {
                    continue;
                }
                match tree.remove(&class.join(&name)) {
                    Ok(()) => log::info!("removed the cgroup of pod {uid}, which is gone"),
                    Err(error) => log::warn!("the cgroup of pod {uid}, which is gone, stays: {error}"),
                }
            }
        }
        self.leave(tree, naming, &self.used());
    }

    /// Changes what is known of burstable pods, and if it changed, their class's weight.
    fn weigh(&self, tree: &Tree, naming: &Naming, change: impl FnOnce(&mut BTreeMap<String, i64>) -> bool) {
        let mut all = self.burstable.lock().unwrap_or_else(PoisonError::into_inner);
        if !change(&mut all) {
            return;
        }
        let sum = all.values().copied().fold(0, i64::saturating_add);
        let file = weight_file(tree.version, cpu_shares(sum));
        if let Err(error) = tree.write(&naming.class(Qos::Burstable), &[file]) {
            log::warn!("the weight of burstable pods stays: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
