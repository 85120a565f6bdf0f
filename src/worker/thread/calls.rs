//! Calls of a pod's thread to Docker: sent at once, or when it is their turn at a gate, and their answers.
//!
//! Never here: waiting for an answer.

use super::Body;
use crate::base::clock::Clock as _;
use crate::machine::{Input, Token};
use crate::mapping::needs::Create;
use crate::pod::Source;
use crate::runtime::client::Pending;
use crate::runtime::{Call, DockerError, Reply, labels};
use crate::worker::gate::{Permit, Turn};

/// A call that was sent.
pub(super) struct InFlight {
    pub(super) token: Token,
    pub(super) pending: Pending,
    /// Held while a container is being started, or an image judged.
    pub(super) permit: Option<Permit>,
    /// The image that is judged.
    judged: Option<String>,
    /// It stops or removes a container.
    ends: bool,
}

/// A call that is made when it is its turn at a gate.
#[derive(Debug)]
pub(super) enum InTurn {
    /// The start of this container.
    Start(String),
    /// The inspect of an image for a pod.
    Judge(String),
}

impl InTurn {
    pub(super) fn turn(&self) -> Turn {
        match self {
            InTurn::Start(_) => Turn::Start,
            InTurn::Judge(..) => Turn::Judge,
        }
    }
}

/// Whether Docker has carried out a call: then it is at work on the pod, however long each answer takes. A signal that it
/// refuses again and again does not bring the end nearer.
fn is_carried_out(answer: &Result<Reply, DockerError>) -> bool {
    answer.is_ok()
}

/// Whether a call brings the end of its pod nearer.
fn ends(call: &Call) -> bool {
    matches!(call, Call::Kill { .. } | Call::Remove { .. })
}

/// The pod's UID and the name of the container.
pub(super) fn whose(create: &Create) -> (String, String) {
    let label = |name: &str| create.body.labels.get(name).cloned().unwrap_or_default();
    (label(labels::POD_UID), label(labels::CONTAINER_NAME))
}

impl Body {
    /// Cancels a call that was not sent yet.
    pub(super) fn withdraw(&mut self, token: Token) {
        let before = self.queued.len();
        // Its turn at the gate is passed on when it comes.
        self.queued.retain(|(queued, _)| *queued != token);
        let unbound = self.unbound.remove(&token.0);
        if let Some((create, _)) = &unbound {
            let of = whose(create);
            // A later one of the container needs its parts.
            if !self.unbound.values().any(|(other, _)| whose(other) == of) {
                self.volumes.withdraw(&of);
            }
        }
        if unbound.is_some() || self.queued.len() < before {
            self.told.push(Input::Withdrawn(token));
        }
    }

    /// Makes a call when there is a place for it.
    pub(super) fn in_turn(&mut self, token: Token, wanted: InTurn) {
        // Containers are started only for a pod that is wanted.
        let source = self.machine.pod().map_or(Source::File, |pod| pod.source);
        match self.tools.gates.of(wanted.turn()).enter(&self.mailbox, source, self.tools.clock.now().mono) {
            Some(permit) => self.takes_turn(token, wanted, permit),
            None => self.queued.push_back((token, wanted)),
        }
    }

    pub(super) fn takes_turn(&mut self, token: Token, wanted: InTurn, permit: Permit) {
        let (call, judged) = match wanted {
            InTurn::Start(id) => (Call::Start { id }, None),
            InTurn::Judge(image) => {
                let now = self.tools.clock.now().mono;
                if let Some(answer) = self.tools.node.judged.refused(&image, now) {
                    return self.told.push(Input::Reply(token, answer));
                }
                (Call::ImageInspect { image: image.clone() }, Some(image))
            }
        };
        let pending = self.tools.docker.begin(&call);
        self.calls.push(InFlight { token, pending, permit: Some(permit), judged, ends: false });
    }

    pub(super) fn begin(&mut self, token: Token, call: &Call) {
        if let (Some(signalled), Call::Remove { id, .. }) = (&self.tools.signalled, call) {
            signalled.forget(id);
        }
        let pending = self.tools.docker.begin(call);
        let ends = ends(call);
        self.calls.push(InFlight { token, pending, permit: None, judged: None, ends });
    }

    pub(super) fn grants(&self) -> Vec<Permit> {
        let now = self.tools.clock.now().mono;
        let grants = self.mailbox.take_grants().into_iter();
        grants.map(|(turn, source)| self.tools.gates.of(turn).permit(source, now)).collect()
    }

    pub(super) fn answers(&mut self) -> Vec<Input> {
        let now = self.tools.clock.now().mono;
        let mut done = Vec::new();
        self.calls.retain_mut(|call| match call.pending.advance() {
            None => true,
            Some(answer) => {
                let node = &self.tools.node;
                if call.ends && is_carried_out(&answer) {
                    self.tools.volumes.ends().step_of(&self.key);
                }
                if let Some(image) = &call.judged {
                    node.judged.note(image, &answer, now);
                }
                done.push(Input::Reply(call.token, answer));
                false
            }
        });
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Refusal;

    /// Regression: an engine that lists at once took 9.5 s to kill and to remove each container, and other pods were
    /// evicted meanwhile.
    #[test]
    fn the_end_of_a_pod_gets_on_with_each_answer_to_its_stop() {
        let id = || "c".to_owned();
        assert!(ends(&Call::Kill { id: id(), signal: "TERM".into() }));
        assert!(ends(&Call::Remove { id: id(), force: true }));
        assert!(!ends(&Call::Inspect { id: id() }) && !ends(&Call::Start { id: id() }));
        assert!(is_carried_out(&Ok(Reply::Done)));
        // A kill that was refused each five seconds put off the kill through cgroups for five minutes.
        assert!(!is_carried_out(&Err(Refusal::not_sent("no".into()))));
        assert!(!is_carried_out(&Err(DockerError::Timeout("no answer".into()))), "it may hang");
    }
}
