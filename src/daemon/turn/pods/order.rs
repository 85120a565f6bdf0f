//! The order in which pods that come together are judged.
//!
//! Never here: a time. The same pods give the same order in each daemon.

use std::sync::Arc;

use crate::base::order;
use crate::base::table::Set;
use crate::daemon::turn::Turn;
use crate::pod::{DesiredPod, priority};

impl Turn {
    /// Running pods come first, so that they keep their ports; then those for which others would be stopped, so that none
    /// starts in vain, and jobs that others wait for; then those that were not refused before, which ran or waited; then by
    /// name.
    pub(super) fn in_order(&self, mut pods: Vec<Arc<DesiredPod>>) -> Vec<Arc<DesiredPod>> {
        let first = |pod: &DesiredPod| {
            let is_critical = priority::is_critical(pod);
            let (runs, runs_containers) =
                (self.runs(&pod.key, &pod.uid), self.runs_containers(&pod.key, &pod.uid));
            let (is_needed, was_refused) = (self.is_needed_job(pod), self.was_refused(pod));
            // Of which only the sandbox is left holds its ports, but may have lost its room.
            let has_none = (!runs_containers, !runs);
            (has_none, !is_critical, !self.precedes(pod), !is_needed, was_refused)
        };
        order::sort_by(&mut pods, |a, b| first(a).cmp(&first(b)).then_with(|| a.key.cmp(&b.key)));
        pods
    }

    /// UIDs of pods that were refused, have not run since, and are not refused now: a drained node judges no pod, and the
    /// next daemon has to know them. A source that nobody has heard yet may still tell them.
    pub(in crate::daemon::turn) fn refused_earlier(&self) -> Set<String> {
        let refused = &self.node.refused_earlier;
        if refused.is_empty() || !self.all_heard() {
            return refused.clone();
        }
        self.merge.pods().map(|pod| &pod.uid).filter(|uid| refused.contains(*uid)).cloned().collect()
    }

    /// Whether this version was refused, here or by an earlier daemon: it takes no room of one that ran or waited.
    pub(in crate::daemon::turn) fn was_refused(&self, pod: &DesiredPod) -> bool {
        let refused = self.entries.get(&pod.key).and_then(|entry| entry.rejected());
        refused.is_some_and(|it| it.pod.uid == pod.uid) || self.node.refused_earlier.contains(&pod.uid)
    }
}
