//! `RestartAllContainers`: the whole pod starts over in its sandbox; the container that triggered it is
//! removed last.

use super::*;

const RULE: &str =
    "restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]";

fn pod_with(init: &str) -> DesiredPod {
    pod(&format!(
        "{{restartPolicy: Never, {init} containers: [{{name: app}}, {{name: watch, restartPolicy: Never, {RULE}}}]}}"
    ))
}

fn killed(id: &str) -> String {
    let name = id.split('-').next().unwrap();
    format!("kill {id} (StartOver: Container {name} will be restarted with all containers of its pod)")
}

#[test]
fn all_containers_are_killed_and_removed_and_the_trigger_last() {
    let two = pod_with("");
    let app = killed("app-0");
    check("another exit code", &two, "sandbox running; app running; watch exited 1", "keep sandbox-0");
    check(
        "its rule fires",
        &two,
        "sandbox running; app running; watch exited 42",
        &format!("keep sandbox-0 | {app}"),
    );
    check(
        "the others go first",
        &two,
        "sandbox running; app exited 137; watch exited 42",
        "keep sandbox-0 | remove app-0",
    );
    check(
        "what was only made goes too",
        &two,
        "sandbox running; app created; watch exited 42",
        "keep sandbox-0 | remove app-0",
    );
    check("then the trigger", &two, "sandbox running; watch exited 42", "keep sandbox-0 | remove watch-0");
    check("and the pod begins anew", &two, "sandbox running", "keep sandbox-0 | start app, watch");
    check(
        "in a sandbox that died meanwhile as well: first that is replaced",
        &two,
        "sandbox exited 137; app exited 137; watch exited 42",
        "new sandbox 1 | start watch",
    );
    check(
        "and then it goes on",
        &two,
        "sandbox exited 137; sandbox#1 running; app exited 137; watch exited 42",
        "keep sandbox-1 | remove app-0",
    );
}

#[test]
fn init_containers_and_sidecars_run_again_and_may_be_the_trigger() {
    let init = "initContainers: [{name: setup}, {name: mesh, restartPolicy: Always}],";
    let four = pod_with(init);
    let (app, mesh) = (killed("app-0"), killed("mesh-0"));
    check(
        "all are killed",
        &four,
        "sandbox running; setup exited 0; mesh running; app running; watch exited 42",
        &format!("keep sandbox-0 | {app} | {mesh} | remove setup-0"),
    );
    check(
        "an init container that has ended is removed, for it runs again",
        &four,
        "sandbox running; setup exited 0; mesh exited 137; app exited 137; watch exited 42",
        "keep sandbox-0 | remove app-0, mesh-0, setup-0",
    );
    check("from the first one on", &four, "sandbox running", "keep sandbox-0 | start setup");
    let own = format!("initContainers: [{{name: mesh, restartPolicy: Always, {RULE}}}],");
    let sidecar = pod(&format!("{{{own} containers: [{{name: app}}]}}"));
    check(
        "a sidecar triggers it",
        &sidecar,
        "sandbox running; mesh exited 42; app running",
        &format!("keep sandbox-0 | {app}"),
    );
    let own = format!("initContainers: [{{name: setup, restartPolicy: Never, {RULE}}}],");
    let plain = pod(&format!("{{restartPolicy: Never, {own} containers: [{{name: app}}]}}"));
    check("and a plain one", &plain, "sandbox running; setup exited 42", "keep sandbox-0 | remove setup-0");
    check("whose other failures are final", &plain, "sandbox running; setup exited 1", "finish");
}
