//! Removes the volumes of pods that vanished: an earlier daemon has left them, or a pod that was refused.
//!
//! Never here: a pod of a worker, or more than one thread at a time.

use std::path::Path;
use std::sync::PoisonError;
use std::thread;

use super::manager::{Use, Volumes};
use super::{mounts, tear_down};
use crate::base::limits;
use crate::base::table::Set;
use crate::layout;

/// Whether a thread removes what is left of pods.
#[derive(Debug, Default)]
pub(super) enum Sweeps {
    #[default]
    Rest,
    /// One does, and afterwards again for all pods but these.
    Run(Option<Set<String>>),
}

impl Volumes {
    /// Takes down and removes the volumes of all pods but these and those of workers: pods that vanished
    /// while the daemon was down. Volumes in use are tried again for a while. While another thread does it, that thread
    /// does this, too, once it is done: volumes that cannot be removed must not bring more and more threads.
    pub fn sweep(&self, keep: &Set<String>) {
        let mut keep = keep.clone();
        let sweeps = || self.0.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *sweeps() {
            Sweeps::Run(next) => return *next = Some(keep),
            none => *none = Sweeps::Run(None),
        }
        loop {
            self.sweep_once(&keep);
            let mut sweeps = sweeps();
            match &mut *sweeps {
                Sweeps::Run(next) if next.is_some() => keep = next.take().unwrap_or_default(),
                _ => return *sweeps = Sweeps::Rest,
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_sweeping(&self) -> bool {
        matches!(*self.0.sweeps.lock().unwrap(), Sweeps::Run(_))
    }

    fn sweep_once(&self, keep: &Set<String>) {
        let Ok(root) = self.0.root() else { return };
        // A killed daemon may have left a mount there.
        {
            let _one = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
            _ = mounts::clear_stage(&root.join(layout::STAGE));
        }
        let mut left: Vec<String> =
            tear_down::pods(&root).into_iter().filter(|uid| !keep.contains(uid)).collect();
        let mut wait = limits::VOLUME_RETRY_MIN;
        for attempt in 0..limits::SWEEP_TRIES {
            left.retain(|uid| self.sweep_pod(&root, uid, attempt));
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
        let result = tear_down::pod(root, uid, &mut || self.0.ends.step_any());
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
