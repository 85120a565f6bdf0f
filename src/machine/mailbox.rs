//! What is told to a pod worker and not yet read: the latest wish wins, and a kill is never overwritten
//! (upstream `pkg/kubelet/pod_workers.go`; kubernetes/kubernetes#107733). Bounded whatever is sent. The
//! thread-safe box around it is `worker/mailbox`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Input;
use crate::base::limits;
use crate::cgroup;
use crate::cni;
use crate::pod::DesiredPod;
use crate::pod::object::Objects;
use crate::probe::prober::News;
use crate::volumes;

/// How a pod is to be stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct StopOrder {
    /// Seconds of grace instead of the pod's own. Of several orders the shortest counts.
    pub grace: Option<u32>,
    /// Why, for the log.
    pub why: &'static str,
    /// The pod, when its source had deleted it before this daemon knew it: what runs under the identity is that pod.
    pub pod: Option<Arc<DesiredPod>>,
}

impl StopOrder {
    /// An order about a pod that is known, or whose manifest is not there.
    #[must_use]
    pub const fn new(grace: Option<u32>, why: &'static str) -> StopOrder {
        StopOrder { grace, why, pod: None }
    }

    /// This order and a later one.
    #[must_use]
    pub fn and(self, later: StopOrder) -> StopOrder {
        let grace = self.grace.into_iter().chain(later.grace).min();
        StopOrder { grace, why: later.why, pod: later.pod.or(self.pod) }
    }
}

/// What the sync loop wants of one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// Keep this running.
    Run(Arc<DesiredPod>),
    /// Stop whatever runs under this identity, and forget it.
    Stop(StopOrder),
}

/// Something may have changed in Docker: look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// At everything.
    All,
    /// At this container, which was made: perhaps by a call of an earlier daemon, after this one's list.
    Made(String),
    /// At this container, which started.
    Started(String),
    /// At this container, which died or changed otherwise.
    Changed(String),
    /// At this container: the kernel killed a process of it for want of memory.
    OutOfMemory(String),
    /// This container was removed.
    Removed(String),
    /// These images, named in full, have come without a pull.
    Images(Vec<String>),
    /// Of each container only so many dead instances may stay: the node has too many in all.
    Dead(usize),
    /// Somebody asks for images to be tried again at once, whatever failed before.
    Retry,
}

/// The pull thread's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// As requested.
    pub image: String,
    /// What happened.
    pub outcome: PullOutcome,
    /// How long the pull itself took.
    pub took: Duration,
    /// Bytes of the image, when Docker says so.
    pub size: Option<u64>,
}

/// How a pull ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullOutcome {
    /// The image is there, freshly pulled (or loaded).
    Done,
    /// The registry could not be reached, and an older copy is there: that one is used.
    LocalCopy(String),
    /// It is not there.
    Failed(String),
}

/// Unread messages. Pure; see the module.
#[derive(Debug, Default)]
pub struct Slot {
    unread: Inbox,
}

/// What a worker reads at once: the kill comes before the run.
#[derive(Debug, Default, PartialEq)]
pub struct Inbox {
    /// Stop first.
    pub stop: Option<StopOrder>,
    /// Then run this.
    pub run: Option<Arc<DesiredPod>>,
    /// Local objects, all that the wanted pod refers to: they are known before it runs.
    pub objects: Option<Arc<Objects>>,
    /// Containers to look at.
    pub looks: Looks,
    /// Pulls that ended.
    pub pulled: Vec<Pulled>,
    /// Pulls that go on: image as requested, and how far it is.
    pub pulling: BTreeMap<String, String>,
    /// Images, named in full, that came without a pull.
    pub images: BTreeSet<String>,
    /// So many dead instances of each container may stay.
    pub dead: Option<usize>,
    /// Images are to be tried again.
    pub retry: bool,
    /// Probe results that changed, and hooks that ended: of each the latest.
    pub news: Vec<News>,
    /// What became of orders about volumes: one of each order.
    pub volumes: Vec<volumes::Report>,
    /// Wishes put into this slot since it was made, read or overwritten.
    pub wishes: u64,
    /// What became of orders about cgroups: one of each order.
    pub cgroups: Vec<cgroup::Report>,
    /// What became of orders about networks: at most two of each order.
    pub networks: Vec<cni::Report>,
}

/// The containers that a worker is told to look at, by what is known to have happened to them.
#[derive(Debug, Default, PartialEq)]
pub struct Looks {
    /// Look at everything.
    pub all: bool,
    /// Look at these, which were made.
    pub made: BTreeSet<String>,
    /// Look at these, which started.
    pub started: BTreeSet<String>,
    /// Look at these.
    pub changed: BTreeSet<String>,
    /// In these a process was killed for want of memory.
    pub out_of_memory: BTreeSet<String>,
    /// These are gone.
    pub removed: BTreeSet<String>,
}

impl Looks {
    /// Looks at everything instead of at many containers one by one. That a process was killed stays: no look
    /// brings it back.
    fn shrink(&mut self) {
        self.all |= self.len() > limits::MAILBOX_HINTS;
        if self.all {
            self.made.clear();
            self.started.clear();
            self.changed.clear();
            self.removed.clear();
        }
    }

    /// Containers to look at, counted once for each reason.
    fn len(&self) -> usize {
        self.made.len()
            + self.started.len()
            + self.changed.len()
            + self.out_of_memory.len()
            + self.removed.len()
    }
}

impl Inbox {
    /// What the machine is told of it, in the order in which it counts: a stop before what runs then, and the local
    /// objects of a pod before the pod.
    pub fn inputs(self) -> impl Iterator<Item = Input> {
        // Taken apart without a rest: the compiler names a field that no input tells.
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
        let hints =
            |ids: BTreeSet<String>, hint: fn(String) -> Hint| ids.into_iter().map(hint).map(Input::Hint);
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

    /// Hands over local objects: the latest snapshot counts.
    pub fn objects(&mut self, objects: Arc<Objects>) {
        self.unread.objects = Some(objects);
    }

    /// Adds a hint. Past [`limits::MAILBOX_HINTS`] single ones it becomes "look at everything".
    pub fn hint(&mut self, hint: Hint) {
        match hint {
            Hint::All => self.unread.looks.all = true,
            Hint::Made(id) => _ = self.unread.looks.made.insert(id),
            Hint::Started(id) => _ = self.unread.looks.started.insert(id),
            Hint::Changed(id) => _ = self.unread.looks.changed.insert(id),
            // No look brings this back: it outlives "look at everything", and so many are not killed at a time.
            Hint::OutOfMemory(id) => {
                if self.unread.looks.out_of_memory.len() < limits::MAILBOX_HINTS {
                    self.unread.looks.out_of_memory.insert(id);
                }
            }
            Hint::Removed(id) => _ = self.unread.looks.removed.insert(id),
            // As many as the preload directory can bring.
            Hint::Images(names) => self.unread.images.extend(names),
            Hint::Dead(allowed) => self.unread.dead = Some(allowed),
            Hint::Retry => self.unread.retry = true,
        }
        self.unread.looks.shrink();
    }

    /// Adds a pull's end; bounded by the pod's images, of which each has one pull at most.
    pub fn pulled(&mut self, pulled: Pulled) {
        self.unread.pulled.retain(|p| p.image != pulled.image);
        self.unread.pulling.remove(&pulled.image);
        self.unread.pulled.push(pulled);
    }

    /// Notes how far a pull is; bounded like [`Slot::pulled`].
    pub fn pulling(&mut self, image: String, words: String) {
        self.unread.pulling.insert(image, words);
    }

    /// Adds what a probe or a hook brought; of each the latest counts. Past [`limits::MAILBOX_NEWS`] the
    /// first goes: so many are not asked at a time.
    pub fn news(&mut self, news: News) {
        self.unread.news.retain(|old| !old.is_about(&news));
        if self.unread.news.len() >= limits::MAILBOX_NEWS {
            self.unread.news.remove(0);
        }
        self.unread.news.push(news);
    }

    /// Adds what became of an order about volumes; bounded by the orders.
    pub fn volumes(&mut self, report: volumes::Report) {
        self.unread.volumes.push(report);
    }

    /// Adds what became of an order about a cgroup; bounded by the orders.
    pub fn cgroup(&mut self, report: cgroup::Report) {
        self.unread.cgroups.push(report);
    }

    /// Adds what became of an order about a network; bounded by the orders.
    pub fn network(&mut self, report: cni::Report) {
        self.unread.networks.push(report);
    }

    /// Takes everything unread.
    pub fn take(&mut self) -> Inbox {
        let wishes = self.unread.wishes;
        std::mem::replace(&mut self.unread, Inbox { wishes, ..Inbox::default() })
    }
}
