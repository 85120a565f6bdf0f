//! Priorities that a source may not have.

use std::sync::Arc;

use super::rig::{Rig, config, key, pod_of};
use crate::daemon::turn::Event;
use crate::pod::priority;
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, Source};
use crate::policy::{Exceptions, Policies, SourcePolicy};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate};

/// A loop of a file source and one of a URL, with these values of `--source-policy`.
fn two_sources(policies: &[&str]) -> Rig {
    let mut exceptions = Exceptions::default();
    policies.iter().for_each(|text| exceptions.add(text).unwrap());
    let mut config = config();
    config.sources.manifest_url = ManifestUrl::parse("https://fleet/pods").ok().map(Settings::new);
    config.policy = Arc::new(Policies::all(SourcePolicy::default()).except(&exceptions).unwrap());
    Rig::listed_with(config)
}

fn want(rig: &mut Rig, source: Source, name: &str, spec: &str) {
    let mut pod = DesiredPod::clone(&pod_of(name, &format!("{{{spec}, containers: [{{name: app}}]}}")));
    pod.source = source;
    let update = SourceUpdate::Full(PodSet { pods: vec![Arc::new(pod)], ..PodSet::default() });
    rig.handle(Event::Source(FromSource { source, update }));
}

/// Regression: the pods of the file source were evicted one after the other for the memory of a pod that called
/// itself critical.
#[test]
fn a_source_that_is_held_to_a_level_has_no_critical_pods() {
    let counts = |policies: &[&str]| {
        let mut rig = two_sources(policies);
        want(&mut rig, Source::File, "own", "priorityClassName: system-node-critical");
        want(&mut rig, Source::Http, "fleet", "priorityClassName: system-node-critical");
        let shown = rig.snapshot();
        let of = |name: &str| shown.pods.iter().find(|view| view.pod.key == key(name)).unwrap();
        let told = shown.problems.iter().map(|problem| problem.pod.clone().unwrap()).collect::<Vec<_>>();
        (priority::of(&of("own").pod), priority::of(&of("fleet").pod), told.join(" "))
    };
    let node_critical = 2_000_001_000;
    assert_eq!(counts(&[]), (node_critical, node_critical, String::new()));
    assert_eq!(counts(&["http=pod-security=restricted"]), (node_critical, 0, "default/fleet".to_owned()));
    let alike =
        counts(&["http=pod-security=baseline", "file=pod-security=baseline", "api=pod-security=baseline"]);
    assert_eq!(alike, (1_000_000_000, 1_000_000_000, "default/fleet default/own".to_owned()));
    let granted = counts(&["http=pod-security=restricted;max-priority=2147483647"]);
    assert_eq!(granted, (node_critical, node_critical, String::new()));
}

#[test]
fn it_is_told_which_priority_counts() {
    let mut rig = two_sources(&["http=max-priority=7"]);
    want(&mut rig, Source::File, "own", "priority: 9");
    want(&mut rig, Source::Http, "fleet", "priority: 9");
    let message =
        "counts as 7: the highest that pods of source http may have (--source-policy http=max-priority)";
    let expected = Problem {
        severity: Severity::Warning,
        path: "/m/fleet.yaml".to_owned(),
        at: None,
        pod: Some("default/fleet".to_owned()),
        field: Some("spec.priority".to_owned()),
        message: message.to_owned(),
    };
    assert_eq!(rig.snapshot().problems, [expected]);
    want(&mut rig, Source::Http, "fleet", "priority: 7");
    assert_eq!(rig.snapshot().problems, []);
}
