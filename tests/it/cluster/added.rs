//! Containers that `kubectl debug` adds to a pod of the server.

use std::process::Command;

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::{get, in_phase, node, pod, without_files};
use crate::harness::history::History;
use crate::harness::{Bounded as _, Node};

/// The status of an added container.
fn status(plane: &ControlPlane, name: &str, added: &str) -> Value {
    let pod = get(plane, name).unwrap_or_default();
    let all = pod["status"]["ephemeralContainerStatuses"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|status| status["name"] == added).unwrap_or_default()
}

/// Adds a container as `kubectl debug` does.
pub(super) fn add(plane: &ControlPlane, name: &str, added: &Value) {
    let mut all =
        get(plane, name).unwrap()["spec"]["ephemeralContainers"].as_array().cloned().unwrap_or_default();
    all.push(added.clone());
    let path = format!("/api/v1/namespaces/default/pods/{name}/ephemeralcontainers");
    plane.patch(&path, &json!({"spec": {"ephemeralContainers": all}}));
}

pub(super) fn container(name: &str, image: &str, script: &str) -> Value {
    json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "targetContainerName": "app",
           "terminationMessagePolicy": "File", "command": ["/bin/busybox", "sh", "-c", script]})
}

fn docker(arguments: &[&str]) {
    assert!(Command::new("docker").args(arguments).ends().status.success(), "{arguments:?}");
}

/// Docker's id of the pod's running container of this name.
fn id(node: &Node, pod: &str, container: &str) -> String {
    let all =
        node.containers().into_iter().filter(|it| it.runs() && it.pod == pod && it.container == container);
    let [one] = <[_; 1]>::try_from(all.map(|it| it.id).collect::<Vec<_>>()).unwrap();
    one
}

#[test]
fn a_container_that_is_added_to_a_pod_of_the_server_runs_once() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let history = History::of(&node);
    let name = format!("looked-at-{}", node.name);
    plane.apply(&pod(&name, &node, &json!({"automountServiceAccountToken": false})));
    in_phase(plane, &node, &name, "Running");
    let app = id(&node, &name, "app");
    // By kubectl, which waits until it runs, and beside the processes of its target.
    let script = "/bin/busybox ps > /seen; trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.1; done";
    add(plane, &name, &container("look", "busybox:static", script));
    node.wait_until("it is shown as running", || !status(plane, &name, "look")["state"]["running"].is_null());
    let look = id(&node, &name, "look");
    assert_eq!(status(plane, &name, "look")["containerID"], format!("docker://{look}"));
    node.wait_until("it sees its target", || super::inside(&look, "/seen").contains("trap 'exit 0' TERM"));
    // One that ends stays so, with its code; here an earlier daemon had created it and not started it.
    let uid = get(plane, &name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let unstarted = format!("k8s_short_{name}_default_{uid}_0");
    docker(&["create", "--name", &unstarted, "busybox:static", "x"]);
    add(plane, &name, &container("short", "busybox:static", "exit 7"));
    node.wait_until("its end is told", || {
        status(plane, &name, "short")["state"]["terminated"]["exitCode"] == 7
    });
    // One without an image is told as waiting, with the reason, and keeps nothing else from being told.
    let mut never = container("never", "no-such-image-anywhere:1", "exit 0");
    never["imagePullPolicy"] = "Never".into();
    add(plane, &name, &never);
    node.wait_until("the reason is told", || {
        let waiting = status(plane, &name, "never")["state"]["waiting"].clone();
        let why = waiting["message"].as_str().unwrap_or_default();
        waiting["reason"] == "ErrImageNeverPull" && why.contains("no-such-image")
    });
    node.wait_until("there is an event", || {
        super::events(plane, &name).iter().any(|(reason, _)| reason == "Failed")
    });
    // The next daemon makes none of them again, also not one that somebody has removed.
    let removed = container("removed", "busybox:static", script);
    add(plane, &name, &removed);
    node.wait_until("it runs", || !status(plane, &name, "removed")["state"]["running"].is_null());
    node.kill9();
    let gone = id(&node, &name, "removed");
    assert!(std::process::Command::new("docker").args(["rm", "-f", &gone]).ends().status.success());
    node.launch();
    node.wait_until("its end is told", || {
        status(plane, &name, "removed")["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    });
    in_phase(plane, &node, &name, "Running");
    add(plane, &name, &container("late", "busybox:static", "exit 3"));
    node.wait_until("a new one is made", || {
        status(plane, &name, "late")["state"]["terminated"]["exitCode"] == 3
    });
    for (of, times) in [("look", 1), ("short", 1), ("late", 1), ("never", 0), ("removed", 1), ("app", 1)] {
        assert_eq!(history.times(&name, of, "start").len(), times, "{of}");
    }
    assert_eq!((id(&node, &name, "app"), id(&node, &name, "look")), (app, look));
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.wait_until("it is gone", || get(plane, &name).is_none() && node.containers().is_empty());
}

/// One that an earlier daemon had made ran on with root's rights on a node that had become strict, and, beside slow images, as
/// long as those were pulled.
#[test]
fn an_added_container_that_a_later_policy_forbids_is_killed() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("strict-{}", node.name);
    let context = json!({"runAsUser": 65534, "runAsNonRoot": true, "allowPrivilegeEscalation": false,
                         "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let mut strict = pod(&name, &node, &json!({"automountServiceAccountToken": false}));
    strict["spec"]["containers"][0]["securityContext"] = context.clone();
    plane.apply(&strict);
    in_phase(plane, &node, &name, "Running");
    let script = "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.1; done";
    let mut allowed = container("user", "busybox:static", script);
    allowed["securityContext"] = context.clone();
    for one in [&container("root", "busybox:static", script), &allowed] {
        add(plane, &name, one);
    }
    let state = |added: &str| status(plane, &name, added)["state"].clone();
    node.wait_until("both run", || ["root", "user"].iter().all(|one| !state(one)["running"].is_null()));
    let kept = (id(&node, &name, "app"), id(&node, &name, "user"));
    // A registry that takes each connection and never answers. Two images of a pod are pulled at a time.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for nth in 0..3 {
        let image = format!("{}/slow:{nth}", silent.local_addr().unwrap());
        let mut slow = container(&format!("slow-{nth}"), &image, script);
        slow["securityContext"] = context.clone();
        add(plane, &name, &slow);
    }
    node.kill9();
    node.options.borrow_mut().flags.push("--source-policy=api=pod-security=restricted".to_owned());
    node.launch();
    node.wait_until("its end is told", || state("root")["terminated"]["exitCode"] == 137);
    node.wait_until("an event says why", || {
        let told = plane.says(
            &["get", "events", "-o", "json", "--field-selector"]
                .into_iter()
                .chain([format!("involvedObject.name={name}").as_str()])
                .collect::<Vec<_>>(),
        );
        told.contains("Stopping container root: pods of source api may not have it any more: PodSecurity")
    });
    in_phase(plane, &node, &name, "Running");
    assert_eq!((id(&node, &name, "app"), id(&node, &name, "user")), kept);
    assert!(!state("user")["running"].is_null());
}
