//! A lock by which only one podkeeper of the machine at a time creates, marks or removes a `kubepods`: a cgroup cannot
//! be created together with its mark, so another podkeeper could find it without a mark and take it for a kubelet's, or
//! remove it as unused just before it is used. The lock is on the directory where cgroups are mounted: podkeepers have
//! no other file in common. It ends with its process.
//!
//! Never here: a long wait. Any process that may read the directory may lock it, which delays a podkeeper only briefly.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::tree::Tree;
use crate::base::limits;

/// The time until which the lock is ignored, because some process holds it and does not release it.
static HELD_BY_STRANGER: Mutex<Option<Instant>> = Mutex::new(None);

impl Tree {
    /// Waits until no other podkeeper works on a `kubepods`, and locks others out until the result is dropped. `None`
    /// if the lock is not available: then the work continues without it.
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
                // The first time is kept: callers that do not wait must not extend it.
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
