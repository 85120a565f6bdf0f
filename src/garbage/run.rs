//! One run of the collector, call by call: takes the current data and Docker's answers, returns the next call. The
//! collector sends the calls, and the simulation does the same to its engine. Pure.
//!
//! A failure does not end the run: the next image may be removable, unless Docker does not answer at all.

use std::collections::VecDeque;
use std::time::Duration;

use super::collector::name;
use super::images::{self, Fixed, Judge, Judged, Kept, Policy};
use super::records::{Moment, Records};
use super::removal::Removal;
use super::wants::Wants;
use super::{Order, Report, dead};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::runtime::progress::bytes;
use crate::runtime::{Call, ContainerSummary, DockerError, ImageSummary, RefusalKind, Reply, labels};

/// Data of one moment, apart from Docker's answers.
pub struct View<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Image of the pods' sandboxes.
    pub sandbox: &'a str,
    /// The daemon's root directory, which its containers have as a label.
    pub root_dir: &'a str,
    /// Full names, or ids, of preloaded images; `None` while they are not known.
    pub preloaded: &'a dyn Fn() -> Option<Set<String>>,
    /// Images and pods that are wanted.
    pub wants: Wants,
    /// The time.
    pub moment: Moment,
}

/// See the module.
#[derive(Debug)]
pub struct Run {
    order: Order,
    /// Uptime at the start.
    began: Duration,
    stage: Stage,
    report: Report,
    /// Removals without an answer; for images, in a row.
    timeouts: u32,
    gives_way: bool,
    /// The image that is being removed.
    current: Option<Judged>,
    /// Images from which others were made, and how many had been removed when Docker refused them.
    parents: Table<String, usize>,
}

#[derive(Debug)]
enum Stage {
    /// List the containers.
    Containers,
    /// Remove these dead containers, the last one first.
    Dead(Vec<ContainerSummary>),
    /// List the images. This comes before the list of containers: an image that is pulled and used in between is not in
    /// the list of images.
    Images,
    /// List the containers made from these images.
    Users(Vec<ImageSummary>),
    /// Give back the tags of an image that stays after all; the images to remove after that.
    GiveBack(VecDeque<Judged>, Removal),
    /// Images that may be removed, the next one first; and the current removal.
    Unused(VecDeque<Judged>, Option<Removal>),
    Over,
}

impl Run {
    /// A run before its first call.
    #[must_use]
    pub fn new(order: Order, now: Moment) -> Run {
        let stage = if order == Order::All { Stage::Containers } else { Stage::Images };
        Run {
            order,
            began: now.up,
            stage,
            report: Report::default(),
            timeouts: 0,
            gives_way: false,
            current: None,
            parents: Table::new(),
        }
    }

    /// Starts no further removal, because another run is more urgent.
    pub fn give_way(&mut self) {
        self.gives_way = true;
    }

    /// The result of the run.
    #[must_use]
    pub fn report(self) -> Report {
        self.report
    }

    /// The call to send to Docker now; `None` when the run is over.
    pub fn next(&mut self, view: &View<'_>) -> Option<Call> {
        let spent = view.moment.up.saturating_sub(self.began);
        let is_late = spent >= limits::GARBAGE_RUN;
        loop {
            match &mut self.stage {
                Stage::Containers | Stage::Users(_) => return Some(Call::List { labels: Vec::new() }),
                // Images must be removed, too, and pods wait for both.
                Stage::Dead(left) => {
                    let is_over = spent >= limits::GARBAGE_DEAD || self.timeouts >= limits::GARBAGE_TIMEOUTS;
                    let Some(dead) = left.last().filter(|_| !is_over) else {
                        (self.timeouts, self.stage) = (0, Stage::Images);
                        continue;
                    };
                    if dead::is_unneeded(dead, view.root_dir, &view.wants) {
                        return Some(Call::Remove { id: dead.id.clone(), force: false });
                    }
                    // Its pod is wanted again.
                    left.pop();
                }
                Stage::Images => return Some(Call::ImageList { all: self.may_remove(view) }),
                // The image may have hundreds of names, each with its own calls: a pod that names it may have come
                // meanwhile.
                Stage::Unused(left, removal @ Some(_))
                    if removal.as_ref().is_some_and(|it| is_wanted(it.image(), view)) =>
                {
                    self.stage = stays(std::mem::take(left), removal.take());
                }
                Stage::GiveBack(left, removal) => match removal.give_back() {
                    Some(call) => return Some(call),
                    None => self.stage = Stage::Unused(std::mem::take(left), None),
                },
                // Its remaining names stay for another run.
                Stage::Unused(_, Some(_)) if self.gives_way => self.stage = Stage::Over,
                Stage::Unused(_, Some(_)) if is_late => self.is_late(),
                Stage::Unused(_, Some(removal)) => return Some(removal.call()),
                Stage::Unused(left, None) => {
                    let Some(judged) = left.pop_front() else {
                        self.stage = Stage::Over;
                        continue;
                    };
                    if !is_due(self.order, &self.report, &judged, view) {
                        continue;
                    }
                    if self.gives_way {
                        self.stage = Stage::Over;
                        continue;
                    }
                    if is_late {
                        self.is_late();
                        continue;
                    }
                    let left = std::mem::take(left);
                    self.stage = Stage::Unused(left, Some(Removal::new(judged.image.clone())));
                    self.current = Some(judged);
                }
                Stage::Over => return None,
            }
        }
    }

    /// Takes Docker's answer, and notes the listed images and containers. Returns a line for the operator.
    pub fn answer(
        &mut self,
        answer: Result<Reply, DockerError>,
        records: &mut Records,
        view: &View<'_>,
    ) -> Option<String> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Containers => match containers(answer) {
                Ok(all) => {
                    let dead = dead::unneeded(&all, view.root_dir, &view.wants).cloned();
                    let mut dead: Vec<ContainerSummary> = dead.collect();
                    dead.reverse();
                    self.stage = Stage::Dead(dead);
                }
                Err(error) => self.is_blind(&error),
            },
            Stage::Dead(mut left) => {
                if let Some(container) = left.pop() {
                    match is_container_removed(answer) {
                        Ok(()) => self.report.containers.push(container.name),
                        Err(error @ DockerError::Unreachable(_)) => {
                            self.is_blind(&error);
                            return None;
                        }
                        Err(error) => {
                            let is_silent = matches!(error, DockerError::Timeout(_));
                            self.timeouts = self.timeouts.saturating_add(u32::from(is_silent));
                            self.report.errors.push(format!("container {}: {error}", container.name));
                        }
                    }
                }
                self.stage = Stage::Dead(left);
            }
            Stage::Images => match images(answer) {
                Ok(images) => self.stage = Stage::Users(images),
                Err(error) => self.is_blind(&error),
            },
            Stage::Users(images) => match containers(answer) {
                Ok(containers) => self.judge(images, &containers, records, view),
                Err(error) => self.is_blind(&error),
            },
            Stage::Unused(mut left, Some(mut removal)) => match removal.answer(answer) {
                None => self.stage = Stage::Unused(left, Some(removal)),
                Some(Err(error)) if self.comes_again(removal.image(), &error) => {
                    left.extend(self.current.take());
                    self.stage = stays(left, Some(removal));
                }
                Some(result) => {
                    let stays_there = result.is_err();
                    let (may_go_on, line) = self.removed(removal.image(), result);
                    if may_go_on {
                        self.stage = stays(left, Some(removal).filter(|_| stays_there));
                    }
                    return line;
                }
            },
            Stage::GiveBack(left, mut removal) => {
                removal.given_back(answer);
                self.stage = Stage::GiveBack(left, removal);
            }
            // There was no call.
            Stage::Unused(left, None) => self.stage = Stage::Unused(left, None),
            Stage::Over => {}
        }
        None
    }

    /// Whether images may be removed, so that intermediate ones are listed, too: they tell what these were made from.
    fn may_remove(&self, view: &View<'_>) -> bool {
        self.order != Order::Old || !view.policy.max_age.is_zero()
    }

    fn is_late(&mut self) {
        self.report.errors.push("it takes too long; the rest is left for another time".to_owned());
        self.stage = Stage::Over;
    }

    /// Docker does not list its containers or images.
    fn is_blind(&mut self, error: &DockerError) {
        self.report.blind = true;
        self.report.errors.push(error.to_string());
    }

    fn judge(
        &mut self,
        images: Vec<ImageSummary>,
        containers: &[ContainerSummary],
        records: &mut Records,
        view: &View<'_>,
    ) {
        note(&images, containers, records, view);
        let preloaded = (view.preloaded)();
        let mut wants = view.wants.clone();
        wants.heard &= preloaded.is_some();
        let is_awaited = wants.is_awaited || preloaded.is_none();
        let fixed = Fixed { sandbox: view.sandbox.to_owned(), preloaded: preloaded.unwrap_or_default() };
        let judge =
            Judge { policy: view.policy, fixed: &fixed, wants: &wants, records, now: Some(view.moment) };
        let judged = judge.all(images, containers, view.root_dir);
        let is_unheard = judged.iter().any(|judged| judged.kept == Some(Kept::Unheard));
        self.report.unheard = is_unheard && is_awaited;
        let unused = judged.into_iter().take_while(|judged| judged.kept.is_none());
        self.stage = Stage::Unused(unused.collect(), None);
    }

    /// Whether an image is tried again after the others: those that were made from it may be among them.
    fn comes_again(&mut self, image: &ImageSummary, error: &DockerError) -> bool {
        let removed = self.report.images.len();
        error.refusal() == Some(&RefusalKind::HasChildren)
            && self.parents.insert(image.id.clone(), removed).is_none_or(|before| before < removed)
    }

    /// Returns whether to remove another image, and a line for the operator.
    fn removed(&mut self, image: &ImageSummary, result: Result<bool, DockerError>) -> (bool, Option<String>) {
        let name = name(image);
        match result {
            Ok(true) => {
                let line = format!("unused image {name} is removed ({})", bytes(image.size));
                self.report.freed = self.report.freed.saturating_add(image.size);
                self.report.images.push(name);
                (true, Some(line))
            }
            Ok(false) => (true, None),
            Err(error) => {
                let is_silent = matches!(error, DockerError::Timeout(_));
                self.timeouts = if is_silent { self.timeouts.saturating_add(1) } else { 0 };
                self.report.errors.push(format!("image {name}: {error}"));
                // The next removal may work, unless Docker itself does not.
                let is_away = matches!(error, DockerError::Unreachable(_));
                (self.timeouts < limits::GARBAGE_TIMEOUTS && !is_away, None)
            }
        }
    }
}

/// What follows an image that stays, if there is one.
fn stays(left: VecDeque<Judged>, removal: Option<Removal>) -> Stage {
    match removal {
        Some(removal) => Stage::GiveBack(left, removal),
        None => Stage::Unused(left, None),
    }
}

fn is_due(order: Order, report: &Report, judged: &Judged, view: &View<'_>) -> bool {
    let is_old = || judged.is_older(view.policy.max_age, view.moment);
    let due = match order {
        Order::All => true,
        Order::Free(wanted) => report.freed < wanted || is_old(),
        Order::Old => is_old(),
    };
    due && !is_wanted(&judged.image, view)
}

/// Whether a pod that names the image has come since the images were judged, or the image was preloaded since.
fn is_wanted(image: &ImageSummary, view: &View<'_>) -> bool {
    view.wants.needs(image, (view.preloaded)().as_ref())
}

fn note(images: &[ImageSummary], containers: &[ContainerSummary], records: &mut Records, view: &View<'_>) {
    let is_ours =
        |c: &&ContainerSummary| c.labels.get(labels::ROOT_DIR).is_some_and(|dir| dir == view.root_dir);
    let ours: Vec<ContainerSummary> = containers.iter().filter(is_ours).cloned().collect();
    records.note_containers(&ours, view.moment);
    let links = images::links(images);
    let listed: Vec<ImageSummary> = images.iter().filter(|it| !links.contains(&it.id)).cloned().collect();
    records.note_images(&listed, view.moment);
    records.note_others(containers.iter().map(|c| c.image_id.as_str()), view.moment);
}

/// The images in Docker's answer.
///
/// # Errors
/// Errors of Docker.
pub fn images(answer: Result<Reply, DockerError>) -> Result<Vec<ImageSummary>, DockerError> {
    answer?.images()
}

/// The containers in Docker's answer.
///
/// # Errors
/// Errors of Docker.
pub fn containers(answer: Result<Reply, DockerError>) -> Result<Vec<ContainerSummary>, DockerError> {
    answer?.containers()
}

/// The result of removing a dead container. A container that is gone already is no error.
///
/// # Errors
/// Errors of Docker.
pub fn is_container_removed(answer: Result<Reply, DockerError>) -> Result<(), DockerError> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) => match error.refusal() {
            Some(RefusalKind::NoSuchContainer | RefusalKind::RemovalInProgress) => Ok(()),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;

    /// Collects four images, each the parent of the next; `kept`: one that nobody sees was made from the last. The images that
    /// are left, and the number of errors.
    fn collected(kept: bool) -> (usize, usize) {
        let moment = Moment { up: Duration::from_secs(100_000), wall: Timestamp::UNIX_EPOCH };
        let policy = Policy { min_age: Duration::ZERO, ..Policy::default() };
        let preloaded = || Some(Set::new());
        let (mut records, mut run) = (Records::default(), Run::new(Order::Free(u64::MAX), moment));
        let mut there = vec!["sha256:1", "sha256:2", "sha256:3", "sha256:4"];
        let image = |id: &&str| ImageSummary { id: (*id).into(), size: 1, ..ImageSummary::default() };
        let images: Vec<ImageSummary> = there.iter().map(image).collect();
        for _ in 0..30 {
            let wants = Wants { heard: true, ..Wants::default() };
            let view = View {
                policy: &policy,
                sandbox: "s:1",
                root_dir: "/r",
                preloaded: &preloaded,
                wants,
                moment,
            };
            let Some(call) = run.next(&view) else { return (there.len(), run.report().errors.len()) };
            let answer = match call {
                Call::ImageList { .. } => Ok(Reply::Images(images.clone())),
                Call::ImageRemove { image } if kept || there.last() != Some(&image.as_str()) => {
                    let message = "image has dependent child images".to_owned();
                    let kind = RefusalKind::HasChildren;
                    Err(DockerError::Refused(crate::runtime::Refusal { kind, status: 409, message }))
                }
                Call::ImageRemove { .. } => {
                    there.pop();
                    Ok(Reply::Done)
                }
                _ => Ok(Reply::Containers(Vec::new())),
            };
            run.answer(answer, &mut records, &view);
        }
        panic!("it does not end");
    }

    /// Regression: the parent was tried before its child and stayed, and a pod was evicted for the room.
    #[test]
    fn an_image_from_which_another_was_made_goes_after_that() {
        assert_eq!(collected(false), (0, 0));
        assert_eq!(collected(true), (4, 4), "each is told once");
    }

    /// Images that were loaded from archives while others were being removed were removed after these.
    #[test]
    fn an_image_that_was_preloaded_meanwhile_stays() {
        let image =
            ImageSummary { id: "sha256:1".into(), tags: vec!["a:1".into()], ..ImageSummary::default() };
        let wants = Wants { heard: true, ..Wants::default() };
        let is_wanted = |preloaded: Option<&str>| {
            let all = preloaded.map(|name| Set::from([name.to_owned()]));
            let moment = Moment { up: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };
            let policy = Policy::default();
            let preloaded = || all.clone();
            let view = View {
                policy: &policy,
                sandbox: "s:1",
                root_dir: "/r",
                preloaded: &preloaded,
                wants: wants.clone(),
                moment,
            };
            is_wanted(&image, &view)
        };
        let full = crate::garbage::images::full_names(&image)
            .iter()
            .find(|name| name.ends_with("a:1"))
            .cloned()
            .unwrap();
        assert!(is_wanted(Some(&full)) && is_wanted(Some("sha256:1")) && is_wanted(None));
        assert!(!is_wanted(Some("b:1")));
    }
}
