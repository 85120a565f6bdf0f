//! Tests of containers that Docker denies again and again: removed by hand, or said to be gone while they run on.

use super::rig::{Hurt, Rig, app, refusal, s};
use crate::machine::Hint;
use crate::runtime::RefusalKind;

/// Five were made each second, without an end, and ran at the same time.
#[test]
fn a_docker_that_denies_what_it_lists_makes_no_storm_of_containers() {
    let mut rig = Rig::up(&app());
    let gone = refusal(RefusalKind::NoSuchContainer, 404, "No such container: feed");
    rig.hurt("inspect app", u32::MAX, Hurt::Says(gone));
    let (id, now) = (rig.id("app#0"), rig.now());
    rig.engine.crash(&id, 1, now);
    for _ in 0..600 {
        rig.hint(Hint::All);
        rig.pass(s(1));
    }
    assert!(rig.running().len() < 12, "{:?}", rig.running());
    let made = rig.calls.iter().filter(|call| format!("{call:?}").contains("create app")).count();
    assert!((3..12).contains(&made), "{made} in ten minutes");
}

#[test]
fn what_is_removed_by_hand_again_and_again_backs_off_and_the_first_comes_at_once() {
    let mut rig = Rig::up(&app());
    let (mut waits, mut shown) = (Vec::new(), std::collections::BTreeSet::new());
    for _ in 0..4 {
        remove(&mut rig);
        let begun = rig.now().mono;
        for _ in 0..400 {
            rig.pass(s(1));
            if rig.running().len() == 2 {
                break;
            }
            shown.insert(rig.status());
        }
        waits.push(rig.now().mono.since(begun).as_secs() / 10 * 10);
    }
    assert_eq!(waits, [0, 10, 20, 40], "{shown:?}");
    assert!(shown.contains("Running, app: CrashLoopBackOff"), "{shown:?}");
    // Long after that it is a first one again.
    rig.pass(s(1000));
    remove(&mut rig);
    rig.pass(s(3));
    assert_eq!(rig.running().len(), 2);
}

/// Somebody removes the running container, by force.
fn remove(rig: &mut Rig) {
    let name = rig.running().into_iter().find(|name| name.starts_with("app#")).unwrap();
    let (id, now) = (rig.id(&name), rig.now());
    rig.engine.remove_behind_our_back(&id, now);
    rig.hint(Hint::All);
}
