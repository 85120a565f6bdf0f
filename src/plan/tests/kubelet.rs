//! The cases of the kubelet's own tables (`kuberuntime_manager_test.go`, `helpers_test.go`), in podkeeper's
//! notation, also with three containers: an action for one of them must not affect the others.

use super::*;
use crate::plan::restart::{judged_by, should_start};
use crate::plan::testing::at;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const ABC: &str = "containers: [{name: a}, {name: b}, {name: c}]";
const PLAIN: &str = "initContainers: [{name: i}, {name: j}, {name: k}]";
const SIDECARS: &str = "initContainers: [{name: s, restartPolicy: Always}, \
    {name: t, restartPolicy: Always, livenessProbe: {}, startupProbe: {}}, \
    {name: u, restartPolicy: Always, livenessProbe: {}, startupProbe: {}}]";
/// Passed probes of both sidecars with probes.
const PASSED: &str = "startup t-0 ok; liveness t-0 ok; startup u-0 ok; liveness u-0 ok";

fn of(policy: &str, init: &str) -> DesiredPod {
    let init = if init.is_empty() { String::new() } else { format!("{init}, ") };
    pod(&format!("{{restartPolicy: {policy}, {init}{ABC}}}"))
}

#[test]
fn three_regular_containers() {
    let row = |policy: &str, seen: &str, results: &str, expected: &str| {
        check_probed(&format!("{policy}: {seen}"), &of(policy, ""), seen, results, expected);
    };
    let up = "sandbox running; a running; b running; c running";
    row("Always", up, "", "keep sandbox-0");
    row("Always", "", "", "new sandbox 0 | start a, b, c");
    let ended = "sandbox running; a exited 0; b exited 111; c running";
    row("Always", ended, "", "keep sandbox-0 | start a, b");
    row("OnFailure", ended, "", "keep sandbox-0 | start b");
    row("Never", ended, "", "keep sandbox-0");
    let made = "sandbox running; a exited 0; b created; c running";
    row("OnFailure", made, "", "keep sandbox-0 | start b");
    row("Never", "sandbox running; a running; b created; c running", "", "keep sandbox-0 | start b");
    let kill = |why: &str| format!("keep sandbox-0 | start b | kill b-0 ({why}, will be restarted)");
    let changed = "sandbox running; a running; b running hash=other; c running";
    row("Always", changed, "", &kill("Changed: Container b definition changed"));
    row("Always", up, "liveness b-0 failed", &kill("LivenessProbe: Container b failed liveness probe"));
    row("Always", up, "startup b-0 failed", &kill("StartupProbe: Container b failed startup probe"));
}

#[test]
fn three_regular_containers_whose_sandbox_is_dead() {
    let row = |policy: &str, seen: &str, expected: &str| {
        check(&format!("{policy}: {seen}"), &of(policy, ""), seen, expected);
    };
    let up = "sandbox exited 0; a running; b running; c running";
    row("Always", up, "new sandbox 1 | start a, b, c");
    row("OnFailure", "sandbox exited 0; a running; b exited 0; c running", "new sandbox 1 | start a, c");
    let ended = "sandbox#1 exited 0; a@1 exited 0; b@1 exited 0; c@1 exited 0";
    row("Never", ended, "finish");
    row("OnFailure", ended, "finish");
    row("Never", "sandbox#2 exited 0", "new sandbox 3 | start a, b, c");
}

#[test]
fn three_init_containers() {
    let row = |policy: &str, seen: &str, expected: &str| {
        check(&format!("{policy}: {seen}"), &of(policy, PLAIN), seen, expected);
    };
    let done = "sandbox running; i exited 0; j exited 0; ";
    row("Always", &format!("{done}k exited 0"), "keep sandbox-0 | start a, b, c");
    row("Always", "sandbox running", "keep sandbox-0 | start i");
    row("Always", &format!("{done}k running"), "keep sandbox-0");
    row("Always", &format!("{done}k created"), "keep sandbox-0 | start k");
    row("Always", "sandbox running; k running", "keep sandbox-0");
    // Docker removes a container that is stuck in removal by itself, so no kill is needed.
    for (policy, expected) in [
        ("Always", "keep sandbox-0 | start k"),
        ("OnFailure", "keep sandbox-0 | start k"),
        ("Never", "finish"),
    ] {
        row(policy, &format!("{done}k exited 137"), expected);
        row(policy, &format!("{done}k removing"), expected);
    }
    let dead = "sandbox exited 0; i exited 0; j exited 0; ";
    row("Always", &format!("{dead}k exited 0"), "new sandbox 1 | start i");
    row("OnFailure", &format!("{dead}k exited 137"), "new sandbox 1 | start i");
    // Unlike with the kubelet, a container that never ran is run, and one that succeeded is not run again.
    row("Never", &format!("{dead}k exited 0"), "new sandbox 1 | start a, b, c");
    row("Never", "sandbox exited 0; i exited 0", "new sandbox 1 | start j");
    row("Never", &format!("{dead}k exited 137"), "finish");
    row("Never", "sandbox exited 0", "new sandbox 1 | start i");
}

#[test]
fn three_sidecars() {
    let probed = |policy: &str, seen: &str, results: &str, expected: &str| {
        let name = format!("{policy}: {seen}; {results}");
        check_probed(&name, &of(policy, SIDECARS), &format!("sandbox running; {seen}"), results, expected);
    };
    let row = |policy: &str, seen: &str, expected: &str| probed(policy, seen, PASSED, expected);
    row("Always", "s running; t running; u running", "keep sandbox-0 | start a, b, c");
    row("Always", "", "keep sandbox-0 | start s");
    row("Always", "s running; t running; u created", "keep sandbox-0 | start u");
    row("Always", "s running", "keep sandbox-0 | start t");
    row("Always", "s running; t running", "keep sandbox-0 | start u");
    row("Always", "s exited 0; t running; u exited 0", "keep sandbox-0 | start s, u");
    row("Always", "s exited 0; t running; u running", "keep sandbox-0 | start s, a, b, c");
    row("Always", "u running", "keep sandbox-0 | start s, t, a, b, c");
    row("Never", "s running; t running; u exited 137", "keep sandbox-0 | start u");
    row("Never", "s running; t running; u removing", "keep sandbox-0 | start u");
    let regular = "a running; b running; c running";
    row("Never", &format!("s running; t running; u exited 137; {regular}"), "keep sandbox-0 | start u");
    row("Never", "s running; t running; u running; a exited 0; b exited 0; c exited 0", "finish");
    // A liveness probe without a result does not delay the pod, a startup probe does.
    probed("Always", "s running; t running", "startup t-0 ok", "keep sandbox-0 | start u");
    probed("Always", "s running; t running", "liveness t-0 ok", "keep sandbox-0");
    let kill = |start: &str, why: &str| format!("keep sandbox-0 | start {start} | kill u-0 ({why})");
    let others = "startup t-0 ok; liveness t-0 ok; ";
    probed(
        "Always",
        "s running; t running; u running",
        &format!("{others}startup u-0 ok; liveness u-0 failed"),
        &kill("u, a, b, c", "LivenessProbe: Init container u failed liveness probe"),
    );
    probed(
        "Always",
        "s running; t running; u running",
        &format!("{others}startup u-0 failed"),
        &kill("u", "StartupProbe: Init container u failed startup probe"),
    );
    row(
        "Always",
        "s running; t running; u running hash=other",
        &kill("u, a, b, c", "Changed: Init container u definition changed"),
    );
}

#[test]
fn three_sidecars_whose_sandbox_is_dead() {
    let row = |policy: &str, seen: &str, expected: &str| {
        let seen = format!("sandbox exited 0; {seen}");
        check_probed(&format!("{policy}: {seen}"), &of(policy, SIDECARS), &seen, PASSED, expected);
    };
    let failed = "s running; t running; u exited 137";
    row("Always", failed, "new sandbox 1 | start s");
    row("OnFailure", failed, "new sandbox 1 | start s");
    // Unlike with the kubelet: the regular containers never ran.
    row("Never", failed, "new sandbox 1 | start s");
    row("Never", &format!("{failed}; a exited 137; b exited 0; c exited 137"), "finish");
    row("Never", "", "new sandbox 1 | start s");
}

/// `podkeeper debug` starts such a container; the plan neither starts nor stops it while its sandbox is kept.
#[test]
fn an_ephemeral_container_changes_nothing() {
    let row = |policy: &str, seen: &str, expected: &str| {
        let pod = of(policy, "initContainers: [{name: i}]");
        check(&format!("{policy}: {seen}"), &pod, seen, expected);
    };
    let up = "sandbox running; i exited 0; a running; b running; c running; debug";
    for state in ["running", "exited 0", "removing", "created"] {
        row("Always", &format!("{up} {state} kind=ephemeral"), "keep sandbox-0");
    }
    row("Always", "sandbox running; i running; debug running kind=ephemeral", "keep sandbox-0");
    let ended = "sandbox running; i exited 0; a exited 0; b exited 0; c exited 0";
    row("Never", &format!("{ended}; debug running kind=ephemeral"), "finish");
    let dead = "sandbox exited 0; i exited 0; a running; b running; c running";
    row("Always", &format!("{dead}; debug running kind=ephemeral"), "new sandbox 1 | start i");
    let failed = "sandbox exited 0; i exited 137; debug exited 137 kind=ephemeral";
    row("OnFailure", failed, "new sandbox 1 | start i");
}

/// The same rows as for the pod's policy, with two of three containers that have their own policy.
#[test]
fn a_container_s_own_policy_comes_before_the_pod_s() {
    let row = |policy: &str, own: [&str; 2], seen: &str, expected: &str| {
        let policy_of = |own: &str| match own {
            "" => String::new(),
            own => format!(", restartPolicy: {own}"),
        };
        let [a, b] = own.map(policy_of);
        let pod = pod(&format!(
            "{{restartPolicy: {policy}, containers: [{{name: a{a}}}, {{name: b{b}}}, {{name: c}}]}}"
        ));
        check(&format!("{policy}, {own:?}: {seen}"), &pod, seen, expected);
    };
    let ended = "sandbox running; a exited 0; b exited 111; c running";
    row("Never", ["Always"; 2], ended, "keep sandbox-0 | start a, b");
    row("Never", ["OnFailure"; 2], ended, "keep sandbox-0 | start b");
    row("Always", ["Never"; 2], ended, "keep sandbox-0");
    let made = "sandbox running; a exited 0; b created; c running";
    row("Never", ["OnFailure"; 2], made, "keep sandbox-0 | start b");
    let dead = "sandbox exited 0; a running; b exited 0; c running";
    row("Always", ["", "OnFailure"], dead, "new sandbox 1 | start a, c");
}

#[test]
fn what_starts_in_a_pod_and_in_one_that_is_deleted() {
    let seen = "alive#1 running; alive exited 2; succeeded exited 0; failed#1 exited 1; failed exited 3";
    let table = [
        ("no-history", [true, true, true]),
        ("alive", [false, false, false]),
        ("succeeded", [false, false, true]),
        ("failed", [false, true, true]),
    ];
    for (name, expected) in table {
        for (policy, expected) in ["Never", "OnFailure", "Always"].into_iter().zip(expected) {
            let mut pod = pod(&format!("{{restartPolicy: {policy}, containers: [{{name: {name}}}]}}"));
            let seen = observed(&pod, seen);
            let starts = |pod: &DesiredPod| {
                let container = &pod.spec.containers[0];
                should_start(pod, container, judged_by(pod, &seen, ContainerKind::Regular, container))
            };
            assert_eq!(starts(&pod), expected, "{name}, {policy}");
            pod.metadata.deletion_timestamp = Some(Time(at(0)));
            assert!(!starts(&pod), "{name}, {policy}, deleted");
        }
    }
}
