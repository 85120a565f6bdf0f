//! Volumes of a real API server for pods.

use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::{ids, inside, node, phase, pod, without_files};
use crate::harness::Node;

/// A volume that is bound to the claim of this name.
fn volume(plane: &ControlPlane, name: &str, claim: &str, node: &Node, source: &Value) {
    let term = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]},
    ]});
    let mut spec = json!({
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": node.name,
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    });
    spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec,
    }));
}

/// Spec of a claim.
fn claim(node: &Node) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": node.name,
        "resources": {"requests": {"storage": "1Mi"}},
    })
}

/// Messages of the events of a pod with this reason.
fn told(plane: &ControlPlane, name: &str, reason: &str) -> Vec<String> {
    let all = plane.object("/api/v1/namespaces/default/events").unwrap();
    let all = all["items"].as_array().unwrap().iter();
    let of = all.filter(|e| e["involvedObject"]["name"] == name && e["reason"] == reason);
    of.map(|e| e["message"].as_str().unwrap().to_owned()).collect()
}

fn mounts_of(node: &Node) -> usize {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!("{}/pods/", node.root().display());
    table.lines().filter(|line| line.contains(&place) && line.contains("kubernetes.io~host-path")).count()
}

#[test]
fn a_stateful_set_keeps_its_data_on_a_local_volume() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let data = node.base.join("data");
    std::fs::create_dir(&data).unwrap();
    let (set, of_pod) = (format!("db-{}", node.name), format!("db-{}-0", node.name));
    let of_claim = format!("data-{of_pod}");
    let command = "set -e; hostname >> /data/log; mkdir -p /data/part; ! touch /shown/x; test -d /part; exec sleep 1000000";
    let template = json!({
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "securityContext": {"fsGroup": 2000},
        "containers": [{
            "name": "app", "image": "busybox:static", "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/busybox", "sh", "-c", format!("PATH=/b; /bin/busybox mkdir /b; /bin/busybox --install /b; {command}")],
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "data", "mountPath": "/shown", "readOnly": true},
                {"name": "data", "mountPath": "/part", "subPath": "part"},
            ],
        }],
    });
    plane.apply(&json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": set},
        "spec": {
            "serviceName": set, "replicas": 1, "selector": {"matchLabels": {"app": set}},
            "template": {"metadata": {"labels": {"app": set}}, "spec": template},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim(&node)}],
        },
    }));
    // The pod comes before its volume; the scheduler waits for the volume.
    volume(plane, &of_pod, &of_claim, &node, &json!({"local": {"path": data}}));
    node.wait_until("the pod runs", || phase(&node, &of_pod) == "Running");
    let log = || std::fs::read_to_string(data.join("log")).unwrap_or_default();
    node.wait_until("it has written", || log() == format!("{of_pod}\n"));
    let metadata = std::fs::metadata(&data).unwrap();
    let (group, mode) = {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.gid(), metadata.mode() & 0o7777)
    };
    assert_eq!((group, mode & 0o2070), (2000, 0o2070), "{mode:o}");
    // Another daemon finds the pod unchanged.
    let before = ids(&node, &of_pod);
    node.restart();
    node.wait_until("the pod is known again", || phase(&node, &of_pod) == "Running");
    assert_eq!(ids(&node, &of_pod), before, "its container is another one");
    // The pod's successor has the same data.
    plane.says(&["delete", "pod", &of_pod, "--wait=false"]);
    node.wait_until("its successor has written", || log() == format!("{of_pod}\n{of_pod}\n"));
    let after = ids(&node, &of_pod);
    assert!(after != before && inside(&after[0], "/shown/log") == log());
    plane.says(&["delete", "statefulset", &set, "--wait=false"]);
    node.wait_until("nothing of it is mounted", || ids(&node, &of_pod).is_empty() && mounts_of(&node) == 0);
    assert_eq!(log().lines().count(), 2, "the data went with the pod");
    plane.says(&["delete", "pvc", &of_claim, "--wait=false"]);
    plane.says(&["delete", "pv", &of_pod, "--wait=false"]);
}

#[test]
fn a_pod_waits_for_its_claim_and_hears_why() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = node(plane, None, without_files());
    let name = format!("late-{}", node.name);
    let mut wanted = pod(
        &name,
        &node,
        &json!({
            "automountServiceAccountToken": false,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name, "readOnly": true}}],
        }),
    );
    wanted["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim(&node),
    }));
    plane.apply(&wanted);
    let says = |words: &str| told(plane, &name, "FailedMount").iter().any(|message| message.contains(words));
    node.wait_until("the claim has no volume", || {
        says(&format!("error processing PVC default/{name}: PVC is not bound"))
    });
    // First a volume that needs a driver, then one that the node can reach.
    volume(plane, &name, &name, &node, &json!({"csi": {"driver": "example.com", "volumeHandle": "v"}}));
    node.wait_until("there is no driver", || {
        says("driver name example.com not found in the list of registered CSI drivers")
    });
    assert_eq!(ids(&node, &name), [""; 0]);
    plane.says(&["delete", "pod", &name, "--force", "--grace-period=0", "--wait=false"]);
    plane.says(&["delete", "pvc", &name, "--wait=false"]);
    plane.says(&["delete", "pv", &name, "--wait=false"]);
    node.wait_until("the claim is gone", || {
        plane.object(&format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}")).is_none()
    });
    let data = node.base.join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("greeting"), "hello").unwrap();
    let again = format!("{name}-again");
    let source = json!({"hostPath": {"path": data, "type": "Directory"}});
    volume(plane, &again, &again, &node, &source);
    wanted["metadata"]["name"] = again.clone().into();
    wanted["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = again.clone().into();
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": again}, "spec": claim(&node),
    }));
    plane.apply(&wanted);
    node.wait_until("the pod runs", || phase(&node, &again) == "Running");
    let [id] = <[String; 1]>::try_from(ids(&node, &again)).unwrap();
    assert_eq!(inside(&id, "/data/greeting"), "hello");
    plane.says(&["delete", "pod", &again, "--force", "--grace-period=0", "--wait=false"]);
    plane.says(&["delete", "pvc", &again, "--wait=false"]);
    plane.says(&["delete", "pv", &again, "--wait=false"]);
    node.wait_until("nothing of it is mounted", || mounts_of(&node) == 0);
}
