//! Stops that an earlier daemon had begun: what was told to end goes on ending, and nothing of it begins anew before.
//!
//! Never here: an order without the pod, where its server tells of it in time.

use crate::base::clock::Now;
use crate::base::human::many;
use crate::base::limits;
use crate::base::table::Table;
use crate::daemon::turn::Turn;
use crate::daemon::turn::due::Due;
use crate::machine::{StopOrder, Wish};
use crate::plan::{Owned, RunState};
use crate::pod::{PodKey, Source};

/// What becomes of the stop of a pod that its silent source has not told yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon::turn) enum Untold {
    Wait,
    /// It goes on: others may need what the pod holds.
    Stop,
}

impl Turn {
    /// Goes on with the stops of an earlier daemon, whatever has become of their reason: a container may have got its signal,
    /// and its end must not be taken for the end of a pod that runs once. Where the next life has begun, or the pod itself was
    /// not stopped, its worker runs again what was killed.
    pub(super) fn finish_stops(&mut self, now: &Now) {
        let stops = self.docker.found.iter().flat_map(|(key, all)| {
            let has_begun = |c: &&Owned| c.killed || c.state != RunState::Created;
            let newest = |uid: &str| {
                let sandboxes = all.iter().filter(|c| c.is_sandbox() && c.uid == *uid).filter(has_begun);
                sandboxes.max_by_key(|c| c.attempt)
            };
            let killed = all.iter().filter(|c| c.killed && !c.is_sandbox()).map(|c| &c.uid);
            // One that another pod follows is stopped by that one's worker.
            let is_followed = |uid: &&String| {
                all.iter().any(|c| c.uid != **uid && !c.killed && c.state != RunState::Created)
            };
            let is_stopped = |uid: &&String| newest(uid).is_none_or(|sandbox| sandbox.killed);
            let uid = killed.filter(is_stopped).find(|uid| !is_followed(uid));
            uid.map(|uid| (key.clone(), uid.clone()))
        });
        self.docker.unfinished = stops.collect();
        self.go_on_with_stops(Untold::Wait);
        if !self.docker.unfinished.is_empty() {
            let line = format!(
                "podkeeper was stopping {} when it ended itself: that goes on when their sources have been read, at the latest in {} s",
                many(self.docker.unfinished.len(), "pod"),
                limits::STOPS_UNTOLD.as_secs()
            );
            self.log(log::Level::Info, line);
            self.due.push(now.mono.after(limits::STOPS_UNTOLD), Due::Unfinished);
        }
    }

    /// Gives the orders for those of these stops of whose pods enough is known. Each comes with the pod, where its source tells
    /// of it in time: one that had ended for good stays so, and the exit codes of an API server's pod are told. Nothing that
    /// was told to end begins anew meanwhile.
    pub(in crate::daemon::turn) fn go_on_with_stops(&mut self, untold: Untold) {
        let mut waiting = Table::new();
        for (key, uid) in &std::mem::take(&mut self.docker.unfinished) {
            if self.entries.get(key).is_some_and(|entry| entry.worker.is_some()) {
                // Its worker stops it, in a drain or for another pod of this name.
                continue;
            }
            let pod = self.merge.get(key).filter(|pod| pod.uid == *uid).cloned();
            let deleted = self.docker.deleted.get(key).filter(|pod| pod.uid == *uid);
            let is_untold = pod.is_none() && deleted.is_none() && self.is_of_silent(key);
            if untold == Untold::Wait && is_untold {
                waiting.insert(key.clone(), uid.clone());
                continue;
            }
            self.docker.finishing.insert(key.clone());
            // A deletion has its own grace period.
            let order = if self.docker.deleted.contains_key(key) {
                self.order_for(key)
            } else {
                let order = StopOrder::new(None, "podkeeper was stopping it when it ended itself");
                let is_evicted =
                    self.node.evicted_earlier.get(&key.to_string()).is_some_and(|it| it.uid == *uid);
                match pod {
                    // Its server was told that it has failed, and makes another one.
                    Some(pod) if is_evicted && pod.source == Source::Api => {
                        StopOrder { pod: Some(pod), ..order }
                    }
                    // It comes back, unless it had ended for good.
                    Some(pod) => order.unless_ended(Some(pod)),
                    None => order,
                }
            };
            self.wish(key, Wish::Stop(order));
        }
        self.docker.unfinished = waiting;
    }

    /// The same, when a source has told of pods. What a server is about to have stopped, and has no more, gets that order.
    pub(in crate::daemon::turn) fn go_on_with_told_stops(&mut self) {
        if self.docker.unfinished.is_empty() {
            return;
        }
        let unfinished = std::mem::take(&mut self.docker.unfinished);
        let is_ready = self.merge.ready(Source::Api);
        let is_api = |key: &PodKey| self.made_by(key) == Some(Source::Api);
        let of = |key: &PodKey, uid: &String| self.merge.get(key).filter(|pod| pod.uid == *uid);
        let left = unfinished.iter().filter(|(key, uid)| match of(key, uid) {
            Some(pod) => pod.metadata.deletion_timestamp.is_none(),
            None => !is_ready || !is_api(key),
        });
        let left = left.filter(|(key, _)| self.docker.found.contains_key(*key));
        self.docker.unfinished = left.map(|(key, uid)| (key.clone(), uid.clone())).collect();
        self.go_on_with_stops(Untold::Wait);
    }

    /// Another order has been given for what an earlier daemon was stopping.
    pub(in crate::daemon::turn) fn forget_unfinished(&mut self, key: &PodKey) {
        self.docker.unfinished.remove(key);
    }

    /// Whether the source that has made what runs under this name has told nothing yet.
    pub(in crate::daemon::turn) fn is_of_silent(&self, key: &PodKey) -> bool {
        let source = self.made_by(key);
        source.is_some_and(|source| self.sources.contains_key(&source) && !self.merge.ready(source))
    }

    /// Whether an earlier daemon was stopping this pod, and no order was given for it yet.
    pub(in crate::daemon::turn) fn is_unfinished(&self, key: &PodKey, uid: &str) -> bool {
        self.docker.unfinished.get(key).is_some_and(|of| of == uid)
    }
}
