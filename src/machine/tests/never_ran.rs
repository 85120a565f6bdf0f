//! Tests that a container that never ran does not count as an instance that ended, however slow its removal is.

use super::rig::{Hurt, Rig, ms, pod, s};
use crate::machine::Hint;

const NEVER: &str = "{restartPolicy: Never, containers: [{name: app}]}";

/// Two daemons die: one between create and start, one while Docker cannot finish the removal.
#[test]
fn what_never_ran_and_is_being_removed_when_a_daemon_begins_is_no_end() {
    let mut rig = Rig::fresh();
    rig.run(&pod(NEVER));
    rig.pass_until("start app#0");
    let id = rig.id("app#0");
    let mut rig = rig.reborn();
    rig.engine.refuse_removal(&id, true);
    rig.run(&pod(NEVER));
    rig.pass(s(5));
    rig.hint(Hint::All);
    rig.pass(s(5));
    let mut rig = rig.reborn();
    rig.run(&pod(NEVER));
    rig.pass(s(100));
    rig.engine.refuse_removal(&id, false);
    rig.pass(s(600));
    assert_eq!(rig.status(), "Running, app: running");
}

/// The wish changes while a container is made, and Docker cannot remove the old one.
#[test]
fn what_was_made_for_an_old_wish_and_is_being_removed_is_no_end() {
    let mut rig = Rig::fresh();
    rig.engine.add_image("other", true);
    rig.hurt("create app#0", 1, Hurt::Slow(ms(400)));
    rig.run(&pod(NEVER));
    rig.pass(ms(200));
    rig.engine.refuse_removal(&rig.id("app#0"), true);
    rig.run(&pod("{restartPolicy: Never, containers: [{name: app, image: other}]}"));
    rig.pass(s(2));
    rig.hint(Hint::All);
    rig.pass(s(120));
    assert_eq!(rig.status(), "Running, app: running");
}

/// It is removed by hand while it waits for its start.
#[test]
fn what_somebody_removes_before_it_is_started_is_no_end() {
    let mut rig = Rig::fresh();
    rig.hurt(
        "start app#0",
        u32::MAX,
        Hurt::Says(super::rig::refusal(crate::runtime::RefusalKind::NotSent, 0, "later")),
    );
    rig.run(&pod(NEVER));
    rig.pass(s(3));
    let id = rig.id("app#0");
    rig.engine.refuse_removal(&id, true);
    let now = rig.now();
    drop(rig.engine.perform(&crate::runtime::Call::Remove { id: id.clone(), force: false }, now));
    rig.hint(Hint::All);
    rig.pass(s(60));
    rig.heal();
    rig.pass(s(300));
    assert_eq!(rig.status(), "Running, app: running");
}

/// The first container never ran, and cannot be removed.
#[test]
fn what_never_ran_and_stays_is_no_restart() {
    const ALWAYS: &str = "{containers: [{name: app}]}";
    let restarts = |rig: &Rig| rig.last_status().container_statuses.unwrap().remove(0).restart_count;
    let mut rig = Rig::fresh();
    rig.hurt("start app#0", 1, Hurt::Says(super::rig::timeout()));
    rig.hurt("remove app#0", u32::MAX, Hurt::Says(super::rig::no_space()));
    rig.run(&pod(ALWAYS));
    rig.pass(s(200));
    assert!(rig.running().contains("app#1"), "{:?}", rig.calls);
    assert_eq!(restarts(&rig), 0);
    let labels = |rig: &Rig, words: &str| rig.engine.get(&rig.id(words)).unwrap().body.labels.clone();
    let told = |rig: &Rig, words: &str| labels(rig, words).contains_key(crate::runtime::labels::NEVER_RAN);
    assert!(told(&rig, "app#1") && !told(&rig, "app#0"), "nothing else is labelled");
    // The next daemon reports the same, though the container that never ran can be removed now.
    let mut rig = rig.reborn();
    rig.run(&pod(ALWAYS));
    rig.pass(s(5));
    assert!(rig.engine.containers().count() == 2 && rig.running().contains("app#1"));
    assert_eq!(restarts(&rig), 0);
    let (id, now) = (rig.id("app#1"), rig.now());
    rig.engine.crash(&id, 1, now);
    rig.pass(s(5));
    assert!(rig.running().contains("app#2"));
    assert_eq!(restarts(&rig), 1);
    let mut rig = rig.reborn();
    rig.run(&pod(ALWAYS));
    rig.pass(s(5));
    assert_eq!(restarts(&rig), 1);
}
