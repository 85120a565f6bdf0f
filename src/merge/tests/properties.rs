//! Properties of the merge over random sequences of sets from two sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// One step: a source and the complete set it sends.
type Step = (Source, Vec<Sample>);

fn a_sample() -> impl Strategy<Value = Sample> {
    let name = prop::sample::select(vec!["web", "db", "kv"]);
    let place = (0..3u32, 0..2u32);
    (name, 0..5u32, place, prop::option::of(0..2u8), any::<bool>(), prop::option::of(1..3i64)).prop_map(
        |(name, uid, (file, document), host, running, deleted)| {
            let mut made = sample(name, &format!("u{uid}"), &format!("/m/{file}.yaml"));
            made.document = document;
            made.host = host.map(|h| h.to_string());
            made.phase = if running { "Running" } else { "Pending" };
            made.deleted = deleted.filter(|d| *d == 1);
            made
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let source = prop::sample::select(vec![Source::File, Source::Http]);
    prop::collection::vec((source, prop::collection::vec(a_sample(), 0..6)), 1..10)
}

fn merge() -> Merge {
    Merge::new(&[Source::File, Source::Http])
}

fn state(merge: &Merge) -> BTreeMap<PodKey, Arc<DesiredPod>> {
    merge.pods().map(|p| (p.key.clone(), Arc::clone(p))).collect()
}

/// A reader that knows only the changes.
fn apply(map: &mut BTreeMap<PodKey, Arc<DesiredPod>>, changes: &[Change]) {
    for change in changes {
        match change.op {
            Op::Remove => change.pods.iter().for_each(|p| drop(map.remove(&p.key))),
            _ => map.extend(change.pods.iter().map(|p| (p.key.clone(), Arc::clone(p)))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaying_any_sequence_ends_with_exactly_the_last_sets(steps in steps()) {
        let mut merge = merge();
        let mut last: BTreeMap<Source, PodSet> = BTreeMap::new();
        for (source, samples) in &steps {
            let set = set(*source, samples);
            merge.full(*source, &set, at(1));
            last.insert(*source, set);
            prop_assert!(merge.ready(*source));
        }
        let claims: Vec<&Arc<DesiredPod>> = last.values().flat_map(|s| &s.pods).collect();
        let held = state(&merge);
        for claim in &claims {
            prop_assert!(held.contains_key(&claim.key), "{} is lost", claim.key);
        }
        for (key, pod) in &held {
            let wanted = claims.iter().any(|c| {
                c.key == *key && c.uid == pod.uid && c.spec == pod.spec && c.status == pod.status
                    && c.source == pod.source && c.origin == pod.origin
            });
            prop_assert!(wanted, "{} is nobody's", key);
        }
        // Each loser has a problem, and no other pod has one.
        let losers = merge.problems().iter().filter(|p| p.severity == Severity::Error).count();
        prop_assert_eq!(losers, claims.len() - held.len());
    }

    #[test]
    fn the_changes_alone_reproduce_the_state_at_each_step(steps in steps()) {
        let mut merge = merge();
        let mut map = BTreeMap::new();
        for (source, samples) in &steps {
            apply(&mut map, &merge.full(*source, &set(*source, samples), at(1)));
            prop_assert_eq!(&map, &state(&merge));
        }
    }

    #[test]
    fn one_kind_of_change_for_one_pod_and_remove_before_add(steps in steps()) {
        let mut merge = merge();
        for (source, samples) in &steps {
            let changes = merge.full(*source, &set(*source, samples), at(1));
            let mut kinds: BTreeMap<(&PodKey, &str), Op> = BTreeMap::new();
            let order: Vec<Op> = changes.iter().map(|c| c.op).collect();
            let mut sorted = order.clone();
            let rank = |op: &Op| match op {
                Op::Remove => 0,
                Op::Add => 1,
                Op::Update => 2,
                Op::Delete => 3,
                _ => 4,
            };
            sorted.sort_by_key(|op| rank(op));
            sorted.dedup();
            prop_assert_eq!(&order, &sorted);
            for change in &changes {
                prop_assert!(!change.pods.is_empty());
                for pod in &change.pods {
                    let twice = kinds.insert((&pod.key, &pod.uid), change.op);
                    prop_assert_eq!(twice, None, "{} {}", &pod.key, &pod.uid);
                }
            }
        }
    }

    #[test]
    fn a_set_that_still_holds_the_holder_never_moves_the_name(steps in steps()) {
        let mut merge = merge();
        for (source, samples) in &steps {
            let before = state(&merge);
            merge.full(*source, &set(*source, samples), at(1));
            for (key, old) in before {
                let now = merge.get(&key);
                let still = old.source != *source || samples.iter().any(|s| {
                    let pod = s.pod(*source);
                    pod.key == key && pod.uid == old.uid
                });
                // Only a preceding source may take it.
                let taken = *source < old.source && samples.iter().any(|s| s.pod(*source).key == key);
                if still && !taken {
                    prop_assert_eq!(now.map(|p| p.uid.as_str()), Some(old.uid.as_str()), "{}", key);
                }
                // Only the owner's own set removes it.
                prop_assert!(old.source == *source || now.is_some());
            }
        }
    }

    #[test]
    fn the_order_inside_a_set_does_not_matter(steps in steps()) {
        let (mut one, mut two) = (merge(), merge());
        for (source, samples) in &steps {
            // Two documents cannot have the same place: keep the first of each.
            let mut samples = samples.clone();
            samples.sort_by(|a, b| (&a.path, a.document).cmp(&(&b.path, b.document)));
            samples.dedup_by(|a, b| (&a.path, a.document) == (&b.path, b.document));
            let forward = one.full(*source, &set(*source, &samples), at(1));
            samples.reverse();
            let backward = two.full(*source, &set(*source, &samples), at(1));
            prop_assert_eq!(forward, backward);
            prop_assert_eq!(one.problems(), two.problems());
        }
    }
}
