//! Init containers and sidecars.

use super::*;
use crate::plan::is_of_earlier_life;

const INIT: &str = "initContainers: [{name: i}, {name: j}], containers: [{name: app}]";

#[test]
fn init_container_table() {
    let always = pod(&format!("{{{INIT}}}"));
    let never = pod(&format!("{{restartPolicy: Never, {INIT}}}"));
    let row = |row: &str, seen: &str, expected: &str| {
        check(row, &always, &format!("sandbox running; {seen}"), expected)
    };
    row("no init has a status: index 0", "", "keep sandbox-0 | start i");
    row(
        "evidence of another sandbox does not count",
        "i@7 exited 0; j@7 exited 0; app@7 exited 0",
        "keep sandbox-0 | start i",
    );
    row("plain, created: start again", "i created", "keep sandbox-0 | start i");
    row("plain, running: wait", "i running", "keep sandbox-0");
    row("plain, exited ok: start the next", "i exited 0", "keep sandbox-0 | start j");
    row("plain, last exited ok: initialized", "i exited 0; j exited 0", "keep sandbox-0 | start app");
    row("plain, last exited ok, the first one's trace is gone", "j exited 0", "keep sandbox-0 | start app");
    row("plain, exited, failed: policy says restart", "i exited 0; j exited 1", "keep sandbox-0 | start j");
    row("plain, stuck in removal: failed", "i removing", "keep sandbox-0 | start i");
    row("plain, OOMKilled with code 0: failed", "i oom 0", "keep sandbox-0 | start i");
    row("previously initialized, plain: nothing", "app running; j exited 1", "keep sandbox-0");
    row("regular created proves it initialized", "app created", "keep sandbox-0 | start app");
    row("regular exited does not", "app exited 1", "keep sandbox-0 | start i");
    check("failed, Never: pod is done", &never, "sandbox running; i exited 1", "finish");
    check("OOMKilled with code 0, Never: pod is done", &never, "sandbox running; i oom 0", "finish");
    check("exited ok, Never: next", &never, "sandbox running; i exited 0", "keep sandbox-0 | start j");
    let own = pod(
        "{restartPolicy: Never, initContainers: [{name: i, restartPolicy: OnFailure}], containers: [{name: app}]}",
    );
    check(
        "failed, container level OnFailure",
        &own,
        "sandbox running; i exited 1",
        "keep sandbox-0 | start i",
    );
    let rule = pod(
        "{initContainers: [{name: i, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [3]}}]}], containers: [{name: app}]}",
    );
    check("failed, a rule restarts it", &rule, "sandbox running; i exited 3", "keep sandbox-0 | start i");
    check("failed, no rule matches", &rule, "sandbox running; i exited 4", "finish");
}

#[test]
fn sidecar_table() {
    let sidecars = "initContainers: [{name: s, restartPolicy: Always}, {name: t, restartPolicy: Always}], containers: [{name: app}]";
    let pod_ = pod(&format!("{{{sidecars}}}"));
    let row = |row: &str, seen: &str, expected: &str| {
        check(row, &pod_, &format!("sandbox running; {seen}"), expected)
    };
    row("none has a status: index 0", "", "keep sandbox-0 | start s");
    row("created: start again", "s created", "keep sandbox-0 | start s");
    row("running, no startup probe: start the next", "s running", "keep sandbox-0 | start t");
    row("running, last: initialized", "s running; t running", "keep sandbox-0 | start app");
    row("exited, failed: start", "s running; t exited 1; app running", "keep sandbox-0 | start t");
    row("exited, ok: start", "s exited 0; t running; app running", "keep sandbox-0 | start s");
    row(
        "several in one pass, in spec order",
        "s exited 1; t exited 1; app running",
        "keep sandbox-0 | start s, t",
    );
    row("stuck in removal: start", "s removing; t running; app running", "keep sandbox-0 | start s");
    row("no status, previously initialized: start", "app running", "keep sandbox-0 | start s, t");
    row("no status, not initialized: nothing", "t running", "keep sandbox-0 | start s, app");
    row(
        "hash change: kill and start",
        "s running hash=other; t running; app running",
        "keep sandbox-0 | start s | kill s-0 (Changed: Init container s definition changed)",
    );
    row(
        "hash change, before the next one: both",
        "s running hash=other",
        "keep sandbox-0 | start s, t | kill s-0 (Changed: Init container s definition changed)",
    );
    let never = pod(&format!("{{restartPolicy: Never, {sidecars}}}"));
    check(
        "Never does not hold a sidecar back",
        &never,
        "sandbox running; s exited 1; t running; app running",
        "keep sandbox-0 | start s",
    );
    check(
        "finished pod: sidecars do not keep it alive",
        &never,
        "sandbox running; s running; t exited 1; app exited 0",
        "finish",
    );

    let probed = pod(
        "{initContainers: [{name: s, restartPolicy: Always, startupProbe: {}, livenessProbe: {}}, {name: i}], containers: [{name: app}]}",
    );
    let row = |row: &str, seen: &str, results: &str, expected: &str| {
        check_probed(row, &probed, &format!("sandbox running; {seen}"), results, expected);
    };
    row("startup probe, no result: wait", "s running", "", "keep sandbox-0");
    row(
        "startup probe, Failure: kill and start",
        "s running",
        "startup s-0 failed",
        "keep sandbox-0 | start s | kill s-0 (StartupProbe: Init container s failed startup probe)",
    );
    row("startup probe, Success: start the next", "s running", "startup s-0 ok", "keep sandbox-0 | start i");
    row(
        "startup Success, liveness no result: wait",
        "s running; i exited 0; app running",
        "startup s-0 ok",
        "keep sandbox-0",
    );
    row(
        "liveness Failure: kill and start",
        "s running; i exited 0; app running",
        "startup s-0 ok; liveness s-0 failed",
        "keep sandbox-0 | start s | kill s-0 (LivenessProbe: Init container s failed liveness probe)",
    );
    row(
        "sidecar restarts, the plain one behind it does not",
        "s exited 1; i exited 0; app running",
        "",
        "keep sandbox-0 | start s",
    );
    row(
        "plain one behind a sidecar that is down: it goes on",
        "s exited 1; i exited 0",
        "",
        "keep sandbox-0 | start s, app",
    );
}

/// Regression: the first life's init container, which Docker could not remove, was the second life's; a pod began without it, or
/// had failed for good.
#[test]
fn what_a_stop_has_left_of_one_life_is_not_of_the_next() {
    let pod = pod("{restartPolicy: Never, initContainers: [{name: i}], containers: [{name: app}]}");
    let earlier = |text: &str| -> Vec<String> {
        let Observed { all } = observed(&pod, text);
        all.iter().filter(|c| is_of_earlier_life(c, &all)).map(|c| c.id.clone()).collect()
    };
    let first = "sandbox exited 0 killed; i exited 137 killed";
    assert_eq!(earlier(first), [""; 0], "its stop goes on");
    assert_eq!(earlier(&format!("{first}; sandbox#1 created")), [""; 0]);
    assert_eq!(earlier(&format!("{first}; sandbox#1 running")), ["sandbox-0", "i-0"]);
    assert_eq!(earlier("i exited 137 killed; sandbox#1 running"), ["i-0"]);
    // One container was killed, to run again.
    let again = "sandbox running; i exited 0; app exited 0 killed";
    assert_eq!(earlier(again), [""; 0]);
    let actions = compute(&pod, &observed(&pod, again), &Probes::default());
    assert_eq!(actions.start, [StartRef { kind: ContainerKind::Regular, index: 0 }]);
}
