//! Image pulls: one at a time, or several (`--serialize-image-pulls` of the kubelet), and the loading of
//! the built-in sandbox image. A worker sends a request, and gets the answer in its mailbox.
//!
//! Threads `pk-images` exist only while there is something to pull. A pull that hangs ends at the progress deadline,
//! and delays only the pods that wait for it or for its place; the same holds for a pull with almost no progress
//! while others wait for its place. A pull that no pod waits for any more is ended. Pods whose image is on the node
//! wait for no other pods' pulls, and not twice for a registry that does not answer.

use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::mailbox::Mailbox;
use crate::base::clock::{Clock, System};
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::image::credentials::{Credential, lookup};
use crate::image::fetch::{self, Consent, PullError};
use crate::image::grants::{Begun, Grants, With};
use crate::image::node_keys::NodeKeys;
use crate::image::rate::Bucket;
use crate::image::reference;
use crate::machine::{PullOutcome, PullRequest};
use crate::pod::Source;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::progress::{Message, Progress};
use crate::runtime::pull::Patience;
use crate::runtime::sandbox_image;

mod answer;
mod bring;
mod configuration;
mod pace;
mod queue;
mod registries;
mod room;
mod stop;

use answer::{Answer, is_read, reply};
pub use pace::{Pace, PullPolicy};
use queue::{Job, Queue};
use registries::Registries;
use stop::{News, Speed, Stop};

const GIVES_WAY: &str =
    "given up: Docker has no download left, and a pod of a source that goes first waits for one";

/// Called with each image that a pod wants and Docker may not have.
pub type OnMissing = Box<dyn Fn(&str) + Send + Sync>;

/// The queue of image pulls. Clones share it.
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
    /// Creates the queue, without threads. Pulls of the sources `behind` others are stopped in favor of the others'.
    #[must_use]
    pub fn new(
        docker: Docker,
        clock: System,
        (pace, behind): (Pace, Set<Source>),
        keys: NodeKeys,
        grants: Arc<Grants>,
        missing: OnMissing,
    ) -> Pulls {
        let bucket = Mutex::new(Bucket::new(pace.rate, pace.burst));
        let queue = Mutex::new(Queue::new(pace.at_once, behind));
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

    /// Makes registries that did not answer be asked again.
    pub fn ask_all_again(&self) {
        self.shared.registries().forget();
    }

    /// Requests an image; never blocks on a pull. The answer is put into the mailbox.
    pub fn ask(&self, request: PullRequest, answer: &Arc<Mailbox>) {
        if !request.builtin {
            self.missing(&request.image);
        }
        if let Err((request, answer)) = self.shared.queue().add(request, Some(Arc::downgrade(answer))) {
            let why = "too many images are waiting to be pulled".to_owned();
            reply(&request, &answer, PullOutcome::Failed(why), (Duration::ZERO, None));
        }
        self.shared.begin();
    }

    /// A worker has ended: ends the pulls that no other worker waits for.
    pub(super) fn leave(&self, mailbox: &Arc<Mailbox>) {
        let ended = Arc::as_ptr(mailbox);
        let stays = |answer: &Answer| {
            is_read(answer) && !answer.as_ref().is_some_and(|mailbox| std::ptr::eq(mailbox.as_ptr(), ended))
        };
        self.shared.queue().drop_unwanted(stays);
    }

    /// Reports that a pod wants this image, Docker does not have it, and its policy forbids a pull.
    pub fn missing(&self, image: &str) {
        (self.shared.missing)(image);
        if self.shared.grants.is_unknown(image) {
            self.clear_up(image);
        }
    }

    /// For an image on the node when it is unknown whether a secret brought it: checks whether it was loaded,
    /// because a loaded image is for every pod. Pods that wait for it ask again.
    fn clear_up(&self, image: &str) {
        let (shared, image) = (Arc::clone(&self.shared), image.to_owned());
        let look = move || {
            if let Some(id) = shared.id_of_loaded(&image) {
                shared.grants.loaded(&image, &id);
            }
        };
        if let Err(error) = thread::spawn("pk-images", limits::WORKER_STACK, look) {
            log::warn!("no thread could be started to look at an image: {error}");
        }
    }

    /// Loads the built-in sandbox image before the first pod needs it.
    pub fn prepare_sandbox_image(&self) {
        let image = sandbox_image::image_name();
        let request = PullRequest::plain(image, true, Source::File);
        // A full queue does no harm: the pod that lacks the image asks again.
        _ = self.shared.queue().add(request, None);
        self.shared.begin();
    }
}

/// The pod's own matching credentials.
fn shown(request: &PullRequest) -> Vec<&Credential> {
    lookup(&request.image, request.credentials.iter().map(|config| &**config))
}

/// The result of a pull, and its grant if it began with a pod's secrets.
type Fetched = (Option<Begun>, Result<With, PullError>);

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue<Answer>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread for the next pull, if one may start.
    fn begin(self: &Arc<Shared>) {
        let Some(job) = self.queue().next(is_read) else { return };
        let (shared, key) = (Arc::clone(self), job.key.clone());
        let body = move || shared.work(job);
        if let Err(error) = thread::spawn("pk-images", limits::WORKER_STACK, body) {
            for (request, answer) in self.queue().done(&key) {
                let why = format!("no thread could be started for the pull: {error}");
                reply(&request, &answer, PullOutcome::Failed(why), (Duration::ZERO, None));
            }
        }
    }

    /// Pulls until no pull may start.
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
            let (begun, result) = self.pull(&job, here);
            let took = began.elapsed();
            self.remember(&job.request, result.as_ref().err(), took);
            let size = self.learn(&job.request, &result, begun);
            let asks = self.queue().done(&job.key);
            // One pull with an answer for each pod: a pod that may use an older copy gets it.
            let lenient = asks.iter().any(|(request, _)| request.local_copy_will_do);
            let unasked = result.as_ref().is_err_and(|error| !matches!(error, PullError::Answered(_)));
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

    /// Remembers whether the registry answered.
    fn remember(&self, request: &PullRequest, error: Option<&PullError>, took: Duration) {
        if request.builtin {
            return;
        }
        let registry = reference::registry(&request.image);
        match error {
            Some(PullError::OverRate | PullError::NotNoted) => {}
            Some(PullError::Unasked(_) | PullError::Silent(_)) => {
                self.registries().silent(registry, took, self.clock.now().mono);
            }
            None | Some(PullError::Answered(_)) => self.registries().answered(registry),
        }
    }

    /// Pulls an image. `here`: a copy exists, and a requesting pod may use it.
    fn pull(&self, job: &Job, here: bool) -> Fetched {
        let stop = job.stop.as_deref();
        let mut hear = |news: News<'_>| match (news, stop) {
            (News::Progress(words), _) => self.tell(job, words),
            (News::Moves, _) => self.queue().moves(&job.key),
            (News::Heard, Some(stop)) => {
                let now = self.clock.now().mono;
                if self.queue().gives_way(&job.key, now) {
                    stop.give_up(GIVES_WAY.to_owned());
                }
            }
            (News::Slow(why), Some(stop)) => {
                let now = self.clock.now().mono;
                if self.queue().is_in_the_way(&job.key, now) {
                    stop.give_up(why.to_owned());
                }
            }
            _ => {}
        };
        let is_new = !job.request.builtin && !here && self.is_new(&job.request.image);
        self.queue().begins(&job.key, is_new, self.clock.now().mono);
        self.fetch(&job.request, (here, !is_new), stop, &mut hear)
    }

    /// See [`Shared::pull`]. `is_there`: Docker has a copy, whoever may use it. `stop` ends the pull, and `hear` gets its
    /// progress.
    fn fetch(
        &self,
        request: &PullRequest,
        (here, is_there): (bool, bool),
        stop: Option<&Stop>,
        hear: &mut dyn FnMut(News<'_>),
    ) -> Fetched {
        let wait = Wait { timeout: Some(self.deadline), wake: stop.map(Stop::as_fd) };
        match self.without_pull(request, here, &wait) {
            Ok(None) => {}
            Ok(Some(with)) => return (None, Ok(with)),
            Err(error) => return (None, Err(error)),
        }
        if !shown(request).is_empty() && !self.has_room(request) {
            return (None, Err(PullError::NotNoted));
        }
        let consent = self.consent(&request.image);
        let begins = !here && !shown(request).is_empty();
        let begun = begins.then(|| self.grants.begin(&request.image));
        let mut progress = Progress::default();
        let (mut told, mut has_moved) = (Instant::now(), false);
        let mut speed = Speed::new(self.deadline, self.clock.now().mono);
        let secrets = request.credentials.iter().map(|config| &**config);
        let patience = Patience { answer: here.then_some(limits::REGISTRY_ANSWER), progress: wait };
        let mut on_message = |message: &Message<'_>| {
            progress.take(message);
            let moment = progress.moment();
            hear(News::Heard);
            if !has_moved && (moment.done > 0 || moment.ready > 0) {
                has_moved = true;
                hear(News::Moves);
            }
            if let Some(why) = speed.complaint(&moment, self.clock.now().mono) {
                hear(News::Slow(&why));
            }
            if told.elapsed() >= limits::PULL_PROGRESS {
                told = Instant::now();
                hear(News::Progress(&moment.words()));
            }
        };
        let image = &request.image;
        let pulled =
            fetch::pull(&self.docker, image, secrets, &self.keys, consent, &patience, &mut on_message);
        let pulled =
            pulled.and_then(|with| configuration::check(&self.docker, image, is_there).map(|()| with));
        let pulled = match stop.and_then(Stop::why) {
            Some(why) => pulled.map_err(|_| PullError::Unasked(format!("pull of {image}: {why}"))),
            None => pulled,
        };
        (begun, pulled)
    }

    /// Returns the result for an image that needs no pull, or an error if a pull is not allowed now.
    fn without_pull(
        &self,
        request: &PullRequest,
        here: bool,
        wait: &Wait<'_>,
    ) -> Result<Option<With>, PullError> {
        let registry = reference::registry(&request.image);
        if here && self.registries().is_silent(registry, self.clock.now().mono) {
            let why = format!("registry {registry} has not answered lately and is not asked again so soon");
            return Err(PullError::Unasked(why));
        }
        if request.builtin {
            if !self.is_present(&request.image) {
                self.docker.load(&mut sandbox_image::image_tar().as_slice(), wait)?;
            }
            return Ok(Some(With::NodeOrNone));
        }
        if self.grants.is_unknown(&request.image)
            && let Some(id) = self.id_of_loaded(&request.image)
            && self.grants.loaded(&request.image, &id)
        {
            return Ok(Some(With::NodeOrNone));
        }
        if self.may_ask(here) { Ok(None) } else { Err(PullError::OverRate) }
    }

    /// If the image is named by its digest and the copy may belong to another pod, a pull proves nothing, so the
    /// registry is asked.
    fn consent(&self, image: &str) -> Consent {
        match image.contains('@') && self.grants.needs_credentials(image) {
            true => Consent::Asked,
            false => Consent::Pull,
        }
    }

    /// Whether the node's rate allows another pull. If a copy exists, waits for its turn: no pod fails, or starts
    /// with an old image, because many others check at the same moment.
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
                Some(next) => std::thread::sleep(next),
                None => return false,
            }
        }
    }

    /// Sends the progress of the pull to all that wait for it.
    fn tell(&self, job: &Job, words: &str) {
        for (request, answer) in self.queue().askers(&job.key) {
            if let Some(mailbox) = answer.as_ref().and_then(Weak::upgrade) {
                mailbox.put(|slot| slot.pulling(request.image.clone(), words.to_owned()));
            }
        }
    }

    /// Remembers which credentials brought an image. Returns its size in bytes, for its event.
    fn learn(
        &self,
        request: &PullRequest,
        result: &Result<With, PullError>,
        begun: Option<Begun>,
    ) -> Option<u64> {
        if request.builtin {
            return None;
        }
        let image = &request.image;
        let Ok(with) = result else {
            if let Some(begun) = begun {
                self.grants.failed(image, begun);
            }
            return None;
        };
        let detail = self.docker.inspect_image(image).ok();
        self.grants.pulled(image, detail.as_ref().map_or("", |detail| &detail.id), with, begun);
        detail.and_then(|detail| u64::try_from(detail.size).ok())
    }

    /// Whether the pod may use the local copy.
    fn may_have(&self, request: &PullRequest) -> bool {
        self.grants.allows(&request.image, &shown(request))
    }

    /// The id of a local image that came from no registry, and so without a secret.
    fn id_of_loaded(&self, image: &str) -> Option<String> {
        self.docker.inspect_image(image).ok().filter(|it| it.digests.is_empty()).map(|it| it.id)
    }

    fn is_present(&self, image: &str) -> bool {
        self.docker.inspect_image(image).is_ok()
    }
}

#[cfg(test)]
mod tests;
