//! Answers of the in-memory Docker about its containers: entries of the list, inspects, and refusals in Docker's
//! words.
//!
//! Never here: a change of state.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hooks::Field;
use super::state::{Container, State, refused};
use crate::base::clock::Now;
use crate::runtime::{
    ContainerDetail, ContainerSummary, DockerError, DockerState, HostDetail, RefusalKind as Kind,
};

/// 404 about a container; `before` is the text that some calls put in front.
pub(super) fn no_container(before: &str, key: &str) -> DockerError {
    refused(Kind::NoSuchContainer, 404, format!("{before}No such container: {key}"))
}

/// 409: the name is in use by `holder`.
pub(super) fn name_in_use(name: &str, holder: &str) -> DockerError {
    refused(Kind::NameInUse(Some(holder.into())), 409, name_taken(name, holder))
}

/// Text that a rename puts in front of its complaint about the name.
pub(super) const ALLOCATING: &str = "Error when allocating new name: ";

pub(super) fn name_taken(name: &str, holder: &str) -> String {
    format!(
        "Conflict. The container name \"/{name}\" is already in use by container \"{holder}\". You have to \
         remove (or rename) that container to be able to reuse that name."
    )
}

/// `before`: text that Docker puts in front of the name when it complains.
pub(super) fn check_name(name: &str, before: &str) -> Result<(), String> {
    let fine = |(at, c): (usize, char)| c.is_ascii_alphanumeric() || (at > 0 && "_.-".contains(c));
    if name.len() >= 2 && name.char_indices().all(fine) {
        return Ok(());
    }
    Err(format!("Invalid container name ({before}{name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"))
}

/// Whether the labels match a filter, `key` or `key=value`.
pub(super) fn has_label(labels: &BTreeMap<String, String>, filter: &str) -> bool {
    match filter.split_once('=') {
        Some((key, value)) => labels.get(key).is_some_and(|v| v == value),
        None => labels.contains_key(filter),
    }
}

/// Docker's words for a time span (`go-units`).
fn human(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours) = (seconds / 60, (seconds + 1800) / 3600);
    match () {
        () if seconds < 1 => "Less than a second".into(),
        () if seconds == 1 => "1 second".into(),
        () if seconds < 60 => format!("{seconds} seconds"),
        () if minutes == 1 => "About a minute".into(),
        () if minutes < 60 => format!("{minutes} minutes"),
        () if hours == 1 => "About an hour".into(),
        () if hours < 48 => format!("{hours} hours"),
        () if hours < 24 * 14 => format!("{} days", hours / 24),
        () if hours < 24 * 60 => format!("{} weeks", hours / 24 / 7),
        () if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        () => format!("{} years", hours / 24 / 365),
    }
}

impl State {
    pub(super) fn summary(&self, c: &Container, now: Now) -> ContainerSummary {
        let ago = |at: Option<Now>| human(at.map_or(Duration::ZERO, |at| now.mono.since(at.mono)));
        let moved = self.image(&c.body.image).is_none_or(|i| i.id != c.image_id);
        ContainerSummary {
            id: c.id.clone(),
            name: c.name.clone(),
            image: if moved { c.image_id.clone() } else { c.body.image.clone() },
            image_id: c.image_id.clone(),
            labels: c.body.labels.clone(),
            state: c.state,
            status: match c.state {
                DockerState::Created => "Created".into(),
                DockerState::Running => format!("Up {}", ago(c.started)),
                DockerState::Exited => format!("Exited ({}) {} ago", c.exit_code, ago(c.finished)),
                DockerState::Removing if c.dead => "Dead".into(),
                DockerState::Removing => "Removal In Progress".into(),
            },
            created: c.created.as_second(),
            ips: (!self.dropped.contains(&Field::Ips)).then(|| c.address().into_iter().collect()),
            networks: match c.body.host_config.namespaces.network_mode.as_str() {
                "" => vec!["bridge".to_owned()],
                mode if mode.starts_with("container:") => Vec::new(),
                mode => vec![mode.to_owned()],
            },
            length: c.body.labels.iter().map(|(key, value)| key.len() + value.len()).sum(),
        }
    }

    pub(super) fn detail(&self, c: &Container) -> ContainerDetail {
        let kept = |field: Field| !self.dropped.contains(&field);
        let text = |field: Field, value: &str| if kept(field) { value.to_string() } else { String::new() };
        let wall = |field: Field, at: Option<Now>| at.map(|at| at.wall).filter(|_| kept(field));
        let host = &c.body.host_config;
        let mode = &host.namespaces.network_mode;
        ContainerDetail {
            id: c.id.clone(),
            name: c.name.clone(),
            created: Some(c.created).filter(|_| kept(Field::Created)),
            state: c.state,
            oom_killed: c.oom_killed,
            exit_code: c.exit_code,
            error: text(Field::Error, &c.error),
            started_at: wall(Field::StartedAt, c.started),
            finished_at: wall(Field::FinishedAt, c.finished),
            image_id: text(Field::ImageId, &c.image_id),
            image: text(Field::Image, &c.body.image),
            labels: c.body.labels.clone(),
            stop_signal: c.body.stop_signal.clone().filter(|_| kept(Field::StopSignal)),
            tty: c.body.tty,
            ips: c.address().into_iter().filter(|_| kept(Field::Ips)).collect(),
            networks: kept(Field::Ips).then(|| usize::from(c.is_on_a_network())),
            // There is no log file: logs come through the API.
            log_path: String::new(),
            host_config: HostDetail {
                network_mode: text(Field::NetworkMode, if mode.is_empty() { "default" } else { mode }),
                log_driver: host.log_config.as_ref().map(|logs| logs.driver.clone()).unwrap_or_default(),
                resources: host.resources,
                cgroup_parent: host.cgroup_parent.clone(),
                pids_limit: host.pids_limit,
            },
            start_unfinished: false,
        }
    }
}
