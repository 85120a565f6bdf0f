//! Where a source stands behind others: who of those that precede it has the room that becomes free.

use std::sync::Arc;

use super::super::drain::marker;
use super::super::preempted::{critical, of_source, one_behind, plain};
use super::super::rig::{Rig, key};
use super::super::sizes::{asks, shaped};
use super::pass;
use crate::daemon::turn::Event;
use crate::daemon::turn::entry::Entry;
use crate::daemon::turn::hold::Why;
use crate::pod::{DesiredPod, Source};

/// A node on which `b` ran, and went for a critical pod, which runs.
fn preempted(b: &Arc<DesiredPod>, critical: &Arc<DesiredPod>) -> Rig {
    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::Http, &[]);
    rig.want(std::slice::from_ref(b));
    rig.status(b, "Running", false);
    rig.want(&[Arc::clone(b), Arc::clone(critical)]);
    rig.gone("b");
    rig.status(critical, "Running", false);
    rig
}

/// Regression: where some source stands behind others, a preempted pod of these came after a refused one that never ran.
#[test]
fn what_was_preempted_returns_before_what_never_ran_also_where_others_stand_behind() {
    let (web, a, z) = (asks("b", "cpu: 800m"), asks("a", "cpu: 800m"), critical("z", 800));
    for is_drained in [false, true] {
        let mut rig = Rig::listed_with(one_behind());
        of_source(&mut rig, Source::Http, &[]);
        rig.want(std::slice::from_ref(&web));
        rig.status(&web, "Running", false);
        rig.want(&[a.clone(), web.clone()]);
        rig.want(&[a.clone(), web.clone(), z.clone()]);
        rig.gone("b");
        rig.status(&z, "Running", false);
        assert_eq!(rig.shown(), "a Failed OutOfcpu, b Failed Preempting, z Running");
        if is_drained {
            rig.handle(marker(1, Some(10)));
        }
        rig.want(&[a.clone(), web.clone()]);
        rig.gone("z");
        rig.handle(Event::Drain(None));
        assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending", "drained: {is_drained}");
    }
}

/// Regression: a preempted pod did not come back into the room of one that stands behind it, and came since.
#[test]
fn what_was_preempted_returns_before_what_stands_behind_it() {
    let (web, h, z) = (asks("b", "cpu: 700m"), asks("h", "cpu: 600m"), critical("z", 400));
    let mut rig = preempted(&web, &z);
    of_source(&mut rig, Source::Http, &[&h]);
    rig.status(&h, "Running", false);
    assert_eq!(rig.shown(), "b Failed Preempting, h Running, z Running");
    rig.want(std::slice::from_ref(&web));
    rig.gone("z");
    assert_eq!(rig.shown(), "b Pending WaitingForRoom, h Running terminating");
    rig.gone("h");
    assert_eq!(rig.shown(), "b Pending, h Failed Preempting");
}

/// A pod that precedes others keeps the room of those that end, one after the other, from one that stands behind it: that would
/// start in vain.
#[test]
fn what_ends_leaves_its_room_to_who_precedes() {
    let [d, e, f] = [("d", 500), ("e", 300), ("f", 900)].map(|(name, cpu)| plain(name, cpu));
    let b = plain("b", 300);
    let mut rig = Rig::listed_with(one_behind());
    rig.want(&[d.clone(), e.clone()]);
    rig.status(&d, "Running", false);
    rig.status(&e, "Running", false);
    of_source(&mut rig, Source::Http, &[&b]);
    rig.want(std::slice::from_ref(&f));
    let waits = "f Pending WaitingForRoom";
    assert_eq!(
        rig.shown(),
        format!("b Failed OutOfcpu, d Running terminating, e Running terminating, {waits}")
    );
    rig.gone("e");
    assert_eq!(rig.shown(), format!("b Failed OutOfcpu, d Running terminating, {waits}"));
    rig.gone("d");
    assert_eq!(rig.shown(), "b Failed OutOfcpu, f Pending");
}

/// Regression: a pod that waited for room with its new, smaller sizes was judged with its old ones first, refused, and judged
/// again at once, for ever: the loop did nothing else.
#[test]
fn what_waits_for_room_with_smaller_sizes_waits_on() {
    let [web, smaller] = ["cpu: 600m", "cpu: 350m"].map(|requests| shaped("b", requests));
    let (z, d, x) = (critical("z", 500), critical("d", 300), plain("x", 1));
    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::Http, &[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.handle(marker(1, Some(10)));
    rig.gone("b");
    rig.want(&[web.clone(), z.clone(), d.clone()]);
    rig.handle(Event::Drain(None));
    rig.status(&z, "Running", false);
    rig.status(&d, "Running", false);
    assert_eq!(rig.shown(), "b Failed OutOfcpu, d Running, z Running");
    rig.want(&[web, z.clone()]);
    rig.want(&[smaller.clone(), z.clone()]);
    let waits = "b Pending WaitingForRoom, d Running terminating";
    assert_eq!(rig.shown(), format!("{waits}, z Running"));
    rig.want(&[smaller.clone(), z.clone(), x.clone()]);
    for _ in 0..3 {
        pass(&mut rig, 2);
        assert_eq!(rig.shown(), format!("{waits}, x Pending, z Running"));
    }
    rig.gone("d");
    assert_eq!(rig.shown(), "b Pending, x Pending, z Running");
}

/// Regression: a pod that had been preempted, waited for room again and had to leave that to another one was away for the time
/// of a second preemption, though it had not run.
#[test]
fn what_only_waited_for_its_room_is_not_preempted_twice() {
    let (web, z, other) = (plain("b", 800), critical("z", 500), critical("y", 600));
    let mut rig = preempted(&web, &z);
    rig.want(std::slice::from_ref(&web));
    assert_eq!(rig.shown(), "b Pending WaitingForRoom, z Running terminating");
    rig.want(&[web.clone(), other.clone()]);
    assert_eq!(rig.shown(), "b Failed Preempting, y Pending WaitingForRoom, z Running terminating");
    rig.gone("z");
    rig.want(std::slice::from_ref(&web));
    rig.gone("y");
    assert_eq!(rig.shown(), "b Pending");
}

/// Regression: a new pod that came in one change with the end of another had the room of a preempted one.
#[test]
fn what_comes_with_the_end_of_another_takes_no_room_of_what_was_preempted() {
    let (web, z, f) = (plain("b", 800), critical("z", 500), plain("a", 800));
    let mut rig = preempted(&web, &z);
    let before = rig.snapshot();
    rig.want(&[web.clone(), f.clone()]);
    assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending WaitingForRoom, z Running terminating");
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending");
    // Nor when the next daemon sees that end.
    let mut next = Rig::with(one_behind());
    next.goes_on_from(&before);
    of_source(&mut next, Source::Http, &[]);
    next.want(&[web.clone(), f.clone()]);
    next.list(&["z/z-1/POD running", "z/z-1/app running"]);
    let ends = "z Running Unmanaged terminating";
    assert_eq!(next.shown(), format!("a Failed OutOfcpu, b Pending WaitingForRoom, {ends}"));
    next.gone("z");
    assert_eq!(next.shown(), "a Failed OutOfcpu, b Pending");
}

/// Regression: a pod that only waited for the end of others counted as one that had its room, after a drain.
#[test]
fn what_only_waited_for_room_never_had_it() {
    let (web, d, f) = (plain("b", 500), plain("d", 400), plain("a", 400));
    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::Http, &[]);
    rig.want(&[web.clone(), d.clone()]);
    rig.status(&web, "Running", false);
    rig.status(&d, "Running", false);
    rig.want(&[web.clone(), f.clone()]);
    assert_eq!(rig.shown(), "a Pending WaitingForRoom, b Running, d Running terminating");
    rig.handle(marker(1, Some(10)));
    rig.gone("b");
    rig.gone("d");
    rig.want(&[web, f, critical("z", 200)]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending, z Pending");
}

/// The version that runs has its room while a newer one waits for more.
#[test]
fn what_runs_has_its_room_while_a_newer_version_waits() {
    let (web, a, d) = (plain("b", 500), plain("a", 600), plain("d", 400));
    let larger = plain("b/b-2", 900);
    let mut rig = Rig::listed_with(one_behind());
    of_source(&mut rig, Source::Http, &[]);
    rig.want(&[web.clone(), d.clone()]);
    rig.status(&web, "Running", false);
    rig.status(&d, "Running", false);
    rig.want(&[web.clone(), d.clone(), a.clone()]);
    rig.want(&[larger.clone(), a.clone()]);
    let waits = rig.turn.entries.get(&key("b")).and_then(Entry::held).map(|held| held.why);
    assert_eq!(waits, Some(Why::Room), "{}", rig.shown());
    rig.handle(marker(1, Some(10)));
    rig.gone("b");
    rig.gone("d");
    rig.want(&[web, a]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending");
}
