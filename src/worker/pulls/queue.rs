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

    /// Whether there are sources whose pulls are stopped in favor of others'.
    pub(super) fn has_behind(&self) -> bool {
        !self.behind.is_empty()
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
mod tests {
    use super::*;
    use crate::image::credentials::Format;

    fn request(image: &str) -> PullRequest {
        PullRequest {
            image: image.into(),
            builtin: false,
            local_copy_will_do: false,
            credentials: Vec::new(),
            source: Source::File,
        }
    }

    fn at(seconds: u64) -> Mono {
        Mono(std::time::Duration::from_secs(seconds))
    }

    fn next(queue: &mut Queue<u32>) -> Option<Job> {
        queue.next(|asker| *asker < 100)
    }

    fn askers(asks: Vec<(PullRequest, u32)>) -> Vec<u32> {
        asks.into_iter().map(|(_, asker)| asker).collect()
    }

    #[test]
    fn one_after_the_other_in_the_order_of_asking() {
        let mut queue = Queue::new(1, Set::new());
        for (n, image) in ["a:1", "b:1", "a:1"].into_iter().enumerate() {
            queue.add(request(image), n as u32).unwrap();
        }
        let first = next(&mut queue).unwrap();
        assert!(next(&mut queue).is_none());
        // One more request for the image that is being pulled.
        queue.add(request("docker.io/library/a:1"), 7).unwrap();
        assert_eq!(queue.askers(&first.key).count(), 3);
        assert_eq!(askers(queue.done(&first.key)), [0, 2, 7]);
        let second = next(&mut queue).unwrap();
        assert_eq!(second.request.image, "b:1");
        assert_eq!(askers(queue.done(&second.key)), [1]);
        assert!(next(&mut queue).is_none());
        assert!(queue.done(&second.key).is_empty());
    }

    #[test]
    fn several_at_once() {
        let mut queue = Queue::new(3, Set::new());
        for n in 0..5 {
            queue.add(request(&format!("a:{n}")), n).unwrap();
        }
        let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(begun.len(), 3);
        queue.done(&begun[1].key);
        assert_eq!(next(&mut queue).unwrap().request.image, "a:3");
        assert!(next(&mut queue).is_none());
    }

    #[test]
    fn the_sandbox_image_waits_for_nobody() {
        let mut queue = Queue::new(1, Set::new());
        queue.add(request("slow:1"), 0).unwrap();
        next(&mut queue).unwrap();
        queue.add(request("b:1"), 1).unwrap();
        queue.add(PullRequest { builtin: true, ..request("pause:1") }, 2).unwrap();
        assert!(next(&mut queue).unwrap().request.builtin);
        assert!(next(&mut queue).is_none());
    }

    /// Pods whose image is on the node do not wait for the pulls of others.
    #[test]
    fn what_may_be_here_is_asked_for_besides_the_pulls() {
        let lenient = |image: &str| PullRequest { local_copy_will_do: true, ..request(image) };
        let mut queue = Queue::new(1, Set::new());
        queue.add(request("slow:1"), 0).unwrap();
        queue.add(request("slow:2"), 1).unwrap();
        for n in 0..limits::REGISTRY_CHECKS as u32 + 1 {
            queue.add(lenient(&format!("here:{n}")), 10 + n).unwrap();
        }
        let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(begun.len(), 1 + limits::REGISTRY_CHECKS);
        assert!(!begun[0].check && begun[1..].iter().all(|job| job.check));
        // One of the images is missing: it is pulled in turn, and its place is free.
        queue.defer(&begun[1].key);
        assert_eq!(next(&mut queue).unwrap().request.image, "here:4");
        assert!(next(&mut queue).is_none());
        assert_eq!(askers(queue.done(&begun[0].key)), [0]);
        let deferred = next(&mut queue).unwrap();
        assert_eq!((deferred.request.image.as_str(), deferred.check), ("here:0", false));
        assert_eq!(askers(queue.done(&deferred.key)), [10]);
        assert_eq!(next(&mut queue).unwrap().request.image, "slow:2");
    }

    #[test]
    fn other_credentials_are_another_pull() {
        let config = |user: &str| {
            let text = format!(r#"{{"r.io": {{"username": "{user}"}}}}"#);
            Arc::new(DockerConfig::parse(text.as_bytes(), Format::DockerCfg).unwrap())
        };
        let with = |user: &str| PullRequest { credentials: vec![config(user)], ..request("r.io/a:1") };
        let mut queue = Queue::new(9, Set::new());
        for (n, ask) in [with("u"), with("u"), with("v"), request("r.io/a:1")].into_iter().enumerate() {
            queue.add(ask, n as u32).unwrap();
        }
        let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
        let told: Vec<Vec<u32>> = begun.iter().map(|job| askers(queue.done(&job.key))).collect();
        assert_eq!(told, [vec![0, 1], vec![2], vec![3]]);
    }

    #[test]
    fn who_is_gone_is_not_pulled_for() {
        let mut queue = Queue::new(1, Set::new());
        queue.add(request("gone:1"), 100).unwrap();
        queue.add(request("b:1"), 100).unwrap();
        queue.add(request("b:1"), 1).unwrap();
        let job = next(&mut queue).unwrap();
        assert_eq!(job.request.image, "b:1");
        assert_eq!(askers(queue.done(&job.key)), [1]);
    }

    #[test]
    fn a_registry_of_one_source_keeps_no_pod_of_another_waiting() {
        let of = |source: Source, image: &str| PullRequest { source, ..request(image) };
        let mut queue = Queue::new(1, Set::new());
        queue.add(of(Source::Api, "drip:1"), 0).unwrap();
        let drip = next(&mut queue).unwrap();
        assert!(!queue.is_in_the_way(&drip.key, at(0)));
        queue.add(of(Source::File, "inno:1"), 1).unwrap();
        assert!(!queue.is_in_the_way(&drip.key, at(0)));
        let inno = next(&mut queue).unwrap();
        assert_eq!(inno.request.image, "inno:1");
        queue.add(of(Source::Api, "late:1"), 2).unwrap();
        assert!(queue.is_in_the_way(&drip.key, at(0)) && !queue.is_in_the_way(&inno.key, at(0)));
        assert!(next(&mut queue).is_none());
        // The source with a free place begins it.
        queue.add(of(Source::Http, "late:1"), 3).unwrap();
        let late = next(&mut queue).unwrap();
        assert_eq!(askers(queue.done(&late.key)), [2, 3]);
        assert!(!queue.is_in_the_way(&drip.key, at(0)));
    }

    /// Regression: one very slow pull had all three of Docker's downloads, and the pull of another source failed.
    #[test]
    fn a_pull_to_which_docker_gives_no_download_waits_for_the_place_of_the_others() {
        let mut queue = Queue::new(1, Set::new());
        queue.add(PullRequest { source: Source::Http, ..request("drip:1") }, 0).unwrap();
        queue.add(request("inno:1"), 1).unwrap();
        let (drip, inno) = (next(&mut queue).unwrap(), next(&mut queue).unwrap());
        queue.begins(&drip.key, false, at(0));
        assert!(!queue.is_in_the_way(&drip.key, at(500)), "the other has not asked yet");
        queue.moves(&drip.key);
        queue.begins(&inno.key, false, at(500));
        let starved = at(500).after(limits::PULL_STARVED);
        assert!(!queue.is_in_the_way(&drip.key, at(501)) && queue.is_in_the_way(&drip.key, starved));
        assert!(!queue.is_in_the_way(&inno.key, starved), "it waits for itself only");
        assert!(!queue.gives_way(&drip.key, starved), "among equals only what hardly moves gives way");
        queue.behind.insert(Source::Http);
        assert!(queue.gives_way(&drip.key, starved) && !queue.gives_way(&drip.key, at(501)));
        assert!(!queue.gives_way(&inno.key, starved));
        queue.moves(&inno.key);
        assert!(!queue.is_in_the_way(&drip.key, starved));
    }

    #[test]
    fn a_pull_that_nobody_waits_for_any_more_is_given_up() {
        let mut queue = Queue::new(9, Set::new());
        for (n, image) in ["a:1", "b:1", "a:1"].into_iter().enumerate() {
            queue.add(request(image), n as u32).unwrap();
        }
        let (a, b) = (next(&mut queue).unwrap(), next(&mut queue).unwrap());
        let why = |job: &Job| job.stop.as_ref().and_then(|stop| stop.why().map(str::to_owned));
        queue.drop_unwanted(|asker| *asker != 0);
        assert_eq!((why(&a), why(&b)), (None, None));
        queue.drop_unwanted(|asker| *asker == 1);
        assert_eq!((why(&a).as_deref(), why(&b)), (Some("nobody waits for it any more"), None));
        assert!(queue.done(&a.key).is_empty() && askers(queue.done(&b.key)) == [1]);
    }

    #[test]
    fn a_full_queue_gives_back() {
        let mut queue = Queue::new(1, Set::new());
        for n in 0..limits::PULL_QUEUE {
            queue.add(request(&format!("a:{n}")), 0).unwrap();
        }
        assert_eq!(queue.add(request("one:more"), 5).unwrap_err().1, 5);
        queue.add(request("a:0"), 6).unwrap();
    }

    /// One source named so many images of a registry that says nothing that no pod of another source could wait.
    #[test]
    fn a_source_that_fills_its_queue_keeps_no_pod_of_another_from_waiting() {
        let of = |source: Source, image: &str| PullRequest { source, ..request(image) };
        let mut queue = Queue::new(1, Set::new());
        for n in 0..=limits::PULL_QUEUE {
            queue.add(of(Source::Http, &format!("silent:{n}")), 0).unwrap();
            next(&mut queue);
        }
        assert!(queue.add(of(Source::Http, "one:more"), 1).is_err());
        for asker in 0..limits::PULL_ASKERS as u32 - 1 {
            queue.add(of(Source::Http, "silent:1"), asker % 100).unwrap();
        }
        assert!(queue.add(of(Source::Http, "silent:1"), 1).is_err());
        queue.add(of(Source::File, "silent:1"), 2).unwrap();
        queue.add(of(Source::File, "inno:1"), 3).unwrap();
        let begun: Vec<String> =
            std::iter::from_fn(|| next(&mut queue)).map(|job| job.request.image).collect();
        assert_eq!(begun, ["silent:1"], "the image that both want comes first");
    }
}
