//! Carries out what is decided about garbage: asks Docker what is there, removes what may go, goes on after failures.
//! It blocks for as long as Docker needs, so it has a thread of its own, which nobody waits for when the daemon ends:
//! a run that was cut off left nothing half done, for Docker removes an image whole or not.
//!
//! Never here: force, or a decision.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::images::{Fixed, Judge, Judged, Kept, Policy};
use super::records::{self, Moment, Records};
use super::wants::Wants;
use super::{Order, Report, dead};
use crate::base::clock::{Boot, Clock, Now};
use crate::base::hex::short_ids;
use crate::base::limits;
use crate::base::order;
use crate::image::reference::normal;
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{Call, ContainerSummary, DockerError, ImageSummary, RefusalKind, Reply, labels};
use crate::status::snapshot::Latest;

/// Full names, or ids, of preloaded images; `None` while they are not known.
pub type Preloaded = Box<dyn Fn() -> Option<BTreeSet<String>> + Send + Sync>;

/// What a collector is made of.
pub struct Settings {
    /// The engine.
    pub docker: Docker,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// This boot of the machine.
    pub boot: Boot,
    /// The daemon's root directory: its containers bear it, and the records lie there.
    pub root_dir: PathBuf,
    /// The policy.
    pub policy: Policy,
    /// Image of the pods' sandboxes.
    pub sandbox: String,
    /// What was preloaded.
    pub preloaded: Preloaded,
    /// The pods.
    pub pods: Latest,
}

/// The collector of the daemon.
pub struct Collector {
    settings: Settings,
    records: Mutex<Records>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

impl Collector {
    /// Nothing is asked or removed yet. Reads what an earlier daemon has noted.
    #[must_use]
    pub fn new(settings: Settings) -> Collector {
        let mut records = records::read(&settings.root_dir, &settings.boot.id);
        let pinned = settings.policy.pinned.iter().map(ToString::to_string).collect();
        records.set_fixed(&settings.sandbox, pinned);
        Collector { settings, records: Mutex::new(records), writing: Mutex::default() }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// The daemon's own containers, listed for another purpose: their images are in use. Never blocks on a disk.
    pub fn saw(self: &Arc<Collector>, containers: &[ContainerSummary]) {
        let moment = self.moment();
        let mut records = self.records();
        records.note_containers(containers, moment);
        let changed = records.take_changed();
        drop(records);
        if changed {
            let this = Arc::clone(self);
            let thread =
                thread::Builder::new().name("pk-garbage".to_owned()).stack_size(limits::WORKER_STACK);
            if let Err(error) = thread.spawn(move || this.write()) {
                log::warn!("which images are used is not noted: no thread could be started: {error}");
            }
        }
    }

    /// An event of one of the daemon's containers, which is made of this image.
    pub fn heard(&self, image: &str) {
        self.records().note_name(image);
    }

    /// Carries out an order.
    pub fn collect(&self, order: Order) -> Report {
        let mut report = Report::default();
        let began = Instant::now();
        if let Err(error) = self.round(order, &mut report, began) {
            report.blind = true;
            report.errors.push(error.to_string());
        }
        if self.records().take_changed() {
            self.write();
        }
        for why in &report.errors {
            log::warn!("garbage: {why}");
        }
        report
    }

    fn round(&self, order: Order, report: &mut Report, began: Instant) -> Result<(), DockerError> {
        let docker = &self.settings.docker;
        if order == Order::All {
            let containers = containers(docker)?;
            let wants = self.wants();
            let root_dir = self.settings.root_dir.to_string_lossy();
            for container in dead::unneeded(&containers, &root_dir, &wants) {
                // Images go too, and pods wait for both.
                if began.elapsed() >= limits::GARBAGE_RUN {
                    break;
                }
                match remove_container(docker, &container.id) {
                    Ok(()) => report.containers.push(container.name.clone()),
                    Err(error) => report.errors.push(format!("container {}: {error}", container.name)),
                }
            }
        }
        // In this order: what is pulled and used in between is not in the list of images.
        let images = images(docker)?;
        let containers = containers(docker)?;
        self.note(&images, &containers);
        let judged = self.judge(images, &containers);
        report.unheard = judged.iter().any(|judged| judged.kept == Some(Kept::Unheard));
        let mut timeouts = 0;
        for judged in judged.iter().take_while(|judged| judged.kept.is_none()) {
            let due = match order {
                Order::All => true,
                Order::Free(wanted) => report.freed < wanted || self.is_old(judged),
                Order::Old => self.is_old(judged),
            };
            if !due || self.is_wanted_now(&judged.image) {
                continue;
            }
            if began.elapsed() >= limits::GARBAGE_RUN {
                report.errors.push("it takes too long; the rest is left for another time".to_owned());
                break;
            }
            let name = name(&judged.image);
            match remove_image(docker, &judged.image) {
                Ok(true) => {
                    log::info!("unused image {name} is removed ({})", bytes(judged.image.size));
                    report.freed = report.freed.saturating_add(judged.image.size);
                    report.images.push(name);
                }
                Ok(false) => {}
                Err(error) => {
                    timeouts = if matches!(error, DockerError::Timeout(_)) { timeouts + 1 } else { 0 };
                    report.errors.push(format!("image {name}: {error}"));
                    // The next one may work, unless Docker does not.
                    if timeouts >= limits::GARBAGE_TIMEOUTS || matches!(error, DockerError::Unreachable(_)) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&self, images: &[ImageSummary], containers: &[ContainerSummary]) {
        let moment = self.moment();
        let root_dir = self.settings.root_dir.to_string_lossy();
        let is_ours =
            |c: &&ContainerSummary| c.labels.get(labels::ROOT_DIR).is_some_and(|dir| *dir == root_dir);
        let ours: Vec<ContainerSummary> = containers.iter().filter(is_ours).cloned().collect();
        let mut records = self.records();
        records.note_containers(&ours, moment);
        records.note_images(images, moment);
        records.note_others(containers.iter().map(|c| c.image_id.as_str()), moment);
    }

    fn judge(&self, images: Vec<ImageSummary>, containers: &[ContainerSummary]) -> Vec<Judged> {
        let mut wants = self.wants();
        let preloaded = (self.settings.preloaded)();
        wants.heard &= preloaded.is_some();
        let fixed =
            Fixed { sandbox: self.settings.sandbox.clone(), preloaded: preloaded.unwrap_or_default() };
        let records = self.records();
        let policy = &self.settings.policy;
        let now = Some(self.moment());
        Judge { policy, fixed: &fixed, wants: &wants, records: &records, now }.all(images, containers)
    }

    fn is_old(&self, judged: &Judged) -> bool {
        let (policy, now) = (&self.settings.policy, self.moment());
        judged.is_older(policy.max_age, now)
    }

    fn wants(&self) -> Wants {
        Wants::of_snapshot(&self.settings.pods.get())
    }

    /// A pod that names it may have come since the images were judged.
    fn is_wanted_now(&self, image: &ImageSummary) -> bool {
        let wants = self.wants();
        !wants.heard || wants.of(&image.id, &full_names(image)).is_some()
    }

    fn write(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let records = self.records().clone();
        if let Err(error) = records.write(&self.settings.root_dir) {
            let path = self.settings.root_dir.join(records::FILE);
            log::warn!("{}: {error}; after a restart images are collected in another order", path.display());
        }
    }

    fn moment(&self) -> Moment {
        let Now { mono, wall } = self.settings.clock.now();
        Moment { up: self.settings.boot.at(mono), wall }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All full names of an image, and its id.
#[must_use]
pub fn full_names(image: &ImageSummary) -> BTreeSet<String> {
    let names = image.tags.iter().chain(&image.digests).map(|name| normal(name));
    order::set(names.chain([image.id.clone()]))
}

/// What an operator knows an image by.
#[must_use]
pub fn name(image: &ImageSummary) -> String {
    image.tags.first().or(image.digests.first()).cloned().unwrap_or_else(|| short_ids(&image.id))
}

/// All images.
///
/// # Errors
/// Docker's.
pub fn images(docker: &Docker) -> Result<Vec<ImageSummary>, DockerError> {
    match docker.call(&Call::ImageList)? {
        Reply::Images(images) => Ok(images),
        _ => Err(DockerError::BadAnswer("image list: an answer of another kind".to_owned())),
    }
}

/// All containers of the engine, whoever made them.
///
/// # Errors
/// Docker's.
pub fn containers(docker: &Docker) -> Result<Vec<ContainerSummary>, DockerError> {
    match docker.call(&Call::List { labels: Vec::new() })? {
        Reply::Containers(containers) => Ok(containers),
        _ => Err(DockerError::BadAnswer("container list: an answer of another kind".to_owned())),
    }
}

/// Removes a dead container. One that is gone already is no error.
///
/// # Errors
/// Docker's.
pub fn remove_container(docker: &Docker, id: &str) -> Result<(), DockerError> {
    match docker.call(&Call::Remove { id: id.to_owned(), force: false }) {
        Ok(_) => Ok(()),
        Err(error) => match error.refusal() {
            Some(RefusalKind::NoSuchContainer | RefusalKind::RemovalInProgress) => Ok(()),
            _ => Err(error),
        },
    }
}

/// Removes an image; false when it was gone already.
///
/// By its id, which means no other image by the time that Docker hears of it, and which Docker refuses while a container
/// is made of it. Only of one that has several names these are taken away one by one: Docker does not look for
/// containers before the last, so they are looked for here.
///
/// # Errors
/// Docker's.
pub fn remove_image(docker: &Docker, image: &ImageSummary) -> Result<bool, DockerError> {
    match remove(docker, &image.id) {
        Err(error) if error.refusal() == Some(&RefusalKind::SeveralNames) => {}
        other => return other,
    }
    if let Some(user) = containers(docker)?.iter().find(|container| container.image_id == image.id) {
        let message = format!("container {} is made of it by now", user.name);
        return Err(DockerError::BadAnswer(message));
    }
    for name in image.tags.iter().chain(&image.digests) {
        // It may be another image's by now.
        match docker.call(&Call::ImageInspect { image: name.clone() }) {
            Ok(Reply::Image(detail)) if detail.id == image.id => _ = remove(docker, name)?,
            Ok(_) => {}
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => {}
            Err(error) => return Err(error),
        }
    }
    // With its last name it is gone.
    remove(docker, &image.id).map(|_| true)
}

fn remove(docker: &Docker, image: &str) -> Result<bool, DockerError> {
    let call = Call::ImageRemove { image: image.to_owned() };
    match docker.begin(&call).within(limits::IMAGE_REMOVE).wait() {
        Ok(_) => Ok(true),
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
