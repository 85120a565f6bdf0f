//! Events of the pod's life, and the reasons why containers wait. Each has one wording: an event is not logged as well,
//! because the recorder writes its line.

use crate::machine::Machine;
use crate::machine::output::Output;
use crate::plan::{Owned, Role};
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, DesiredPod};
use crate::recorder::{self, List, ObjectEvent, Subject, Words};
use crate::status::WaitingReason;

impl Machine {
    /// The message without values of Secrets, the present ones and those of before.
    pub(in crate::machine) fn masked(&self, message: String) -> String {
        let all = std::iter::once(&self.objects).chain(&self.told.objects);
        all.fold(message, |message, objects| recorder::mask(message, objects))
    }

    /// Emits an event of the pod, or of this container of it.
    pub(in crate::machine) fn tell(&mut self, container: Option<&str>, words: Words) {
        let uid = match self.state.pod() {
            Some(pod) => pod.uid.clone(),
            // Found without its manifest.
            None => self.containers.all().next().map(|c| c.uid.clone()).unwrap_or_default(),
        };
        let pod = self.state.pod();
        let subject = container.map(|name| {
            let kind =
                pod.and_then(|pod| pod.container(name)).map_or(ContainerKind::Regular, |(kind, _)| kind);
            Subject { list: List::of(kind), name: name.to_owned() }
        });
        self.put_event(uid, subject, words);
    }

    /// Emits an event of a container, which its labels describe, also without a manifest. Does nothing for a sandbox.
    pub(in crate::machine) fn tell_of(&mut self, owned: &Owned, words: Words) {
        let Role::Container { name, kind, .. } = &owned.role else { return };
        let subject = Subject { list: List::of(*kind), name: name.clone() };
        self.put_event(owned.uid.clone(), Some(subject), words);
    }

    /// The same, with sandboxes: their events are the pod's own.
    pub(in crate::machine) fn tell_of_any(&mut self, id: &str, words: Words) {
        let found = self.containers.get(id).cloned();
        match found {
            Some(owned) if owned.is_sandbox() => self.put_event(owned.uid, None, words),
            Some(owned) => self.tell_of(&owned, words),
            None => self.tell(None, words),
        }
    }

    /// Emits an event about the remains of the pod of this UID.
    pub(in crate::machine) fn tell_of_uid(&mut self, uid: &str, words: Words) {
        self.put_event(uid.to_owned(), None, words);
    }

    fn put_event(&mut self, uid: String, subject: Option<Subject>, mut words: Words) {
        words.message = self.masked(words.message);
        self.out.push(Output::Event(ObjectEvent::new(self.key.clone(), uid, subject, words)));
    }

    /// Notes that a container waits, and why; the event is emitted once, not at each look.
    pub(in crate::machine) fn wait_for(
        &mut self,
        container: &str,
        reason: Reason,
        message: &str,
        words: impl IntoIterator<Item = Words>,
    ) {
        if self.set_waiting(container, reason, message) {
            words.into_iter().for_each(|words| self.tell(Some(container), words));
        }
    }

    /// Notes that a step of a container failed, and it waits; the event is emitted each time.
    pub(in crate::machine) fn failed(
        &mut self,
        container: &str,
        reason: Reason,
        message: &str,
        words: impl IntoIterator<Item = Words>,
    ) {
        self.set_waiting(container, reason, message);
        words.into_iter().for_each(|words| self.tell(Some(container), words));
    }

    /// Sets the reason why a container waits. Returns true if it is new. Docker's errors repeat the command, into which
    /// variables of Secrets may be expanded, so these are masked: everyone who may view pods sees the status.
    pub(in crate::machine) fn set_waiting(&mut self, container: &str, reason: Reason, message: &str) -> bool {
        let message = self.masked(message.to_owned());
        let is_as = |old: WaitingReason| old.reason == reason && gist(&old.message).eq(gist(&message));
        let member = self.members.get_mut(container);
        let is_known = member.waiting.take().is_some_and(is_as);
        member.waiting = Some(WaitingReason { reason, message });
        !is_known
    }

    /// Notes on every waiting container that nothing of the pod can run. Returns true if that is new.
    pub(in crate::machine) fn sandbox_problem(&mut self, pod: &DesiredPod, message: &str) -> bool {
        let mut new = false;
        for (_, container) in pod.containers() {
            new |= self.set_waiting(&container.name, Reason::ContainerCreating, message);
        }
        new
    }
}

/// A message without numbers and ids: of two messages that differ only in these, one is emitted.
fn gist(message: &str) -> impl Iterator<Item = char> {
    message.chars().filter(|c| !c.is_ascii_hexdigit())
}
