//! Tests of wishes in quick succession: deleted and put back, edited, replaced.

use super::rig::{Rig, app, ms, pod_with, s, stop};
use crate::machine::Report;
use crate::runtime::Call;
use crate::runtime::fake::Behaviour;

/// Deleted, and back after some time: same UID or another, ignoring TERM or not. In the end exactly one set runs, and
/// the old one was dead before the new one was made.
#[test]
fn k104648_k107733_deleted_and_put_back() {
    for deaf in [false, true] {
        for (pause, uid) in
            [0, 1, 1000, 5000, 29_000, 31_000, 60_000].into_iter().flat_map(|p| [(p, "uid-1"), (p, "uid-2")])
        {
            let what = format!("deaf {deaf}, {uid} after {pause} ms");
            let mut rig = Rig::fresh();
            if deaf {
                rig.engine.behave("app", Behaviour::ignores_term());
            }
            rig.run(&app());
            rig.pass(s(5));
            let old = rig.id("app#0");
            rig.wish(stop(None));
            if pause > 0 {
                rig.pass(ms(pause));
            }
            let next = pod_with(uid, "{containers: [{name: app}]}");
            rig.run(&next);
            for _ in 0..1000 {
                rig.pass(ms(100));
                let apps = rig.running().into_iter().filter(|name| name.contains("app")).count();
                assert!(apps <= 1, "{what}: {:?}", rig.running());
            }
            assert_eq!(rig.running().len(), 2, "{what}: {:?}", rig.calls);
            assert!(rig.engine.get(&old).is_none(), "{what}: the old one is gone");
            assert!(rig.is("syncing"), "{what}");
            assert_eq!(rig.engine.containers().count(), 2, "{what}: {:?}", rig.calls);
            assert_eq!(rig.status(), "Running, app: running", "{what}");
        }
    }
}

#[test]
fn run_stop_run_read_at_once_is_a_restart() {
    let mut rig = Rig::up(&app());
    let old = rig.id("app#0");
    rig.slot.wish(crate::machine::Wish::Run(app()));
    rig.slot.wish(stop(None));
    rig.run(&app());
    rig.pass(s(30));
    assert!(rig.engine.get(&old).is_none());
    assert_eq!(rig.running().len(), 2);
    assert_eq!(rig.log.iter().filter(|(_, _, l)| l.contains("then started again")).count(), 0);
    assert_eq!(rig.log.iter().filter(|(_, _, l)| l.contains("is stopped")).count(), 1);
}

/// Ten edits in a second, each with another UID: the last one runs.
#[test]
fn k107733_ten_edits_in_a_second() {
    for pause in [0, 10, 100] {
        let mut rig = Rig::up(&app());
        for n in 0..10 {
            rig.run(&pod_with(&format!("uid-e{n}"), "{containers: [{name: app}]}"));
            if pause > 0 {
                rig.pass(ms(pause));
            }
        }
        rig.pass(s(60));
        assert_eq!(
            rig.running(),
            ["uid-e9/POD#0".to_owned(), "uid-e9/app#0".to_owned()].into(),
            "{pause} ms"
        );
        assert_eq!(rig.engine.containers().count(), 2, "{pause} ms");
    }
}

/// The manifest changed while the daemon was dead: the old set is stopped first, with its own grace.
#[test]
fn k112814_k97722_another_uid_is_replaced() {
    let old = pod_with("uid-0", "{terminationGracePeriodSeconds: 60, containers: [{name: app}]}");
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&old);
    rig.pass(s(5));
    let mut rig = rig.reborn();
    rig.engine.behave("app", Behaviour::default());
    rig.run(&app());
    rig.pass(s(120));
    assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
    let killed = rig.times("kill uid-0/app#0 SIGKILL");
    let made = rig.times("create POD#0");
    assert!(killed[0] >= 60_000 && made[0] > killed[0], "killed {killed:?}, made {made:?}");
    assert_eq!(rig.engine.containers().count(), 2, "what is left of the old one is removed");
    let freed = |report: &Report| match report {
        Report::Freed(uids, _) => Some(uids.clone()),
        _ => None,
    };
    let freed: Vec<_> = rig.reports.iter().filter_map(freed).collect();
    assert_eq!(freed, [["uid-0".to_owned()].into()]);
}

/// Both at once: the other UID is found beside the wanted containers, which run.
#[test]
fn another_uid_found_beside_the_wanted_one_stops_both_and_starts_one() {
    let mut rig = Rig::up(&app());
    let body = rig.engine.get(&rig.id("app#0")).unwrap().body.clone();
    let mut labels = body.labels.clone();
    labels.insert(crate::runtime::labels::POD_UID.into(), "uid-9".into());
    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let now = rig.now();
    rig.engine.plant("k8s_app_web-node_default_uid-9_0", &labels, true, now);
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "{:?}", rig.running());
    assert!(rig.running().iter().all(|name| !name.contains("uid-9")));
    assert!(rig.is("syncing"));
}

#[test]
fn gone_is_said_once_for_each_wish() {
    let mut rig = Rig::up(&app());
    rig.wish(stop(None));
    rig.pass(s(600));
    let gone = |rig: &Rig| rig.reports.iter().filter(|r| matches!(r, Report::Gone(_))).count();
    assert_eq!(gone(&rig), 1);
    rig.wish(stop(None));
    rig.pass(s(600));
    assert_eq!(gone(&rig), 2, "the later wish is answered too");
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 2, "and it can be wanted again");
    let phases: Vec<bool> = rig
        .reports
        .iter()
        .filter_map(|r| match r {
            Report::Status { terminating, .. } => Some(*terminating),
            _ => None,
        })
        .collect();
    assert_eq!(phases.last(), Some(&false));
}

#[test]
fn a_stop_of_nothing_ends_at_once() {
    let mut rig = Rig::fresh();
    rig.wish(stop(None));
    rig.pass(s(1));
    assert!(rig.is("terminated"));
    assert_eq!(rig.take_calls(), [""; 0]);
    assert!(matches!(rig.reports.last(), Some(Report::Gone(1))));
}

#[test]
fn removed_behind_our_back_it_is_made_again() {
    let mut rig = Rig::up(&app());
    for name in ["app", "POD"] {
        let there = rig.running().into_iter().find(|n| n.starts_with(name)).unwrap();
        let call = Call::Remove { id: rig.id(&there), force: true };
        rig.by_hand(&call);
        rig.pass(s(60));
        assert_eq!(rig.running().len(), 2, "{name}: {:?}", rig.calls);
    }
    assert!(rig.engine.containers().all(|c| c.state == crate::runtime::DockerState::Running || c.starts > 0));
}
