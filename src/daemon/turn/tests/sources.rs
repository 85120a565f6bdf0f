//! Reports of sources other than new sets: restored, refused, unchanged.

use std::time::Duration;

use super::rig::{Rig, acts, pod, pod_of, with_port};
use crate::daemon::turn::Event;
use crate::pod::Source;
use crate::pod::problem::{Problem, Refused, Severity};
use crate::source::{FromSource, PodSet, SourceUpdate, Waiting};

pub(super) fn set(pods: &[&str]) -> PodSet {
    PodSet { pods: pods.iter().map(|words| pod(words)).collect(), ..PodSet::default() }
}

/// `a STALE, b`: the pods of the snapshot.
pub(super) fn stale(rig: &Rig) -> String {
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
    // Not ready: pods without a manifest are left alone.
    assert_eq!(acts(rig.list(&["c/c-1/app running"])), ["hint a All", "hint b All"][..0]);
    assert_eq!(
        rig.fail("/m does not exist"),
        ["ERROR: source file: /m does not exist; what runs from it stays"]
    );
    assert_eq!(stale(&rig), "a STALE, b STALE, c");
    // The source's own report replaces it, and later restored content is ignored.
    let told = acts(rig.source(SourceUpdate::Full(set(&["a"]))));
    assert_eq!(told, ["stop b: its manifest is gone", "spawn c", "stop c: no manifest names it"]);
    assert_eq!(rig.source(SourceUpdate::Restored(set(&["b"]))), [""; 0]);
    assert_eq!(stale(&rig), "a, c");
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
    // The old content is back, unchanged.
    assert_eq!(rig.source(SourceUpdate::Same), ["INFO: source file can be read again"]);
    assert_eq!(stale(&rig), "a");
    assert!(rig.snapshot().problems.is_empty());
    rig.turn.take_changed();
    assert_eq!(rig.source(SourceUpdate::Same), [""; 0]);
    assert!(!rig.turn.take_changed(), "the same again writes no status");
}

#[test]
fn a_problem_that_the_line_of_the_source_names_is_logged_once() {
    let mut rig = Rig::listed();
    let problem = |line: u32, message: &str| Problem {
        severity: Severity::Error,
        path: "https://x".into(),
        at: Some((line, 1)),
        pod: None,
        field: None,
        message: message.into(),
    };
    let problems = vec![problem(3, "not YAML"), problem(9, "not a pod")];
    let why = "its content is not accepted: https://x:3:1: not YAML (and 1 more)";
    assert_eq!(
        rig.source(SourceUpdate::Refused { why: why.into(), problems }),
        [
            format!("ERROR: source file: {why}; no good version of it is known: nothing is started from it"),
            "ERROR: https://x:9:1: not a pod; no good version of it is known: nothing is started from it"
                .to_owned()
        ]
    );
}

#[test]
fn a_pod_that_the_policy_refuses_is_shown_as_failed_and_reaches_nobody() {
    let mut rig = Rig::listed();
    let refused = |words: &str| Refused {
        pod: pod(words),
        at: None,
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
    let problem = |rig: &Rig| rig.snapshot().sources[0].degraded.clone();
    let why = "PodSecurity: violates PodSecurity \"restricted:latest\": …";
    assert_eq!(problem(&rig), Some(format!("/m/b.yaml: pod default/b: {why}; it is not started")));
    assert_eq!(rig.snapshot().sources[0].pods, 2, "as many as are shown");
    // An older version that passed stays, and is marked.
    let told = rig.source(with(&["a"], "a/a-2"));
    assert_eq!(acts(told.clone()), [""; 0]);
    assert!(told[0].ends_with("(/m/a.yaml; the version before it stays)"), "{told:?}");
    assert_eq!(stale(&rig), "a STALE");
    assert_eq!(problem(&rig), Some(format!("/m/a.yaml: pod default/a: {why}; the version before it stays")));
    assert_eq!(rig.snapshot().sources[0].pods, 1);
    let mut refused = refused("a/a-2");
    refused.at = Some((7, 5));
    let moved = SourceUpdate::Full(PodSet { refused: vec![refused], ..set(&["a"]) });
    assert_eq!(rig.source(moved), [""; 0], "only its line is another");
    assert!(problem(&rig).unwrap().starts_with("/m/a.yaml:7:5: pod default/a: PodSecurity:"));
    // What ran of it before is stopped, and its manifest is not said to be missing.
    let mut rig = Rig::new();
    rig.source(with(&[], "b"));
    assert_eq!(
        acts(rig.list(&["b/b-1/app running"])),
        ["spawn b", "stop b: the policy of its source refuses it"]
    );
}

/// The refusal was an event of the pod of a file that has the name, and the URL's source was told to be ready.
#[test]
fn a_refused_pod_whose_name_another_source_has_is_a_problem_of_its_own_source() {
    let mut rig = two(&[]);
    rig.source(full(&[pod("a/from-file")]));
    let refused =
        Refused { pod: of_url("a/from-url"), at: None, reason: "PodSecurity".into(), message: "no".into() };
    let told = http(&mut rig, SourceUpdate::Full(PodSet { refused: vec![refused], ..PodSet::default() }));
    assert_eq!(told, [""; 0]);
    let shown = rig.snapshot();
    assert_eq!(shown.pods.len(), 1);
    let problem = "https://x/pods: pod default/a: PodSecurity: no; and the pod from /m/a.yaml has its name";
    assert_eq!(shown.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [problem]);
    let degraded = shown.sources.iter().find(|source| source.name == "http").unwrap().degraded.clone();
    assert_eq!(degraded.as_deref(), Some(problem));
    // The file goes.
    rig.source(full(&[]));
    assert_eq!(rig.shown(), "a Failed PodSecurity");
    assert!(rig.snapshot().problems[0].message.ends_with("PodSecurity: no; it is not started"));
}

/// Its age began anew with each change of the status, and kubectl was told of a change each time.
#[test]
fn a_refused_pod_keeps_the_time_at_which_it_was_first_seen() {
    let refused = |words: &str| Refused {
        pod: pod(words),
        at: None,
        reason: "PodSecurity".into(),
        message: "no".into(),
    };
    let with =
        |pods: &[&str], bad: &str| SourceUpdate::Full(PodSet { refused: vec![refused(bad)], ..set(pods) });
    let since = |rig: &Rig| rig.snapshot().pods[0].status.start_time.as_ref().unwrap().0;
    let mut rig = Rig::listed();
    rig.source(with(&[], "a"));
    let first = since(&rig);
    rig.now = rig.now.after(Duration::from_secs(60));
    assert_eq!(since(&rig), first);
    // Another content of the source that has it too.
    rig.source(with(&["b"], "a"));
    assert_eq!(since(&rig), first);
    // Another pod of that name.
    rig.source(with(&["b"], "a/a-2"));
    assert_eq!(since(&rig), rig.now().wall);
}

/// After an error nobody could see in the log that it was mended.
#[test]
fn the_log_tells_when_the_errors_of_a_file_are_gone() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a"), pod("b")]);
    let told = rig.want_with(&[pod("a"), pod("b")], &["/m/a.yaml", "/m/c.yaml"]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(rig.want_with(&[pod("a"), pod("b")], &["/m/a.yaml", "/m/c.yaml"]), [""; 0]);
    // Mended, and removed.
    assert_eq!(
        rig.want(&[pod("a"), pod("b")]),
        ["INFO: /m/a.yaml: its errors are gone", "INFO: /m/c.yaml: its errors are gone"]
    );
    assert_eq!(rig.want(&[pod("a"), pod("b")]), [""; 0]);
}

/// A loop with a file source and a URL source, Docker listed.
pub(super) fn two(containers: &[&str]) -> Rig {
    let mut rig = two_unlisted();
    rig.list(containers);
    rig
}

pub(super) fn two_unlisted() -> Rig {
    let url = crate::source::http::url::ManifestUrl::parse("https://x/pods").unwrap();
    let settings = Some(crate::source::http::Settings::new(url));
    Rig::with(super::rig::config_with(|it| it.manifest_url = settings))
}

pub(super) fn of_url(words: &str) -> std::sync::Arc<crate::pod::DesiredPod> {
    let mut pod = (*pod(words)).clone();
    pod.source = Source::Http;
    pod.origin.path = "https://x/pods".into();
    pod.into()
}

pub(super) fn http(rig: &mut Rig, update: SourceUpdate) -> Vec<String> {
    rig.handle(Event::Source(FromSource { source: Source::Http, update }))
}

pub(super) fn full(pods: &[std::sync::Arc<crate::pod::DesiredPod>]) -> SourceUpdate {
    SourceUpdate::Full(PodSet { pods: pods.to_vec(), ..PodSet::default() })
}

/// The pod was refused because its port was taken. When the port is free, another source with fewer rights
/// wants the pod.
#[test]
fn a_refused_pod_that_moved_is_started_with_the_rights_of_its_new_source() {
    let mut rig = two(&[]);
    let network =
        "{hostNetwork: true, containers: [{name: app, ports: [{containerPort: 80, hostPort: 80}]}]}";
    let (first, of_file) = (with_port("first", 80), pod_of("web", network));
    let mut of_url = (*of_file).clone();
    of_url.source = Source::Http;
    of_url.origin.path = "https://x/pods".into();
    let of_url = std::sync::Arc::new(of_url);
    rig.source(full(&[first.clone(), of_file]));
    http(&mut rig, full(&[of_url]));
    assert_eq!(rig.shown(), "first Pending, web Failed NodePorts");
    // The file source gives both up, one after the other: the URL's pod has the name.
    rig.source(full(&[first]));
    rig.source(full(&[]));
    rig.gone("first");
    assert_eq!(rig.shown(), "web Failed Forbidden");
}

#[test]
fn what_cannot_be_remembered_is_told_in_the_sources_state() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.turn.take_changed();
    assert_eq!(rig.source(SourceUpdate::Store(Some("the disk is full".into()))), [""; 0]);
    assert!(rig.turn.take_changed());
    assert_eq!(rig.snapshot().sources[0].degraded.as_deref(), Some("the disk is full"));
    assert!(rig.snapshot().sources[0].ready);
    rig.source(SourceUpdate::Store(None));
    assert_eq!(rig.snapshot().sources[0].degraded, None);
    // It does not count as a report of the source.
    let mut rig = Rig::listed();
    rig.source(SourceUpdate::Store(Some("the disk is full".into())));
    assert!(!rig.snapshot().sources[0].ready);
}

#[test]
fn claims_that_cannot_be_moved_degrade_a_source_until_they_are() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.turn.take_changed();
    let trouble = || Some("claims cannot be moved".to_owned());
    assert_eq!(rig.handle(Event::Claims(trouble())), ["ERROR: claims cannot be moved"]);
    assert!(rig.turn.take_changed());
    assert_eq!(rig.snapshot().sources[0].degraded, trouble());
    assert!(rig.snapshot().sources[0].ready);
    assert_eq!(rig.handle(Event::Claims(None)), ["INFO: all claims are where they belong"]);
    assert_eq!(rig.snapshot().sources[0].degraded, None);
}

#[test]
fn a_source_with_a_bad_file_is_degraded() {
    let mut rig = Rig::listed();
    rig.want_with(&[pod("a")], &["/m/b.yaml", "/m/c.yaml"]);
    let shown = rig.snapshot();
    assert_eq!(shown.sources[0].problem, None);
    assert_eq!(shown.sources[0].degraded.as_deref(), Some("/m/b.yaml: not YAML (and 1 more)"));
    // Two files that claim one name.
    rig.want(&[pod("a"), pod("a/other in /m/z.yaml")]);
    assert!(
        rig.snapshot().sources[0]
            .degraded
            .clone()
            .is_some_and(|why| why.starts_with("/m/z.yaml: pod default/a:"))
    );
    rig.want(&[pod("a")]);
    assert_eq!(rig.snapshot().sources[0].degraded, None);
}

#[test]
fn nothing_is_said_to_stay_where_nothing_is() {
    let mut rig = Rig::listed();
    let told = rig.want_with(&[], &["/m/a.yaml"]);
    assert_eq!(
        told,
        ["ERROR: /m/a.yaml: not YAML; no good version of it is known: nothing is started from it"]
    );
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let told = rig.want_with(&[pod("a")], &["/m/a.yaml"]);
    assert_eq!(told, ["ERROR: /m/a.yaml: not YAML; the last good version stays"]);
    let mut rig = two(&[]);
    rig.want(&[]);
    let told = http(&mut rig, SourceUpdate::Refused { why: "no".into(), problems: Vec::new() });
    assert_eq!(told, ["ERROR: source http: no; no good version of it is known: nothing is started from it"]);
}

#[test]
fn more_pods_than_a_source_may_have_are_told_in_the_log() {
    let mut rig = Rig::listed();
    let pods: Vec<_> = (0..=crate::base::limits::PODS_PER_SOURCE).map(|n| pod(&format!("p{n:04}"))).collect();
    let told = rig.want(&pods);
    let cut: Vec<_> = told.iter().filter(|line| line.contains("wants 1 pod more than the 1000")).collect();
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert!(cut[0].starts_with("ERROR: /m/p1000.yaml"), "{cut:?}");
    assert!(!rig.want(&pods).iter().any(|line| line.contains("more than the 1000")), "told once");
}

#[test]
fn what_the_operator_had_forgotten_goes_and_nothing_is_said_to_be_read_again() {
    let fail = |rig: &mut Rig| http(rig, SourceUpdate::Failed("https://x/pods: refused".into()));
    let mut rig = two(&[]);
    rig.want(&[]);
    http(&mut rig, full(&[of_url("a")]));
    assert_eq!(fail(&mut rig), ["ERROR: source http: https://x/pods: refused; what runs from it stays"]);
    let before = rig.snapshot().sources[1].last_success;
    rig.now = rig.now.after(std::time::Duration::from_secs(9));
    assert_eq!(
        http(&mut rig, SourceUpdate::Forgotten),
        [
            "WARN: source http: what was accepted of it is forgotten, as the operator asked, and nothing good is read \
             of it now: its pods stop",
            "stop a: its manifest was forgotten, as the operator asked"
        ]
    );
    assert_eq!(fail(&mut rig), [""; 0], "known");
    let shown = &rig.snapshot().sources[1];
    assert_eq!(shown.problem.as_deref(), Some("https://x/pods: refused"));
    assert_eq!((shown.last_success, shown.accepted), (before, None), "it was not read");
    let told = http(&mut rig, SourceUpdate::Failed("https://x/pods: reset".into()));
    assert_eq!(
        told,
        ["ERROR: source http: https://x/pods: reset; nothing runs from it until it can be read"]
    );
    let told = http(&mut rig, full(&[of_url("b")]));
    assert_eq!(told[0], "INFO: source http can be read again");
    assert_eq!(acts(http(&mut rig, full(&[]))), ["stop b: its manifest is gone"]);
    // Another source may want the pods that are given up, so it is heard first.
    let mut rig = two(&["a/a-1/app running of http"]);
    let restored = PodSet { pods: vec![of_url("a")], ..PodSet::default() };
    http(&mut rig, SourceUpdate::Restored(restored));
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    rig.handle(Event::Tick);
    assert_eq!(http(&mut rig, SourceUpdate::Forgotten), [""; 0]);
    assert_eq!(acts(rig.source(full(&[]))), ["stop a: its manifest was forgotten, as the operator asked"]);
}

/// `get sources` told the last change of the directory, weeks ago, as the time since when it could not be read.
#[test]
fn a_directory_that_is_lost_was_read_until_then() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let last = |rig: &Rig| rig.snapshot().sources[0].last_success.unwrap().as_second();
    let read = last(&rig);
    let hour = Duration::from_secs(3600);
    rig.now = rig.now.after(24 * hour);
    rig.fail("/m does not exist");
    assert_eq!(last(&rig) - read, 86_400);
    rig.now = rig.now.after(hour);
    rig.fail("/m is no directory");
    assert_eq!(last(&rig) - read, 86_400, "it is lost since then");
}

/// Regression: at the server a pod that waited for a token or a RuntimeClass had no event and no reason.
#[test]
fn why_a_source_does_not_give_a_pod_yet_is_an_event_of_the_pod() {
    let mut rig = Rig::listed();
    let waiting = |why: &str| {
        let why = format!("waits for the token of service account default: {why}");
        let waiting = vec![Waiting { key: super::rig::key("b"), uid: "b-1".into(), why }];
        SourceUpdate::Full(PodSet { waiting, ..set(&["a"]) })
    };
    let event = |why: &str| {
        let said = "FailedSync: error syncing pod: waits for the token of service account default";
        format!("WARN: pod default/b: {said}: {why}")
    };
    assert!(rig.source(waiting("no")).contains(&event("no")));
    assert_eq!(rig.source(waiting("no")), [""; 0], "told once");
    assert_eq!(rig.source(waiting("never")), [event("never")]);
}
