//! Facts about each container of the pod by its name, across its attempts: the reason why it waits, the state of its
//! image, the number of failed creates, the number of crashes.
//!
//! A member without facts is not kept. Facts about one life, or one spec, do not hold up the next.

use std::fmt;
use std::time::Duration;

use super::calls::Retry;
use super::start::identity::ImageUser;
use crate::base::clock::{Mono, Now};
use crate::base::table::Table;
use crate::plan::Owned;
use crate::plan::backoff::Backoff;
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::status::{Waiting, WaitingReason};

/// A part of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Sandbox,
    /// The container of this name.
    Container(String),
}

impl Part {
    /// The part for the container of this name.
    pub fn container(name: &str) -> Part {
        Part::Container(name.to_owned())
    }

    /// The part that a container was made for.
    pub fn of(owned: &Owned) -> Part {
        owned.container_name().map_or(Part::Sandbox, Part::container)
    }

    /// The container's name; `None` for the sandbox.
    pub fn name(&self) -> Option<&str> {
        match self {
            Part::Sandbox => None,
            Part::Container(name) => Some(name),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Sandbox => f.write_str("the sandbox"),
            Part::Container(name) => write!(f, "container {name}"),
        }
    }
}

/// State of a container's image.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum ImageState {
    /// Not known: the create finds out.
    #[default]
    Untold,
    /// The create was refused because the image is missing.
    Missing,
    /// It may be used without asking again (policy Always, or after a refusal).
    Ensured {
        /// The attempt of the container that it counts for.
        attempt: u32,
        /// The event of its pull was emitted, for this container.
        told: bool,
    },
}

/// Facts about one container of the pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Member {
    /// Failed creates. After the first of those that may be no failure there is no wait.
    pub create_retry: Option<Retry>,
    /// When the answer to a create was first lost, since one worked: Docker may be at it still.
    pub create_lost: Option<Mono>,
    /// Starts whose answers were lost, since one was known to work: the next create waits.
    pub start_retry: Option<Retry>,
    /// When Docker last denied a container that ran: the next one comes in its place. Somebody has removed it, or Docker is
    /// wrong and it runs on.
    pub lost: Option<Mono>,
    /// A container that cannot be found holds its name: this suffix makes another one.
    pub suffix: Option<u32>,
    /// State of its image.
    pub image: ImageState,
    /// The user of its image.
    pub image_user: Option<ImageUser>,
    /// The reason why it waits.
    pub waiting: Option<WaitingReason>,
}

impl Member {
    /// Forgets that the image was ensured. Returns whether it was.
    pub fn forget_ensured(&mut self) -> bool {
        let ensured = matches!(self.image, ImageState::Ensured { .. });
        if ensured {
            self.image = ImageState::Untold;
        }
        ensured
    }

    /// Forgets that the image is missing.
    pub fn forget_missing(&mut self) {
        if self.image == ImageState::Missing {
            self.image = ImageState::Untold;
        }
    }

    /// Whether it waits for this reason.
    pub fn waits_for(&self, reason: Reason) -> bool {
        self.waiting.as_ref().is_some_and(|why| why.reason == reason)
    }
}

/// Facts about all parts.
#[derive(Debug)]
pub(super) struct Members {
    pub sandbox: Member,
    /// Containers, by name.
    by_name: Table<String, Member>,
    /// Back-offs of crash loops.
    pub crashes: Backoff,
}

/// The facts about a member that is not kept.
static NOTHING: Member = Member {
    create_retry: None,
    create_lost: None,
    start_retry: None,
    lost: None,
    suffix: None,
    image: ImageState::Untold,
    image_user: None,
    waiting: None,
};

impl Members {
    /// Nothing is known; crash loops wait for `longest` at most.
    pub fn new(longest: Duration) -> Members {
        Members::with(Backoff::crashes(longest))
    }

    fn with(crashes: Backoff) -> Members {
        Members { sandbox: Member::default(), by_name: Table::new(), crashes }
    }

    /// Facts about this container.
    pub fn get(&self, name: &str) -> &Member {
        self.by_name.get(name).unwrap_or(&NOTHING)
    }

    /// Facts about this container, mutable.
    pub fn get_mut(&mut self, name: &str) -> &mut Member {
        self.by_name.get_or_default(name.to_owned())
    }

    /// Facts about this part.
    pub fn part(&self, part: &Part) -> &Member {
        match part {
            Part::Sandbox => &self.sandbox,
            Part::Container(name) => self.get(name),
        }
    }

    /// Facts about this part, mutable.
    pub fn part_mut(&mut self, part: &Part) -> &mut Member {
        match part {
            Part::Sandbox => &mut self.sandbox,
            Part::Container(name) => self.get_mut(name),
        }
    }

    /// All containers with facts.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_name.values_mut()
    }

    /// Number of kept members.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_name.len() + usize::from(self.sandbox != NOTHING)
    }

    /// Drops members without facts.
    pub fn tidy(&mut self) {
        self.by_name.retain(|_, member| *member != NOTHING);
    }

    /// Forgets everything: another life begins, or this one ends.
    pub fn forget_life(&mut self) {
        *self = Members::with(self.crashes.anew());
    }

    /// Clears facts after an edit under the same UID: what failed may work now, and removed names are forgotten.
    pub fn forget_spec(&mut self, new: &DesiredPod) {
        self.sandbox = Member { suffix: self.sandbox.suffix, ..Member::default() };
        self.by_name.retain(|name, member| {
            let Member { suffix, waiting, .. } = std::mem::take(member);
            *member = Member { suffix, waiting, ..Member::default() };
            new.container(name).is_some()
        });
    }

    /// Ends the wait of all containers that wait for this reason.
    pub fn no_longer_wait(&mut self, reason: Reason) {
        for member in self.by_name.values_mut() {
            member.waiting = member.waiting.take().filter(|why| why.reason != reason);
        }
    }

    /// Ends the wait of all containers.
    pub fn none_waits(&mut self) {
        for member in self.by_name.values_mut() {
            member.waiting = None;
        }
    }

    /// The reasons why containers wait, for the status.
    pub fn waiting(&self) -> Waiting {
        let waiting = self.by_name.iter().filter_map(|(name, member)| Some((name, member.waiting.as_ref()?)));
        waiting.map(|(name, why)| (name.clone(), why.clone())).collect()
    }

    /// Until when an earlier failure of this part's create asks to wait.
    pub fn held_back(&self, part: &Part, now: &Now) -> Option<Mono> {
        let Member { create_retry, start_retry, .. } = self.part(part);
        let until = [create_retry, start_retry].into_iter().flatten().map(|retry| retry.until).max()?;
        (now.mono < until).then_some(until)
    }

    /// Counts a start whose answer was lost. Returns true if the start before it worked.
    pub fn start_lost(&mut self, part: &Part, now: &Now) -> bool {
        let retry = self.part_mut(part).start_retry.get_or_insert_default();
        let first = !retry.has_failed();
        retry.failed(now);
        first
    }

    /// Counts a failed create; returns until when it waits, and for how long.
    pub fn create_failed(&mut self, part: &Part, now: &Now) -> (Mono, Duration) {
        let retry = self.part_mut(part).create_retry.get_or_insert_default();
        retry.failed(now);
        (retry.until, retry.until.since(now.mono))
    }

    /// Counts what may be no failure of its create: there is no wait after the first time.
    pub fn create_contradicted(&mut self, part: &Part, now: &Now) {
        Retry::forgive_once(&mut self.part_mut(part).create_retry, now);
    }

    /// Notes that Docker made it: earlier failures do not count any more.
    pub fn create_worked(&mut self, part: &Part) {
        let member = self.part_mut(part);
        (member.create_retry, member.create_lost, member.suffix) = (None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::base::limits;
    use crate::plan::testing;

    fn now() -> Now {
        Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH }
    }

    fn waits(reason: Reason) -> Option<WaitingReason> {
        Some(WaitingReason { reason, message: String::new() })
    }

    #[test]
    fn one_that_says_nothing_is_not_kept() {
        let mut members = Members::new(limits::BACKOFF_MAX);
        members.get_mut("app");
        members.get_mut("side").image = ImageState::Missing;
        members.tidy();
        assert_eq!(members.len(), 1);
        assert_eq!(*members.get("app"), Member::default());
    }

    #[test]
    fn an_edit_forgets_failures_and_names_that_are_gone() {
        let mut members = Members::new(limits::BACKOFF_MAX);
        for part in [Part::container("app"), Part::container("gone"), Part::Sandbox] {
            members.create_failed(&part, &now());
            let member = members.part_mut(&part);
            (member.suffix, member.image) = (Some(7), ImageState::Missing);
        }
        members.get_mut("app").waiting = waits(Reason::ErrImagePull);
        members.forget_spec(&testing::pod("{containers: [{name: app}]}"));
        assert_eq!(members.len(), 2);
        let sandbox = Member { suffix: Some(7), ..Member::default() };
        let app = Member { waiting: waits(Reason::ErrImagePull), ..sandbox.clone() };
        assert_eq!([members.get("app"), &members.sandbox], [&app, &sandbox]);
        members.forget_life();
        assert_eq!(members.len(), 0);
    }

    #[test]
    fn the_first_contradiction_costs_no_wait() {
        let (mut members, app) = (Members::new(limits::BACKOFF_MAX), Part::container("app"));
        members.create_contradicted(&app, &now());
        assert_eq!(members.held_back(&app, &now()), None);
        members.create_contradicted(&app, &now());
        assert!(members.held_back(&app, &now()).is_some());
        members.create_worked(&app);
        assert_eq!(members.held_back(&app, &now()), None);
    }

    #[test]
    fn of_one_reason_nobody_waits_any_more() {
        let mut members = Members::new(limits::BACKOFF_MAX);
        members.get_mut("a").waiting = waits(Reason::ErrImagePull);
        members.get_mut("b").waiting = waits(Reason::CrashLoopBackOff);
        members.no_longer_wait(Reason::ErrImagePull);
        assert_eq!(members.waiting().keys().collect::<Vec<_>>(), ["b"]);
    }
}
