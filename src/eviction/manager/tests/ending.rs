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
        scene.manager.look(&found, |key, uid| gone && key.name == VICTIM && uid == VICTIM, at).act
    };
    assert_eq!(look(10, false), Act::Nothing);
    assert_eq!(look(29, false), Act::Nothing);
    assert_eq!(look(30, false), Act::Ask, "it was waited for long enough, unless Docker stands still");
    assert_eq!(look(31, false), Act::Nothing, "Docker is being asked");
    scene.manager.asked(Some(QUICK), scene.now.after(Duration::from_secs(32)));
    let at = scene.now.after(Duration::from_secs(32));
    assert_eq!(scene.manager.look(&scene.found(), |_, _| false, at).act, Act::Evict(hard));
    let next = "burstable-above-requests";
    assert_eq!(
        scene.look(Duration::ZERO, 100 * MI),
        (true, told(next, 1)),
        "the one that did not go is no longer first"
    );
    let at = scene.now.after(Duration::from_secs(2));
    assert_eq!(scene.manager.look(&scene.found(), |_, _| true, at).act, Act::Evict(hard));
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
    let act = |scene: &mut Scene, seconds: u64| scene.manager.look(&found, |_, _| false, at(seconds)).act;
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
    assert_eq!(act(&mut scene, 662), Act::Evict(hard), "it hangs by itself");
}

#[test]
fn a_pod_that_goes_as_soon_as_docker_is_back_needs_no_other() {
    let hard = threshold(Signal::Memory, GI, Duration::ZERO, None);
    let mut scene = Scene::new(&[hard]);
    assert_eq!(scene.look(MINUTE, 100 * MI), (true, told(VICTIM, 1)));
    let later = scene.now.after(limits::EVICTION_PATIENCE);
    assert_eq!(scene.manager.look(&scene.found(), |_, _| false, later).act, Act::Ask);
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
            match scene.manager.look(&scene.found(), |_, _| false, now).act {
                Act::Nothing => now = now.after(Duration::from_secs(1)),
                Act::Ask => {
                    now = now.after(took);
                    scene.manager.asked(Some(took), now);
                }
                act => {
                    assert_eq!(act, Act::Evict(hard));
                    return now.since(begun).as_secs();
                }
            }
            assert!(now.since(begun) < 10 * MINUTE, "it is awaited for ever");
        }
    };
    assert_eq!([QUICK, Duration::from_secs(1)].map(awaited), [30, 31]);
    assert_eq!([2, 5, 9, 60].map(|took| awaited(Duration::from_secs(took))), [42, 105, 189, 360]);
}
