//! Pods that controllers of a real control plane make, and that its scheduler binds to the node. `PODKEEPER_ROUNDS=10`
//! scales a Deployment up and down ten times.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::{get, ids, in_phase, inside, node, phase, pod, without_files};
use crate::harness::history::History;
use crate::harness::{Bounded as _, Container, Node};

/// A script that ends on TERM.
const RUNS: &str = "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.2; done";

fn rounds() -> usize {
    std::env::var("PODKEEPER_ROUNDS").map_or(1, |rounds| rounds.parse().expect("PODKEEPER_ROUNDS"))
}

/// Template of a controller's pods, which have this label and run this script in a container `app`. The scheduler
/// binds them to this node.
fn template(node: &Node, app: &str, script: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "app", "image": "busybox:static", "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/busybox", "sh", "-c", script],
        }],
    }})
}

/// A controller of `apps/v1` whose pods have its name as their label.
fn controller(kind: &str, name: &str, template: &Value, more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The pods at the server with this label.
fn pods(plane: &ControlPlane, app: &str) -> Vec<Value> {
    let list = plane.object(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{app}"));
    list.unwrap()["items"].as_array().cloned().unwrap_or_default()
}

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|c| c["type"] == "Ready" && c["status"] == "True");
    pod["metadata"]["deletionTimestamp"].is_null() && conditions.next().is_some()
}

/// Names of the pods that are not in this phase.
fn not_in(phase: &str, pods: &[Value]) -> Vec<String> {
    pods.iter().filter(|pod| pod["status"]["phase"] != phase).map(name_of).collect()
}

/// The containers `app` of all pods of this node.
fn apps(node: &Node) -> Vec<Container> {
    node.containers().into_iter().filter(|it| it.container == "app").collect()
}

fn logs(id: &str) -> String {
    let output = Command::new("docker").args(["logs", id]).ends();
    String::from_utf8(output.stdout).unwrap()
}

/// Id of the container that the server has for a pod.
fn told_id(pod: &Value) -> String {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    id.trim_start_matches("docker://").to_owned()
}

/// How often Docker has started a container `app` of each pod of this node.
fn starts(history: &History) -> Vec<(String, usize)> {
    let events = history.events();
    let starts = || events.iter().filter(|e| e.container == "app" && e.what == "start");
    let pods: BTreeSet<String> = starts().map(|e| e.pod.clone()).collect();
    pods.into_iter().map(|pod| (pod.clone(), starts().filter(|e| e.pod == pod).count())).collect()
}

#[test]
fn a_deployment_goes_from_none_to_twenty_and_back() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let name = format!("many-{}", node.name);
    plane.apply(&controller("Deployment", &name, &template(&node, &name, RUNS), json!({"replicas": 0})));
    let scale = |to: usize| plane.says(&["scale", "deployment", &name, &format!("--replicas={to}")]);
    for round in 1..=rounds() {
        scale(20);
        let all = node.wait_for(&format!("twenty run in round {round}"), || {
            let all = pods(plane, &name);
            (all.len() == 20 && all.iter().all(is_ready)).then_some(all)
        });
        assert_eq!(not_in("Running", &all), [""; 0]);
        let (told, run): (BTreeSet<String>, BTreeSet<String>) =
            (all.iter().map(told_id).collect(), apps(&node).into_iter().map(|it| it.id).collect());
        assert_eq!(told, run, "the server and Docker do not have the same containers");
        for pod in &all {
            let container = &pod["status"]["containerStatuses"][0];
            assert_eq!(container["restartCount"], 0, "{container}");
            assert_eq!(pod["spec"]["nodeName"], node.name);
        }
        let ips: BTreeSet<&str> = all.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
        assert_eq!(ips.len(), 20, "{ips:?}");
        scale(0);
        node.wait_until("the server has none of them", || pods(plane, &name).is_empty());
        node.wait_until("Docker has none of them", || node.containers().is_empty());
        let started = starts(&history);
        let not_once: Vec<_> = started.iter().filter(|(_, times)| *times != 1).collect();
        assert_eq!((started.len(), not_once), (20 * round, Vec::new()));
    }
    history.check_one_set_at_a_time();
    plane.says(&["delete", "deployment", &name, "--wait=false"]);
}

#[test]
fn a_rolling_update_keeps_enough_pods_available() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("rolls-{}", node.name);
    let of_version = |version: &str| {
        let script = format!("/bin/busybox sleep 0.5; echo >/ready; {RUNS}");
        let mut template = template(&node, &name, &script);
        let container = &mut template["spec"]["containers"][0];
        container["env"] = json!([{"name": "VERSION", "value": version}]);
        let test = json!({"command": ["/bin/busybox", "test", "-e", "/ready"]});
        container["readinessProbe"] = json!({"exec": test, "periodSeconds": 1});
        let limits = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}});
        controller("Deployment", &name, &template, json!({"replicas": 4, "strategy": limits}))
    };
    let env = |pod: &Value| pod["spec"]["containers"][0]["env"][0]["value"].clone();
    plane.apply(&of_version("1"));
    let before = node.wait_for("four are ready", || {
        let all = pods(plane, &name);
        (all.len() == 4 && all.iter().all(is_ready)).then_some(all)
    });
    let old: BTreeSet<String> = before.iter().map(told_id).collect();
    plane.apply(&of_version("2"));
    let mut seen = Vec::new();
    let after = node.wait_for("four of the new version are ready, and no other one is there", || {
        let all = pods(plane, &name);
        let (ready, run) = (all.iter().filter(|pod| is_ready(pod)).count(), apps(&node));
        let run = run.iter().filter(|it| it.runs()).count();
        let leaving = all.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count();
        if seen.last() != Some(&(ready, all.len() - leaving, run)) {
            seen.push((ready, all.len() - leaving, run));
        }
        let is_done = all.len() == 4 && all.iter().all(|pod| is_ready(pod) && env(pod) == "2");
        is_done.then_some(all)
    });
    // Ready, there, and running in Docker.
    let wrong: Vec<_> =
        seen.iter().filter(|(ready, there, run)| *ready < 3 || *there > 5 || *run < 3).collect();
    assert!(wrong.is_empty(), "{wrong:?} of {seen:?}");
    for pod in &after {
        let [id] = <[String; 1]>::try_from(ids(&node, &name_of(pod))).unwrap();
        assert_eq!(id, told_id(pod));
        let environment = inside(&id, "/proc/1/environ");
        assert!(environment.contains("VERSION=2"), "{environment}");
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    }
    node.wait_until("the old ones are gone in Docker", || {
        node.containers().iter().all(|it| !old.contains(&it.id)) && apps(&node).len() == 4
    });
    plane.says(&["delete", "deployment", &name, "--wait=false"]);
    node.wait_until("nothing of it is left", || node.containers().is_empty());
}

#[test]
fn a_daemon_set_has_its_pod_on_a_cordoned_node_too() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let object = || plane.object(&format!("/api/v1/nodes/{}", node.name));
    node.wait_until("the server has the node", || object().is_some());
    plane.says(&["cordon", &node.name]);
    let name = format!("each-{}", node.name);
    plane.apply(&controller("DaemonSet", &name, &template(&node, &name, RUNS), json!({})));
    let ready = |but: &Value| {
        node.wait_for("its pod is ready", || {
            let mut all = pods(plane, &name);
            all.retain(|pod| is_ready(pod) && pod["metadata"]["uid"] != *but);
            all.pop()
        })
    };
    let first = ready(&Value::Null);
    assert_eq!(ids(&node, &name_of(&first)), [told_id(&first)]);
    // Its successor has another name.
    plane.says(&["delete", "pod", &name_of(&first), "--wait=false"]);
    let second = ready(&first["metadata"]["uid"]);
    node.wait_until("only that runs", || {
        let run: Vec<String> = apps(&node).into_iter().map(|it| it.id).collect();
        run == [told_id(&second)]
    });
    plane.says(&["delete", "daemonset", &name, "--wait=false"]);
    node.wait_until("nothing of it is left", || {
        pods(plane, &name).is_empty() && node.containers().is_empty()
    });
}

#[test]
fn a_job_runs_each_of_its_completions_once() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let name = format!("three-{}", node.name);
    let mut template =
        template(&node, &name, "echo $(/bin/busybox hostname) has run; /bin/busybox sleep 0.3");
    template["spec"]["restartPolicy"] = json!("Never");
    plane.apply(&json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": 3, "parallelism": 2, "template": template},
    }));
    let job = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
    let done = node.wait_for("the job is complete", || {
        let job = plane.object(&job)?;
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        let is_complete = conditions.into_iter().any(|c| c["type"] == "Complete" && c["status"] == "True");
        is_complete.then_some(job)
    });
    let failed = done["status"]["failed"].as_i64().unwrap_or_default();
    assert_eq!((&done["status"]["succeeded"], failed), (&json!(3), 0), "{}", done["status"]);
    let all = pods(plane, &name);
    assert_eq!((all.len(), not_in("Succeeded", &all)), (3, Vec::new()));
    let mut once: Vec<(String, usize)> = all.iter().map(|pod| (name_of(pod), 1)).collect();
    once.sort();
    assert_eq!(starts(&history), once);
    for pod in &all {
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Completed")), "{ended}");
        assert_eq!(logs(&told_id(pod)), format!("{} has run\n", name_of(pod)));
    }
    plane.says(&["delete", "job", &name, "--wait=false"]);
    node.wait_until("nothing of it is left", || {
        pods(plane, &name).is_empty() && node.containers().is_empty()
    });
}

#[test]
fn a_pod_that_is_deleted_by_force_ends_and_is_not_taken_for_its_successor() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let name = format!("stubborn-{}", node.name);
    let of_version = |version: &str| {
        let more = json!({"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 3});
        let mut pod = pod(&name, &node, &more);
        let script = "trap '' TERM; while :; do /bin/busybox sleep 0.1; done";
        pod["spec"]["containers"][0]["command"] = json!(["/bin/busybox", "sh", "-c", script]);
        pod["spec"]["containers"][0]["env"] = json!([{"name": "VERSION", "value": version}]);
        pod
    };
    plane.apply(&of_version("1"));
    let first = in_phase(plane, &node, &name, "Running");
    let [old] = <[String; 1]>::try_from(ids(&node, &name)).unwrap();
    plane.says(&["delete", "pod", &name, "--grace-period=0", "--force"]);
    assert!(get(plane, &name).is_none(), "the server removes it at once");
    // The first one still ends.
    plane.apply(&of_version("2"));
    let second = in_phase(plane, &node, &name, "Running");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    node.wait_until("the first one's container is gone", || node.container(&old).is_none());
    let [new] = <[String; 1]>::try_from(ids(&node, &name)).unwrap();
    let container = &second["status"]["containerStatuses"][0];
    assert_eq!((told_id(&second), &container["restartCount"]), (new.clone(), &json!(0)), "{container}");
    assert_eq!(container["lastState"], json!({}), "{container}");
    assert!(inside(&new, "/proc/1/environ").contains("VERSION=2"));
    // What the first one does at its end does not count for the second.
    let after = get(plane, &name).unwrap();
    assert_eq!((&after["status"]["phase"], told_id(&after)), (&json!("Running"), new.clone()));
    let started: Vec<String> = history
        .events()
        .into_iter()
        .filter(|e| e.container == "app" && e.what == "start")
        .map(|e| e.id)
        .collect();
    assert_eq!(started, [old, new]);
    history.check_one_set_at_a_time();
    plane.says(&["delete", "pod", &name, "--grace-period=0", "--force"]);
    node.wait_until("it ends, too", || node.containers().is_empty());
}

/// Regression: the pod ended as failed, with containers that had ended unseen.
#[test]
fn a_deletion_over_a_restart_of_the_daemon_has_its_exit_codes() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("leaving-{}", node.name);
    let more = json!({
        "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 60, "restartPolicy": "Never",
    });
    let mut wanted = pod(&name, &node, &more);
    // It stays at the server until this test has seen its end.
    wanted["metadata"]["finalizers"] = json!(["podkeeper.dev/test"]);
    let script = "trap '/bin/busybox sleep 4; exit 0' TERM; while :; do /bin/busybox sleep 0.1; done";
    wanted["spec"]["containers"][0]["command"] = json!(["/bin/busybox", "sh", "-c", script]);
    plane.apply(&wanted);
    in_phase(plane, &node, &name, "Running");
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.wait_until("its container is told to end", || node.log().contains("Killing"));
    node.restart();
    node.wait_until("its container is gone", || ids(&node, &name).is_empty());
    node.wait_until("the server knows its end", || {
        let phase = get(plane, &name).map(|pod| pod["status"]["phase"].clone());
        [Some(json!("Succeeded")), Some(json!("Failed"))].contains(&phase)
    });
    let status = get(plane, &name).unwrap()["status"].clone();
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&status["phase"], &ended["exitCode"]), (&json!("Succeeded"), &json!(0)), "{status}");
    plane.says(&["patch", "pod", &name, "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    node.wait_until("the server has it no more", || get(plane, &name).is_none());
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let name = format!("again-{}", node.name);
    let of_version = |version: &str| {
        let volume = json!({"name": "data", "emptyDir": {}});
        let more = json!({"automountServiceAccountToken": false, "volumes": [volume]});
        let mut pod = pod(&name, &node, &more);
        let container = &mut pod["spec"]["containers"][0];
        container["env"] = json!([{"name": "VERSION", "value": version}]);
        container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        container["command"] =
            json!(["/bin/busybox", "sh", "-c", format!("echo $VERSION >>/data/log; {RUNS}")]);
        pod
    };
    let mut lives: Vec<(Value, String)> = Vec::new();
    for version in ["1", "2", "3"] {
        plane.apply(&of_version(version));
        let told = in_phase(plane, &node, &name, "Running");
        let [id] = <[String; 1]>::try_from(ids(&node, &name)).unwrap();
        let container = &told["status"]["containerStatuses"][0];
        assert_eq!((told_id(&told), &container["restartCount"]), (id.clone(), &json!(0)), "{container}");
        node.wait_until("it has written", || !inside(&id, "/data/log").is_empty());
        assert_eq!(inside(&id, "/data/log"), format!("{version}\n"), "it has another one's volume");
        if version == "1" {
            // The restarts of one pod are not those of the next.
            node.kill_container(&id, "KILL");
            node.wait_until("its restart is told", || {
                let told = get(plane, &name).unwrap();
                told["status"]["containerStatuses"][0]["restartCount"] == 1
            });
        }
        lives.push((told["metadata"]["uid"].clone(), id));
        // This waits until the server has no such pod.
        plane.says(&["delete", "pod", &name]);
    }
    let uids: BTreeSet<String> = lives.iter().map(|(uid, _)| uid.to_string()).collect();
    let containers: BTreeSet<&String> = lives.iter().map(|(_, id)| id).collect();
    assert_eq!((uids.len(), containers.len()), (3, 3), "{lives:?}");
    history.check_one_set_at_a_time();
    node.wait_until("nothing of it is left", || node.containers().is_empty());
}

/// Regression: the next daemon put a resize in force for which there was no room, and after a boot the other pod had none.
#[test]
fn a_resize_without_room_waits_also_for_the_next_daemon() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let (first, second) = (format!("a-{}", node.name), format!("b-{}", node.name));
    let sized = |name: &str, cpu: usize| {
        let mut pod = pod(name, &node, &json!({"automountServiceAccountToken": false}));
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": format!("{cpu}m")}, "limits": {"cpu": format!("{cpu}m")}});
        pod
    };
    let all = 1000 * std::thread::available_parallelism().unwrap().get();
    plane.apply(&sized(&first, 300));
    plane.apply(&sized(&second, all - 500));
    let run = || ids(&node, &first).len() == 1 && ids(&node, &second).len() == 1;
    node.wait_until("both run", run);
    let sizes = json!({"requests": {"cpu": "600m"}, "limits": {"cpu": "600m"}});
    let patch = json!({"spec": {"containers": [{"name": "app", "resources": sizes}]}}).to_string();
    plane.says(&["patch", "pod", &first, "--subresource", "resize", "--patch", &patch]);
    let waits = || {
        let conditions = get(plane, &first).unwrap()["status"]["conditions"].clone();
        let mut conditions = conditions.as_array().into_iter().flatten();
        conditions.any(|it| it["type"] == "PodResizePending" && it["reason"] == "Deferred")
    };
    node.wait_until("it waits", waits);
    let quota = || {
        let quotas =
            ids(&node, &first).into_iter().map(|id| node.inspect(&id)["HostConfig"]["CpuQuota"].clone());
        quotas.collect::<Vec<_>>()
    };
    assert_eq!(quota(), [30_000]);
    let containers = (ids(&node, &first), ids(&node, &second));
    node.restart();
    node.wait_until("the next daemon says so, too", || node.log().matches("ResizeDeferred").count() >= 2);
    node.wait_until("and the server has it", waits);
    assert_eq!(((ids(&node, &first), ids(&node, &second)), quota()), (containers, vec![json!(30_000)]));
    // As after a boot.
    node.stop();
    for container in node.containers().into_iter().filter(|it| it.runs()) {
        node.kill_container(&container.id, "KILL");
    }
    node.launch();
    node.wait_until("both run again", run);
    assert_eq!((quota(), phase(&node, &second)), (vec![json!(30_000)], "Running".to_owned()));
    node.wait_until("it waits still", waits);
    plane.says(&["delete", "pod", &second, "--force", "--grace-period=0", "--wait=false"]);
    node.wait_until("there is room now", || quota() == [60_000]);
    plane.says(&["delete", "pod", &first, "--force", "--grace-period=0", "--wait=false"]);
    node.wait_until("they are gone", || ids(&node, &first).is_empty() && ids(&node, &second).is_empty());
}
