//! The end of an evicted pod, and a Docker that hangs meanwhile.

use super::*;

const QUICK: Duration = Duration::from_millis(20);

#[test]
fn one_pod_goes_and_its_end_is_awaited() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let mut look = |after: u64, gone: bool| {
        let at = scene.now.after(Duration::from_secs(after));
        let found = scene.found();
        scene
            .manager
            .look(
                &found,
                |of, uid| {
                    assert_eq!((of, uid), (Pressure::Memory, VICTIM));
                    if gone { End::Gone } else { End::Goes(0) }
                },
                at,
            )
            .act
    };
    assert_eq!(look(10, false), Act::Nothing);
    assert_eq!(look(29, false), Act::Nothing);
    assert_eq!(look(30, false), Act::Ask, "it was waited for long enough, unless Docker stands still");
    assert_eq!(look(31, false), Act::Nothing, "Docker is being asked");
    scene.manager.asked(Some(QUICK), scene.now.after(Duration::from_secs(32)));
    let mut look = |after: u64| {
        let at = scene.now.after(Duration::from_secs(after));
        scene.manager.look(&scene.found(), |_, _| End::Goes(0), at).act
    };
    assert_eq!(look(32), Act::Kill(Pressure::Memory), "Docker answers, and does not stop it");
    assert_eq!(look(61), Act::Nothing, "it has its time once more");
    assert_eq!(look(62), Act::Evict(hard));
    scene.now = scene.now.after(Duration::from_secs(62));
    let next = "burstable-above-requests";
    assert_eq!(
        scene.look(Duration::ZERO, 100 * MI),
        (true, told(next, 1)),
        "the one that did not go is no longer first"
    );
    let at = scene.now.after(Duration::from_secs(2));
    assert_eq!(scene.manager.look(&scene.found(), |_, _| End::Gone, at).act, Act::Evict(hard));
}

/// Regression: while Docker hung, one pod after the other was evicted, one each half minute.
#[test]
fn while_docker_stands_still_nobody_goes_in_place_of_one_that_cannot_be_stopped() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let begun = scene.now;
    let found = scene.found();
    let falls = crate::eviction::cadence::Falls::default();
    let at = |seconds: u64| begun.after(Duration::from_secs(seconds));
    let act =
        |scene: &mut Scene, seconds: u64| scene.manager.look(&found, |_, _| End::Goes(0), at(seconds)).act;
    for begun in (0..600).step_by(40) {
        assert_eq!(act(&mut scene, begun + 29), Act::Nothing);
        assert_eq!(act(&mut scene, begun + 30), Act::Ask);
        assert_eq!(act(&mut scene, begun + 39), Act::Nothing);
        scene.manager.asked(None, at(begun + 40));
        assert!(scene.manager.waits_for_docker());
        let rest = scene.manager.rest(&[hard], &found, &falls, at(begun + 40));
        assert_eq!(rest, Some(limits::EVICTION_NEAR), "nothing is to be seen soon");
    }
    // Docker comes back, and stops the pod only now.
    assert_eq!(act(&mut scene, 630), Act::Ask);
    scene.manager.asked(Some(QUICK), at(631));
    assert!(!scene.manager.waits_for_docker());
    assert_eq!(act(&mut scene, 660), Act::Nothing, "its end has its time");
    assert_eq!(act(&mut scene, 661), Act::Ask);
    scene.manager.asked(Some(QUICK), at(662));
    assert_eq!(act(&mut scene, 662), Act::Kill(Pressure::Memory), "it hangs by itself");
    assert_eq!(act(&mut scene, 692), Act::Evict(hard));
}

#[test]
fn a_pod_that_goes_as_soon_as_docker_is_back_needs_no_other() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let later = scene.now.after(limits::EVICTION_PATIENCE);
    assert_eq!(scene.manager.look(&scene.found(), |_, _| End::Goes(0), later).act, Act::Ask);
    scene.manager.asked(None, later);
    assert_eq!(scene.look(Duration::from_secs(31), 2 * GI), (true, None));
    assert!(!scene.manager.waits_for_docker());
}

/// A Docker that took 5 s for each call needed a minute to stop the pod, and after half of it an innocent pod was evicted.
#[test]
fn where_each_call_takes_seconds_the_end_of_a_pod_is_awaited_for_longer() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    // How long the end of a pod is awaited that does not end.
    let awaited = |took: Duration| {
        let mut scene = Scene::new(&[hard]);
        assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
        let (begun, mut now) = (scene.now, scene.now);
        loop {
            match scene.manager.look(&scene.found(), |_, _| End::Goes(0), now).act {
                Act::Nothing => now = now.after(Duration::from_secs(1)),
                Act::Ask => {
                    now = now.after(took);
                    scene.manager.asked(Some(took), now);
                }
                act => {
                    assert_eq!(act, Act::Kill(Pressure::Memory));
                    return now.since(begun).as_secs();
                }
            }
            assert!(now.since(begun) < 10 * MINUTE, "it is awaited for ever");
        }
    };
    assert_eq!([QUICK, Duration::from_secs(1)].map(awaited), [30, 31]);
    assert_eq!([2, 5, 9, 60].map(|took| awaited(Duration::from_secs(took))), [42, 105, 189, 360]);
}

/// How long, in seconds, the end of a pod of a full disk is awaited that gets on every `every` seconds, `times` times.
/// Docker answers at once.
fn awaited_while_it_gets_on(every: u64, times: u64) -> u64 {
    let hard = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    scene.manager.set_dedicated(true);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    for after in 1..1000 {
        let now = scene.now.after(Duration::from_secs(after));
        let steps = (after / every).min(times);
        match scene.manager.look(&scene.found(), |_, _| End::Goes(steps), now).act {
            Act::Nothing => {}
            Act::Ask => scene.manager.asked(Some(QUICK), now),
            act => {
                assert_eq!(act, Act::Kill(Pressure::Disk));
                return after;
            }
        }
    }
    panic!("it is awaited for ever");
}

/// Regression: while 790,000 links of one file were removed from a volume, no byte was freed, and an innocent pod was
/// evicted; another one went while Docker, which lists at once, took 9.5 s for each call that stopped the pod.
#[test]
fn while_the_end_of_a_pod_gets_on_nobody_goes_in_its_place() {
    assert_eq!(awaited_while_it_gets_on(1, 0), 31, "it does not get on");
    assert_eq!(awaited_while_it_gets_on(1, 100), 131);
    assert_eq!(awaited_while_it_gets_on(10, 6), 91);
    assert_eq!(awaited_while_it_gets_on(29, 1000), 301, "that is bounded");
    assert_eq!(awaited_while_it_gets_on(31, 1000), 61, "it gets on too slowly");
}

/// Regression: memory ran out while the files of a pod were removed that had filled a disk.
#[test]
fn the_end_of_a_pod_that_filled_a_disk_keeps_no_other_resource_waiting() {
    let disk = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let memory = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut manager = Manager::new(Settings { thresholds: vec![disk, memory], ..Settings::none() });
    manager.set_dedicated(true);
    let (short, enough) =
        (Observation { available: 1, capacity: GI }, Observation { available: GI, capacity: GI });
    let mut found: Observations = [(Signal::NodeFs, short), (Signal::Memory, enough)].into();
    let at = |seconds| Mono(Duration::from_secs(seconds));
    assert_eq!(manager.choose(&disk, &found, vec![pod("a", 0, 0, GI)], at(0)).unwrap().uid, "a");
    assert!(!manager.awaits(Signal::ImageFs, ("z", true), &[], at(1)), "one for a resource");
    found.insert(Signal::Memory, short);
    let mut look = |seconds, found: &Observations| {
        manager
            .look(found, |of, _| End::Goes(if of == Pressure::Disk { seconds } else { 0 }), at(seconds))
            .act
    };
    assert_eq!(look(1, &found), Act::Evict(memory));
    manager.choose(&memory, &found, vec![pod("b", 0, 0, GI)], at(1)).unwrap();
    let mut look = |seconds, found: &Observations| {
        manager
            .look(found, |of, _| End::Goes(if of == Pressure::Disk { seconds } else { 0 }), at(seconds))
            .act
    };
    assert_eq!(look(30, &found), Act::Nothing, "each is awaited");
    assert_eq!(look(31, &found), Act::Ask, "the second does not get on");
    manager.asked(Some(QUICK), at(31));
    let memory_gone = |of: Pressure, _: &str| if of == Pressure::Disk { End::Goes(99) } else { End::Gone };
    assert_eq!(manager.look(&found, memory_gone, at(32)).act, Act::Evict(memory));
    found.insert(Signal::Memory, enough);
    assert_eq!(manager.look(&found, memory_gone, at(33)).act, Act::Nothing, "the disk waits still");
}

/// Docker was silent every other time, and no pod was evicted for hours.
#[test]
fn a_docker_that_is_silent_again_and_again_is_not_waited_for_without_end() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let mut asked = 0_u32;
    for after in 1..3600 {
        let now = scene.now.after(Duration::from_secs(after));
        match scene.manager.look(&scene.found(), |_, _| End::Goes(0), now).act {
            Act::Nothing => {}
            Act::Ask => {
                asked += 1;
                scene.manager.asked(asked.is_multiple_of(2).then_some(QUICK), now);
            }
            act => {
                assert_eq!(act, Act::Kill(Pressure::Memory));
                assert!((300..500).contains(&after), "{after}");
                return;
            }
        }
    }
    panic!("it is awaited for ever");
}

/// Regression: in place of a pod that Docker did not stop, one innocent pod was evicted each quarter of a minute.
#[test]
fn in_place_of_a_pod_that_has_all_that_is_missing_others_go_slowly() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let found: Observations = [(Signal::Memory, Observation { available: 1, capacity: 8 * GI })].into();
    let evictions = |used: u64| {
        let mut manager = Manager::new(Settings { thresholds: vec![hard], ..Settings::none() });
        let (mut pods, mut gone) = (vec![pod("hog", -1, 0, used), pod("a", 0, 0, GI)], Vec::new());
        pods.extend([pod("b", 1, 0, GI), pod("c", 2, 0, GI)]);
        for seconds in 0..150 {
            let now = Mono(Duration::from_secs(seconds));
            let end = |_: Pressure, uid: &str| if uid == "hog" { End::Goes(0) } else { End::Gone };
            match manager.look(&found, end, now).act {
                Act::Ask => manager.asked(Some(QUICK), now),
                Act::Evict(_) => {
                    let uid = manager.choose(&hard, &found, pods.clone(), now).unwrap().uid;
                    pods.retain(|pod| pod.uid != uid);
                    gone.push((uid, seconds));
                }
                _ => {}
            }
            if pods.is_empty() {
                break;
            }
        }
        gone.into_iter().map(|(_, seconds)| seconds).collect::<Vec<_>>()
    };
    assert_eq!(evictions(2 * GI), [0, 61, 91, 121]);
    assert_eq!(evictions(GI / 2), [0, 61, 62, 63], "it has too little");
}

#[test]
fn a_pod_of_which_nothing_runs_is_not_awaited_once_more() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let at = scene.now.after(limits::EVICTION_PATIENCE);
    let look = |scene: &mut Scene| scene.manager.look(&scene.found(), |_, _| End::Goes(0), at).act;
    assert_eq!(look(&mut scene), Act::Ask);
    scene.manager.asked(Some(QUICK), at);
    assert_eq!(look(&mut scene), Act::Kill(Pressure::Memory));
    scene.manager.killed_nothing(Pressure::Memory);
    assert_eq!(look(&mut scene), Act::Evict(hard));
}

/// Regression: four pods that were evicted for their own limits, each with a slow removal, were awaited one after the
/// other, and the pod of their source that filled the disk meanwhile stayed.
#[test]
fn pods_that_end_slowly_shield_the_one_that_fills_a_disk_for_a_short_time_only() {
    let hard = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let found: Observations = [(Signal::NodeFs, Observation { available: 1, capacity: 8 * GI })].into();
    // When the first pod is evicted, whichever others are awaited.
    let first = |pods: &[Candidate]| {
        let mut manager = Manager::new(Settings { thresholds: vec![hard], ..Settings::none() });
        manager.set_dedicated(true);
        for seconds in 0..2000 {
            let now = Mono(Duration::from_secs(seconds));
            match manager.look(&found, |_, _| End::Goes(seconds), now).act {
                Act::Measure(of) => manager.measured(of.signal),
                Act::Evict(_)
                    if (0..4)
                        .any(|n| manager.awaits(Signal::NodeFs, (&format!("own{n}"), true), pods, now)) => {}
                Act::Evict(_) => {
                    let uid = manager.choose(&hard, &found, pods.to_vec(), now).unwrap().uid;
                    return (uid, seconds);
                }
                Act::Ask => manager.asked(Some(QUICK), now),
                _ => {}
            }
        }
        panic!("none is evicted");
    };
    let innocent = pod("innocent", 0, 0, 2 * GI);
    assert_eq!(first(std::slice::from_ref(&innocent)), ("innocent".to_owned(), 302), "all of them together");
    let filler = Candidate { goes_first: true, ..pod("filler", 0, 0, 2 * GI) };
    assert_eq!(first(&[innocent, filler]), ("filler".to_owned(), 32));
}

/// Regression: five pods that had ended and whose files could not be removed shielded the pod that filled the disk, one after
/// the other.
#[test]
fn after_one_whose_files_cannot_be_removed_only_those_are_awaited_that_get_on() {
    let hard = threshold(Signal::NodeFs, GI, Duration::ZERO, None);
    let found: Observations = [(Signal::NodeFs, Observation { available: 1, capacity: 8 * GI })].into();
    let pods = [pod("filler", 0, 0, 2 * GI)];
    // The last of them gets on, and ends.
    let evicted = |gets_on: bool| {
        let mut manager = Manager::new(Settings { thresholds: vec![hard], ..Settings::none() });
        manager.set_dedicated(true);
        for seconds in 0..2000 {
            let now = Mono(Duration::from_secs(seconds));
            let end = |_: Pressure, uid: &str| match uid {
                "own4" if seconds > 100 => End::Gone,
                "own4" => End::Goes(seconds),
                _ => End::Goes(0),
            };
            let awaits = |manager: &mut Manager| {
                let gets_on = |n: u64| n == 4 && gets_on;
                (0..5).any(|n| manager.awaits(Signal::NodeFs, (&format!("own{n}"), gets_on(n)), &pods, now))
            };
            match manager.look(&found, end, now).act {
                Act::Measure(of) => manager.measured(of.signal),
                Act::Evict(_) if seconds < 101 && awaits(&mut manager) => {}
                Act::Evict(_) => return seconds,
                Act::Ask => manager.asked(Some(QUICK), now),
                _ => {}
            }
        }
        panic!("none is evicted");
    };
    assert!((30..50).contains(&evicted(false)), "{}", evicted(false));
    assert!((100..120).contains(&evicted(true)), "{}", evicted(true));
}
