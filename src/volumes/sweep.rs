//! Removes the volumes of pods that vanished: an earlier daemon has left them, or a pod that was refused.
//!
//! Never here: a pod of a worker, or more than one thread at a time.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::manager::{Use, Volumes};
use super::mounts;
use super::tear_down::{self, Which};
use crate::base::limits;
use crate::base::table::Set;
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
            (Gone::AllBut(mut pods), Gone::These(more)) => {
                pods.retain(|uid| !more.contains(uid));
                Gone::AllBut(pods)
            }
            (Gone::These(mut pods), Gone::These(more)) => {
                more.iter().for_each(|uid| _ = pods.insert(uid.clone()));
                Gone::These(pods)
            }
        }
    }
}

/// Whether a thread removes what is left of pods.
#[derive(Debug, Default)]
enum State {
    #[default]
    Rest,
    /// One does. It takes these up next.
    Run(Option<Gone>),
}

/// The sweep of a node.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    state: Mutex<State>,
    /// There is something to take up.
    came: Condvar,
}

impl Sweeps {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it to the thread that sweeps. Returns false if there is none: the caller sweeps now.
    fn give(&self, gone: Gone) -> bool {
        let mut state = self.lock();
        let (next, runs) = match std::mem::take(&mut *state) {
            State::Rest => (gone, false),
            State::Run(None) => (gone, true),
            State::Run(Some(before)) => (before.and(gone), true),
        };
        *state = State::Run(Some(next));
        self.came.notify_one();
        runs
    }

    /// What to take up now, after `wait` at the latest; without a wait, [`State::Rest`] begins when there is nothing.
    fn next(&self, wait: Option<Duration>) -> Option<Gone> {
        let mut state = self.lock();
        if let Some(wait) = wait {
            let waits = |state: &mut State| matches!(state, State::Run(None));
            let waited = self.came.wait_timeout_while(state, wait, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let next = match &mut *state {
            State::Run(next) => next.take(),
            State::Rest => None,
        };
        if next.is_none() && wait.is_none() {
            *state = State::Rest;
        }
        next
    }
}

/// A pod whose files are left.
struct Left {
    uid: String,
    /// It is gone; otherwise only the volumes go whose removal had begun.
    is_gone: bool,
    tries: u32,
}

impl Volumes {
    /// Takes down and removes the volumes of these pods, as far as they have no worker, and all whose removal had begun.
    /// Volumes in use are tried again for a while. While another thread does it, that thread does this, too: volumes that
    /// cannot be removed must not bring more and more threads.
    pub fn sweep(&self, gone: Gone) {
        if self.0.sweeps.give(gone) {
            return;
        }
        let mut left: Vec<Left> = Vec::new();
        let mut wait = limits::VOLUME_RETRY_MIN;
        loop {
            let next = self.0.sweeps.next(Some(wait).filter(|_| !left.is_empty()));
            if next.is_none() && left.is_empty() {
                return;
            }
            let Ok(root) = self.0.root() else {
                left.clear();
                continue;
            };
            match next {
                Some(gone) => {
                    wait = limits::VOLUME_RETRY_MIN;
                    self.take_up(&root, &gone, &mut left);
                }
                None => wait = wait.saturating_mul(2).min(limits::VOLUME_RETRY_MAX),
            }
            left.retain_mut(|left| {
                let again = self.sweep_pod(&root, left);
                self.0.ends.is_swept(&left.uid);
                left.tries += 1;
                again && left.tries < limits::SWEEP_TRIES
            });
        }
    }

    #[cfg(test)]
    pub(super) fn is_sweeping(&self) -> bool {
        matches!(*self.0.sweeps.lock(), State::Run(_))
    }

    fn take_up(&self, root: &Path, gone: &Gone, left: &mut Vec<Left>) {
        // A killed daemon may have left a mount there.
        {
            let _one = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
            _ = mounts::clear_stage(&root.join(layout::STAGE));
        }
        let mut new = Set::new();
        for uid in tear_down::pods(root) {
            let is_gone = gone.has(&uid);
            if let Some(known) = left.iter_mut().find(|left| left.uid == uid) {
                known.is_gone |= is_gone;
                continue;
            }
            let has_gone = tear_down::has_gone(root, &uid);
            if has_gone || is_gone && !self.0.is_used(&uid) {
                new.insert(uid.clone());
            }
            if has_gone || is_gone {
                left.push(Left { uid, is_gone, tries: 0 });
            }
        }
        // While they are being removed, no other pod is evicted for the room that they take.
        self.0.ends.sweep(new);
    }

    /// Returns true if it has to be tried again.
    fn sweep_pod(&self, root: &Path, Left { uid, is_gone, tries }: &Left) -> bool {
        let removes = &mut || self.0.ends.step_swept();
        let is_taken = *is_gone && self.0.take(uid, &Use::Sweep);
        let which = if is_taken { Which::All } else { Which::Left };
        let result = tear_down::pod(root, uid, which, removes);
        if is_taken {
            if result.is_ok() {
                self.0.in_memory.forget(uid);
            }
            self.0.release(uid, &Use::Sweep);
        }
        if let Err(why) = &result
            && (*tries == 0 || tries.saturating_add(1) == limits::SWEEP_TRIES)
        {
            let next = if *tries == 0 { "tried again" } else { "left to the next start" };
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
