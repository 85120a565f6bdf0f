//! The mind's orders, look after look.

use super::*;
use crate::eviction::manager::Observation;

fn at(seconds: u64) -> Mono {
    Mono(Duration::from_secs(seconds))
}

fn mind() -> Mind {
    let value = Amount::Part(10_000);
    let threshold = Threshold { signal: Signal::NodeFs, value, grace: Duration::ZERO, reclaim: None };
    Mind::new(Settings { thresholds: vec![threshold], ..Settings::none() }, Some(Policy::default()))
}

fn seen(available: u64) -> Seen {
    let disk = Observation { available, capacity: 1000 };
    Seen {
        found: [(Signal::NodeFs, disk), (Signal::ImageFs, disk)].into(),
        images: Some(Disk { capacity: 1000, available }),
        dedicated: false,
    }
}

fn orders(deeds: &[Deed]) -> Vec<&Deed> {
    deeds.iter().filter(|deed| !matches!(deed, Deed::Tell(_))).collect()
}

#[test]
fn one_run_of_the_collector_follows_the_other() {
    let mut mind = mind();
    let gone = |_: &PodKey, _: &str| true;
    assert_eq!(mind.look(&seen(900), gone, at(0)), [Deed::Collect(Order::Old)], "ages begin");
    let waits = mind.look(&seen(50), gone, at(60));
    assert_eq!(orders(&waits), [&Deed::GiveWay], "the first run is not over");
    assert_eq!(mind.look(&seen(50), gone, at(60)), [], "it was told");
    assert_eq!(mind.collected(&Report::default(), at(61)), []);
    assert_eq!(orders(&mind.look(&seen(50), gone, at(70))), [&Deed::Collect(Order::All)]);
    mind.collected(&Report::default(), at(71));
    let more = mind.look(&seen(50), gone, at(80));
    assert!(matches!(orders(&more)[..], [Deed::Collect(Order::Free(_))]), "{more:?}");
    assert_eq!(
        mind.look(&seen(50), gone, at(80)),
        [],
        "what is being freed may be enough for all pods to stay"
    );
    mind.collected(&Report::default(), at(81));
    let counts = mind.look(&seen(50), gone, at(81));
    assert!(matches!(counts[..], [Deed::Measure(_)]), "{counts:?}");
    assert_eq!(mind.counts(Signal::NodeFs, vec!["a".into(), "b".into()], at(81)), Some("a".into()));
    assert_eq!(mind.counted(Signal::NodeFs, "a", at(82)), Some("b".into()));
    assert_eq!(orders(&mind.look(&seen(50), gone, at(83))), Vec::<&Deed>::new(), "one pod is to be counted");
    assert_eq!(mind.watch_count(0, at(200)), Some(("b".into(), None)), "which hangs, and holds up nothing");
    assert!(matches!(mind.look(&seen(50), gone, at(90))[..], [Deed::Rank(_)]));
}

/// Regression: a collection that removed one thing after the other with a slow Docker was given up after two minutes, and
/// a pod was evicted a moment before the image was removed that was enough.
#[test]
fn nobody_goes_while_the_collection_gets_on() {
    let mut mind = mind();
    let gone = |_: &PodKey, _: &str| true;
    assert_eq!(orders(&mind.look(&seen(50), gone, at(0))), [&Deed::Collect(Order::All)]);
    for step in 1..30 {
        mind.collects_on(step, at(step * 10));
        assert_eq!(orders(&mind.look(&seen(50), gone, at(step * 10))), Vec::<&Deed>::new(), "{step}");
    }
    mind.collects_on(30, at(300));
    let late = mind.look(&seen(50), gone, at(300));
    assert!(matches!(late[..], [Deed::Measure(_)]), "it is not waited for without end: {late:?}");
    // A collection that hangs is waited for as long as before.
    let mut mind = self::mind();
    assert_eq!(orders(&mind.look(&seen(50), gone, at(0))), [&Deed::Collect(Order::All)]);
    mind.collects_on(1, at(10));
    mind.collects_on(1, at(100));
    assert_eq!(orders(&mind.look(&seen(50), gone, at(129))), Vec::<&Deed>::new());
    let late = mind.look(&seen(50), gone, at(130));
    assert!(matches!(late[..], [Deed::Measure(_)]), "{late:?}");
}

/// Regression: a node that was short of disk at its start waited a minute for information that came a moment
/// later.
#[test]
fn what_is_not_known_at_the_start_is_asked_again_soon() {
    let mut mind = mind();
    let gone = |_: &PodKey, _: &str| true;
    assert_eq!(orders(&mind.look(&seen(50), gone, at(0))), [&Deed::Collect(Order::All)]);
    mind.collected(&Report { unheard: true, ..Report::default() }, at(1));
    assert_eq!(orders(&mind.look(&seen(50), gone, at(5))), Vec::<&Deed>::new());
    assert_eq!(orders(&mind.look(&seen(50), gone, at(12))), [&Deed::Collect(Order::All)]);
}

/// Regression: when Docker answered before the first look, its disk was looked at after two minutes in place
/// of ten seconds.
#[test]
fn a_node_that_starts_is_looked_at_often_though_it_is_far_from_every_threshold() {
    let mut mind = mind();
    for look in 0..limits::EVICTION_FIRST_LOOKS {
        _ = mind.look(&seen(900), |_, _| true, at(u64::from(look) * 10));
        assert_eq!(
            mind.rest(&seen(900).found, at(u64::from(look) * 10)),
            Some(limits::EVICTION_NEAR),
            "{look}"
        );
    }
    _ = mind.look(&seen(900), |_, _| true, at(900));
    assert!(mind.rest(&seen(900).found, at(900)) > Some(limits::EVICTION_NEAR));
}

#[test]
fn what_is_known_is_not_told_again() {
    let mut mind = mind();
    let told =
        |deeds: Vec<Deed>| deeds.iter().filter(|d| matches!(d, Deed::Tell(News::Pressures(_)))).count();
    assert_eq!(told(mind.look(&seen(900), |_, _| true, at(0))), 0);
    assert_eq!(told(mind.look(&seen(50), |_, _| true, at(10))), 1);
    assert_eq!(told(mind.look(&seen(50), |_, _| true, at(20))), 0);
    assert_eq!(told(mind.look(&seen(900), |_, _| true, at(30))), 0, "the transition period");
    assert_eq!(told(mind.look(&seen(900), |_, _| true, at(320))), 1);
}

/// Regression: the keeper looked without pause while a collection took longer than the time between two
/// collections.
#[test]
fn what_is_due_and_cannot_be_done_is_not_looked_for_all_the_time() {
    let policy = Policy { max_age: Duration::from_secs(3600), ..Policy::default() };
    let mut mind = Mind::new(Settings::none(), Some(policy));
    let gone = |_: &PodKey, _: &str| true;
    assert_eq!(mind.look(&seen(900), gone, at(0)), [Deed::Collect(Order::Old)]);
    assert_eq!(mind.look(&seen(900), gone, at(1000)), [], "the run is not over");
    assert_eq!(mind.rest(&seen(900).found, at(1000)), Some(limits::EVICTION_NEAR));
    mind.collected(&Report::default(), at(1001));
    assert_eq!(mind.look(&Seen::default(), gone, at(1002)), [], "where Docker's files are is not known");
    assert_eq!(mind.rest(&Seen::default().found, at(1002)), Some(limits::EVICTION_NEAR));
}
