//! Tests that versions grow, and that changes are reported once.

use serde_json::json;

use super::*;

fn world(state: &mut State, all: &[(&str, Value)]) {
    let fresh = all.iter().map(|(name, value)| {
        let value = json!({"metadata": {"name": name}, "data": value});
        let fresh = Fresh { origin: Origin::Any, make: Box::new(move || value) };
        ((String::new(), (*name).to_owned()), fresh)
    });
    state.renew(Resource::ConfigMaps, fresh.collect());
}

fn told(state: &State, since: u64) -> Vec<(bool, bool, String)> {
    let changes = state.since(Resource::ConfigMaps, since).unwrap();
    changes.into_iter().map(|c| (c.before.is_some(), c.after.is_some(), c.key.1)).collect()
}

#[test]
fn each_change_has_a_version_and_what_is_the_same_keeps_its_own() {
    let mut state = State { version: 1 << EPOCH_BITS, forgotten: 1 << EPOCH_BITS, ..State::default() };
    let begun = state.version();
    world(&mut state, &[("a", json!(1)), ("b", json!(1))]);
    let version = |state: &State, name: &str| state.get(Resource::ConfigMaps, "", name).unwrap().version;
    let a = version(&state, "a");
    assert_eq!(told(&state, begun), [(false, true, "a".to_owned()), (false, true, "b".to_owned())]);
    let before = state.version();
    world(&mut state, &[("a", json!(1)), ("b", json!(2))]);
    assert_eq!((version(&state, "a"), version(&state, "b")), (a, state.version()));
    assert_eq!(told(&state, before), [(true, true, "b".to_owned())]);
    let before = state.version();
    world(&mut state, &[("b", json!(2))]);
    assert_eq!(told(&state, before), [(true, false, "a".to_owned())]);
    assert!(told(&state, state.version()).is_empty());
    assert_eq!(state.since(Resource::ConfigMaps, begun - 1).unwrap_err(), TooOld, "an earlier start");
}

#[test]
fn history_is_bounded_and_says_so() {
    let mut state = State::default();
    for round in 0..limits::API_HISTORY + 10 {
        world(&mut state, &[("a", json!(round))]);
    }
    assert_eq!(state.history.len(), limits::API_HISTORY);
    assert!(state.since(Resource::ConfigMaps, 5).is_err());
    assert_eq!(told(&state, state.version() - 1).len(), 1);
}

/// A thousand updates of one ConfigMap of 900 KB took 1 GiB.
#[test]
fn history_is_bounded_by_bytes_too() {
    let mut state = State::default();
    let large = "x".repeat(limits::API_HISTORY_BYTES / 10);
    for round in 0..30 {
        world(&mut state, &[("a", json!([round, large]))]);
    }
    assert!((1..=5).contains(&state.history.len()), "{}", state.history.len());
    assert!(state.history_bytes <= limits::API_HISTORY_BYTES);
    let first = state.history.front().unwrap().0.version;
    assert_eq!(state.since(Resource::ConfigMaps, first - 2).unwrap_err(), TooOld);
    assert_eq!(told(&state, first - 1).len(), state.history.len());
    // An object larger than the whole history is sent to watches once.
    world(&mut state, &[("a", json!("x".repeat(limits::API_HISTORY_BYTES)))]);
    assert_eq!(told(&state, state.version() - 1).len(), 1);
}

/// A Secret is an object like others here, as it is held, stored, written and answered.
#[test]
fn k12396_nothing_that_holds_an_object_shows_it_when_it_is_formatted() {
    use crate::api::holdings::Stored;
    use crate::api::write::parts::Sent;
    use crate::api::write::writes::Done;
    const CANARY: &str = "canary-0123456789-abcdefghijklmn";
    let secret = json!({"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": CANARY}});
    let kept = || Arc::new(secret.clone());
    let key = || ("default".to_owned(), "s".to_owned());
    let object = || Arc::new(Object { version: 7, value: secret.clone() });
    let change = Change {
        version: 7,
        resource: Resource::Secrets,
        key: key(),
        before: Some(object()),
        after: Some(object()),
    };
    let stored =
        Stored { objects: [((Resource::Secrets, key()), kept())].into(), leaving: [(key(), kept())].into() };
    for shown in [
        format!("{:?}", object()),
        format!("{change:?}"),
        format!("{stored:?}"),
        format!("{:?} {:?}", Origin::Stored(kept()), Origin::StoredPod(kept(), Box::new(Origin::Any))),
        format!("{:?}", Done { code: 200, value: secret.clone(), warnings: Vec::new() }),
        format!("{:?}", Sent::Whole(&secret)),
    ] {
        assert!(!shown.contains(CANARY), "{shown}");
    }
}
