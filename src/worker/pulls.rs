//! Image pulls: in turn, or several at once (`--serialize-image-pulls` of the kubelet), and the loading of
//! the built-in sandbox image. A worker asks, and finds the answer in its mailbox.
//!
//! Threads `pk-images` exist only while there is something to pull. A pull that hangs ends by the progress
//! deadline, and holds up only the pods that wait for it or, in turn, behind it. Pods whose image is here
//! wait for no pull of others, and not twice for a registry that does not answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::mailbox::Mailbox;
use crate::base::clock::{Clock, System};
use crate::base::limits;
use crate::image::credentials::{Credential, lookup};
use crate::image::fetch::{self, PullError};
use crate::image::grants::{Grants, With};
use crate::image::node_keys::NodeKeys;
use crate::image::rate::Bucket;
use crate::image::reference;
use crate::machine::{PullOutcome, PullRequest, Pulled};
use crate::manifest::pull_policy;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::progress::Progress;
use crate::runtime::pull::Patience;
use crate::runtime::{Call, Reply, sandbox_image};

mod queue;
mod registries;

use queue::{Job, Queue};
use registries::Registries;

/// How images are pulled on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// `--image-pull-progress-deadline`: a pull during which nothing moves for this long is given up.
    pub deadline: Duration,
    /// Pulls at once; one for `--serialize-image-pulls`.
    pub at_once: usize,
    /// `--registry-qps`: pulls that may begin in a second; 0 for no limit.
    pub rate: u32,
    /// `--registry-burst`.
    pub burst: u32,
}

impl Default for Pace {
    /// The kubelet's.
    fn default() -> Pace {
        Pace { deadline: Duration::from_secs(60), at_once: 1, rate: 5, burst: 10 }
    }
}

/// `imagePullPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// As written, or the default for this image.
    #[must_use]
    pub fn of(written: Option<&str>, image: Option<&str>) -> PullPolicy {
        match written.unwrap_or_else(|| pull_policy(image.unwrap_or_default())) {
            "Always" => PullPolicy::Always,
            "Never" => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        }
    }
}

/// Called with each image that a pod wants and Docker may not have.
pub type OnMissing = Box<dyn Fn(&str) + Send + Sync>;

/// Where an answer goes; the preparation of the sandbox image needs none.
type Answer = Option<Arc<Mailbox>>;

/// Asks for images. Clones share one queue.
#[derive(Clone)]
pub struct Pulls {
    shared: Arc<Shared>,
}

impl fmt::Debug for Pulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pulls")
    }
}

struct Shared {
    docker: Docker,
    clock: System,
    keys: NodeKeys,
    deadline: Duration,
    bucket: Mutex<Bucket>,
    queue: Mutex<Queue<Answer>>,
    registries: Mutex<Registries>,
    grants: Arc<Grants>,
    missing: OnMissing,
}

impl Pulls {
    /// Nothing is pulled yet, and no thread runs.
    #[must_use]
    pub fn new(
        docker: Docker,
        clock: System,
        pace: Pace,
        keys: NodeKeys,
        grants: Arc<Grants>,
        missing: OnMissing,
    ) -> Pulls {
        let bucket = Mutex::new(Bucket::new(pace.rate, pace.burst));
        let queue = Mutex::new(Queue::new(pace.at_once));
        let deadline = pace.deadline;
        let registries = Mutex::default();
        Pulls {
            shared: Arc::new(Shared {
                docker,
                clock,
                keys,
                deadline,
                bucket,
                queue,
                registries,
                grants,
                missing,
            }),
        }
    }

    /// Registries that did not answer are asked again.
    pub fn ask_all_again(&self) {
        self.shared.registries().forget();
    }

    /// Asks for an image; never blocks on a pull. The answer comes into the mailbox.
    pub fn ask(&self, request: PullRequest, answer: Arc<Mailbox>) {
        if !request.builtin {
            self.missing(&request.image);
        }
        if let Err((request, answer)) = self.shared.queue().add(request, Some(answer)) {
            let why = "too many images are waiting to be pulled".to_owned();
            reply(&request, &answer, PullOutcome::Failed(why), (Duration::ZERO, None));
        }
        self.shared.begin();
    }

    /// A pod wants this image, Docker does not have it, and its policy forbids a pull.
    pub fn missing(&self, image: &str) {
        (self.shared.missing)(image);
        if self.shared.grants.is_unknown(image) {
            self.clear_up(image);
        }
    }

    /// For an image that is here, while it is unknown whether a secret brought it: an image that was loaded is
    /// for every pod. Pods that wait for it ask again.
    fn clear_up(&self, image: &str) {
        let (shared, image) = (Arc::clone(&self.shared), image.to_owned());
        let look = move || {
            if let Some(id) = shared.id_of_loaded(&image) {
                shared.grants.loaded(&image, &id);
            }
        };
        let builder = thread::Builder::new().name("pk-images".to_owned()).stack_size(limits::WORKER_STACK);
        if let Err(error) = builder.spawn(look) {
            log::warn!("no thread could be started to look at an image: {error}");
        }
    }

    /// Has the built-in sandbox image loaded ahead of the first pod.
    pub fn prepare_sandbox_image(&self) {
        let image = sandbox_image::image_name();
        let request =
            PullRequest { image, builtin: true, local_copy_will_do: false, credentials: Vec::new() };
        // A full queue is no loss: the pod that misses the image asks again.
        _ = self.shared.queue().add(request, None);
        self.shared.begin();
    }
}

impl Pulls {
    /// Brings an image for a container that is added to a pod, and returns when it is here: at the node's rate, with its
    /// credentials, and by the record of whose images are whose; `is_here` as Docker tells. Not in the queue: who calls
    /// bounds how many are brought at once.
    ///
    /// # Errors
    /// Why it cannot be had; for a user.
    pub fn bring(&self, image: &str, policy: PullPolicy, is_here: bool) -> Result<(), String> {
        let shared = &self.shared;
        if is_here && policy != PullPolicy::Always && shared.grants.allows(image, &[]) {
            return Ok(());
        }
        if policy == PullPolicy::Never {
            let why = if is_here { "came with the secret of another pod" } else { "is not on this node" };
            return Err(format!("ErrImageNeverPull: image {image:?} {why}, and may not be pulled"));
        }
        let request = PullRequest {
            image: image.to_owned(),
            builtin: false,
            local_copy_will_do: false,
            credentials: Vec::new(),
        };
        let result = shared.fetch(&request, is_here && shared.grants.allows(image, &[]), &mut |_| {});
        _ = shared.learn(&request, &result);
        result.map(drop).map_err(|error| format!("ErrImagePull: image {image:?}: {error}"))
    }
}

/// With how long the pull took, and the image's bytes.
fn reply(
    request: &PullRequest,
    answer: &Answer,
    outcome: PullOutcome,
    (took, size): (Duration, Option<u64>),
) {
    if let Some(mailbox) = answer {
        let pulled = Pulled { image: request.image.clone(), outcome, took, size };
        mailbox.put(|slot| slot.pulled(pulled));
    }
}

/// The pod's own credentials that fit.
fn shown(request: &PullRequest) -> Vec<&Credential> {
    lookup(&request.image, request.credentials.iter().map(|config| &**config))
}

/// A worker still holds this mailbox, besides the queue, and will read the answer.
fn is_read(answer: &Answer) -> bool {
    answer.as_ref().is_none_or(|mailbox| Arc::strong_count(mailbox) > 1)
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue<Answer>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for the next pull, if one may begin.
    fn begin(self: &Arc<Shared>) {
        let Some(job) = self.queue().next(is_read) else { return };
        let (shared, key) = (Arc::clone(self), job.key.clone());
        let body = move || shared.work(job);
        let builder = thread::Builder::new().name("pk-images".to_owned()).stack_size(limits::WORKER_STACK);
        if let Err(error) = builder.spawn(body) {
            for (request, answer) in self.queue().done(&key) {
                let why = format!("no thread could be started for the pull: {error}");
                reply(&request, &answer, PullOutcome::Failed(why), (Duration::ZERO, None));
            }
        }
    }

    /// Pulls until nothing is left that may begin.
    fn work(&self, first: Job) {
        let mut job = first;
        loop {
            let began = Instant::now();
            let here = job.check && self.may_have(&job.request) && self.is_present(&job.request.image);
            if job.check && !here {
                let mut queue = self.queue();
                queue.defer(&job.key);
                match queue.next(is_read) {
                    Some(next) => job = next,
                    None => return,
                }
                continue;
            }
            let result = self.pull(&job, here);
            let took = began.elapsed();
            self.remember(&job.request, result.as_ref().err(), took);
            let size = self.learn(&job.request, &result);
            let asks = self.queue().done(&job.key);
            // One pull, but an answer for each pod: a pod that may use an older copy gets it.
            let lenient = asks.iter().any(|(request, _)| request.local_copy_will_do);
            let unasked =
                matches!(&result, Err(PullError::OverRate | PullError::Unasked(_) | PullError::Silent(_)));
            let there = lenient && unasked && (here || self.is_present(&job.request.image));
            for (request, answer) in asks {
                let outcome = match &result {
                    Ok(_) => PullOutcome::Done,
                    Err(error) if there && request.local_copy_will_do && self.may_have(&request) => {
                        PullOutcome::LocalCopy(error.to_string())
                    }
                    Err(error) if request.builtin => {
                        let why = format!("the built-in sandbox image could not be loaded: {error}");
                        PullOutcome::Failed(why)
                    }
                    Err(error) => PullOutcome::Failed(error.to_string()),
                };
                reply(&request, &answer, outcome, (took, size));
            }
            match self.queue().next(is_read) {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    fn registries(&self) -> MutexGuard<'_, Registries> {
        self.registries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the registry answered.
    fn remember(&self, request: &PullRequest, error: Option<&PullError>, took: Duration) {
        if request.builtin {
            return;
        }
        let registry = reference::registry(&request.image);
        match error {
            Some(PullError::OverRate) => {}
            Some(PullError::Unasked(_) | PullError::Silent(_)) => {
                self.registries().silent(registry, took, self.clock.now().mono);
            }
            None | Some(PullError::Answered(_)) => self.registries().answered(registry),
        }
    }

    /// `here`: there is a copy, and a pod that asks may use it.
    fn pull(&self, job: &Job, here: bool) -> Result<With, PullError> {
        self.fetch(&job.request, here, &mut |words| self.tell(job, words))
    }

    /// See [`Shared::pull`]. `tell` is given the progress, now and then.
    fn fetch(
        &self,
        request: &PullRequest,
        here: bool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<With, PullError> {
        let wait = Wait::at_most(self.deadline);
        let registry = reference::registry(&request.image);
        if here && self.registries().is_silent(registry, self.clock.now().mono) {
            let why = format!("registry {registry} has not answered lately and is not asked again so soon");
            return Err(PullError::Unasked(why));
        }
        if request.builtin {
            if !self.is_present(&request.image) {
                self.docker.load(&mut sandbox_image::image_tar().as_slice(), &wait)?;
            }
            return Ok(With::NodeOrNone);
        }
        if self.grants.is_unknown(&request.image)
            && let Some(id) = self.id_of_loaded(&request.image)
            && self.grants.loaded(&request.image, &id)
        {
            return Ok(With::NodeOrNone);
        }
        if !self.may_ask(here) {
            return Err(PullError::OverRate);
        }
        if !here && !shown(request).is_empty() {
            self.grants.begin(&request.image);
        }
        let mut progress = Progress::default();
        let mut told = Instant::now();
        let secrets = request.credentials.iter().map(|config| &**config);
        let patience = Patience { answer: here.then_some(limits::REGISTRY_ANSWER), progress: wait };
        fetch::pull(&self.docker, &request.image, secrets, &self.keys, &patience, &mut |message| {
            progress.take(message);
            if told.elapsed() >= limits::PULL_PROGRESS {
                told = Instant::now();
                tell(&progress.moment().words());
            }
        })
    }

    /// The node's rate lets another pull begin. Where a copy is here, it waits for its turn: no pod
    /// fails, or starts with an old image, because many others look at the same moment.
    fn may_ask(&self, here: bool) -> bool {
        let until = self.clock.now().mono.after(if here { limits::RATE_TURN } else { Duration::ZERO });
        loop {
            let now = self.clock.now().mono;
            let next = {
                let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
                if bucket.take(now) {
                    return true;
                }
                bucket.next()
            };
            match next.filter(|next| now.after(*next) <= until) {
                Some(next) => thread::sleep(next),
                None => return false,
            }
        }
    }

    /// Tells the progress of the pull to all that wait for it.
    fn tell(&self, job: &Job, words: &str) {
        for (request, answer) in self.queue().askers(&job.key) {
            if let Some(mailbox) = answer {
                mailbox.put(|slot| slot.pulling(request.image.clone(), words.to_owned()));
            }
        }
    }

    /// Remembers which credentials brought an image. Returns its size in bytes, for its event.
    fn learn(&self, request: &PullRequest, result: &Result<With, PullError>) -> Option<u64> {
        if request.builtin {
            return None;
        }
        let image = &request.image;
        let Ok(with) = result else {
            self.grants.failed(image);
            return None;
        };
        let detail = match self.docker.call(&Call::ImageInspect { image: image.clone() }) {
            Ok(Reply::Image(detail)) => Some(detail),
            _ => None,
        };
        self.grants.pulled(image, detail.as_ref().map_or("", |detail| &detail.id), with);
        detail.and_then(|detail| u64::try_from(detail.size).ok())
    }

    /// The pod may use the copy that is here.
    fn may_have(&self, request: &PullRequest) -> bool {
        self.grants.allows(&request.image, &shown(request))
    }

    /// The id of an image that is here and came from no registry, so without a secret.
    fn id_of_loaded(&self, image: &str) -> Option<String> {
        match self.docker.call(&Call::ImageInspect { image: image.to_owned() }) {
            Ok(Reply::Image(detail)) if detail.digests.is_empty() => Some(detail.id),
            _ => None,
        }
    }

    fn is_present(&self, image: &str) -> bool {
        self.docker.call(&Call::ImageInspect { image: image.to_owned() }).is_ok()
    }
}

#[cfg(test)]
mod tests;
