//! Draining a node: the order, the pods left alone, and the pods that may not start.

use std::sync::Arc;
use std::time::Duration;

use super::aliases::{http, of_url};
use super::evicted::{eviction, later, running, short_of};
use super::rig::{Rig, acts, config_with, pod, pod_of};
use crate::base::clock::Timestamp;
use crate::daemon::config::Config;
use crate::daemon::drain::Drain;
use crate::daemon::turn::Event;
use crate::eviction::News;
use crate::node::pressure::Pressure;
use crate::pod::{DesiredPod, Source};
use crate::policy::{Policies, SourcePolicy};
use crate::source::http::Settings;
use crate::source::http::url::ManifestUrl;

fn of(words: &str, priority: i32, grace: i64) -> Arc<DesiredPod> {
    let spec = format!(
        "{{priority: {priority}, terminationGracePeriodSeconds: {grace}, containers: [{{name: app}}]}}"
    );
    pod_of(words, &spec)
}

pub(super) fn marker(second: i64, grace: Option<u32>) -> Event {
    let since = Timestamp::from_second(second).unwrap();
    Event::Drain(Some(Drain { since, grace, within: None, boot: None }))
}

fn left(rig: &Rig) -> String {
    let view = rig.snapshot().drain.unwrap();
    format!("{}{}", view.left.join(" "), if view.stopped { "stopped" } else { "" })
}

#[test]
fn low_priorities_stop_first_and_each_group_waits_for_the_one_before() {
    let pods = [of("a", 0, 30), of("b", 0, 5), of("c", 7, 30)];
    let node = pod_of("n", "{priorityClassName: system-node-critical, containers: [{name: app}]}");
    let mut rig = Rig::listed();
    rig.want(&[pods[0].clone(), pods[1].clone(), pods[2].clone(), node]);
    pods.iter().for_each(|pod| _ = rig.status(pod, "Running", false));
    let why = "the node is drained";
    assert_eq!(
        acts(rig.handle(marker(1, Some(10)))),
        [format!("stop a within 10 s: {why}"), format!("stop b within 5 s: {why}")]
    );
    assert_eq!(left(&rig), "default/a default/b default/c default/n");
    assert_eq!(acts(rig.status(&pods[0], "Running", true)), [""; 0]);
    assert_eq!(acts(rig.gone("a")), ["retire a"]);
    assert_eq!(acts(rig.gone("b")), [format!("stop c within 10 s: {why}"), "retire b".to_owned()]);
    assert_eq!(acts(rig.gone("c")), [format!("stop n within 10 s: {why}"), "retire c".to_owned()]);
    assert_eq!(left(&rig), "default/n");
    rig.gone("n");
    assert_eq!(left(&rig), "stopped");
    assert_eq!(
        rig.shown(),
        "a Pending NodeShutdown, b Pending NodeShutdown, c Pending NodeShutdown, n Pending NodeShutdown"
    );
    // The same marker again, and a list: no effect.
    assert_eq!(rig.handle(marker(1, Some(10))), [""; 0]);
    assert_eq!(acts(rig.list(&[])), [""; 0]);
    let resumed = acts(rig.handle(Event::Drain(None)));
    assert_eq!(resumed.iter().filter(|line| line.starts_with("run ")).count(), 4, "{resumed:?}");
    assert!(rig.snapshot().drain.is_none());
}

#[test]
fn nothing_starts_on_a_drained_node() {
    let mut rig = Rig::new();
    rig.handle(marker(1, None));
    rig.want(&[pod("web"), pod("ran")]);
    // Found at the daemon's start: stopped, pods without a manifest too.
    let told = acts(rig.list(&["ran/ran-1/app running", "orphan/o-1/app running", "dead/d-1/app exited"]));
    assert!(told.contains(&"stop ran: the node is drained".to_owned()), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("stop orphan: ")), "{told:?}");
    assert!(!told.iter().any(|line| line.starts_with("run ")), "{told:?}");
    assert_eq!(left(&rig), "default/dead default/orphan default/ran", "an orphan has to say that it is dead");
    rig.gone("ran");
    rig.gone("orphan");
    rig.gone("dead");
    assert_eq!(left(&rig), "stopped");
    // New and edited pods wait too; a removed pod is gone.
    assert_eq!(acts(rig.want(&[pod("web/web-2 in /m/web.yaml"), pod("new")])), [""; 0]);
    assert_eq!(rig.shown(), "new Pending NodeShutdown, web Pending NodeShutdown");
    // An operator starts one by hand, twice.
    for _ in 0..2 {
        let told = acts(rig.list(&["web/web-1/app running"]));
        assert_eq!(told, ["spawn web", "stop web: the node is drained"]);
        rig.gone("web");
    }
}

/// Regression: a node that was short of disk stayed empty after a drain, until the daemon was restarted.
#[test]
fn what_was_drained_comes_back_to_a_node_that_is_short() {
    let mut rig = Rig::listed();
    rig.want(&[pod("web")]);
    rig.handle(marker(1, None));
    rig.gone("web");
    rig.handle(Event::Node(News::Pressures([Pressure::Disk].into())));
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["spawn web, empty", "run web/web-1"]);
    assert_eq!(acts(rig.want(&[pod("web"), pod("new")])), [""; 0], "one that was never there is refused");
}

#[test]
fn a_shorter_grace_is_told_to_those_that_stop() {
    let mut rig = Rig::listed();
    rig.want(&[of("a", 0, 600)]);
    assert_eq!(acts(rig.handle(marker(1, None))), ["stop a: the node is drained"]);
    assert_eq!(acts(rig.handle(marker(2, Some(3)))), ["stop a within 3 s: the node is drained"]);
}

#[test]
fn what_has_ended_for_good_is_left() {
    let job = pod("job");
    let mut rig = Rig::listed();
    rig.want(&[Arc::clone(&job)]);
    rig.status(&job, "Succeeded", false);
    assert_eq!(acts(rig.handle(marker(1, None))), [""; 0]);
    assert_eq!(left(&rig), "stopped");
    assert_eq!(rig.shown(), "job Succeeded");
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["run job/job-1"]);
    // Its sandbox stops by itself, and the drain waits for that.
    rig.seen("job", &["job/job-1/POD running", "job/job-1/app exited"]);
    assert_eq!(acts(rig.handle(marker(2, None))), [""; 0]);
    assert_eq!(left(&rig), "default/job");
    rig.seen("job", &["job/job-1/POD exited", "job/job-1/app exited"]);
    assert_eq!(left(&rig), "stopped");
}

#[test]
fn resumed_while_it_stops() {
    let (a, b) = (of("a", 0, 30), of("b", 1, 30));
    let mut rig = Rig::listed();
    rig.want(&[a, b]);
    assert_eq!(acts(rig.handle(marker(1, None))), ["stop a: the node is drained"]);
    // One pod is wanted again after its stop, the other one was never touched.
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["run a/a-1", "run b/b-1"]);
}

#[test]
fn a_drain_whose_thread_cannot_be_started_is_tried_again_after_a_pause() {
    let mut rig = Rig::new();
    rig.want(&[pod("a")]);
    rig.handle(marker(1, None));
    assert_eq!(acts(rig.list(&["a/a-1/app running"])), ["spawn a", "stop a: the node is drained"]);
    let fails = || Event::SpawnFailed { key: super::rig::key("a"), why: "no threads left".into() };
    assert_eq!(acts(rig.handle(fails())), [""; 0], "not at once");
    assert_eq!(acts(rig.list(&["a/a-1/app running"])), [""; 0], "nor with any other event");
    rig.now = rig.turn.next_due().unwrap();
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a", "stop a: the node is drained"]);
    assert_eq!(left(&rig), "default/a");
}

/// The kubelet's two groups: critical pods have the last part of the time, and are stopped when the others have ended
/// or their time is over.
#[test]
fn a_shutdown_has_its_time_and_critical_pods_the_end_of_it() {
    let host = crate::node::host::Host {
        shutdown: Duration::from_secs(30),
        shutdown_critical: Duration::from_secs(10),
        ..Default::default()
    };
    let node = Arc::new(crate::node::Node { host, ..Default::default() });
    let why = "the node is drained";
    let begun = || {
        let mut rig = Rig::listed_with(Config { node: Arc::clone(&node), ..super::rig::config() });
        let spec = "{priorityClassName: system-node-critical, terminationGracePeriodSeconds: 60, \
                    containers: [{name: app}]}";
        let pods = [of("a", 0, 600), of("b", 1000, 5), pod_of("n", spec)];
        rig.want(&pods);
        pods.iter().for_each(|pod| _ = rig.status(pod, "Running", false));
        let since = Timestamp::from_second(1).unwrap();
        let drain = Drain { since, grace: None, within: Some(5), boot: Some("this".to_owned()) };
        let told = acts(rig.handle(Event::Drain(Some(drain))));
        assert_eq!(told, [format!("stop a within 20 s: {why}"), format!("stop b within 5 s: {why}")]);
        rig
    };
    // All regular pods have ended early.
    let mut early = begun();
    assert_eq!(acts(early.gone("b")), ["retire b"]);
    assert_eq!(acts(early.gone("a")), [format!("stop n within 10 s: {why}"), "retire a".to_owned()]);
    // One regular pod still runs.
    let mut late = begun();
    late.now = late.turn.next_due().unwrap();
    assert_eq!(late.now, crate::base::clock::Mono(Duration::from_secs(20)));
    assert_eq!(acts(late.handle(Event::Tick)), [format!("stop n within 10 s: {why}")]);
    // An operator's drain has only its own bound.
    let mut rig = Rig::listed_with(Config { node, ..super::rig::config() });
    rig.want(&[of("a", 0, 600), of("b", 1000, 5)]);
    assert_eq!(acts(rig.handle(marker(1, None))), [format!("stop a: {why}")]);
}

/// Regression: a pod with a low priority and a grace period of years kept all others from being stopped before the
/// machine went down.
#[test]
fn before_the_machine_goes_down_each_priority_has_its_share_of_the_time() {
    let why = "the node is drained";
    let mut rig = Rig::listed();
    let pods = [of("a", -10, 100_000_000), of("b", 0, 5), of("c", 0, 600), of("d", 1000, 600)];
    rig.want(&pods);
    pods.iter().for_each(|pod| _ = rig.status(pod, "Running", false));
    let since = Timestamp::from_second(1).unwrap();
    let drain = Drain { since, grace: None, within: Some(80), boot: Some("this".to_owned()) };
    assert_eq!(acts(rig.handle(Event::Drain(Some(drain)))), [format!("stop a within 23 s: {why}")]);
    let next = |rig: &mut Rig| {
        rig.now = rig.turn.next_due().unwrap();
        acts(rig.handle(Event::Tick))
    };
    assert_eq!(next(&mut rig), [format!("stop b within 5 s: {why}"), format!("stop c within 23 s: {why}")]);
    // The pods after them get the time that these leave.
    assert_eq!(acts(rig.gone("a")), ["retire a"]);
    assert_eq!(acts(rig.gone("b")), ["retire b"]);
    assert_eq!(acts(rig.gone("c")), [format!("stop d within 46 s: {why}"), "retire c".to_owned()]);
}

/// Regression: each pod of an `evict-first` source with its own priority had a share of the time.
#[test]
fn pods_of_a_source_behind_others_share_one_part_of_the_time() {
    let first = SourcePolicy { evict_first: Some(true), ..SourcePolicy::default() };
    let policies = Policies::all(SourcePolicy::default()).with(Source::Http, first);
    let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
    let config = config_with(|sources| sources.manifest_url = Some(url));
    let mut rig = Rig::listed_with(Config { policy: Arc::new(policies), ..config });
    let why = "the node is drained";
    let own = of("own", -20, 20);
    rig.want(&[Arc::clone(&own)]);
    rig.status(&own, "Running", false);
    let theirs: Vec<Arc<DesiredPod>> = (0..3).map(|n| of(&format!("their{n}"), -10 - n, 600)).collect();
    http(&mut rig, &theirs);
    theirs.iter().for_each(|pod| _ = rig.status(&of_url(pod), "Running", false));
    let since = Timestamp::from_second(1).unwrap();
    let drain = Drain { since, grace: None, within: Some(80), boot: Some("this".to_owned()) };
    let told = acts(rig.handle(Event::Drain(Some(drain))));
    let expected: Vec<String> = (0..3).map(|n| format!("stop their{n} within 35 s: {why}")).collect();
    assert_eq!(told, expected);
    rig.now = rig.turn.next_due().unwrap();
    assert_eq!(acts(rig.handle(Event::Tick)), [format!("stop own within 20 s: {why}")]);
}

/// It stayed down after a drain.
#[test]
fn a_pod_whose_new_sizes_wait_returns_with_its_old_ones_from_a_drain() {
    let mut rig = Rig::with(super::sizes::small());
    rig.list(&[]);
    rig.want(&[super::sizes::shaped("a", "cpu: 1")]);
    rig.want(&[super::sizes::shaped("a", "cpu: 64")]);
    rig.handle(marker(1, None));
    rig.gone("a");
    rig.handle(Event::Drain(None));
    let entry = rig.turn.entries.get(&super::rig::key("a")).unwrap();
    assert_eq!(crate::pod::requests::request(&entry.desired.as_ref().unwrap().spec, "cpu"), 1000);
    assert!(entry.postponed().is_some());
}

/// Regression: it was started at the end of the drain, on a node without a free byte.
#[test]
fn an_evicted_pod_waits_on_over_a_drain() {
    for is_short in [true, false] {
        let (mut rig, _) = running(&["a", "b"]);
        rig.handle(short_of(&[Pressure::Disk]));
        rig.handle(eviction("a", "a-1", true));
        rig.gone("a");
        assert_eq!(acts(rig.handle(marker(0, None))), ["stop b: the node is drained"]);
        rig.gone("b");
        assert_eq!(rig.shown(), "a Failed Evicted, b Pending NodeShutdown");
        if !is_short {
            rig.handle(short_of(&[]));
        }
        assert_eq!(later(&mut rig, Duration::from_secs(600)), [""; 0]);
        let told = acts(rig.handle(Event::Drain(None)));
        assert!(told.contains(&"run b/b-1".to_owned()), "{told:?}");
        assert!(!told.contains(&"run a/a-1".to_owned()) || !is_short, "{told:?}");
        let more = acts(rig.handle(short_of(&[])));
        let returns = if is_short { more } else { [told, later(&mut rig, Duration::ZERO)].concat() };
        assert!(returns.contains(&"run a/a-1".to_owned()), "{is_short}: {returns:?}");
    }
}

/// Regression: an eviction by an earlier daemon was forgotten when its pod came to a node that is drained.
#[test]
fn a_pod_that_an_earlier_daemon_evicted_waits_on_over_a_drain() {
    let (mut rig, pods) = running(&["a"]);
    rig.handle(short_of(&[Pressure::Disk]));
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let mut next = Rig::new();
    next.goes_on_from(&rig.snapshot());
    next.handle(short_of(&[Pressure::Disk]));
    next.handle(marker(0, None));
    next.list(&[]);
    next.want(&pods);
    assert_eq!(next.shown(), "a Failed Evicted");
    assert_eq!(acts(next.handle(Event::Drain(None))), [""; 0]);
    assert_eq!(next.shown(), "a Failed Evicted");
}
