//! The phase that the server is told, and the ends of containers in it.

use super::*;
use crate::cluster::pods::wanted::wanted;

/// A pod that runs.
fn here_runs<'a>(pod: &'a DesiredPod, status: &'a PodStatus) -> Here<'a> {
    let (is_leaving, is_over, runs, returns) = (false, false, true, false);
    Here { pod, status, is_leaving, is_over, runs, returns, deletion: None, now: NOW }
}

#[test]
fn phases() {
    let here = |phase: &str, theirs: &str, leaving: bool, over: bool, state: Value| {
        let pod = desired(Source::Api, "u1", spec());
        let told = status(json!({"phase": phase, "containerStatuses": [
            {"name": "app", "image": "b", "imageID": "", "ready": false, "restartCount": 0, "state": state}]}));
        let here = Here {
            pod: &pod,
            status: &told,
            is_leaving: leaving,
            is_over: over,
            runs: false,
            returns: false,
            deletion: None,
            now: NOW,
        };
        let wanted = wanted(&status(json!({"phase": theirs})), &here);
        wanted.phase.unwrap_or_default()
    };
    let ended = |code: i32| json!({"terminated": {"exitCode": code}});
    let runs = || json!({"running": {}});
    assert_eq!(here("Running", "Pending", false, false, runs()), "Running");
    assert_eq!(here("Failed", "Running", false, false, runs()), "Running", "a container runs still");
    assert_eq!(here("Failed", "Running", true, false, ended(1)), "Running", "it is being stopped");
    assert_eq!(here("Failed", "Running", false, false, ended(1)), "Failed");
    assert_eq!(here("Running", "Failed", false, false, ended(1)), "Failed", "a last phase stays");
    assert_eq!(here("Running", "Succeeded", false, false, ended(0)), "Succeeded");
    // Deleted, with all containers dead.
    assert_eq!(here("Running", "Running", true, true, ended(0)), "Succeeded");
    assert_eq!(here("Running", "Running", true, true, ended(137)), "Failed");
    assert_eq!(here("Pending", "Pending", true, true, json!({"waiting": {}})), "Failed");
    assert_eq!(here("Running", "Running", true, true, runs()), "Failed");
}

/// The conditions of [`crate::status::evicted`].
fn evicted_conditions() -> Option<Vec<PodCondition>> {
    status(json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]})).conditions
}

/// Regression: at the server it had the condition DisruptionTarget alone; the kubelet's has all.
#[test]
fn an_evicted_pod_keeps_its_conditions_and_is_not_ready() {
    let pod = desired(Source::Api, "u1", spec());
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let kinds =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled", "x/Foreign"];
    let theirs = status(json!({"phase": "Running", "conditions": kinds.map(condition)}));
    let own = PodStatus {
        conditions: evicted_conditions(),
        ..status(json!({"phase": "Failed", "reason": "Evicted"}))
    };
    let words = |here: &Here<'_>| {
        let told = wanted(&theirs, here);
        let all = told.conditions.iter().flatten();
        let words = all.map(|c| format!("{} {} {}", c.type_, c.status, c.reason.as_deref().unwrap_or("-")));
        words.collect::<Vec<_>>().join(", ")
    };
    let here = Here { runs: false, ..here_runs(&pod, &own) };
    assert_eq!(
        words(&here),
        "PodReadyToStartContainers False -, Initialized True -, Ready False PodFailed, ContainersReady False PodFailed, \
         PodScheduled True -, x/Foreign True -, DisruptionTarget True -"
    );
    // Also where its containers had ended before.
    let mut ended = theirs.clone();
    for c in ended.conditions.iter_mut().flatten().filter(|c| c.type_.ends_with("Ready")) {
        c.status = "False".to_owned();
        let reason = if c.type_ == "Ready" { "PodCompleted" } else { "ContainersNotReady" };
        (c.reason, c.message) = (Some(reason.to_owned()), Some("why".to_owned()));
    }
    let told = wanted(&ended, &here).conditions.unwrap();
    let words_of =
        |kind: &str| told.iter().find(|c| c.type_ == kind).map(|c| (c.reason.as_deref(), &c.message));
    assert_eq!(words_of("Ready"), Some((Some("PodFailed"), &None)));
    assert_eq!(words_of("ContainersReady"), Some((Some("PodFailed"), &None)));
    let stops = words(&Here { runs: true, ..here });
    assert!(
        stops.starts_with("PodReadyToStartContainers True -, Initialized True -, Ready True -"),
        "{stops}"
    );
}

/// What a server has taken is not told once more, at whatever time: the deletion of a pod waits for that.
#[test]
fn what_was_told_is_told_once() {
    let later = Timestamp::from_second(NOW.as_second() + 60).unwrap();
    let states = [
        json!({"waiting": {"reason": "ContainerCreating"}}),
        json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}}),
        json!({"terminated": {"exitCode": 0}}),
        json!({"terminated": {"exitCode": 137}}),
    ];
    let phases = ["Pending", "Running", "Succeeded", "Failed"];
    let of = |phase: &str, state: &Value, truth: &str| {
        let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(|kind| json!({"type": kind, "status": truth, "observedGeneration": 1, "reason": "ContainersNotReady"}));
        status(
            json!({"phase": phase, "observedGeneration": 1, "conditions": conditions, "containerStatuses": [
            {"name": "app", "image": "b", "imageID": "", "ready": true, "restartCount": 0, "state": state}]}),
        )
    };
    let mut all = Vec::new();
    for phase in phases {
        for state in &states {
            all.extend(["True", "False"].map(|truth| of(phase, state, truth)));
        }
    }
    let mut evicted = all.clone();
    evicted.iter_mut().for_each(|own| own.conditions.clone_from(&evicted_conditions()));
    let owns: Vec<&PodStatus> = all.iter().chain(&evicted).collect();
    let flags = |bits: u32| [0, 1, 2, 3].map(|bit| bits & (1 << bit) != 0);
    for source in [Source::File, Source::Api] {
        let pod = desired(source, "u1", spec());
        for (theirs, own) in all.iter().flat_map(|theirs| owns.iter().map(move |own| (theirs, *own))) {
            for bits in 0..16 {
                let [is_leaving, is_over, runs, returns] = flags(bits);
                let deletion = is_leaving.then_some(2);
                let here =
                    Here { pod: &pod, status: own, is_leaving, is_over, runs, returns, deletion, now: NOW };
                let told = wanted(theirs, &here);
                let again = patch(&told, &Here { now: later, ..here }, "u1");
                assert_eq!(again, None, "{source:?} {bits:04b} {theirs:?} {own:?}");
            }
        }
    }
}

/// A mirror whose phase somebody had patched to Failed stayed so, and that of a static pod that returned after an eviction.
#[test]
fn a_mirror_has_the_phase_of_its_static_pod() {
    for (source, phase) in [(Source::File, "Running"), (Source::Http, "Running"), (Source::Api, "Failed")] {
        let pod = desired(source, "u1", spec());
        let told = status(
            json!({"phase": "Running", "containerStatuses": [{"name": "app", "image": "b", "imageID": "",
            "ready": true, "restartCount": 0, "state": {"running": {}}}]}),
        );
        let here = here_runs(&pod, &told);
        let theirs = status(json!({"phase": "Failed", "reason": "Evicted", "message": "why"}));
        let told = wanted(&theirs, &here);
        assert_eq!(told.phase.as_deref(), Some(phase), "{source:?}");
        assert_eq!(told.reason.is_some(), phase == "Failed", "{source:?}");
        // Regression: after a restart on a drained node one that had ended was told as waiting.
        let held = status(json!({"phase": "Pending", "reason": "NodeShutdown", "message": "drained"}));
        let told = wanted(&theirs, &Here { status: &held, runs: false, ..here_runs(&pod, &held) });
        assert_eq!((told.phase, told.reason), (theirs.phase, theirs.reason), "{source:?}");
    }
}

/// Regression: a static pod that is not always restarted, and that returned after a preemption, was shown as ended and as
/// disrupted for good: the API server takes no status of a container that runs again.
#[test]
fn a_static_pod_that_returns_gets_a_new_mirror() {
    let ended = |code: i32| {
        json!({"phase": "Failed", "reason": "Preempting", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [{"name": "app", "image": "b", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}}}]})
    };
    let mirror = |spec: &Value, theirs: Value| {
        let own = PodView {
            pod: Arc::new(desired(Source::File, "h1", spec.clone())),
            ..view(Source::File, "h1", running())
        };
        Rig::new(vec![own], vec![mirror_copy("m1", "h1", theirs)])
    };
    let always = json!({"containers": [{"name": "app", "image": "b"}]});
    let on_failure = json!({"containers": [{"name": "app", "image": "b"}], "restartPolicy": "OnFailure"});
    for (spec, code, is_new) in
        [(&spec(), 137, true), (&on_failure, 0, true), (&on_failure, 137, false), (&always, 137, false)]
    {
        let mut rig = mirror(spec, ended(code));
        let ask = rig.ask();
        if !is_new {
            let Ask::Status(body) = &ask else { panic!("{ask:?}") };
            let gone = json!({"$patch": "delete", "type": "DisruptionTarget"});
            let told = body["status"]["conditions"].as_array().unwrap();
            assert!(told.contains(&gone), "{spec} {code}: {told:?}");
            assert!(body["status"]["containerStatuses"][0]["state"]["running"].is_object(), "{body}");
            continue;
        }
        assert_eq!(ask, Ask::DropMirror("m1".into()), "{spec} {code}");
        rig.answer(ask, Answer::Done(json!({})));
        let ask = rig.ask();
        assert!(matches!(ask, Ask::MakeMirror(_)), "{ask:?}");
        let made = mirror_copy("m2", "h1", json!({"phase": "Pending"}));
        rig.answer(ask, Answer::Done(serde_json::to_value(&*made).unwrap()));
        rig.watch(vec![made]);
        assert!(matches!(rig.ask(), Ask::Status(body) if body["metadata"]["uid"] == "m2"), "{spec} {code}");
        // A server that refuses to remove the mirror is told the rest.
        let mut rig = mirror(spec, ended(code));
        let ask = rig.ask();
        rig.answer(ask, Answer::Refused("a policy".into()));
        assert!(matches!(rig.ask(), Ask::Status(body) if body["metadata"]["uid"] == "m1"), "{spec} {code}");
        // While it is being stopped, what the server has stays.
        let mut rig = mirror(spec, ended(code));
        rig.views[0].leaving = Some(NOW);
        assert!(!matches!(rig.next(), Next::Ask(_, Ask::DropMirror(_))), "{spec} {code}");
    }
    // A pod of the server stays what it was.
    let own = view(Source::Api, "u1", running());
    let mut rig = Rig::new(vec![own], vec![api_copy("u1", "5", ended(137), false)]);
    assert!(!matches!(rig.next(), Next::Ask(_, Ask::DropMirror(_))));
}

/// They stayed as before the deletion: the generation, a sandbox that is gone, words of a pod that may be ready again.
#[test]
fn the_last_conditions_of_a_deleted_pod_are_the_kubelets() {
    let pod = desired(Source::Api, "u1", spec());
    let of = |phase: &str, state: Value| {
        let condition = |kind: &str, truth: &str, more: Value| {
            let mut all = json!({"type": kind, "status": truth, "observedGeneration": 1});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let unready =
            json!({"reason": "ContainersNotReady", "message": "containers with unready status: [app]"});
        status(json!({"phase": phase, "observedGeneration": 1,
            "conditions": [condition("PodReadyToStartContainers", "True", json!({})),
                condition("Ready", "False", unready.clone()), condition("ContainersReady", "False", unready),
                condition("PodScheduled", "True", json!({})), condition("x/Foreign", "True", json!({}))],
            "containerStatuses": [{"name": "app", "image": "b", "imageID": "", "ready": false, "restartCount": 0,
                "state": state}]}))
    };
    let told = of("Running", json!({"terminated": {"exitCode": 5}}));
    let here = Here {
        pod: &pod,
        status: &told,
        is_leaving: true,
        is_over: true,
        runs: false,
        returns: false,
        deletion: Some(2),
        now: NOW,
    };
    let theirs = of("Running", json!({"running": {}}));
    let last = wanted(&theirs, &here);
    let words = |status: &PodStatus| {
        let all = status.conditions.iter().flatten();
        let words = all.map(|c| {
            let generation = c.observed_generation.unwrap_or_default();
            format!("{} {} {generation} {:?} {:?}", c.type_, c.status, c.reason, c.message)
        });
        words.collect::<Vec<_>>()
    };
    assert_eq!(last.observed_generation, Some(2));
    assert_eq!(
        words(&last),
        [
            "x/Foreign True 1 None None",
            "PodReadyToStartContainers False 2 None None",
            "Ready False 2 Some(\"PodFailed\") None",
            "ContainersReady False 2 Some(\"PodFailed\") None",
            "PodScheduled True 2 None None",
        ]
    );
    // It was told again at each look, with the time of that, and the pod stayed at its server.
    let later = Timestamp::from_second(NOW.as_second() + 60).unwrap();
    assert_eq!(patch(&last, &Here { now: later, ..here }, "u1"), None, "it is told once");
    let ready = of("Running", json!({"terminated": {"exitCode": 5}}));
    let mut ready = ready.clone();
    ready.conditions.iter_mut().flatten().for_each(|c| c.status = "True".to_owned());
    let here = Here { status: &ready, ..here };
    let last = wanted(&theirs, &here);
    assert_eq!(patch(&last, &Here { now: later, ..here }, "u1"), None, "also where the kept one was ready");
    // While something runs it stays as it is: no request for the generation alone.
    let stops = Here { is_over: false, runs: true, ..here };
    assert_eq!(wanted(&theirs, &stops).observed_generation, Some(1));
}

#[test]
fn a_container_that_has_ended_for_good_does_not_run_again_and_hides_no_other() {
    let both = json!({"restartPolicy": "Never", "containers": [
        {"name": "app", "image": "b"}, {"name": "other", "image": "b"}]});
    let pod = desired(Source::Api, "u1", both);
    let list = |app: Value, other: Value| {
        let one = |name: &str, state: Value| {
            json!({"name": name, "image": "b", "imageID": "", "ready": false,
            "restartCount": 0, "state": state})
        };
        json!({"phase": "Running", "containerStatuses": [one("app", app), one("other", other)]})
    };
    let (ended, runs) = (json!({"terminated": {"exitCode": 0}}), json!({"running": {}}));
    // Stopped for a while, and running again: both of them.
    let told = status(list(runs.clone(), runs.clone()));
    let here = here_runs(&pod, &told);
    let waits = json!({"waiting": {"reason": "PodStopped"}});
    let back = wanted(&status(list(ended.clone(), waits)), &here);
    assert_eq!(back, status(list(ended.clone(), runs)));
    assert_eq!(patch(&back, &here, "u1"), None);
    let told = status(list(json!({"terminated": {"exitCode": 3}}), ended));
    let last = wanted(&back, &Here { status: &told, runs: false, ..here });
    assert_eq!(last, told, "its second end is an end");
}

/// Regression: a container that had run, and was lost with all that its daemon knew, was told as waiting in a failed pod.
#[test]
fn a_lost_container_behind_an_init_container_has_ended_too() {
    let spec = json!({"initContainers": [{"name": "init", "image": "b"}], "containers": [{"name": "app", "image": "b"}]});
    let pod = desired(Source::Api, "u1", spec);
    let of = |init: Value, app: Value| {
        let one = |name: &str, state: Value| json!([{"name": name, "image": "b", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let mut all = json!({"phase": "Running", "initContainerStatuses": one("init", init)});
        all["containerStatuses"] = one("app", app);
        status(all)
    };
    let waits = || json!({"waiting": {"reason": "PodInitializing"}});
    let lost = of(waits(), waits());
    let here = Here {
        pod: &pod,
        status: &lost,
        is_leaving: true,
        is_over: true,
        runs: false,
        returns: false,
        deletion: None,
        now: NOW,
    };
    let of_app = |theirs: &PodStatus| {
        let told = wanted(theirs, &here);
        assert_eq!(told.phase.as_deref(), Some("Failed"));
        serde_json::to_value(&told.container_statuses.unwrap()[0].state).unwrap()
    };
    let ran = of(json!({"terminated": {"exitCode": 0}}), json!({"running": {}}));
    assert_eq!(of_app(&ran)["terminated"]["reason"], "ContainerStatusUnknown");
    let began = of(json!({"running": {}}), waits());
    assert_eq!(of_app(&began), waits(), "it never ran");
}

/// The API server judges by each container's own policy and rules; a status that it refuses hides the whole pod.
#[test]
fn ends_that_the_server_does_not_take_back() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]);
    let all = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}]);
    let check = |what: &str, policy: &str, list: &str, own: Value, code: i32, stays: bool| {
        let mut container = json!({"name": "app", "image": "b"});
        container.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let mut spec = json!({"restartPolicy": policy, "containers": [{"name": "main", "image": "b"}]});
        let (list, told) = match list {
            "init" => ("initContainers", "initContainerStatuses"),
            _ => ("containers", "containerStatuses"),
        };
        match spec.get_mut(list) {
            Some(all) => all.as_array_mut().unwrap().push(container),
            None => spec[list] = json!([container]),
        }
        let pod = desired(Source::Api, "u1", spec);
        let of = |state: Value| {
            let c = json!([{"name": "app", "image": "b", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
            let mut all = json!({"phase": "Running"});
            all[told] = c;
            status(all)
        };
        let (ended, runs) = (of(json!({"terminated": {"exitCode": code}})), of(json!({"running": {}})));
        let here = |status, returns| Here {
            pod: &pod,
            status,
            is_leaving: false,
            is_over: false,
            runs: true,
            returns,
            deletion: None,
            now: NOW,
        };
        let told = wanted(&ended, &here(&runs, false));
        assert_eq!(told, if stays { ended.clone() } else { runs.clone() }, "{what}");
        // Stopped for a while: only such an end is kept back.
        let told = serde_json::to_string(&wanted(&runs, &here(&ended, true))).unwrap();
        assert_eq!(told.contains("PodStopped"), stays || policy != "Always", "{what}: {told}");
    };
    check("Always", "Always", "", json!({}), 0, false);
    check("Always, but not this one", "Always", "", json!({"restartPolicy": "Never"}), 1, true);
    check("Always, and this one OnFailure", "Always", "", json!({"restartPolicy": "OnFailure"}), 0, true);
    check("OnFailure", "OnFailure", "", json!({}), 0, true);
    check("OnFailure, failed", "OnFailure", "", json!({}), 1, false);
    check("OnFailure, failed, but not this one", "OnFailure", "", json!({"restartPolicy": "Never"}), 3, true);
    check("Never, but this one", "Never", "", json!({"restartPolicy": "Always"}), 0, false);
    let ruled = json!({"restartPolicy": "Never", "restartPolicyRules": rules});
    check("Never, with a rule that fits", "Never", "", ruled.clone(), 3, false);
    check("Never, with a rule that does not", "Never", "", ruled, 4, true);
    let ruled = json!({"restartPolicy": "Never", "restartPolicyRules": all});
    check("all may be restarted", "Never", "", ruled, 4, false);
    check("init of OnFailure", "OnFailure", "init", json!({}), 0, true);
    check("init of Always", "Always", "init", json!({}), 0, false);
    check(
        "init of Always that is not restarted",
        "Always",
        "init",
        json!({"restartPolicy": "Never"}),
        0,
        true,
    );
    check("sidecar", "Never", "init", json!({"restartPolicy": "Always"}), 0, false);
}
