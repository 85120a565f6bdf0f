//! Conditions (upstream `pkg/kubelet/status/generate.go`).

use super::*;

/// `Type=True` or `Type=False(Reason: message)`, in order.
pub(super) fn words(conditions: &[PodCondition]) -> Vec<String> {
    let one = |c: &PodCondition| {
        let reason = c.reason.clone().unwrap_or_default();
        let message = c.message.clone().map(|m| format!(": {m}")).unwrap_or_default();
        let why = if reason.is_empty() { String::new() } else { format!("({reason}{message})") };
        format!("{}={}{why}", c.type_, c.status)
    };
    conditions.iter().map(one).collect()
}

#[test]
fn conditions_table() {
    let init = pod(
        "{restartPolicy: OnFailure, initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}, {name: b}]}",
    );
    let check = |row: &str, pod: &DesiredPod, seen: &str, expected: [&str; 5]| {
        assert_eq!(words(&case(pod, seen).status().conditions.unwrap()), expected, "row: {row}");
    };
    check(
        "nothing yet",
        &init,
        "",
        [
            "PodReadyToStartContainers=False",
            "Initialized=False(ContainersNotInitialized: containers with incomplete status: [i s])",
            "Ready=False(ContainersNotReady: containers with unready status: [s a b])",
            "ContainersReady=False(ContainersNotReady: containers with unready status: [s a b])",
            "PodScheduled=True",
        ],
    );
    check(
        "sandbox made, not started",
        &init,
        "sandbox created",
        [
            "PodReadyToStartContainers=False",
            "Initialized=False(ContainersNotInitialized: containers with incomplete status: [i s])",
            "Ready=False(ContainersNotReady: containers with unready status: [s a b])",
            "ContainersReady=False(ContainersNotReady: containers with unready status: [s a b])",
            "PodScheduled=True",
        ],
    );
    check(
        "plain init done, sidecar not started",
        &init,
        "sandbox running; i exited 0",
        [
            "PodReadyToStartContainers=True",
            "Initialized=False(ContainersNotInitialized: containers with incomplete status: [s])",
            "Ready=False(ContainersNotReady: containers with unready status: [s a b])",
            "ContainersReady=False(ContainersNotReady: containers with unready status: [s a b])",
            "PodScheduled=True",
        ],
    );
    check(
        "initialized, one regular ready",
        &init,
        "sandbox running; i exited 0; s running; a running",
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=False(ContainersNotReady: containers with unready status: [b])",
            "ContainersReady=False(ContainersNotReady: containers with unready status: [b])",
            "PodScheduled=True",
        ],
    );
    let all = [
        "PodReadyToStartContainers=True",
        "Initialized=True",
        "Ready=True",
        "ContainersReady=True",
        "PodScheduled=True",
    ];
    check("all ready", &init, "sandbox running; i exited 0; s running; a running; b running", all);
    check(
        "a regular one runs, so it is initialized",
        &init,
        "sandbox running; a running",
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=False(ContainersNotReady: containers with unready status: [s b])",
            "ContainersReady=False(ContainersNotReady: containers with unready status: [s b])",
            "PodScheduled=True",
        ],
    );
    check(
        "Succeeded",
        &init,
        "sandbox exited 0; i exited 0; s exited 0; a exited 0; b exited 0",
        [
            "PodReadyToStartContainers=False",
            "Initialized=True(PodCompleted)",
            "Ready=False(PodCompleted)",
            "ContainersReady=False(PodCompleted)",
            "PodScheduled=True",
        ],
    );
    check(
        "Failed",
        &app("Never"),
        "sandbox running; app exited 1",
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=False(PodFailed)",
            "ContainersReady=False(PodFailed)",
            "PodScheduled=True",
        ],
    );
    check(
        "no containers at all",
        &pod("{containers: []}"),
        "sandbox running",
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=False(UnknownContainerStatuses)",
            "ContainersReady=False(UnknownContainerStatuses)",
            "PodScheduled=True",
        ],
    );
    check(
        "a sandbox that has to be replaced is not ready",
        &app("Always"),
        "sandbox running hostnet; app running",
        [
            "PodReadyToStartContainers=False",
            "Initialized=True",
            "Ready=True",
            "ContainersReady=True",
            "PodScheduled=True",
        ],
    );
    let was = case(&init, "sandbox running; i exited 0; s running").status();
    let again = case(&init, "sandbox running; i exited 0; s exited 1").after(was).status();
    assert_eq!(words(&again.conditions.unwrap())[1], "Initialized=True", "row: once True stays True");
}

#[test]
fn conditions_of_others_gates_and_times() {
    let mut gated = pod(
        "{readinessGates: [{conditionType: example.com/a}, {conditionType: example.com/b}], containers: [{name: app}]}",
    );
    gated.metadata.generation = Some(7);
    let condition = |kind: &str, status: &str| PodCondition {
        type_: kind.into(),
        status: status.into(),
        ..PodCondition::default()
    };
    gated.status.conditions = Some(vec![
        condition("example.com/b", "Maybe"),
        condition("Ready", "Unknown"),
        condition("DisruptionTarget", "False"),
    ]);
    let first = case(&gated, "sandbox running; app running").status();
    let conditions = first.conditions.clone().unwrap();
    assert_eq!(
        words(&conditions),
        [
            "example.com/b=Maybe",
            "DisruptionTarget=False",
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=False(ReadinessGatesNotReady: corresponding condition of pod readiness gate \"example.com/a\" does not exist., the status of pod readiness gate \"example.com/b\" is not \"True\", but Maybe)",
            "ContainersReady=True",
            "PodScheduled=True",
        ]
    );
    assert_eq!((conditions[4].observed_generation, first.observed_generation), (Some(7), Some(7)));
    assert!(conditions.iter().all(|c| c.last_probe_time.is_none()));

    gated.status.conditions =
        Some(vec![condition("example.com/a", "True"), condition("example.com/b", "True")]);
    let second = case(&gated, "sandbox running; app running").after(first).status();
    let conditions = second.conditions.unwrap();
    let since = |kind: &str| {
        let time = &conditions.iter().find(|c| c.type_ == kind).unwrap().last_transition_time;
        time.as_ref().unwrap().0
    };
    assert_eq!(words(&conditions)[5], "Ready=True", "all gates open (DisruptionTarget is kept)");
    assert_eq!(
        (since("Ready"), since("ContainersReady"), since("PodScheduled")),
        (at(100), at(0), at(0)),
        "time changes with the status only"
    );
}

/// Regression: the condition of an eviction was of no generation, as no other condition is.
#[test]
fn an_eviction_is_of_the_pods_generation() {
    let mut pod = pod("{containers: [{name: a}]}");
    pod.metadata.generation = Some(7);
    let status = crate::status::evicted(&pod, "Evicted", "why", "why. Later.", at(0));
    let conditions = status.conditions.unwrap();
    assert_eq!(words(&conditions), ["DisruptionTarget=True(TerminationByKubelet: why)"]);
    assert_eq!(conditions[0].observed_generation, Some(7));
}
