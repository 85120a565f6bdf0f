//! Which pods wait for which image, and which pull is next. Pure.
//!
//! Requests that mean the same image with the same credentials are one pull, whose end all of them are
//! told. Loading the built-in sandbox image waits for no registry. A check for a newer version of
//! an image that is here runs besides the pulls, so that no pod waits for those of others.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::limits;
use crate::image::credentials::DockerConfig;
use crate::image::reference;
use crate::machine::PullRequest;

/// Requests with equal keys are one pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// In full.
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
    /// One of the requests for it.
    pub(super) request: PullRequest,
    /// It was begun before its turn, for its image may be here: see [`Queue::defer`].
    pub(super) check: bool,
}

#[derive(Debug)]
struct Group<A> {
    key: Key,
    /// Its image may be here, and some of the pods that ask may use it.
    check: bool,
    asks: Vec<(PullRequest, A)>,
}

/// See the module. `A` is where an answer goes.
#[derive(Debug)]
pub(super) struct Queue<A> {
    waiting: VecDeque<Group<A>>,
    running: Vec<Group<A>>,
    at_once: usize,
}

impl<A> Queue<A> {
    /// At most so many pulls run at once.
    pub(super) fn new(at_once: usize) -> Queue<A> {
        Queue { waiting: VecDeque::new(), running: Vec::new(), at_once: at_once.max(1) }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// Too many wait already; both are given back.
    pub(super) fn add(&mut self, request: PullRequest, answer: A) -> Result<(), (PullRequest, A)> {
        let key = Key::of(&request);
        let full = self.waiting.len() >= limits::PULL_QUEUE;
        match self.running.iter_mut().chain(&mut self.waiting).find(|group| group.key == key) {
            Some(group) if group.asks.len() < limits::PULL_ASKERS => group.asks.push((request, answer)),
            None if !full => {
                let check = request.local_copy_will_do;
                self.waiting.push_back(Group { key, check, asks: vec![(request, answer)] });
            }
            _ => return Err((request, answer)),
        }
        Ok(())
    }

    /// The next pull to begin, if one may. Requests whose asker is not `alive` any more are dropped.
    pub(super) fn next(&mut self, alive: impl Fn(&A) -> bool) -> Option<Job> {
        for group in &mut self.waiting {
            group.asks.retain(|(_, answer)| alive(answer));
        }
        self.waiting.retain(|group| !group.asks.is_empty());
        let running = |check| self.running.iter().filter(|g| !g.key.builtin && g.check == check).count();
        let pulls = running(false) < self.at_once;
        let checks = running(true) < limits::REGISTRY_CHECKS;
        let free = |group: &Group<A>| if group.check { checks } else { pulls };
        let at = self.waiting.iter().position(|group| group.key.builtin || free(group))?;
        let group = self.waiting.remove(at)?;
        let job = group.asks.first().map(|(request, _)| Job {
            key: group.key.clone(),
            request: request.clone(),
            check: group.check,
        });
        self.running.push(group);
        job
    }

    /// The image of a check is not here: it has to be pulled, and waits for its turn before all others.
    pub(super) fn defer(&mut self, key: &Key) {
        if let Some(at) = self.running.iter().position(|group| group.key == *key) {
            let group = self.running.swap_remove(at);
            self.waiting.push_front(Group { check: false, ..group });
        }
    }

    /// The askers of a pull that runs.
    pub(super) fn askers(&self, key: &Key) -> impl Iterator<Item = &(PullRequest, A)> {
        self.running.iter().filter(move |group| group.key == *key).flat_map(|group| &group.asks)
    }

    /// Ends a pull. Returns its askers.
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
        }
    }

    fn next(queue: &mut Queue<u32>) -> Option<Job> {
        queue.next(|asker| *asker < 100)
    }

    fn askers(asks: Vec<(PullRequest, u32)>) -> Vec<u32> {
        asks.into_iter().map(|(_, asker)| asker).collect()
    }

    #[test]
    fn one_after_the_other_in_the_order_of_asking() {
        let mut queue = Queue::new(1);
        for (n, image) in ["a:1", "b:1", "a:1"].into_iter().enumerate() {
            queue.add(request(image), n as u32).unwrap();
        }
        let first = next(&mut queue).unwrap();
        assert!(next(&mut queue).is_none());
        // One more for the image that is being pulled.
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
        let mut queue = Queue::new(3);
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
        let mut queue = Queue::new(1);
        queue.add(request("slow:1"), 0).unwrap();
        next(&mut queue).unwrap();
        queue.add(request("b:1"), 1).unwrap();
        queue.add(PullRequest { builtin: true, ..request("pause:1") }, 2).unwrap();
        assert!(next(&mut queue).unwrap().request.builtin);
        assert!(next(&mut queue).is_none());
    }

    /// Pods whose image is here do not wait for the pulls of others.
    #[test]
    fn what_may_be_here_is_asked_for_besides_the_pulls() {
        let lenient = |image: &str| PullRequest { local_copy_will_do: true, ..request(image) };
        let mut queue = Queue::new(1);
        queue.add(request("slow:1"), 0).unwrap();
        queue.add(request("slow:2"), 1).unwrap();
        for n in 0..limits::REGISTRY_CHECKS as u32 + 1 {
            queue.add(lenient(&format!("here:{n}")), 10 + n).unwrap();
        }
        let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(begun.len(), 1 + limits::REGISTRY_CHECKS);
        assert!(!begun[0].check && begun[1..].iter().all(|job| job.check));
        // One of them is not here: it is pulled in turn, and its place is free.
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
        let mut queue = Queue::new(9);
        for (n, ask) in [with("u"), with("u"), with("v"), request("r.io/a:1")].into_iter().enumerate() {
            queue.add(ask, n as u32).unwrap();
        }
        let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
        let told: Vec<Vec<u32>> = begun.iter().map(|job| askers(queue.done(&job.key))).collect();
        assert_eq!(told, [vec![0, 1], vec![2], vec![3]]);
    }

    #[test]
    fn who_is_gone_is_not_pulled_for() {
        let mut queue = Queue::new(1);
        queue.add(request("gone:1"), 100).unwrap();
        queue.add(request("b:1"), 100).unwrap();
        queue.add(request("b:1"), 1).unwrap();
        let job = next(&mut queue).unwrap();
        assert_eq!(job.request.image, "b:1");
        assert_eq!(askers(queue.done(&job.key)), [1]);
    }

    #[test]
    fn a_full_queue_gives_back() {
        let mut queue = Queue::new(1);
        for n in 0..limits::PULL_QUEUE {
            queue.add(request(&format!("a:{n}")), 0).unwrap();
        }
        assert_eq!(queue.add(request("one:more"), 5).unwrap_err().1, 5);
        queue.add(request("a:0"), 6).unwrap();
    }
}
