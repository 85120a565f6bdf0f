//! Regular containers in a sandbox that is kept.

use super::*;

#[test]
fn restart_policy_x_exit_code_x_state() {
    let start = "keep sandbox-0 | start app";
    for (policy, zero, failed) in
        [("Always", start, start), ("OnFailure", "finish", start), ("Never", "finish", "finish")]
    {
        let pod = simple(policy);
        let row = |row: &str, state: &str, expected: &str| {
            check(&format!("{policy}, {row}"), &pod, &format!("sandbox running; {state}"), expected);
        };
        row("no status", "", start);
        row("created", "app created", start);
        row("running", "app running", "keep sandbox-0");
        row("exit 0", "app exited 0", zero);
        row("exit 1", "app exited 1", failed);
        row("exit 137", "app exited 137", failed);
        row("exit 143", "app exited 143", failed);
        row("exit 0 but OOM-killed child", "app oom 0", zero);
        row("cannot run", "app cannot-run 127", failed);
        row("stuck in removal counts as 137", "app removing", failed);
    }
    check("unknown policy counts as Always", &simple("Sometimes"), "sandbox running; app exited 0", start);
    let two = pod("{restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}");
    check("done one beside a running one", &two, "sandbox running; a exited 0; b running", "keep sandbox-0");
    check(
        "done one beside a failed one",
        &two,
        "sandbox running; a exited 0; b exited 2",
        "keep sandbox-0 | start b",
    );
}

#[test]
fn running_container_table() {
    let cases = [
        (
            "Always",
            "",
            "hash=other",
            "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
        ),
        (
            "OnFailure",
            "",
            "hash=other",
            "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
        ),
        (
            "Never",
            "",
            "hash=other",
            "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
        ),
        (
            "Never",
            "",
            "hash=none",
            "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
        ),
        (
            "Always",
            "liveness app-0 failed",
            "",
            "keep sandbox-0 | start app | kill app-0 (LivenessProbe: Container app failed liveness probe, will be restarted)",
        ),
        (
            "OnFailure",
            "liveness app-0 failed",
            "",
            "keep sandbox-0 | start app | kill app-0 (LivenessProbe: Container app failed liveness probe, will be restarted)",
        ),
        ("Never", "liveness app-0 failed", "", "finish"),
        (
            "Always",
            "startup app-0 failed",
            "",
            "keep sandbox-0 | start app | kill app-0 (StartupProbe: Container app failed startup probe, will be restarted)",
        ),
        ("Never", "startup app-0 failed", "", "finish"),
        (
            "Always",
            "liveness app-0 failed; startup app-0 failed",
            "hash=other",
            "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
        ),
        ("Always", "liveness app-0 ok; startup app-0 ok; readiness app-0 failed", "", "keep sandbox-0"),
    ];
    for (policy, results, flags, expected) in cases {
        let row = format!("{policy}, running, {results}, {flags}");
        check_probed(
            &row,
            &simple(policy),
            &format!("sandbox running; app running {flags}"),
            results,
            expected,
        );
    }
    let kept = pod("{restartPolicy: Never, containers: [{name: app}, {name: log}]}");
    check_probed(
        "Never, liveness, another one kept",
        &kept,
        "sandbox running; app running; log running",
        "liveness app-0 failed",
        "keep sandbox-0 | kill app-0 (LivenessProbe: Container app failed liveness probe)",
    );
    let own = pod("{restartPolicy: Never, containers: [{name: app, restartPolicy: OnFailure}]}");
    check_probed(
        "container level policy is honoured",
        &own,
        "sandbox running; app running",
        "liveness app-0 failed",
        "keep sandbox-0 | start app | kill app-0 (LivenessProbe: Container app failed liveness probe, will be restarted)",
    );
    let rules = pod(
        "{containers: [{name: app, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [137]}}]}, {name: log}]}",
    );
    check_probed(
        "restart rules are not consulted",
        &rules,
        "sandbox running; app running; log running",
        "liveness app-0 failed",
        "keep sandbox-0 | kill app-0 (LivenessProbe: Container app failed liveness probe)",
    );
}

#[test]
fn restart_rules_table() {
    let pod = |policy: &str, rules: &str| {
        crate::plan::testing::pod(&format!(
            "{{restartPolicy: Never, containers: [{{name: app, {policy} restartPolicyRules: [{rules}]}}]}}"
        ))
    };
    let start = "keep sandbox-0 | start app";
    let rule = |action: &str, operator: &str, values: &str| {
        format!("{{action: {action}, exitCodes: {{operator: {operator}, values: {values}}}}}")
    };
    let ended = |code: i64| format!("sandbox running; app exited {code}");
    let never = "restartPolicy: Never,";
    let r = rule("Restart", "In", "[42, 43]");
    check("In, matches", &pod(never, &r), &ended(42), start);
    check("In, does not match, Never", &pod(never, &r), &ended(1), "finish");
    check("In, does not match, OnFailure", &pod("restartPolicy: OnFailure,", &r), &ended(1), start);
    check("In, does not match, OnFailure, 0", &pod("restartPolicy: OnFailure,", &r), &ended(0), "finish");
    check("In, does not match, Always", &pod("restartPolicy: Always,", &r), &ended(0), start);
    let not_in = rule("Restart", "NotIn", "[0]");
    check("NotIn, matches", &pod(never, &not_in), &ended(9), start);
    check("NotIn, does not match", &pod(never, &not_in), &ended(0), "finish");
    check(
        "unknown operator matches nothing",
        &pod(never, &rule("Restart", "Near", "[42]")),
        &ended(42),
        "finish",
    );
    check(
        "unknown action falls to the policy",
        &pod(never, &rule("Dance", "In", "[42]")),
        &ended(42),
        "finish",
    );
    check("rules need a policy of the container's own", &pod("", &r), &ended(42), "finish");
}

#[test]
fn strays_are_killed() {
    let app = simple("Always");
    let newer = "keep sandbox-0 | kill app-0 (Unknown: Container app has a newer instance)";
    check("two instances run", &app, "sandbox running; app running; app#1 running", newer);
    check(
        "an old instance was started by hand",
        &app,
        "sandbox running; app running; app#1 exited 1",
        "keep sandbox-0 | start app | kill app-0 (Unknown: Container app has a newer instance)",
    );
    check(
        "runs in another sandbox",
        &app,
        "sandbox#1 running; app@0 running",
        "keep sandbox-1 | start app | kill app-0 (Unknown: Container app is not in the pod's current sandbox, will be restarted)",
    );
    check(
        "name is not in the spec any more",
        &app,
        "sandbox running; app running; old running",
        "keep sandbox-0 | kill old-0 (Changed: Container old is not in the pod's spec)",
    );
    check(
        "was an init container",
        &app,
        "sandbox running; app running kind=init",
        "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)",
    );
    check(
        "was an init container and ended",
        &simple("OnFailure"),
        "sandbox running; app exited 0 kind=init",
        "keep sandbox-0 | start app",
    );
    check(
        "another UID is not ours to judge",
        &app,
        "sandbox running; app running; app running uid=old",
        "keep sandbox-0",
    );
    let init = pod("{initContainers: [{name: s, restartPolicy: Always}], containers: [{name: app}]}");
    check(
        "sidecar in another sandbox",
        &init,
        "sandbox#1 running; s@0 running",
        "keep sandbox-1 | start s | kill s-0 (Unknown: Container s is not in the pod's current sandbox)",
    );
}

#[test]
fn made_but_not_started_is_adopted() {
    let app = simple("Always");
    let start = StartRef { kind: ContainerKind::Regular, index: 0 };
    let check = |seen: &str, expected: Option<&str>| {
        let seen = observed(&app, seen);
        assert_eq!(made_for(&app, &seen, "sandbox-0", start).map(|c| c.id.as_str()), expected, "{seen:?}");
    };
    check("sandbox running; app#1 created; app exited 1", Some("app-1"));
    check("sandbox running; app created; app#1 exited 1", None);
    check("sandbox running; app@3 created", None);
    check("sandbox running; app created hash=other", None);
    check("sandbox running; app created kind=init", None);
    check("sandbox running", None);
}

#[test]
fn k129385_only_name_and_image_make_a_change() {
    let before = pod("{containers: [{name: app}]}");
    let after = pod(
        "{containers: [{name: app, env: [{name: A, value: b}], args: [x], resources: {limits: {cpu: '1'}}}]}",
    );
    let seen = observed(&before, "sandbox running; app running");
    let actions = compute(&after, &seen, &Probes::default());
    assert_eq!(show(&after, &actions), "keep sandbox-0");
    let image = pod("{containers: [{name: app, image: busybox:2}]}");
    let actions = compute(&image, &seen, &Probes::default());
    assert!(show(&image, &actions).contains("definition changed"));
}

#[test]
fn k2062_a_replaced_container_is_not_replaced_again() {
    // Image and ids of inspect differ from the request: only the hash label is compared.
    let app = simple("Always");
    let mut seen = observed(&app, "sandbox running; app running");
    seen.all[1].image = "sha256:0123".into();
    seen.all[1].image_id = String::new();
    let actions = compute(&app, &seen, &Probes::default());
    assert_eq!(show(&app, &actions), "keep sandbox-0");
}
