//! Container statuses (upstream `convertToAPIContainerStatuses`).

use super::*;

#[test]
fn container_status_table() {
    let always = app("Always");
    let with_init = pod("{initContainers: [{name: i}], containers: [{name: app}]}");
    let state = |row: &str, case: Case<'_>, name: &str, expected: Value| {
        assert_eq!(case.container(name)["state"], expected, "row: {row}");
    };
    let ran = || case(&always, "sandbox running; app#1 running").status();
    state("default waiting", case(&always, ""), "app", json!({"waiting": {"reason": "ContainerCreating"}}));
    state(
        "default waiting, with init containers",
        case(&with_init, ""),
        "app",
        json!({"waiting": {"reason": "PodInitializing"}}),
    );
    state(
        "default waiting, of the init container",
        case(&with_init, ""),
        "i",
        json!({"waiting": {"reason": "PodInitializing"}}),
    );
    let ended = case(&always, "sandbox running; app exited 3").status();
    let gone = case(&always, "sandbox running").after(ended.clone());
    assert_eq!(
        gone.container("app"),
        serde_json::to_value(&ended.container_statuses.unwrap()[0]).unwrap(),
        "row: no instance, old terminated: stays"
    );
    let waited = case(&always, "").waits("app", "ErrImagePull", "m").status();
    state(
        "no instance, old waiting",
        case(&always, "").after(waited),
        "app",
        json!({"waiting": {"reason": "ContainerCreating"}}),
    );

    let vanished = case(&always, "sandbox running").after(ran());
    let lost = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was deleted.  The container used to be Running"}});
    let status = vanished.container("app");
    assert_eq!(status["lastState"], lost, "row: no instance, old running");
    assert_eq!(
        (&status["restartCount"], &status["state"]),
        (&json!(2), &json!({"waiting": {"reason": "ContainerCreating"}})),
        "row: no instance, old running"
    );
    assert_eq!(vanished.phase(), "Running", "it ran: not Pending");
    let again = case(&always, "sandbox running").after(vanished.status());
    assert_eq!(again.container("app"), status, "row: no instance, second look changes nothing");
    let mut deleted = always.clone();
    deleted.metadata.deletion_timestamp = Some(crate::status::seconds(at(0)));
    let status = case(&deleted, "sandbox running").after(ran()).container("app");
    assert_eq!(
        (&status["restartCount"], &status["lastState"]),
        (&json!(1), &lost),
        "row: no instance, old running, being deleted"
    );
    let had_last = case(&always, "sandbox running; app exited 5; app#1 running").status();
    let status = case(&always, "sandbox running").after(had_last).container("app");
    assert_eq!(
        (&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]),
        (&json!(1), &json!(5)),
        "row: no instance, old running, lastState exists"
    );

    state(
        "running",
        case(&always, "sandbox running; app running"),
        "app",
        json!({"running": {"startedAt": "1970-01-12T13:46:41Z"}}),
    );
    state(
        "running, not inspected",
        case(&always, "sandbox running; app running uninspected"),
        "app",
        json!({"running": {}}),
    );
    state("created", case(&always, "sandbox running; app created"), "app", json!({"waiting": {}}));
    let end = |code: i32, reason: &str| {
        json!({"terminated": {"exitCode": code, "reason": reason, "containerID": "docker://app-0",
            "startedAt": "1970-01-12T13:46:41Z", "finishedAt": "1970-01-12T13:46:50Z"}})
    };
    state("exited 0", case(&always, "app exited 0"), "app", end(0, "Completed"));
    state("exited 1", case(&always, "app exited 1"), "app", end(1, "Error"));
    state("OOM-killed", case(&always, "app oom 137"), "app", end(137, "OOMKilled"));
    let mut failed = end(127, "ContainerCannotRun");
    failed["terminated"]["startedAt"] = json!("1970-01-12T13:46:40Z");
    failed["terminated"]["finishedAt"] = json!("1970-01-12T13:46:40Z");
    failed["terminated"]["message"] = json!("no-such-file");
    state(
        "cannot run: times of its creation, Docker's message",
        case(&always, "app cannot-run 127 error=no-such-file"),
        "app",
        failed,
    );

    let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated"}});
    let removing = case(&always, "sandbox running; app#1 removing").after(ran());
    assert_eq!(removing.container("app")["state"], unknown, "row: stuck in removal, old running");
    assert_eq!(removing.container("app")["restartCount"], 2, "row: stuck in removal, old running");
    let again = case(&always, "sandbox running; app#1 removing").after(removing.status());
    assert_eq!(again.container("app"), removing.container("app"), "row: stuck in removal, second look");
    state("stuck in removal, never seen before", case(&always, "app removing"), "app", unknown);
    let known = case(&always, "app exited 3").status();
    state(
        "stuck in removal, its end is known",
        case(&always, "app removing").after(known),
        "app",
        end(3, "Error"),
    );
}

/// `docker rm -f`, with each subset of the death and the removal observed.
#[test]
fn a_container_that_was_removed_by_force_counts_one_restart_whatever_was_seen_of_it() {
    let always = app("Always");
    let check = |looks: &[&str], next: u32| {
        let mut status = None;
        for look in looks {
            let (seen, waits) = match look.strip_suffix(", waits") {
                Some(seen) => (seen, true),
                None => (*look, false),
            };
            let mut case = case(&always, &format!("sandbox running; {seen}"));
            if let Some(old) = status {
                case = case.after(old);
            }
            if waits {
                case = case.waits("app", "CrashLoopBackOff", "back-off 10s");
            }
            status = Some(case.status());
        }
        let status = status.unwrap();
        assert_eq!(crate::status::restarts_told(&status, "app"), Some(next), "number after {looks:?}");
        for made in ["created", "running"] {
            let again = case(&always, &format!("sandbox running; app#{next} {made}")).after(status.clone());
            assert_eq!(again.container("app")["restartCount"], next, "{made} after {looks:?}");
        }
    };
    let (running, dead, removing) = ("app#1 running", "app#1 exited 9", "app#1 removing");
    check(&[running, "gone running"], 2);
    check(&[running, removing, "gone running"], 2);
    check(&[running, removing, removing, "gone running"], 2);
    check(&[running, dead, removing, "gone running"], 2);
    check(&[running, dead, "gone running"], 2);
    check(&[removing, "gone running"], 2);
    check(&[dead, "app#1 exited 9, waits", "gone running, waits"], 2);
    check(&[dead, "app#1 exited 9, waits", "app#1 removing, waits", "gone running, waits"], 2);
    check(&[dead, "app#1 exited 9, waits", "app#1 removing, waits", removing, "gone running"], 2);
    check(&[running, "app#1 removing, waits", "gone running, waits", "gone running"], 2);
    // The attempt's number is free: it never ran.
    check(&["app#1 created", "app#1 removing", "gone running"], 1);
}

#[test]
fn instances_newest_is_state_second_is_last_state() {
    let always = app("Always");
    let status = case(&always, "app exited 1; app#1 exited 2; app#2 running").container("app");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 2, "further ones are ignored");
    assert_eq!((&status["restartCount"], &status["containerID"]), (&json!(2), &json!("docker://app-2")));
    let status = case(&always, "app#2 exited 9; app#1 exited 2").container("app");
    assert_eq!(
        (&status["state"]["terminated"]["exitCode"], &status["lastState"]["terminated"]["exitCode"]),
        (&json!(9), &json!(2))
    );
    let before = case(&always, "app#4 exited 9").status();
    let status = case(&always, "app#1 running").after(before).container("app");
    assert_eq!(
        status["restartCount"], 5,
        "never below what was told, and one more than one that was removed"
    );
    let status = case(&always, "app running; app#8 running uid=old; gone running").status();
    assert_eq!(status.container_statuses.unwrap().len(), 1, "other UIDs and names are not ours");
    let known = case(&always, "app#1 exited 3").status();
    let status = case(&always, "app#1 removing; app#2 running").after(known).container("app");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3, "an end that was seen is not forgotten");
    // The dead containers were removed by hand.
    let ended = case(&always, "sandbox running; app#4 exited 9").status();
    let first = case(&always, "sandbox running; app running").after(ended).status();
    for (turn, status) in [first.clone(), case(&always, "sandbox running; app running").after(first).status()]
        .iter()
        .enumerate()
    {
        let status = &status.container_statuses.as_ref().unwrap()[0];
        let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code);
        assert_eq!((status.restart_count, last), (5, Some(9)), "{turn}");
    }
    let ran = case(&always, "app#1 exited 3; app#2 running").status();
    let status = case(&always, "app#2 running").after(ran).container("app");
    assert_eq!(
        (&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]),
        (&json!(2), &json!(3))
    );
    let two = case(&always, "app running; app#1 running").container("app");
    assert!(two.get("lastState").is_none(), "what runs is no last state");
}

#[test]
fn waiting_overlay_table() {
    let overlay = |pod: &DesiredPod, seen: &str, name: &str| {
        let case = case(pod, &format!("{UP}{seen}")).waits(name, "CrashLoopBackOff", "back-off 10s");
        case.container(name)
    };
    let waits = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
    let status = overlay(&app("Always"), "app exited 1", "app");
    assert_eq!(
        (&status["state"], &status["lastState"]["terminated"]["exitCode"]),
        (&waits, &json!(1)),
        "row: terminated moves to lastState"
    );
    assert_eq!(overlay(&app("Always"), "", "app")["state"], waits, "row: no instance");
    assert_eq!(overlay(&app("Always"), "app created", "app")["state"], waits, "row: made");
    assert!(
        overlay(&app("Always"), "app running", "app")["state"].get("running").is_some(),
        "row: running never waits"
    );
    assert!(
        overlay(&app("Never"), "app exited 1", "app")["state"].get("terminated").is_some(),
        "row: not to be restarted"
    );
    let bare = case(&app("Always"), "sandbox running; app exited 1").container("app");
    assert!(bare["state"].get("terminated").is_some(), "row: no reason cached");
    let init = pod("{initContainers: [{name: i}], containers: [{name: app}]}");
    assert!(
        overlay(&init, "i exited 0", "i")["state"].get("terminated").is_some(),
        "row: init that exited 0 is skipped"
    );
    assert_eq!(overlay(&init, "i exited 1", "i")["state"], waits, "row: init that failed");
}

#[test]
fn plain_init_whose_instance_is_gone() {
    let init =
        pod("{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: app}]}");
    let status = case(&init, "sandbox running; app running; s running").container("i");
    let completed = json!({"terminated": {"exitCode": 0, "reason": "Completed",
        "message": "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"}});
    assert_eq!(
        (&status["state"], &status["ready"]),
        (&completed, &json!(true)),
        "row: regular exists in this sandbox"
    );
    let status = case(&init, "sandbox#1 running; app@0 exited 1").container("i");
    assert_eq!(
        status["state"],
        json!({"waiting": {"reason": "PodInitializing"}}),
        "row: regular of another sandbox"
    );
    let status = case(&init, "sandbox running; app running").container("s");
    assert!(status["state"].get("waiting").is_some(), "row: a sidecar is not treated so");
}

#[test]
fn fields_and_order() {
    let both = pod(
        "{initContainers: [{name: z}, {name: a, restartPolicy: Always}], containers: [{name: w, image: 'repo/w:1'}, {name: b}]}",
    );
    let mut case = case(&both, "sandbox running; z exited 0; a running; w running; b running");
    let status = case.status();
    let names = |list: &Option<Vec<k8s_openapi::api::core::v1::ContainerStatus>>| {
        list.iter().flatten().map(|s| s.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&status.init_container_statuses), "z a", "init in spec order");
    assert_eq!(names(&status.container_statuses), "b w", "regular by name");
    assert_eq!(case.container("w")["imageID"], "docker://sha256:feed");
    case.digests.insert("sha256:feed".into(), "busybox@sha256:beef".into());
    assert_eq!(case.container("w")["imageID"], "docker-pullable://busybox@sha256:beef");
    for owned in &mut case.seen.all {
        owned.image_id.clear();
        owned.image.clear();
    }
    assert_eq!(case.container("w")["imageID"], "", "not known yet");
    assert_eq!(case.container("w")["image"], "repo/w:1", "as wanted, until it was looked at");
    let mut old = status;
    old.container_statuses.as_mut().unwrap()[0].volume_mounts = Some(vec![Default::default()]);
    let status = case.after(old);
    assert_eq!(status.container("b")["volumeMounts"].as_array().unwrap().len(), 1, "carried");
}

#[test]
fn volume_mounts_table() {
    let with = pod("{containers: [{name: app, volumeMounts: [
            {name: v, mountPath: /rw},
            {name: v, mountPath: /ro, readOnly: true},
            {name: v, mountPath: /no, readOnly: true, recursiveReadOnly: Disabled},
            {name: v, mountPath: /yes, readOnly: true, recursiveReadOnly: Enabled},
            {name: v, mountPath: /perhaps, readOnly: true, recursiveReadOnly: IfPossible}]}, {name: none}]}");
    for (recursive, perhaps) in [(false, "Disabled"), (true, "Enabled")] {
        let mut case = case(&with, "");
        case.recursive = recursive;
        let expected = json!([
            {"name": "v", "mountPath": "/rw"},
            {"name": "v", "mountPath": "/ro", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "v", "mountPath": "/no", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "v", "mountPath": "/yes", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "v", "mountPath": "/perhaps", "readOnly": true, "recursiveReadOnly": perhaps},
        ]);
        assert_eq!(case.container("app")["volumeMounts"], expected);
        assert_eq!(case.container("none")["volumeMounts"], Value::Null);
        // Another engine does not change containers that it did not make.
        let old = case.status();
        let mut later = case.after(old);
        later.recursive = !recursive;
        assert_eq!(later.container("app")["volumeMounts"], expected);
    }
}

#[test]
fn started_and_ready_table() {
    let plain =
        pod("{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: app}]}");
    let probed = pod(
        "{initContainers: [{name: i}, {name: s, restartPolicy: Always, startupProbe: {}, readinessProbe: {}}], containers: [{name: app, startupProbe: {}, readinessProbe: {}}]}",
    );
    let up = "sandbox running; i exited 0; s running; app running";
    let check =
        |row: &str, pod: &DesiredPod, seen: &str, results: &str, name: &str, expected: (bool, bool)| {
            let status = case(pod, seen).probed(results).container(name);
            assert_eq!(
                (&status["started"], &status["ready"]),
                (&json!(expected.0), &json!(expected.1)),
                "row: {row}, {name}"
            );
        };
    for name in ["app", "s"] {
        let of = |words: &str| words.replace('X', &format!("{name}-0"));
        check("no probes, running", &plain, up, "", name, (true, true));
        check("not there", &plain, "", "", name, (false, false));
        check("ended", &plain, &format!("sandbox running; {name} exited 0"), "", name, (false, false));
        check("startup not yet run", &probed, up, "", name, (false, false));
        check("startup failed", &probed, up, &of("startup X failed; readiness X ok"), name, (false, false));
        check("startup passed, readiness not yet run", &probed, up, &of("startup X ok"), name, (true, false));
        check("both passed", &probed, up, &of("startup X ok; readiness X ok"), name, (true, true));
        check("readiness failed", &probed, up, &of("startup X ok; readiness X failed"), name, (true, false));
        check(
            "result of another instance",
            &probed,
            up,
            &format!("startup {name}-1 ok; readiness {name}-1 ok"),
            name,
            (false, false),
        );
    }
    check("plain init, exited 0", &plain, up, "", "i", (false, true));
    check("plain init, running", &plain, "sandbox running; i running", "", "i", (true, false));
    check("plain init, failed", &plain, "sandbox running; i exited 1", "", "i", (false, false));
    let no_prober = Probes::all_passed(&probed, &observed(&probed, up));
    assert_eq!(
        Case { probes: no_prober, ..case(&probed, up) }.container("app")["ready"],
        true,
        "row: nobody probes"
    );
}

#[test]
fn times_have_whole_seconds() {
    let always = app("Always");
    let mut case = case(&always, "sandbox running; app running");
    case.seen.all[1].state =
        crate::plan::RunState::Running { started: Some("2026-01-02T03:04:05.678Z".parse().unwrap()) };
    let text = serde_json::to_string(&case.status()).unwrap();
    assert!(text.contains("\"2026-01-02T03:04:05Z\"") && !text.contains("678"), "{text}");
}
