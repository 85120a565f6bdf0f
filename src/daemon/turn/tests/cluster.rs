//! Pods of a cluster's API server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::hold::pass;
use super::rig::{Rig, acts, config_with, container, key, pod, pod_of};
use crate::base::clock::Timestamp;
use crate::base::table::{Set, Table};
use crate::cluster::node::heart::Trouble;
use crate::daemon::config::{ApiSource, Config};
use crate::daemon::turn::{Earlier, Event, RuntimeEvent};
use crate::machine::Report;
use crate::node::Node;
use crate::node::runtimes::{self, HANDLER};
use crate::pod::placement::NodeAtServer;
use crate::pod::{DesiredPod, Source};
use crate::runtime::labels;
use crate::source::api::Settings;
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::snapshot::EvictionView;

fn rig_config() -> Config {
    let settings = Settings { kubeconfig: PathBuf::from("/k"), remembers: true };
    config_with(|it| {
        it.manifest_path = None;
        it.api = Some(ApiSource::Cluster(settings));
    })
}

pub(super) fn rig() -> Rig {
    Rig::with(rig_config())
}

/// A pod of the server.
pub(super) fn of_server(pod: Arc<DesiredPod>, change: impl FnOnce(&mut DesiredPod)) -> Arc<DesiredPod> {
    let mut pod = DesiredPod::clone(&pod);
    pod.source = Source::Api;
    change(&mut pod);
    Arc::new(pod)
}

pub(super) fn set(rig: &mut Rig, pods: &[Arc<DesiredPod>], node: Option<NodeAtServer>) -> Vec<String> {
    let update = SourceUpdate::Full(PodSet { pods: pods.to_vec(), node, ..PodSet::default() });
    acts(rig.handle(Event::Source(FromSource { source: Source::Api, update })))
}

/// `get sources` told "Ready, now" for a minute after the heartbeat had found the server gone, and where the node was not
/// registered at all.
#[test]
fn what_the_heartbeat_knows_is_shown_with_the_source() {
    let mut rig = rig();
    set(&mut rig, &[], None);
    let shown = |rig: &Rig| {
        let view = rig.snapshot().sources[0].clone();
        (view.problem, view.degraded, view.last_success.unwrap().as_second())
    };
    let (problem, degraded, read) = shown(&rig);
    assert_eq!((problem, degraded), (None, None));
    let unheard = |rig: &mut Rig, why: &str, is_answer: bool| {
        let trouble = Trouble { why: why.to_owned(), is_answer, is_new: true };
        rig.handle(Event::Unheard(Some(trouble)));
    };
    let second = Duration::from_secs(1);
    rig.now = rig.now.after(100 * second);
    unheard(&mut rig, "connection refused", false);
    let since = rig.snapshot().sources[0].last_success.unwrap();
    let since = crate::base::human::date(Some(&Time(since)));
    let words = |why: &str| Some(format!("the API server does not hear of this node since {since}: {why}"));
    assert_eq!(shown(&rig), (words("connection refused"), None, read + 100));
    rig.now = rig.now.after(5 * second);
    unheard(&mut rig, "no route", false);
    assert_eq!(shown(&rig), (words("no route"), None, read + 100), "it is lost since then");
    unheard(&mut rig, "label x is not allowed", true);
    assert_eq!(shown(&rig), (None, words("label x is not allowed"), read + 100));
    rig.turn.take_changed();
    rig.handle(Event::Unheard(None));
    assert!(rig.turn.take_changed(), "it is written");
    assert_eq!(shown(&rig), (None, None, read + 100));
}

#[test]
fn a_pod_that_had_ended_before_keeps_its_containers() {
    let mut rig = rig();
    let ended = of_server(pod("web"), |pod| pod.status.phase = Some("Succeeded".into()));
    assert_eq!(acts(rig.list(&["web/web-1/app exited of api"])), [""; 0]);
    assert_eq!(set(&mut rig, &[Arc::clone(&ended)], None), [""; 0]);
    assert_eq!(acts(rig.list(&["web/web-1/app exited of api"])), [""; 0], "they are nobody's orphans");
    assert_eq!(rig.shown(), "web Succeeded");
    assert!(!rig.snapshot().pods[0].is_told, "nothing is known of it here that the server has not");
    let deleted = of_server(Arc::clone(&ended), |pod| {
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    let told = set(&mut rig, &[Arc::clone(&deleted)], None);
    assert_eq!(told, ["spawn web", "end web: its manifest is gone"]);
    rig.report("web", Report::Terminated);
    let view = &rig.snapshot().pods[0];
    assert!(view.is_over && view.is_told);
}

/// Regression: it was told as failed while its container had its grace period, and another pod got its room.
#[test]
fn a_running_pod_that_is_refused_runs_until_it_is_dead() {
    let mut rig = rig();
    let elsewhere = of_server(pod_of("web", "{nodeName: n2, containers: [{name: app}]}"), |_| {});
    rig.list(&["web/web-1/POD running of api", "web/web-1/app running of api"]);
    set(&mut rig, &[elsewhere], None);
    let view = |rig: &Rig| (rig.shown(), rig.snapshot().pods[0].runs);
    assert_eq!(view(&rig), ("web Failed NodeName".to_owned(), true));
    rig.seen("web", &["web/web-1/POD running of api", "web/web-1/app exited of api"]);
    assert!(view(&rig).1, "its sandbox runs");
    rig.seen("web", &["web/web-1/POD exited of api", "web/web-1/app exited of api"]);
    assert_eq!(view(&rig), ("web Failed NodeName".to_owned(), false));
}

/// Regression: a pod that was deleted by force while no daemon saw it had its whole grace period.
#[test]
fn what_the_server_removed_while_the_daemon_was_away_ends_soon() {
    let mut rig = rig();
    let running = ["web/web-1/POD running of api for 600", "web/web-1/app running of api for 600"];
    assert_eq!(acts(rig.list(&running)), [""; 0], "the server has not answered");
    assert_eq!(set(&mut rig, &[], None), ["spawn web", "stop web within 2 s: the API server has it no more"]);
}

/// Regression: each new daemon gave such a pod its whole grace period anew.
#[test]
fn the_stop_of_what_the_server_removed_goes_on_fast() {
    let mut rig = rig();
    let running = "web/web-1/app running of api for 600";
    let stopping = [container(running).id].into();
    rig.turn.restore_unfinished(Earlier::default(), stopping, Table::new());
    assert_eq!(acts(rig.list(&[running])), [""; 0]);
    assert_eq!(set(&mut rig, &[], None), ["spawn web", "stop web within 2 s: the API server has it no more"]);
    assert_eq!(
        set(&mut rig, &[of_server(pod("b"), |_| {})], None),
        ["spawn b, empty", "run b/b-1"],
        "told once"
    );
}

/// Regression: a graceful stop that an earlier daemon had begun was cut short when the server went back to older data. The
/// source marks what was deleted by force.
#[test]
fn a_stop_of_an_earlier_daemon_keeps_its_grace_period_when_the_server_has_older_data() {
    let running = "web/web-1/app running of api for 600";
    let deleted = || {
        of_server(pod("web"), |pod| {
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            pod.metadata.deletion_grace_period_seconds = Some(40);
        })
    };
    let begun = |restored: bool| {
        let mut rig = rig();
        rig.turn.restore_unfinished(Earlier::default(), [container(running).id].into(), Table::new());
        if restored {
            rig.handle(Event::Source(FromSource {
                source: Source::Api,
                update: SourceUpdate::Restored(PodSet { pods: vec![deleted()], ..PodSet::default() }),
            }));
        }
        rig.list(&[running]);
        rig
    };
    let mut rig = begun(false);
    // The worker is told which pod it stops, and so its status is known.
    assert_eq!(set(&mut rig, &[deleted()], None), ["spawn web", "end web within 40 s: its manifest is gone"]);
    assert_eq!(set(&mut rig, &[], None), ["end web within 40 s: its manifest is gone"]);
    // What the daemon only remembers was not told by the server.
    let soon = "stop web within 2 s: the API server has it no more".to_owned();
    let told = set(&mut begun(true), &[], None);
    assert!(told.contains(&soon), "{told:?}");
}

/// Regression: the exit codes of a pod were lost whose deletion went on after a restart of the daemon, and ended before its
/// server had told of it: the stop had no pod, and removed what ended.
#[test]
fn a_deletion_goes_on_after_a_restart_when_the_server_has_told_of_the_pod() {
    let deleted =
        of_server(pod("web"), |pod| pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    let [sandbox, app] = ["web/web-1/POD running of api", "web/web-1/app running of api"];
    let ended = "web/web-1/app exited of api";
    for found in [&[ended][..], &[sandbox, ended], &[sandbox, app]] {
        for fails in [false, true] {
            let mut rig = rig();
            let stopping = found.iter().map(|c| container(c).id).collect();
            rig.turn.restore_unfinished(Earlier::default(), stopping, Table::new());
            if fails {
                let update = SourceUpdate::Failed("connection refused".to_owned());
                rig.handle(Event::Source(FromSource { source: Source::Api, update }));
            }
            assert_eq!(acts(rig.list(found)), [""; 0], "{found:?}");
            assert_eq!(pass(&mut rig, 59), [""; 0]);
            if fails && found.len() == 2 {
                // A static pod may need what it holds.
                assert_eq!(
                    pass(&mut rig, 1),
                    ["spawn web", "stop web: podkeeper was stopping it when it ended itself"]
                );
                continue;
            }
            let told = set(&mut rig, &[Arc::clone(&deleted)], None);
            assert_eq!(told, ["spawn web", "end web: its manifest is gone"], "{found:?}");
        }
    }
}

/// Regression: it ran again beside the critical one, and its server had been told that it has failed.
#[test]
fn a_preempted_pod_whose_server_was_silent_after_a_restart_stays_away() {
    let found = ["web/web-1/POD running of api", "web/web-1/app exited of api"];
    for restored in [false, true] {
        let mut rig = rig();
        let stopping = found.iter().map(|c| container(c).id).collect();
        let view = EvictionView {
            uid: "web-1".to_owned(),
            count: 1,
            until: Timestamp::UNIX_EPOCH,
            message: "Preempted in order to admit critical pod".to_owned(),
            of_the_node: false,
            preempted: true,
        };
        let earlier = Earlier { evictions: [("default/web".to_owned(), view)].into(), ..Earlier::default() };
        rig.turn.restore_unfinished(earlier, stopping, Table::new());
        assert_eq!(acts(rig.list(&found)), [""; 0]);
        let web = of_server(pod("web"), |_| {});
        let told = match restored {
            false => set(&mut rig, &[web], None),
            true => {
                let update = SourceUpdate::Restored(PodSet { pods: vec![web], ..PodSet::default() });
                acts(rig.handle(Event::Source(FromSource { source: Source::Api, update })))
            }
        };
        assert_eq!(told, ["spawn web", "end web: podkeeper was stopping it when it ended itself"]);
        assert!(!rig.gone("web").iter().any(|act| act.starts_with("run")));
        assert!(rig.shown().starts_with("web Failed Preempting"), "{}", rig.shown());
    }
}

/// Regression: the ended containers of a job's pod that was being deleted were told as waiting to run again.
#[test]
fn a_deleted_pod_does_not_return() {
    let mut rig = rig();
    rig.list(&[]);
    let web = of_server(pod("web"), |_| {});
    set(&mut rig, std::slice::from_ref(&web), None);
    rig.status(&web, "Running", false);
    let deleted =
        of_server(pod("web"), |pod| pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    set(&mut rig, &[deleted], None);
    // The worker tells of the version that it runs.
    rig.status(&web, "Running", true);
    let view = rig.snapshot().pods[0].clone();
    assert!(view.leaving.is_some() && !view.returns);
}

/// The source marks what was deleted by force; what its data do not have because they are older has its own grace period.
#[test]
fn what_this_daemon_stops_keeps_its_grace_period() {
    let mut rig = rig();
    let running = ["web/web-1/POD running of api for 600", "web/web-1/app running of api for 600"];
    set(&mut rig, &[of_server(pod("web"), |_| {})], None);
    rig.list(&running);
    rig.seen("web", &running);
    assert_eq!(set(&mut rig, &[], None), ["stop web: its manifest is gone"]);
    assert_eq!(acts(rig.list(&running)), [""; 0]);
    assert_eq!(set(&mut rig, &[of_server(pod("b"), |_| {})], None), ["spawn b, empty", "run b/b-1"]);
}

/// Regression: the pod that followed one that was deleted by force waited for the whole grace period of that.
#[test]
fn a_pod_that_follows_one_that_the_server_removed_does_not_wait_for_long() {
    let next = || of_server(pod("web/web-2"), |_| {});
    let running = "web/web-1/app running of api for 600";
    let expected = ["spawn web", "stop web within 2 s: the API server has it no more", "run web/web-2"];
    let mut rig1 = rig();
    assert_eq!(acts(rig1.list(&[running])), [""; 0]);
    assert_eq!(set(&mut rig1, &[next()], None), expected);
    let mut rig2 = rig();
    assert_eq!(set(&mut rig2, &[next()], None), [""; 0]);
    assert_eq!(acts(rig2.list(&[running])), expected);
    // Its file's pod has its own grace period.
    let mut rig3 = rig();
    assert_eq!(acts(rig3.list(&["web/web-1/app running for 600"])), [""; 0]);
    assert_eq!(set(&mut rig3, &[next()], None), ["spawn web", "run web/web-2"]);
}

/// Regression: its deletion never ended at the server.
#[test]
fn what_docker_makes_late_of_a_deleted_pod_is_removed() {
    let mut rig = rig();
    rig.list(&[]);
    set(&mut rig, &[of_server(pod("web"), |_| {})], None);
    let deleted = of_server(pod("web"), |pod| {
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    set(&mut rig, &[deleted], None);
    rig.report("web", Report::Terminated);
    rig.gone("web");
    assert!(rig.snapshot().pods[0].is_over);
    let told = acts(rig.list(&["web/web-1/POD created of api"]));
    assert_eq!(told, ["spawn web", "end web: its manifest is gone"]);
    rig.report("web", Report::Terminated);
    assert!(rig.snapshot().pods[0].is_over);
}

/// Regression: a pod that had ended elsewhere, or before etcd was restored, ran where another pod of its name ran; or that one
/// ran on for ever.
#[test]
fn a_pod_that_has_ended_takes_its_name_from_another() {
    let ended = || {
        of_server(pod("web"), |pod| {
            pod.uid = "web-2".into();
            pod.status.phase = Some("Failed".into());
        })
    };
    let mut rig = rig();
    assert_eq!(acts(rig.list(&["web/web-1/app running of api"])), [""; 0]);
    let told = set(&mut rig, &[ended()], None);
    assert_eq!(told, ["spawn web", "stop web within 2 s: the API server has it no more"]);
    assert_eq!(
        set(&mut rig, &[ended(), of_server(pod("other"), |_| {})], None),
        ["spawn other, empty", "run other/other-1"]
    );

    let mut rig = self::rig();
    rig.list(&[]);
    assert_eq!(set(&mut rig, &[of_server(pod("web"), |_| {})], None), ["spawn web, empty", "run web/web-1"]);
    assert_eq!(set(&mut rig, &[ended()], None), ["stop web: its manifest is gone"]);
    assert_eq!(set(&mut rig, &[ended()], None), [""; 0]);
}

#[test]
fn a_deletion_that_began_before_the_daemon_goes_on() {
    let mut rig = rig();
    let deleted =
        of_server(pod("web"), |pod| pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    assert_eq!(set(&mut rig, &[deleted], None), [""; 0]);
    let told = acts(rig.list(&["web/web-1/app running of api"]));
    assert_eq!(told, ["spawn web", "end web: its manifest is gone"]);
    assert!(!rig.snapshot().pods[0].is_over);
    rig.report("web", Report::Terminated);
    assert!(rig.snapshot().pods[0].is_over);
}

/// The store of this node's API tells a deletion once, and then the set without the pod: the pod got its own grace.
#[test]
fn a_deletion_that_was_told_before_docker_is_listed_keeps_its_grace_period() {
    let deleted = of_server(pod("web"), |pod| {
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        pod.metadata.deletion_grace_period_seconds = Some(3);
    });
    let told_after = |list: &str, stopping: Set<String>| {
        let mut rig = rig();
        rig.turn.restore_unfinished(Earlier::default(), stopping, Table::new());
        for pods in [&[Arc::clone(&deleted)][..], &[]] {
            assert_eq!(set(&mut rig, pods, None), [""; 0]);
        }
        acts(rig.list(&[list]))
    };
    let told = |list: &str| told_after(list, Set::new());
    // The daemon before was carrying it out.
    let stopping = [container("web/web-1/app running").id].into();
    let soon = "stop web within 2 s: the API server has it no more";
    let expected = ["spawn web", "end web within 3 s: its manifest is gone", soon];
    assert_eq!(told_after("web/web-1/app running of api", stopping), expected);
    assert_eq!(told("web/web-1/app running of api"), expected[..2]);
    assert_eq!(told("web/web-2/app running of api"), ["spawn web", soon]);
}

#[test]
fn the_servers_labels_and_taints_of_the_node_count() {
    let node = |labels: &[(&str, &str)], taints: serde_json::Value| NodeAtServer {
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        taints: serde_json::from_value(taints).unwrap(),
    };
    let check = |spec: &str, node: Option<NodeAtServer>, expected: &str| {
        let mut rig = rig();
        rig.list(&[]);
        set(&mut rig, &[of_server(pod_of("web", spec), |_| {})], node);
        assert_eq!(rig.shown(), expected, "{spec}");
    };
    let selecting = "{containers: [{name: app}], nodeSelector: {zone: a}}";
    check(selecting, Some(node(&[("zone", "a")], json!([]))), "web Pending");
    check(selecting, Some(node(&[("zone", "b")], json!([]))), "web Failed NodeAffinity");
    check(selecting, None, "web Pending");
    let affinity = "{containers: [{name: app}], affinity: {nodeAffinity: \
        {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
        [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}}}}";
    check(affinity, Some(node(&[], json!([]))), "web Failed NodeAffinity");
    let plain = "{containers: [{name: app}]}";
    let tainted = |effect: &str| Some(node(&[], json!([{"key": "a", "effect": effect}])));
    check(plain, tainted("NoExecute"), "web Failed TaintToleration");
    check(plain, tainted("NoSchedule"), "web Pending");
    // A pod that runs was admitted before.
    let mut rig = rig();
    rig.list(&["web/web-1/app running of api"]);
    set(&mut rig, &[of_server(pod_of("web", selecting), |_| {})], tainted("NoExecute"));
    assert_eq!(rig.shown(), "web Pending");
}

/// Regression: it was refused for good, and the kubelet tries again.
#[test]
fn a_pod_waits_for_its_runtime_class() {
    let with_runtime = || {
        let mut node = Node::default();
        node.runtimes.add("plain=runc").unwrap();
        Rig::with(Config { node: Arc::new(node), ..rig_config() })
    };
    let mut rig = with_runtime();
    let wanted = |handler: Option<&str>| {
        of_server(pod_of("web", "{runtimeClassName: safe, containers: [{name: app}]}"), |pod| {
            let handler = handler.map(|it| (HANDLER.to_owned(), it.to_owned()));
            pod.metadata.annotations.get_or_insert_default().extend(handler);
        })
    };
    rig.list(&[]);
    assert_eq!(set(&mut rig, &[wanted(None)], None), [""; 0]);
    assert_eq!(rig.shown(), "web Pending WaitingForRuntimeClass");
    let why = "failed to get runtime handler for RuntimeClass \"safe\": runtimeclass.node.k8s.io \"safe\" not found";
    let message = rig.snapshot().pods[0].status.message.clone().unwrap_or_default();
    assert!(message.contains(why), "{message}");
    let events = |rig: &Rig| rig.turn.events().iter().map(|it| it.event.reason.clone()).collect::<Vec<_>>();
    assert_eq!(events(&rig), ["FailedCreatePodSandBox"]);
    assert_eq!(set(&mut rig, &[wanted(None)], None), [""; 0]);
    assert_eq!(set(&mut rig, &[wanted(Some("plain"))], None), ["spawn web, empty", "run web/web-1"]);
    assert_eq!((rig.shown().as_str(), events(&rig).len()), ("web Pending", 1));
    // The handler is for good: a node without a runtime for it refuses the pod.
    let mut rig = with_runtime();
    rig.list(&[]);
    set(&mut rig, &[wanted(Some("other"))], None);
    assert_eq!(rig.shown(), "web Failed PodFeatureUnsupported");
    // What runs of it runs on, also when its class was removed and nothing of it was stored, or no flag names its handler.
    let containers = ["web/web-1/POD running of api", "web/web-1/app running of api"].map(|words| {
        let mut container = container(words);
        container.labels.insert(labels::RUNTIME.to_owned(), "runc".to_owned());
        container
    });
    for handler in [None, Some("no-more")] {
        let mut rig = with_runtime();
        let containers = containers.clone().into();
        rig.handle(Event::Runtime(RuntimeEvent::Listed { containers, version: None }));
        assert_eq!(set(&mut rig, &[wanted(handler)], None), ["spawn web", "run web/web-1"]);
        let runs = rig.turn.entries.get(&key("web")).unwrap().desired.clone().unwrap();
        assert_eq!(runtimes::written(&runs), Some("runc"));
    }
}
