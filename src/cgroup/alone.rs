//! One podkeeper of the machine at a time makes, marks or removes a `kubepods`: a cgroup cannot be made with its mark, so
//! that another one would find it without and take it for a kubelet's, or remove it unused below the feet of one that is
//! about to use it. The lock is on the directory where cgroups are mounted: podkeepers have no other file in common. It goes
//! with its process.
//!
//! Never here: a wait that lasts. Whoever may read the directory may lock it, and does so to no podkeeper's harm but a moment.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::tree::Tree;
use crate::base::limits;

/// Until when nobody is waited for: somebody holds the lock who does not give it back.
static HELD_BY_STRANGER: Mutex<Option<Instant>> = Mutex::new(None);

impl Tree {
    /// Waits until no other podkeeper is at work on a `kubepods`, and keeps others waiting until what it returns is dropped.
    /// `None` where that cannot be had: then it is as it would be without.
    #[must_use]
    pub fn alone(&self) -> Option<OwnedFd> {
        let first = self.written().into_iter().next()?;
        let at = open(&first, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let begun = Instant::now();
        let held = || HELD_BY_STRANGER.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = match held().is_some_and(|until| begun < until) {
            true => Duration::ZERO,
            false => limits::CGROUP_ALONE,
        };
        loop {
            if flock(&at, FlockOperation::NonBlockingLockExclusive).is_ok() {
                *held() = None;
                return Some(at);
            }
            if begun.elapsed() >= patience {
                // The first word holds: who waits no longer makes it last no longer.
                let mut held = held();
                if patience > Duration::ZERO {
                    *held = Instant::now().checked_add(limits::CGROUP_NOT_ALONE);
                }
                return None;
            }
            thread::sleep(limits::CGROUP_ALONE_POLL);
        }
    }
}
