//! What sources say beside their sets: restored, refused, the same again.

use super::rig::{Rig, acts, pod};
use crate::source::{PodSet, Problem, Refused, Severity, SourceUpdate};

fn set(pods: &[&str]) -> PodSet {
    PodSet { pods: pods.iter().map(|words| pod(words)).collect(), ..PodSet::default() }
}

/// `a STALE, b`: pods as the snapshot shows them.
fn stale(rig: &Rig) -> String {
    let word = |p: &crate::status::snapshot::PodView| {
        format!("{}{}", p.pod.key.name, if p.stale { " STALE" } else { "" })
    };
    rig.snapshot().pods.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_restored_runs_and_marks_nothing_ready() {
    let mut rig = Rig::listed();
    let told = rig.source(SourceUpdate::Restored(set(&["a", "b"])));
    assert_eq!(told[0], "INFO: source file: its last good version is restored: 2 pods");
    assert_eq!(acts(told), ["spawn a, empty", "run a/a-1", "spawn b, empty", "run b/b-1"]);
    let shown = rig.snapshot();
    assert!(!shown.sources[0].ready && shown.sources[0].restored);
    assert_eq!(stale(&rig), "a STALE, b STALE");
    // Not ready: what no manifest names is waited for.
    assert_eq!(acts(rig.list(&["c/c-1/app running"])), ["hint a All", "hint b All"][..0]);
    assert_eq!(
        rig.fail("/m does not exist"),
        ["ERROR: source file: /m does not exist; what runs from it stays"]
    );
    assert_eq!(stale(&rig), "a STALE, b STALE");
    // The source itself has the last word, and no store after it.
    let told = acts(rig.source(SourceUpdate::Full(set(&["a"]))));
    assert_eq!(told, ["stop b: its manifest is gone", "spawn c", "stop c: no manifest names it"]);
    assert_eq!(rig.source(SourceUpdate::Restored(set(&["b"]))), [""; 0]);
    assert_eq!(stale(&rig), "a");
}

#[test]
fn content_that_is_refused_as_a_whole_keeps_what_runs_and_makes_it_stale() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.turn.take_changed();
    let problem = Problem {
        severity: Severity::Error,
        path: "https://x".into(),
        at: Some((3, 1)),
        pod: None,
        field: None,
        message: "not YAML".into(),
    };
    let refused =
        || SourceUpdate::Refused { why: "the answer is refused".into(), problems: vec![problem.clone()] };
    let told = rig.source(refused());
    assert_eq!(
        told,
        [
            "ERROR: source file: the answer is refused; the last good version stays",
            "ERROR: https://x:3:1: not YAML; the last good version stays"
        ]
    );
    assert_eq!(rig.source(refused()), [""; 0], "told once");
    assert_eq!(stale(&rig), "a STALE");
    let shown = rig.snapshot();
    assert_eq!(shown.problems, std::slice::from_ref(&problem));
    assert_eq!(shown.sources[0].problem.as_deref(), Some("the answer is refused"));
    // The old content is back, word for word.
    assert_eq!(rig.source(SourceUpdate::Same), ["INFO: source file can be read again"]);
    assert_eq!(stale(&rig), "a");
    assert!(rig.snapshot().problems.is_empty());
    rig.turn.take_changed();
    assert_eq!(rig.source(SourceUpdate::Same), [""; 0]);
    assert!(!rig.turn.take_changed(), "the same again writes no status");
}

#[test]
fn a_pod_that_the_policy_refuses_is_shown_as_failed_and_reaches_nobody() {
    let mut rig = Rig::listed();
    let refused = |words: &str| Refused {
        pod: pod(words),
        reason: "PodSecurity".into(),
        message: "violates PodSecurity \"restricted:latest\": …".into(),
    };
    let with =
        |pods: &[&str], bad: &str| SourceUpdate::Full(PodSet { refused: vec![refused(bad)], ..set(pods) });
    let told = rig.source(with(&["a"], "b"));
    assert_eq!(acts(told.clone()), ["spawn a, empty", "run a/a-1"]);
    assert_eq!(
        told[0],
        "WARN: pod default/b: PodSecurity: violates PodSecurity \"restricted:latest\": … (/m/b.yaml; it is not \
         started)"
    );
    assert_eq!(rig.shown(), "a Pending, b Failed PodSecurity");
    assert_eq!(rig.source(with(&["a"], "b")), [""; 0], "told once");
    // An older version of it that passed stays, and is marked.
    let told = rig.source(with(&["a"], "a/a-2"));
    assert_eq!(acts(told.clone()), [""; 0]);
    assert!(told[0].ends_with("(/m/a.yaml; the version before it stays)"), "{told:?}");
    assert_eq!(stale(&rig), "a STALE");
    // Orphans of a refused pod are stopped: nobody wants them.
    let mut rig = Rig::new();
    rig.source(with(&[], "b"));
    assert_eq!(acts(rig.list(&["b/b-1/app running"])), ["spawn b", "stop b: no manifest names it"]);
}
