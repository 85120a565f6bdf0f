//! Pods that have ended for good, beside a start of the daemon and edits.

use std::sync::Arc;
use std::time::Duration;

use super::drain::marker;
use super::evicted::{eviction, later};
use super::preempted::{critical, node, of_source, plain};
use super::rig::{Rig, acts, config_with, container, key, pod_of, with_port};
use crate::base::table::{Set, Table};
use crate::daemon::turn::{Earlier, Event, RuntimeEvent};
use crate::machine::Hint;
use crate::pod::problem::Refused;
use crate::pod::{DesiredPod, Source};
use crate::source::http::url::ManifestUrl;
use crate::source::{PodSet, SourceUpdate, http};
use crate::status::snapshot::EvictionView;

/// A pod that runs once, with a host port.
pub(super) fn job(words: &str, more: &str) -> Arc<DesiredPod> {
    let ports = "ports: [{containerPort: 80, hostPort: 80}]";
    pod_of(words, &format!("{{restartPolicy: Never, {more}containers: [{{name: app, {ports}}}]}}"))
}

const RUNS: [&str; 2] = ["web/web-1/POD running", "web/web-1/app running"];
pub(super) const ENDED: [&str; 2] = ["job/job-1/POD exited", "job/job-1/app exited"];

/// A job had ended, and another pod got its port. The next daemon refused the job for it and removed its containers; it ran
/// a second time when the other pod left.
#[test]
fn a_start_of_the_daemon_refuses_no_pod_that_has_ended() {
    let (job, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::new();
    rig.want(&[job.clone(), web.clone()]);
    let told = acts(rig.list(&[RUNS, ENDED].concat()));
    assert_eq!(told, ["spawn web", "run web/web-1", "spawn job", "run job/job-1"]);
    assert_eq!(acts(rig.status(&web, "Running", false)), [""; 0]);
    assert_eq!(acts(rig.status(&job, "Succeeded", false)), [""; 0]);
    assert_eq!(rig.shown(), "job Succeeded, web Running");
    assert_eq!(acts(rig.want(std::slice::from_ref(&job))), ["stop web: its manifest is gone"]);
    rig.gone("web");
    assert_eq!(acts(later(&mut rig, Duration::from_secs(10))), [""; 0], "the job is not run again");
}

/// A job ran a second time when the policy of its source, stricter for one start, let it again.
#[test]
fn a_job_that_has_ended_stays_so_while_the_policy_of_its_source_refuses_it() {
    let job = job("job", "");
    let refused = Refused { pod: job.clone(), at: None, reason: "Image".into(), message: "no".into() };
    let strict = || SourceUpdate::Full(PodSet { refused: vec![refused.clone()], ..PodSet::default() });
    let mut rig = Rig::new();
    rig.source(strict());
    assert_eq!(acts(rig.list(&ENDED)), [""; 0]);
    assert_eq!(acts(later(&mut rig, Duration::from_secs(600))), [""; 0]);
    assert_eq!(rig.shown(), "job Failed Image");
    assert_eq!(acts(rig.want(std::slice::from_ref(&job))), ["spawn job", "run job/job-1"]);
    assert_eq!(acts(rig.status(&job, "Succeeded", false)), [""; 0]);
    assert_eq!(rig.shown(), "job Succeeded");
    // What runs is stopped; what has ended goes with its manifest.
    for (found, manifest, told) in [
        (
            ["job/job-1/POD exited", "job/job-1/app running"],
            true,
            "stop job: the policy of its source refuses it",
        ),
        (
            ["job/job-2/POD exited", "job/job-2/app exited"],
            true,
            "stop job: the policy of its source refuses it",
        ),
        (ENDED, false, "stop job: no manifest names it"),
    ] {
        let mut rig = Rig::new();
        rig.source(strict());
        if !manifest {
            assert_eq!(acts(rig.list(&found)), [""; 0]);
            assert_eq!(acts(rig.want(&[])), ["spawn job", told]);
            continue;
        }
        assert_eq!(acts(rig.list(&found)), ["spawn job", told]);
    }
}

/// After a boot no pod runs. One that had ended took the port of one that is to run again.
#[test]
fn a_pod_that_has_ended_keeps_none_from_its_port_at_a_start() {
    let (job, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::new();
    rig.want(&[job.clone(), web]);
    let dead = ["web/web-1/POD exited", "web/web-1/app exited"];
    let told = acts(rig.list(&[dead, ENDED].concat()));
    assert_eq!(told, ["spawn job", "run job/job-1", "spawn web", "run web/web-1"]);
}

/// The list tells less than an inspect, so that a worker may know better.
#[test]
fn a_pod_that_goes_on_all_the_same_is_judged() {
    let (job, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::new();
    rig.want(&[job.clone(), web]);
    rig.list(&[RUNS, ENDED].concat());
    let told = acts(rig.status(&job, "Pending", false));
    assert_eq!(told, ["stop job: it was rejected"], "{}", rig.shown());
    rig.gone("job");
    assert!(rig.shown().contains("job Failed NodePorts"), "{}", rig.shown());
}

/// A sandbox that runs has its ports, and a container that never ran has not ended.
#[test]
fn only_dead_containers_show_an_end() {
    let mut rig = Rig::new();
    rig.want(&[job("job", ""), with_port("web", 80)]);
    let told = acts(rig.list(&[&RUNS[..], &["job/job-1/POD exited", "job/job-1/app created"]].concat()));
    assert!(told.contains(&"stop job: it was rejected".to_owned()), "{told:?}");
    let mut rig = Rig::new();
    rig.want(&[job("job", ""), with_port("web", 80)]);
    let told = acts(rig.list(&["job/job-1/POD running", "job/job-1/app exited"]));
    assert_eq!(told, ["spawn job", "run job/job-1"], "its sandbox has the port still");
    assert!(rig.shown().contains("web Pending WaitingForRoom"), "{}", rig.shown());
}

/// An edit of a pod that has ended refused it for what other pods had got since, and removed its containers.
#[test]
fn an_edit_of_a_pod_that_has_ended_asks_for_nothing() {
    let (first, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&first));
    rig.status(&first, "Succeeded", false);
    rig.want(&[first, web.clone()]);
    rig.status(&web, "Running", false);
    let edited = job("job", "terminationGracePeriodSeconds: 5, ");
    assert_eq!(acts(rig.want(&[edited, web])), ["run job/job-1"]);
}

/// A critical pod that had ended had a pod that runs stopped at each start of the daemon, to have room.
#[test]
fn a_critical_pod_that_has_ended_has_no_other_stopped() {
    let mut job = DesiredPod::clone(&critical("job", 600));
    Arc::make_mut(&mut job.spec).restart_policy = Some("Never".into());
    let mut rig = Rig::with(node());
    rig.want(&[Arc::new(job), plain("web", 600)]);
    let told = acts(rig.list(&[RUNS, ENDED].concat()));
    assert_eq!(told, ["spawn web", "run web/web-1", "spawn job", "run job/job-1"]);
}

/// It waited anew for the pods that it had waited for before it ran.
#[test]
fn a_pod_that_has_ended_waits_for_no_other() {
    let mut job = DesiredPod::clone(&job("job", ""));
    job.metadata.annotations.get_or_insert_default().insert("podkeeper.dev/after".into(), "gone".into());
    let mut rig = Rig::new();
    rig.want(&[Arc::new(job)]);
    assert_eq!(acts(rig.list(&ENDED)), ["spawn job", "run job/job-1"]);
}

/// Regression: what a worker had told of a pod that was dropped since counted for the pod that came in its place, which was
/// not judged at all while the worker had not looked again.
#[test]
fn what_was_told_before_a_stop_does_not_count() {
    let (job, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Succeeded", false);
    rig.want(&[job.clone(), web.clone()]);
    rig.status(&web, "Running", false);
    assert_eq!(acts(rig.want(std::slice::from_ref(&web))), ["stop job: its manifest is gone"]);
    let told = acts(rig.want(&[job.clone(), web]));
    assert!(!told.contains(&"run job/job-1".to_owned()), "{told:?}");
    rig.gone("job");
    assert!(rig.shown().contains("job Failed NodePorts"), "{}", rig.shown());
}

/// Regression: it was shown as ended, although it never ran.
#[test]
fn a_pod_of_another_source_has_not_ended_because_the_one_before_it_has() {
    let first = job("job", "");
    let mut rig = Rig::listed_with(config_with(|sources| {
        sources.manifest_url = ManifestUrl::parse("https://fleet/pods").ok().map(http::Settings::new);
    }));
    rig.want(&[first.clone(), with_port("web", 80)]);
    rig.status(&first, "Succeeded", false);
    let other = pod_of("job", "{restartPolicy: Never, containers: [{name: other, image: b}]}");
    of_source(&mut rig, Source::Http, &[&other]);
    let told = acts(rig.want(&[with_port("web", 80)]));
    assert_eq!(told, ["stop job: it was rejected"], "it begins anew when that is gone");
}

/// What a pod may do counts all the same, for its worker may know that it goes on; the lack of room came first.
#[test]
fn a_pod_that_has_ended_may_do_no_more_than_others() {
    let privileged = "cpu: 99}}, securityContext: {privileged: true}";
    let spec = format!(
        "{{restartPolicy: Never, containers: [{{name: app, resources: {{requests: {{{privileged}}}]}}"
    );
    let mut rig = Rig::with(node());
    rig.want(&[pod_of("job", &spec)]);
    let told = rig.list(&ENDED);
    assert!(told.iter().any(|line| line.contains("Forbidden")), "{told:?}");
    assert_eq!(acts(told), ["spawn job", "stop job: it was rejected"]);
}

#[test]
fn a_pod_that_goes_on_needs_its_room() {
    let mut job = DesiredPod::clone(&plain("job", 600));
    Arc::make_mut(&mut job.spec).restart_policy = Some("Never".into());
    let job = Arc::new(job);
    let mut rig = Rig::with(node());
    rig.want(&[job.clone(), plain("web", 600)]);
    assert_eq!(
        acts(rig.list(&[RUNS, ENDED].concat())),
        ["spawn web", "run web/web-1", "spawn job", "run job/job-1"]
    );
    assert_eq!(acts(rig.status(&job, "Pending", false)), ["stop job: it was rejected"]);
}

/// Regression: a daemon that began on a drained node stopped a pod that had ended, which ran a second time afterwards.
#[test]
fn a_start_on_a_drained_node_leaves_what_has_ended() {
    let mut rig = Rig::new();
    rig.handle(marker(1, None));
    rig.want(&[job("job", "")]);
    assert_eq!(acts(rig.list(&ENDED)), [""; 0]);
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["spawn job", "run job/job-1"]);
    assert_eq!(acts(rig.handle(marker(2, None))), [""; 0], "nor does a drain before its worker has told");
}

/// Regression: Docker tells old events again after a list, so that the list counted as uncertain at the end of a drain, and
/// what had ended was refused for the room that others had.
#[test]
fn what_has_ended_is_known_after_a_drain_that_an_earlier_daemon_began() {
    let mut rig = Rig::new();
    rig.handle(marker(1, None));
    rig.want(&[with_port("aa", 80), job("job", "")]);
    rig.list(&ENDED);
    let hint = Hint::Changed("job-job-1-app-0".to_owned());
    rig.handle(Event::Runtime(RuntimeEvent::Changed { key: key("job"), hint }));
    let told = acts(rig.handle(Event::Drain(None)));
    assert!(
        told.contains(&"run job/job-1".to_owned()) && told.contains(&"run aa/aa-1".to_owned()),
        "{told:?}"
    );
}

/// Regression: a pod that was dropped, came back and ended again was judged at its next edit, and ran once more.
#[test]
fn what_a_later_life_tells_counts() {
    let (job, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Running", false);
    rig.want(&[]);
    rig.status(&job, "Running", true);
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Running", false);
    rig.status(&job, "Succeeded", false);
    rig.want(&[job.clone(), web.clone()]);
    rig.status(&web, "Running", false);
    let mut edited = DesiredPod::clone(&job);
    edited.metadata.annotations.get_or_insert_default().insert("a".into(), "b".into());
    assert_eq!(acts(rig.want(&[Arc::new(edited), web])), ["run job/job-1"]);
}

/// Regression: the end of the version before counted for the next one, with another UID, which was not judged for room.
#[test]
fn the_end_of_another_version_does_not_count() {
    let (first, web) = (job("job", ""), with_port("web", 80));
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&first));
    rig.status(&first, "Succeeded", false);
    rig.want(&[first, web.clone()]);
    rig.status(&web, "Running", false);
    let plain = pod_of("job/job-2", "{restartPolicy: Never, containers: [{name: app}]}");
    assert_eq!(acts(rig.want(&[plain, web.clone()])), ["run job/job-2"]);
    let told = acts(rig.want(&[job("job/job-2", ""), web]));
    assert!(!told.contains(&"run job/job-2".to_owned()), "{told:?}");
}

/// Regression: an edit before the worker had told anything judged it like a pod that runs, and it ran a second time.
#[test]
fn an_edit_before_its_worker_has_told_asks_for_nothing() {
    let mut rig = Rig::new();
    rig.want(&[job("job", ""), with_port("web", 80)]);
    rig.list(&[RUNS, ENDED].concat());
    for seconds in [5, 6] {
        let edited = job("job", &format!("terminationGracePeriodSeconds: {seconds}, "));
        assert_eq!(acts(rig.want(&[edited, with_port("web", 80)])), ["run job/job-1"]);
    }
    // A stop is the end of that.
    rig.want(&[with_port("web", 80)]);
    let told = acts(rig.want(&[job("job", ""), with_port("web", 80)]));
    assert!(!told.contains(&"run job/job-1".to_owned()), "{told:?}");
}

/// Regression: what had ended was judged like a pod that runs when Docker was away for a moment at the end of a drain.
#[test]
fn what_has_ended_is_known_while_docker_does_not_answer() {
    let mut rig = Rig::new();
    rig.handle(marker(1, None));
    rig.want(&[with_port("aa", 80), job("job", "")]);
    rig.list(&ENDED);
    rig.handle(Event::Runtime(RuntimeEvent::Lost("it is being upgraded".into())));
    let told = acts(rig.handle(Event::Drain(None)));
    assert!(told.contains(&"run job/job-1".to_owned()), "{told:?}");
}

/// Regression: a pod that had ended, was removed and came back had its port taken by another one before it began anew.
#[test]
fn a_pod_that_begins_anew_has_its_port() {
    let job = job("job", "");
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Succeeded", false);
    rig.want(&[]);
    assert_eq!(acts(rig.want(std::slice::from_ref(&job))), ["run job/job-1"]);
    rig.want(&[job.clone(), with_port("web", 80)]);
    assert_eq!(rig.shown(), "job Succeeded, web Failed NodePorts");
    assert_eq!(acts(rig.status(&job, "Pending", false)), [""; 0], "it is not judged once more");
}

/// Regression: each start of the daemon forgot one preemption of a pod that had returned and runs: preempted once more, it came
/// back at once. One that never went away did not make room.
#[test]
fn a_preemption_of_a_pod_that_has_returned_counts_after_a_restart() {
    let web = pod_of("web", "{containers: [{name: app}]}");
    let began = Rig::new().now().wall;
    let view = EvictionView {
        uid: "web-1".to_owned(),
        count: 0,
        until: began,
        message: "Preempted in order to admit critical pod".to_owned(),
        of_the_node: false,
        preempted: true,
    };
    for (created, counted) in [(-60, 0), (60, 1)] {
        let mut next = Rig::new();
        next.now = next.now.after(Duration::from_secs(100));
        let earlier =
            Earlier { evictions: [("default/web".to_owned(), view.clone())].into(), ..Earlier::default() };
        next.turn.restore_unfinished(earlier, Set::new(), Table::new());
        next.want(std::slice::from_ref(&web));
        let mut containers = RUNS.map(container);
        containers.iter_mut().for_each(|container| container.created = began.as_second() + created);
        next.handle(Event::Runtime(RuntimeEvent::Listed { containers: containers.into(), version: None }));
        assert_eq!(next.shown(), "web Pending");
        assert_eq!(next.snapshot().evictions.len(), counted, "{created}");
    }
}

/// Regression: a pod that had been evicted once, had returned and ended was shown as evicted after each start of the daemon.
#[test]
fn an_eviction_of_before_does_not_hide_the_end() {
    let job = job("job", "");
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Running", false);
    rig.handle(eviction("job", "job-1", true));
    rig.gone("job");
    let began = rig.now().wall.as_second();
    for (created, expected) in [(began - 60, "job Failed Evicted"), (began + 60, "job Pending")] {
        let mut next = Rig::new();
        next.now = rig.now.after(Duration::from_secs(100));
        next.goes_on_from(&rig.snapshot());
        next.want(std::slice::from_ref(&job));
        let mut containers = ENDED.map(container);
        containers.iter_mut().for_each(|container| container.created = created);
        next.handle(Event::Runtime(RuntimeEvent::Listed { containers: containers.into(), version: None }));
        assert_eq!(next.shown(), expected);
        assert_eq!(next.snapshot().evictions.len(), 1, "the next one counts in a row with it");
        // Also the daemon after the next, when the time has passed in which it had to stay away.
        next.now = rig.now.after(Duration::from_secs(1000));
        let mut third = Rig::new();
        third.now = next.now;
        third.goes_on_from(&next.snapshot());
        third.want(std::slice::from_ref(&job));
        let mut containers = ENDED.map(container);
        containers.iter_mut().for_each(|container| container.created = created);
        third.handle(Event::Runtime(RuntimeEvent::Listed { containers: containers.into(), version: None }));
        assert_eq!(third.shown(), expected);
    }
    // One that has ended is not evicted.
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&job));
    rig.status(&job, "Succeeded", false);
    assert_eq!(acts(rig.handle(eviction("job", "job-1", true))), [""; 0]);
    assert_eq!(rig.shown(), "job Succeeded");
}
