//! Carries out decisions about garbage: asks Docker for its containers and images, and sends the removals that [`run`]
//! decides on. It blocks while Docker works, so it has a thread of its own. The daemon's end does not wait for that
//! thread: a run that is cut off leaves no half-removed image, because Docker removes an image whole or not at all.
//!
//! Never here: forced removal, or a decision.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::images::{Fixed, Policy};
use super::records::{self, Ask, Moment, Records};
use super::removal::Removal;
use super::run::{self, Run, View};
use super::shares::Shares;
use super::tie::Tie;
use super::wants::Wants;
use super::{Order, Report, shares};
use crate::base::clock::{Boot, Clock, Mono, Now};
use crate::base::hex::short_ids;
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::runtime::docker::Docker;
use crate::runtime::event_stream::DockerEvent;
use crate::runtime::{Call, ContainerSummary, DockerError, ImageSummary, RefusalKind, Reply};
use crate::status::snapshot::Latest;

/// Full names, or ids, of preloaded images; `None` while they are not known.
pub type Preloaded = Box<dyn Fn() -> Option<Set<String>> + Send + Sync>;

/// The parts of a collector.
pub struct Settings {
    /// The engine.
    pub docker: Docker,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// This boot of the machine.
    pub boot: Boot,
    /// The daemon's root directory: its containers have it as a label, and the records lie in it.
    pub root_dir: PathBuf,
    /// The policy.
    pub policy: Policy,
    /// Image of the pods' sandboxes.
    pub sandbox: String,
    /// Preloaded images.
    pub preloaded: Preloaded,
    /// The pods.
    pub pods: Latest,
}

/// The collector of the daemon.
pub struct Collector {
    settings: Settings,
    records: Mutex<Records>,
    writing: Mutex<Writing>,
    /// The last try to write the file failed.
    is_unwritten: AtomicBool,
    /// When ids of images are asked for again: Docker has not answered in time.
    asks_again: Mutex<Option<Mono>>,
}

/// Whether a thread is writing the file. The latest state is written, however many changes came meanwhile.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writing {
    #[default]
    No,
    Yes,
    /// A thread is writing, and has to write once more.
    Again,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

impl Collector {
    /// Creates the collector from the records of an earlier daemon. Sends no call yet.
    #[must_use]
    pub fn new(settings: Settings) -> Collector {
        let mut records = records::read(&settings.root_dir, &settings.boot.id);
        let pinned = settings.policy.pinned.iter().map(ToString::to_string).collect();
        records.set_fixed(&settings.sandbox, pinned);
        Collector {
            settings,
            records: Mutex::new(records),
            writing: Mutex::default(),
            is_unwritten: AtomicBool::new(false),
            asks_again: Mutex::default(),
        }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// Takes a list of the daemon's own containers that was made for another purpose: their images are in use. Never
    /// blocks on a disk.
    pub fn saw(self: &Arc<Collector>, containers: &[ContainerSummary]) {
        let moment = self.moment();
        let mut records = self.records();
        records.note_containers(containers, moment);
        let changed = records.is_changed();
        drop(records);
        if changed {
            self.write_aside();
        }
    }

    /// Takes an event of one of the daemon's containers, with its image. Asks Docker for the id of a name that is not
    /// known.
    pub fn heard(self: &Arc<Collector>, image: &str) {
        let known = self.records().id_of(image);
        let id = known.or_else(|| self.ask_id(image).ok());
        let moment = self.moment();
        let mut records = self.records();
        if let Some(id) = id {
            records.note_id(image, &id, moment);
        }
        records.note_use(image, moment);
        drop(records);
        self.write_news();
    }

    /// Takes an event of an image; `None`: some were missed. Asks Docker for what the event does not tell.
    pub fn heard_of_image(self: &Arc<Collector>, event: Option<&DockerEvent>) {
        let moment = self.moment();
        let Some(event) = event else { return self.records().missed_events() };
        // Not in the match: the records would be locked in it.
        let asked = self.records().note_event(event, moment);
        match asked {
            Some(Ask::Id(name)) => match self.ask_id(&name) {
                Ok(id) => self.records().note_id(&name, &id, moment),
                Err(_) => self.records().note_untold(moment),
            },
            Some(Ask::There(id)) if self.is_gone(&id) => self.records().note_gone(&id),
            Some(Ask::There(_)) | None => {}
        }
        self.write_news();
    }

    fn is_gone(&self, id: &str) -> bool {
        self.ask_id(id).is_err_and(|error| error.refusal() == Some(&RefusalKind::NoSuchImage))
    }

    fn ask_id(&self, image: &str) -> Result<String, DockerError> {
        let mut again = self.asks_again.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.settings.clock.now().mono;
        if again.is_some_and(|again| now < again) {
            return Err(DockerError::Timeout("Docker was not asked: it had not answered in time".to_owned()));
        }
        let call = Call::ImageInspect { image: image.to_owned() };
        let answer = self.settings.docker.begin(&call).within(limits::IMAGE_ASKED).wait();
        let done = self.settings.clock.now().mono;
        let took = done.since(now);
        let pause = match &answer {
            Err(DockerError::Timeout(_)) => Some(limits::IMAGE_NOT_ASKED),
            _ => (took > limits::IMAGE_ASKED_SLOW).then(|| took.saturating_mul(limits::IMAGE_ASKED_SHARE)),
        };
        *again = pause.map(|pause| done.after(pause));
        Ok(answer?.image()?.id)
    }

    /// Events may come in great numbers: on a disk that takes no writes they wait for a list.
    fn write_news(self: &Arc<Collector>) {
        if self.records().is_changed() && !self.is_unwritten.load(Ordering::Relaxed) {
            self.write_aside();
        }
    }

    fn write_aside(self: &Arc<Collector>) {
        if self.begins_to_write() {
            let this = Arc::clone(self);
            if let Err(error) = thread::spawn("pk-garbage", limits::WORKER_STACK, move || this.write()) {
                *self.writing() = Writing::No;
                log::warn!("which images are used is not noted: no thread could be started: {error}");
            }
        }
    }

    /// Carries out an order, and notes each answer of Docker's as a step.
    pub fn collect(&self, order: Order, tie: &Tie) -> Report {
        let docker = &self.settings.docker;
        let root_dir = self.settings.root_dir.to_string_lossy();
        let mut run = Run::new(order, self.moment());
        while let Some(call) = run.next(&self.view(&root_dir)) {
            let answer = ask(docker, &call);
            if answer.is_ok() {
                tie.step();
            }
            let view = self.view(&root_dir);
            if let Some(line) = run.answer(answer, &mut self.records(), &view) {
                log::info!("{line}");
            }
            if tie.gives_way() {
                run.give_way();
            }
        }
        if self.records().is_changed() && self.begins_to_write() {
            self.write();
        }
        let report = run.report();
        for why in &report.errors {
            log::warn!("garbage: {why}");
        }
        report
    }

    /// The sizes of images that only pods of sources behind others have here (see [`shares`]), by UID; empty if Docker
    /// does not answer. Waits for Docker.
    #[must_use]
    pub fn shares(&self) -> Shares {
        let settings = &self.settings;
        let listed = run::images(settings.docker.call(&Call::ImageList { all: false }));
        let found = listed.and_then(|images| Ok((images, containers(&settings.docker)?)));
        let Ok((images, containers)) = found else { return Shares::default() };
        let Some(preloaded) = (settings.preloaded)() else { return Shares::default() };
        let fixed = Fixed { sandbox: settings.sandbox.clone(), preloaded };
        shares::of_pods(&settings.pods.get(), &images, &containers, (&fixed, &settings.policy))
    }

    fn view<'a>(&'a self, root_dir: &'a str) -> View<'a> {
        View {
            policy: &self.settings.policy,
            sandbox: &self.settings.sandbox,
            root_dir,
            preloaded: &*self.settings.preloaded,
            wants: Wants::of_snapshot(&self.settings.pods.get()),
            moment: self.moment(),
        }
    }

    /// Whether the caller has to write; otherwise another thread is writing, and will write once more.
    fn begins_to_write(&self) -> bool {
        let mut writing = self.writing();
        let begins = *writing == Writing::No;
        *writing = if begins { Writing::Yes } else { Writing::Again };
        begins
    }

    /// Writes until the latest state is written. A failed write is repeated with the next list or run.
    fn write(&self) {
        loop {
            let records = self.records().take_unwritten();
            let written = records.write(&self.settings.root_dir);
            let was_unwritten = self.is_unwritten.swap(written.is_err(), Ordering::Relaxed);
            if let Err(error) = written {
                self.records().not_written();
                let path = self.settings.root_dir.join(records::FILE);
                if !was_unwritten {
                    let path = path.display();
                    log::warn!("{path}: {error}; after a restart images are collected in another order");
                }
            }
            let mut writing = self.writing();
            if *writing != Writing::Again {
                *writing = Writing::No;
                return;
            }
            *writing = Writing::Yes;
        }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        let Now { mono, wall } = self.settings.clock.now();
        Moment { up: self.settings.boot.at(mono), wall }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of an image for an operator.
#[must_use]
pub fn name(image: &ImageSummary) -> String {
    image.tags.first().or(image.digests.first()).cloned().unwrap_or_else(|| short_ids(&image.id))
}

/// All images, also the intermediate ones of builds.
///
/// # Errors
/// Errors of Docker.
pub fn images(docker: &Docker) -> Result<Vec<ImageSummary>, DockerError> {
    run::images(docker.call(&Call::ImageList { all: true }))
}

/// All containers of the engine, podkeeper's and others.
///
/// # Errors
/// Errors of Docker.
pub fn containers(docker: &Docker) -> Result<Vec<ContainerSummary>, DockerError> {
    docker.list(Vec::new())
}

/// Removes a dead container. A container that is gone already is no error.
///
/// # Errors
/// Errors of Docker.
pub fn remove_container(docker: &Docker, id: &str) -> Result<(), DockerError> {
    run::is_container_removed(docker.call(&Call::Remove { id: id.to_owned(), force: false }))
}

/// Removes an image; returns false when it was gone already, or may no longer be removed: a pod may come that names it,
/// so `may_go` is called before each call.
///
/// # Errors
/// Errors of Docker; a container of the image exists by now.
pub fn remove_image(
    docker: &Docker,
    image: &ImageSummary,
    may_go: &dyn Fn() -> bool,
) -> Result<bool, DockerError> {
    let mut removal = Removal::new(image.clone());
    loop {
        let result = if may_go() { removal.answer(ask(docker, &removal.call())) } else { Some(Ok(false)) };
        let Some(result) = result else { continue };
        if !matches!(result, Ok(true)) {
            while let Some(call) = removal.give_back() {
                removal.given_back(ask(docker, &call));
            }
        }
        return result;
    }
}

/// Sends a call; removing an image may take longer than other calls.
fn ask(docker: &Docker, call: &Call) -> Result<Reply, DockerError> {
    match call {
        Call::ImageRemove { .. } => docker.begin(call).within(limits::IMAGE_REMOVE).wait(),
        _ => docker.call(call),
    }
}

#[cfg(test)]
mod tests;
