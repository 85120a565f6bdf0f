//! Asks the daemon's own main loop about sets of pods, on a Docker without containers: the rules are written
//! once. Pure.

use std::sync::Arc;

use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::table::Table;
use crate::daemon::config::Config;
use crate::daemon::turn::admission::Rejection;
use crate::daemon::turn::{Event, RuntimeEvent, Turn};
use crate::image::failure;
use crate::image::reference::Reference;
use crate::pod::problem::{Problem, Severity};
use crate::pod::waiting::Reason;
use crate::pod::{DesiredPod, Source};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::REJECTED;

/// Problems of names that are taken, of pods that the node refuses, and of pods that are held for good. Pods have the
/// names that the loop knows. And how many pods the node refuses.
pub(super) fn problems(config: &Config, sets: &Table<Source, PodSet>) -> (Vec<Problem>, usize) {
    let now = Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH };
    let mut turn = Turn::new(Arc::new(only(config, sets)));
    let listed = RuntimeEvent::Listed { containers: Vec::new(), version: None };
    turn.handle(Event::Runtime(listed), &now);
    for (source, set) in sets {
        let update = SourceUpdate::Full(set.clone());
        turn.handle(Event::Source(FromSource { source: *source, update }), &now);
    }
    let snapshot = turn.snapshot(&now);
    let mut problems = snapshot.problems;
    for problem in &mut problems {
        problem.message = bare(&problem.message).to_owned();
    }
    let mut rejected = 0_usize;
    for (pod, Rejection { reason, message, field }) in turn.rejections() {
        rejected = rejected.saturating_add(1);
        // The rejection itself says that another pod has the UID: the warning about it is redundant.
        let uid = format!("metadata.uid {} is ", pod.uid);
        let path = &pod.origin.path;
        problems.retain(|p| p.severity == Severity::Error || p.path != *path || !p.message.starts_with(&uid));
        problems.push(Problem {
            severity: Severity::Error,
            path: path.clone(),
            at: None,
            pod: Some(pod.key.to_string()),
            field: Some(field.clone()),
            message: format!("{reason}: {message}"),
        });
    }
    (problems, rejected)
}

/// Containers whose image name is invalid, as field and message. The API takes such a pod.
pub(super) fn no_images(pod: &DesiredPod) -> Vec<(String, String)> {
    let all = pod.placed().filter_map(|(field, _, container)| {
        let image = container.image.as_deref()?;
        let why = Reference::parse(image).err()?;
        let message = failure::invalid_name(image, &why);
        Some((
            format!("{field}.image"),
            format!("{}: {message}: the container is not started", Reason::InvalidImageName),
        ))
    });
    all.collect()
}

/// The message without the words that announce a rejection: `check` rejects nothing.
fn bare(message: &str) -> &str {
    message.strip_prefix(REJECTED).unwrap_or(message)
}

/// The configuration with these sources alone: the loop waits for all configured sources.
fn only(config: &Config, sets: &Table<Source, PodSet>) -> Config {
    let mut config = config.clone();
    // Any URL will do: only its presence counts.
    let url = || ManifestUrl::parse("https://localhost/").ok().map(Settings::new);
    config.sources.manifest_path = Some("/".into()).filter(|_| sets.contains_key(&Source::File));
    config.sources.manifest_url =
        config.sources.manifest_url.or_else(url).filter(|_| sets.contains_key(&Source::Http));
    config
}
