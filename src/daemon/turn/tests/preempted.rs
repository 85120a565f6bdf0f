//! Pods that go for critical ones, what these wait for, and when the others return.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::evicted::{eviction, later};
use super::rig::{Rig, acts, config, pod_of};
use crate::base::limits;
use crate::daemon::config::{ApiSource, Config};
use crate::daemon::turn::Event;
use crate::node::Node;
use crate::pod::allocatable::Allocatable;
use crate::pod::{DesiredPod, Source};
use crate::policy::{Exceptions, Policies, SourcePolicy};
use crate::source::api::Settings;
use crate::source::http::url::ManifestUrl;
use crate::source::{FromSource, PodSet, SourceUpdate, http};

/// A node of one CPU.
pub(super) fn node() -> Config {
    let allocatable = Allocatable { milli_cpu: 1000, memory: 1 << 30, ephemeral_storage: 0 };
    Config { node: Arc::new(Node { allocatable, ..Node::default() }), ..config() }
}

/// The same node, where the pods of the URL stand behind those of files.
pub(super) fn one_behind() -> Config {
    let mut exceptions = Exceptions::default();
    exceptions.add("http=pod-security=restricted").unwrap();
    let mut config = node();
    config.sources.manifest_url = ManifestUrl::parse("https://fleet/pods").ok().map(http::Settings::new);
    config.policy = Arc::new(Policies::all(SourcePolicy::default()).except(&exceptions).unwrap());
    config
}

/// A pod that requests so many thousandths of a CPU, and what else its spec has.
pub(super) fn sized(words: &str, cpu: u32, more: &str) -> Arc<DesiredPod> {
    let resources = format!("resources: {{requests: {{cpu: {cpu}m}}}}");
    pod_of(words, &format!("{{{more}containers: [{{name: app, {resources}}}]}}"))
}

pub(super) fn plain(words: &str, cpu: u32) -> Arc<DesiredPod> {
    sized(words, cpu, "")
}

const CRITICAL: &str = "priorityClassName: system-node-critical, ";

pub(super) fn critical(words: &str, cpu: u32) -> Arc<DesiredPod> {
    sized(words, cpu, CRITICAL)
}

/// These pods run on it.
fn running(config: Config, pods: &[Arc<DesiredPod>]) -> Rig {
    let mut rig = Rig::listed_with(config);
    rig.want(pods);
    pods.iter().for_each(|pod| _ = rig.status(pod, "Running", false));
    rig
}

fn message(rig: &Rig, name: &str) -> String {
    let snapshot = rig.snapshot();
    let view = snapshot.pods.iter().find(|view| view.pod.key.name == name).unwrap();
    view.status.message.clone().unwrap_or_default()
}

#[test]
fn a_pod_goes_for_a_critical_one_and_returns_when_there_is_room() {
    let (a, b, z) = (plain("a", 600), plain("b", 300), critical("z", 500));
    let mut rig = running(node(), &[a.clone(), b.clone()]);
    let told = rig.want(&[a.clone(), b.clone(), z.clone()]);
    assert_eq!(acts(told.clone()), ["stop a: it is preempted by a critical pod"], "in its own time");
    assert_eq!(told[0], "WARN: pod default/a: Preempting: Preempted in order to admit critical pod");
    assert_eq!(rig.shown(), "a Running terminating, b Running, z Pending WaitingForRoom");
    assert_eq!(message(&rig, "z"), "Waits for the end of 1 pod: default/a.");
    assert_eq!(acts(rig.status(&a, "Running", true)), [""; 0], "it runs still");

    assert_eq!(acts(rig.gone("a")), ["spawn z, empty", "run z/z-1", "retire a"]);
    rig.status(&z, "Running", false);
    assert_eq!(rig.shown(), "a Failed Preempting, b Running, z Running");
    let told = "Preempted in order to admit critical pod. It starts again when there is room.";
    assert_eq!(message(&rig, "a"), told);
    let snapshot = rig.snapshot();
    let condition = &snapshot.pods[0].status.conditions.as_ref().unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
        (
            "DisruptionTarget",
            Some("TerminationByKubelet"),
            Some("Pod was preempted by Kubelet to accommodate a critical pod.")
        )
    );
    assert_eq!(later(&mut rig, limits::EVICTED_MAX), [""; 0], "there is no room");

    assert_eq!(acts(rig.want(&[a.clone(), b])), ["stop z: its manifest is gone"]);
    assert_eq!(rig.shown(), "a Failed Preempting, b Running, z Running terminating");
    assert_eq!(acts(rig.gone("z")), ["spawn a, empty", "run a/a-1", "retire z"]);
}

/// Regression: while the preempted pod was ending, the loop judged the waiting one again and again, and did nothing else.
#[test]
fn the_loop_goes_on_while_a_preempted_pod_ends() {
    let (a, z) = (plain("a", 600), critical("z", 500));
    let mut rig = running(node(), std::slice::from_ref(&a));
    rig.want(&[a.clone(), z.clone()]);
    let judged = rig.turn.waiting.admitted.get();
    for _ in 0..20 {
        assert_eq!(later(&mut rig, Duration::from_secs(1)), [""; 0]);
        assert_eq!(acts(rig.status(&a, "Running", true)), [""; 0]);
    }
    assert!(rig.turn.waiting.admitted.get() < judged + 200, "{}", rig.turn.waiting.admitted.get() - judged);
    assert_eq!(acts(rig.gone("a")), ["spawn z, empty", "run z/z-1", "retire a"]);
}

#[test]
fn nobody_goes_in_vain_or_for_another_reason_than_room() {
    let check = |spared: Arc<DesiredPod>, z: Arc<DesiredPod>, expected: &str| {
        let mut rig = running(node(), std::slice::from_ref(&spared));
        assert_eq!(acts(rig.want(&[spared, z])), [""; 0], "{expected}");
        assert_eq!(rig.shown(), expected);
    };
    check(plain("a", 600), critical("z", 1001), "a Running, z Failed OutOfcpu");
    check(critical("a", 600), critical("z", 500), "a Running, z Failed OutOfcpu");
    check(plain("a", 600), plain("z", 500), "a Running, z Failed OutOfcpu");
    let elsewhere = sized("z", 500, &format!("nodeName: n2, {CRITICAL}"));
    check(plain("a", 600), elsewhere, "a Running, z Failed NodeName");
    let cluster = sized("a", 600, "priorityClassName: system-cluster-critical, ");
    check(cluster, critical("z", 500), "a Running, z Failed OutOfcpu");
}

#[test]
fn the_number_of_pods_is_a_resource_too() {
    let node = Node { max_pods: 2, ..Node::clone(&node().node) };
    let config = Config { node: Arc::new(node), ..config() };
    let (a, b, z) = (plain("a", 1), plain("b", 0), critical("z", 0));
    let mut rig = running(config, &[a.clone(), b.clone()]);
    assert_eq!(acts(rig.want(&[a, b, z])), ["stop b: it is preempted by a critical pod"]);
}

pub(super) fn of_source(rig: &mut Rig, source: Source, pods: &[&Arc<DesiredPod>]) -> Vec<String> {
    let of = |pod: &&Arc<DesiredPod>| {
        let mut pod = DesiredPod::clone(pod);
        pod.source = source;
        Arc::new(pod)
    };
    let set = PodSet { pods: pods.iter().map(of).collect(), ..PodSet::default() };
    acts(rig.handle(Event::Source(FromSource { source, update: SourceUpdate::Full(set) })))
}

#[test]
fn a_source_that_may_have_no_critical_pods_preempts_nobody() {
    let with = |policies: &[&str]| {
        let mut exceptions = Exceptions::default();
        policies.iter().for_each(|text| exceptions.add(text).unwrap());
        let mut config = node();
        config.sources.manifest_url = ManifestUrl::parse("https://fleet/pods").ok().map(http::Settings::new);
        config.policy = Arc::new(Policies::all(SourcePolicy::default()).except(&exceptions).unwrap());
        let mut rig = Rig::listed_with(config);
        of_source(&mut rig, Source::File, &[&plain("a", 600)]);
        of_source(&mut rig, Source::Http, &[&plain("b", 0), &critical("z", 500)]);
        rig.shown()
    };
    assert_eq!(with(&[]), "a Pending terminating, b Pending, z Pending WaitingForRoom");
    assert_eq!(with(&["http=max-priority=7"]), "a Pending, b Pending, z Failed OutOfcpu");
    assert_eq!(with(&["http=pod-security=baseline"]), "a Pending, b Pending, z Failed OutOfcpu");
}

#[test]
fn pods_of_a_source_behind_others_go_first() {
    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::File, &[&plain("a", 500)]);
    let guaranteed = "{containers: [{name: app, resources: {limits: {cpu: 500m, memory: 1Mi}}}]}";
    of_source(&mut rig, Source::Http, &[&pod_of("b", guaranteed)]);
    let told = of_source(&mut rig, Source::File, &[&plain("a", 500), &critical("z", 500)]);
    assert_eq!(told, ["stop b: it is preempted by a critical pod"]);
}

/// A pod of such a source requested all of the node, and no pod of another source got any room, not even a new version of
/// one that ran.
#[test]
fn requests_of_a_source_behind_others_keep_no_pod_of_theirs_from_starting() {
    let mut rig = Rig::listed_with(one_behind());
    let greedy = plain("b", 900);
    of_source(&mut rig, Source::File, &[&plain("a", 100)]);
    of_source(&mut rig, Source::Http, &[&greedy]);
    assert_eq!(rig.shown(), "a Pending, b Pending");
    let why = "it is preempted by a pod of a source that precedes its own";
    let told = of_source(&mut rig, Source::File, &[&plain("a", 100), &plain("c", 50)]);
    assert_eq!(told, [format!("stop b: {why}")]);
    assert_eq!(rig.shown(), "a Pending, b Pending terminating, c Pending WaitingForRoom");
    assert_eq!(acts(rig.gone("b")), ["spawn c, empty", "run c/c-1", "retire b"]);
    assert_eq!(rig.shown(), "a Pending, b Failed Preempting, c Pending");
    let told = "Preempted in order to admit a pod of a source that precedes its own. It starts again when there is room.";
    assert_eq!(message(&rig, "b"), told);
    // Pods of its own source, and those that would need more than all of them have, get no room.
    of_source(&mut rig, Source::Http, &[&greedy, &plain("d", 600), &plain("e", 300)]);
    of_source(&mut rig, Source::File, &[&plain("a", 100), &plain("c", 50), &plain("f", 900)]);
    assert_eq!(
        rig.shown(),
        "a Pending, b Failed Preempting, c Pending, d Pending, e Failed OutOfcpu, f Failed OutOfcpu"
    );
}

#[test]
fn who_had_no_room_before_does_not_get_that_of_the_critical_pod() {
    let (a, c, d, z) = (plain("a", 900), plain("c", 200), plain("d", 900), critical("z", 500));
    let mut rig = running(node(), std::slice::from_ref(&a));
    rig.want(&[a.clone(), c.clone(), d.clone(), z]);
    assert_eq!(
        rig.shown(),
        "a Running terminating, c Failed OutOfcpu, d Failed OutOfcpu, z Pending WaitingForRoom"
    );
    let acts_of = acts(rig.gone("a"));
    assert_eq!(
        acts_of.iter().filter(|act| act.starts_with("run ")).collect::<Vec<_>>(),
        ["run z/z-1", "run c/c-1"]
    );
    assert_eq!(rig.shown(), "a Failed Preempting, c Pending, d Failed OutOfcpu, z Pending");
    // Of the two that wait, the one that ran returns.
    rig.want(&[a, d]);
    rig.gone("c");
    rig.gone("z");
    assert_eq!(rig.shown(), "a Pending, d Failed OutOfcpu");
}

#[test]
fn two_critical_pods_do_not_count_on_the_same_room() {
    let pods = [plain("a", 300), plain("b", 300), plain("c", 300)];
    let mut rig = running(node(), &pods);
    let [a, b, c] = pods;
    let told = rig.want(&[a.clone(), b.clone(), c.clone(), critical("y", 350), critical("z", 350)]);
    let stop = |name: &str| format!("stop {name}: it is preempted by a critical pod");
    assert_eq!(acts(told), [stop("a"), stop("b")]);
    rig.gone("a");
    assert_eq!(
        rig.shown(),
        "a Failed Preempting, b Running terminating, c Running, y Pending, z Pending WaitingForRoom"
    );
    rig.gone("b");
    assert_eq!(rig.shown(), "a Failed Preempting, b Failed Preempting, c Running, y Pending, z Pending");
}

#[test]
fn what_ends_anyway_is_waited_for_before_anybody_goes() {
    let (a, b, z) = (plain("a", 600), plain("b", 300), critical("z", 500));
    let mut rig = running(node(), &[a.clone(), b.clone()]);
    let told = acts(rig.want(&[b, z]));
    assert_eq!(told, ["stop a: its manifest is gone"]);
    assert_eq!(rig.shown(), "a Running terminating, b Running, z Pending WaitingForRoom");
    assert!(acts(rig.gone("a")).contains(&"run z/z-1".to_owned()));
}

/// Its worker may have begun with it.
#[test]
fn a_pod_of_which_nothing_is_known_yet_is_waited_for_too() {
    let (a, z) = (plain("a", 600), critical("z", 500));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&a));
    let told = acts(rig.want(&[a, z]));
    assert_eq!(told, ["stop a: it is preempted by a critical pod"]);
    assert_eq!(rig.shown(), "a Pending terminating, z Pending WaitingForRoom");
    assert!(acts(rig.gone("a")).contains(&"run z/z-1".to_owned()));
}

#[test]
fn critical_pods_that_come_with_others_are_admitted_first() {
    let mut rig = Rig::listed_with(node());
    assert_eq!(acts(rig.want(&[plain("a", 600), critical("z", 500)])), ["spawn z, empty", "run z/z-1"]);
    assert_eq!(rig.shown(), "a Failed OutOfcpu, z Pending");
}

#[test]
fn a_daemon_that_begins_in_between_goes_on() {
    let (a, b, z) = (plain("a", 600), plain("b", 300), critical("z", 500));
    let all = [a.clone(), b.clone(), z.clone()];
    let mut rig = running(node(), &[a, b]);
    rig.seen("a", &["a/a-1/POD running", "a/a-1/app running"]);
    rig.want(&all);
    let next = |rig: &Rig, list: &[&str], remembers: bool| {
        let mut next = Rig::with(node());
        next.now = rig.now.after(Duration::from_secs(10));
        if remembers {
            next.goes_on_from(&rig.snapshot());
        }
        next.want(&all);
        let told: Vec<String> = acts(next.list(list));
        (next, told.into_iter().filter(|act| !act.starts_with("spawn")).collect::<Vec<_>>())
    };
    let (of_b, stop) =
        (["b/b-1/POD running", "b/b-1/app running"], "stop a: it is preempted by a critical pod");
    let alive = ["a/a-1/POD running", "a/a-1/app running", of_b[0], of_b[1]];
    // Killed when its container had ended, and its sandbox had not: it goes on with the stop, which counts once.
    let (mut between, told) = next(&rig, &["a/a-1/POD running", "a/a-1/app exited", of_b[0], of_b[1]], true);
    assert_eq!(told[0], "stop a: podkeeper was stopping it when it ended itself");
    assert_eq!(between.snapshot().evictions["default/a"].count, 0);
    assert!(acts(between.gone("a")).contains(&"run z/z-1".to_owned()));
    assert_eq!(between.shown(), "a Failed Preempting, b Pending, z Pending");
    for remembers in [true, false] {
        // Killed before the pod had ended: it is told once more.
        let (mut second, told) = next(&rig, &alive, remembers);
        let goes_on = "stop a: podkeeper was stopping it when it ended itself";
        // What has lost its room is judged after the others.
        let expected: &[&str] = match remembers {
            true => &[goes_on, "run b/b-1", "run a/a-1", stop],
            false => &["run a/a-1", "run b/b-1", stop],
        };
        assert_eq!(told, expected, "{remembers}");
        assert_eq!(second.snapshot().evictions["default/a"].count, 0, "{remembers}");
        assert!(acts(second.gone("a")).contains(&"run z/z-1".to_owned()), "{remembers}");
        // Killed after it had ended.
        let (third, told) = next(&rig, &of_b, remembers);
        assert_eq!(told, ["run b/b-1", "run z/z-1"], "{remembers}");
        let expected = if remembers { "Preempting" } else { "OutOfcpu" };
        assert_eq!(third.shown(), format!("a Failed {expected}, b Pending, z Pending"));
        // And after the critical pod had begun.
        let (fourth, told) = next(&third, &["z/z-1/POD running", of_b[0]], remembers);
        assert_eq!(told, ["run z/z-1", "run b/b-1"], "{remembers}");
        assert_eq!(fourth.shown(), third.shown());
    }
}

#[test]
fn who_is_preempted_again_and_again_waits_longer() {
    let (a, z) = (plain("a", 600), critical("z", 500));
    let mut rig = running(node(), std::slice::from_ref(&a));
    for minutes in [0, 5, 10, 20] {
        rig.want(&[a.clone(), z.clone()]);
        rig.gone("a");
        rig.status(&z, "Running", false);
        rig.want(std::slice::from_ref(&a));
        let mut told = acts(rig.gone("z"));
        if minutes > 0 {
            assert!(!told.contains(&"run a/a-1".to_owned()), "{minutes}");
            assert!(message(&rig, "a").contains(" at the earliest, when there is room."), "{minutes}");
            assert_eq!(later(&mut rig, Duration::from_secs(60 * minutes - 1)), [""; 0], "{minutes}");
            told = later(&mut rig, Duration::from_secs(1));
        }
        assert!(told.contains(&"run a/a-1".to_owned()), "{minutes}: {told:?}");
        rig.status(&a, "Running", false);
    }
}

#[test]
fn a_pod_of_a_control_plane_has_failed_for_good() {
    let mut config = node();
    config.sources.api =
        Some(ApiSource::Cluster(Settings { kubeconfig: PathBuf::from("/k"), remembers: true }));
    let mut rig = Rig::listed_with(config.clone());
    let (a, z) = (plain("a", 600), critical("z", 500));
    rig.want(&[]);
    of_source(&mut rig, Source::Api, &[&a]);
    of_source(&mut rig, Source::Api, &[&a, &z]);
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Preempting, z Pending");
    assert_eq!(message(&rig, "a"), "Preempted in order to admit critical pod");
    // The next daemon may know it before the server does.
    let mut next = Rig::listed_with(config);
    next.goes_on_from(&rig.snapshot());
    next.want(&[]);
    of_source(&mut next, Source::Api, &[&a]);
    assert_eq!(next.shown(), "a Failed Preempting");
    of_source(&mut rig, Source::Api, &[&a]);
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed Preempting", "its controller makes another one");
}

#[test]
fn nobody_goes_for_a_pod_that_waits_for_others() {
    let (a, db) = (plain("a", 600), plain("db", 0));
    let mut z = (*critical("z", 500)).clone();
    z.metadata.annotations.get_or_insert_default().insert(crate::pod::after::AFTER.into(), "db".into());
    let z = Arc::new(z);
    let mut rig = running(node(), std::slice::from_ref(&a));
    assert_eq!(acts(rig.want(&[a.clone(), z.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Running, z Pending WaitingForPods");
    rig.want(&[a, z, db.clone()]);
    let told = acts(rig.status(&db, "Running", false));
    assert_eq!(told, ["stop a: it is preempted by a critical pod"]);
    assert!(acts(rig.gone("a")).contains(&"run z/z-1".to_owned()));
}

#[test]
fn an_older_version_of_a_critical_pod_runs_until_there_is_room_for_the_newer_one() {
    let (a, z) = (plain("a", 600), critical("z", 300));
    let mut rig = running(node(), &[a.clone(), z]);
    assert_eq!(acts(rig.want(&[a, critical("z/z-2", 500)])), ["stop a: it is preempted by a critical pod"]);
    assert_eq!(rig.shown(), "a Running terminating, z Running");
    assert_eq!(acts(rig.gone("a")), ["run z/z-2", "retire a"]);
}

/// The node is short, and the pod takes its time.
#[test]
fn a_preempted_pod_that_is_still_being_stopped_can_be_hurried() {
    let (a, z) = (plain("a", 600), critical("z", 500));
    let mut rig = running(node(), std::slice::from_ref(&a));
    rig.want(&[a.clone(), z]);
    rig.status(&a, "Running", true);
    let told = acts(rig.handle(eviction("a", "a-1", true)));
    assert_eq!(told, ["stop a within 1 s: it is evicted while it is being stopped"]);
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Preempting, z Pending");
}

#[test]
fn a_port_that_was_taken_meanwhile_is_told() {
    let with_port = |name: &str, cpu: u32, more: &str| {
        let container = format!(
            "{{name: app, ports: [{{containerPort: 80, hostPort: 80}}], resources: {{requests: {{cpu: {cpu}m}}}}}}"
        );
        pod_of(name, &format!("{{{more}containers: [{container}]}}"))
    };
    let (a, b, z) = (with_port("a", 600, ""), with_port("b", 10, ""), critical("z", 500));
    let mut rig = running(node(), std::slice::from_ref(&a));
    rig.want(&[a.clone(), z.clone()]);
    rig.gone("a");
    rig.want(&[a.clone(), b.clone(), z]);
    assert_eq!(rig.shown(), "a Failed Preempting, b Pending, z Pending");
    rig.want(&[a, b]);
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed NodePorts, b Pending");
}
