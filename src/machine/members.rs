//! What is known of each container of the pod by its name, across its attempts: why it waits, what became of its
//! image, how often its create failed. The sandbox is one of them, under `POD`.
//!
//! A member that says nothing is not kept. What was learnt of one life, or of one spec, does not hold up the next.

use std::time::Duration;

use super::calls::Retry;
use super::start::identity::ImageUser;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::DesiredPod;
use crate::runtime::labels;
use crate::status::{Waiting, WaitingReason};

/// What is known of the image of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum ImageState {
    /// Nothing: the create finds out.
    #[default]
    Untold,
    /// The create was refused for want of it.
    Missing,
    /// It may be used without asking again (policy Always, or after a refusal).
    Ensured {
        /// For this attempt of the container.
        attempt: u32,
        /// That it was pulled has been told, for this container.
        told: bool,
    },
}

/// What is known of one container of the pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Member {
    /// Creates that failed. The first of those that may be no failure costs no wait.
    pub create_retry: Option<Retry>,
    /// Starts whose answers were lost, since one is known to have worked: what is made anew for them waits.
    pub start_retry: Option<Retry>,
    /// Its name is held by a container that cannot be found: this suffix makes another one.
    pub suffix: Option<u32>,
    /// What is known of its image.
    pub image: ImageState,
    /// The user of its image.
    pub image_user: Option<ImageUser>,
    /// Why it waits.
    pub waiting: Option<WaitingReason>,
}

impl Member {
    /// What was ensured does not hold any more. True: it was ensured.
    pub fn forget_ensured(&mut self) -> bool {
        let ensured = matches!(self.image, ImageState::Ensured { .. });
        if ensured {
            self.image = ImageState::Untold;
        }
        ensured
    }

    /// That it is missing does not hold any more.
    pub fn forget_missing(&mut self) {
        if self.image == ImageState::Missing {
            self.image = ImageState::Untold;
        }
    }

    /// It waits for this reason.
    pub fn waits_for(&self, reason: &str) -> bool {
        self.waiting.as_ref().is_some_and(|why| why.reason == reason)
    }
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(super) struct Members(Table<String, Member>);

/// What an absent one says.
static NOTHING: Member = Member {
    create_retry: None,
    start_retry: None,
    suffix: None,
    image: ImageState::Untold,
    image_user: None,
    waiting: None,
};

impl Members {
    /// What is known of this one.
    pub fn get(&self, name: &str) -> &Member {
        self.0.get(name).unwrap_or(&NOTHING)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> &mut Member {
        self.0.get_or_default(name.to_owned())
    }

    /// All of which something is known.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.0.values_mut()
    }

    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops those that say nothing.
    pub fn tidy(&mut self) {
        self.0.retain(|_, member| *member != NOTHING);
    }

    /// Another life begins, or this one ends.
    pub fn forget_life(&mut self) {
        self.0.clear();
    }

    /// The spec was edited under the same UID: what failed may work now, and names that are gone are forgotten.
    pub fn forget_spec(&mut self, new: &DesiredPod) {
        self.0.retain(|name, member| {
            let Member { suffix, waiting, .. } = std::mem::take(member);
            *member = Member { suffix, waiting, ..Member::default() };
            name == labels::SANDBOX_NAME || new.container(name).is_some()
        });
    }

    /// No container waits for this reason any more.
    pub fn no_longer_wait(&mut self, reason: &str) {
        for member in self.0.values_mut() {
            member.waiting = member.waiting.take().filter(|why| why.reason != reason);
        }
    }

    /// No container waits.
    pub fn none_waits(&mut self) {
        for member in self.0.values_mut() {
            member.waiting = None;
        }
    }

    /// Why containers wait, for the status.
    pub fn waiting(&self) -> Waiting {
        let waiting = self.0.iter().filter_map(|(name, member)| Some((name, member.waiting.as_ref()?)));
        waiting.map(|(name, why)| (name.clone(), why.clone())).collect()
    }

    /// An earlier failure of this one's create asks to wait until then.
    pub fn held_back(&self, name: &str, now: &Now) -> Option<Mono> {
        let Member { create_retry, start_retry, .. } = self.get(name);
        let until = [create_retry, start_retry].into_iter().flatten().map(|retry| retry.until).max()?;
        (now.mono < until).then_some(until)
    }

    /// Counts a start of it whose answer was lost. True: the one before it worked.
    pub fn start_lost(&mut self, name: &str, now: &Now) -> bool {
        let retry = self.get_mut(name).start_retry.get_or_insert_default();
        let first = !retry.has_failed();
        retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
        first
    }

    /// Counts a failure of its create; until when it waits, and for how long.
    pub fn create_failed(&mut self, name: &str, now: &Now) -> (Mono, Duration) {
        let retry = self.get_mut(name).create_retry.get_or_insert_default();
        retry.failed(limits::CALL_RETRY_MIN, limits::CALL_RETRY_MAX, now.mono);
        (retry.until, retry.until.since(now.mono))
    }

    /// Counts what may be no failure of its create at all: the first time nothing is waited for.
    pub fn create_contradicted(&mut self, name: &str, now: &Now) {
        Retry::forgive_once(&mut self.get_mut(name).create_retry, now);
    }

    /// Docker made it: what held it up before counts no more.
    pub fn create_worked(&mut self, name: &str) {
        let member = self.get_mut(name);
        (member.create_retry, member.suffix) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::plan::testing;

    fn now() -> Now {
        Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH }
    }

    fn waits(reason: &str) -> Option<WaitingReason> {
        Some(WaitingReason { reason: reason.to_owned(), message: String::new() })
    }

    #[test]
    fn one_that_says_nothing_is_not_kept() {
        let mut members = Members::default();
        members.get_mut("app");
        members.get_mut("side").image = ImageState::Missing;
        members.tidy();
        assert_eq!(members.len(), 1);
        assert_eq!(*members.get("app"), Member::default());
    }

    #[test]
    fn an_edit_forgets_failures_and_names_that_are_gone() {
        let mut members = Members::default();
        for name in ["app", "gone", labels::SANDBOX_NAME] {
            members.create_failed(name, &now());
            let member = members.get_mut(name);
            (member.suffix, member.waiting, member.image) = (Some(7), waits("x"), ImageState::Missing);
        }
        members.forget_spec(&testing::pod("{containers: [{name: app}]}"));
        assert_eq!(members.len(), 2);
        let left = Member { suffix: Some(7), waiting: waits("x"), ..Member::default() };
        assert_eq!([members.get("app"), members.get(labels::SANDBOX_NAME)], [&left, &left]);
        members.forget_life();
        assert_eq!(members.len(), 0);
    }

    #[test]
    fn the_first_contradiction_costs_no_wait() {
        let mut members = Members::default();
        members.create_contradicted("app", &now());
        assert_eq!(members.held_back("app", &now()), None);
        members.create_contradicted("app", &now());
        assert!(members.held_back("app", &now()).is_some());
        members.create_worked("app");
        assert_eq!(members.held_back("app", &now()), None);
    }

    #[test]
    fn of_one_reason_nobody_waits_any_more() {
        let mut members = Members::default();
        members.get_mut("a").waiting = waits("x");
        members.get_mut("b").waiting = waits("y");
        members.no_longer_wait("x");
        assert_eq!(members.waiting().keys().collect::<Vec<_>>(), ["b"]);
    }
}
