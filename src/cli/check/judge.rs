//! What the daemon's main loop says of sets of pods: the loop itself is asked, on a Docker that holds
//! nothing, so that nothing is decided here a second time. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::clock::{Mono, Now, Timestamp};
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

/// Names that are taken, pods that the node refuses, and those that are held for good. Names of pods are as
/// the loop has them.
pub(super) fn problems(config: &Config, sets: &BTreeMap<Source, PodSet>) -> Vec<Problem> {
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
    for (pod, Rejection { reason, message, field }) in turn.rejections() {
        // That its UID is another one's is told by this alone.
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
    problems
}

/// Containers whose image has a name that is none, and what becomes of them. The API takes such a pod.
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

/// `check` rejects nothing, so the words that say so go.
fn bare(message: &str) -> &str {
    message.strip_prefix(REJECTED).unwrap_or(message)
}

/// The same node with these sources alone: the loop waits for all that it has.
fn only(config: &Config, sets: &BTreeMap<Source, PodSet>) -> Config {
    let mut config = config.clone();
    // Only that there is one counts.
    let url = || ManifestUrl::parse("https://localhost/").ok().map(Settings::new);
    config.sources.manifest_path = Some("/".into()).filter(|_| sets.contains_key(&Source::File));
    config.sources.manifest_url =
        config.sources.manifest_url.or_else(url).filter(|_| sets.contains_key(&Source::Http));
    config
}
