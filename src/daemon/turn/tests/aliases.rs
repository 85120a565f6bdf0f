//! A name on the pods' Docker network belongs to one source.

use std::sync::Arc;

use super::rig::{Rig, acts, config_with, key, pod, pod_of};
use crate::daemon::config::Config;
use crate::daemon::turn::Event;
use crate::network::{DockerNetwork, NetworkConfig};
use crate::pod::{DesiredPod, Source};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate};

/// A node with two sources and a network of pods, with these containers in Docker.
fn node(containers: &[&str]) -> Rig {
    let docker_network = Some(DockerNetwork { name: "pods".into(), cidrs: Vec::new() });
    let network = NetworkConfig { docker_network, ..NetworkConfig::default() };
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let mut rig = Rig::with(Config { network, ..config_with(|it| it.manifest_url = Some(url)) });
    rig.list(containers);
    rig
}

pub(super) fn of_url(pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
    let mut pod = Arc::unwrap_or_clone(Arc::clone(pod));
    pod.source = Source::Http;
    pod.origin.path = "https://fleet/pods".into();
    Arc::new(pod)
}

pub(super) fn http(rig: &mut Rig, pods: &[Arc<DesiredPod>]) -> Vec<String> {
    let pods = pods.iter().map(of_url).collect();
    let update = SourceUpdate::Full(PodSet { pods, ..PodSet::default() });
    acts(rig.handle(Event::Source(FromSource { source: Source::Http, update })))
}

/// The names that the pod of this name lacks.
fn lacks(rig: &Rig, name: &str) -> String {
    let pod = rig.turn.entries.get(&key(name)).unwrap().desired.as_ref().unwrap();
    pod.withheld.iter().cloned().collect::<Vec<_>>().join(" ")
}

/// The number of events, and the problems, that name a pod.
fn told(rig: &Rig) -> (usize, Vec<String>) {
    let events = rig.turn.events().iter().filter(|kept| kept.event.reason == "NamesWithheld").count();
    (events, rig.snapshot().problems.iter().map(ToString::to_string).collect())
}

fn named(words: &str, fields: &str) -> Arc<DesiredPod> {
    pod_of(words, &format!("{{containers: [{{name: app}}], {fields}}}"))
}

#[test]
fn a_pod_of_the_url_gets_no_name_of_a_pod_of_a_file() {
    let check = |file: &Arc<DesiredPod>, url: &Arc<DesiredPod>, expected: &str| {
        let mut rig = node(&[]);
        http(&mut rig, &[]);
        rig.want(&[Arc::clone(file)]);
        let name = &url.key.name;
        assert_eq!(
            http(&mut rig, &[Arc::clone(url)]),
            [format!("spawn {name}, empty"), format!("run {name}/evil")]
        );
        assert_eq!(lacks(&rig, name), expected, "{} {}", file.key, url.key);
        assert_eq!(lacks(&rig, &file.key.name), "");
    };
    let web = pod("web-n1");
    check(&web, &named("x-n1/evil", "hostname: web"), "web web.default");
    check(&web, &named("x-n1/evil", "hostname: web, subdomain: default"), "web web.default");
    check(&web, &named("x-n1/evil", "hostnameOverride: web-n1.default"), "web-n1.default");
    check(&web, &pod("web.default-n1/evil"), "web.default");
    check(&web, &pod("web-n1-n1/evil"), "web-n1 web-n1.default");
    check(
        &named("web-n1", "hostname: db, subdomain: s"),
        &named("db-n1/evil", "subdomain: s"),
        "db db.default",
    );
    check(
        &named("web-n1", "hostname: DB"),
        &named("x-n1/evil", "hostname: db, subdomain: s"),
        "db db.default",
    );
    check(&web, &pod("x-n1/evil"), "");
    check(&named("web-n1", "hostNetwork: true"), &named("x-n1/evil", "hostname: web"), "");
}

#[test]
fn a_short_name_of_another_namespace_is_of_the_preceding_source_too() {
    let mut rig = node(&[]);
    http(&mut rig, &[]);
    let mut elsewhere = Arc::unwrap_or_clone(pod("web-n1"));
    elsewhere.key.namespace = "other".into();
    elsewhere.uid = "other".into();
    rig.want(&[Arc::new(elsewhere)]);
    http(&mut rig, &[pod("web-n1")]);
    assert_eq!(lacks(&rig, "web-n1"), "web web-n1");
}

#[test]
fn what_runs_with_a_name_learns_that_it_has_lost_it_and_is_not_stopped() {
    let mut rig = node(&[]);
    rig.want(&[]);
    let evil = named("x-n1", "hostname: web");
    http(&mut rig, &[Arc::clone(&evil)]);
    assert_eq!((lacks(&rig, "x-n1"), told(&rig)), (String::new(), (0, vec![])));
    let web = pod("web-n1");
    assert_eq!(
        acts(rig.want(&[Arc::clone(&web)])),
        ["spawn web-n1, empty", "run web-n1/web-n1-1", "run x-n1/x-n1-1"]
    );
    assert_eq!(lacks(&rig, "x-n1"), "web web.default");
    let problem = "https://fleet/pods: pod default/x-n1: Names on the pods' network that belong to a preceding \
                   source: web, web.default (pod default/web-n1 of source file). This pod does not get them; if its \
                   sandbox has some already, it keeps them until it is made anew";
    assert_eq!(told(&rig), (1, vec![problem.to_owned()]));
    // No change: no event.
    assert_eq!(acts(rig.want(&[Arc::clone(&web)])), [""; 0]);
    assert_eq!(http(&mut rig, &[evil]), [""; 0]);
    assert_eq!(told(&rig).0, 1);
    // A pod that is being stopped still has its name.
    rig.status(&web, "Running", false);
    assert_eq!(acts(rig.want(&[])), ["stop web-n1: its manifest is gone"]);
    assert_eq!(lacks(&rig, "x-n1"), "web web.default");
    assert_eq!(acts(rig.gone("web-n1")), ["run x-n1/x-n1-1", "retire web-n1"]);
    assert_eq!((lacks(&rig, "x-n1"), told(&rig)), (String::new(), (1, vec![])));
}

#[test]
fn a_pod_that_is_refused_or_waits_has_its_names() {
    for fields in ["nodeName: other", "hostname: db"] {
        let mut rig = node(&[]);
        http(&mut rig, &[]);
        let mut web = Arc::unwrap_or_clone(named("web-n1", fields));
        let after = (crate::pod::after::AFTER.to_owned(), "nobody".to_owned());
        web.metadata.annotations = Some([after].into());
        rig.want(&[Arc::new(web)]);
        http(&mut rig, &[named("x-n1", "hostname: web")]);
        assert_eq!(lacks(&rig, "x-n1"), "web web.default", "{fields}: {}", rig.shown());
    }
}

#[test]
fn what_runs_when_the_daemon_begins_has_its_names_before_its_source_has_spoken() {
    let mut rig = node(&["web-n1/u/POD running"]);
    rig.fail("cannot be read");
    http(&mut rig, &[named("x-n1", "hostname: web")]);
    assert_eq!(lacks(&rig, "x-n1"), "web web.default");
    // Its running pods keep running.
    let mut rig = node(&["web-n1/web-n1-1/POD running", "x-n1/x-n1-1/POD running of http"]);
    rig.want(&[pod("web-n1")]);
    assert_eq!(http(&mut rig, &[named("x-n1", "hostname: web")]), ["spawn x-n1", "run x-n1/x-n1-1"]);
    assert_eq!(lacks(&rig, "x-n1"), "web web.default");
}

#[test]
fn pods_of_one_source_share_names_and_without_a_network_there_are_none() {
    let both = [named("a-n1", "hostname: web"), named("b-n1", "hostname: web")];
    let mut rig = node(&[]);
    rig.want(&[]);
    http(&mut rig, &both);
    assert_eq!((lacks(&rig, "a-n1"), lacks(&rig, "b-n1")), (String::new(), String::new()));
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let mut rig = Rig::with(config_with(|it| it.manifest_url = Some(url)));
    rig.list(&[]);
    rig.want(&both[..1]);
    http(&mut rig, &both[1..]);
    assert_eq!((lacks(&rig, "b-n1"), told(&rig)), (String::new(), (0, vec![])));
}

#[test]
fn the_names_of_a_pod_are_not_compared_with_those_of_each_other_pod() {
    let looked_at = |number: usize| {
        let mut rig = node(&[]);
        let pods = |prefix: &str| -> Vec<Arc<DesiredPod>> {
            (0..number).map(|n| pod(&format!("{prefix}-{n}"))).collect()
        };
        http(&mut rig, &pods("url"));
        rig.turn.names.looked.set(0);
        rig.want(&pods("file"));
        rig.turn.names.looked.get()
    };
    let (few, many) = (looked_at(50), looked_at(200));
    assert!(many <= few * 5, "{few} for 50 pods of each source, {many} for 200");
}

#[test]
fn a_worker_that_tells_of_an_earlier_version_keeps_its_names() {
    let mut rig = node(&[]);
    http(&mut rig, &[]);
    let old = named("web/web-1", "hostname: db");
    rig.want(&[Arc::clone(&old)]);
    rig.want(&[named("web/web-2", "hostname: www")]);
    http(&mut rig, &[pod("other")]);
    // Its next version waits until it is gone.
    rig.status(&old, "Running", true);
    http(&mut rig, &[pod("other"), pod("db")]);
    assert_eq!(lacks(&rig, "db"), "db db.default");
}
