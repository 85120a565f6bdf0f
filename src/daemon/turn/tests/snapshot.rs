//! The snapshot of the loop's state.

use super::rig::{Rig, pod, pod_of};
use crate::daemon::turn::{Event, RuntimeEvent};
use crate::pod::Source;
use crate::pod::problem::{Problem, Severity};
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::task::Task;

#[test]
fn before_anything_is_known() {
    let rig = Rig::new();
    let shown = rig.snapshot();
    assert_eq!(shown.node, "n1");
    assert_eq!((shown.docker.reachable, shown.docker.problem.as_deref()), (false, Some("not asked yet")));
    let [source] = &shown.sources[..] else { panic!("{:?}", shown.sources) };
    assert_eq!((source.name.as_str(), source.location.as_str(), source.ready), ("file", "/m", false));
    assert!(shown.pods.is_empty() && shown.problems.is_empty());
}

#[test]
fn pods_are_shown_as_their_workers_tell_them() {
    let mut rig = Rig::listed();
    rig.want(&[pod("b"), pod("a"), pod_of("c", "{nodeName: n2, containers: [{name: app}]}")]);
    assert_eq!(rig.shown(), "a Pending, b Pending, c Failed NodeName");
    rig.status(&pod("b"), "Running", false);
    assert_eq!(rig.shown(), "a Pending, b Running, c Failed NodeName");
    rig.want(&[pod("a")]);
    assert_eq!(rig.shown(), "a Pending, b Running terminating");
    rig.gone("b");
    assert_eq!(rig.shown(), "a Pending");
    assert_eq!(rig.snapshot().sources.first().map(|s| (s.ready, s.pods)), Some((true, 1)));
}

#[test]
fn changes_are_noticed_and_idleness_too() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.status(&pod("a"), "Running", false);
    assert!(rig.turn.take_changed());
    assert!(!rig.turn.take_changed());
    rig.seen("a", &["a/a-1/app running"]);
    rig.list(&["a/a-1/app running"]);
    assert!(!rig.turn.take_changed(), "a list that brings nothing new writes no file");
    rig.handle(Event::Runtime(RuntimeEvent::Lost("gone".into())));
    assert!(rig.turn.take_changed());
    rig.handle(Event::Runtime(RuntimeEvent::Lost("gone".into())));
    assert!(!rig.turn.take_changed());
    rig.list(&["a/a-1/app running"]);
    assert!(rig.turn.take_changed());
}

fn problem(severity: Severity, message: &str) -> Problem {
    let path = "/m/a.yaml".to_owned();
    Problem { severity, path, at: Some((3, 5)), pod: None, field: None, message: message.into() }
}

#[test]
fn problems_are_told_once_and_shown_while_they_last() {
    let mut rig = Rig::listed();
    let full = |problems: &[Problem]| {
        let set = PodSet { problems: problems.to_vec(), ..PodSet::default() };
        Event::Source(FromSource { source: Source::File, update: SourceUpdate::Full(set) })
    };
    let (bad, odd) = (problem(Severity::Error, "no image"), problem(Severity::Warning, "ignored"));
    let both = [bad.clone(), odd.clone()];
    let told = rig.handle(full(&both));
    let expected = [
        "ERROR: /m/a.yaml:3:5: no image; no good version of it is known: nothing is started from it",
        "WARN: /m/a.yaml:3:5: ignored",
    ];
    assert_eq!(told, expected);
    assert_eq!(rig.handle(full(&both)), [""; 0]);
    assert_eq!(rig.snapshot().problems, both);
    assert_eq!(rig.handle(full(&[odd])), ["INFO: /m/a.yaml: its errors are gone"]);
    assert_eq!(rig.snapshot().problems.len(), 1);
    assert_eq!(rig.handle(full(&both)).len(), 1, "it came back");
}

#[test]
fn k120345_a_source_that_cannot_be_read_is_told_once_and_shown() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let told = rig.fail("/m: no such directory");
    assert_eq!(told, ["ERROR: source file: /m: no such directory; what runs from it stays"]);
    assert_eq!(rig.fail("/m: no such directory"), [""; 0]);
    assert_eq!(
        rig.snapshot().sources.first().and_then(|s| s.problem.clone()).as_deref(),
        Some("/m: no such directory")
    );
    assert_eq!(rig.shown(), "a Pending");
    assert_eq!(rig.want(&[pod("a")]), ["INFO: source file can be read again"]);
    assert_eq!(rig.snapshot().sources.first().and_then(|s| s.problem.clone()), None);
}

/// Regression: a source whose thread hung on a dead disk was shown as Ready.
#[test]
fn a_source_that_hangs_is_not_ready() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let problem = |rig: &Rig| rig.snapshot().sources[0].problem.clone();
    assert_eq!(problem(&rig), None);
    rig.handle(Event::Stuck(vec![Task::Source(Source::File)]));
    assert!(problem(&rig).unwrap().starts_with("podkeeper hangs while it reads it"));
    rig.handle(Event::Stuck(Vec::new()));
    assert_eq!(problem(&rig), None);
}
