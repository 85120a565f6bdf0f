//! Sandbox changes, and the containers that start in a new sandbox.

use super::*;

#[test]
fn sandbox_change_table() {
    let always = simple("Always");
    check("no sandbox at all", &always, "", "new sandbox 0 | start app");
    check(
        "more than one ready",
        &always,
        "sandbox running; sandbox#1 running; app@1 running",
        "new sandbox 2 | start app",
    );
    check("older one ready", &always, "sandbox running; sandbox#1 created", "new sandbox 2 | start app");
    check("newest is not ready", &always, "sandbox#3 exited 0; app@3 running", "new sandbox 4 | start app");
    check("newest is stuck in removal", &always, "sandbox#3 removing", "new sandbox 4 | start app");
    check(
        "network mode differs: host wanted no",
        &always,
        "sandbox running hostnet",
        "new sandbox 1 | start app",
    );
    let host = pod("{hostNetwork: true, containers: [{name: app}]}");
    check("network mode differs: host wanted", &host, "sandbox running", "new sandbox 1 | start app");
    check("network mode differs: made, not started", &host, "sandbox created", "new sandbox 1 | start app");
    check("host network needs no IP", &host, "sandbox running hostnet; app running", "keep sandbox-0");
    check(
        "k2062 an engine that reports no address",
        &always,
        "sandbox running no-ip; app running",
        "keep sandbox-0",
    );
    check(
        "its network is gone, and the address may be another pod's",
        &always,
        "sandbox running no-ip lost; app running",
        "new sandbox 1 | start app",
    );
    check(
        "lost namespaces count on the host's network too",
        &host,
        "sandbox running hostnet lost; app running",
        "new sandbox 1 | start app",
    );
    check(
        "somebody wants the pod from the beginning",
        &always,
        "sandbox running restart; app running",
        "new sandbox 1 | start app",
    );
    for (pod, flags) in [(&host, "hostnet unfinished"), (&always, "unfinished")] {
        check(
            "the engine ended before the start was over: no container can join it",
            pod,
            &format!("sandbox running {flags}; app cannot-run 128"),
            "new sandbox 1 | start app",
        );
    }
    check(
        "IP not known before it is inspected",
        &always,
        "sandbox running uninspected; app running",
        "keep sandbox-0",
    );
    check("made, not started: adopted", &always, "sandbox created", "keep sandbox-0, start it | start app");
    check(
        "dead older ones do not matter",
        &always,
        "sandbox exited 0; sandbox#1 running; app@1 running",
        "keep sandbox-1",
    );
    check("otherwise", &always, "sandbox running; app running", "keep sandbox-0");
    check(
        "another UID's sandbox does not count",
        &always,
        "sandbox#7 running uid=old; app#3 running uid=old",
        "new sandbox 0 | start app",
    );
    check(
        "attempt at the end of numbers",
        &always,
        "sandbox#4294967295 exited 0",
        "new sandbox 4294967295 | start app",
    );
}

#[test]
fn new_sandbox_steps() {
    let never = simple("Never");
    check("A1 Never, no container ever: retried", &never, "sandbox exited 0", "new sandbox 1 | start app");
    check(
        "A1 Never, made but never ran: retried",
        &never,
        "sandbox exited 0; app created",
        "new sandbox 1 | start app",
    );
    check("A1 Never, one ran", &never, "sandbox exited 0; app running", "finish");
    check("A1 Never, one ended", &never, "sandbox exited 0; app exited 0", "finish");
    check("A1 Never, sandbox removed, one ended", &never, "app exited 0", "finish");
    let own = pod("{restartPolicy: Never, containers: [{name: a, restartPolicy: Always}, {name: b}]}");
    let seen = "sandbox exited 0; a exited 137; b exited 137";
    check("A1 Never, but one always restarts", &own, seen, "new sandbox 1 | start a");
    let two = pod("{restartPolicy: Never, containers: [{name: a}, {name: b}]}");
    check("A1 Never, one never ran", &two, "sandbox exited 0; a exited 0", "new sandbox 1 | start b");
    check(
        "A1 Never, one made only",
        &two,
        "sandbox exited 0; a exited 1; b created",
        "new sandbox 1 | start b",
    );
    let both = pod("{restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}");
    check(
        "A2 OnFailure leaves out what exited 0",
        &both,
        "sandbox exited 0; a exited 0; b exited 1",
        "new sandbox 1 | start b",
    );
    check(
        "A2 OnFailure takes what still runs",
        &both,
        "sandbox exited 0; a running; b exited 0",
        "new sandbox 1 | start a",
    );
    let mixed = pod("{containers: [{name: a, restartPolicy: OnFailure}, {name: b}]}");
    check(
        "A2 container level overrides pod level",
        &mixed,
        "sandbox exited 0; a exited 0; b exited 0",
        "new sandbox 1 | start b",
    );
    check("A3 list empty, some created", &both, "sandbox exited 0; a exited 0; b exited 0", "finish");
    let done = pod("{containers: [{name: a, restartPolicy: Never}]}");
    check("A3 container level Never, ended", &done, "sandbox exited 0; a exited 3", "finish");
    check("A3 container level Never, runs", &done, "sandbox exited 0; a running", "finish");
    let init = pod("{initContainers: [{name: i}, {name: j}], containers: [{name: app}]}");
    check("A4 init exists: only the first", &init, "", "new sandbox 0 | start i");
    check(
        "A4 init evidence of the sandbox before does not count",
        &init,
        "sandbox exited 0; i exited 0; j exited 0; app running",
        "new sandbox 1 | start i",
    );
    let failed = pod("{initContainers: [{name: i, restartPolicy: Never}], containers: [{name: app}]}");
    check("A failed init that does not restart", &failed, "sandbox exited 0; i exited 1", "finish");
    check("A5 the list", &both, "", "new sandbox 0 | start a, b");
    let mut deleted = simple("Always");
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::plan::testing::at(0)));
    check("deletionTimestamp: nothing starts", &deleted, "", "finish");
    check("deletionTimestamp: exited stays so", &deleted, "sandbox running; app exited 1", "finish");
    check(
        "deletionTimestamp: running is left to the worker",
        &deleted,
        "sandbox running; app running",
        "keep sandbox-0",
    );
}

#[test]
fn k134153_wall_clock_orders_nothing() {
    let app = simple("OnFailure");
    let mut seen = observed(&app, "sandbox exited 0; sandbox#1 running; app@0 exited 1; app#1@1 exited 0");
    let plan = |seen: &Observed| show(&app, &compute(&app, seen, &Probes::default()));
    assert_eq!(plan(&seen), "finish");
    // Attempt 1 was made "before" attempt 0: the clock was set back.
    for owned in &mut seen.all {
        owned.created = owned.created.map(|_| crate::plan::testing::at(-i64::from(owned.attempt) * 3600));
    }
    assert_eq!(plan(&seen), "finish");
}

#[test]
fn a_sandbox_that_was_made_late_does_not_replace_one_of_its_attempt_that_runs() {
    let pod = simple("Always");
    let mut seen = observed(&pod, "sandbox running; app running; sandbox created");
    // Its id would sort first.
    seen.all[2].id = "a".into();
    let actions = compute(&pod, &seen, &Probes::default());
    assert_eq!(show(&pod, &actions), "keep sandbox-0");
}

#[test]
fn a_sandbox_that_the_pod_does_not_count_on_replaces_none() {
    let pod = simple("Always");
    let mut seen = observed(&pod, "sandbox running; app running; sandbox#1 created");
    seen.all[2].start_sent = true;
    let decided = |seen: &Observed| show(&pod, &compute(&pod, seen, &Probes::default()));
    assert_eq!(decided(&seen), "keep sandbox-0");
    assert_eq!(
        crate::plan::surplus(Some(&pod), &seen, &Default::default(), Default::default()),
        ["sandbox-1"]
    );
    // Its attempt number is not reused.
    let mut dead = observed(&pod, "sandbox exited 0; sandbox#1 created");
    dead.all[1].start_sent = true;
    assert!(decided(&dead).starts_with("new sandbox 2"), "{}", decided(&dead));
}
