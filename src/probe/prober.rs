//! The thread of all probes and hooks: one `poll` over all attempts in progress. It never waits for one server,
//! so a probe that hangs costs a descriptor and delays no other, and a hundred probes cost no further thread.
//!
//! The thread starts with the first container that has a probe or a hook; a node without any has no such
//! thread. Host names (of `httpGet.host` and similar fields) are resolved by a second thread, because that may
//! block.

mod thread;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use self::thread::Body;
use super::outcome::Outcome;
use super::schedule::ProbeId;
use super::spec::{HookKind, HookStep, Kind, Watch};
use crate::base::clock::{Mono, System};
use crate::base::table::Table;
use crate::base::{self, limits};
use crate::plan::ProbeVerdict;
use crate::pod::PodKey;
use crate::runtime::docker::Docker;

/// A message to a pod's worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A stored result changed.
    Probed {
        /// Container id.
        id: String,
        /// The kind of probe.
        kind: Kind,
        /// [`super::Target::started`] of the probed run.
        since: Mono,
        /// The result.
        verdict: ProbeVerdict,
    },
    /// The outcome of an attempt that needs an event.
    Said {
        /// Container id.
        id: String,
        /// The kind of probe.
        kind: Kind,
        /// The event's reason.
        reason: &'static str,
        text: String,
    },
    /// The command of a hook went on.
    HookAt {
        /// Container id.
        id: String,
        /// The kind of hook.
        kind: HookKind,
        step: HookStep,
    },
    /// A hook ended.
    Hooked {
        /// Container id.
        id: String,
        /// The kind of hook.
        kind: HookKind,
        /// `Err`: why it failed.
        result: Result<(), String>,
    },
}

impl News {
    /// Whether both are about the same probe or hook of the same container.
    #[must_use]
    pub fn is_about(&self, other: &News) -> bool {
        match (self, other) {
            (News::Probed { id, kind, .. }, News::Probed { id: of, kind: which, .. }) => {
                id == of && kind == which
            }
            (News::Said { id, kind, .. }, News::Said { id: of, kind: which, .. }) => {
                id == of && kind == which
            }
            (News::Hooked { id, kind, .. }, News::Hooked { id: of, kind: which, .. })
            | (News::HookAt { id, kind, .. }, News::HookAt { id: of, kind: which, .. }) => {
                id == of && kind == which
            }
            _ => false,
        }
    }
}

/// Receiver of a pod's messages; never blocks.
pub trait ProbeListener: Send + Sync {
    /// Takes a message.
    fn notify(&self, news: News);
}

/// Handle of the thread. Clones share one prober.
#[derive(Clone)]
pub struct Prober {
    shared: Arc<Shared>,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prober")
    }
}

struct Shared {
    docker: Docker,
    clock: System,
    inner: Mutex<Inner>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Inner {
    running: bool,
    /// The latest set of each pod that the thread has not read.
    unread: Vec<(PodKey, Arc<dyn ProbeListener>, Watch)>,
    named: Vec<(String, Result<IpAddr, String>)>,
    /// Tallies of the current probes.
    tallies: Table<ProbeId, Tally>,
}

/// How often a probe has passed and failed. Attempts that themselves failed count as neither, as in the kubelet
/// (`pkg/kubelet/prober/worker.go`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub pod: PodKey,
    /// The container's name.
    pub container: String,
    pub kind: Kind,
    pub passed: u64,
    pub failed: u64,
}

impl Prober {
    /// A prober without work and without a thread.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn new(docker: Docker, clock: System) -> std::io::Result<Prober> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Prober { shared: Arc::new(Shared { docker, clock, inner: Mutex::new(Inner::default()), wake }) })
    }

    /// How often each probe has passed and failed, in a stable order.
    #[must_use]
    pub fn tallies(&self) -> Vec<Tally> {
        self.shared.lock().tallies.values().cloned().collect()
    }

    /// Replaces all probes and hooks of one pod; `listener` gets the results.
    pub fn watch(&self, key: &PodKey, listener: Arc<dyn ProbeListener>, watch: Watch) {
        let mut inner = self.shared.lock();
        let other = |(of, who, _): &(PodKey, Arc<dyn ProbeListener>, Watch)| {
            of == key && !Arc::ptr_eq(who, &listener)
        };
        if watch.is_empty() && inner.unread.iter().any(other) {
            // A worker that ends already has a successor.
            return;
        }
        if !inner.running {
            if watch.is_empty() {
                return;
            }
            let shared = Arc::clone(&self.shared);
            let started =
                base::thread::spawn("pk-probe", limits::WORKER_STACK, move || Body::new(shared).run());
            match started {
                Ok(_) => inner.running = true,
                // The next change of the set tries again.
                Err(error) => log::error!("pod {key}: no thread for probes and hooks: {error}"),
            }
        }
        inner.unread.retain(|(of, _, _)| of != key);
        inner.unread.push((key.clone(), listener, watch));
        drop(inner);
        self.shared.wake();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt that has ended.
    fn count(&self, id: ProbeId, (pod, container, kind): (&PodKey, &str, Kind), outcome: &Outcome) {
        let (passed, failed) = match outcome {
            Outcome::Passed | Outcome::Warned(_) => (1, 0),
            Outcome::Failed(_) => (0, 1),
            Outcome::Errored { .. } => return,
        };
        let (pod, container) = (pod.clone(), container.to_owned());
        let none = Tally { pod, container, kind, passed: 0, failed: 0 };
        let mut inner = self.lock();
        let tally = inner.tallies.get_or_insert(id, none);
        tally.passed = tally.passed.saturating_add(passed);
        tally.failed = tally.failed.saturating_add(failed);
    }

    fn wake(&self) {
        // A full counter means that a wake-up is pending.
        _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests;
