//! Tests of unread messages: a stop is never lost before it is read, the last wish decides, and nothing grows.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;

use super::rig::pod_with;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::cgroup;
use crate::cni;
use crate::machine::{Hint, Inbox, Input, PullOutcome, Pulled, Slot, StopOrder, Wish};
use crate::plan::ProbeVerdict;
use crate::pod::DesiredPod;
use crate::pod::object::testing::{config_map, snapshot};
use crate::probe::Kind;
use crate::probe::prober::News;
use crate::volumes;

#[derive(Debug, Clone)]
enum Put {
    Run(u8),
    /// Grace, and the pod if the stop names one.
    Stop(Option<u32>, Option<u8>),
    Hint(u8, u8),
    Objects(u8),
    Pulling(u8),
    Pulled(u8),
    News(u8),
    Cgroup(u8),
    Volumes(u8),
    Network(u8),
    Take,
}

fn put() -> impl Strategy<Value = Put> {
    prop_oneof![
        (0..3u8).prop_map(Put::Run),
        (prop::option::of(0..100u32), prop::option::of(0..3u8))
            .prop_map(|(grace, pod)| Put::Stop(grace, pod)),
        (0..9u8, any::<u8>()).prop_map(|(kind, id)| Put::Hint(kind, id)),
        any::<u8>().prop_map(Put::Objects),
        (0..5u8).prop_map(Put::Pulling),
        (0..5u8).prop_map(Put::Pulled),
        (0..9u8).prop_map(Put::News),
        any::<u8>().prop_map(Put::Cgroup),
        any::<u8>().prop_map(Put::Volumes),
        any::<u8>().prop_map(Put::Network),
        Just(Put::Take),
    ]
}

/// Made once: there are many cases.
static PODS: LazyLock<[Arc<DesiredPod>; 3]> =
    LazyLock::new(|| [0, 1, 2].map(|n| pod_with(&format!("uid-{n}"), "{containers: [{name: app}]}")));

fn pod(n: u8) -> Arc<DesiredPod> {
    Arc::clone(&PODS[usize::from(n)])
}

fn hint(kind: u8, id: u8) -> Hint {
    let (id, allowed) = (format!("id-{id}"), usize::from(id));
    match kind {
        0 => Hint::Started(id),
        1 => Hint::Changed(id),
        2 => Hint::Removed(id),
        3 => Hint::Images(vec![id]),
        4 => Hint::OutOfMemory(id),
        5 => Hint::Retry,
        6 => Hint::Made(id),
        7 => Hint::Dead(allowed),
        _ => Hint::All,
    }
}

fn pulled(n: u8) -> Pulled {
    Pulled { image: format!("image-{n}"), outcome: PullOutcome::Done, took: Duration::ZERO, size: None }
}

fn news(n: u8) -> News {
    News::Probed {
        id: format!("id-{n}"),
        kind: Kind::Readiness,
        since: Mono::default(),
        verdict: ProbeVerdict::Failure,
    }
}

fn removed(n: u8) -> cgroup::Report {
    cgroup::Report::Removed { uid: format!("uid-{n}"), result: Ok(()) }
}

fn torn_down(n: u8) -> volumes::Report {
    volumes::Report::TornDown { uid: format!("uid-{n}"), result: Ok(()) }
}

fn detached(n: u8) -> cni::Report {
    cni::Report::Detached { sandbox: format!("id-{n}"), result: Ok(()) }
}

/// The messages that the next read must yield.
#[derive(Default)]
struct Owed {
    /// The graces of the stops, and the last pod that one named.
    stops: Vec<Option<u32>>,
    ends: Option<u8>,
    run: Option<u8>,
    hints: Vec<Hint>,
    /// Messages that must come unchanged.
    exact: Vec<Input>,
    wishes: u64,
}

impl Owed {
    /// Adds a message of a kind of which the latest counts.
    fn latest(&mut self, new: Input, is_older: impl Fn(&Input) -> bool) {
        self.exact.retain(|old| !is_older(old));
        self.exact.push(new);
    }
}

/// Checks the inputs of a full mailbox.
fn check(owed: &mut Owed, inbox: Inbox) {
    let told: Vec<Input> = inbox.inputs().collect();
    let is_told = |input: &Input| told.contains(input);
    assert!(is_told(&Input::Wishes(owed.wishes)));
    let shortest = owed.stops.iter().flatten().min().copied();
    let stop = (!owed.stops.is_empty()).then(|| {
        Input::Wish(Wish::Stop(StopOrder { pod: owed.ends.map(pod), ..StopOrder::new(shortest, "x") }))
    });
    let run = owed.run.map(|n| Input::Wish(Wish::Run(pod(n))));
    let wishes: Vec<&Input> = told.iter().filter(|input| matches!(input, Input::Wish(_))).collect();
    assert_eq!(wishes, stop.iter().chain(&run).collect::<Vec<_>>(), "a wish is lost, or invented");
    let looks_at_all = is_told(&Input::Hint(Hint::All));
    let died = |hint: &&Hint| matches!(hint, Hint::Changed(_));
    let deaths: BTreeSet<String> = owed.hints.iter().filter(died).map(|hint| format!("{hint:?}")).collect();
    for hint in &owed.hints {
        let is_seen = looks_at_all
            && match hint {
                Hint::Made(_) | Hint::Started(_) | Hint::Removed(_) => true,
                Hint::Changed(_) => deaths.len() > limits::MAILBOX_HINTS,
                _ => false,
            };
        let is_within = |other: &Input| match (other, hint) {
            (Input::Hint(Hint::Images(all)), Hint::Images(some)) => some.iter().all(|one| all.contains(one)),
            (Input::Hint(Hint::Dead(_)), Hint::Dead(_)) => true,
            (Input::Hint(other), hint) => other == hint,
            _ => false,
        };
        assert!(is_seen || told.iter().any(is_within), "{hint:?} is lost");
    }
    if let Some(last) = owed.hints.iter().rfind(|hint| matches!(hint, Hint::Dead(_))) {
        assert!(is_told(&Input::Hint(last.clone())), "{last:?} counts");
    }
    for input in &owed.exact {
        assert_eq!(told.iter().filter(|one| *one == input).count(), 1, "{input:?}");
    }
    let hints = |input: &&Input| matches!(input, Input::Hint(_));
    assert!(told.iter().filter(hints).count() <= 3 * limits::MAILBOX_HINTS + 4, "hints grow");
    let others = told.iter().filter(|input| !hints(input)).count();
    assert_eq!(others, 1 + wishes.len() + owed.exact.len(), "something is invented: {told:?}");
    *owed = Owed { wishes: owed.wishes, ..Owed::default() };
}

fn do_put(put: Put, slot: &mut Slot, owed: &mut Owed) {
    match put {
        Put::Run(n) => {
            slot.wish(Wish::Run(pod(n)));
            (owed.run, owed.wishes) = (Some(n), owed.wishes + 1);
        }
        Put::Stop(grace, ends) => {
            slot.wish(Wish::Stop(StopOrder { pod: ends.map(pod), ..StopOrder::new(grace, "x") }));
            owed.stops.push(grace);
            owed.ends = ends.or(owed.ends);
            (owed.run, owed.wishes) = (None, owed.wishes + 1);
        }
        Put::Hint(kind, id) => {
            slot.hint(hint(kind, id));
            owed.hints.push(hint(kind, id));
        }
        Put::Objects(n) => {
            let objects = snapshot(&config_map(&format!("n{n}"), "{}"));
            slot.objects(Arc::clone(&objects));
            owed.latest(Input::Objects(objects), |old| matches!(old, Input::Objects(_)));
        }
        Put::Pulling(n) => {
            let (image, words) = (format!("image-{n}"), "half".to_owned());
            slot.pulling(image.clone(), words.clone());
            let new = Input::Pulling { image, words };
            owed.latest(new.clone(), |old| *old == new);
        }
        Put::Pulled(n) => {
            slot.pulled(pulled(n));
            owed.latest(Input::Pulled(pulled(n)), |old| match old {
                Input::Pulling { image, .. } => *image == pulled(n).image,
                old => *old == Input::Pulled(pulled(n)),
            });
        }
        Put::News(n) => {
            slot.news(news(n));
            owed.latest(Input::News(news(n)), |old| *old == Input::News(news(n)));
        }
        // Each of these must come.
        Put::Cgroup(n) => {
            if !owed.exact.contains(&Input::Cgroup(removed(n))) {
                slot.cgroup(removed(n));
                owed.exact.push(Input::Cgroup(removed(n)));
            }
        }
        Put::Volumes(n) => {
            if !owed.exact.contains(&Input::Volumes(torn_down(n))) {
                slot.volumes(torn_down(n));
                owed.exact.push(Input::Volumes(torn_down(n)));
            }
        }
        Put::Network(n) => {
            if !owed.exact.contains(&Input::Network(detached(n))) {
                slot.network(detached(n));
                owed.exact.push(Input::Network(detached(n)));
            }
        }
        Put::Take => check(owed, slot.take()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn k107733_nothing_that_counts_is_lost(puts in prop::collection::vec(put(), 0..150)) {
        let mut slot = Slot::default();
        let mut owed = Owed::default();
        for put in puts {
            do_put(put, &mut slot, &mut owed);
        }
        check(&mut owed, slot.take());
        prop_assert_eq!(slot.take(), Inbox { wishes: owed.wishes, ..Inbox::default() }, "and nothing comes twice");
    }
}

/// One message of every kind, added in the opposite order.
#[test]
fn a_stop_comes_before_what_runs_then_and_the_objects_of_a_pod_before_the_pod() {
    let mut slot = Slot::default();
    for kind in (0..9).rev() {
        slot.hint(hint(kind, 1));
    }
    slot.volumes(torn_down(1));
    slot.network(detached(1));
    slot.cgroup(removed(1));
    slot.news(news(1));
    slot.pulled(pulled(1));
    slot.pulling("other".to_owned(), "half".to_owned());
    slot.objects(snapshot(&config_map("a", "{}")));
    slot.wish(Wish::Stop(StopOrder::new(None, "x")));
    slot.wish(Wish::Run(pod(0)));
    let word = |input: &Input| {
        let text = format!("{input:?}");
        let words: Vec<&str> =
            text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        match input {
            Input::Wish(_) | Input::Hint(_) => words[1].to_owned(),
            _ => words[0].to_owned(),
        }
    };
    let told: Vec<String> = slot.take().inputs().map(|input| word(&input)).collect();
    assert_eq!(
        told.join(" "),
        "Wishes Stop Objects Run All OutOfMemory Changed Pulling News Pulled Cgroup Network Volumes Images Dead Retry",
    );
    for kind in [2, 1, 4, 0, 6] {
        slot.hint(hint(kind, 1));
    }
    let told: Vec<String> = slot.take().inputs().map(|input| word(&input)).collect();
    assert_eq!(told.join(" "), "Wishes Made Started OutOfMemory Changed Removed");
}

#[test]
fn a_pull_that_ended_twice_is_told_as_it_ended_last() {
    let mut slot = Slot::default();
    let pulled = |outcome| Pulled { image: "a".into(), outcome, took: Duration::ZERO, size: None };
    slot.pulled(pulled(PullOutcome::Failed("x".into())));
    slot.pulled(pulled(PullOutcome::Done));
    assert_eq!(slot.take().pulled, [pulled(PullOutcome::Done)]);
}

#[test]
fn of_objects_the_latest_snapshot_counts() {
    let mut slot = Slot::default();
    let newest = snapshot(&config_map("new", "{}"));
    slot.objects(snapshot(&config_map("old", "{}")));
    slot.objects(Arc::clone(&newest));
    assert_eq!(slot.take().objects, Some(newest));
    assert_eq!(slot.take().objects, None, "read once");
}

/// No look shows it.
#[test]
fn that_memory_ran_out_outlives_a_look_at_everything() {
    let mut slot = Slot::default();
    slot.hint(Hint::All);
    slot.hint(Hint::OutOfMemory("a".into()));
    slot.hint(Hint::All);
    assert!(slot.take().looks.out_of_memory.contains("a"));
}

/// Docker tells a death before its list shows it.
#[test]
fn a_death_outlives_a_look_at_everything() {
    let mut slot = Slot::default();
    slot.hint(Hint::Changed("a".into()));
    slot.hint(Hint::All);
    slot.hint(Hint::Changed("b".into()));
    let told: Vec<Input> = slot.take().inputs().collect();
    for hint in [Hint::All, Hint::Changed("a".into()), Hint::Changed("b".into())] {
        assert!(told.contains(&Input::Hint(hint.clone())), "{hint:?} of {told:?}");
    }
}
