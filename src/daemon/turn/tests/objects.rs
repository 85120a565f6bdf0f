//! Workers get the local objects that their pods refer to: before the pod, and when they change.

use std::sync::Arc;

use super::rig::{Rig, acts, config_with, key, pod, pod_of};
use crate::daemon::config::Config;
use crate::daemon::turn::Event;
use crate::pod::object::LocalObject;
use crate::pod::object::testing::{config_map, decoded, secret};
use crate::pod::{DesiredPod, Source};
use crate::policy::{Policies, SourcePolicy};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate};

fn reader(words: &str, map: &str) -> Arc<DesiredPod> {
    pod_of(words, &format!("{{containers: [{{name: app, envFrom: [{{configMapRef: {{name: {map}}}}}]}}]}}"))
}

#[test]
fn objects_of_a_set_are_known_before_its_pods() {
    let mut rig = Rig::listed();
    let told =
        rig.want_objects(&[reader("a", "c"), pod("b")], &(config_map("c", "{k: v}") + &secret("s", "{}")));
    assert_eq!(acts(told), ["spawn a, empty", "give a [c]", "run a/a-1", "spawn b, empty", "run b/b-1"]);
}

#[test]
fn objects_that_came_before_docker_was_listed_are_known_too() {
    let mut rig = Rig::new();
    assert_eq!(acts(rig.want_objects(&[reader("a", "c")], &config_map("c", "{k: v}"))), [""; 0]);
    assert_eq!(acts(rig.list(&["a/a-1/app running"])), ["spawn a", "give a [c]", "run a/a-1"]);
}

#[test]
fn who_refers_to_what_changed_is_told_and_nobody_else() {
    let mut rig = Rig::listed();
    let pods = [reader("a", "c"), reader("b", "d"), pod("p")];
    assert_eq!(
        acts(rig.want_objects(&pods, "")),
        ["spawn a, empty", "run a/a-1", "spawn b, empty", "run b/b-1", "spawn p, empty", "run p/p-1"]
    );
    let c = config_map("c", "{k: v}");
    assert_eq!(rig.want_objects(&pods, &c), ["give a [c]"]);
    assert_eq!(rig.want_objects(&pods, &c), [""; 0], "nothing new");
    let both = format!("{}{}", config_map("d", "{}"), config_map("c", "{k: v}"));
    assert_eq!(rig.want_objects(&pods, &both), ["give b [d]"], "c only moved inside its file");
    let changed = format!("{}{}", config_map("d", "{}"), config_map("c", "{k: w}"));
    assert_eq!(rig.want_objects(&pods, &changed), ["give a [c]"]);
    assert_eq!(rig.want_objects(&pods, &config_map("d", "{}")), ["give a []"], "it is gone");
}

#[test]
fn a_source_that_fails_keeps_its_objects() {
    let mut rig = Rig::listed();
    rig.want_objects(&[reader("a", "c")], &config_map("c", "{k: v}"));
    assert_eq!(acts(rig.fail("no such directory")), [""; 0]);
    // Another worker of the pod gets them, too.
    let failed = Event::SpawnFailed { key: key("a"), why: "no threads left".into() };
    assert_eq!(acts(rig.handle(failed)), [""; 0]);
    rig.now = rig.turn.next_due().unwrap();
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a, empty", "give a [c]", "run a/a-1"]);
}

#[test]
fn an_edited_pod_gets_what_it_refers_to_now() {
    let mut rig = Rig::listed();
    let both = config_map("c", "{}") + &config_map("d", "{}");
    rig.want_objects(&[reader("a", "c")], &both);
    assert_eq!(acts(rig.want_objects(&[reader("a", "d")], &both)), ["give a [d]", "run a/a-1"]);
    assert_eq!(acts(rig.want_objects(&[pod("a")], &both)), ["give a []", "run a/a-1"]);
}

/// A node with two sources and this policy for the URL source; the file source has these objects.
fn two(policy: SourcePolicy, objects: &str) -> Rig {
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let policies = Policies::default().with(Source::Http, policy);
    let mut rig =
        Rig::with(Config { policy: Arc::new(policies), ..config_with(|it| it.manifest_url = Some(url)) });
    rig.list(&[]);
    rig.want_objects(&[], objects);
    rig
}

fn http(rig: &mut Rig, pods: &[Arc<DesiredPod>], objects: &str) -> Vec<String> {
    let moved = |pod: &Arc<DesiredPod>| {
        let mut pod = (**pod).clone();
        pod.source = Source::Http;
        Arc::new(pod)
    };
    let owned =
        |object: Arc<LocalObject>| Arc::new(LocalObject { source: Source::Http, ..(*object).clone() });
    let objects = if objects.is_empty() { "{apiVersion: v1, kind: List, items: []}" } else { objects };
    let objects = decoded("https://fleet/pods", objects).into_iter().map(owned).collect();
    let set = PodSet { pods: pods.iter().map(moved).collect(), objects, ..PodSet::default() };
    let update = SourceUpdate::Full(set);
    rig.handle(Event::Source(FromSource { source: Source::Http, update }))
}

/// A pod that refers to objects in every possible way.
fn curious() -> Arc<DesiredPod> {
    pod_of(
        "spy",
        "{imagePullSecrets: [{name: pull}], containers: [{name: app,
           env: [{name: A, valueFrom: {secretKeyRef: {name: env, key: k}}}],
           envFrom: [{configMapRef: {name: map}}]}],
          volumes: [{name: s, secret: {secretName: file}},
           {name: p, projected: {sources: [{secret: {name: part}}]}},
           {name: c, persistentVolumeClaim: {claimName: data}}]}",
    )
}

fn everything() -> String {
    let claim = "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, \
                 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1}}}}\n";
    let secrets: String = ["pull", "env", "file", "part"].map(|name| secret(name, "{k: v}")).concat();
    config_map("map", "{k: v}") + &secrets + claim
}

#[test]
fn a_pod_sees_no_object_of_another_source() {
    let mut rig = two(SourcePolicy::default(), &everything());
    assert_eq!(acts(http(&mut rig, &[curious()], "")), ["spawn spy, empty", "run spy/spy-1"]);
    let problems: Vec<String> = rig.snapshot().problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 6, "{problems:?}");
    let says = "Secret default/env is in source file, whose objects pods of source http do not see: \
                --source-policy http=shared-objects=file/Secret/default/env shares it";
    assert!(problems.iter().any(|p| p.contains(says)), "{problems:?}");
    // The pod sees its own objects; a change in another source has no effect.
    assert_eq!(http(&mut rig, &[curious()], &secret("env", "{k: own}")), ["give spy [env]"]);
    assert_eq!(rig.want_objects(&[], &(everything() + &secret("more", "{}"))), [""; 0]);
}

#[test]
fn objects_are_shared_on_purpose_and_claims_never() {
    let mut all = SourcePolicy::default();
    all.set("shared-objects", "file").unwrap();
    let mut rig = two(all, &everything());
    assert_eq!(acts(http(&mut rig, &[curious()], ""))[1], "give spy [map env file part pull]");
    let mut one = SourcePolicy::default();
    one.set("shared-objects", "file/ConfigMap,file/Secret/default/env").unwrap();
    let mut rig = two(one, &everything());
    assert_eq!(acts(http(&mut rig, &[curious()], ""))[1], "give spy [map env]");
    // The pod's own source comes first, and nothing is shared in the other direction.
    assert_eq!(http(&mut rig, &[curious()], &secret("env", "{k: own}")), ["give spy [map env]"]);
    let reader = pod_of("r", "{containers: [{name: app, envFrom: [{secretRef: {name: only}}]}]}");
    http(&mut rig, &[], &secret("only", "{}"));
    let act = acts(rig.want_objects(&[reader], &everything()));
    assert_eq!(act.last().map(String::as_str), Some("run r/r-1"), "{act:?}");
    assert!(!act.iter().any(|line| line.starts_with("give")), "{act:?}");
}
