//! Pods that are being stopped when they have to be evicted: with a grace period of years they could use any amount
//! meanwhile. And when the daemon ends: the next one carries the stop out.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::cluster;
use super::drain::marker;
use super::evicted::{eviction, later, running};
use super::hold::pass;
use super::over::{ENDED, job};
use super::rig::{Rig, acts, container, pod, pod_of};
use super::sources::two_unlisted;
use crate::base::clock::{Now, Timestamp};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::daemon::turn::{Earlier, Effect, Event};
use crate::machine::{Report, Target, Wish};
use crate::pod::{DesiredPod, Source};
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::snapshot::Snapshot;

/// Regression: a pod with a grace period of years and without a manifest filled the disk, and others were evicted
/// for it.
#[test]
fn a_pod_that_is_being_stopped_can_be_told_to_hurry_once_in_a_while() {
    let (mut rig, pods) = running(&["a", "b"]);
    rig.want(&pods[1..]);
    rig.status(&pods[0], "Running", true);
    let of_a = |rig: &Rig| rig.snapshot().pods.iter().find(|view| view.pod.uid == "a-1").map(|v| v.is_kept);
    assert_eq!(of_a(&rig), Some(true));
    assert_eq!(acts(rig.handle(eviction("a", "another", true))), Vec::<String>::new());
    let told = rig.handle(eviction("a", "a-1", true));
    assert_eq!(acts(told), ["stop a within 1 s: it is evicted while it is being stopped"]);
    assert_eq!(of_a(&rig), Some(false), "it was told");
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), Vec::<String>::new());
    later(&mut rig, Duration::from_secs(600));
    assert_eq!(of_a(&rig), Some(true), "it hangs, and others are taken first");
}

/// Regression: a pod whose newer version waits for its end was not known as leaving, and was the last to be
/// evicted.
#[test]
fn a_pod_that_is_being_replaced_can_be_told_to_go() {
    let (mut rig, pods) = running(&["a"]);
    let newer = pod("a/a-2");
    rig.want(&[Arc::clone(&newer)]);
    rig.status(&pods[0], "Running", true);
    let shown = rig.snapshot();
    assert_eq!((shown.pods[0].pod.uid.as_str(), shown.pods[0].is_kept), ("a-1", true));
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), ["stop a within 1 s: it is evicted"]);
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Evicted", "the newer one returns as an evicted one does");
    assert_eq!(rig.snapshot().pods[0].pod.uid, "a-2");
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), [""; 0]);
    let started = later(&mut rig, limits::EVICTED_MIN);
    assert!(started.contains(&"run a/a-2".to_owned()), "{started:?}");
}

/// Regression: a pod that was being stopped when podkeeper ended could fill the disk for the rest of its grace
/// period of years.
#[test]
fn a_found_pod_that_is_being_stopped_can_be_told_to_hurry() {
    let mut rig = Rig::new();
    rig.want(&[]);
    rig.list(&["a/a-1/app running"]);
    let shown = rig.snapshot();
    assert_eq!((shown.pods[0].status.reason.as_deref(), shown.pods[0].is_kept), (Some("Unmanaged"), true));
    let told = rig.handle(eviction("a", "a-1", true));
    assert_eq!(acts(told), ["stop a within 1 s: it is evicted while it is being stopped"]);
    assert!(!rig.snapshot().pods[0].is_kept, "it was told");
}

/// A source behind others named other pods at each poll, each with 740 volumes that took 5 MiB of the daemon's memory; those
/// of before took their time to end, and a node of 256 MiB lost its daemon within 75 seconds.
#[test]
fn pods_that_are_being_stopped_take_of_the_memory_for_manifests_until_they_have_ended() {
    let large = |name: &str| {
        let mut pod = DesiredPod::clone(&pod(name));
        pod.weight = limits::ACTIVE_MANIFESTS / 4;
        Arc::new(pod)
    };
    let mut rig = Rig::listed();
    let first: Vec<Arc<DesiredPod>> = ["a", "b", "c", "d"].into_iter().map(large).collect();
    assert_eq!(acts(rig.want(&first)).iter().filter(|act| act.starts_with("spawn")).count(), 4);
    for pod in &first {
        rig.status(pod, "Running", false);
    }
    let (next, small) = (large("e"), pod("f"));
    let told = acts(rig.want(&[next.clone(), small]));
    assert!(told.iter().any(|act| act == "spawn f, empty"), "{told:?}");
    assert!(!told.iter().any(|act| act.starts_with("spawn e")), "{told:?}");
    let refused = "Pod was rejected: Node didn't have enough resource: manifest-memory, requested: 4194304, used: 16777216, \
                   capacity: 16777216";
    let message = |rig: &Rig, name: &str| {
        let snapshot = rig.snapshot();
        let view = snapshot.pods.iter().find(|view| view.pod.key.name == name).unwrap();
        view.status.message.clone().unwrap_or_default()
    };
    assert_eq!(message(&rig, "e"), refused);
    for pod in &first {
        rig.status(pod, "Running", true);
    }
    let told = acts(rig.gone("a"));
    assert!(told.iter().any(|act| act == "spawn e, empty"), "{told:?}");
}

/// Regression: innocent pods were evicted while the files of a pod were removed that was not shown any more.
#[test]
fn a_pod_whose_files_are_removed_is_told_until_its_worker_has_ended() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.status(&pod("a"), "Running", false);
    rig.want(&[]);
    let removing = |rig: &Rig| rig.snapshot().removing.into_iter().collect::<Vec<_>>();
    assert_eq!(removing(&rig), [""; 0]);
    rig.report("a", Report::Terminated);
    assert_eq!(removing(&rig), ["a-1"]);
    assert_eq!(rig.shown(), "");
    // It comes back.
    rig.want(&[pod("a/a-2")]);
    rig.status(&pod("a/a-2"), "Running", false);
    assert_eq!(removing(&rig), [""; 0]);
    rig.want(&[]);
    rig.gone("a");
    assert_eq!(removing(&rig), [""; 0]);
}

const ALIVE: [&str; 2] = ["job/job-1/POD running", "job/job-1/app running"];
const SIDECAR: &str = "job/job-1/side running";

/// A daemon that stops a job, for a drain or because the job was evicted.
fn stopping(job: &Arc<DesiredPod>, drain: bool) -> Rig {
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(job));
    rig.seen("job", &[ALIVE[0], ALIVE[1], SIDECAR]);
    rig.status(job, "Running", false);
    assert_eq!(rig.snapshot().docker.stopping, [].into());
    rig.handle(if drain { marker(1, None) } else { eviction("job", "job-1", true) });
    assert_eq!(rig.snapshot().docker.stopping, all_ids());
    rig
}

/// The containers of [`ALIVE`].
fn ids() -> Set<String> {
    ALIVE.map(|words| container(words).id).into()
}

/// These and [`SIDECAR`].
fn all_ids() -> Set<String> {
    [ALIVE[0], ALIVE[1], SIDECAR].map(|words| container(words).id).into()
}

/// Regression: a job that was being stopped when the daemon ended, for a drain, an eviction or the room of another pod, was
/// taken for one that had ended, and never ran again.
#[test]
fn the_end_of_what_was_being_stopped_is_no_end() {
    let job = job("job", "");
    let begun = |drain: bool| {
        let mut rig = stopping(&job, drain);
        rig.seen("job", &ENDED);
        rig.report("job", Report::Terminated);
        assert_eq!(rig.snapshot().docker.stopping, ids(), "Docker has its containers");
        rig
    };
    let killed = "job/job-1/app exited";
    for sandbox in ["job/job-1/POD exited", "job/job-1/POD running"] {
        // On a drained node.
        let rig = begun(true);
        let mut next = Rig::new();
        next.goes_on_from(&rig.snapshot());
        next.handle(marker(1, None));
        next.want(std::slice::from_ref(&job));
        assert!(next.snapshot().docker.stopping.contains("job-job-1-app-0"), "it may end, too");
        assert_eq!(acts(next.list(&[sandbox, killed]))[..2], STOPS);
        assert!(next.snapshot().docker.stopping.contains("job-job-1-app-0"));
        next.gone("job");
        next.list(&[]);
        assert_eq!(next.snapshot().docker.stopping, [].into());
        assert_eq!(acts(next.handle(Event::Drain(None))), ["spawn job, empty", "run job/job-1"]);
        // It was evicted.
        let rig = begun(false);
        let mut next = Rig::new();
        next.now = rig.now;
        next.goes_on_from(&rig.snapshot());
        next.want(std::slice::from_ref(&job));
        assert_eq!(acts(next.list(&[sandbox, killed])), STOPS);
        next.gone("job");
        assert_eq!(next.shown(), "job Failed Evicted");
        // Nothing has been told of it yet, and it is wanted.
        let mut next = Rig::new();
        next.goes_on_from(&begun(true).snapshot());
        assert_eq!(acts(next.list(&[sandbox, killed])), [""; 0]);
        let told = acts(next.want(std::slice::from_ref(&job)));
        assert_eq!(told, [STOPS[0], STOPS[1], "run job/job-1"]);
    }
    // It had ended by itself.
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Succeeded", false);
    let mut next = Rig::new();
    next.goes_on_from(&rig.snapshot());
    next.want(std::slice::from_ref(&job));
    assert_eq!(acts(next.list(&ENDED)), ["spawn job", "run job/job-1"]);
}

const STOPS: [&str; 2] = ["spawn job", "stop job: podkeeper was stopping it when it ended itself"];

/// Regression: a job that had succeeded, or a pod past its deadline, ran a second time when Docker's list came before its
/// manifest was read: the order to stop it came without the pod, which nobody could tell to have ended.
#[test]
fn a_stop_that_an_earlier_daemon_began_waits_for_the_manifest() {
    let job = job("job", "");
    let found = [ALIVE[0], "job/job-1/app exited", SIDECAR];
    let spares = |told: &[Effect]| {
        let stop = told.iter().find_map(|effect| match effect {
            Effect::Wish(_, Wish::Stop(order)) => Some(order),
            _ => None,
        });
        let stop = stop.unwrap_or_else(|| panic!("{told:?}"));
        assert_eq!(stop.target, Target::Unfinished);
        assert_eq!(stop.pod.as_ref().map(|pod| &pod.uid), Some(&job.uid));
    };
    let begin = |drained: bool| {
        let mut next = Rig::new();
        let stopping = [ALIVE[0], SIDECAR].map(|words| container(words).id).into();
        next.turn.restore_unfinished(Earlier::default(), stopping, Table::new());
        if drained {
            next.handle(marker(1, None));
        }
        assert_eq!(acts(next.list(&found)), [""; 0]);
        next
    };
    for drained in [false, true] {
        let mut next = begin(drained);
        let now = Now { mono: next.now, wall: Timestamp::UNIX_EPOCH };
        let set = PodSet { pods: vec![job.clone()], ..PodSet::default() };
        let from = FromSource { source: Source::File, update: SourceUpdate::Full(set) };
        spares(&next.turn.handle(Event::Source(from), &now));
    }
    // Its source is silent, and others may need what it holds; a drain waits for less.
    assert_eq!(pass(&mut begin(false), 60), STOPS);
    let mut next = begin(true);
    assert_eq!(pass(&mut next, 10), ["spawn job", "stop job: the node is drained"]);
    next.gone("job");
    assert_eq!(pass(&mut next, 50), [""; 0], "it is stopped once");
    // What is in no manifest any more goes on ending.
    assert_eq!(acts(begin(false).want(&[])), STOPS);
    // The name is that of another pod by now, which stops it first.
    let told = acts(begin(false).want(&[pod("job/job-2")]));
    assert_eq!(told, [STOPS[0], STOPS[1], "run job/job-2"]);
    let mut next = two_unlisted();
    let stopping = [ALIVE[0], SIDECAR].map(|words| container(words).id).into();
    next.turn.restore_unfinished(Earlier::default(), stopping, Table::new());
    let found = found.map(|words| format!("{words} of http"));
    next.list(&found.each_ref().map(String::as_str));
    let told = acts(next.want(&[pod("job/job-2")]));
    assert_eq!(told, ["spawn job", "run job/job-2"]);
    assert_eq!(pass(&mut next, 60), [""; 0], "it is not stopped in its place");
}

/// A job had got its signal when podkeeper ended, and the drain was over when it came back: the job was taken for one that
/// runs on, and then for one that had ended by itself.
#[test]
fn a_stop_goes_on_whose_reason_is_gone() {
    let job = job("job", "");
    for list in [&ALIVE[..], &[ALIVE[0], "job/job-1/app exited", SIDECAR]] {
        let mut next = Rig::new();
        next.goes_on_from(&stopping(&job, true).snapshot());
        next.want(std::slice::from_ref(&job));
        let told = acts(next.list(list));
        assert_eq!(told[..2], STOPS, "{list:?}");
        assert_eq!(told[2..], ["run job/job-1"], "{list:?}");
    }
    // It had been resumed, and the dead containers were being removed.
    let mut rig = stopping(&job, true);
    rig.seen("job", &ENDED);
    rig.report("job", Report::Terminated);
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["run job/job-1"]);
    rig.status(&job, "Pending", false);
    assert_eq!(rig.snapshot().docker.stopping, ids());
    rig.seen("job", &["job/job-1/POD#1 running", ENDED[1]]);
    assert_eq!(rig.snapshot().docker.stopping, ["job-job-1-app-0".to_owned()].into());
    let begun = ["job/job-1/POD#1 running", "job/job-1/app#1 running"];
    rig.seen("job", &begun);
    assert_eq!(rig.snapshot().docker.stopping, [].into(), "its next life is its own");
    // Docker cannot remove the dead one, and the next life runs, or has ended.
    rig.seen("job", &[ENDED[1], begun[0], begun[1]]);
    for list in
        [[ENDED[1], begun[0], begun[1]], [ENDED[1], "job/job-1/POD#1 exited", "job/job-1/app#1 exited"]]
    {
        let mut next = Rig::new();
        next.goes_on_from(&stopping(&job, true).snapshot());
        next.want(std::slice::from_ref(&job));
        assert_eq!(acts(next.list(&list)), ["spawn job", "run job/job-1"]);
    }
    // A part of it has begun: the rest begins, too, and nothing is stopped for it.
    let mut next = Rig::new();
    next.goes_on_from(&stopping(&job, true).snapshot());
    next.want(std::slice::from_ref(&job));
    let list = [ENDED[1], begun[0], "job/job-1/side#1 running"];
    let again = ["spawn job", "run job/job-1"];
    assert_eq!(acts(next.list(&list)), again);
    assert_eq!(next.killed, ["job-job-1-app-0"]);
    // A container of a pod that goes on was killed, to run again.
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.seen("job", &ALIVE);
    let seen = ALIVE.map(|words| (container(words).id, container(words).state));
    rig.report("job", Report::Seen(seen.into_iter().collect(), ["job-job-1-app-0".to_owned()].into(), 1));
    let mut next = Rig::new();
    next.goes_on_from(&rig.snapshot());
    next.want(std::slice::from_ref(&job));
    assert_eq!(acts(next.list(&[ALIVE[0], ENDED[1]])), again);
    assert_eq!(next.killed, ["job-job-1-app-0"]);
    // The file is of before, for the disk was full: only the containers count that it names.
    let mut next = Rig::new();
    next.goes_on_from(&stopping(&job, true).snapshot());
    next.want(std::slice::from_ref(&job));
    let told = acts(next.list(&["job/job-1/POD#1 exited", "job/job-1/app#1 exited"]));
    assert_eq!(told, ["spawn job", "run job/job-1"]);
}

/// A start was under way when it was ordered to stop.
#[test]
fn containers_that_come_during_a_stop_are_stopped_too() {
    let job = job("job", "");
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.handle(marker(1, None));
    assert_eq!(rig.snapshot().docker.stopping, [].into());
    rig.seen("job", &ALIVE);
    assert_eq!(rig.snapshot().docker.stopping, ids());
    assert!(rig.turn.take_changed());
}

/// A later pod of the name runs: its worker removes what is left of the earlier one.
#[test]
fn what_another_pod_has_left_stops_nothing_that_runs() {
    let job = job("job", "");
    let mut next = Rig::new();
    next.goes_on_from(&stopping(&job, true).snapshot());
    let later = pod_of("job/job-2", "{containers: [{name: app}]}");
    next.want(std::slice::from_ref(&later));
    let list = [ENDED[1], "job/job-2/POD#1 running", "job/job-2/app#1 running"];
    assert_eq!(acts(next.list(&list)), ["spawn job", "run job/job-2"]);
    // The same for one that has ended.
    let mut next = Rig::new();
    next.goes_on_from(&stopping(&job, true).snapshot());
    next.want(std::slice::from_ref(&later));
    let list = [ENDED[1], "job/job-2/POD#1 exited", "job/job-2/app#1 exited"];
    assert_eq!(acts(next.list(&list)), ["spawn job", "run job/job-2"]);
}

/// Regression: a pod that had ended was shown once more, as the last list had it, running and ready, until its worker had removed
/// its containers.
#[test]
fn a_pod_that_has_ended_is_not_shown_as_the_last_list_had_it() {
    let running = ["a/a-1/POD running", "a/a-1/app running"];
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.list(&running);
    rig.seen("a", &running);
    rig.status(&pod("a"), "Running", false);
    rig.want(&[]);
    rig.status(&pod("a"), "Running", true);
    assert_eq!(rig.shown(), "a Running terminating");
    rig.report("a", Report::Terminated);
    assert_eq!(rig.shown(), "");
}

/// Regression: the exit codes of a server's pod that was evicted were lost when the server was silent in that moment: only the
/// first status, which it did not hear, had them.
#[test]
fn an_evicted_pod_of_a_server_keeps_its_exit_codes_until_the_server_hears_of_them() {
    let mut rig = cluster::rig();
    rig.list(&[]);
    let web = cluster::of_server(pod("web"), |_| {});
    cluster::set(&mut rig, std::slice::from_ref(&web), None);
    rig.status(&web, "Running", false);
    rig.handle(eviction("web", "web-1", true));
    let ended: ContainerStatus =
        serde_json::from_value(json!({"name": "app", "image": "i", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": {"exitCode": 5}}}))
        .unwrap();
    let status = PodStatus {
        phase: Some("Running".into()),
        container_statuses: Some(vec![ended]),
        ..PodStatus::default()
    };
    rig.report("web", Report::Status { status: Arc::new(status), pod: web.clone(), terminating: true });
    rig.report("web", Report::Terminated);
    let code = |rig: &Rig| {
        let view = rig.snapshot().pods[0].clone();
        let app = &view.status.container_statuses.as_ref().unwrap()[0];
        let code = app.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code;
        (view.status.phase.clone(), view.status.reason.clone(), code)
    };
    let expected = (Some("Failed".to_owned()), Some("Evicted".to_owned()), 5);
    assert_eq!(code(&rig), expected);
    rig.gone("web");
    assert_eq!(code(&rig), expected);
    // The server tells it with another version, and then deletes it.
    let told = |deleted: bool| {
        let at = deleted.then_some(Time(Timestamp::UNIX_EPOCH));
        cluster::of_server(pod("web"), |pod| {
            pod.metadata.resource_version = Some("2".to_owned());
            pod.metadata.deletion_timestamp = at;
        })
    };
    cluster::set(&mut rig, &[told(false)], None);
    assert_eq!(code(&rig), expected);
    // So does the next daemon, of whose containers nothing is left.
    let Snapshot { evictions, pods, .. } = rig.snapshot();
    let metadata = ObjectMeta { uid: Some(pods[0].pod.uid.clone()), ..ObjectMeta::default() };
    let written = Pod { metadata, status: Some(PodStatus::clone(&pods[0].status)), spec: None };
    let mut next = cluster::rig();
    let earlier = Earlier { evictions, pods: vec![written], ..Earlier::default() };
    next.turn.restore_unfinished(earlier, Set::new(), Table::new());
    next.list(&[]);
    // And the one after it, when the server is silent meanwhile.
    let Snapshot { evictions, docker, .. } = next.snapshot();
    let mut next = cluster::rig();
    let earlier = Earlier { evictions, pods: docker.replaced, ..Earlier::default() };
    next.turn.restore_unfinished(earlier, Set::new(), Table::new());
    next.list(&[]);
    assert_eq!(next.snapshot().docker.replaced.len(), 1);
    cluster::set(&mut next, &[told(false)], None);
    assert_eq!(code(&next), expected);
    cluster::set(&mut next, &[], None);
    assert!(next.turn.node.ends_earlier.is_empty() && next.snapshot().docker.replaced.is_empty());
    cluster::set(&mut rig, &[told(true)], None);
    assert_eq!(code(&rig), expected);
    cluster::set(&mut rig, &[], None);
    assert!(rig.turn.ended.is_empty());
}
