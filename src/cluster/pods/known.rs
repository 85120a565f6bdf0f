//! What the desk remembers of one pod: the last write, what the server has accepted or rejected, and failures.
//!
//! Never here: a decision about a request.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;

use super::desk::Ask;
use crate::base::clock::Mono;
use crate::base::limits;

/// Remembered state of one pod.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub own: Option<Own>,
    /// These needed no request; while they are unchanged, none is needed.
    pub settled: Option<Settled>,
    /// A request that the server rejected.
    pub refused: Option<Taken>,
    /// The last status that the server accepted.
    pub taken: Option<Taken>,
    /// Failures since the last answer.
    pub late: Late,
    /// When it was met, in the order of all such times and of all failures; 0: not yet.
    pub met: u64,
    /// The object of this UID is gone, even if the watch still shows it, and since when.
    pub gone: Option<(String, Mono)>,
}

/// Failures of requests about one pod, or one namespace: those of others go on.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// When the last one was, in the order of [`Known::met`]; 0: never.
    pub order: u64,
    /// Number of answers to all requests at that time.
    pub answers: u64,
    /// Number of those that are its own: others had answers.
    pub own: u32,
    /// Nothing is asked about it before then.
    pub until: Mono,
}

/// The answer to the last write.
#[derive(Debug)]
pub(super) struct Own {
    pub pod: Arc<Pod>,
    pub since: Mono,
    /// The watch showed no pod then.
    pub is_new: bool,
}

/// A request that had an answer, as an accepted status. A server that drops an unknown field, or another client that changes it back, would make
/// podkeeper send the same status again and again.
#[derive(Debug)]
pub(super) struct Taken {
    pub ask: Ask,
    /// The same one is not sent again before then.
    pub until: Mono,
    pub wait: Duration,
}

#[derive(Debug)]
pub(super) struct Settled {
    pub copy: Option<Arc<Pod>>,
    pub status: Arc<PodStatus>,
    /// Whether the pod was over, was being stopped, ran, and was to return.
    pub of: (bool, bool, bool, bool),
    pub others: Vec<String>,
    pub addresses: Vec<String>,
    /// Number of the failures.
    pub failures: u64,
}

impl Known {
    /// Notes a rejected request. `wait`: how long it is not repeated; `None`: longer each time. Returns true if the same
    /// one was rejected before.
    pub fn refuse(&mut self, ask: Ask, wait: Option<Duration>, now: Mono) -> bool {
        let before =
            self.refused.take().filter(|before| is_same(&before.ask, &ask)).map(|before| before.wait);
        let longer =
            |before: Duration| before.saturating_mul(2).clamp(limits::POD_SAME_MIN, limits::POD_REFUSED);
        let wait = wait.unwrap_or_else(|| before.map_or(limits::POD_SAME_MIN, longer));
        self.refused = Some(Taken { ask, until: now.after(wait), wait });
        before.is_some()
    }

    /// Notes an accepted status. Returns true if the server has accepted the same one before.
    pub fn take(&mut self, ask: Ask, now: Mono) -> bool {
        if !matches!(ask, Ask::Status(_)) {
            return false;
        }
        let before = self.taken.take().filter(|before| is_same(&before.ask, &ask)).map(|before| before.wait);
        let wait =
            before.map_or(limits::POD_SAME_MIN, |wait| wait.saturating_mul(2).min(limits::POD_REFUSED));
        self.taken = Some(Taken { ask, until: now.after(wait), wait });
        before.is_some()
    }

    /// When the watch is believed again, whatever this node has written.
    pub fn doubts(&self, now: Mono) -> Option<Mono> {
        let own = self.own.as_ref().map(|own| own.since);
        let since = own.into_iter().chain(self.gone.as_ref().map(|(_, since)| *since));
        since.map(|since| since.after(limits::OWN_WRITE)).filter(|at| *at > now).min()
    }

    /// The server's copy of the pod, as far as it is known.
    pub fn copy(&mut self, watched: Option<&Arc<Pod>>, now: Mono) -> Option<Arc<Pod>> {
        let is_young = |since: &Mono| now.since(*since) < limits::OWN_WRITE;
        if let Some((gone, since)) = &self.gone {
            if is_young(since) && watched.is_some_and(|pod| uid(pod) == *gone) {
                return None;
            }
            self.gone = None;
        }
        let Some(Own { pod: own, since, is_new }) = &self.own else { return watched.cloned() };
        let counts = is_young(since)
            && match watched {
                // The watch shows a pod that was created here only later.
                None => *is_new,
                Some(watched) => uid(watched) == uid(own) && version(own) > version(watched),
            };
        if counts {
            return Some(Arc::clone(own));
        }
        self.own = None;
        watched.cloned()
    }
}

/// Whether two requests are the same except for times and the version that they count for.
pub(super) fn is_same(a: &Ask, b: &Ask) -> bool {
    let timeless = |patch: &Value| {
        let mut patch = patch.clone();
        if let Some(metadata) = patch.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        patch
    };
    match (a, b) {
        (Ask::Status(a), Ask::Status(b)) => timeless(a) == timeless(b),
        _ => a == b,
    }
}

pub(super) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Versions of one object only grow; if a server's versions are not numbers, all count as equal.
pub(super) fn version(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or_default()
}
