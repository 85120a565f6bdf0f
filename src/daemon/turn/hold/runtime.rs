//! The runtime of a pod that names a class: a running pod keeps what it has, whatever becomes of class and flags; another one
//! waits for its class, and is refused by a node that has no runtime for its handler.
//!
//! Never here: what the API server says of a class; its source writes the handler on the pod.

use std::sync::Arc;

use super::Why;
use crate::base::clock::Now;
use crate::daemon::turn::Turn;
use crate::daemon::turn::admission::{Reason, Rejection};
use crate::daemon::turn::entry::Entry;
use crate::node::runtimes::{self, NoRuntime, RUNTIME};
use crate::pod::{DesiredPod, Source};
use crate::recorder::{ObjectEvent, words};

impl Turn {
    /// Docker's runtime for the pod; `None` for Docker's default.
    pub(super) fn runtime_of(&self, pod: &DesiredPod) -> Result<Option<&str>, NoRuntime> {
        let in_cluster = pod.source == Source::Api && self.config.sources.in_cluster();
        match self.runtime_had(pod) {
            Some(had) => Ok(Some(had)),
            None => self.config.node.runtimes.of(pod, in_cluster),
        }
    }

    /// The runtime that the pod runs with: its own version tells, or else the sandbox of an earlier daemon.
    fn runtime_had(&self, pod: &DesiredPod) -> Option<&str> {
        runtimes::class(pod)?;
        let desired = self.entries.get(&pod.key).and_then(|entry| entry.desired.as_ref());
        if let Some(same) = desired.filter(|desired| desired.uid == pod.uid) {
            return runtimes::written(same);
        }
        let mut found = self.docker.found.get(&pod.key).into_iter().flatten();
        let sandbox = found.find(|c| c.uid == pod.uid && c.is_sandbox() && c.state.is_running())?;
        sandbox.kept()?.runtime.as_deref()
    }

    /// The pod, with its runtime written on it. It was admitted, so there is one.
    pub(in crate::daemon::turn) fn with_runtime(&self, pod: Arc<DesiredPod>) -> Arc<DesiredPod> {
        let runtime = self.runtime_of(&pod).ok().flatten();
        let Some(runtime) = runtime.filter(|runtime| runtimes::written(&pod) != Some(runtime)) else {
            return pod;
        };
        let mut pod = Arc::unwrap_or_clone(pod);
        pod.metadata.annotations.get_or_insert_default().insert(RUNTIME.to_owned(), runtime.to_owned());
        Arc::new(pod)
    }

    /// Handles a pod that has no runtime.
    pub(super) fn without_runtime(&mut self, pod: Arc<DesiredPod>, why: &NoRuntime, now: &Now) {
        let message = why.to_string();
        match why {
            NoRuntime::Handler(_) => {
                let field = "spec.runtimeClassName".to_owned();
                self.reject(pod, &Rejection { reason: Reason::Runtime, message, field }, now);
            }
            NoRuntime::Class(_) => {
                let held = self.entries.get(&pod.key).and_then(Entry::held);
                if !held.is_some_and(|held| held.why == Why::RuntimeClass && held.pod.uid == pod.uid) {
                    let words = words::sandbox_failed(&message);
                    self.record(ObjectEvent::new(pod.key.clone(), pod.uid.clone(), None, words), now);
                }
                self.hold(pod, Why::RuntimeClass, &message, now);
            }
        }
    }
}
