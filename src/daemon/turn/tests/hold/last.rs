//! Of several pods that had room, whose it is again: who had it last, and is as it was then.

use std::sync::Arc;

use super::super::drain::marker;
use super::super::preempted::critical;
use super::super::rig::{Rig, key, with_port};
use super::super::sizes::{asks, shaped, small};
use super::rooms::drained;
use crate::daemon::turn::Event;
use crate::pod::DesiredPod;
use crate::pod::after::AFTER;

/// Regression: a pod that was edited on a drained node, and needed more than before or a port that another had, took the room
/// of that one, which was as it had been.
#[test]
fn what_is_as_it_was_comes_before_what_was_edited() {
    let sets = [
        ("OutOfcpu", asks("a", "cpu: 500m"), asks("a/a-2", "cpu: 1500m"), asks("web", "cpu: 1200m")),
        ("NodePorts", with_port("a", 8081), with_port("a/a-2", 8080), with_port("web", 8080)),
        // With a UID of its own, which an edit keeps.
        ("NodePorts", with_port("a", 8081), with_port("a", 8080), with_port("web", 8080)),
    ];
    for (reason, a, edited, web) in sets {
        for daemons in 0..4 {
            let mut rig = Rig::with(small());
            rig.list(&[]);
            rig.want(&[a.clone(), web.clone()]);
            rig.status(&a, "Running", false);
            rig.status(&web, "Running", false);
            // The last one: nothing of it runs when a daemon begins, as after a loss of power.
            let is_boot = daemons == 3;
            if !is_boot {
                rig.handle(marker(1, Some(10)));
                rig.gone("a");
                rig.gone("web");
                rig.want(&[edited.clone(), web.clone()]);
            }
            for _ in 0..daemons.min(2) {
                let mut next = Rig::with(small());
                next.goes_on_from(&rig.snapshot());
                if !is_boot {
                    next.handle(marker(1, Some(10)));
                }
                next.want(&[edited.clone(), web.clone()]);
                next.list(&[]);
                rig = next;
            }
            rig.handle(Event::Drain(None));
            assert_eq!(rig.shown(), format!("a Failed {reason}, web Pending"), "{daemons} daemons");
            // As it was it fits, and so it does again.
            rig.want(&[a.clone(), web.clone()]);
            assert_eq!(rig.shown(), "a Pending, web Pending", "{daemons} daemons");
        }
    }
}

/// Regression: a pod that waited, or had been refused after a drain, and of which only the sizes changed meanwhile, kept its
/// room with the larger ones, and one that was as it had been was refused for it.
#[test]
fn larger_sizes_of_what_does_not_run_have_no_room_of_others() {
    let (b, z) = (asks("b", "cpu: 1200m"), critical("z", 1950));
    let waiting = |requests: &str| {
        let mut pod = DesiredPod::clone(&shaped("a", requests));
        let notes = pod.metadata.annotations.get_or_insert_default();
        notes.insert(AFTER.to_owned(), "db=ready".to_owned());
        Arc::new(pod)
    };
    let [a, larger] = ["cpu: 100m", "cpu: 1200m"].map(waiting);
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(&[a, b.clone()]);
    rig.status(&b, "Running", false);
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Running");
    rig.handle(marker(1, Some(10)));
    rig.gone("b");
    rig.want(&[larger, b.clone()]);
    rig.handle(Event::Drain(None));
    assert!(rig.shown().ends_with("b Pending"), "{}", rig.shown());
    let [a, larger] = ["cpu: 100m", "cpu: 1200m"].map(|requests| shaped("a", requests));
    for daemons in 0..2 {
        let mut rig = Rig::with(small());
        rig.list(&[]);
        rig.want(&[a.clone(), b.clone()]);
        rig.status(&a, "Running", false);
        rig.status(&b, "Running", false);
        rig.handle(marker(1, Some(10)));
        rig.gone("a");
        rig.gone("b");
        rig.want(&[a.clone(), b.clone(), z.clone()]);
        rig.handle(Event::Drain(None));
        rig.want(&[larger.clone(), b.clone(), z.clone()]);
        for _ in 0..daemons {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.want(&[larger.clone(), b.clone(), z.clone()]);
            next.list(&[]);
            rig = next;
        }
        assert_eq!(rig.shown(), "a Failed OutOfcpu, b Failed OutOfcpu, z Pending", "{daemons} daemons");
        rig.want(&[larger.clone(), b.clone()]);
        rig.gone("z");
        assert!(rig.shown().ends_with("b Pending"), "{daemons} daemons: {}", rig.shown());
    }
}

/// Regression: when a critical pod went, what it had preempted came first, also before what had run since.
#[test]
fn what_had_its_room_last_comes_before_what_was_preempted_earlier() {
    let (web, c) = (asks("b", "cpu: 1200m"), asks("c", "cpu: 900m"));
    let [z, larger] = [("z", 1000), ("z/z-2", 1900)].map(|(name, cpu)| critical(name, cpu));
    let mut rig = Rig::with(small());
    rig.list(&[]);
    rig.want(std::slice::from_ref(&web));
    rig.status(&web, "Running", false);
    rig.want(&[web.clone(), z.clone()]);
    rig.gone("b");
    rig.status(&z, "Running", false);
    rig.want(&[web.clone(), z, c.clone()]);
    rig.status(&c, "Running", false);
    assert_eq!(rig.shown(), "b Failed Preempting, c Running, z Running");
    rig.handle(marker(1, Some(10)));
    rig.gone("c");
    rig.gone("z");
    rig.want(&[web.clone(), larger, c.clone()]);
    rig.handle(Event::Drain(None));
    assert_eq!(rig.shown(), "b Failed Preempting, c Failed OutOfcpu, z Pending");
    rig.want(&[web, c]);
    rig.gone("z");
    assert_eq!(rig.shown(), "b Failed Preempting, c Pending");
}

/// Regression: a pod that had room, and of which only the sizes were made smaller, lost it after a drain to one that never ran,
/// when its old sizes did not fit any more.
#[test]
fn smaller_sizes_have_their_room_before_what_never_ran() {
    let [web, smaller] = ["cpu: 1200m", "cpu: 500m"].map(|requests| shaped("b", requests));
    let (a, z) = (asks("a", "cpu: 1000m"), critical("z", 1000));
    for daemons in 0..3 {
        let mut rig = Rig::with(small());
        rig.list(&[]);
        rig.want(std::slice::from_ref(&web));
        rig.status(&web, "Running", false);
        rig.want(&[a.clone(), web.clone()]);
        rig.handle(marker(1, Some(10)));
        rig.gone("b");
        let wanted = [a.clone(), smaller.clone(), z.clone()];
        rig.want(&wanted);
        for _ in 0..daemons {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.handle(marker(1, Some(10)));
            next.list(&[]);
            next.want(&wanted);
            rig = next;
        }
        rig.handle(Event::Drain(None));
        assert_eq!(rig.shown(), "a Failed OutOfcpu, b Pending, z Pending", "{daemons} daemons");
    }
}

/// Regression: sizes that waited for room had it before a preempted pod returned, over a start of the daemon and a drain.
#[test]
fn what_was_preempted_returns_before_sizes_that_wait() {
    let (a, z) = (asks("a", "cpu: 850m"), critical("z", 1000));
    let [b, larger] = ["cpu: 900m", "cpu: 1500m"].map(|requests| shaped("b", requests));
    for is_drained in [false, true] {
        let mut rig = Rig::with(small());
        rig.list(&[]);
        rig.want(&[a.clone(), b.clone()]);
        rig.status(&a, "Running", false);
        rig.status(&b, "Running", false);
        rig.want(&[a.clone(), b.clone(), z.clone()]);
        rig.gone("a");
        rig.status(&z, "Running", false);
        let wanted = [a.clone(), larger.clone(), z.clone()];
        rig.want(&wanted);
        let shown = "a Failed Preempting, b Running, z Running";
        assert_eq!(rig.shown(), shown);
        if is_drained {
            rig.handle(marker(1, Some(10)));
            rig.gone("b");
            rig.gone("z");
            rig.handle(Event::Drain(None));
        } else {
            let mut next = Rig::with(small());
            next.goes_on_from(&rig.snapshot());
            next.list(&["b/b-1/POD running", "b/b-1/app running", "z/z-1/POD running", "z/z-1/app running"]);
            next.want(&wanted);
            rig = next;
        }
        rig.want(&[a.clone(), larger.clone()]);
        rig.gone("z");
        let cpu = |name: &str| {
            let entry = rig.turn.entries.get(&key(name))?;
            entry.desired.as_ref().map(|pod| crate::pod::requests::request(&pod.spec, "cpu"))
        };
        assert_eq!((cpu("a"), cpu("b")), (Some(850), Some(900)), "drained: {is_drained}: {}", rig.shown());
    }
}

/// Regression: a number in the status file stopped each daemon. And numbers do not grow from daemon to daemon.
#[test]
fn any_number_of_a_period_is_taken() {
    let (web, a) = (asks("web", "cpu: 1500m"), asks("a", "cpu: 1500m"));
    for number in [1, 2, 3, u32::MAX - 2, u32::MAX - 1, u32::MAX] {
        let mut before = drained(std::slice::from_ref(&a)).snapshot();
        let known = std::mem::take(&mut before.docker.without_room);
        assert_eq!(known.values().copied().collect::<Vec<_>>(), [0, 2], "{known:?}");
        before.docker.without_room = known.iter().map(|(key, _)| (key.clone(), number)).collect();
        before.docker.without_room.insert("default/gone".to_owned(), number - 1);
        let mut rig = Rig::with(small());
        rig.goes_on_from(&before);
        rig.handle(marker(1, Some(10)));
        rig.list(&[]);
        rig.want(&[a.clone(), web.clone()]);
        let told = rig.snapshot().docker.without_room;
        assert!(told.values().all(|told| *told <= 2), "{number}: {told:?}");
    }
}
