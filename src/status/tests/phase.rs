//! Phase (upstream `getPhase`).

use super::*;

#[test]
fn phase_table() {
    let check = |row: &str, pod: &DesiredPod, seen: &str, expected: &str| {
        assert_eq!(case(pod, &format!("{UP}{seen}")).phase(), expected, "row {row}");
    };
    let init = |policy: &str| {
        pod(&format!(
            "{{restartPolicy: {policy}, initContainers: [{{name: i}}, {{name: j}}], containers: [{{name: app}}]}}"
        ))
    };
    check("1 failed plain init, Never", &init("Never"), "i exited 1", "Failed");
    check("1 failed plain init that restarts, OnFailure", &init("OnFailure"), "i exited 1", "Pending");
    let own = pod("{initContainers: [{name: i, restartPolicy: Never}], containers: [{name: app}]}");
    check("1 failed plain init, container level Never", &own, "i exited 1", "Failed");
    check("2 pending init: no instance", &init("Always"), "", "Pending");
    check("2 pending init: runs", &init("Always"), "i running", "Pending");
    check("2 pending init: made", &init("Always"), "i created", "Pending");
    check("2 pending init: the second of two", &init("Never"), "i exited 0", "Pending");
    let side = pod(
        "{initContainers: [{name: s, restartPolicy: Always, startupProbe: {}}], containers: [{name: app}]}",
    );
    check("3 pending sidecar, no regular in this sandbox", &side, "s running; app@7 running", "Pending");
    check("3 pending sidecar, regular in this sandbox", &side, "s running; app running", "Running");
    check("sidecar that ended does not count", &side, "s exited 1; app running", "Running");
    let two =
        |policy: &str| pod(&format!("{{restartPolicy: {policy}, containers: [{{name: a}}, {{name: b}}]}}"));
    check("4 waiting beside a running one", &two("Always"), "a running", "Pending");
    check("4 made, never ran", &two("Always"), "a running; b created", "Pending");
    check("5 running", &two("Always"), "a running; b running", "Running");
    check("5 running beside one that ended", &two("Never"), "a running; b exited 1", "Running");
    check(
        "5 waiting after it ran counts as stopped",
        &two("Always"),
        "a running; b exited 1; b#1 created",
        "Running",
    );
    for (policy, zero, some) in [
        ("Always", "Running", "Running"),
        ("OnFailure", "Succeeded", "Running"),
        ("Never", "Succeeded", "Failed"),
    ] {
        check(&format!("6 {policy}, all exited 0"), &two(policy), "a exited 0; b exited 0", zero);
        check(&format!("6 {policy}, some exited 1"), &two(policy), "a exited 0; b exited 1", some);
        check(&format!("6 {policy}, all exited 1"), &two(policy), "a exited 1; b exited 1", some);
        for (code, expected) in [("0", zero), ("1", some)] {
            let rows = [
                ("static", Source::File, expected),
                ("of the API", Source::Api, if code == "0" { "Succeeded" } else { "Failed" }),
            ];
            for (what, source, expected) in rows {
                let mut pod = two(policy);
                pod.source = source;
                let case = Case { terminal: true, ..case(&pod, &format!("{UP}a exited 0; b exited {code}")) };
                assert_eq!(
                    case.phase(),
                    expected,
                    "row 6a/6b {policy}, being finalised, {what}, code {code}"
                );
            }
        }
    }
    check("6 stuck in removal is a failure", &two("Never"), "a exited 0; b removing", "Failed");
    let rule = pod(
        "{restartPolicy: Never, containers: [{name: app, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}",
    );
    check("6c a rule restarts it", &rule, "app exited 42", "Running");
    check("6e no rule restarts it", &rule, "app exited 41", "Failed");
    let waits = case(&two("OnFailure"), &format!("{UP}a exited 0; b exited 1"))
        .waits("b", "CrashLoopBackOff", "m")
        .phase();
    assert_eq!(waits, "Running", "row 6c, everything in CrashLoopBackOff");
    let waits =
        case(&app("Always"), &format!("{UP}app exited 0")).waits("app", "CrashLoopBackOff", "m").phase();
    assert_eq!(waits, "Running", "row 6c, waiting after code 0 is never succeeded");
    check("7 nothing was seen", &two("Always"), "", "Pending");
    assert_eq!(case(&pod("{containers: []}"), "").phase(), "Pending", "row 7, no containers");
}

/// A start of which Docker told nothing in time: the container was made anew, and the first one ran late all the same
/// and was killed as the older one. The next one is about to start.
#[test]
fn an_end_beside_a_newer_instance_that_is_made_ends_no_pod() {
    for policy in ["Never", "OnFailure"] {
        for code in ["0", "143"] {
            let app = app(policy);
            let before = case(&app, &format!("{UP}app running; app#1 created")).status();
            let case = case(&app, &format!("{UP}app exited {code}; app#1 created")).after(before.clone());
            assert_eq!(
                (before.phase.as_deref(), case.phase().as_str()),
                (Some("Pending"), "Running"),
                "{policy} {code}"
            );
            let last = case.status();
            let runs = super::case(&app, &format!("{UP}app exited {code}; app#1 running")).after(last);
            assert_eq!(runs.phase(), "Running", "{policy} {code}");
            let finalised = Case { terminal: true, ..case };
            let expected = if policy == "Never" || code == "0" { "Failed" } else { "Running" };
            assert_eq!(finalised.phase(), expected, "{policy} {code}");
        }
    }
}

#[test]
fn phase_is_sticky() {
    let old = |phase: &str| PodStatus {
        phase: Some(phase.into()),
        reason: Some("Evicted".into()),
        message: Some("low on disk".into()),
        ..PodStatus::default()
    };
    let app = app("Always");
    for phase in ["Succeeded", "Failed"] {
        let status = case(&app, "sandbox running; app running").after(old(phase)).status();
        assert_eq!(status.phase.as_deref(), Some(phase), "against the last status");
        assert_eq!(status.reason.as_deref(), Some("Evicted"), "reason belongs to the phase");
        let mut from_api = app.clone();
        from_api.status = old(phase);
        let case = case(&from_api, "sandbox running; app running").after(old("Running"));
        assert_eq!(case.phase(), phase, "against the API");
    }
    let status = case(&app, "sandbox running; app running").after(old("Pending")).status();
    assert_eq!(
        (status.phase.as_deref(), status.reason, status.message),
        (Some("Running"), None, None),
        "another phase, another reason"
    );
    let status = case(&app, "sandbox running; app running").after(old("Running")).status();
    assert_eq!(status.message.as_deref(), Some("low on disk"), "same phase keeps it");
    let mut from_api = app.clone();
    from_api.status = old("Running");
    let bare = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
    let status = case(&from_api, "sandbox running; app running").after(bare).status();
    assert_eq!(status.reason.as_deref(), Some("Evicted"), "where empty, the API's");
}

#[test]
fn illegal_transitions_are_not_believed() {
    let check = |row: &str, pod: &DesiredPod, before: &str, after: &str, legal: bool| {
        let old = case(pod, before).status();
        let new = case(pod, after).after(old.clone()).status();
        assert_eq!(new != old, legal, "row: {row}");
    };
    let ended = |code: i64| format!("sandbox running; app exited {code}");
    check("Always", &app("Always"), &ended(0), "sandbox running; app running", true);
    check("OnFailure, code 0", &app("OnFailure"), &ended(0), "sandbox running; app running", false);
    check(
        "OnFailure, code 1",
        &app("OnFailure"),
        &ended(1),
        "sandbox running; app#1 running; app exited 1",
        true,
    );
    check("Never", &app("Never"), &ended(1), "sandbox running; app running", false);
    let rule = pod(
        "{restartPolicy: Never, containers: [{name: app, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}",
    );
    check("a rule allows it", &rule, &ended(42), "sandbox running; app#1 running; app exited 42", true);
    check("no rule allows it", &rule, &ended(41), "sandbox running; app#1 running", false);
    let side = pod(
        "{restartPolicy: Never, initContainers: [{name: s, restartPolicy: Always}, {name: i}], containers: [{name: app}]}",
    );
    check("sidecar", &side, "sandbox running; s exited 1", "sandbox running; s#1 running", true);
    check("plain init, Never", &side, "sandbox running; i exited 0", "sandbox running; i#1 running", false);
    let init = pod("{restartPolicy: OnFailure, initContainers: [{name: i}], containers: [{name: app}]}");
    check(
        "plain init in a new sandbox",
        &init,
        "sandbox running; i exited 0",
        "sandbox#1 running; i#1@1 running",
        true,
    );
}

/// A sidecar is stopped before its pod has failed; the pod's ports and resources are in use until then.
#[test]
fn no_end_while_something_runs() {
    let side = pod(
        "{restartPolicy: Never, initContainers: [{name: s, restartPolicy: Always}, {name: i}], containers: [{name: app}]}",
    );
    let before = case(&side, "sandbox running; s running; i running").status();
    let stopping = case(&side, "sandbox running; s running; i exited 1").after(before);
    assert_eq!(stopping.phase(), "Pending");
    let stopping = stopping.status();
    assert_eq!(case(&side, "sandbox running; s exited 0; i exited 1").after(stopping).phase(), "Failed");
    assert_eq!(case(&side, "s running; i exited 1").phase(), "Pending", "seen for the first time");
    let failed = case(&side, "s exited 0; i exited 1").status();
    let risen = case(&side, "s running; i exited 1").after(failed);
    assert_eq!(risen.phase(), "Failed", "what has failed stays so, whatever somebody starts");
}
