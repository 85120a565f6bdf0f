//! Housekeeping of orphans (upstream `pkg/kubelet/kubelet_pods.go`, `HandlePodCleanups`): containers of ours
//! that no manifest names. They are stopped once the source that made them has reported and every other one
//! was heard, and left alone while it cannot be read.

use super::{Effect, InUse, Turn};
use crate::base::clock::Now;
use crate::base::order;
use crate::machine::{StopOrder, Wish};
use crate::plan::Owned;
use crate::pod::PodKey;
use crate::pod::problem::Severity;

/// What to do about found containers that no manifest names.
pub(super) enum Verdict {
    Stop,
    /// Somebody has not spoken since the daemon began; who that is.
    Wait(String),
    /// Their manifest is there and cannot be read.
    Keep(String),
}

impl Turn {
    pub(super) fn housekeeping(&mut self, _now: &Now) {
        if !self.listed {
            return;
        }
        self.sweep();
        let unclaimed: Vec<PodKey> = self
            .found
            .keys()
            .filter(|key| self.merge.get(key).is_none())
            .filter(|key| self.entries.get(key).is_none_or(|e| e.worker.is_none()))
            .cloned()
            .collect();
        self.told_kept.retain(|key, _| unclaimed.contains(key));
        for key in unclaimed {
            let Some(verdict) = self.found.get(&key).map(|all| self.verdict(all)) else { continue };
            // What runs without a manifest is shown, and why.
            self.changed = true;
            match verdict {
                Verdict::Wait(_) => {}
                Verdict::Stop => {
                    self.told_kept.remove(&key);
                    let order = StopOrder { grace: None, why: "no manifest names it" };
                    self.wish(&key, Wish::Stop(order));
                }
                Verdict::Keep(path) => {
                    // A file that is only not settled yet is no news.
                    if self.is_wrong(&path) && self.told_kept.get(&key) != Some(&path) {
                        let line = format!(
                            "pod {key} runs, but its manifest {path} is not accepted: it is left alone, and not restarted"
                        );
                        self.log(log::Level::Warn, line);
                        self.told_kept.insert(key, path);
                    }
                }
            }
        }
    }

    /// Once, when everybody has spoken: from then on each worker removes what its own pod leaves. Of what was
    /// found and is not wanted a worker may see nothing any more: then once again with the next list.
    fn sweep(&mut self) {
        if self.swept || !self.merge.all_ready() {
            return;
        }
        self.swept = true;
        let wanted = self.merge.pods().map(|pod| pod.uid.clone());
        let known =
            self.entries.values().filter_map(|entry| entry.desired.as_ref()).map(|pod| pod.uid.clone());
        let mut pods = order::set(wanted.chain(known));
        let sure = pods.len();
        pods.extend(self.found.values().flatten().map(|c| c.uid.clone()));
        self.sweep_again = pods.len() > sure;
        let containers = order::set(self.found.values().flatten().map(|c| c.id.clone()));
        self.out.push(Effect::Sweep(InUse { pods, containers }));
    }

    /// A source has an error to tell about this path.
    fn is_wrong(&self, path: &str) -> bool {
        let mut problems = self.sources.values().flat_map(|s| &s.problems);
        problems.any(|p| p.path == path && p.severity == Severity::Error)
    }

    pub(super) fn verdict(&self, all: &[Owned]) -> Verdict {
        let owner = all.iter().max_by_key(|c| c.attempt);
        let named = owner.and_then(|owner| owner.source);
        let Some(source) = named.filter(|s| self.sources.contains_key(s)) else {
            // Nobody speaks for it any more: its source is not configured.
            return match self.sources.keys().find(|s| !self.merge.ready(**s)) {
                None => Verdict::Stop,
                Some(other) => {
                    Verdict::Wait(format!("source {other} has not been read since podkeeper began"))
                }
            };
        };
        // The pod may have moved to another source since: what that one remembers must have been heard.
        let silent = self.sources.iter().find(|(_, state)| !state.heard).map(|(source, _)| source);
        if let Some(waited) = Some(&source).filter(|s| !self.merge.ready(**s)).or(silent) {
            return Verdict::Wait(format!("source {waited} has not been read since podkeeper began"));
        }
        match owner.and_then(|owner| owner.origin.as_deref()) {
            Some(path) if self.merge.is_broken(source, path) => Verdict::Keep(path.to_owned()),
            _ => Verdict::Stop,
        }
    }
}
