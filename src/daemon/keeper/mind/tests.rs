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
    let gone = |_: Pressure, _: &str| End::Gone;
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
    let gone = |_: Pressure, _: &str| End::Gone;
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
    let gone = |_: Pressure, _: &str| End::Gone;
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
        _ = mind.look(&seen(900), |_, _| End::Gone, at(u64::from(look) * 10));
        assert_eq!(
            mind.rest(&seen(900).found, false, at(u64::from(look) * 10)),
            Some(limits::EVICTION_NEAR),
            "{look}"
        );
    }
    _ = mind.look(&seen(900), |_, _| End::Gone, at(900));
    assert!(mind.rest(&seen(900).found, false, at(900)) > Some(limits::EVICTION_NEAR));
}

#[test]
fn what_is_known_is_not_told_again() {
    let mut mind = mind();
    let told =
        |deeds: Vec<Deed>| deeds.iter().filter(|d| matches!(d, Deed::Tell(News::Pressures(_)))).count();
    assert_eq!(told(mind.look(&seen(900), |_, _| End::Gone, at(0))), 0);
    assert_eq!(told(mind.look(&seen(50), |_, _| End::Gone, at(10))), 1);
    assert_eq!(told(mind.look(&seen(50), |_, _| End::Gone, at(20))), 0);
    assert_eq!(told(mind.look(&seen(900), |_, _| End::Gone, at(30))), 0, "the transition period");
    assert_eq!(told(mind.look(&seen(900), |_, _| End::Gone, at(320))), 1);
}

/// Regression: the keeper looked without pause while a collection took longer than the time between two
/// collections.
#[test]
fn what_is_due_and_cannot_be_done_is_not_looked_for_all_the_time() {
    let policy = Policy { max_age: Duration::from_secs(3600), ..Policy::default() };
    let mut mind = Mind::new(Settings::none(), Some(policy));
    let gone = |_: Pressure, _: &str| End::Gone;
    assert_eq!(mind.look(&seen(900), gone, at(0)), [Deed::Collect(Order::Old)]);
    assert_eq!(mind.look(&seen(900), gone, at(1000)), [], "the run is not over");
    assert_eq!(mind.rest(&seen(900).found, false, at(1000)), Some(limits::EVICTION_NEAR));
    mind.collected(&Report::default(), at(1001));
    assert_eq!(mind.look(&Seen::default(), gone, at(1002)), [], "where Docker's files are is not known");
    assert_eq!(mind.rest(&Seen::default().found, false, at(1002)), Some(limits::EVICTION_NEAR));
}

/// Regression: a pod filled a disk within half a minute, and that was seen a minute later.
#[test]
fn while_there_may_be_pods_that_go_first_disks_are_looked_at_more_often() {
    let rest = |signal: Signal, is_behind: bool| {
        let threshold =
            Threshold { signal, value: Amount::Part(10_000), grace: Duration::ZERO, reclaim: None };
        let mut mind = Mind::new(Settings { thresholds: vec![threshold], ..Settings::none() }, None);
        for look in 0..20 {
            _ = mind.look(&seen(900), |_, _| End::Gone, at(look * 100));
        }
        mind.rest(&seen(900).found, is_behind, at(2000)).unwrap()
    };
    assert_eq!(rest(Signal::NodeFs, false), limits::EVICTION_FAR);
    assert_eq!(rest(Signal::NodeFs, true), limits::EVICTION_BEHIND);
    assert_eq!(rest(Signal::Pid, true), limits::EVICTION_FAR);
}

/// Regression: neither the event of the node nor the log named the file system, what was left of it, and the threshold.
#[test]
fn a_shortage_is_told_with_its_figures() {
    let mut mind = mind();
    let text = |deeds: &[Deed]| format!("{deeds:?}");
    let short =
        "Attempting to reclaim ephemeral-storage: nodefs.available is 50 of 1000, and 100 is the threshold";
    let deeds = text(&mind.look(&seen(50), |_, _| End::Gone, at(0)));
    assert!(deeds.contains(short), "{deeds}");
    let hard = mind.watched()[0];
    let Choice::Nobody(Some((line, event))) = mind.choose(&hard, &seen(50).found, Vec::new(), at(1)) else {
        panic!("there is no pod");
    };
    assert!(line.ends_with("; nodefs.available is 50 of 1000, and 100 is the threshold"), "{line}");
    assert!(format!("{event:?}").contains(short), "{event:?}");
    assert_eq!(mind.choose(&hard, &seen(50).found, Vec::new(), at(2)), Choice::Nobody(None), "once");
    let deeds = text(&mind.look(&seen(900), |_, _| End::Gone, at(10)));
    let ends = "the node is not short of ephemeral-storage any more: nodefs.available is 900; it counts as short of it for 300 s";
    assert!(deeds.contains(ends), "{deeds}");
    assert!(!text(&mind.look(&seen(900), |_, _| End::Gone, at(20))).contains("Note"));
}
