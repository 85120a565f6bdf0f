//! Who has its room again after a drain and a start of the daemon: who had it before.

use std::sync::Arc;

use super::super::drain::marker;
use super::super::evicted::eviction;
use super::super::preempted::critical;
use super::super::rig::{Rig, pod_of};
use super::super::sizes::{asks, small};
use crate::daemon::turn::Event;
use crate::pod::DesiredPod;
use crate::pod::after::AFTER;
use crate::status::snapshot::Snapshot;

/// Regression: after a drain, and at a start where nothing ran, a pod that had been refused came first by its name, and the one
/// that had had the room was refused for good. The same for one that waits for others, and keeps its room meanwhile.
#[test]
fn what_was_refused_takes_no_room_of_what_ran_or_waited() {
    let (refused, web) = (asks("a", "cpu: 1500m"), asks("web", "cpu: 1500m"));
    let waits = {
        let mut pod = DesiredPod::clone(&web);
        let notes = pod.metadata.annotations.get_or_insert_default();
        notes.insert(AFTER.to_owned(), "db=ready".to_owned());
        Arc::new(pod)
    };
    for (first, runs) in [(web, true), (waits, false)] {
        let both = [refused.clone(), first.clone()];
        let mut rig = Rig::with(small());
        rig.list(&[]);
        rig.want(std::slice::from_ref(&first));
        rig.want(&both);
        let reason = if runs { "" } else { " WaitingForPods" };
        let expected = format!("a Failed OutOfcpu, web Pending{reason}");
        assert_eq!(rig.shown(), expected);
        let before = rig.snapshot();
        rig.handle(marker(1, Some(10)));
        rig.gone("web");
        rig.handle(Event::Drain(None));
        assert_eq!(rig.shown(), expected);
        // Nothing of it runs any more when the next daemon begins.
        let mut next = Rig::with(small());
        next.goes_on_from(&before);
        next.want(&both);
        next.list(if runs { &["web/web-1/POD exited", "web/web-1/app exited"] } else { &[] });
        assert_eq!(next.shown(), expected);
        // Two daemons in a row on the drained node, which judge no pod.
        let drained = |before: &Snapshot| {
            let mut rig = Rig::with(small());
            rig.goes_on_from(before);
            rig.handle(marker(1, Some(10)));
            rig.list(&[]);
            rig.want(&both);
            assert_eq!(rig.shown(), "a Pending NodeShutdown, web Pending NodeShutdown");
            rig
        };
        let mut last = drained(&drained(&before).snapshot());
        last.handle(Event::Drain(None));
        assert_eq!(last.shown(), expected);
        // One that waits now, and was refused by an earlier daemon, has its room like others.
        let mut third = Rig::with(small());
        third.goes_on_from(&rejecting(&first).snapshot());
        third.list(&[]);
        third.want(std::slice::from_ref(&first));
        third.want(&both);
        assert_eq!(third.shown(), expected);
        third.handle(marker(1, Some(10)));
        third.gone("web");
        third.handle(Event::Drain(None));
        assert_eq!(third.shown(), expected);
        // Without the one before, the refused one has its turn.
        next.want(std::slice::from_ref(&refused));
        next.gone("web");
        assert_eq!(next.shown(), "a Pending");
        assert_eq!(next.snapshot().docker.without_room, Default::default());
    }
}

/// A daemon that has refused this pod for want of room.
fn rejecting(pod: &Arc<DesiredPod>) -> Rig {
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(&[asks("b", "cpu: 1500m")]);
    rig.want(&[asks("b", "cpu: 1500m"), Arc::clone(pod)]);
    assert!(rig.shown().contains("web Failed OutOfcpu"), "{}", rig.shown());
    rig
}

/// A node on which `web` runs, with these pods beside it, and which is drained then.
pub(super) fn drained(others: &[Arc<DesiredPod>]) -> Rig {
    let web = asks("web", "cpu: 1500m");
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.want(&[others, &[web]].concat());
    rig.handle(marker(1, Some(10)));
    rig.gone("web");
    rig
}

/// Regression: a pod that was refused, and edited while the node was drained, came first by its name; so did one that was
/// taken away and put back, and one that was new.
#[test]
fn what_comes_to_a_drained_node_takes_no_room_of_what_ran() {
    let (web, a) = (asks("web", "cpu: 1500m"), asks("a", "cpu: 1500m"));
    let refused = std::slice::from_ref(&a);
    let edited = |name: &str| asks(&format!("{name}/{name}-2"), "cpu: 1500m");
    type Pods<'a> = &'a [Arc<DesiredPod>];
    let sets: [(&str, Pods<'_>, &[Pods<'_>]); 4] = [
        ("edited", refused, &[&[edited("a"), web.clone()]]),
        ("put back", refused, &[std::slice::from_ref(&web), &[a.clone(), web.clone()]]),
        ("new", &[], &[&[a.clone(), web.clone()]]),
        ("both edited", refused, &[&[edited("a"), edited("web")]]),
    ];
    for (what, before, wanted) in sets {
        for daemons in 0..3 {
            let mut rig = drained(before);
            wanted.iter().for_each(|pods| _ = rig.want(pods));
            for _ in 0..daemons {
                let mut next = Rig::with(small());
                next.goes_on_from(&rig.snapshot());
                next.handle(marker(1, Some(10)));
                next.list(&[]);
                next.want(wanted[wanted.len() - 1]);
                rig = next;
            }
            rig.handle(Event::Drain(None));
            assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending", "{what}, {daemons} daemons");
        }
    }
}

/// Regression: on a drained node the critical pod went for which another had gone; the room was that of one that never ran.
#[test]
fn what_was_preempted_before_a_drain_returns_before_what_never_ran() {
    let (web, a, z) = (asks("web", "cpu: 1500m"), asks("a", "cpu: 1500m"), critical("z", 1500));
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.want(&[a.clone(), web.clone()]);
    rig.want(&[a.clone(), web.clone(), z.clone()]);
    rig.gone("web");
    rig.status(&z, "Running", false);
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Failed Preempting, z Running");
    rig.handle(marker(1, Some(10)));
    rig.gone("z");
    rig.want(&[a, web]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending");
}

/// Regression: a pod that was made smaller on a drained node runs so after it, and what needs its room was not judged again.
#[test]
fn what_fits_after_a_drain_is_judged_again() {
    let (web, a) = (asks("web", "cpu: 1500m"), asks("a", "cpu: 1500m"));
    let mut smaller = DesiredPod::clone(&web);
    smaller.spec = Arc::clone(&asks("web", "cpu: 500m").spec);
    let smaller = Arc::new(smaller);
    for daemons in 0..2 {
        let mut rig = drained(std::slice::from_ref(&a));
        let both = [a.clone(), smaller.clone()];
        rig.want(&both);
        if daemons > 0 {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.handle(marker(1, Some(10)));
            next.list(&[]);
            next.want(&both);
            rig = next;
        }
        rig.handle(Event::Drain(None));
        assert_eq!(rig.shown(), "a Pending, web Pending", "{daemons} daemons");
    }
}

/// Regression: a name that had gone while no daemon ran kept its room for what came under it later.
#[test]
fn what_no_source_tells_any_more_has_no_room() {
    let (a, web) = (asks("a", "cpu: 1500m"), asks("web", "cpu: 1500m"));
    let mut before = Rig::with(small());
    before.list(&[]);
    before.want(std::slice::from_ref(&a));
    let mut rig = Rig::with(small());
    rig.goes_on_from(&before.snapshot());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.handle(marker(1, Some(10)));
    rig.gone("web");
    rig.want(&[a, web]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending");
}

/// Regression: a job that had ended, and was edited on a drained node, took the room of what ran.
#[test]
fn what_had_ended_had_no_room() {
    let job = |uid: &str| {
        let spec = "{restartPolicy: Never, containers: [{name: app, resources: {requests: {cpu: 1500m}}}]}";
        pod_of(&format!("a/{uid}"), spec)
    };
    let web = asks("web", "cpu: 1500m");
    for daemons in 0..2 {
        let mut rig = Rig::with(small());
        rig.list(&[]);
        rig.want(&[job("a-1")]);
        rig.status(&job("a-1"), "Succeeded", false);
        rig.want(&[job("a-1"), web.clone()]);
        rig.status(&web, "Running", false);
        assert_eq!(rig.shown(), "a Succeeded, web Running");
        rig.handle(marker(1, Some(10)));
        rig.gone("web");
        rig.want(&[job("a-2"), web.clone()]);
        if daemons > 0 {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.handle(marker(1, Some(10)));
            next.list(&[]);
            next.want(&[job("a-2"), web.clone()]);
            rig = next;
        }
        rig.handle(Event::Drain(None));
        assert!(rig.shown().ends_with("web Pending"), "{daemons} daemons: {}", rig.shown());
    }
}

/// Regression: a pod that had been evicted for its own limits, and was edited on a drained node, took the room of what had
/// run since.
#[test]
fn what_was_evicted_for_its_own_limits_has_left_its_room() {
    let (a, web) = (asks("a", "cpu: 1500m"), asks("web", "cpu: 1500m"));
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&a));
    rig.status(&a, "Running", false);
    rig.handle(eviction("a", "a-1", false));
    rig.gone("a");
    rig.want(&[a.clone(), web.clone()]);
    rig.status(&web, "Running", false);
    assert_eq!(rig.shown(), "a Failed Evicted, web Running");
    rig.handle(marker(1, Some(10)));
    rig.gone("web");
    rig.want(&[asks("a/a-2", "cpu: 1500m"), web]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending");
}

/// Regression: a pod that found no room after a drain, for a critical one had come, or that was edited while a critical one
/// had its room, was refused like those that never ran, and one of these came first when there was room again.
#[test]
fn what_a_critical_pod_keeps_out_is_judged_first_when_that_goes() {
    let (web, a, z) = (asks("web", "cpu: 1500m"), asks("a", "cpu: 1500m"), critical("z", 1500));
    let refused = "a Failed OutOfcpu, web Failed OutOfcpu, z Pending";
    // It came to the drained node.
    let mut rig = drained(std::slice::from_ref(&a));
    rig.want(&[a.clone(), web.clone(), z.clone()]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), refused);
    rig.want(&[a.clone(), web.clone()]);
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending");
    // It took the room, and the other was edited then.
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.want(&[a.clone(), web.clone(), z.clone()]);
    rig.gone("web");
    let edited = asks("web/web-2", "cpu: 1500m");
    rig.want(&[a.clone(), edited.clone(), z.clone()]);
    assert_eq!(rig.shown(), refused);
    rig.want(&[a.clone(), edited]);
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending");
    // The same over other daemons, over another drain, and for a port.
    for daemons in 0..3 {
        let mut rig = drained(std::slice::from_ref(&a));
        rig.want(&[a.clone(), web.clone(), z.clone()]);
        rig.handle(Event::Drain(None));
        for _ in 0..daemons {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.list(&[]);
            next.want(&[a.clone(), web.clone(), z.clone()]);
            assert_eq!(next.shown(), refused, "{daemons} daemons");
            rig = next;
        }
        rig.handle(marker(1, Some(10)));
        rig.gone("z");
        rig.want(&[a.clone(), web.clone()]);
        rig.handle(Event::Drain(None));
        assert_eq!(rig.shown(), "a Failed OutOfcpu, web Pending", "{daemons} daemons");
    }
    let spec_with_port = |name: &str, more: &str| {
        let port = "ports: [{containerPort: 80, hostPort: 8080}]";
        pod_of(name, &format!("{{{more}containers: [{{name: app, {port}}}]}}"))
    };
    let [a_port, web_port] = ["a", "web"].map(|name| spec_with_port(name, ""));
    let z_port = spec_with_port("z", "priorityClassName: system-node-critical, ");
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web_port));
    rig.status(&web_port, "Running", false);
    rig.want(&[a_port.clone(), web_port.clone()]);
    rig.handle(marker(1, Some(10)));
    rig.gone("web");
    rig.want(&[a_port.clone(), web_port.clone(), z_port]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "a Failed NodePorts, web Failed NodePorts, z Pending");
    rig.want(&[a_port, web_port]);
    rig.gone("z");
    assert_eq!(rig.shown(), "a Failed NodePorts, web Pending");
    // What has run since another drain comes before it.
    let mut rig = drained(std::slice::from_ref(&a));
    rig.want(&[web.clone(), z.clone(), asks("b", "cpu: 200m")]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "b Pending, web Failed OutOfcpu, z Pending");
    rig.handle(marker(1, Some(10)));
    assert!(rig.turn.room(&web) < rig.turn.room(&z) && !rig.turn.room(&a).was_had());
}

/// Regression: a preempted pod came before what had run since, when the daemon was started anew on a drained node.
#[test]
fn what_was_preempted_comes_after_what_ran_since() {
    let (a, f, z) = (asks("a", "cpu: 1500m"), asks("f", "cpu: 1200m"), critical("z", 800));
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&a));
    rig.status(&a, "Running", false);
    rig.want(&[a.clone(), z.clone()]);
    rig.gone("a");
    rig.status(&z, "Running", false);
    rig.want(&[a.clone(), z, f.clone()]);
    rig.status(&f, "Running", false);
    assert_eq!(rig.shown(), "a Failed Preempting, f Running, z Running");
    rig.handle(marker(1, Some(10)));
    rig.gone("f");
    rig.gone("z");
    for _ in 0..2 {
        let mut next = Rig::with(small());
        next.goes_on_from(&rig.snapshot());
        next.handle(marker(1, Some(10)));
        next.list(&[]);
        next.want(&[a.clone(), f.clone()]);
        rig = next;
    }
    rig.handle(Event::Drain(None));
    assert!(rig.shown().ends_with("f Pending"), "{}", rig.shown());
}
