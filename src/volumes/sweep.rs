//! Removes the volumes of pods that vanished: an earlier daemon has left them, or a pod that was refused.
//!
//! Never here: a pod of a worker, or more than one thread at a time.

use std::path::Path;
use std::sync::PoisonError;
use std::thread;

use super::manager::{Use, Volumes};
use super::{mounts, tear_down};
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::layout;

/// Pods without a worker whose volumes are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gone {
    /// All but these, by UID.
    AllBut(Set<String>),
    /// These, by UID.
    These(Set<String>),
}

impl Gone {
    fn has(&self, uid: &str) -> bool {
        match self {
            Gone::AllBut(pods) => !pods.contains(uid),
            Gone::These(pods) => pods.contains(uid),
        }
    }

    /// Both, in this order.
    fn and(self, later: Gone) -> Gone {
        match (self, later) {
            // Later is nearer to the truth.
            (_, later @ Gone::AllBut(_)) => later,
            (Gone::AllBut(pods), Gone::These(more)) => {
                Gone::AllBut(pods.into_iter().filter(|uid| !more.contains(uid)).collect())
            }
            (Gone::These(pods), Gone::These(more)) => Gone::These(pods.into_iter().chain(more).collect()),
        }
    }
}

/// Whether a thread removes what is left of pods.
#[derive(Debug, Default)]
pub(super) enum Sweeps {
    #[default]
    Rest,
    /// One does, and afterwards again for these pods.
    Run(Option<Gone>),
}

impl Volumes {
    /// Takes down and removes the volumes of these pods, as far as they have no worker. Volumes in use are tried again for a
    /// while. While another thread does it, that thread does this, too, once it is done: volumes that cannot be removed
    /// must not bring more and more threads.
    pub fn sweep(&self, gone: Gone) {
        let mut gone = gone;
        let sweeps = || self.0.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *sweeps() {
            Sweeps::Run(next) => {
                *next = Some(match next.take() {
                    Some(before) => before.and(gone),
                    None => gone,
                });
                return;
            }
            none => *none = Sweeps::Run(None),
        }
        loop {
            self.sweep_once(&gone);
            let mut sweeps = sweeps();
            let next = match &mut *sweeps {
                Sweeps::Run(next) => next.take(),
                Sweeps::Rest => None,
            };
            match next {
                Some(next) => gone = next,
                None => return *sweeps = Sweeps::Rest,
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_sweeping(&self) -> bool {
        matches!(*self.0.sweeps.lock().unwrap(), Sweeps::Run(_))
    }

    fn sweep_once(&self, gone: &Gone) {
        let Ok(root) = self.0.root() else { return };
        // A killed daemon may have left a mount there.
        {
            let _one = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
            _ = mounts::clear_stage(&root.join(layout::STAGE));
        }
        let mut left: Vec<String> = tear_down::pods(&root).into_iter().filter(|uid| gone.has(uid)).collect();
        // While they are being removed, no other pod is evicted for the room that they take.
        self.0.ends.sweep(order::set(left.iter().filter(|uid| !self.0.is_used(uid)).cloned()));
        let mut wait = limits::VOLUME_RETRY_MIN;
        for attempt in 0..limits::SWEEP_TRIES {
            left.retain(|uid| {
                let again = self.sweep_pod(&root, uid, attempt);
                self.0.ends.is_swept(uid);
                again
            });
            if left.is_empty() {
                return;
            }
            thread::sleep(wait);
            wait = wait.saturating_mul(2).min(limits::VOLUME_RETRY_MAX);
        }
    }

    /// Returns true if it has to be tried again.
    fn sweep_pod(&self, root: &Path, uid: &str, attempt: u32) -> bool {
        if !self.0.take(uid, &Use::Sweep) {
            return false;
        }
        let result = tear_down::pod(root, uid, &mut || self.0.ends.step_swept());
        if result.is_ok() {
            self.0.in_memory.forget(uid);
        }
        self.0.release(uid);
        if let Err(why) = &result
            && (attempt == 0 || attempt.saturating_add(1) == limits::SWEEP_TRIES)
        {
            let next = if attempt == 0 { "tried again" } else { "left to the next start" };
            log::warn!("orphaned pod {uid:?} found, but its volumes cannot be removed: {why}; {next}");
        }
        result.is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_that_wait_become_one() {
        let set = |uids: &str| uids.split_whitespace().map(str::to_owned).collect::<Set<String>>();
        let (but, these) = (|uids| Gone::AllBut(set(uids)), |uids| Gone::These(set(uids)));
        assert_eq!(these("a").and(these("b")), these("a b"));
        assert_eq!(these("a").and(but("b")), but("b"));
        assert_eq!(but("a b").and(these("b")), but("a"));
        assert_eq!(but("a b").and(but("c")), but("c"));
        for (gone, uid, expected) in
            [(these("a"), "a", true), (these("a"), "b", false), (but("a"), "a", false), (but("a"), "b", true)]
        {
            assert_eq!(gone.has(uid), expected, "{gone:?} {uid}");
        }
    }
}
