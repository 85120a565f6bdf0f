//! A container that never ran is no instance that ended, however long Docker takes to remove it.

use super::rig::{Hurt, Rig, ms, pod, s};
use crate::machine::Hint;

const NEVER: &str = "{restartPolicy: Never, containers: [{name: app}]}";

/// Two daemons die: one between create and start, one while Docker cannot end the removal.
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

/// The wish changes while a container is made, and Docker cannot remove what was made for the old one.
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

/// By hand, while it waits to be started.
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
