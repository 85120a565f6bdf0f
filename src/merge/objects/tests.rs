//! The object that holds a name, immutable objects, bounds; and the property: after any sequence of sets
//! the last ones are in force.

use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;
use crate::base::clock::Timestamp;
use crate::merge::Merge;
use crate::pod::object::{About, Content, ObjectKind};
use crate::source::PodSet;

/// `name=value`, `name!=value` (immutable) in the file `path`; `document` is its place in the list.
fn object(source: Source, path: &str, document: u32, words: &str) -> Arc<LocalObject> {
    let (name, value) = words.split_once('=').unwrap();
    let immutable = name.ends_with('!');
    let key = ObjectKey {
        kind: ObjectKind::ConfigMap,
        namespace: "default".into(),
        name: name.trim_end_matches('!').into(),
    };
    let data = [("k".to_owned(), value.to_owned())].into();
    let origin = Origin { path: path.into(), document };
    let content = Content::ConfigMap { data, binary: BTreeMap::new() };
    Arc::new(LocalObject { key, source, origin, immutable, content, about: About::default() })
}

/// `path: name=value name=value; path: …`
fn set(source: Source, words: &str) -> PodSet {
    let mut set = PodSet::default();
    for file in words.split(';').map(str::trim).filter(|file| !file.is_empty()) {
        let (path, objects) = file.split_once(':').unwrap();
        for (document, words) in (0..).zip(objects.split_whitespace()) {
            set.objects.push(object(source, path, document, words));
        }
    }
    set
}

fn at() -> Timestamp {
    Timestamp::from_second(1).unwrap()
}

fn merge() -> Merge {
    Merge::new(&[Source::File, Source::Http])
}

fn value(object: &LocalObject) -> &str {
    match &object.content {
        Content::ConfigMap { data, .. } => &data["k"],
        _ => panic!("{object:?}"),
    }
}

/// `name=value path` of all objects in force.
fn state(merge: &Merge) -> String {
    let one = |o: &Arc<LocalObject>| format!("{}={} {}", o.key.name, value(o), o.origin);
    merge.objects().values().map(one).collect::<Vec<_>>().join(", ")
}

fn problems(merge: &Merge) -> Vec<String> {
    merge.problems().iter().map(|p| format!("{:?} {p}", p.severity)).collect()
}

/// Sets of the file source one after the other, and the objects in force after each.
fn check(steps: &[(&str, &str)]) -> Merge {
    let mut merge = merge();
    for (words, expected) in steps {
        merge.full(Source::File, &set(Source::File, words), at());
        assert_eq!(state(&merge), *expected, "after {words}");
    }
    merge
}

#[test]
fn the_holder_keeps_its_name() {
    let merge = check(&[
        ("b: x=1", "x=1 b"),
        ("a: x=2; b: x=1", "x=1 b"),
        // An edit follows its file.
        ("a: x=2; b: x=3", "x=3 b"),
        ("a: x=2; b: y=1 x=3", "x=3 b#1, y=1 b"),
        ("a: x=2; b: y=1", "x=2 a, y=1 b"),
        ("a: x=2; b: y=1; c: x=9", "x=2 a, y=1 b"),
    ]);
    assert_eq!(
        problems(&merge),
        [
            "Error c: ConfigMap default/x: the name is held by the one from a, which keeps it; this one is \
             ignored until that one is gone or renamed",
            "Warning a: ConfigMap default/x: the one from c has the same name and is ignored",
        ]
    );
    assert_eq!(merge.claims(Source::File), 3, "losers count");
}

#[test]
fn each_source_has_names_of_its_own() {
    let mut merge = merge();
    merge.full(Source::Http, &set(Source::Http, "u: x=http"), at());
    merge.full(Source::File, &set(Source::File, "a: x=file"), at());
    assert_eq!(state(&merge), "x=file a, x=http u");
    assert_eq!(problems(&merge), [""; 0], "neither is in the other's way");
    merge.full(Source::File, &set(Source::File, ""), at());
    assert_eq!(state(&merge), "x=http u");
    merge.full(Source::File, &set(Source::File, "a: x=again"), at());
    assert_eq!(state(&merge), "x=again a, x=http u");
    merge.full(Source::Http, &set(Source::Http, ""), at());
    assert_eq!(state(&merge), "x=again a");
}

#[test]
fn a_restored_set_counts_until_the_source_speaks() {
    let mut merge = merge();
    merge.restore(Source::Http, &set(Source::Http, "u: x=old y=old"), at());
    assert_eq!(state(&merge), "x=old u, y=old u#1");
    merge.full(Source::Http, &set(Source::Http, "u: x=new"), at());
    assert_eq!(state(&merge), "x=new u");
    merge.restore(Source::Http, &set(Source::Http, "u: x=old"), at());
    assert_eq!(state(&merge), "x=new u");
}

#[test]
fn the_snapshot_is_another_one_only_when_something_changed() {
    let mut merge = merge();
    merge.full(Source::File, &set(Source::File, "a: x=1 y=2"), at());
    let before = Arc::clone(merge.objects());
    let old_x = Arc::clone(before.values().next().unwrap());
    merge.full(Source::File, &set(Source::File, "a: x=1 y=2"), at());
    assert!(Arc::ptr_eq(&before, merge.objects()));
    merge.full(Source::File, &set(Source::File, "a: x=1 y=3"), at());
    assert!(!Arc::ptr_eq(&before, merge.objects()));
    assert!(Arc::ptr_eq(&old_x, merge.objects().values().next().unwrap()), "what is the same is kept");
}

#[test]
fn an_immutable_object_is_not_changed_but_deleted_and_made_anew() {
    let merge =
        check(&[("a: x!=1", "x=1 a"), ("a: x!=2", "x=1 a"), ("a: x!=1", "x=1 a"), ("a: x=2", "x=1 a")]);
    assert_eq!(
        problems(&merge),
        [
            "Error a: ConfigMap default/x: it is immutable and in force with other data, which stays; to change \
          it, delete it first, or give it another name"
        ]
    );
    check(&[("a: x!=1", "x=1 a"), ("b: x!=1", "x=1 b"), ("b:", ""), ("b: x!=2", "x=2 b")]);
    check(&[("a: x=1", "x=1 a"), ("a: x!=2", "x=2 a"), ("a: x!=3", "x=2 a")]);
    // Another source has its own object.
    let mut merge = self::merge();
    merge.full(Source::File, &set(Source::File, "a: x!=1"), at());
    merge.full(Source::Http, &set(Source::Http, "u: x!=2"), at());
    assert_eq!(state(&merge), "x=1 a, x=2 u");
    merge.full(Source::File, &set(Source::File, ""), at());
    assert_eq!(state(&merge), "x=2 u");
}

#[test]
fn too_many_objects_push_out_none_in_force() {
    let mut merge = merge();
    let many =
        |from: usize, n: usize| -> String { (from..from + n).map(|i| format!(" n{i:05}=v")).collect() };
    merge.full(Source::File, &set(Source::File, "z: kept=1"), at());
    let words = format!("a:{}; z: kept=1", many(0, limits::OBJECTS_PER_SOURCE + 4));
    merge.full(Source::File, &set(Source::File, &words), at());
    assert_eq!(merge.objects().len(), limits::OBJECTS_PER_SOURCE);
    assert!(state(&merge).contains("kept=1 z"));
    assert_eq!(
        problems(&merge),
        ["Error a: ConfigMap default/n00999: source file has 5 local objects more than fit into the 1000 \
          objects and 16777216 bytes it may have: this one and the others past the limit are not taken"]
    );
    merge.full(Source::File, &set(Source::File, "z: kept=1"), at());
    assert_eq!(problems(&merge), [""; 0]);
}

#[test]
fn too_many_bytes_push_out_none_in_force() {
    let mut merge = merge();
    let big = "x".repeat(limits::OBJECT_BYTES_PER_SOURCE / 4);
    merge.full(Source::File, &set(Source::File, &format!("z: kept={big}")), at());
    let words = format!("a: a={big} b={big} c={big} d={big}; z: kept={big}");
    merge.full(Source::File, &set(Source::File, &words), at());
    let names: Vec<&str> = merge.objects().keys().map(|(_, key)| key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "kept"], "keys count too");
    assert_eq!(problems(&merge).len(), 1);
}

/// Path, name, immutable, value.
type Sample = (u8, &'static str, bool, u8);

fn steps() -> impl Strategy<Value = Vec<(Source, Vec<Sample>)>> {
    let source = prop::sample::select(vec![Source::File, Source::Http]);
    let object = (0..3u8, prop::sample::select(vec!["x", "y", "z"]), prop::bool::weighted(0.2), 0..3u8);
    prop::collection::vec((source, prop::collection::vec(object, 0..6)), 1..10)
}

fn made(source: Source, samples: &[Sample]) -> PodSet {
    let mut set = PodSet::default();
    for (document, (path, name, immutable, value)) in (0..).zip(samples) {
        let mark = if *immutable { "!" } else { "" };
        set.objects.push(object(source, &path.to_string(), document, &format!("{name}{mark}={value}")));
    }
    set
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replaying_any_sequence_ends_with_exactly_the_last_sets(steps in steps()) {
        let mut merge = merge();
        let mut last: BTreeMap<Source, PodSet> = BTreeMap::new();
        for (source, samples) in &steps {
            let before = Arc::clone(merge.objects());
            let set = made(*source, samples);
            merge.full(*source, &set, at());
            last.insert(*source, set);
            let now = merge.objects();
            for (key, old) in before.iter() {
                let still = last.get(&old.source).is_some_and(|s| s.objects.iter().any(|o| o.key == key.1));
                // Only the owner's own set moves a name.
                prop_assert!(!still || now.get(key).is_some_and(|o| o.source == old.source));
                if old.immutable && still {
                    prop_assert_eq!(&now[key].content, &old.content);
                }
            }
            prop_assert!(Arc::ptr_eq(&before, now) || *before != **now);
        }
        let claims: Vec<&Arc<LocalObject>> = last.values().flat_map(|s| &s.objects).collect();
        let in_force = merge.objects();
        for claim in &claims {
            let name = (claim.source, claim.key.clone());
            prop_assert!(in_force.contains_key(&name), "{} is lost", claim.key);
        }
        for (key, object) in in_force.iter() {
            let wanted = claims.iter().any(|c| (c.source, &c.key) == (key.0, &key.1) && (***c == **object || object.immutable));
            prop_assert!(wanted, "{} is nobody's", key.1);
        }
        let total: usize = [Source::File, Source::Http].iter().map(|s| merge.claims(*s)).sum();
        prop_assert_eq!(total, claims.len());
    }

    #[test]
    fn the_order_inside_a_set_does_not_matter(steps in steps()) {
        let (mut one, mut two) = (merge(), merge());
        for (source, samples) in &steps {
            let mut set = made(*source, samples);
            one.full(*source, &set, at());
            set.objects.reverse();
            two.full(*source, &set, at());
            prop_assert_eq!(one.objects(), two.objects());
            prop_assert_eq!(one.problems(), two.problems());
        }
    }
}
