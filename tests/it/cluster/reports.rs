//! The reports on pods that a real API server gets.

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Way};
use super::{events, get, ids, in_phase, job, node, phase, pod, without_files};
use crate::harness::{Bounded as _, Options};

fn logs(id: &str) -> String {
    let output = std::process::Command::new("docker").args(["logs", id]).ends();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_life_of_a_pod_is_told() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("life-{}", node.name);
    plane.apply(&pod(&name, &node, &json!({"automountServiceAccountToken": false})));
    let ready = |pod: &Value| {
        let all = pod["status"]["conditions"].as_array().into_iter().flatten();
        all.filter(|c| c["status"] == "True").count() == 5
    };
    let told = node.wait_for("the server has it as ready", || get(plane, &name).filter(ready));
    let status = &told["status"];
    assert_eq!((&status["phase"], &status["qosClass"]), (&json!("Running"), &json!("BestEffort")));
    assert_eq!((&status["observedGeneration"], &told["metadata"]["generation"]), (&json!(1), &json!(1)));
    assert_eq!(status["podIP"], status["podIPs"][0]["ip"]);
    let node_object = plane.object(&format!("/api/v1/nodes/{}", node.name)).unwrap();
    let addresses = node_object["status"]["addresses"].as_array().unwrap();
    let own = addresses.iter().find(|address| address["type"] == "InternalIP");
    let own = own.map_or(Value::Null, |address| address["address"].clone());
    assert_eq!((&status["hostIP"], &status["hostIPs"][0]["ip"]), (&own, &own));
    assert!(status["podIP"].is_string() && status["startTime"].is_string());
    let container = &status["containerStatuses"][0];
    let [id] = <[String; 1]>::try_from(ids(&node, &name)).unwrap();
    assert_eq!(container["containerID"], format!("docker://{id}"));
    assert_eq!((&container["ready"], &container["started"]), (&json!(true), &json!(true)));
    assert_eq!(
        events(plane, &name),
        [("Created".to_owned(), 1), ("Pulled".to_owned(), 1), ("Started".to_owned(), 1)]
    );
    // A container that dies is reported with its end.
    plane.says(&["patch", "pod", &name, "-p", r#"{"metadata":{"labels":{"a":"b"}}}"#]);
    std::process::Command::new("docker").args(["kill", &id]).ends();
    let told = node.wait_for("its restart is told", || {
        get(plane, &name).filter(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    });
    let last = &told["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(137), &json!("Error")), "{last}");
    // It disappears from the server when it is dead.
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.wait_until("the server has no such pod", || get(plane, &name).is_none());
    assert!(ids(&node, &name).is_empty());
}

#[test]
fn jobs_keep_their_end_and_their_logs_over_a_restart() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let (good, bad) = (format!("good-{}", node.name), format!("bad-{}", node.name));
    plane.apply(&job(&good, &node, "echo hello"));
    plane.apply(&job(&bad, &node, "exit 7"));
    in_phase(plane, &node, &good, "Succeeded");
    // Its sandbox is stopped a moment later.
    let before = node.wait_for("nothing of it is ready to start", || {
        get(plane, &good).filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            conditions.iter().any(|c| c["type"] == "PodReadyToStartContainers" && c["status"] == "False")
        })
    });
    let ended = &before["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Completed")));
    let failed = in_phase(plane, &node, &bad, "Failed");
    assert_eq!(failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 7);
    let id =
        before["status"]["containerStatuses"][0]["containerID"].as_str().unwrap().replace("docker://", "");
    assert_eq!(logs(&id), "hello\n");
    node.restart();
    // Another pod shows that the server's change was received.
    let later = format!("later-{}", node.name);
    plane.apply(&job(&later, &node, "true"));
    in_phase(plane, &node, &later, "Succeeded");
    assert_eq!(logs(&id), "hello\n", "the container of a pod that had ended is gone");
    assert_eq!(get(plane, &good).unwrap()["status"], before["status"]);
    assert_eq!(phase(&node, &good), "Succeeded");
    plane.says(&["delete", "pod", &good, "--wait=false"]);
    node.wait_until("the server has no such pod", || get(plane, &good).is_none());
    node.wait_until("its containers are gone", || !node.containers().iter().any(|it| it.pod == good));
}

#[test]
fn a_deletion_goes_on_after_a_restart() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("slow-{}", node.name);
    let mut slow = pod(
        &name,
        &node,
        &json!({"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 3}),
    );
    slow["spec"]["containers"][0]["command"] =
        json!(["/bin/busybox", "sh", "-c", "trap '' TERM; while :; do /bin/busybox sleep 0.1; done"]);
    plane.apply(&slow);
    in_phase(plane, &node, &name, "Running");
    node.stop();
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.launch();
    node.wait_until("the server has no such pod", || get(plane, &name).is_none());
    assert!(ids(&node, &name).is_empty());
}

#[test]
fn a_pod_that_cannot_run_here_has_failed() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = |what: &str| format!("{what}-{}", node.name);
    let lonely = |more: Value| {
        let mut spec = json!({"automountServiceAccountToken": false});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    plane.apply(&pod(&name("elsewhere"), &node, &lonely(json!({"nodeSelector": {"a": "b"}}))));
    let mut large = pod(&name("large"), &node, &lonely(json!({})));
    large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "900"}});
    plane.apply(&large);
    let users = lonely(json!({"hostUsers": false}));
    plane.apply(&pod(&name("users"), &node, &users));
    // Labels that the administrator has set on the node count too.
    plane.says(&["label", "node", &node.name, "zone=a"]);
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    plane.apply(&pod(&name("here"), &node, &lonely(json!({"affinity": {"nodeAffinity": required}}))));
    in_phase(plane, &node, &name("here"), "Running");
    for (what, reason, message) in [
        (
            "elsewhere",
            "NodeAffinity",
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "large",
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 900000, used: 0, capacity: ",
        ),
        ("users", "PodFeatureUnsupported", "spec.hostUsers"),
    ] {
        let pod = in_phase(plane, &node, &name(what), "Failed");
        assert_eq!(pod["status"]["reason"], reason, "{what}");
        let told = pod["status"]["message"].as_str().unwrap();
        assert!(told.contains(message), "{what}: {told}");
        assert!(!told.contains("resubmitted"), "{what}: {told}");
        plane.says(&["delete", "pod", &name(what), "--wait=false"]);
        node.wait_until("the server has no such pod", || get(plane, &name(what)).is_none());
    }
}

/// What is refused is refused for good, so that each pod of a Deployment was lost for a minute after a taint had gone.
#[test]
fn a_taint_counts_for_the_pods_that_come_while_it_is_there() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let spec = json!({"automountServiceAccountToken": false});
    let taint = |how: &str| plane.says(&["taint", "node", &node.name, &format!("edge=full:NoExecute{how}")]);
    let is_refused = |name: &str| node.log().contains(&format!("pod default/{name}: TaintToleration"));
    let come = |what: String| {
        let name = format!("{what}-{}", node.name);
        plane.apply(&pod(&name, &node, &spec));
        name
    };
    // The node's events and those of its pods have connections of their own, and the control plane deletes what a taint
    // does not keep away, often before the node hears of it: several come at once.
    let is_any_kept_away = |what: String| {
        let names: Vec<String> = (0..10).map(|i| format!("{what}-{i}-{}", node.name)).collect();
        let pods: Vec<Value> = names.iter().map(|name| pod(name, &node, &spec)).collect();
        plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": pods}));
        let is_over = |name: &String| is_refused(name) || get(plane, name).is_none();
        node.wait_until(&format!("{what} are refused or deleted"), || names.iter().all(is_over));
        names.iter().any(|name| is_refused(name))
    };
    for n in 0..3 {
        in_phase(plane, &node, &come(format!("welcome-{n}")), "Running");
        taint("");
        assert!((0..30).any(|i| is_any_kept_away(format!("kept-away-{n}-{i}"))));
        taint("-");
    }
    in_phase(plane, &node, &come("last".to_owned()), "Running");
}

#[test]
fn a_static_pod_has_a_mirror() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, Options::default());
    let manifest = |label: &str| {
        let mut pod = pod("web", &node, &json!({}));
        pod["metadata"]["labels"] = json!({"v": label});
        pod["spec"].as_object_mut().unwrap().remove("nodeName");
        pod.to_string()
    };
    node.write("web.yaml", manifest("1"));
    let name = node.full("web");
    let mirror = in_phase(plane, &node, &name, "Running");
    let (uid, before) = (mirror["metadata"]["uid"].clone(), ids(&node, &name));
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(mirror["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    let other = |old: &Value| get(plane, &name).filter(|pod| pod["metadata"]["uid"] != *old);
    plane.says(&["delete", "pod", &name, "--force", "--grace-period=0", "--wait=false"]);
    let again = node.wait_for("it is made anew", || other(&uid));
    in_phase(plane, &node, &name, "Running");
    // Deleted by hand with grace: as with a kubelet, the mirror disappears at once.
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    let third = node.wait_for("it is made anew", || other(&again["metadata"]["uid"]));
    in_phase(plane, &node, &name, "Running");
    assert_eq!(ids(&node, &name), before, "the pod itself runs on");
    node.write("web.yaml", manifest("2"));
    let newer = node.wait_for("there is a mirror of the new version", || {
        other(&third["metadata"]["uid"]).filter(|pod| pod["metadata"]["labels"]["v"] == "2")
    });
    assert_ne!(newer["metadata"]["annotations"], third["metadata"]["annotations"]);
    node.remove("web.yaml");
    node.wait_until("the mirror is gone", || get(plane, &name).is_none());
}

#[test]
fn a_static_pod_that_can_have_no_mirror_says_so() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, Options::default());
    let name = format!("conf-{}", node.name);
    node.write("web.yaml", json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "conf"}, "spec": {"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "busybox:static", "command": ["/bin/busybox", "sleep", "1000"],
                "envFrom": [{"configMapRef": {"name": "conf"}}]}]}},
    ]}).to_string());
    node.wait_running("conf", "app");
    let told = || {
        events(plane, &name).into_iter().filter(|(reason, _)| reason == "FailedMirror").collect::<Vec<_>>()
    };
    node.wait_until("an event says it", || told() == [("FailedMirror".to_owned(), 1)]);
    assert!(get(plane, &name).is_none());
}

#[test]
fn what_happens_while_the_server_is_away_is_told_at_its_return() {
    let Some(plane) = ControlPlane::get() else { return };
    let way = Way::to(plane.port());
    let node = node(plane, Some(&way), without_files());
    let (dies, ends) = (format!("dies-{}", node.name), format!("ends-{}", node.name));
    plane.apply(&pod(&dies, &node, &json!({"automountServiceAccountToken": false})));
    plane.apply(&job(&ends, &node, "while ! [ -e /tmp/end ]; do /bin/busybox sleep 0.1; done; exit 3"));
    in_phase(plane, &node, &dies, "Running");
    in_phase(plane, &node, &ends, "Running");
    let ([first], [second]) = (
        <[String; 1]>::try_from(ids(&node, &dies)).unwrap(),
        <[String; 1]>::try_from(ids(&node, &ends)).unwrap(),
    );
    way.set_open(false);
    let docker = |arguments: &[&str]| std::process::Command::new("docker").args(arguments).ends();
    docker(&["kill", &first]);
    docker(&["exec", &second, "/bin/busybox", "touch", "/tmp/end"]);
    node.wait_until("it runs again", || ids(&node, &dies).first().is_some_and(|id| *id != first));
    node.wait_until("it has ended", || phase(&node, &ends) == "Failed");
    assert_eq!(get(plane, &ends).unwrap()["status"]["phase"], "Running");
    way.set_open(true);
    let told = in_phase(plane, &node, &ends, "Failed");
    assert_eq!(told["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    node.wait_until("the restart is told", || {
        get(plane, &dies).is_some_and(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    });
    let once = |reason: &str, count: i64| (reason.to_owned(), count);
    node.wait_until("the events of the meantime are told", || {
        let told = events(plane, &dies);
        told.contains(&once("Created", 2)) && told.contains(&once("Started", 2))
    });
}

#[test]
fn a_pod_that_goes_for_a_critical_one_is_told() {
    let Some(plane) = ControlPlane::get() else { return };
    let mut options = without_files();
    options.flags.push("--max-pods=1".to_owned());
    let node = node(plane, None, options);
    let (web, vital) = (format!("web-{}", node.name), format!("vital-{}", node.name));
    let plain = json!({"automountServiceAccountToken": false});
    plane.apply(&pod(&web, &node, &plain));
    in_phase(plane, &node, &web, "Running");
    let mut critical = plain;
    critical["priorityClassName"] = json!("system-node-critical");
    plane.apply(&pod(&vital, &node, &critical));
    in_phase(plane, &node, &vital, "Running");
    assert_eq!(ids(&node, &web), [""; 0]);
    let told = in_phase(plane, &node, &web, "Failed");
    let status = &told["status"];
    assert_eq!(
        (&status["reason"], &status["message"]),
        (&json!("Preempting"), &json!("Preempted in order to admit critical pod"))
    );
    let conditions = status["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (
            &json!("True"),
            &json!("TerminationByKubelet"),
            &json!("Pod was preempted by Kubelet to accommodate a critical pod.")
        )
    );
    node.wait_until("its event is there", || events(plane, &web).contains(&("Preempting".to_owned(), 1)));
    assert!(events(plane, &vital).iter().all(|(reason, _)| reason != "OutOfpods"));
    // One that is not critical has to wait for its controller to make another one.
    let late = format!("late-{}", node.name);
    plane.apply(&pod(&late, &node, &json!({"automountServiceAccountToken": false})));
    let refused = in_phase(plane, &node, &late, "Failed");
    assert_eq!(refused["status"]["reason"], "OutOfpods");
}
