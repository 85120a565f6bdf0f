//! What the daemon's main loop says of a set of pods: the loop itself is asked, on a Docker that holds
//! nothing, so that nothing is decided here a second time. Pure.

use std::sync::Arc;

use crate::after;
use crate::clock::{Mono, Now, Timestamp};
use crate::config::Config;
use crate::pod::Source;
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, Problem, Severity, SourceUpdate};
use crate::status::REJECTED;
use crate::turn::{Event, RuntimeEvent, Turn};

/// Names that are taken, pods that the node refuses, and those that are held for good. Names of pods are as
/// the loop has them.
pub(super) fn problems(config: &Config, source: Source, set: &PodSet) -> Vec<Problem> {
    let now = Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH };
    let mut turn = Turn::new(Arc::new(only(config, source)));
    let listed = RuntimeEvent::Listed { containers: Vec::new(), version: None };
    turn.handle(Event::Runtime(listed), &now);
    let update = SourceUpdate::Full(set.clone());
    turn.handle(Event::Source(FromSource { source, update }), &now);
    let snapshot = turn.snapshot(&now);
    let mut problems = snapshot.problems;
    for problem in &mut problems {
        problem.message = bare(&problem.message).to_owned();
    }
    let refused = snapshot.pods.iter().filter(|view| view.status.phase.as_deref() == Some("Failed"));
    for view in refused {
        let reason = view.status.reason.as_deref().unwrap_or_default();
        let message = bare(view.status.message.as_deref().unwrap_or_default());
        // A cycle is among the problems already.
        if problems.iter().any(|p| p.pod.as_deref() == Some(&view.pod.key.to_string()) && after_field(p)) {
            continue;
        }
        problems.push(Problem {
            severity: Severity::Error,
            path: view.pod.origin.path.clone(),
            at: None,
            pod: Some(view.pod.key.to_string()),
            field: None,
            message: format!("{reason}: {message}"),
        });
    }
    problems
}

/// Nothing was rejected: it would be.
fn bare(message: &str) -> &str {
    message.strip_prefix(REJECTED).unwrap_or(message)
}

fn after_field(problem: &Problem) -> bool {
    problem.field.as_deref().is_some_and(|field| field.contains(after::AFTER))
}

/// The same node with this source alone: the loop waits for all that it has.
fn only(config: &Config, source: Source) -> Config {
    let mut config = config.clone();
    // Only that there is one counts.
    let url = || ManifestUrl::parse("https://localhost/").ok().map(Settings::new);
    config.manifest_path = Some("/".into()).filter(|_| source == Source::File);
    config.manifest_url = config.manifest_url.or_else(url).filter(|_| source == Source::Http);
    config
}
