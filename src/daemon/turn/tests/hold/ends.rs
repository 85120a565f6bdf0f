//! Pods that end by themselves: nobody is stopped for their room, none of them runs twice, and who waits for them keeps it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::json;

use super::super::drain::marker;
use super::super::preempted::{critical, node, of_source, one_behind, plain, sized};
use super::super::rig::{Rig, acts};
use super::{pass, waiting};
use crate::base::clock::Mono;
use crate::daemon::turn::Event;
use crate::daemon::turn::hold::Ranks;
use crate::daemon::turn::waiting::Waiting;
use crate::machine::Report;
use crate::pod::{DesiredPod, Source};

pub(super) const SANDBOX: &str = "a/a-1/POD running";

/// A pod that waits for an hour at most.
fn lasting(waiter: Arc<DesiredPod>) -> Arc<DesiredPod> {
    let mut pod = Arc::unwrap_or_clone(waiter);
    let notes = pod.metadata.annotations.get_or_insert_default();
    notes.insert(crate::pod::after::TIMEOUT.into(), "1h".into());
    Arc::new(pod)
}

pub(super) fn job(words: &str, cpu: u32) -> Arc<DesiredPod> {
    sized(words, cpu, "restartPolicy: Never, ")
}

/// A job whose container has ended, and whose sandbox runs still.
fn ended(rig: &mut Rig, job: &Arc<DesiredPod>) -> Vec<String> {
    rig.seen("a", &[SANDBOX, "a/a-1/app exited"]);
    acts(rig.status(job, "Succeeded", false))
}

/// Regression: it was preempted, shown as failed, and ran a second time when there was room again.
#[test]
fn a_job_that_has_ended_is_not_stopped_for_room() {
    let job = job("a", 700);
    for waiter in [critical("z", 700), plain("z", 700), waiting(critical("z", 700), "a=succeeded")] {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&job));
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        rig.status(&job, "Running", false);
        assert_eq!(ended(&mut rig, &job), [""; 0]);
        assert_eq!(acts(rig.want(&[job.clone(), waiter.clone()])), [""; 0]);
        assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
        let message = rig.snapshot().pods[1].status.message.clone();
        assert_eq!(message.as_deref(), Some("Waits for the end of 1 pod: default/a."));
        assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn z, empty", "run z/z-1"]);
        assert_eq!(rig.shown(), "a Succeeded, z Pending");
    }
}

/// The same for a pod of a source that others precede, and for the first moments of a daemon.
#[test]
fn a_job_that_had_ended_before_the_daemon_is_not_stopped_for_room() {
    let (job, z) = (job("a", 700), critical("z", 700));
    let mut rig = Rig::with(node());
    rig.list(&[SANDBOX, "a/a-1/app exited"]);
    assert_eq!(acts(rig.want(&[job.clone(), z])), ["spawn a", "run a/a-1"]);
    assert_eq!(rig.shown().split(", ").last(), Some("z Pending WaitingForRoom"));

    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::File, &[]);
    of_source(&mut rig, Source::Http, &[&job]);
    let http = Arc::clone(rig.turn.entries.values().next().unwrap().desired.as_ref().unwrap());
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&http, "Running", false);
    ended(&mut rig, &http);
    assert_eq!(of_source(&mut rig, Source::File, &[&plain("z", 700)]), [""; 0]);
    assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
}

/// Regression: a job past its deadline, in the grace period of its containers, was preempted, and ran again. One of a source
/// behind others is stopped all the same, for it chooses how long that takes.
#[test]
fn what_runs_of_a_job_after_its_end_is_waited_for_but_not_of_a_source_behind() {
    let ends = |rig: &mut Rig, pod: &Arc<DesiredPod>| {
        let running: PodStatus = serde_json::from_value(json!({
            "phase": "Failed",
            "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                                   "state": {"running": {}}}],
        }))
        .unwrap();
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        let report = Report::Status { status: Arc::new(running), pod: Arc::clone(pod), terminating: false };
        rig.report("a", report);
    };
    let (job, z) = (job("a", 700), critical("z", 700));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&job));
    ends(&mut rig, &job);
    assert_eq!(acts(rig.want(&[job.clone(), z.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Failed, z Pending WaitingForRoom");

    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::File, &[]);
    of_source(&mut rig, Source::Http, &[&job]);
    let http = Arc::clone(rig.turn.entries.values().next().unwrap().desired.as_ref().unwrap());
    ends(&mut rig, &http);
    let told = of_source(&mut rig, Source::File, &[&z]);
    assert!(told.iter().any(|line| line.starts_with("stop a")), "{told:?}");
}

/// Regression: it was refused where the other one had its room first, and a third pod took the room.
#[test]
fn who_waits_for_a_job_to_succeed_keeps_its_room_whoever_comes_first() {
    let (job, w, x) = (job("a", 300), waiting(plain("w", 800), "a=succeeded"), plain("x", 500));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&job));
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&job, "Running", false);
    assert_eq!(acts(rig.want(&[job.clone(), w.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods");
    rig.want(&[job.clone(), w.clone(), x.clone()]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods, x Failed OutOfcpu");
    assert_eq!(ended(&mut rig, &job), [""; 0]);
    assert_eq!(rig.shown(), "a Succeeded, w Pending WaitingForRoom, x Failed OutOfcpu");
    assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn w, empty", "run w/w-1"]);
    assert_eq!(rig.shown(), "a Succeeded, w Pending, x Failed OutOfcpu");
    // A pod that goes on while it runs itself has to leave it its room, and so has one that it does not wait for.
    for on in ["a", "a=ready", "b=succeeded"] {
        let mut rig = Rig::listed_with(node());
        rig.want(&[job.clone(), waiting(plain("w", 800), on)]);
        assert_eq!(rig.shown(), "a Pending, w Failed OutOfcpu", "{on}");
    }
    // What has to succeed before one of those that it waits for has ended, too.
    let between = waiting(plain("b", 100), "a=succeeded");
    let mut rig = Rig::listed_with(node());
    rig.want(&[job.clone(), between, waiting(plain("w", 800), "b")]);
    assert_eq!(rig.shown(), "a Pending, b Pending WaitingForPods, w Pending WaitingForPods");
}

/// Regression: a pod that was refused after its wait waited as long again.
#[test]
fn a_wait_that_is_over_does_not_begin_anew() {
    let (job, w) = (job("a", 300), waiting(plain("w", 800), "a=succeeded"));
    let mut rig = Rig::listed_with(node());
    rig.want(&[job.clone(), w.clone()]);
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&job, "Running", false);
    rig.now = Mono(rig.now.0 + Duration::from_secs(1));
    let x = plain("x", 500);
    rig.want(&[job.clone(), w.clone(), x.clone()]);
    assert_eq!(rig.shown(), "a Running, w Pending WaitingForPods, x Failed OutOfcpu");
    // Regression: what its room had kept out stayed out until another pod changed.
    assert_eq!(pass(&mut rig, 60), [""; 0]);
    assert_eq!(pass(&mut rig, 1), ["spawn x, empty", "run x/x-1"]);
    assert_eq!(rig.shown(), "a Running, w Failed OutOfcpu, x Pending");
    rig.want(&[job.clone(), w.clone()]);
    rig.gone("x");
    rig.seen("a", &["a/a-1/app exited"]);
    assert_eq!(acts(rig.status(&job, "Failed", false)), ["spawn w, empty", "run w/w-1"]);
}

/// Regression: pods that waited filled the node together, and kept out the jobs that they waited for until their timeout.
#[test]
fn a_job_that_a_waiting_pod_needs_takes_the_room_of_all_that_wait() {
    let jobs = |x: &str, y: &str| (job(x, 700), job(y, 700));
    // Whatever their order by name.
    for (first, second, one, two) in [("y", "z", "w", "x"), ("a", "b", "w", "x"), ("a", "z", "b", "y")] {
        let (j1, j2) = jobs(first, second);
        let w1 = waiting(plain(one, 600), &format!("{first}=succeeded"));
        let w2 = waiting(plain(two, 400), &format!("{second}=succeeded"));
        let mut rig = Rig::listed_with(node());
        let all = [j1.clone(), j2.clone(), w1.clone(), w2.clone()];
        rig.want(&all);
        let shown = rig.shown();
        let (runs, other) =
            if shown.contains(&format!("{first} Pending,")) { (&j1, &j2) } else { (&j2, &j1) };
        assert!(shown.contains(&format!("{one} Pending WaitingForPods")), "{shown}");
        assert!(shown.contains(&format!("{two} Pending WaitingForPods")), "{shown}");
        assert!(shown.contains(&format!("{} Failed OutOfcpu", other.key.name)), "{shown}");
        // A pod that nobody needs gets none of their room.
        let stranger = plain("c", 300);
        let with = |pod: &Arc<DesiredPod>| [all.as_slice(), std::slice::from_ref(pod)].concat();
        rig.want(&with(&stranger));
        assert!(rig.shown().contains("c Failed OutOfcpu"), "{}", rig.shown());
        rig.want(&all);

        let over = |rig: &mut Rig, job: &Arc<DesiredPod>| {
            let name = &job.key.name;
            let container = format!("{name}/{name}-1/app exited");
            rig.status(job, "Running", false);
            rig.seen(name, &[&container]);
            acts(rig.status(job, "Succeeded", false))
        };
        let told = over(&mut rig, runs);
        assert_eq!(told.last(), Some(&format!("run {0}/{0}-1", other.key.name)), "{told:?}");
        let ready = if runs.key == j1.key { one } else { two };
        let shown = rig.shown();
        assert!(shown.contains(&format!("{ready} Pending WaitingForRoom")), "{shown}");
        let snapshot = rig.snapshot();
        let message = snapshot.pods.iter().find(|view| view.pod.key.name == ready).unwrap();
        let message = message.status.message.clone().unwrap();
        assert_eq!(message, format!("Waits for the end of 1 pod: default/{}.", other.key.name));
        // It has its room first.
        rig.want(&with(&stranger));
        assert!(rig.shown().contains("c Failed OutOfcpu"), "{}", rig.shown());
        rig.want(&all);
        let told = over(&mut rig, other);
        assert!(told.contains(&format!("run {one}/{one}-1")), "{told:?}");
        assert!(told.contains(&format!("run {two}/{two}-1")), "{told:?}");
    }
}

/// Regression: a pod whose room is lent lost it, for good, when nobody needed the job any more that had it.
#[test]
fn room_that_is_lent_is_given_back_whoever_needs_the_job_meanwhile() {
    let (dep, j, stranger) = (job("dep", 900), job("j", 50), plain("a", 700));
    let w1 = |on: &str| waiting(plain("w1", 400), on);
    let w2 = waiting(plain("w2", 400), "j=succeeded");
    let begin = || {
        let mut rig = Rig::listed_with(node());
        rig.want(&[dep.clone(), j.clone(), w1("dep=succeeded"), w2.clone()]);
        rig.status(&dep, "Running", false);
        rig.seen("dep", &["dep/dep-1/app running"]);
        rig.status(&j, "Running", false);
        rig.seen("j", &["j/j-1/app exited"]);
        rig.status(&j, "Succeeded", false);
        assert!(rig.shown().contains("w2 Pending WaitingForRoom"), "{}", rig.shown());
        rig
    };
    for on in [None, Some("gone=succeeded")] {
        let mut rig = begin();
        let left: Vec<_> = on.map(w1).into_iter().chain([dep.clone(), j.clone(), w2.clone()]).collect();
        rig.want(&left);
        assert!(rig.shown().contains("w2 Pending WaitingForRoom"), "{on:?}: {}", rig.shown());
        rig.want(&[left.as_slice(), std::slice::from_ref(&stranger)].concat());
        assert!(rig.shown().contains("a Failed OutOfcpu"), "{on:?}: {}", rig.shown());
        rig.seen("dep", &["dep/dep-1/app exited"]);
        let told = acts(rig.status(&dep, "Succeeded", false));
        assert!(told.contains(&"run w2/w2-1".to_owned()), "{on:?}: {told:?}");
    }
}

/// Regression: it waited for as long as the job ran.
#[test]
fn a_critical_pod_has_its_lent_room_back_by_force_when_nobody_needs_the_job_any_more() {
    let (j, g) = (job("j", 700), plain("g", 100));
    let (v, w) = (waiting(critical("v", 0), "j=succeeded"), lasting(waiting(critical("w", 700), "g")));
    for ends in ["removed", "late"] {
        let mut rig = Rig::listed_with(node());
        rig.want(&[v.clone(), w.clone(), j.clone()]);
        rig.status(&j, "Running", false);
        rig.want(&[v.clone(), w.clone(), j.clone(), g.clone()]);
        rig.status(&g, "Running", false);
        assert!(
            rig.shown().contains("v Pending WaitingForPods, w Pending WaitingForRoom"),
            "{}",
            rig.shown()
        );
        let mut told = match ends {
            "removed" => rig.want(&[w.clone(), j.clone(), g.clone()]),
            _ => pass(&mut rig, 60),
        };
        told.extend(pass(&mut rig, 10));
        let told = acts(told);
        assert!(told.contains(&"stop j: it is preempted by a critical pod".to_owned()), "{ends}: {told:?}");
    }
}

/// Regression: a job that a critical pod needs at second hand did not borrow for it, when the ranks of all were known before
/// the one between them waited.
#[test]
fn a_job_that_is_needed_at_second_hand_borrows_for_the_first() {
    let turn = Rig::listed_with(node()).turn;
    let (w, b) = (waiting(critical("w", 10), "b=succeeded"), waiting(job("b", 50), "c=succeeded"));
    let mut all = Waiting::default();
    all.add(&w, turn.rank(&w), "n");
    let ranks = Ranks::Differ(all.highest(vec![(turn.rank(&w), &w.key)]));
    all.ranks.set(ranks).unwrap();
    all.add(&b, turn.rank(&b), "n");
    let Some(Ranks::Differ(highest)) = all.ranks.get() else { panic!("{:?}", all.ranks) };
    assert_eq!(highest.get(&job("c", 500).key), Some(&turn.rank(&w)));
}

/// Regression: the newer version of a job that had ended counted for a critical pod's room, and could not be preempted: that
/// one waited for the end of nothing, or others went for it in vain.
#[test]
fn a_newer_version_that_waits_does_not_end_with_the_older_one() {
    let old = job("a", 100);
    let newer = waiting(job("a/a-2", 500), "nobody");
    let (r, w, p) = (plain("r", 500), critical("w", 400), plain("p", 400));
    for (other, expected) in [(w, "run w/w-1"), (p, "")] {
        let mut rig = Rig::listed_with(node());
        rig.want(&[old.clone(), r.clone()]);
        rig.status(&r, "Running", false);
        rig.seen("a", &["a/a-1/app exited"]);
        rig.status(&old, "Succeeded", false);
        rig.want(&[newer.clone(), r.clone()]);
        assert!(rig.shown().contains("a Succeeded"), "{}", rig.shown());
        let mut told = rig.want(&[newer.clone(), r.clone(), other.clone()]);
        told.extend(pass(&mut rig, 10));
        let told = acts(told);
        assert!(!told.iter().any(|act| act.starts_with("stop")), "{told:?}");
        match expected {
            "" => assert!(rig.shown().contains("p Failed OutOfcpu"), "{}", rig.shown()),
            run => assert!(told.contains(&run.to_owned()), "{told:?} {}", rig.shown()),
        }
    }
}

/// Regression: when its own wait was over, it waited for ever for the end of a pod of which nothing ran.
#[test]
fn a_critical_pod_has_the_room_of_one_that_only_waits_at_once() {
    let b = lasting(waiting(plain("b", 700), "x=succeeded"));
    let a = waiting(critical("a", 700), "y");
    for begin in [false, true] {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&b));
        rig.want(&[b.clone(), a.clone()]);
        assert_eq!(rig.shown(), "a Pending WaitingForPods, b Pending WaitingForPods");
        let mut told = match begin {
            true => {
                let y = plain("y", 10);
                let mut told = rig.want(&[b.clone(), a.clone(), y.clone()]);
                told.extend(rig.status(&y, "Running", false));
                told
            }
            false => pass(&mut rig, 60),
        };
        told.extend(pass(&mut rig, 10));
        let told = acts(told);
        assert!(told.contains(&"run a/a-1".to_owned()), "{begin}: {told:?} {}", rig.shown());
    }
}

/// Regression: with a chain of jobs that wait for one another, what a change cost grew with the third power of its length.
#[test]
fn a_long_chain_of_waiting_jobs_is_judged_soon() {
    let name = |n: usize| format!("j{n:03}");
    let chain: Vec<Arc<DesiredPod>> = (0..500)
        .map(|n| match n {
            0 => job(&name(0), 900),
            _ => waiting(job(&name(n), 900), &format!("{}=succeeded", name(n - 1))),
        })
        .collect();
    let mut rig = Rig::listed_with(node());
    rig.want(&chain);
    let shown = rig.shown();
    assert_eq!(shown.matches("Pending WaitingForPods").count(), 499, "{shown}");
    // Each waits for all before it, and is judged without a look at each of them again.
    assert!(rig.turn.waiting.admitted.get() < 3 * chain.len(), "{}", rig.turn.waiting.admitted.get());
}

/// A pod that never ends borrows nothing, and neither does one that nobody needs to have ended, or that would be stopped for
/// the room.
#[test]
fn only_jobs_borrow_and_only_from_pods_that_do_not_precede_them() {
    let shown = |config, waiter: &Arc<DesiredPod>, other: &Arc<DesiredPod>, on: &Arc<DesiredPod>| {
        let mut rig = Rig::listed_with(config);
        rig.want(std::slice::from_ref(waiter));
        rig.want(&[waiter.clone(), other.clone()]);
        rig.want(&[waiter.clone(), other.clone(), on.clone()]);
        rig.shown()
    };
    let (w, v) = (|on| waiting(plain("w", 600), on), |on| waiting(plain("v", 400), on));
    let lent = shown(node(), &w("gone"), &v("a=succeeded"), &job("a", 700));
    assert_eq!(lent, "a Pending, v Pending WaitingForPods, w Pending WaitingForPods");
    let kept = "a Failed OutOfcpu, v Pending WaitingForPods, w Pending WaitingForPods";
    assert_eq!(shown(node(), &w("gone"), &v("a=succeeded"), &plain("a", 700)), kept);
    assert_eq!(shown(node(), &w("gone"), &v("a"), &job("a", 700)), kept);
    let critical_waiter = waiting(critical("w", 600), "gone");
    assert_eq!(shown(node(), &critical_waiter, &v("a=succeeded"), &job("a", 700)), kept);
    // For a critical one it may.
    let other = waiting(critical("v", 400), "a=succeeded");
    assert_eq!(shown(node(), &critical_waiter, &other, &job("a", 700)), lent);
}

/// A pod that keeps its room while the job ends for which it has waited has it back first after a drain.
#[test]
fn what_waits_for_the_end_of_its_job_has_its_room_after_a_drain() {
    let (job, w, x) = (job("a", 300), waiting(plain("w", 800), "a=succeeded"), plain("b", 500));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&job));
    rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
    rig.status(&job, "Running", false);
    rig.want(&[job.clone(), w.clone()]);
    rig.want(&[job.clone(), w.clone(), x.clone()]);
    ended(&mut rig, &job);
    assert_eq!(rig.shown(), "a Succeeded, b Failed OutOfcpu, w Pending WaitingForRoom");
    rig.handle(marker(1, Some(10)));
    rig.seen("a", &["a/a-1/app exited"]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Succeeded, b Failed OutOfcpu, w Pending");
}
