//! Unread messages: a stop is never lost before it is read, the last wish decides, and nothing grows.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;

use super::rig::pod_with;
use crate::base::limits;
use crate::machine::{Hint, Inbox, PullOutcome, Pulled, Slot, StopOrder, Wish};
use crate::pod::DesiredPod;

#[derive(Debug, Clone)]
enum Put {
    Run(u8),
    Stop(Option<u32>),
    Hint(u8, u8),
    Pulled(u8),
    Take,
}

fn put() -> impl Strategy<Value = Put> {
    prop_oneof![
        (0..3u8).prop_map(Put::Run),
        prop::option::of(0..100u32).prop_map(Put::Stop),
        (0..8u8, any::<u8>()).prop_map(|(kind, id)| Put::Hint(kind, id)),
        (0..5u8).prop_map(Put::Pulled),
        Just(Put::Take),
    ]
}

/// Made once: there are many cases.
static PODS: LazyLock<[Arc<DesiredPod>; 3]> =
    LazyLock::new(|| [0, 1, 2].map(|n| pod_with(&format!("uid-{n}"), "{containers: [{name: app}]}")));

fn hint(kind: u8, id: u8) -> Hint {
    let id = format!("id-{id}");
    match kind {
        0 => Hint::Started(id),
        1 => Hint::Changed(id),
        2 => Hint::Removed(id),
        3 => Hint::Images(vec![id]),
        4 => Hint::OutOfMemory(id),
        5 => Hint::Retry,
        6 => Hint::Made(id),
        _ => Hint::All,
    }
}

/// Messages that a reader has not read yet.
#[derive(Default)]
struct Owed {
    stops: Vec<Option<u32>>,
    run: Option<u8>,
    hints: Vec<Hint>,
    pulled: std::collections::BTreeSet<u8>,
    wishes: u64,
}

fn check(owed: &mut Owed, inbox: &Inbox) {
    let grace = owed.stops.iter().flatten().min().copied();
    assert_eq!(inbox.stop.is_some(), !owed.stops.is_empty(), "a stop is lost, or invented");
    assert_eq!(inbox.stop.as_ref().and_then(|s| s.grace), grace, "the shortest grace counts");
    assert_eq!(inbox.run.as_ref().map(|p| p.uid.clone()), owed.run.map(|n| format!("uid-{n}")));
    assert_eq!(inbox.wishes, owed.wishes);
    for hint in &owed.hints {
        let told = match hint {
            Hint::All => inbox.looks.all,
            Hint::Made(id) => inbox.looks.made.contains(id),
            Hint::Started(id) => inbox.looks.started.contains(id),
            Hint::Changed(id) => inbox.looks.changed.contains(id),
            Hint::Removed(id) => inbox.looks.removed.contains(id),
            Hint::OutOfMemory(id) => inbox.looks.out_of_memory.contains(id),
            Hint::Images(names) => names.iter().all(|name| inbox.images.contains(name)),
            Hint::Retry => inbox.retry,
            Hint::Dead(_) => inbox.dead.is_some(),
        };
        assert!(told || inbox.looks.all, "{hint:?} is lost");
    }
    let single = inbox.looks.made.len()
        + inbox.looks.started.len()
        + inbox.looks.changed.len()
        + inbox.looks.out_of_memory.len()
        + inbox.looks.removed.len();
    assert!(single <= limits::MAILBOX_HINTS);
    assert_eq!(inbox.pulled.len(), owed.pulled.len());
    let wishes = owed.wishes;
    *owed = Owed { wishes, ..Owed::default() };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn k107733_nothing_that_counts_is_lost(puts in prop::collection::vec(put(), 0..300)) {
        let mut slot = Slot::default();
        let mut owed = Owed::default();
        for put in puts {
            match put {
                Put::Run(n) => {
                    slot.wish(Wish::Run(Arc::clone(&PODS[usize::from(n)])));
                    (owed.run, owed.wishes) = (Some(n), owed.wishes + 1);
                }
                Put::Stop(grace) => {
                    slot.wish(Wish::Stop(StopOrder { grace, why: "x" }));
                    owed.stops.push(grace);
                    (owed.run, owed.wishes) = (None, owed.wishes + 1);
                }
                Put::Hint(kind, id) => {
                    slot.hint(hint(kind, id));
                    owed.hints.push(hint(kind, id));
                }
                Put::Pulled(n) => {
                    slot.pulled(Pulled {
                        image: format!("image-{n}"),
                        outcome: PullOutcome::Done,
                        took: Duration::ZERO,
                        size: None,
                    });
                    owed.pulled.insert(n);
                }
                Put::Take => check(&mut owed, &slot.take()),
            }
        }
        check(&mut owed, &slot.take());
        prop_assert_eq!(slot.take(), Inbox { wishes: owed.wishes, ..Inbox::default() }, "and nothing comes twice");
    }
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
fn the_end_is_told() {
    let mut slot = Slot::default();
    slot.close();
    assert!(slot.take().closed);
}

#[test]
fn of_objects_the_latest_snapshot_counts() {
    use crate::pod::object::testing::{config_map, snapshot};
    let mut slot = Slot::default();
    let newest = snapshot(&config_map("new", "{}"));
    slot.objects(snapshot(&config_map("old", "{}")));
    slot.objects(std::sync::Arc::clone(&newest));
    assert_eq!(slot.take().objects, Some(newest));
    assert_eq!(slot.take().objects, None, "read once");
}

/// No look tells it.
#[test]
fn that_memory_ran_out_outlives_a_look_at_everything() {
    let mut slot = Slot::default();
    slot.hint(Hint::All);
    slot.hint(Hint::OutOfMemory("a".into()));
    slot.hint(Hint::All);
    assert!(slot.take().looks.out_of_memory.contains("a"));
}
