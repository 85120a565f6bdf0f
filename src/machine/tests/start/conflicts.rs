//! Tests of taken names: the four cases of kubernetes/kubernetes#40443, for sandboxes and containers.

use super::rig::{Hurt, ROOT, Rig, app, s, timeout};
use crate::runtime::{DockerError, RefusalKind, labels, names};

fn name(container: &str) -> String {
    names::container(&app().key, &app().uid, container, 0)
}

/// Another container already has the name of the first `container`.
fn taken(container: &str, owner: &[(&str, &str)], running: bool) -> Rig {
    let mut rig = Rig::fresh();
    let now = rig.now();
    rig.engine.plant(&name(container), owner, running, now);
    rig.run(&app());
    rig
}

#[test]
fn k40443_ours_is_adopted() {
    for (what, later) in [("create POD#0", "create app#0"), ("create app#0", "start app#0")] {
        let mut rig = Rig::fresh();
        // Docker carried out the create, and answers that the name is taken: by that very container.
        let taken =
            super::rig::refusal(RefusalKind::NameInUse(None), 409, "Conflict. The container name is in use");
        rig.hurt(what, 1, Hurt::DoneBut(taken));
        rig.run(&app());
        rig.pass(s(30));
        assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
        assert_eq!(rig.times(what).len(), 1, "made once");
        assert_eq!(rig.times(later).len(), 1);
        assert_eq!(rig.engine.containers().count(), 2);
    }
}

#[test]
fn k40443_stale_is_removed() {
    let app = app();
    for (container, kind) in [("POD", labels::TYPE_SANDBOX), ("app", labels::TYPE_CONTAINER)] {
        let stale = [
            (labels::ROOT_DIR, ROOT),
            (labels::TYPE, kind),
            (labels::POD_NAME, app.key.name.as_str()),
            (labels::POD_NAMESPACE, "default"),
            (labels::POD_UID, "an-older-one"),
            (labels::CONTAINER_NAME, container),
            (labels::RESTART_COUNT, "7"),
            (labels::SANDBOX_ATTEMPT, "7"),
        ];
        let mut rig = taken(container, &stale, false);
        rig.pass(s(30));
        assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
        assert_eq!(rig.times(&format!("remove {container}#0")).len(), 1);
        assert_eq!(rig.engine.containers().count(), 2);
    }
}

#[test]
fn k40443_stale_that_cannot_be_removed_loses_its_name() {
    let stale =
        [(labels::ROOT_DIR, ROOT), (labels::POD_UID, "an-older-one"), (labels::CONTAINER_NAME, "app")];
    let mut rig = taken("app", &stale, false);
    rig.engine.refuse_removal(&name("app"), true);
    rig.pass(s(600));
    assert!(rig.running().contains("app#0+"), "{:?}", rig.running());
    let tries = rig.times("create app#0").len();
    assert!(tries < 5, "{tries} tries in ten minutes");
    let log = rig.log.len();
    assert!(log < 100, "{log} lines in ten minutes");
}

#[test]
fn k40443_ghost_gets_a_suffix() {
    for container in ["POD", "app"] {
        let mut rig = Rig::fresh();
        rig.hurt(
            &format!("create {container}#0"),
            1,
            Hurt::Says(super::rig::refusal(RefusalKind::NameInUse(Some("feed".into())), 409, "in use")),
        );
        rig.run(&app());
        rig.pass(s(30));
        let other = if container == "POD" { "app#0" } else { "POD#0" };
        assert_eq!(rig.running(), [format!("{container}#0+"), other.to_owned()].into());
        assert_eq!(rig.logged(log::Level::Warn).len(), 1, "{:?}", rig.log);
    }
}

/// Regression: each create that a slow Docker did not answer in time was followed by one under another name, and Docker
/// went on with all of them: 76 containers had 316 directories.
#[test]
fn a_create_that_docker_has_not_answered_is_not_repeated_under_another_name() {
    let busy = || super::rig::refusal(RefusalKind::NameInUse(Some("feed".into())), 409, "in use");
    let after = |mut rig: Rig, held: u32, seconds: u64| {
        rig.hurt("create app#0", 1, Hurt::Says(timeout()));
        rig.hurt("create app#0", held, Hurt::Says(busy()));
        rig.run(&app());
        rig.pass(s(seconds));
        let has_other_name = format!("{:?}", rig.log).contains("a suffix is added");
        (rig.running().contains("app#0"), has_other_name)
    };
    assert_eq!(after(Rig::fresh_behind(), 3, 100), (true, false), "Docker has given it up");
    assert_eq!(after(Rig::fresh_behind(), u32::MAX, 115), (false, false));
    assert_eq!(after(Rig::fresh_behind(), u32::MAX, 200), (false, true), "the name is lost");
    // Those of other sources do not wait so long.
    assert_eq!(after(Rig::fresh(), u32::MAX, 25), (false, false));
    assert_eq!(after(Rig::fresh(), u32::MAX, 90), (false, true));
}

/// An engine that calls every name taken, without a holder that can be found.
#[test]
fn k40443_ghosts_for_ever_are_no_hot_loop() {
    for container in ["POD", "app"] {
        let mut rig = Rig::fresh();
        let taken = super::rig::refusal(RefusalKind::NameInUse(None), 409, "in use");
        rig.hurt(&format!("create {container}"), u32::MAX, Hurt::Says(taken));
        rig.run(&app());
        rig.pass(s(600));
        let tries = rig.calls.iter().filter(|(_, w)| w.starts_with(&format!("create {container}"))).count();
        assert!((15..40).contains(&tries), "{tries} tries in ten minutes");
        let lines = rig.log.len();
        assert!(lines <= 20, "{lines} lines in ten minutes: {:?}", rig.logged(log::Level::Warn));
        rig.heal();
        rig.pass(s(40));
        assert_eq!(rig.running().len(), 2);
    }
}

#[test]
fn k40443_foreign_backs_off() {
    for container in ["POD", "app"] {
        let mut rig = taken(container, &[("com.example", "theirs")], true);
        rig.pass(s(600));
        let tries = rig.times(&format!("create {container}#0")).len();
        assert!((15..40).contains(&tries), "{container}: {tries} tries in ten minutes");
        let waits = rig.waits("app");
        assert!(waits.contains("which podkeeper did not make"), "{container}: {waits:?}");
        assert!(!rig.calls.iter().any(|(_, w)| w.starts_with("remove") || w.starts_with("kill")));
        let lines = rig.logged(log::Level::Warn).len();
        assert!(lines <= 10, "{container}: {lines} lines: {:?}", rig.logged(log::Level::Warn));
        let now = rig.now();
        rig.engine.remove_behind_our_back(&name(container), now);
        rig.pass(s(40));
        assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
    }
}

#[test]
fn a_create_whose_answer_is_lost_is_found_and_gone_on_with() {
    let lost = || DockerError::Lost("broken pipe".into());
    for error in [lost(), timeout()] {
        for what in ["create POD#0", "create app#0"] {
            let mut rig = Rig::fresh();
            rig.hurt(what, 1, Hurt::DoneBut(error.clone()));
            rig.run(&app());
            rig.pass(s(60));
            assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
            assert_eq!(rig.times(what).len(), 1, "{what} {error:?}");
            assert!(!rig.calls.iter().any(|(_, w)| w.starts_with("remove")), "{what}: {:?}", rig.calls);
        }
    }
}

#[test]
fn a_start_whose_answer_is_lost_is_found_and_gone_on_with() {
    for error in [DockerError::Lost("broken pipe".into()), timeout()] {
        for what in ["start POD#0", "start app#0"] {
            let mut rig = Rig::fresh();
            rig.hurt(what, 1, Hurt::DoneBut(error.clone()));
            rig.run(&app());
            rig.pass(s(60));
            assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into());
            assert_eq!(rig.times(what).len(), 1, "{what} {error:?}");
            assert_eq!(rig.status(), "Running, app: running");
        }
    }
}

/// A container that was made behind our back during a stop is removed, not kept.
#[test]
fn what_was_made_after_a_stop_is_removed() {
    let mut rig = Rig::fresh();
    rig.hurt("create app#0", 1, Hurt::Slow(s(3)));
    rig.run(&app());
    rig.pass_until("start POD#0");
    rig.wish(super::rig::stop(None));
    rig.pass(s(60));
    assert!(rig.is("terminated"));
    assert_eq!(rig.engine.containers().count(), 0, "{:?}", rig.calls);
}
