//! Reads a container from Docker as [`Owned`]; `None` when it is foreign. Pure.
//!
//! Only podkeeper's labels decide, and the Docker name if one of them is damaged: fields of the create body in
//! an inspect are not trusted (invariant 4), because engines and kernels alter them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Timestamp;
use crate::mapping;
use crate::plan::Way;
use crate::plan::restart::UNKNOWN_EXIT;
use crate::plan::{Deadline, Exit, Kept, Link, Manifest, Owned, PreStop, Role, RunState};
use crate::pod::{ContainerKind, PodKey, Source};
use crate::runtime::names::Name;
use crate::runtime::{ContainerDetail, ContainerSummary, DockerState, Resources, labels, names};

/// Reads an entry of the container list. A list has no times, addresses or failed starts; only
/// [`from_detail`] has them.
#[must_use]
pub fn from_summary(summary: &ContainerSummary, root_dir: &str) -> Option<Owned> {
    let ours = ParsedLabels::read(&summary.labels, &summary.name, root_dir)?;
    let state = match summary.state {
        DockerState::Created => RunState::Created,
        DockerState::Running => RunState::Running { started: None },
        DockerState::Removing => RunState::Removing,
        DockerState::Exited => {
            let code = exit_code(&summary.status);
            let message = if code.is_some() { "" } else { "Docker does not tell the exit code" };
            RunState::Exited(Exit {
                code: code.unwrap_or(UNKNOWN_EXIT),
                oom_killed: false,
                cannot_run: false,
                message: message.into(),
                started: None,
                finished: None,
                seen: None,
            })
        }
    };
    let host_network = ours.host_network.unwrap_or(false);
    Some(Owned {
        id: summary.id.clone(),
        docker_name: summary.name.clone(),
        image: summary.image.clone(),
        image_id: summary.image_id.clone(),
        stop_signal: None,
        created: Timestamp::from_second(summary.created).ok(),
        ..ours.owned(state, host_network, Vec::new(), Link::Untold)
    })
}

/// Reads the inspect of a container.
#[must_use]
pub fn from_detail(detail: &ContainerDetail, root_dir: &str) -> Option<Owned> {
    let ours = ParsedLabels::read(&detail.labels, &detail.name, root_dir)?;
    let host_network = ours.host_network.unwrap_or(detail.host_config.network_mode == "host");
    let ips = if host_network || ours.is_by_plugins() { Vec::new() } else { detail.ips.clone() };
    let link = match detail.networks {
        // Docker records the time of a start when it is complete. After its own restart it finds a running
        // process, but not the data that it had prepared for it.
        _ if detail.start_unfinished => Link::Unfinished,
        _ if host_network || ours.is_by_plugins() => Link::Untold,
        _ if !ips.is_empty() => Link::Up,
        None => Link::Untold,
        Some(0) => Link::Cut,
        Some(_) => Link::Bare,
    };
    // A container that is being removed and never ran is not an instance that ended, and it is not started.
    let never_ran = detail.state == DockerState::Removing
        && detail.started_at.is_none()
        && detail.finished_at.is_none()
        && detail.exit_code == 0;
    let state = if never_ran { RunState::Created } else { detail_state(detail) };
    Some(Owned {
        id: detail.id.clone(),
        docker_name: detail.name.clone(),
        image: detail.image.clone(),
        image_id: detail.image_id.clone(),
        start_sent: never_ran,
        stop_signal: detail.stop_signal.clone().filter(|signal| !signal.is_empty()),
        created: detail.created,
        log_path: detail.log_path.clone(),
        resources: detail.host_config.resources,
        ..ours.owned(state, host_network, ips, link)
    })
}

/// The state in an inspect (cri-dockerd's `core/container_status.go`). A failed start leaves `created` with
/// an exit code: it must count as ended, else the worker would wait for it.
fn detail_state(detail: &ContainerDetail) -> RunState {
    let ended = |cannot_run: bool| {
        RunState::Exited(Exit {
            code: detail.exit_code,
            oom_killed: detail.oom_killed,
            cannot_run,
            message: detail.error.clone(),
            started: if cannot_run { detail.created } else { detail.started_at },
            finished: if cannot_run { detail.created } else { detail.finished_at },
            seen: None,
        })
    };
    match detail.state {
        DockerState::Running => RunState::Running { started: detail.started_at },
        DockerState::Removing => RunState::Removing,
        DockerState::Created | DockerState::Exited if detail.finished_at.is_some() => ended(false),
        DockerState::Created | DockerState::Exited if detail.exit_code != 0 => ended(true),
        DockerState::Created => RunState::Created,
        DockerState::Exited => ended(false),
    }
}

/// The code in `Exited (137) 3 seconds ago`.
fn exit_code(status: &str) -> Option<i64> {
    let (_, rest) = status.split_once("Exited (")?;
    rest.split_once(')')?.0.parse().ok()
}

/// The values of podkeeper's labels, completed from the Docker name.
struct ParsedLabels<'a> {
    key: PodKey,
    uid: &'a str,
    container: &'a str,
    attempt: u32,
    host_network: Option<bool>,
    /// The mark that was added to the name.
    mark: Option<u32>,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> ParsedLabels<'a> {
    /// `None` for a container of another root directory or without podkeeper's labels, and when neither label
    /// nor name identifies it: then it is safest to leave it alone.
    fn read(
        all: &'a BTreeMap<String, String>,
        docker_name: &'a str,
        root_dir: &str,
    ) -> Option<ParsedLabels<'a>> {
        let get = |key: &str| all.get(key).map(String::as_str).filter(|value| !value.is_empty());
        if get(labels::ROOT_DIR) != Some(root_dir) {
            return None;
        }
        let name: Option<Name<'a>> = names::parse(docker_name);
        let by_type = match get(labels::TYPE) {
            Some(labels::TYPE_SANDBOX) => Some(labels::SANDBOX_NAME),
            _ => get(labels::CONTAINER_NAME),
        };
        let container = by_type.or(name.map(|n| n.container))?;
        let attempt = match container {
            labels::SANDBOX_NAME => get(labels::SANDBOX_ATTEMPT),
            _ => get(labels::RESTART_COUNT),
        };
        Some(ParsedLabels {
            key: PodKey {
                namespace: get(labels::POD_NAMESPACE).or(name.map(|n| n.namespace))?.into(),
                name: get(labels::POD_NAME).or(name.map(|n| n.pod))?.into(),
            },
            uid: get(labels::POD_UID).or(name.map(|n| n.uid))?,
            container,
            attempt: attempt.and_then(decimal).or(name.map(|n| n.attempt))?,
            host_network: get(labels::HOST_NETWORK).and_then(|word| word.parse().ok()),
            mark: name.and_then(|n| n.suffix),
            labels: all,
        })
    }

    /// For a sandbox: whether Docker does not manage its network.
    fn is_by_plugins(&self) -> bool {
        self.labels.get(labels::NETWORK).is_some_and(|network| network == labels::NETWORK_CNI)
    }

    /// The deadline of a sandbox.
    fn deadline(&self) -> Option<Box<Deadline>> {
        let since = self.labels.get(labels::ACTIVE_SINCE).and_then(|text| {
            let (boot, up) = text.split_once('/').filter(|(boot, _)| !boot.is_empty())?;
            Some((boot.to_owned(), Duration::from_millis(up.parse().ok()?)))
        });
        let passed = self.mark == Some(names::DEADLINE);
        (since.is_some() || passed).then(|| Box::new(Deadline { since, passed }))
    }

    fn owned(&self, state: RunState, host_network: bool, ips: Vec<String>, link: Link) -> Owned {
        // An empty label means no value; containers of an older version of podkeeper lack the label.
        let text = |key: &str| self.labels.get(key).map(String::as_str).filter(|text| !text.is_empty());
        let grace = |key: &str| text(key)?.parse().ok().and_then(crate::base::duration::grace);
        let is_sandbox = self.container == labels::SANDBOX_NAME;
        // A label that an older version of podkeeper did not write on a container may come from its image. A
        // sandbox's image is the operator's or podkeeper's own.
        let sealed = is_sandbox
            || text(labels::SANDBOX_ID).is_some_and(|sandbox| text(labels::SEALED) == Some(sandbox));
        let ours = |key: &str| text(key).filter(|_| sealed);
        let role = if is_sandbox {
            let kept = Kept {
                deadline: self.deadline(),
                seen: text(labels::SEEN).and_then(|seen| seen.parse().ok()),
                devices: ours(labels::ASSIGNED_DEVICES).map(str::to_owned),
                runtime: ours(labels::RUNTIME).map(str::to_owned),
                sizes: ours(labels::SIZES).map(str::to_owned),
                restart: self.mark == Some(names::RESTART),
                cni: self.is_by_plugins(),
            };
            Role::Sandbox { host_network, ips, link, kept }
        } else {
            // A damaged kind counts as regular: such a container stops first, and no other container waits for
            // it.
            let (kind, index) = text(labels::KIND).and_then(kind).unwrap_or((ContainerKind::Regular, 0));
            Role::Container {
                name: self.container.into(),
                kind,
                index,
                sandbox_id: text(labels::SANDBOX_ID).unwrap_or("").into(),
                hash: text(labels::HASH).and_then(|hex| u32::from_str_radix(hex, 16).ok()),
            }
        };
        Owned {
            id: String::new(),
            docker_name: String::new(),
            key: self.key.clone(),
            uid: self.uid.into(),
            role,
            attempt: self.attempt,
            state,
            start_sent: false,
            killed: false,
            never_ran: text(labels::NEVER_RAN)
                .and_then(|text| text.split_once('/'))
                .filter(|(_, sandbox)| text(labels::SANDBOX_ID) == Some(*sandbox))
                .and_then(|(count, _)| decimal(count))
                .unwrap_or(0),
            image: String::new(),
            image_id: String::new(),
            grace: grace(labels::DELETION_GRACE)
                .filter(|_| sealed)
                .or_else(|| grace(labels::TERMINATION_GRACE)),
            manifest: Manifest {
                source: text(labels::SOURCE).and_then(Source::parse),
                origin: text(labels::ORIGIN).map(str::to_string),
                written: ours(labels::WRITTEN).map(str::to_string),
                shape: ours(labels::SHAPE).map(str::to_string),
            },
            pre_stop: text(labels::PRE_STOP).map(|handler| {
                let ports = text(labels::PORTS).unwrap_or_default().to_owned();
                Box::new(PreStop { handler: handler.to_owned(), ports, sealed })
            }),
            message: Way::of(
                text(labels::TERMINATION_MESSAGE_PATH),
                text(labels::TERMINATION_MESSAGE_POLICY),
            ),
            stop_signal: None,
            created: None,
            log_path: String::new(),
            resources: Resources::default(),
        }
    }
}

fn decimal(text: &str) -> Option<u32> {
    text.parse().ok()
}

/// Parses `sidecar.1`.
fn kind(text: &str) -> Option<(ContainerKind, u32)> {
    let (word, index) = text.split_once('.')?;
    let kinds =
        [ContainerKind::Init, ContainerKind::Sidecar, ContainerKind::Regular, ContainerKind::Ephemeral];
    let kind = kinds.into_iter().find(|kind| mapping::kind_word(*kind) == word)?;
    Some((kind, decimal(index)?))
}

#[cfg(test)]
mod tests;
