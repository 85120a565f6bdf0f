//! Tests of a pod from nothing: its calls, their order, and which of them are made at once.

use super::rig::{Rig, app, ms, pod, s};
use crate::machine::Report;

#[test]
fn one_container_takes_these_calls_and_no_others() {
    let mut rig = Rig::fresh();
    rig.run(&app());
    rig.pass(s(3600));
    let calls: Vec<String> =
        rig.calls.iter().map(|(at, words)| format!("{} {words}", at.0.as_millis())).collect();
    // There is no list: the sync loop knows that there are no containers. The container is made while the sandbox
    // starts, and starts when the addresses of its hosts file are known.
    let expected = [
        "0 create POD#0",
        "2 start POD#0",
        "2 create app#0",
        "103 inspect POD#0",
        "105 start app#0",
        "206 inspect app#0",
        "208 image",
    ];
    assert_eq!(calls, expected);
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(rig.wake, None, "nothing is due");
}

#[test]
fn unless_it_is_known_to_be_empty_a_list_comes_first() {
    let mut rig = Rig::fresh().reborn();
    rig.run(&app());
    rig.pass(s(60));
    let expected = [
        "list",
        "create POD#0",
        "start POD#0",
        "create app#0",
        "inspect POD#0",
        "start app#0",
        "inspect app#0",
    ];
    assert_eq!(rig.take_calls(), expected);
}

#[test]
fn containers_of_one_pod_overlap() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{containers: [{name: a}, {name: b}, {name: c}]}"));
    rig.pass(s(60));
    for name in ["a", "b", "c"] {
        assert_eq!(rig.times(&format!("create {name}#0")), [2], "{name}");
        assert_eq!(rig.times(&format!("start {name}#0")), [105], "{name}");
    }
}

#[test]
fn init_containers_and_sidecars_come_one_after_the_other() {
    let mut rig = Rig::fresh();
    rig.engine.behave("prepare", crate::runtime::fake::Behaviour::exits(0, ms(300)));
    rig.run(&pod(
        "{initContainers: [{name: side, restartPolicy: Always}, {name: prepare}], containers: [{name: app}]}",
    ));
    rig.pass(s(60));
    let acts = [
        "create POD#0",
        "start POD#0",
        "create side#0",
        "start side#0",
        "create prepare#0",
        "start prepare#0",
        "create app#0",
        "start app#0",
    ];
    assert_eq!(rig.take_acts(), acts);
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn nothing_is_said_twice() {
    let mut rig = Rig::fresh();
    rig.run(&app());
    rig.pass(s(60));
    let told = rig.reports.len();
    let run = app();
    for _ in 0..10 {
        rig.run(&run);
        rig.pass(s(1));
    }
    assert_eq!(rig.reports.len(), told, "the same wish again says nothing");
    let mut statuses = rig.reports.iter().filter_map(|r| match r {
        Report::Status { status, .. } => Some(status),
        _ => None,
    });
    let mut last = statuses.next().unwrap();
    for next in statuses {
        assert_ne!(last, next);
        last = next;
    }
    assert_eq!(rig.take_calls().len(), 6);
}

#[test]
fn calls_of_one_pod_are_bounded() {
    let containers: Vec<String> = (0..100).map(|n| format!("{{name: c{n}}}")).collect();
    let pod = pod(&format!("{{containers: [{}]}}", containers.join(", ")));
    let mut rig = Rig::fresh();
    rig.run(&pod);
    rig.pass(s(30));
    assert_eq!(rig.running().len(), 101);
    rig.wish(super::rig::stop(None));
    rig.pass(s(30));
    assert_eq!(rig.running().len(), 0);
    let mut at_once = std::collections::BTreeMap::new();
    for (at, _) in rig.calls.iter().filter(|(_, words)| words != "image") {
        *at_once.entry(at).or_insert(0) += 1;
    }
    let most = at_once.values().max().unwrap();
    assert!(*most <= crate::base::limits::CALLS_PER_POD, "{most} at once");
}
