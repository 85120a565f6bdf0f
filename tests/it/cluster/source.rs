//! Pods of a real API server.

use std::path::Path;

use serde_json::json;

use super::control_plane::{ControlPlane, Way};
use super::{added, ids, inside, node, phase, pod, without_files};

#[test]
fn a_pod_that_is_bound_to_this_node_runs_with_its_objects_and_goes_when_it_is_deleted() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("web-{}", node.name);
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"greeting": "hello"},
    }));
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s-{}", node.name)},
        "spec": {"ports": [{"port": 80}]},
    }));
    let environment =
        json!({"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": name, "key": "greeting"}}});
    let mut wanted = pod(&name, &node, &json!({}));
    wanted["spec"]["containers"][0]["env"] = json!([environment]);
    plane.apply(&wanted);
    node.wait_until("the pod runs", || phase(&node, &name) == "Running");
    let [id] = <[String; 1]>::try_from(ids(&node, &name)).unwrap();
    let environment = inside(&id, "/proc/1/environ");
    assert!(environment.contains("GREETING=hello"), "{environment}");
    assert!(environment.contains("KUBERNETES_SERVICE_HOST=10.96.0.1"), "{environment}");
    let of_service = format!("S_{}_PORT_80_TCP_PROTO=tcp", node.name.replace('-', "_").to_uppercase());
    assert!(environment.contains(&of_service), "{environment}");
    let secrets = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
    let read = |file: &str| inside(&id, &secrets.join(file).display().to_string());
    assert_eq!(read("namespace"), "default");
    assert!(read("ca.crt").contains("BEGIN CERTIFICATE"));
    let token = read("token");
    assert_eq!(token.split('.').count(), 3, "a token of the service account");
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let who = plane.create("/apis/authentication.k8s.io/v1/tokenreviews", &review);
    assert!(who.contains("system:serviceaccount:default:default"), "{who}");
    assert!(who.contains(&name), "it is not bound to its pod: {who}");
    // The server marks it, and its containers are removed.
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.wait_until("its containers are gone", || ids(&node, &name).is_empty());
    plane.kubectl(&["delete", "pod", &name, "--force", "--grace-period=0", "--wait=false"]);
}

#[test]
fn pods_run_on_without_the_server_and_over_a_restart_without_it() {
    let Some(plane) = ControlPlane::get() else { return };
    let way = Way::to(plane.port());
    let node = node(plane, Some(&way), without_files());
    let (first, second) = (format!("a-{}", node.name), format!("b-{}", node.name));
    let lonely = json!({"automountServiceAccountToken": false});
    plane.apply(&pod(&first, &node, &lonely));
    node.wait_until("the pod runs", || phase(&node, &first) == "Running");
    let before = ids(&node, &first);
    way.set_open(false);
    node.wait_until("the daemon says that the server is away", || node.log().contains("source api: "));
    plane.apply(&pod(&second, &node, &lonely));
    node.restart();
    node.wait_until("what is remembered is restored", || {
        node.log().contains("its last good version is restored")
    });
    node.wait_until("the pod is known again", || phase(&node, &first) == "Running");
    assert_eq!(ids(&node, &first), before, "its container is another one");
    way.set_open(true);
    node.wait_until("the pod that came meanwhile runs", || phase(&node, &second) == "Running");
    assert_eq!(ids(&node, &first), before);
    // An object that disappears takes its pod with it.
    plane.says(&["delete", "pod", &first, &second, "--force", "--grace-period=0", "--wait=false"]);
    node.wait_until("both are gone", || ids(&node, &first).is_empty() && ids(&node, &second).is_empty());
}

#[test]
fn a_runtime_class_is_a_runtime_of_docker() {
    let Some(plane) = ControlPlane::get() else { return };
    let mut options = without_files();
    options.flags.push("--runtime-class=plain=io.containerd.runc.v2".to_owned());
    let way = Way::to(plane.port());
    let node = node(plane, Some(&way), options);
    let (class, other) = (format!("class-{}", node.name), format!("other-{}", node.name));
    for (class, handler) in [(&class, "plain"), (&other, "unknown")] {
        plane.apply(&json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": class},
            "handler": handler, "overhead": {"podFixed": {"memory": "8Mi"}},
        }));
    }
    let of = |class: &str| json!({"runtimeClassName": class, "automountServiceAccountToken": false});
    plane.apply(&pod(&class, &node, &of(&class)));
    plane.apply(&pod(&other, &node, &of(&other)));
    node.wait_until("the pod runs", || phase(&node, &class) == "Running");
    let all = node.containers().into_iter().filter(|it| it.pod == class);
    let runtimes: Vec<serde_json::Value> =
        all.map(|it| node.inspect(&it.id)["HostConfig"]["Runtime"].clone()).collect();
    assert_eq!(runtimes, ["io.containerd.runc.v2", "io.containerd.runc.v2"]);
    // Regression: a container that was added later had Docker's default runtime.
    added::add(plane, &class, &added::container("look", "busybox:static", "sleep 1000000"));
    let look = node.wait_for("the added container runs", || {
        let mut all = node.containers().into_iter();
        all.find(|it| it.runs() && it.pod == class && it.container == "look")
    });
    assert_eq!(node.inspect(&look.id)["HostConfig"]["Runtime"], "io.containerd.runc.v2");
    node.kill_container(&look.id, "KILL");
    node.wait_until("it has ended", || ids(&node, &class).len() == 1);
    let at_server = |name: &str| plane.object(&format!("/api/v1/namespaces/default/pods/{name}")).unwrap();
    node.wait_until("the server hears that the other one is refused", || {
        let status = at_server(&other)["status"].clone();
        let message = status["message"].as_str().unwrap_or_default();
        status["reason"] == "PodFeatureUnsupported"
            && message.contains("RuntimeHandler \"unknown\" not supported")
    });
    // The server admits no pod without its class, but the class may go before the node has looked it up.
    let late = format!("late-{}", node.name);
    let of_late = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": late}, "handler": "plain",
    });
    way.set_open(false);
    plane.apply(&of_late);
    plane.apply(&pod(&late, &node, &of(&late)));
    plane.says(&["delete", "runtimeclass", &late]);
    way.set_open(true);
    node.wait_until("the server hears what it waits for", || {
        let status = at_server(&late)["status"].clone();
        let message = status["message"].as_str().unwrap_or_default();
        status["reason"] == "WaitingForRuntimeClass" && message.contains("failed to get runtime handler")
    });
    assert_eq!(at_server(&late)["status"]["phase"], "Pending");
    plane.apply(&of_late);
    node.wait_until("it runs when its class is there", || phase(&node, &late) == "Running");
    // The values of the priority class are remembered with the pod.
    let before = ids(&node, &class);
    way.set_open(false);
    node.restart();
    node.wait_until("the pod is known again", || phase(&node, &class) == "Running");
    assert_eq!(ids(&node, &class), before, "its container is another one");
    // Regression: the label of its sandbox was not read, and a daemon without the flag failed the running pod for good.
    for flag in [None, Some("--runtime-class=plain=runc")] {
        node.options.borrow_mut().flags.retain(|it| !it.starts_with("--runtime-class"));
        node.options.borrow_mut().flags.extend(flag.map(str::to_owned));
        node.restart();
        node.wait_until("the pod is known once more", || phase(&node, &class) == "Running");
        assert_eq!(ids(&node, &class), before, "its container is another one with {flag:?}");
    }
    node.kill_container(&before[0], "KILL");
    let again = node.wait_for("it runs again", || ids(&node, &class).pop().filter(|id| *id != before[0]));
    assert_eq!(node.inspect(&again)["HostConfig"]["Runtime"], "io.containerd.runc.v2", "it is its sandbox's");
    way.set_open(true);
    plane.says(&["delete", "pod", &class, &other, &late, "--force", "--grace-period=0", "--wait=false"]);
    plane.says(&["delete", "runtimeclass", &class, &other, &late, "--wait=false"]);
    node.wait_until("they are gone", || ids(&node, &class).is_empty() && ids(&node, &late).is_empty());
}
