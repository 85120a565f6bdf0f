//! The decisions of upstream's `computePodActions` as tables: one test for each row, named after it.

use super::*;

macro_rules! rows {
    ($($name:ident: $pod:expr, $seen:expr, $probes:expr => $expected:expr;)*) => {
        $(#[test] fn $name() { check_probed(stringify!($name), &pod($pod), $seen, $probes, $expected); })*
    };
}

const ALWAYS: &str = "{restartPolicy: Always, containers: [{name: app}]}";
const ON_FAILURE: &str = "{restartPolicy: OnFailure, containers: [{name: app}]}";
const NEVER: &str = "{restartPolicy: Never, containers: [{name: app}]}";
const RULE: &str = "{restartPolicy: Never, containers: [{name: app, restartPolicy: Never, restartPolicyRules: \
                    [{action: Restart, exitCodes: {operator: In, values: [42]}}, \
                     {action: Restart, exitCodes: {operator: NotIn, values: [0, 1]}}]}]}";
const INIT: &str = "{initContainers: [{name: i}, {name: j}], containers: [{name: app}]}";
const INIT_NEVER: &str =
    "{restartPolicy: Never, initContainers: [{name: i}, {name: j}], containers: [{name: app}]}";
const SIDECAR: &str = "{initContainers: [{name: s, restartPolicy: Always, startupProbe: {}, livenessProbe: {}}], \
                       containers: [{name: app}]}";
const PLAIN_SIDECAR: &str =
    "{initContainers: [{name: s, restartPolicy: Always}, {name: i}], containers: [{name: app}]}";

const RESTART: &str = "keep sandbox-0 | start app";
const NO: &str = "finish";
const CHANGED: &str =
    "keep sandbox-0 | start app | kill app-0 (Changed: Container app definition changed, will be restarted)";
const LIVENESS: &str = "keep sandbox-0 | start app | kill app-0 (LivenessProbe: Container app failed liveness probe, will be restarted)";
const STARTUP: &str = "keep sandbox-0 | start app | kill app-0 (StartupProbe: Container app failed startup probe, will be restarted)";

/// Whether a new sandbox is needed.
mod sandbox_change {
    use super::*;
    rows! {
        no_sandbox_at_all: ALWAYS, "", "" => "new sandbox 0 | start app";
        more_than_one_ready: ALWAYS, "sandbox running; sandbox#1 running", "" => "new sandbox 2 | start app";
        newest_is_not_ready: ALWAYS, "sandbox#3 exited 0", "" => "new sandbox 4 | start app";
        network_mode_differs: ALWAYS, "sandbox running hostnet; app running", "" => "new sandbox 1 | start app";
        otherwise: ALWAYS, "sandbox#2 running; app@2 running", "" => "keep sandbox-2";
    }
}

/// Containers that start in a new sandbox.
mod new_sandbox {
    use super::*;
    rows! {
        never_and_one_ran: NEVER, "sandbox exited 0; app exited 1", "" => NO;
        never_and_none_ran: NEVER, "sandbox exited 0", "" => "new sandbox 1 | start app";
        on_failure_exit_0_is_left_out:
            "{restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}",
            "sandbox exited 0; a exited 0; b exited 1", "" => "new sandbox 1 | start b";
        nothing_to_start: ON_FAILURE, "sandbox exited 0; app exited 0", "" => NO;
        init_containers_first: INIT, "sandbox exited 0; app exited 1", "" => "new sandbox 1 | start i";
        no_init_containers_the_list: ALWAYS, "sandbox exited 0; app exited 1", "" => "new sandbox 1 | start app";
    }
}

/// Restart policy x exit code x state.
mod restart_decision {
    use super::*;
    rows! {
        always_exit_0: ALWAYS, "sandbox running; app exited 0", "" => RESTART;
        always_exit_1: ALWAYS, "sandbox running; app exited 1", "" => RESTART;
        always_killed_by_liveness_probe: ALWAYS, "sandbox running; app running", "liveness app-0 failed" => LIVENESS;
        always_killed_by_startup_probe: ALWAYS, "sandbox running; app running", "startup app-0 failed" => STARTUP;
        always_spec_changed: ALWAYS, "sandbox running; app running hash=other", "" => CHANGED;
        always_no_status: ALWAYS, "sandbox running", "" => RESTART;
        always_created: ALWAYS, "sandbox running; app created", "" => RESTART;
        always_running: ALWAYS, "sandbox running; app running", "" => "keep sandbox-0";
        always_unknown: ALWAYS, "sandbox running; app removing", "" => RESTART;
        always_oom_killed: ALWAYS, "sandbox running; app oom 137", "" => RESTART;
        always_cannot_run: ALWAYS, "sandbox running; app cannot-run 127", "" => RESTART;
        on_failure_exit_0: ON_FAILURE, "sandbox running; app exited 0", "" => NO;
        on_failure_exit_1: ON_FAILURE, "sandbox running; app exited 1", "" => RESTART;
        on_failure_killed_by_liveness_probe: ON_FAILURE, "sandbox running; app running", "liveness app-0 failed" => LIVENESS;
        on_failure_killed_by_startup_probe: ON_FAILURE, "sandbox running; app running", "startup app-0 failed" => STARTUP;
        on_failure_spec_changed: ON_FAILURE, "sandbox running; app running hash=other", "" => CHANGED;
        on_failure_no_status: ON_FAILURE, "sandbox running", "" => RESTART;
        on_failure_created: ON_FAILURE, "sandbox running; app created", "" => RESTART;
        on_failure_running: ON_FAILURE, "sandbox running; app running", "" => "keep sandbox-0";
        on_failure_unknown: ON_FAILURE, "sandbox running; app removing", "" => RESTART;
        on_failure_oom_killed: ON_FAILURE, "sandbox running; app oom 137", "" => RESTART;
        on_failure_cannot_run: ON_FAILURE, "sandbox running; app cannot-run 127", "" => RESTART;
        never_exit_0: NEVER, "sandbox running; app exited 0", "" => NO;
        never_exit_1: NEVER, "sandbox running; app exited 1", "" => NO;
        never_killed_by_liveness_probe: NEVER, "sandbox running; app running", "liveness app-0 failed" => NO;
        never_killed_by_startup_probe: NEVER, "sandbox running; app running", "startup app-0 failed" => NO;
        never_spec_changed: NEVER, "sandbox running; app running hash=other", "" => CHANGED;
        never_no_status: NEVER, "sandbox running", "" => RESTART;
        never_created: NEVER, "sandbox running; app created", "" => RESTART;
        never_running: NEVER, "sandbox running; app running", "" => "keep sandbox-0";
        never_unknown: NEVER, "sandbox running; app removing", "" => NO;
        never_oom_killed: NEVER, "sandbox running; app oom 137", "" => NO;
        never_cannot_run: NEVER, "sandbox running; app cannot-run 127", "" => NO;
        unknown_policy_counts_as_always:
            "{restartPolicy: Sometimes, containers: [{name: app}]}", "sandbox running; app exited 0", "" => RESTART;
        container_policy_overrides_the_pod_s:
            "{containers: [{name: app, restartPolicy: Never}]}", "sandbox running; app exited 1", "" => NO;
        container_policy_on_failure_exit_0:
            "{containers: [{name: app, restartPolicy: OnFailure}]}", "sandbox running; app exited 0", "" => NO;
        rule_in_matches: RULE, "sandbox running; app exited 42", "" => RESTART;
        rule_not_in_matches: RULE, "sandbox running; app exited 7", "" => RESTART;
        no_rule_matches_exit_1: RULE, "sandbox running; app exited 1", "" => NO;
        no_rule_matches_exit_0: RULE, "sandbox running; app exited 0", "" => NO;
        rules_are_not_asked_after_a_probe_kill: RULE, "sandbox running; app running", "liveness app-0 failed" => NO;
        rules_need_a_policy_of_the_container:
            "{restartPolicy: Never, containers: [{name: app, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]}",
            "sandbox running; app exited 42", "" => NO;
    }
}

/// Init containers.
mod init_containers {
    use super::*;
    rows! {
        plain_no_status: INIT, "sandbox running", "" => "keep sandbox-0 | start i";
        plain_previously_initialized: INIT, "sandbox running; app running; j exited 1", "" => "keep sandbox-0";
        plain_created: INIT, "sandbox running; i created", "" => "keep sandbox-0 | start i";
        plain_running: INIT, "sandbox running; i running", "" => "keep sandbox-0";
        plain_failed_policy_says_restart: INIT, "sandbox running; i exited 1", "" => "keep sandbox-0 | start i";
        plain_failed_policy_says_no: INIT_NEVER, "sandbox running; i exited 1", "" => NO;
        plain_ok_next: INIT, "sandbox running; i exited 0", "" => "keep sandbox-0 | start j";
        plain_ok_last: INIT, "sandbox running; i exited 0; j exited 0", "" => RESTART;
        plain_unknown: INIT, "sandbox running; i removing", "" => "keep sandbox-0 | start i";
        plain_unknown_never: INIT_NEVER, "sandbox running; i removing", "" => NO;
        plain_oom_killed_with_code_0: INIT_NEVER, "sandbox running; i oom 0", "" => NO;
        sidecar_no_status_previously_initialized:
            PLAIN_SIDECAR, "sandbox running; app running", "" => "keep sandbox-0 | start s";
        sidecar_created: PLAIN_SIDECAR, "sandbox running; s created", "" => "keep sandbox-0 | start s";
        sidecar_running_next: PLAIN_SIDECAR, "sandbox running; s running", "" => "keep sandbox-0 | start i";
        sidecar_running_startup_no_result: SIDECAR, "sandbox running; s running", "" => "keep sandbox-0";
        sidecar_running_startup_failure: SIDECAR, "sandbox running; s running", "startup s-0 failed"
            => "keep sandbox-0 | start s | kill s-0 (StartupProbe: Init container s failed startup probe)";
        sidecar_running_startup_success_last: SIDECAR, "sandbox running; s running", "startup s-0 ok" => RESTART;
        sidecar_running_liveness_failure:
            SIDECAR, "sandbox running; s running; app running", "startup s-0 ok; liveness s-0 failed"
            => "keep sandbox-0 | start s | kill s-0 (LivenessProbe: Init container s failed liveness probe)";
        sidecar_running_hash_changed: PLAIN_SIDECAR, "sandbox running; s running hash=other; i exited 0; app running", ""
            => "keep sandbox-0 | start s | kill s-0 (Changed: Init container s definition changed)";
        sidecar_exited_failed:
            PLAIN_SIDECAR, "sandbox running; s exited 1; i exited 0; app running", "" => "keep sandbox-0 | start s";
        sidecar_exited_ok:
            PLAIN_SIDECAR, "sandbox running; s exited 0; i exited 0; app running", "" => "keep sandbox-0 | start s";
        sidecar_unknown:
            PLAIN_SIDECAR, "sandbox running; s removing; i exited 0; app running", "" => "keep sandbox-0 | start s";
    }
}
