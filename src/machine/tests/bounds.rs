//! Tests that memory does not grow over any length of time.

use super::rig::{Hurt, Rig, app, ms, no_space, pod, pod_with, s, stop};
use crate::runtime::Call;
use crate::runtime::fake::Behaviour;

#[test]
fn hundreds_of_crashes_leave_nothing_behind() {
    let mut rig = Rig::up(&app());
    let crash = |rig: &mut Rig| {
        let name = rig.running().into_iter().find(|n| n.starts_with("app")).unwrap();
        let (id, now) = (rig.id(&name), rig.now());
        rig.engine.crash(&id, 1, now);
        rig.pass(s(601));
        rig.calls.clear();
        rig.log.clear();
        rig.reports.clear();
    };
    for _ in 0..10 {
        crash(&mut rig);
    }
    let size = rig.machine.size();
    for _ in 0..300 {
        crash(&mut rig);
    }
    assert_eq!(rig.machine.size(), size);
    assert_eq!(rig.engine.containers().count(), 3);
}

#[test]
fn restarts_edits_and_failures_leave_nothing_behind() {
    let mut rig = Rig::fresh();
    let mut sizes = Vec::new();
    for round in 0..60 {
        let image = format!("image:{round}");
        rig.engine.add_image(&image, true);
        // Other names and images under one UID, and every kind of failure in between.
        let edited = pod(&format!(
            "{{containers: [{{name: c{round}, image: '{image}'}}, {{name: d{round}, image: 'no-such:{round}'}}]}}"
        ));
        rig.hurt("create POD", 1, Hurt::Says(no_space()));
        rig.hurt("start", 2, Hurt::Says(no_space()));
        rig.hurt("inspect", 1, Hurt::Says(super::rig::timeout()));
        rig.hurt("remove", 2, Hurt::Says(no_space()));
        rig.run(&edited);
        rig.pass(s(40));
        let sandbox = rig.running().into_iter().find(|n| n.contains("POD"));
        if let Some(sandbox) = sandbox {
            let call = Call::Remove { id: rig.id(&sandbox), force: true };
            rig.by_hand(&call);
        }
        rig.pass(s(40));
        if round % 3 == 0 {
            rig.run(&pod_with(&format!("uid-{round}"), "{containers: [{name: app}]}"));
            rig.pass(s(40));
            rig.wish(stop(None));
            rig.pass(s(40));
        }
        rig.heal();
        rig.run(&app());
        rig.pass(s(700));
        sizes.push(rig.machine.size());
        rig.calls.clear();
        rig.log.clear();
        rig.reports.clear();
        rig.pulls.clear();
    }
    let (early, late) = (sizes.get(6..30).unwrap().iter().max(), sizes.get(45..).unwrap().iter().max());
    assert!(late <= early, "it grows: {sizes:?}");
}

#[test]
fn a_crash_loop_of_hours_keeps_few_lines_and_few_containers() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    rig.run(&app());
    rig.pass(s(1000));
    rig.log.clear();
    rig.pass(s(10 * 3600));
    // 120 restarts in ten hours. Five lines each: end, wait, create, start, running. The main loop counts the wait, the
    // create and the start, which are events, and does not log them again.
    assert!(rig.log.len() <= 120 * 5, "{} lines", rig.log.len());
    assert_eq!(rig.engine.containers().count(), 2);
}
