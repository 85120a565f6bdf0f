//! Messages to a pod worker that are not read yet: the latest wish wins, and a kill is never overwritten (upstream
//! `pkg/kubelet/pod_workers.go`; kubernetes/kubernetes#107733). Its size is bounded. `worker/mailbox` makes it
//! thread-safe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Input;
use crate::base::limits;
use crate::base::table::Set;
use crate::cgroup;
use crate::cni;
use crate::pod::DesiredPod;
use crate::pod::object::Objects;
use crate::probe::prober::News;
use crate::volumes;

/// What an order to stop a pod is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A pod that its source has deleted: none of its containers runs again, and all their ends are its own.
    Deleted,
    /// All that is there: the pod is not wanted any more.
    Anything,
    /// A pod that goes on. When its containers had ended for good before a signal reached them, it has ended, and Docker told
    /// it late: stopped as a whole, it would run a second time when it comes back.
    Unfinished,
}

/// An order to stop a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct StopOrder {
    /// Seconds of grace in place of the pod's own. The shortest of several orders counts.
    pub grace: Option<u32>,
    /// The reason, for the log.
    pub why: &'static str,
    /// What the order is for.
    pub target: Target,
    /// The pod, where its worker may not know it yet: the containers are that pod's.
    pub pod: Option<Arc<DesiredPod>>,
}

impl StopOrder {
    /// An order to stop a pod that is known, or whose manifest is missing.
    #[must_use]
    pub const fn new(grace: Option<u32>, why: &'static str) -> StopOrder {
        StopOrder { grace, why, target: Target::Anything, pod: None }
    }

    /// The same order, for a pod that comes back later: one that has ended by itself meanwhile is left alone.
    #[must_use]
    pub fn unless_ended(self, pod: Option<Arc<DesiredPod>>) -> StopOrder {
        StopOrder { target: Target::Unfinished, pod, ..self }
    }

    /// Combines this order with a later one.
    #[must_use]
    pub fn and(self, later: StopOrder) -> StopOrder {
        let grace = self.grace.into_iter().chain(later.grace).min();
        StopOrder {
            grace,
            why: later.why,
            target: self.target.min(later.target),
            pod: later.pod.or(self.pod),
        }
    }
}

/// The sync loop's wish for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// Keep this pod running.
    Run(Arc<DesiredPod>),
    /// Stop whatever runs under this identity, and forget it.
    Stop(StopOrder),
}

/// Something may have changed in Docker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Look at everything.
    All,
    /// This container was made, perhaps by an earlier daemon's call after this daemon's list.
    Made(String),
    /// This container started.
    Started(String),
    /// This container died or changed otherwise.
    Changed(String),
    /// This container has another name, and may run on.
    Renamed(String),
    /// The kernel killed a process of this container for lack of memory.
    OutOfMemory(String),
    /// This container was removed.
    Removed(String),
    /// These images, by full name, are here without a pull.
    Images(Vec<String>),
    /// Each container may keep only so many dead instances: the node has too many in all.
    Dead(usize),
    /// The operator wants images to be tried again at once, after any failure.
    Retry,
}

/// The pull thread's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// As requested.
    pub image: String,
    /// The result.
    pub outcome: PullOutcome,
    /// Duration of the pull itself.
    pub took: Duration,
    /// Bytes of the image, if Docker reports them.
    pub size: Option<u64>,
}

/// The result of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullOutcome {
    /// The image is here, freshly pulled (or loaded).
    Done,
    /// The registry could not be reached, for this reason; an older copy is here and is used.
    LocalCopy(String),
    /// The image is not here, for this reason.
    Failed(String),
}

/// Unread messages. Pure.
#[derive(Debug, Default)]
pub struct Slot {
    unread: Inbox,
}

/// The messages that a worker reads at once: the kill comes before the run.
#[derive(Debug, Default, PartialEq)]
pub struct Inbox {
    /// Stop first.
    pub stop: Option<StopOrder>,
    /// Then run this.
    pub run: Option<Arc<DesiredPod>>,
    /// All local objects that the wanted pod refers to: they are known before it runs.
    pub objects: Option<Arc<Objects>>,
    /// Containers to look at.
    pub looks: Looks,
    /// Pulls that ended.
    pub pulled: Vec<Pulled>,
    /// Progress of pulls, by image as requested.
    pub pulling: BTreeMap<String, String>,
    /// Images, by full name, that are here without a pull.
    pub images: Set<String>,
    /// Number of dead instances that each container may keep.
    pub dead: Option<usize>,
    /// Images are to be tried again.
    pub retry: bool,
    /// Changed results of probes, and hooks that ended: the latest of each.
    pub news: Vec<News>,
    /// Reports about volumes: one for each order.
    pub volumes: Vec<volumes::Report>,
    /// Number of wishes put into this slot since it was made, read ones and overwritten ones included.
    pub wishes: u64,
    /// Reports about cgroups: one for each order.
    pub cgroups: Vec<cgroup::Report>,
    /// Reports about networks: at most two for each order.
    pub networks: Vec<cni::Report>,
}

/// Containers to look at, by what happened to them.
#[derive(Debug, Default, PartialEq)]
pub struct Looks {
    /// Look at everything.
    pub all: bool,
    /// Containers that were made.
    pub made: Set<String>,
    /// Containers that started.
    pub started: Set<String>,
    /// Containers that died or changed otherwise.
    pub changed: Set<String>,
    /// Containers in which a process was killed for lack of memory.
    pub out_of_memory: Set<String>,
    /// Containers that are gone.
    pub removed: Set<String>,
}

impl Looks {
    /// Replaces many single looks by a look at everything. A kill for lack of memory stays: no look shows it. A death
    /// stays, too: Docker tells it before its list shows it (moby's `daemon/monitor.go` logs `die`, cleans up, and then
    /// writes the state that lists read), and only an inspect waits for that.
    fn shrink(&mut self) {
        self.all |= self.len() > limits::MAILBOX_HINTS;
        if self.all {
            self.made.clear();
            self.started.clear();
            self.removed.clear();
        }
    }

    /// Adds a container that died or changed otherwise. Beyond so many, lists alone must show the others.
    fn died(&mut self, id: String) {
        match self.changed.len() < limits::MAILBOX_HINTS {
            true => _ = self.changed.insert(id),
            false => self.all = true,
        }
    }

    /// Number of containers, counted once for each reason.
    fn len(&self) -> usize {
        self.made.len()
            + self.started.len()
            + self.changed.len()
            + self.out_of_memory.len()
            + self.removed.len()
    }
}

impl Inbox {
    /// The inputs for the machine, in the order that counts: a stop before the next run, and a pod's local objects
    /// before the pod.
    pub fn inputs(self) -> impl Iterator<Item = Input> {
        // All fields are named, so that the compiler reports one without an input.
        let Inbox {
            stop,
            run,
            objects,
            looks,
            pulled,
            pulling,
            images,
            dead,
            retry,
            news,
            volumes,
            wishes,
            cgroups,
            networks,
        } = self;
        let Looks { all: everything, made, started, changed, out_of_memory, removed } = looks;
        let mut all = vec![Input::Wishes(wishes)];
        let hints = |ids: Set<String>, hint: fn(String) -> Hint| ids.into_iter().map(hint).map(Input::Hint);
        all.extend(stop.map(|order| Input::Wish(Wish::Stop(order))));
        all.extend(objects.map(Input::Objects));
        all.extend(run.map(|pod| Input::Wish(Wish::Run(pod))));
        all.extend(everything.then_some(Input::Hint(Hint::All)));
        all.extend(hints(made, Hint::Made));
        all.extend(hints(started, Hint::Started));
        all.extend(hints(out_of_memory, Hint::OutOfMemory));
        all.extend(hints(changed, Hint::Changed));
        all.extend(hints(removed, Hint::Removed));
        all.extend(pulling.into_iter().map(|(image, words)| Input::Pulling { image, words }));
        all.extend(news.into_iter().map(Input::News));
        all.extend(pulled.into_iter().map(Input::Pulled));
        all.extend(cgroups.into_iter().map(Input::Cgroup));
        all.extend(networks.into_iter().map(Input::Network));
        all.extend(volumes.into_iter().map(Input::Volumes));
        let images: Vec<String> = images.into_iter().collect();
        all.extend((!images.is_empty()).then_some(Input::Hint(Hint::Images(images))));
        all.extend(dead.map(|allowed| Input::Hint(Hint::Dead(allowed))));
        all.extend(retry.then_some(Input::Hint(Hint::Retry)));
        all.into_iter()
    }
}

impl Slot {
    /// Adds a wish.
    pub fn wish(&mut self, wish: Wish) {
        self.unread.wishes += 1;
        match wish {
            Wish::Run(pod) => self.unread.run = Some(pod),
            Wish::Stop(order) => {
                self.unread.run = None;
                self.unread.stop = Some(match self.unread.stop.take() {
                    Some(earlier) => earlier.and(order),
                    None => order,
                });
            }
        }
    }

    /// Adds local objects: the latest snapshot counts.
    pub fn objects(&mut self, objects: Arc<Objects>) {
        self.unread.objects = Some(objects);
    }

    /// Adds a hint. Past [`limits::MAILBOX_HINTS`] single ones it becomes "look at everything".
    pub fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::All => self.unread.looks.all = true,
            Hint::Made(id) => _ = self.unread.looks.made.insert(id),
            Hint::Started(id) => _ = self.unread.looks.started.insert(id),
            Hint::Changed(id) | Hint::Renamed(id) => self.unread.looks.died(id),
            // No look shows it, so it is kept beside "look at everything"; so many are never killed at once.
            Hint::OutOfMemory(id) => {
                if self.unread.looks.out_of_memory.len() < limits::MAILBOX_HINTS {
                    self.unread.looks.out_of_memory.insert(id);
                }
            }
            Hint::Removed(id) => _ = self.unread.looks.removed.insert(id),
            // Bounded by the images of the preload directory.
            Hint::Images(names) => self.unread.images.extend(names),
            Hint::Dead(allowed) => self.unread.dead = Some(allowed),
            Hint::Retry => self.unread.retry = true,
        }
        self.unread.looks.shrink();
    }

    /// Adds a finished pull; bounded by the pod's images, each with at most one pull.
    pub fn pulled(&mut self, pulled: Pulled) {
        self.unread.pulled.retain(|p| p.image != pulled.image);
        self.unread.pulling.remove(&pulled.image);
        self.unread.pulled.push(pulled);
    }

    /// Notes the progress of a pull; bounded like [`Slot::pulled`].
    pub fn pulling(&mut self, image: String, words: String) {
        self.unread.pulling.insert(image, words);
    }

    /// Adds the result of a probe or a hook; the latest of each counts. Past [`limits::MAILBOX_NEWS`] the first is
    /// dropped: so many never run at once.
    pub fn news(&mut self, news: News) {
        self.unread.news.retain(|old| !old.is_about(&news));
        if self.unread.news.len() >= limits::MAILBOX_NEWS {
            self.unread.news.remove(0);
        }
        self.unread.news.push(news);
    }

    /// Adds a report about volumes; bounded by the orders.
    pub fn volumes(&mut self, report: volumes::Report) {
        self.unread.volumes.push(report);
    }

    /// Adds a report about a cgroup; bounded by the orders.
    pub fn cgroup(&mut self, report: cgroup::Report) {
        self.unread.cgroups.push(report);
    }

    /// Adds a report about a network; bounded by the orders.
    pub fn network(&mut self, report: cni::Report) {
        self.unread.networks.push(report);
    }

    /// Takes everything unread.
    pub fn take(&mut self) -> Inbox {
        let wishes = self.unread.wishes;
        std::mem::replace(&mut self.unread, Inbox { wishes, ..Inbox::default() })
    }
}
