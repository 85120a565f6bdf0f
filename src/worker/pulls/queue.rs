//! The pods that wait for each image, and the next pull. Pure.
//!
//! Requests for the same image with the same credentials are one pull, and all of them get its result. Loading the
//! built-in sandbox image does not wait for a registry. Checks for a newer version of a local image run in addition to
//! the pulls, so that such a pod does not wait for other pods' pulls. Each source has its own places: a slow registry
//! of one source does not delay pods of another source.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Set;
use crate::image::credentials::DockerConfig;
use crate::image::reference;
use crate::machine::PullRequest;
use crate::pod::Source;

use super::stop::Stop;

/// Requests with equal keys are one pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// The full name.
    image: String,
    builtin: bool,
    credentials: Vec<Arc<DockerConfig>>,
}

impl Key {
    fn of(request: &PullRequest) -> Key {
        let image = reference::normal(&request.image);
        Key { image, builtin: request.builtin, credentials: request.credentials.clone() }
    }
}

/// A pull that may begin.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// For [`Queue::done`].
    pub(super) key: Key,
    /// One of the requests for this pull.
    pub(super) request: PullRequest,
    /// It began before its turn, because its image may be on the node: see [`Queue::defer`].
    pub(super) check: bool,
    /// Ends the pull.
    pub(super) stop: Option<Arc<Stop>>,
}

#[derive(Debug)]
struct Group<A> {
    key: Key,
    /// The image may be on the node, and some of the requesting pods may use it.
    check: bool,
    asks: Vec<(PullRequest, A)>,
    /// The source whose place it has, while it runs.
    holder: Option<Source>,
    /// Ends the pull, while it runs; `None` if the system had no descriptor left.
    stop: Option<Arc<Stop>>,
    /// Since when it runs without receiving a byte of a layer.
    bare: Option<Mono>,
    /// Docker had no copy when the pull began.
    is_new: bool,
}

impl<A> Group<A> {
    /// Whether Docker has not started its downloads for so long that other pulls may occupy all of them.
    fn is_starved(&self, now: Mono) -> bool {
        self.bare.is_some_and(|since| now.since(since) >= limits::PULL_STARVED)
    }

    /// A pod of this source was the first to ask: the image takes a place of that source in the queue.
    fn is_first_of(&self, source: Source) -> bool {
        self.asks.first().is_some_and(|(request, _)| request.source == source)
    }

    fn asks_of(&self, source: Source) -> usize {
        self.asks.iter().filter(|(request, _)| request.source == source).count()
    }

    /// The first of these sources that wants it.
    fn wanted_by(&self, free: &[Source]) -> Option<Source> {
        self.asks.iter().map(|(request, _)| request.source).find(|source| free.contains(source))
    }
}

/// See the module. `A` is the destination of an answer.
#[derive(Debug)]
pub(super) struct Queue<A> {
    waiting: VecDeque<Group<A>>,
    running: Vec<Group<A>>,
    at_once: usize,
    /// Sources whose pods are evicted first; their pulls are stopped in favor of others'.
    behind: Set<Source>,
}

impl<A> Queue<A> {
    /// A queue with at most this many pulls of one source at a time.
    pub(super) fn new(at_once: usize, behind: Set<Source>) -> Queue<A> {
        Queue { waiting: VecDeque::new(), running: Vec::new(), at_once: at_once.max(1), behind }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Too many of its source wait already; both are given back.
    pub(super) fn add(&mut self, request: PullRequest, answer: A) -> Result<(), (PullRequest, A)> {
        let key = Key::of(&request);
        let source = request.source;
        let full =
            self.waiting.iter().filter(|group| group.is_first_of(source)).count() >= limits::PULL_QUEUE;
        match self.running.iter_mut().chain(&mut self.waiting).find(|group| group.key == key) {
            Some(group) if group.asks_of(source) < limits::PULL_ASKERS => group.asks.push((request, answer)),
            None if !full => {
                let check = request.local_copy_will_do;
                let asks = vec![(request, answer)];
                self.waiting.push_back(Group {
                    key,
                    check,
                    asks,
                    holder: None,
                    stop: None,
                    bare: None,
                    is_new: false,
                });
            }
            _ => return Err((request, answer)),
        }
        Ok(())
    }

    /// The next pull to begin, if one may begin. Requests whose sender is not `alive` any more are dropped.
    pub(super) fn next(&mut self, alive: impl Fn(&A) -> bool) -> Option<Job> {
        for group in &mut self.waiting {
            group.asks.retain(|(_, answer)| alive(answer));
        }
        self.waiting.retain(|group| !group.asks.is_empty());
        let (pulls, checks) = (self.free(false), self.free(true));
        let place = |group: &Group<A>| group.wanted_by(if group.check { &checks } else { &pulls });
        let at = self.waiting.iter().position(|group| group.key.builtin || place(group).is_some())?;
        let mut group = self.waiting.remove(at)?;
        (group.holder, group.stop) = (place(&group), Stop::new().ok().map(Arc::new));
        let job = group.asks.first().map(|(request, _)| Job {
            key: group.key.clone(),
            request: request.clone(),
            check: group.check,
            stop: group.stop.clone(),
        });
        self.running.push(group);
        job
    }

    /// Sources with a free place for a pull, or for a check.
    fn free(&self, check: bool) -> Vec<Source> {
        let most = if check { limits::REGISTRY_CHECKS } else { self.at_once };
        let running = |source| {
            let same = |group: &&Group<A>| {
                !group.key.builtin && group.check == check && group.holder == Some(source)
            };
            self.running.iter().filter(same).count()
        };
        Source::ALL.into_iter().filter(|source| running(*source) < most).collect()
    }

    /// Whether a pull runs of this image, of which there was no copy. Otherwise pods may use the copy meanwhile.
    pub(super) fn brings(&self, image: &str) -> bool {
        let image = reference::normal(image);
        self.running.iter().any(|group| group.is_new && group.key.image == image)
    }

    /// The pull is about to ask its registry. `is_new`: Docker has no copy.
    pub(super) fn begins(&mut self, key: &Key, is_new: bool, now: Mono) {
        self.group(key).into_iter().for_each(|group| (group.bare, group.is_new) = (Some(now), is_new));
    }

    /// The first layer is being downloaded, or exists.
    pub(super) fn moves(&mut self, key: &Key) {
        self.group(key).into_iter().for_each(|group| group.bare = None);
    }

    fn group(&mut self, key: &Key) -> Option<&mut Group<A>> {
        self.running.iter_mut().find(|group| group.key == *key)
    }

    /// Whether another pull waits for this one's place: in this queue, or among Docker's downloads, of which it runs
    /// three at a time for all sources together (`max-concurrent-downloads`).
    pub(super) fn is_in_the_way(&self, key: &Key, now: Mono) -> bool {
        let Some(group) = self.running.iter().find(|group| group.key == *key) else { return false };
        let holder = group.holder.as_slice();
        self.waiting.iter().any(|other| other.check == group.check && other.wanted_by(holder).is_some())
            || self.running.iter().any(|other| other.key != *key && other.is_starved(now))
    }

    /// Whether pulls of this source are stopped in favor of others'.
    pub(super) fn is_behind(&self, source: Source) -> bool {
        self.behind.contains(&source)
    }

    /// Whether this pull's source is behind others, and Docker has no download left for another source: then the pull
    /// is stopped, even if it is fast.
    pub(super) fn gives_way(&self, key: &Key, now: Mono) -> bool {
        let is_behind = |group: &Group<A>| group.holder.is_some_and(|source| self.is_behind(source));
        self.running.iter().any(|group| group.key == *key && is_behind(group))
            && self.running.iter().any(|other| !is_behind(other) && other.is_starved(now))
    }

    /// Drops requests whose sender is not `alive` any more, and ends pulls that no pod waits for.
    pub(super) fn drop_unwanted(&mut self, alive: impl Fn(&A) -> bool) {
        for group in self.waiting.iter_mut().chain(&mut self.running) {
            group.asks.retain(|(_, answer)| alive(answer));
        }
        self.waiting.retain(|group| !group.asks.is_empty());
        for stop in
            self.running.iter().filter(|group| group.asks.is_empty()).filter_map(|group| group.stop.as_ref())
        {
            stop.give_up("nobody waits for it any more".to_owned());
        }
    }

    /// The image of a check is not on the node: it has to be pulled, and gets the first place in the queue.
    pub(super) fn defer(&mut self, key: &Key) {
        if let Some(at) = self.running.iter().position(|group| group.key == *key) {
            let group = self.running.swap_remove(at);
            self.waiting.push_front(Group {
                check: false,
                holder: None,
                stop: None,
                bare: None,
                is_new: false,
                ..group
            });
        }
    }

    /// The requests for a running pull.
    pub(super) fn askers(&self, key: &Key) -> impl Iterator<Item = &(PullRequest, A)> {
        self.running.iter().filter(move |group| group.key == *key).flat_map(|group| &group.asks)
    }

    /// Ends a pull. Returns its requests.
    pub(super) fn done(&mut self, key: &Key) -> Vec<(PullRequest, A)> {
        match self.running.iter().position(|group| group.key == *key) {
            Some(at) => self.running.swap_remove(at).asks,
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
