//! The cgroups of this node's pods: what workers and the sweep have done to them.
//!
//! One lock, over what is remembered and the kernel's own files of `kubepods`; never over `systemctl`, and never
//! while something is killed. Who works on one UID waits for who else does, and for nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::ground::{Ground, Keeper};
use super::slices::Slices;
use super::tree::Tree;
use super::values::PodCgroup;
use super::{Driver, Naming, Parents};
use crate::base::limits;
use crate::base::order;
use crate::pod::qos::Qos;
use crate::runtime::resources::cpu_shares;

/// Where cgroups are mounted.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// The cgroup, below `--cgroup-root`, in which those of pods are made where `kubepods` is somebody else's.
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
}

/// All of them. Clones share what is known.
#[derive(Debug, Clone)]
pub struct Cgroups {
    settings: Arc<Settings>,
    mount: PathBuf,
    owner: String,
    /// For the machines.
    pub parents: Parents,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    /// A UID is nobody's work any more.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    /// Whether pods have cgroups has been decided, and where they are.
    decided: bool,
    ground: Option<Arc<Ground>>,
    /// `kubepods` was left to somebody else.
    moved: bool,
    /// Where an earlier daemon, or an earlier flag, had them.
    former: Vec<Arc<Ground>>,
    /// UIDs whose workers count on a cgroup, and where it was marked.
    used: BTreeMap<String, Option<PathBuf>>,
    /// UIDs whose cgroup somebody is at work on.
    busy: BTreeSet<String>,
    /// CPU requests of burstable pods by UID: their class weighs as much as they do.
    burstable: BTreeMap<String, i64>,
    /// Somebody tells that weight, and it has changed since they began.
    weighing: bool,
    weight_changed: bool,
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

    fn claim(&self, uid: &str) -> Claim<'_> {
        let mut known = self.lock();
        while !known.busy.insert(uid.to_owned()) {
            known = self.freed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        Claim { shared: self, uid: uid.to_owned() }
    }

    /// Unless somebody is at work on it, or counts on it.
    fn claim_unused(&self, uid: &str) -> Option<Claim<'_>> {
        let mut known = self.lock();
        let free = !known.used.contains_key(uid) && known.busy.insert(uid.to_owned());
        free.then(|| Claim { shared: self, uid: uid.to_owned() })
    }
}

/// A UID as what is remembered has it: in names of slices `_` stands for `-`.
fn key(uid: &str) -> String {
    uid.replace('-', "_")
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
            shared: Arc::default(),
        }
    }

    /// It is decided already whether pods have cgroups.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !self.settings.per_qos || self.shared.lock().decided
    }

    /// Docker uses this driver: decides, once, whether pods have cgroups, by making those of the classes where
    /// they are podkeeper's to make. What cannot be is told, and pods run without.
    pub fn decide(&self, driver: &str) {
        if self.is_decided() {
            return;
        }
        let keeper = match Driver::parse(driver) {
            None => Err(format!("Docker's cgroup driver {driver:?} makes no cgroups")),
            Some(Driver::Cgroupfs) => Ok((Driver::Cgroupfs, Keeper::Files)),
            Some(Driver::Systemd) => match Slices::open() {
                Ok(slices) => Ok((Driver::Systemd, Keeper::Slices(slices))),
                Err(error) => Err(format!("cgroups of pods cannot be made: {error}")),
            },
        };
        self.decide_on(keeper);
    }

    fn decide_on(&self, keeper: Result<(Driver, Keeper), String>) {
        let ground = keeper.and_then(|(driver, keeper)| self.try_out(driver, keeper));
        let mut known = self.shared.lock();
        known.decided = true;
        match ground {
            Ok((ground, moved)) => {
                self.parents.set(ground.naming.clone());
                (known.ground, known.moved) = (Some(Arc::new(ground)), moved);
            }
            Err(why) => log::warn!(
                "{why}; pods get no cgroups of their own, only their containers are limited (--cgroups-per-qos=false says so)"
            ),
        }
    }

    fn try_out(&self, driver: Driver, keeper: Keeper) -> Result<(Ground, bool), String> {
        let tree = Tree::open(self.mount.clone(), self.owner.clone());
        let mut ground = Ground::new(tree, keeper, Naming::new(driver, &self.settings.root));
        let foreign = ground.is_foreign();
        if foreign {
            let own = self.own(&ground);
            log::warn!("{}", moved_words(&ground, &own));
            ground = own;
        }
        if driver == Driver::Cgroupfs {
            let failed = |error: io::Error| format!("cgroups of pods cannot be made: {error}");
            ground.prepare(&self.settings).map_err(failed)?;
            ground.leave();
        }
        Ok((ground, foreign))
    }

    /// Where nobody but podkeepers makes anything.
    fn own(&self, ground: &Ground) -> Ground {
        let root = format!("{}/{OWN_ROOT}", self.settings.root);
        ground.at(Naming::new(ground.naming.driver, &root))
    }

    fn ground(&self) -> Option<Arc<Ground>> {
        self.shared.lock().ground.clone()
    }

    /// To make or change this UID's cgroup takes neither a `systemctl` nor the end of somebody else's work on it.
    #[must_use]
    pub fn makes_at_once(&self, uid: &str) -> bool {
        let known = self.shared.lock();
        let files = known.ground.as_ref().is_none_or(|ground| matches!(ground.keeper, Keeper::Files));
        files && !known.busy.contains(&key(uid))
    }

    /// Makes or changes a pod's cgroup. Where somebody else has taken the cgroups over, all further ones are
    /// made elsewhere, and that is told too.
    pub fn ensure(&self, pod: &PodCgroup) -> (Option<String>, io::Result<()>) {
        let Some(ground) = self.ground() else { return (None, Ok(())) };
        let uid = key(&pod.uid);
        let _claim = self.shared.claim(&uid);
        // From now on what is above it stays.
        let marked = self.shared.lock().used.entry(uid.clone()).or_default().clone();
        let path = ground.naming.pod(pod.qos, &pod.uid);
        let robbed = marked.as_ref() == Some(&path) && !ground.tree.is_marked(&path);
        let foreign = || {
            // Not while another worker makes it, and has not marked it yet.
            let _held = self.shared.lock();
            ground.is_foreign()
        };
        let (ground, moved) = if robbed || foreign() { self.move_away(ground) } else { (ground, None) };
        (moved, self.ensure_on(&ground, pod, uid))
    }

    fn ensure_on(&self, ground: &Ground, pod: &PodCgroup, uid: String) -> io::Result<()> {
        let path = ground.naming.pod(pod.qos, &pod.uid);
        match &ground.keeper {
            Keeper::Files => {
                // Not while another one makes or removes what is above: directories of the kernel, quickly done.
                let _held = self.shared.lock();
                if !ground.is_prepared() {
                    ground.prepare(&self.settings)?;
                }
                ground.tree.make(&path)?;
            }
            // A slice is there with its first container.
            Keeper::Slices(_) => ground.prepare(&self.settings)?,
        }
        if ground.tree.mark(&path) {
            self.shared.lock().used.insert(uid.clone(), Some(path));
        }
        let heavier = pod.qos == Qos::Burstable && self.weight(&uid, Some(pod.milli_cpu));
        ground.fill(pod)?;
        if heavier {
            self.weigh(ground);
        }
        Ok(())
    }

    /// Leaves `kubepods` to who removes what is podkeeper's from it. Once: who does that everywhere is not
    /// escaped.
    fn move_away(&self, from: Arc<Ground>) -> (Arc<Ground>, Option<String>) {
        let mut known = self.shared.lock();
        if known.moved {
            // Another worker has found out before.
            return (known.ground.clone().unwrap_or(from), None);
        }
        let own = Arc::new(self.own(&from));
        let words = moved_words(&from, &own);
        log::warn!("{words}");
        // Else the next daemon would take it for a podkeeper's, and have a pod killed before it knows better.
        from.tree.unmark(&from.naming.top());
        self.parents.set(own.naming.clone());
        known.moved = true;
        known.ground = Some(Arc::clone(&own));
        known.former.push(from);
        (own, Some(words))
    }

    /// Removes the cgroup of a pod that has no container any more.
    ///
    /// # Errors
    /// Something in it cannot be killed, or systemd does not answer.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        let Some(ground) = self.ground() else { return Ok(()) };
        let name = key(uid);
        let claim = self.shared.claim(&name);
        let changed = self.weight(&name, None);
        let mut known = self.shared.lock();
        // Whether all of it goes or not, it is not robbed.
        known.used.entry(name.clone()).and_modify(|marked| *marked = None);
        let former = known.former.clone();
        drop(known);
        former.iter().chain([&ground]).try_for_each(|ground| ground.remove_pod(uid))?;
        self.shared.lock().used.remove(&name);
        drop(claim);
        former.iter().for_each(|ground| _ = self.leave(ground));
        if !self.leave(&ground) && changed {
            self.weigh(&ground);
        }
        Ok(())
    }

    /// `kubepods` and the classes go when nobody counts on a cgroup: after the last pod a node is as it was
    /// before the first. Whether they are gone.
    fn leave(&self, ground: &Ground) -> bool {
        let known = self.shared.lock();
        if !known.used.is_empty() {
            return false;
        }
        match &ground.keeper {
            Keeper::Files => ground.leave(),
            Keeper::Slices(_) => {
                drop(known);
                let gone = ground.leave();
                // Whoever came meanwhile found them told, and now that is forgotten.
                let wanted = !self.shared.lock().used.is_empty();
                if gone
                    && wanted
                    && let Err(error) = ground.prepare(&self.settings)
                {
                    log::warn!("cgroups of all pods are not as they should be: {error}");
                }
                gone && !wanted
            }
        }
    }

    /// Removes the cgroups of all pods of ours but these and those of workers, also where other flags had them
    /// made.
    pub fn sweep(&self, keep: &BTreeSet<String>) {
        let Some(ground) = self.ground() else { return };
        let keep = order::set(keep.iter().map(|uid| key(uid)));
        let mut found = self.former(&ground);
        let mut known = self.shared.lock();
        found.retain(|new| !known.former.iter().any(|old| old.naming == new.naming));
        known.former.extend(found);
        let former = known.former.clone();
        drop(known);
        for ground in former.iter().chain([&ground]) {
            for uid in ground.ours().into_iter().filter(|uid| !keep.contains(&key(uid))) {
                // A worker that wants it meanwhile waits, and makes it anew.
                let Some(_claim) = self.shared.claim_unused(&key(&uid)) else { continue };
                match ground.remove_pod(&uid) {
                    Ok(()) => log::info!("removed the cgroup of pod {uid}, which is gone"),
                    Err(error) => log::warn!("the cgroup of pod {uid}, which is gone, stays: {error}"),
                }
            }
        }
        // Those of other flags need no pods of this daemon.
        former.iter().for_each(|ground| _ = ground.leave());
        self.leave(&ground);
    }

    /// Every `kubepods` but this one with cgroups of ours.
    fn former(&self, now: &Ground) -> Vec<Arc<Ground>> {
        let (top, mut all) = (now.naming.top(), Vec::new());
        for path in now.tree.tops(limits::CGROUP_WALK).into_iter().filter(|path| *path != top) {
            let Some(naming) = Naming::of_top(&path) else { continue };
            let keeper = match naming.driver {
                Driver::Cgroupfs => Ok(Keeper::Files),
                Driver::Systemd => Slices::open().map(Keeper::Slices),
            };
            let Ok(keeper) = keeper else { continue };
            let ground = Ground::new(now.tree.clone(), keeper, naming);
            if now.tree.is_ours(&path) || !ground.ours().is_empty() {
                all.push(Arc::new(ground));
            }
        }
        all
    }

    /// Notes what a burstable pod requests, or that it is gone; whether that is new.
    fn weight(&self, uid: &str, milli_cpu: Option<i64>) -> bool {
        let all = &mut self.shared.lock().burstable;
        match milli_cpu {
            Some(milli_cpu) => all.insert(uid.to_owned(), milli_cpu) != Some(milli_cpu),
            None => all.remove(uid).is_some(),
        }
    }

    /// Tells the weight of burstable pods; whoever is telling it already tells this one too.
    fn weigh(&self, ground: &Ground) {
        let mut known = self.shared.lock();
        known.weight_changed = true;
        if std::mem::replace(&mut known.weighing, true) {
            return;
        }
        while std::mem::take(&mut known.weight_changed) {
            let shares = cpu_shares(known.burstable.values().copied().fold(0, i64::saturating_add));
            drop(known);
            ground.weigh(shares);
            known = self.shared.lock();
        }
        known.weighing = false;
    }
}

fn moved_words(from: &Ground, to: &Ground) -> String {
    format!(
        "cgroup /{} is somebody else's, perhaps a kubelet's, which kills what it does not know in it: cgroups of pods are made below /{} from now on",
        from.naming.top().display(),
        to.naming.top().display()
    )
}

#[cfg(test)]
mod owners;
#[cfg(test)]
mod tests;
