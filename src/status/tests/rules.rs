//! One test for each rule of phase, container statuses and conditions, named after the rule.

use super::*;

const ALWAYS: &str = "{restartPolicy: Always, containers: [{name: a}, {name: b}]}";
const ON_FAILURE: &str = "{restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}";
const NEVER: &str = "{restartPolicy: Never, containers: [{name: a}, {name: b}]}";
const INIT: &str = "{initContainers: [{name: i}], containers: [{name: a}]}";
const INIT_NEVER: &str = "{restartPolicy: Never, initContainers: [{name: i}], containers: [{name: a}]}";
const SIDECAR: &str =
    "{initContainers: [{name: s, restartPolicy: Always, startupProbe: {}}], containers: [{name: a}]}";

/// Phase (upstream `getPhase`).
mod phase {
    use super::*;

    macro_rules! rows {
        ($($name:ident: $pod:expr, $seen:expr => $expected:expr;)*) => {
            $(#[test] fn $name() {
                assert_eq!(case(&pod($pod), &format!("{UP}{}", $seen)).phase(), $expected, stringify!($name));
            })*
        };
    }

    rows! {
        row_1_a_failed_plain_init_that_will_not_restart: INIT_NEVER, "i exited 1" => "Failed";
        row_1_not_when_it_will_restart: INIT, "i exited 1" => "Pending";
        row_2_pending_init: INIT, "i running" => "Pending";
        row_3_pending_sidecar_without_a_regular_container: SIDECAR, "s running" => "Pending";
        row_3_not_with_one_in_the_current_sandbox: SIDECAR, "s running; a running" => "Running";
        row_4_waiting: ALWAYS, "a running; b created" => "Pending";
        row_5_running: ALWAYS, "a running; b running" => "Running";
        row_5_running_beside_one_that_ended: NEVER, "a running; b exited 1" => "Running";
        row_6c_something_will_restart: ON_FAILURE, "a exited 0; b exited 1" => "Running";
        row_6d_stopped_equals_succeeded: NEVER, "a exited 0; b exited 0" => "Succeeded";
        row_6e_else: NEVER, "a exited 0; b exited 1" => "Failed";
        row_7_anything_else: ALWAYS, "" => "Pending";
        always_all_exited_0: ALWAYS, "a exited 0; b exited 0" => "Running";
        always_all_exited_some_1: ALWAYS, "a exited 0; b exited 1" => "Running";
        on_failure_all_exited_0: ON_FAILURE, "a exited 0; b exited 0" => "Succeeded";
        on_failure_all_exited_some_1: ON_FAILURE, "a exited 0; b exited 1" => "Running";
        never_all_exited_0: NEVER, "a exited 0; b exited 0" => "Succeeded";
        never_all_exited_some_1: NEVER, "a exited 0; b exited 1" => "Failed";
    }

    fn finalised(source: Source, seen: &str) -> String {
        let mut pod = pod(ALWAYS);
        pod.source = source;
        Case { terminal: true, ..case(&pod, &format!("{UP}{seen}")) }.phase()
    }

    #[test]
    fn row_6a_being_finalised_all_succeeded() {
        assert_eq!(finalised(Source::Api, "a exited 0; b exited 0"), "Succeeded");
        assert_eq!(
            finalised(Source::File, "a exited 0; b exited 0"),
            "Running",
            "a static pod's end is its manifest's"
        );
    }

    #[test]
    fn row_6b_being_finalised_otherwise() {
        assert_eq!(finalised(Source::Api, "a exited 0; b exited 1"), "Failed");
        assert_eq!(finalised(Source::Http, "a exited 0; b exited 1"), "Running");
    }

    #[test]
    fn past_the_deadline() {
        let pod = pod(ALWAYS);
        let case = Case { past_deadline: true, ..case(&pod, "sandbox exited 0; a exited 0; b exited 143") };
        let status = case.status();
        let words = [&status.phase, &status.reason, &status.message].map(|w| w.clone().unwrap_or_default());
        let message = "Pod was active on the node longer than the specified deadline";
        assert_eq!(words, ["Failed", "DeadlineExceeded", message]);
        let later = super::case(&pod, "sandbox running; a running; b running").after(status).status();
        assert_eq!(later.phase.as_deref(), Some("Failed"), "for good");
        assert_eq!(later.reason.as_deref(), Some("DeadlineExceeded"));
        let ready = later.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
    }
}

/// Container statuses (upstream `convertToAPIContainerStatuses`): state.terminated.
mod terminated {
    use super::*;

    macro_rules! rows {
        ($($name:ident: $seen:expr => $code:expr, $reason:expr, $message:expr;)*) => {
            $(#[test] fn $name() {
                let pod = pod(NEVER);
                let end = case(&pod, &format!("{UP}{}; b exited 0", $seen)).container("a")["state"]["terminated"].clone();
                let told = (&end["exitCode"], &end["reason"], &end["message"], &end["signal"]);
                assert_eq!(told, (&json!($code), &json!($reason), &json!($message), &Value::Null));
            })*
        };
    }

    rows! {
        exited_0: "a exited 0" => 0, "Completed", Value::Null;
        exited_1: "a exited 1" => 1, "Error", Value::Null;
        exited_by_a_signal: "a exited 143" => 143, "Error", Value::Null;
        killed: "a exited 137" => 137, "Error", Value::Null;
        oom_killed: "a oom 137" => 137, "OOMKilled", Value::Null;
        oom_killed_with_code_0: "a oom 0" => 0, "OOMKilled", Value::Null;
        cannot_run: "a cannot-run 127 error=why" => 127, "ContainerCannotRun", "why";
        unknown: "a removing" => 137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated";
        runtime_error: "a exited 1 error=why" => 1, "Error", "why";
    }

    fn with_words(pod: &str, seen: &str, words: &str) -> Value {
        let pod = super::pod(pod);
        let mut case = case(&pod, &format!("{UP}{seen}"));
        case.messages.insert("a-0".into(), words.into());
        case.container("a")
    }

    #[test]
    fn message_from_the_container() {
        let status = with_words(NEVER, "a exited 1; b exited 0", "sorry");
        assert_eq!(status["state"]["terminated"]["message"], "sorry");
    }

    #[test]
    fn message_of_the_runtime_and_of_the_container() {
        let status = with_words(NEVER, "a exited 1 error=why; b exited 0", "sorry");
        assert_eq!(status["state"]["terminated"]["message"], "why: sorry");
    }

    #[test]
    fn message_in_the_last_state() {
        let status = with_words(ALWAYS, "a exited 1; a#1 running; b running", "sorry");
        assert_eq!(status["lastState"]["terminated"]["message"], "sorry");
    }

    #[test]
    fn message_is_cut_at_the_pod_s_share() {
        let of = |spec: &str| {
            with_words(spec, "a exited 1; b exited 0", &"x".repeat(20_000))["state"]["terminated"]["message"]
                .as_str()
                .unwrap()
                .len()
        };
        assert_eq!(of(NEVER), 6144);
        let many: Vec<String> = (0..11).map(|n| format!("{{name: c{n}}}")).collect();
        let spec = format!(
            "{{restartPolicy: Never, initContainers: [{{name: a}}], containers: [{}]}}",
            many.join(", ")
        );
        assert_eq!(of(&spec), 1024);
    }
}

/// Conditions (upstream `pkg/kubelet/status/generate.go`).
mod conditions {
    use super::*;

    fn told(kind: &str, spec: &str, seen: &str) -> String {
        let all = case(&pod(spec), seen).status().conditions.unwrap();
        let one = all.into_iter().find(|c| c.type_ == kind).unwrap();
        [Some(one.status), one.reason, one.message].into_iter().flatten().collect::<Vec<_>>().join(" | ")
    }

    macro_rules! rows {
        ($($name:ident: $kind:expr, $pod:expr, $seen:expr => $expected:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(told($kind, $pod, $seen), $expected); })*
        };
    }

    rows! {
        pod_scheduled_always: "PodScheduled", ALWAYS, "" => "True";
        ready_to_start_containers: "PodReadyToStartContainers", ALWAYS, "sandbox running" => "True";
        not_ready_to_start_containers: "PodReadyToStartContainers", ALWAYS, "sandbox exited 0" => "False";
        initialized: "Initialized", INIT, "sandbox running; i exited 0" => "True";
        initialized_sidecar_not_started: "Initialized", SIDECAR, "sandbox running; s running"
            => "False | ContainersNotInitialized | containers with incomplete status: [s]";
        initialized_plain_not_done: "Initialized", INIT, "sandbox running; i running"
            => "False | ContainersNotInitialized | containers with incomplete status: [i]";
        initialized_a_regular_one_runs: "Initialized", INIT, "sandbox running; a running" => "True";
        initialized_succeeded: "Initialized", NEVER, "sandbox running; a exited 0; b exited 0" => "True | PodCompleted";
        containers_ready: "ContainersReady", ALWAYS, "sandbox running; a running; b running" => "True";
        containers_not_ready: "ContainersReady", ALWAYS, "sandbox running; a running; b exited 1"
            => "False | ContainersNotReady | containers with unready status: [b]";
        containers_ready_unknown: "ContainersReady", "{containers: []}", "sandbox running" => "False | UnknownContainerStatuses";
        containers_ready_succeeded: "ContainersReady", NEVER, "sandbox running; a exited 0; b exited 0" => "False | PodCompleted";
        containers_ready_failed: "ContainersReady", NEVER, "sandbox running; a exited 1; b exited 0" => "False | PodFailed";
        ready: "Ready", ALWAYS, "sandbox running; a running; b running" => "True";
        ready_as_containers_ready: "Ready", ALWAYS, "sandbox running; a running"
            => "False | ContainersNotReady | containers with unready status: [b]";
        ready_gate_does_not_exist: "Ready", "{readinessGates: [{conditionType: x/y}], containers: [{name: a}]}", "sandbox running; a running"
            => "False | ReadinessGatesNotReady | corresponding condition of pod readiness gate \"x/y\" does not exist.";
        ready_succeeded: "Ready", NEVER, "sandbox running; a exited 0; b exited 0" => "False | PodCompleted";
        ready_failed: "Ready", NEVER, "sandbox running; a exited 1; b exited 0" => "False | PodFailed";
    }
}
