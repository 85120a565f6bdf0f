//! Trees of cgroups that this daemon stops using: a tree that another program uses, and those of earlier flags.

use std::sync::Arc;

use super::{Cgroups, key};
use crate::base::limits;
use crate::base::order;
use crate::base::table::Set;
use crate::cgroup::kubepods::{Kubepods, Manager};
use crate::cgroup::slices::Slices;
use crate::cgroup::{Driver, Naming};

impl Cgroups {
    /// Leaves `kubepods` to the program that removes podkeeper's cgroups from it. Only once: a program that
    /// does this everywhere cannot be avoided.
    pub(super) fn move_away(&self, from: Arc<Kubepods>) -> (Arc<Kubepods>, Option<String>) {
        let mut known = self.shared.lock();
        if known.moved {
            // Another worker has moved already.
            return (known.kubepods.clone().unwrap_or(from), None);
        }
        let own = Arc::new(self.own(&from));
        let words = moved_words(&from, &own);
        log::warn!("{words}");
        // With the mark, the next daemon would use it as a podkeeper's, and lose a pod before it
        // notices.
        from.tree.unmark(&from.naming.top());
        self.parents.set(own.naming.clone());
        known.moved = true;
        known.kubepods = Some(Arc::clone(&own));
        known.former.push(from);
        (own, Some(words))
    }

    /// Removes the cgroups of all podkeeper's pods, except these and those of workers; including those of
    /// earlier flags.
    pub fn sweep(&self, keep: &Set<String>) {
        let Some(kubepods) = self.kubepods() else { return };
        let keep = order::set(keep.iter().map(|uid| key(uid)));
        let mut found = self.former(&kubepods);
        let mut known = self.shared.lock();
        found.retain(|new| !known.former.iter().any(|old| old.naming == new.naming));
        known.former.extend(found);
        let former = known.former.clone();
        drop(known);
        for kubepods in former.iter().chain([&kubepods]) {
            for uid in kubepods.ours().into_iter().filter(|uid| !keep.contains(&key(uid))) {
                // A worker that needs it meanwhile waits, and creates it again.
                let Some(_claim) = self.shared.claim_unused(&key(&uid)) else { continue };
                match kubepods.remove_pod(&uid) {
                    Ok(()) => log::info!("removed the cgroup of pod {uid}, which is gone"),
                    Err(error) => log::warn!("the cgroup of pod {uid}, which is gone, stays: {error}"),
                }
            }
        }
        // Cgroups of earlier flags are not needed by pods of this daemon.
        for kubepods in &former {
            let _alone = super::tree_alone(kubepods);
            kubepods.remove_if_unused();
        }
        self.remove_if_unused(&kubepods);
    }

    /// Every other `kubepods` with this podkeeper's cgroups.
    fn former(&self, now: &Kubepods) -> Vec<Arc<Kubepods>> {
        let (top, mut all) = (now.naming.top(), Vec::new());
        for path in now.tree.tops(limits::CGROUP_WALK).into_iter().filter(|path| *path != top) {
            let Some(naming) = Naming::of_top(&path) else { continue };
            let manager = match naming.driver {
                Driver::Cgroupfs => Ok(Manager::Files),
                Driver::Systemd => Slices::open().map(Manager::Slices),
            };
            let Ok(manager) = manager else { continue };
            let kubepods = Kubepods::new(now.tree.clone(), manager, naming);
            if now.tree.is_ours(&path) || !kubepods.ours().is_empty() {
                all.push(Arc::new(kubepods));
            }
        }
        all
    }
}

pub(super) fn moved_words(from: &Kubepods, to: &Kubepods) -> String {
    format!(
        "cgroup /{} is somebody else's, perhaps a kubelet's, which kills what it does not know in it: cgroups of pods are made below /{} from now on",
        from.naming.top().display(),
        to.naming.top().display()
    )
}
