//! The cases of the kubelet's own tables (`kubelet_pods_test.go`, `generate_test.go`,
//! `prober_manager_test.go`), in podkeeper's words. A container that waits after its end was created
//! again.

use super::conditions::words;
use super::*;

const AB: &str = "containers: [{name: a}, {name: b}]";
const PLAIN: &str = "initContainers: [{name: x}]";
/// A sidecar that has not started while its probe has no result.
const SIDECAR: &str = "initContainers: [{name: x, restartPolicy: Always, startupProbe: {}}]";

fn of(policy: &str, init: &str) -> DesiredPod {
    let init = if init.is_empty() { String::new() } else { format!("{init}, ") };
    pod(&format!("{{restartPolicy: {policy}, {init}{AB}}}"))
}

fn phases(pod: &DesiredPod, rows: &[(&str, &str)]) {
    for (seen, expected) in rows {
        assert_eq!(
            case(pod, &format!("{UP}{seen}")).phase(),
            *expected,
            "{:?}: {seen}",
            pod.spec.restart_policy
        );
    }
}

/// The phase of a pod that the API has deleted and whose containers no longer run.
fn finalised(policy: &str, init: &str, seen: &str) -> String {
    let pod = DesiredPod { source: Source::Api, ..of(policy, init) };
    Case { terminal: true, ..case(&pod, &format!("{UP}{seen}")) }.phase()
}

#[test]
fn phase_of_two_regular_containers() {
    let all = [
        ("", "Pending"),
        ("a running; b running", "Running"),
        ("a running; b exited 0", "Running"),
        ("a running", "Pending"),
        ("a running; b created", "Pending"),
    ];
    for policy in ["Always", "OnFailure", "Never"] {
        phases(&of(policy, ""), &all);
    }
    let crash_loop = ("a running; b exited 0; b#1 created", "Running");
    phases(&of("Always", ""), &[("a exited 0; b exited 0", "Running"), crash_loop]);
    let on_failure =
        [("a exited 0; b exited 0", "Succeeded"), ("a exited 255; b exited 255", "Running"), crash_loop];
    phases(&of("OnFailure", ""), &on_failure);
    let never = [("a exited 0; b exited 0", "Succeeded"), ("a exited 255; b exited 255", "Failed")];
    phases(&of("Never", ""), &never);
    assert_eq!(finalised("Always", "", "a exited 0; b exited 0"), "Succeeded");
    assert_eq!(finalised("Always", "", "a exited 0; b exited 255"), "Failed");
}

#[test]
fn phase_with_a_plain_init_container() {
    for policy in ["Always", "OnFailure", "Never"] {
        let failed = if policy == "Never" { "Failed" } else { "Pending" };
        let rows = [
            ("", "Pending"),
            ("x running", "Pending"),
            ("x exited 255", failed),
            ("x exited 0; x#1 created", "Pending"),
            ("x exited 1; x#1 created", failed),
            ("x created", "Pending"),
            ("x exited 0; a running; b running", "Running"),
        ];
        phases(&of(policy, PLAIN), &rows);
    }
}

#[test]
fn phase_with_a_sidecar() {
    let early = [
        ("", "Pending"),
        ("x running", "Pending"),
        ("x exited 0", "Pending"),
        ("x exited 0; x#1 created", "Pending"),
        ("x exited 1; x#1 created", "Pending"),
        ("x created", "Pending"),
        ("x running; a running", "Pending"),
    ];
    let (always, never) = (of("Always", SIDECAR), of("Never", SIDECAR));
    phases(&always, &early);
    phases(&never, &early);
    let up = [
        ("x running; a running; b running", "Running"),
        ("x exited 0; a running; b running", "Running"),
        ("x exited 0; x#1 created; a running; b running", "Running"),
    ];
    phases(&always, &up);
    let ended = [
        ("x running; a exited 0; b exited 0", "Running"),
        ("x exited 0; a exited 0; b exited 0", "Succeeded"),
        ("x exited 255; a exited 0; b exited 0", "Succeeded"),
        ("x exited 0; x#1 created; a exited 0; b exited 0", "Succeeded"),
        ("x exited 1; x#1 created; a exited 0; b exited 0", "Succeeded"),
    ];
    phases(&never, &ended);
    let started = |pod: &DesiredPod, seen: &str| case(pod, seen).probed("startup x-0 ok").phase();
    assert_eq!(started(&always, "sandbox running; x running; a running"), "Pending");
    assert_eq!(started(&always, "sandbox running; x running; a running; b running"), "Running");
    assert_eq!(started(&never, "sandbox running; x running; a exited 0; b exited 0"), "Running");
    for code in [0, 255] {
        let seen = format!("x exited {code}; a exited 0; b exited 0");
        assert_eq!(finalised("Always", SIDECAR, &seen), "Succeeded", "{code}");
    }
    let anew = "sandbox#1 running; x#1@1 running; a@0 running; b@0 running";
    assert_eq!(case(&always, anew).phase(), "Pending", "it begins again in a new sandbox");
}

#[test]
fn phase_of_a_pod_that_has_run_before() {
    let pod = pod(
        "{initContainers: [{name: x}, {name: z, restartPolicy: Always, startupProbe: {}}], containers: [{name: a}]}",
    );
    let check = |seen: &str, expected: &str| assert_eq!(case(&pod, seen).phase(), expected, "{seen}");
    check("sandbox#1 running; x#1@1 running; z#1@1 running; a@0 running", "Pending");
    check("sandbox#1 running; x#1@1 running; z#1@1 running; a@0 exited 0", "Pending");
    check("sandbox#1 running; x#1@1 exited 0; z#1@1 running; a@0 exited 0", "Pending");
    check("sandbox running; x exited 0; z running; a exited 0", "Running");
    check("sandbox running; x exited 0; z running; a running", "Running");
}

#[test]
fn phase_with_policies_and_rules_of_containers() {
    let check = |spec: &str, seen: &str, expected: &str| phases(&pod(spec), &[(seen, expected)]);
    for (own, expected) in [("Never", "Failed"), ("OnFailure", "Running"), ("Always", "Running")] {
        check(&format!("{{containers: [{{name: a, restartPolicy: {own}}}]}}"), "a exited 255", expected);
    }
    let one = "{restartPolicy: Never, containers: [{name: a, restartPolicy: Always}, {name: b}]}";
    check(one, "a exited 0; b exited 255", "Running");
    let none = "{containers: [{name: a, restartPolicy: Never}, {name: b, restartPolicy: OnFailure}]}";
    check(none, "a exited 255; b exited 0", "Failed");
    check(none, "a exited 0; b exited 0", "Succeeded");
    let init = |policy: &str, own: &str| {
        format!(
            "{{restartPolicy: {policy}, initContainers: [{{name: x, restartPolicy: {own}}}], containers: [{{name: a}}]}}"
        )
    };
    check(&init("Always", "Never"), "x exited 255", "Failed");
    check(&init("Never", "OnFailure"), "x exited 255", "Pending");
    check(&init("Never", "Always"), "x exited 255", "Pending");
    let rule =
        "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]";
    let of = |init: &str, own: &str| {
        format!("{{restartPolicy: Never, initContainers: [{init}], containers: [{{name: a{own}}}]}}")
    };
    let never = format!(", restartPolicy: Never, {rule}");
    check(&of("", &never), "a exited 42", "Running");
    check(&of("{name: x}", &never), "x exited 0; a exited 42; a#1 created", "Running");
    check(&of("{name: x}", &never), "x exited 255; a exited 42; a#1 created", "Failed");
    check(&of(&format!("{{name: x{never}}}"), ""), "x exited 42", "Pending");
    check(&of(&format!("{{name: x{never}}}"), ""), "x exited 0", "Pending");
    let sidecar = format!("{{name: x, restartPolicy: Always, {rule}}}");
    check(&of(&sidecar, ""), "x exited 42", "Pending");
    check(&of(&format!("{sidecar}, {{name: z}}"), ""), "x exited 42; z created", "Pending");
}

/// Both containers run in the old status and do not exist any more.
fn vanished(pod: &DesiredPod, now: &str, change: impl Fn(&mut PodStatus)) -> Case<'static> {
    let mut old = case(pod, "sandbox running; a running; b running").status();
    change(&mut old);
    let pod: &'static DesiredPod = Box::leak(Box::new(pod.clone()));
    case(pod, now).after(old)
}

fn phase_and_conditions(case: &Case<'_>) -> Vec<String> {
    let status = case.status();
    status.phase.into_iter().chain(words(&status.conditions.unwrap())).collect()
}

const UNREADY: &str = "containers with unready status: [a b]";

#[test]
fn status_of_a_pod_whose_containers_have_vanished() {
    let mut pod = of("Always", "");
    let lost = |case: &Case<'_>, restarts: i32| {
        for name in ["a", "b"] {
            let status = case.container(name);
            assert_eq!(status["restartCount"], restarts, "{status}");
            assert_eq!(status["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
            assert_eq!(status["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
        }
    };
    let running = [
        "Running".to_owned(),
        "PodReadyToStartContainers=True".into(),
        "Initialized=True".into(),
        format!("Ready=False(ContainersNotReady: {UNREADY})"),
        format!("ContainersReady=False(ContainersNotReady: {UNREADY})"),
        "PodScheduled=True".into(),
    ];
    let case = vanished(&pod, "sandbox running", |_| {});
    lost(&case, 1);
    assert_eq!(phase_and_conditions(&case), running);
    pod.metadata.deletion_timestamp = Some(crate::status::seconds(at(0)));
    let case = vanished(&pod, "sandbox running", |_| {});
    lost(&case, 0);
    assert_eq!(phase_and_conditions(&case), running, "being deleted");

    pod.source = Source::Api;
    let disrupt = |old: &mut PodStatus| {
        let target = PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            ..PodCondition::default()
        };
        old.conditions.as_mut().unwrap().push(target);
    };
    let case = Case { terminal: true, ..vanished(&pod, "sandbox running", disrupt) };
    lost(&case, 0);
    let expected = [
        "Failed",
        "DisruptionTarget=True",
        "PodReadyToStartContainers=True",
        "Initialized=True",
        "Ready=False(PodFailed)",
        "ContainersReady=False(PodFailed)",
        "PodScheduled=True",
    ];
    assert_eq!(phase_and_conditions(&case), expected, "deleted and at its end");
}

#[test]
fn status_of_a_pod_that_had_succeeded() {
    let expected = [
        "Succeeded",
        "PodReadyToStartContainers=False",
        "Initialized=True(PodCompleted)",
        "Ready=False(PodCompleted)",
        "ContainersReady=False(PodCompleted)",
        "PodScheduled=True",
    ];
    let mut pod = of("Always", "");
    pod.status.phase = Some("Succeeded".into());
    let case = vanished(&pod, "", |_| {});
    assert_eq!(phase_and_conditions(&case), expected, "as the API says");
    pod.status.phase = Some("Running".into());
    let succeeded = |old: &mut PodStatus| {
        old.phase = Some("Succeeded".into());
        (old.reason, old.message) = (Some("Test".into()), Some("test".into()));
    };
    let case = vanished(&pod, "", succeeded);
    assert_eq!(phase_and_conditions(&case), expected, "as we said");
    let status = case.status();
    assert_eq!((status.reason.as_deref(), status.message.as_deref()), (Some("Test"), Some("test")));
    let never = of("Never", "");
    let old = super::case(&never, "sandbox running; a exited 0; b exited 0").status();
    let case = super::case(&never, "").after(old.clone());
    assert_eq!(phase_and_conditions(&case), expected, "and nothing is left of it");
    assert_eq!(case.status().container_statuses, old.container_statuses);
}

#[test]
fn phase_goes_back_and_its_reason_stays_with_it() {
    let mut pod = of("Always", "");
    pod.status.phase = Some("Running".into());
    let waited = case(&pod, "sandbox running; a created; b created").status();
    let again = case(&pod, "sandbox running").after(waited);
    assert_eq!(again.phase(), "Pending");
    assert_eq!(again.container("a")["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    let mut old = case(&pod, "sandbox running; b running").status();
    assert_eq!(old.phase.as_deref(), Some("Pending"));
    (old.reason, old.message) = (Some("Test".into()), Some("test".into()));
    let same = case(&pod, "sandbox running; b running").after(old.clone()).status();
    assert_eq!((same.phase.as_deref(), same.reason.as_deref()), (Some("Pending"), Some("Test")));
    assert_eq!(same.message.as_deref(), Some("test"));
    pod.status.phase = Some("Pending".into());
    let other = case(&pod, "sandbox running; a running; b running").after(old).status();
    assert_eq!((other.phase.as_deref(), other.reason, other.message), (Some("Running"), None, None));
}

#[test]
fn a_sidecar_that_has_vanished_waits() {
    let pod = of("Always", SIDECAR);
    let state = case(&pod, "sandbox running; a running; b running").container("x")["state"].clone();
    assert_eq!(state, json!({"waiting": {"reason": "PodInitializing"}}));
}

fn condition(kind: &str, case: &Case<'_>) -> String {
    let all = words(&case.status().conditions.unwrap());
    all.into_iter().find(|c| c.starts_with(&format!("{kind}="))).unwrap()
}

#[test]
fn readiness_gates_open_one_by_one() {
    let check = |gates: &str, known: &[(&str, &str)], seen: &str, expected: &str| {
        let gates: Vec<String> = gates.split(' ').map(|g| format!("{{conditionType: {g}}}")).collect();
        let mut pod =
            pod(&format!("{{readinessGates: [{}], containers: [{{name: app}}]}}", gates.join(", ")));
        let one = |(kind, status): &(&str, &str)| PodCondition {
            type_: (*kind).into(),
            status: (*status).into(),
            ..PodCondition::default()
        };
        pod.status.conditions = Some(known.iter().map(one).collect());
        let ready = condition("Ready", &case(&pod, &format!("{UP}{seen}")));
        assert_eq!(ready, expected, "{gates:?} {known:?} {seen}");
    };
    let not = |why: &str| format!("Ready=False(ReadinessGatesNotReady: {why})");
    let missing = |gate: &str| {
        not(&format!("corresponding condition of pod readiness gate \"{gate}\" does not exist."))
    };
    let closed =
        |gate: &str| not(&format!("the status of pod readiness gate \"{gate}\" is not \"True\", but False"));
    let up = "app running";
    check("g1", &[], up, &missing("g1"));
    check("g1", &[("g1", "False")], up, &closed("g1"));
    check("g1", &[("g1", "True")], up, "Ready=True");
    check("g1 g2", &[("g1", "True")], up, &missing("g2"));
    check("g1 g2", &[("g1", "True"), ("g2", "False")], up, &closed("g2"));
    check("g1 g2", &[("g1", "True"), ("g2", "True")], up, "Ready=True");
    let unready = "Ready=False(ContainersNotReady: containers with unready status: [app])";
    check("g1", &[("g1", "True")], "app exited 1", unready);
}

#[test]
fn conditions_with_sidecars() {
    let two = pod("{initContainers: [{name: s, restartPolicy: Always}, \
        {name: t, restartPolicy: Always, startupProbe: {}, readinessProbe: {}}], containers: [{name: app}]}");
    let up = "sandbox running; s running; t running; app running";
    let check = |kind: &str, seen: &str, results: &str, expected: &str| {
        assert_eq!(condition(kind, &case(&two, seen).probed(results)), expected, "{seen}; {results}");
    };
    check("ContainersReady", up, "startup t-0 ok; readiness t-0 ok", "ContainersReady=True");
    let unready = "ContainersReady=False(ContainersNotReady: containers with unready status: [t])";
    check("ContainersReady", up, "startup t-0 ok; readiness t-0 failed", unready);
    let early = "sandbox running; s running; t running";
    let incomplete = "Initialized=False(ContainersNotInitialized: containers with incomplete status: [t])";
    check("Initialized", early, "", incomplete);
    check("Initialized", early, "startup t-0 ok", "Initialized=True");
    check("Initialized", up, "", "Initialized=True");
    let plain = pod("{initContainers: [{name: i}], containers: [{name: app}]}");
    let anew = case(&plain, "sandbox#1 running; i#1@1 created; app@0 exited 0");
    assert_eq!(condition("Initialized", &anew), "Initialized=True", "a regular one has ended before");
}

#[test]
fn ready_without_a_readiness_probe_is_started() {
    let one = pod("{initContainers: [{name: s, restartPolicy: Always, startupProbe: {}}], \
        containers: [{name: app, startupProbe: {}}]}");
    for name in ["s", "app"] {
        for (results, expected) in [("", false), ("failed", false), ("ok", true)] {
            let results =
                if results.is_empty() { String::new() } else { format!("startup {name}-0 {results}") };
            let status =
                case(&one, "sandbox running; s running; app running").probed(&results).container(name);
            let told = (&status["started"], &status["ready"]);
            assert_eq!(told, (&json!(expected), &json!(expected)), "{results}");
        }
    }
}
