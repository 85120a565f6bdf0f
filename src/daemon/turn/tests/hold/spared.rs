//! Pods that had ended when they were ordered to stop, and whose end was told later.

use crate::daemon::turn::Event;
use crate::machine::Report;

use super::super::drain::marker;
use super::super::evicted::eviction;
use super::super::preempted::{critical, node, sized};
use super::super::rig::{Rig, acts};
use super::ends::{SANDBOX, job};
use super::waiting;

/// Regression: a job that ended in the moment of its preemption, and whose end Docker told after it, was shown as Failed, and ran
/// again when there was room. The same for a drain, and for an eviction.
#[test]
fn a_job_whose_end_is_told_after_the_order_to_stop_it_stays_ended() {
    let (job, z) = (job("a", 700), critical("z", 700));
    let begin = || {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&job));
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        rig.status(&job, "Running", false);
        rig
    };
    let spared = |rig: &mut Rig| {
        rig.seen("a", &[SANDBOX, "a/a-1/app exited"]);
        rig.status(&job, "Succeeded", false);
        let wishes = rig.wishes[&job.key];
        acts(rig.report("a", Report::Spared(wishes)))
    };
    let mut rig = begin();
    let told = acts(rig.want(&[job.clone(), z.clone()]));
    assert_eq!(told, ["stop a: it is preempted by a critical pod"]);
    assert_eq!(spared(&mut rig), ["run a/a-1"]);
    assert_eq!(rig.shown(), "a Succeeded, z Pending WaitingForRoom");
    assert_eq!(acts(rig.seen("a", &["a/a-1/app exited"])), ["spawn z, empty", "run z/z-1"]);
    assert_eq!(acts(rig.want(std::slice::from_ref(&job))), ["stop z: its manifest is gone"]);
    assert_eq!(acts(rig.gone("z")), ["retire z"]);
    assert_eq!(rig.shown(), "a Succeeded", "it does not return");

    let mut rig = begin();
    rig.handle(marker(1, None));
    assert_eq!(rig.shown(), "a Running terminating");
    spared(&mut rig);
    assert_eq!(rig.shown(), "a Succeeded");
    rig.seen("a", &["a/a-1/app exited"]);
    assert_eq!(acts(rig.handle(Event::Drain(None))), ["run a/a-1"]);
    assert_eq!(rig.shown(), "a Succeeded");

    let mut rig = begin();
    assert_eq!(acts(rig.handle(eviction("a", "a-1", true))), ["stop a within 1 s: it is evicted"]);
    spared(&mut rig);
    assert_eq!(rig.shown(), "a Succeeded");

    // A newer wish counts, whatever the worker did before it read that.
    let mut rig = begin();
    rig.want(&[job.clone(), z.clone()]);
    let wishes = rig.wishes[&job.key];
    rig.want(std::slice::from_ref(&z));
    assert_eq!(acts(rig.report("a", Report::Spared(wishes))), [""; 0]);
    assert!(rig.shown().starts_with("a Running terminating"), "{}", rig.shown());
}

/// Regression: an older version that had ended stayed where a newer one waited: whoever needed its room waited for ever for its
/// end, and a drain did not end.
#[test]
fn an_older_version_that_is_spared_goes_where_a_newer_one_waits() {
    let (job, z) = (job("a", 700), critical("z", 700));
    let newer = waiting(sized("a/a-2", 650, "restartPolicy: Never, "), "nobody");
    for drained in [false, true] {
        let mut rig = Rig::listed_with(node());
        rig.want(std::slice::from_ref(&job));
        rig.seen("a", &[SANDBOX, "a/a-1/app running"]);
        rig.status(&job, "Running", false);
        rig.want(std::slice::from_ref(&newer));
        let told = match drained {
            true => acts(rig.handle(marker(1, None))),
            false => acts(rig.want(&[newer.clone(), z.clone()])),
        };
        assert!(told[0].starts_with("stop a"), "{told:?}");
        // Its sandbox runs for a moment yet.
        rig.seen("a", &[SANDBOX, "a/a-1/app exited"]);
        rig.status(&job, "Succeeded", false);
        let wishes = rig.wishes[&job.key];
        assert_eq!(acts(rig.report("a", Report::Spared(wishes))), ["stop a: a newer version of it waits"]);
        let mut told = rig.seen("a", &["a/a-1/app exited"]);
        told.extend(rig.report("a", Report::Terminated));
        match drained {
            true => assert!(told.contains(&"INFO: the node is drained: nothing runs".to_owned()), "{told:?}"),
            false => assert!(told.contains(&"run z/z-1".to_owned()), "{told:?} {}", rig.shown()),
        }
    }
}
