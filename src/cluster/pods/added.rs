//! Ephemeral containers of the server's pods (`kubectl debug`): which have to be made, and how those are told that do not
//! exist. Pure.
//!
//! Never here: a second start. An ephemeral container runs once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateWaiting, ContainerStatus, EphemeralContainer, Pod, PodStatus,
};

use super::finish::{self, has_evidence};
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::waiting::Reason;
use crate::runtime::names;

/// An ephemeral container: the UID of its pod, and its name.
pub type Id = (String, String);

/// Why a container is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It could not be made.
    Failed(String),
    /// It has not been tried yet.
    Waits(String),
}

/// Why containers are not there, until they are. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// Grows with every change.
    pub round: u64,
    pub all: Arc<Table<Id, Why>>,
}

impl Failures {
    /// Forgets those of other pods.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        if self.all.keys().any(|(uid, _)| !is_there(uid)) {
            Arc::make_mut(&mut self.all).retain(|(uid, _), _| is_there(uid));
        }
    }

    /// Notes why a container is not there; `None`: it is, or is being made.
    pub fn note(&mut self, id: Id, why: Option<Why>) {
        if self.all.get(&id) == why.as_ref() {
            return;
        }
        self.round = self.round.saturating_add(1);
        let all = Arc::make_mut(&mut self.all);
        match why {
            Some(why) => _ = all.insert(id, why),
            None => _ = all.remove(&id),
        }
    }
}

fn of(pod: &Pod) -> impl Iterator<Item = &EphemeralContainer> {
    let all = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    all.take(limits::API_ADDED_OF_POD)
}

fn status<'a>(status: Option<&'a PodStatus>, name: &str) -> Option<&'a ContainerStatus> {
    let all = status.and_then(|status| status.ephemeral_container_statuses.as_ref());
    all.into_iter().flatten().find(|status| status.name == name)
}

/// Whether it has run: an API server that is told of it once keeps its id.
fn has_run(status: &ContainerStatus) -> bool {
    has_evidence(status) || status.container_id.is_some()
}

/// Those of the server's pod that have never run, by this node's status of it and by the server's. One that an earlier daemon
/// has created, and not started, is among them.
pub fn missing<'a>(own: &'a PodStatus, copy: &'a Pod) -> impl Iterator<Item = &'a EphemeralContainer> {
    of(copy).filter(|container| {
        let has_run_before = status(copy.status.as_ref(), &container.name).is_some_and(has_run);
        !has_run_before && !status(Some(own), &container.name).is_some_and(has_evidence)
    })
}

/// Those of the server's pod that run by this node's status of it, with Docker's ids.
pub fn running<'a>(
    own: &'a PodStatus,
    copy: &'a Pod,
) -> impl Iterator<Item = (&'a EphemeralContainer, &'a str)> {
    of(copy).filter_map(|container| {
        let status = status(Some(own), &container.name)?;
        status.state.as_ref()?.running.as_ref()?;
        Some((container, names::docker_id(status.container_id.as_deref()?)?))
    })
}

/// Whether this node's status of the server's pod does not show that all of them have run.
pub fn are_left_out(own: &PodStatus, copy: &Pod) -> bool {
    of(copy).any(|container| !status(Some(own), &container.name).is_some_and(has_evidence))
}

/// The reason for which it waits, and the message. Failures of its image begin with their reason.
fn reason(why: Option<&Why>) -> (Reason, Option<String>) {
    let why = match why {
        Some(Why::Failed(why)) => why,
        Some(Why::Waits(why)) => return (Reason::ContainerCreating, Some(why.clone())),
        None => return (Reason::ContainerCreating, None),
    };
    let of_image = [Reason::ErrImagePull, Reason::ErrImageNeverPull];
    let reason = of_image.into_iter().find(|reason| why.starts_with(reason.as_str()));
    (reason.unwrap_or(Reason::CreateContainerError), Some(why.clone()))
}

/// Shows the containers that do not run on this node in the status of the server's pod: as waiting, with the reason, or as
/// ended, for none runs twice.
pub fn show(told: &mut PodStatus, copy: &Pod, uid: &str, failures: &Failures) {
    let left_out = |told: &PodStatus, name: &str| !status(Some(told), name).is_some_and(has_evidence);
    for container in of(copy).filter(|container| left_out(told, &container.name)).collect::<Vec<_>>() {
        let before = status(copy.status.as_ref(), &container.name).filter(|before| has_run(before));
        let shown = match before.cloned() {
            Some(mut before) => {
                finish::end(&mut before);
                before
            }
            None => {
                let (reason, message) = reason(failures.all.get(&(uid.to_owned(), container.name.clone())));
                let waiting = ContainerStateWaiting { reason: Some(reason.as_str().to_owned()), message };
                ContainerStatus {
                    name: container.name.clone(),
                    image: container.image.clone().unwrap_or_default(),
                    state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
                    ..ContainerStatus::default()
                }
            }
        };
        let all = told.ephemeral_container_statuses.get_or_insert_default();
        all.retain(|status| status.name != shown.name);
        all.push(shown);
    }
}
