//! The effect of garbage: it is collected before a pod is evicted, and no pod is evicted for garbage
//! that is not known yet.

use super::*;

/// `TestNodeReclaimFuncs`.
#[test]
fn garbage_goes_before_a_pod() {
    let mut scene = Scene::new(&[threshold(Signal::NodeFs, GI, Duration::ZERO, Some(500 * MI))]);
    scene.garbage = 15 * GI;
    assert_eq!(scene.look(Duration::ZERO, 16 * GI), (false, None));
    assert_eq!(scene.look(MINUTE, 900 * MI), (true, None), "collecting was enough");
    assert_eq!(scene.collections, 1);
    assert_eq!(scene.look(20 * MINUTE, 16 * GI), (false, None));
    // Not enough: the freed space does not reach the minimum.
    scene.garbage = 200 * MI;
    assert_eq!(scene.look(MINUTE, 900 * MI), (true, None), "more may become free");
    assert_eq!(scene.collections, 2);
    assert_eq!(scene.look(Duration::from_secs(10), 1100 * MI), (true, told(VICTIM, 1)));
    assert_eq!(scene.collections, 3, "what came since");
    // The garbage of the evicted pod is collected before the next eviction.
    scene.garbage = 15 * GI;
    assert_eq!(scene.look(MINUTE, 900 * MI), (true, None));
    assert_eq!(scene.collections, 4);
}

/// Regression: an image had been unused for a minute while a pod was evicted.
#[test]
fn garbage_that_came_since_goes_before_a_pod() {
    let mut manager = Scene::new(&[threshold(Signal::NodeFs, GI, Duration::ZERO, None)]).manager;
    let found = Observations::from([(Signal::NodeFs, Observation { available: 0, capacity: 2 * GI })]);
    let at = |seconds| Mono(Duration::from_secs(seconds));
    let act = |manager: &mut Manager, now| manager.look(&found, |_, _| End::Gone, now).act;
    assert!(matches!(act(&mut manager, at(0)), Act::Collect(_)));
    manager.collected(at(1));
    let Act::Measure(threshold) = act(&mut manager, at(1)) else { panic!("nothing is counted") };
    manager.measured(Signal::NodeFs);
    assert!(matches!(act(&mut manager, at(2)), Act::Evict(_)));
    let small = vec![pod("small", 0, 0, 1)];
    assert_eq!(manager.choose(&threshold, &found, small, at(2)), None, "its end would not help");
    assert!(manager.is_stuck(Signal::NodeFs), "which is told once");
    assert!(matches!(act(&mut manager, at(60)), Act::Nothing));
    assert!(manager.is_stuck(Signal::NodeFs), "it rests, and is not told again");
    // The next collection is not due yet when a pod has grown so much that it would be evicted.
    manager.stuck.insert(Signal::NodeFs, at(40));
    assert!(matches!(act(&mut manager, at(45)), Act::Measure(_)));
    manager.measured(Signal::NodeFs);
    assert!(matches!(act(&mut manager, at(46)), Act::Evict(_)));
    assert_eq!(manager.choose(&threshold, &found, pods(), at(46)), None);
    assert!(matches!(act(&mut manager, at(56)), Act::Collect(_)), "first");
    manager.collected(at(57));
    assert!(matches!(act(&mut manager, at(57)), Act::Measure(_)));
    manager.measured(Signal::NodeFs);
    assert!(
        matches!(act(&mut manager, at(110)), Act::Evict(_)),
        "a count that takes long does not begin again"
    );
    assert!(manager.choose(&threshold, &found, pods(), at(110)).is_some());
}

#[test]
fn garbage_elsewhere_is_left_alone() {
    let mut scene = Scene::new(&[threshold(Signal::NodeFs, GI, Duration::ZERO, None)]);
    scene.manager.set_dedicated(true);
    scene.garbage = 15 * GI;
    assert_eq!(scene.look(MINUTE, 200 * MI), (true, told(VICTIM, 1)));
    assert_eq!(scene.collections, 0);
}

#[test]
fn garbage_that_does_not_help_is_not_collected_at_every_look() {
    let disk = threshold(Signal::ImageFs, GI, Duration::ZERO, None);
    let mut manager = Manager::new(Settings { thresholds: vec![disk], ..Settings::none() });
    let found: Observations = [(Signal::ImageFs, Observation { available: 1, capacity: GI })].into();
    let mut acts = Vec::new();
    for seconds in (0..500).step_by(10) {
        let now = Mono(Duration::from_secs(seconds));
        let act = manager.look(&found, |_, _| End::Gone, now).act;
        if let Act::Collect(_) = act {
            acts.push(seconds);
            manager.collected(now);
        }
        if let Act::Measure(threshold) = act {
            manager.measured(threshold.signal);
            assert_eq!(manager.look(&found, |_, _| End::Gone, now).act, Act::Evict(threshold));
            let critical = vec![pod("critical", 2_000_000_000, 0, GI)];
            assert_eq!(manager.choose(&threshold, &found, critical, now), None);
        }
    }
    assert_eq!(acts, [0, 70, 200, 450], "less and less often");
}

#[test]
fn nobody_goes_while_it_is_not_known_what_is_garbage() {
    let disk = threshold(Signal::ImageFs, GI, Duration::ZERO, None);
    let mut manager = Manager::new(Settings { thresholds: vec![disk], ..Settings::none() });
    let found: Observations = [(Signal::ImageFs, Observation { available: 1, capacity: GI })].into();
    let look = |manager: &mut Manager, seconds: u64| {
        manager.look(&found, |_, _| End::Gone, Mono(Duration::from_secs(seconds))).act
    };
    assert_eq!(look(&mut manager, 0), Act::Collect(disk));
    manager.not_collected(Mono(Duration::from_secs(1)), limits::COLLECT_AGAIN);
    assert_eq!(look(&mut manager, 1), Act::Nothing);
    assert_eq!(look(&mut manager, 60), Act::Nothing);
    assert_eq!(look(&mut manager, 61), Act::Collect(disk), "Docker may answer again");
    // A collection that does not end does not delay evictions for ever.
    assert_eq!(look(&mut manager, 100), Act::Nothing);
    assert_eq!(look(&mut manager, 61 + 120), Act::Measure(disk));
}
