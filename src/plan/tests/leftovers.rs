//! Stop order and surplus containers.

use super::*;
use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::plan::{DeadPolicy, RunState, allowance, next_due};

#[test]
fn stop_order() {
    let pod = pod(
        "{initContainers: [{name: s, restartPolicy: Always}, {name: i}, {name: t, restartPolicy: Always}], containers: [{name: a}, {name: b}]}",
    );
    let check = |row: &str, seen: &str, expected: &str| {
        let seen = observed(&pod, seen);
        let ids: Vec<&str> = stop_now(&seen, |_| true).into_iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids.join(" "), expected, "row: {row}");
    };
    check(
        "regular ones first, together",
        "sandbox running; s running; t running; a running; b running",
        "a-0 b-0",
    );
    check("plain init with them", "sandbox running; s running; i running", "i-0");
    check("last sidecar next", "sandbox running; s running; t running; a exited 0; b removing", "t-0");
    check("then the one before", "sandbox running; s running; t exited 0; a exited 0", "s-0");
    check("the sandbox last", "sandbox running; s exited 0; t exited 0; a created", "sandbox-0");
    check("every sandbox", "sandbox running; sandbox#1 running", "sandbox-0 sandbox-1");
    check(
        "each UID in its own order",
        "sandbox running; a running; sandbox running uid=old; t running uid=old",
        "a-0 old/t-0",
    );
    check("nothing runs", "sandbox exited 0; a exited 0", "");
    let seen = observed(&pod, "sandbox running; a running; b running");
    let picked = stop_now(&seen, |c| c.container_name() == Some("b"));
    assert_eq!(picked.len(), 1, "only what is picked counts");
}

#[test]
fn surplus_table() {
    let wanted =
        pod("{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: app}]}");
    let check = |row: &str, seen: &str, expected: &str, unwanted: &str| {
        let seen = observed(&wanted, seen);
        assert_eq!(
            surplus(Some(&wanted), &seen, &DeadPolicy::default(), Mono::default()).join(" "),
            expected,
            "row: {row}"
        );
        assert_eq!(
            surplus(None, &seen, &DeadPolicy::default(), Mono::default()).join(" "),
            unwanted,
            "row, pod not wanted: {row}"
        );
    };
    check(
        "newest runs: newest dead kept",
        "sandbox running; app exited 1; app#1 exited 1; app#2 running",
        "app-0",
        "app-0 app-1",
    );
    check(
        "newest dead: it and no more",
        "sandbox running; app exited 1; app#1 exited 1; app#2 exited 1",
        "app-0 app-1",
        "app-0 app-1 app-2",
    );
    check(
        "newest made: it and the newest dead",
        "sandbox running; app exited 1; app#1 exited 1; app#2 created",
        "app-0",
        "app-0 app-1 app-2",
    );
    check("made for another definition", "sandbox running; app created hash=other", "app-0", "app-0");
    check("made for a sandbox that is gone", "sandbox#1 running; app@0 created", "app-0", "app-0");
    check("made, older than the newest", "sandbox running; app created; app#1 running", "app-0", "app-0");
    check(
        "stuck in removal: newest is left to Docker",
        "sandbox running; app exited 1; app#1 removing",
        "",
        "app-0 app-1",
    );
    check(
        "stuck in removal: tried again once it is not the newest",
        "sandbox running; app exited 1; app#1 removing; app#2 running",
        "app-1",
        "app-0 app-1",
    );
    check(
        "dead sandboxes but the newest",
        "sandbox exited 0; sandbox#1 exited 0; sandbox#2 exited 0",
        "sandbox-0 sandbox-1",
        "sandbox-0 sandbox-1 sandbox-2",
    );
    check(
        "containers before sandboxes",
        "sandbox exited 0 uid=old; app#5 exited 0 uid=old; sandbox running; app running",
        "old/app-5 old/sandbox-0",
        "old/app-5 old/sandbox-0",
    );
    check(
        "a sandbox in which something runs stays",
        "sandbox exited 0; sandbox#1 running; app@0 running",
        "",
        "",
    );
    check(
        "names that the spec does not have",
        "sandbox running; gone exited 0; gone#1 running",
        "gone-0",
        "gone-0",
    );
    check("plain init of the current sandbox", "sandbox running; i exited 1; i#1 exited 0", "i-0", "i-0 i-1");
    check(
        "plain init of an earlier sandbox",
        "sandbox#1 running; i@0 exited 0; s@0 exited 0; app@0 exited 0",
        "i-0",
        "app-0 i-0 s-0",
    );
    check("plain init while there is no newer sandbox", "sandbox exited 0; i exited 0", "", "i-0 sandbox-0");
    check("plain init while there is no sandbox", "i exited 0", "", "i-0");
    check("nothing", "", "", "");
}

/// None of them is ever started again: the remaining container is the only record that it existed, and
/// how it ended.
#[test]
fn what_was_added_and_has_ended_stays_with_its_pod_up_to_a_bound() {
    let app = simple("Always");
    let gone = |pod: Option<&DesiredPod>, seen: &Observed| {
        surplus(pod, seen, &DeadPolicy::default(), Mono::default())
    };
    let up = "sandbox#1 running; app#1@1 running";
    for (seen, expected) in [
        ("look@0 exited 137 kind=ephemeral", ""),
        ("look@1 exited 0 kind=ephemeral; old@0 exited 1 kind=ephemeral", ""),
        ("look@0 created kind=ephemeral", "look-0"),
        ("look@1 created kind=ephemeral", ""),
    ] {
        let seen = observed(&app, &format!("{up}; {seen}"));
        assert_eq!(gone(Some(&app), &seen).join(" "), expected);
    }
    let seen = observed(&app, "sandbox exited 0; look exited 137 kind=ephemeral");
    assert_eq!(gone(Some(&app), &seen), [""; 0], "while no new sandbox is there");
    assert_eq!(gone(None, &seen), ["look-0", "sandbox-0"]);
    let mut many = observed(&app, up);
    many.all.extend((0..40).flat_map(|n| observed(&app, &format!("d{n}@0 exited 0 kind=ephemeral")).all));
    assert_eq!(gone(Some(&app), &many).len(), 40 - limits::ADDED_DEAD);
}

#[test]
fn k23881_a_thousand_crashes_keep_one_dead_container() {
    let app = simple("Always");
    let mut seen = observed(&app, "");
    let mut most = 0;
    for crash in 0..1000 {
        for _ in 0..4 {
            let actions = compute(&app, &seen, &Probes::default());
            carry_out(&app, &mut seen, &actions);
            let gone = surplus(Some(&app), &seen, &DeadPolicy::default(), Mono::default());
            seen.all.retain(|c| !gone.contains(&c.id));
        }
        most = most.max(seen.all.len());
        let running = seen.all.iter_mut().find(|c| c.container_name() == Some("app") && c.state.is_running());
        let running = running.unwrap_or_else(|| panic!("crash {crash}: nothing runs"));
        assert_eq!(running.attempt, crash);
        running.state = observed(&app, "app exited 1").all.remove(0).state;
    }
    assert_eq!(most, 3, "sandbox, running, last dead");
    let mut heap = observed(&app, "sandbox running");
    heap.all.extend((0..1000).flat_map(|n| observed(&app, &format!("app#{n} exited 1")).all));
    let gone = surplus(Some(&app), &heap, &DeadPolicy::default(), Mono::default());
    assert_eq!((gone.len(), gone[0].as_str(), gone[998].as_str()), (999, "app-0", "app-998"));
}

/// Number of dead containers of a live pod that are kept: the meaning of
/// `--maximum-dead-containers-per-container`.
#[test]
fn as_many_dead_ones_are_kept_as_the_policy_says() {
    let app = simple("Always");
    let seen = observed(&app, "sandbox running; app exited 1; app#1 exited 1; app#2 exited 0; app#3 running");
    let check = |per_container: i32, expected: &str| {
        let policy =
            DeadPolicy { per_container: usize::try_from(per_container).ok(), ..DeadPolicy::default() };
        let gone = surplus(Some(&app), &seen, &policy, Mono::default());
        assert_eq!(gone.join(" "), expected, "{per_container}");
        let gone = surplus(None, &seen, &policy, Mono::default());
        assert_eq!(gone.join(" "), "app-0 app-1 app-2", "of a pod that nobody wants");
    };
    check(-1, "");
    check(3, "");
    check(2, "app-0");
    check(1, "app-0 app-1");
    check(0, "app-0 app-1");
}

#[test]
fn a_young_dead_one_is_kept_until_its_time_has_come() {
    let app = simple("Always");
    let mut seen =
        observed(&app, "sandbox running; app exited 1; app#1 exited 1; app#2 exited 0; app#3 running");
    let at = |seconds: u64| Mono(Duration::from_secs(seconds));
    for (id, seconds) in [("app-0", None), ("app-1", Some(100)), ("app-2", Some(200))] {
        let state = seen.all.iter_mut().find(|c| c.id == id).map(|c| &mut c.state);
        let Some(RunState::Exited(exit)) = state else { panic!("{id} has not ended") };
        exit.seen = seconds.map(at);
    }
    let policy = DeadPolicy { min_age: Duration::from_secs(60), ..DeadPolicy::default() };
    let check = |now: u64, expected: &str, next: Option<u64>| {
        assert_eq!(surplus(Some(&app), &seen, &policy, at(now)).join(" "), expected, "{now}");
        assert_eq!(next_due(&app, &seen, &policy, at(now)), next.map(at), "{now}");
    };
    // The first had ended before the daemon looked: its age counts from the daemon's start.
    check(10, "", Some(60));
    check(60, "app-0", Some(160));
    check(160, "app-0 app-1", Some(260));
    check(300, "app-0 app-1", None);
}

/// The bound of all pods together: the meaning of `--maximum-dead-containers`.
#[test]
fn all_pods_together_keep_no_more_than_the_bound_and_one_of_each_container() {
    let check = |dead: &[u32], most: usize, expected: Option<usize>| {
        assert_eq!(allowance(dead.iter().copied(), most), expected, "{dead:?} {most}");
    };
    check(&[], 0, None);
    check(&[2, 2, 2], 6, None);
    check(&[3, 2, 2], 6, Some(2));
    check(&[5, 5, 5, 5], 6, Some(1));
    check(&[1, 1, 1, 0], 2, Some(1));
    check(&[9], 0, Some(1));
}

/// Regression: an init container that had ended was begun again, or its twin stayed for good, when Docker carried out a create
/// late.
#[test]
fn of_two_of_one_attempt_the_one_that_ran_counts() {
    let wanted = pod("{initContainers: [{name: i}], containers: [{name: app}]}");
    let mut seen = observed(&wanted, "sandbox running; i exited 0; app running");
    let mut twin = seen.get("i-0").unwrap().clone();
    twin.id = "a-twin".to_owned();
    twin.state = RunState::Created;
    seen.all.push(twin);
    assert_eq!(seen.newest(&wanted.uid, "i").unwrap().id, "i-0");
    let gone = |seen: &str| {
        surplus(Some(&wanted), &observed(&wanted, seen), &DeadPolicy::default(), Mono::default()).join(" ")
    };
    assert_eq!(surplus(Some(&wanted), &seen, &DeadPolicy::default(), Mono::default()), ["a-twin"]);
    assert_eq!(gone("sandbox running; i exited 0; i#1 created; app running"), "i-1", "it is never started");
    assert_eq!(gone("sandbox running; i exited 1; i#1 created"), "", "it is started next");
}
