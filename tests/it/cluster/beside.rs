//! Side by side with the real kubelet: the same pods on two nodes of one cluster, until both tell the same of them; then
//! their events, the nodes' objects, and the answers of their servers. What differs is listed here, with the reason.

mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use self::compare::{differences, leaves, metrics, until_same};
use super::control_plane::{ControlPlane, programs};
use crate::harness::pods::free_port;
use crate::harness::{Node, Options};

/// Name of the kubelet's node.
const KUBELET: &str = "beside";
/// The pods crash, back off and are killed meanwhile, on a machine that does other work, too.
const PATIENCE: Duration = Duration::from_secs(240);

/// The real kubelet, with a Docker Engine of its own. It ends with this process.
struct Reference {
    directory: PathBuf,
}

impl Reference {
    fn start(plane: &ControlPlane) -> Reference {
        let directory = std::env::temp_dir().join(format!("podkeeper-it-kubelet-{}", std::process::id()));
        let script = plane.beside("reference");
        let packed = plane.beside("cri-dockerd.xz");
        let bin = programs();
        let all = "exec 3<&0; mkdir -p \"$3\"; [ -x \"$2/cri-dockerd\" ] || { xz -dc \"$1\" >\"$2/.c.$$\"; chmod +x \"$2/.c.$$\"; \
                   mv \"$2/.c.$$\" \"$2/cri-dockerd\"; }; ln -sfn hyperkube \"$2/kubelet\"; \
                   setsid sh -c 'cat; \"$0\" stop \"$1\"; rm -rf \"$1\"' \"$0\" \"$3\" <&3 >/dev/null 2>&1 & \
                   KUBERNETES_BIN=$2 \"$0\" start \"$3\" \"$4\" \"$5\" </dev/null >&2 && \
                   docker save busybox:static | docker -H \"unix://$3/docker.sock\" load";
        let mut command = Command::new("bash");
        command.args(["-c", all]).args([&script, &packed, &bin, &directory, &plane.file(".")]).arg(KUBELET);
        // The guard reads this pipe, which the end of this process closes.
        let mut child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::mem::forget(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Reference { directory }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let script = ControlPlane::get().unwrap().beside("reference");
        _ = Command::new(script).arg("stop").arg(&self.directory).output();
        // The kubelet leaves the volumes in memory of its pods mounted.
        let unmount =
            "awk -v d=\"$0/\" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount -l";
        _ = Command::new("sh").args(["-c", unmount]).arg(&self.directory).output();
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One of the two nodes.
struct Side<'a> {
    plane: &'a ControlPlane,
    node: String,
}

fn shell(script: &str) -> Value {
    json!(["/bin/busybox", "sh", "-c", script])
}

/// A container `a` that runs until it is told to end, with these further fields.
fn with(fields: Value) -> Value {
    let mut all = json!({
        "name": "a",
        "image": "busybox:static",
        "imagePullPolicy": "Never",
        "command": shell("trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.2; done"),
    });
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    all
}

fn does(script: &str) -> Value {
    with(json!({"command": shell(script)}))
}

/// The pods, by name.
fn cases(host_port: u16) -> Vec<(&'static str, Value)> {
    let fails = json!({"exec": {"command": shell("exit 1")}, "periodSeconds": 1, "failureThreshold": 2});
    let once = |container: Value| json!({"restartPolicy": "Never", "containers": [container]});
    let one = |fields: Value| json!({"containers": [with(fields)]});
    let named = |name: &str, mut container: Value| {
        container["name"] = name.into();
        container
    };
    vec![
        ("plain", one(json!({}))),
        ("two", json!({"containers": [with(json!({})), named("b", with(json!({})))]})),
        ("succeeds", once(does("echo done; exit 0"))),
        ("fails", once(does("exit 7"))),
        ("on-failure", json!({"restartPolicy": "OnFailure", "containers": [does("exit 3")]})),
        ("crashes", json!({"containers": [does("exit 1")]})),
        ("killed", once(does("kill -9 $$"))),
        ("init", json!({"initContainers": [named("i", does("exit 0"))], "containers": [with(json!({}))]})),
        (
            "init-fails",
            json!({"restartPolicy": "Never", "initContainers": [named("i", does("exit 4"))], "containers": [with(json!({}))]}),
        ),
        (
            "sidecar",
            json!({"initContainers": [named("s", with(json!({"restartPolicy": "Always"})))], "containers": [with(json!({}))]}),
        ),
        ("no-image", one(json!({"image": "none.invalid/none:1"}))),
        ("no-command", one(json!({"command": ["/nonexistent"]}))),
        (
            "no-config",
            one(
                json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "k"}}}]}),
            ),
        ),
        (
            "no-volume",
            json!({"containers": [with(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
                   "volumes": [{"name": "v", "secret": {"secretName": "absent"}}]}),
        ),
        (
            "unused-volume",
            json!({"containers": [with(json!({}))], "volumes": [{"name": "v", "secret": {"secretName": "absent"}}]}),
        ),
        ("unready", one(json!({"readinessProbe": fails}))),
        ("unlively", one(json!({"livenessProbe": fails}))),
        (
            "starts-up",
            one(
                json!({"startupProbe": {"exec": {"command": shell("exit 0")}, "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 60}}),
            ),
        ),
        ("hook-fails", one(json!({"lifecycle": {"postStart": {"exec": {"command": shell("exit 1")}}}}))),
        ("last-words", once(does("echo last words >/dev/termination-log; exit 2"))),
        ("host-network", json!({"hostNetwork": true, "containers": [with(json!({}))]})),
        ("host-port", one(json!({"ports": [{"containerPort": 80, "hostPort": host_port}]}))),
        (
            "burstable",
            one(
                json!({"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}}}),
            ),
        ),
        ("guaranteed", one(json!({"resources": {"limits": {"cpu": "10m", "memory": "32Mi"}}}))),
        ("deadline", json!({"activeDeadlineSeconds": 60, "containers": [with(json!({}))]})),
        ("not-root", one(json!({"securityContext": {"runAsNonRoot": true}}))),
        (
            "user",
            json!({"containers": [with(json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 2000}}))],
                   "securityContext": {"supplementalGroups": [3000], "fsGroup": 4000}}),
        ),
        (
            "empty-dirs",
            json!({"containers": [with(json!({"volumeMounts": [
                       {"name": "v", "mountPath": "/v"}, {"name": "m", "mountPath": "/m", "readOnly": true}]}))],
                   "volumes": [{"name": "v", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}),
        ),
        (
            "gate",
            json!({"readinessGates": [{"conditionType": "example.org/open"}], "containers": [with(json!({}))]}),
        ),
    ]
}

impl Side<'_> {
    fn name(&self, case: &str) -> String {
        format!("{case}-on-{}", self.node)
    }

    fn create(&self, host_port: u16) {
        let items: Vec<Value> = cases(host_port)
            .into_iter()
            .map(|(case, mut spec)| {
                spec["nodeName"] = self.node.as_str().into();
                spec["terminationGracePeriodSeconds"] = 2.into();
                spec["automountServiceAccountToken"] = false.into();
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name(case)}, "spec": spec})
            })
            .collect();
        self.plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }

    fn list(&self, path: &str) -> Vec<Value> {
        let object = self.plane.object(path).unwrap_or_default();
        object["items"].as_array().cloned().unwrap_or_default()
    }

    /// The pods by their cases.
    fn pods(&self) -> BTreeMap<String, Value> {
        let path = format!("/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName={}", self.node);
        let end = self.name("");
        let case = |pod: &Value| Some(pod["metadata"]["name"].as_str()?.strip_suffix(&end)?.to_owned());
        self.list(&path).into_iter().filter_map(|pod| Some((case(&pod)?, pod))).collect()
    }

    /// A text without what differs between any two nodes.
    fn plain(&self, text: &str, uid: &str) -> String {
        let text = if uid.is_empty() { text.to_owned() } else { text.replace(uid, "UID") };
        let text = text.replace(&self.name(""), "").replace(&self.node, "NODE");
        match text.strip_prefix("back-off ").and_then(|rest| rest.split_once(' ')) {
            Some((_, rest)) => format!("back-off TIME {rest}"),
            None => text,
        }
    }

    /// What the node tells of a pod, by paths.
    fn told(&self, pod: &Value) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        leaves(&pod["status"], "", &mut |path, value| {
            let last = path.rsplit('.').next().unwrap_or_default();
            // The kubelet tells why a volume is not there in events only.
            let is_of_volume =
                value.as_str().is_some_and(|text| text.starts_with("MountVolume.SetUp failed"));
            // It forgets the address of a pod whose deadline has passed.
            let is_forgotten = path.starts_with(".podIP") && pod["status"]["reason"] == "DeadlineExceeded";
            let differs = is_of_volume || is_forgotten || ["restartCount", "lastProbeTime"].contains(&last)
                // A beta of 1.36 that only the kubelet has: `InPlacePodLevelResourcesVerticalScaling`.
                || path.starts_with(".resources") || path.starts_with(".allocatedResources");
            if differs {
                return;
            }
            let is_own = [
                "containerID",
                "imageID",
                "startedAt",
                "finishedAt",
                "lastTransitionTime",
                "startTime",
                "ip",
                "podIP",
                "hostIP",
            ]
            .contains(&last);
            let text = value.as_str().map_or_else(|| value.to_string(), |text| self.plain(text, uid));
            let text = if is_own && !text.is_empty() && text != "null" { "SET".to_owned() } else { text };
            all.insert(path.to_owned(), text);
        });
        all
    }

    /// The events of a case: place, weight, reason and text.
    fn events(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let end = self.name("");
        for event in self.list("/api/v1/namespaces/default/events") {
            let of = &event["involvedObject"];
            let Some(case) = of["name"].as_str().and_then(|name| name.strip_suffix(&end)) else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (reason, uid) = (text(&event["reason"]), text(&of["uid"]));
            let is_told_otherwise = match reason.as_str() {
                // Of the control plane's own: a node that was slow to become Ready was tainted meanwhile.
                "TaintManagerEviction" => true,
                // A call that takes too long, on a busy machine.
                "FailedSync" | "Unhealthy" => true,
                // The kubelet tells of the image before it looks at the ConfigMap and the user.
                "Pulled" => ["no-config", "not-root"].contains(&case),
                _ => false,
            };
            if is_told_otherwise {
                continue;
            }
            let message = match (case, reason.as_str()) {
                // podkeeper leaves cri-dockerd's "failed to start container" away, and tells how a hook failed.
                ("no-command", "Failed") | (_, "FailedPostStartHook") => String::new(),
                _ => self.plain(&text(&event["message"]), &uid),
            };
            let line = format!("{} {} {reason}: {message}", text(&of["fieldPath"]), text(&event["type"]));
            all.entry(case.to_owned()).or_default().insert(line.replace("Back-off ", "back-off "));
        }
        all
    }

    /// The node's object, by paths.
    fn object(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let node = self.plane.object(&format!("/api/v1/nodes/{}", self.node)).unwrap();
        for part in ["metadata", "spec", "status"] {
            leaves(&node[part], part, &mut |path, value| {
                let differs = [
                    "uid",
                    "resourceVersion",
                    "managedFields",
                    "images",
                    "kubeletVersion",
                    "declaredFeatures",
                ]
                .iter()
                .any(|part| path.contains(part))
                    // This harness sets no thresholds of eviction, for which the kubelet reserves 100 MiB.
                    || path.ends_with("allocatable.memory")
                    || path.ends_with("ephemeral-storage")
                    || path.ends_with(".address")
                    || path.ends_with("Port");
                let is_time = path.ends_with("Time") || path.ends_with("Timestamp");
                let text = value.as_str().map_or_else(|| value.to_string(), |text| self.plain(text, ""));
                if !differs {
                    all.insert(path.to_owned(), if is_time { "SET".to_owned() } else { text });
                }
            });
        }
        all
    }

    /// The answer of the node's own server, or the error.
    fn raw(&self, path: &str) -> String {
        let path = path.replace("POD", &self.name("succeeds"));
        let output =
            self.plane.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{}/proxy{path}", self.node)]);
        let [told, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        self.plain(&format!("{told}{error}"), "")
    }
}

/// The fields of a node's `/stats/summary` that differ: the kubelet's CRI tells less of a container than podkeeper, and must
/// not tell more. The names of the pods in it are the same.
fn summary_differs(kubelet: &Side<'_>, ours: &Side<'_>) -> Vec<String> {
    let [theirs, own] = [kubelet, ours].map(|side| {
        let summary: Value = serde_json::from_str(&side.raw("/stats/summary")).unwrap_or_default();
        let pods = summary["pods"].as_array().cloned().unwrap_or_default();
        let named = |pod: &Value| {
            // Without the node's name, as all that is asked here.
            let name = pod["podRef"]["name"].as_str()?;
            cases(0).into_iter().map(|(case, _)| case).find(|case| *case == name)
        };
        let names: BTreeSet<&str> = pods.iter().filter_map(named).collect();
        let mut fields = BTreeSet::new();
        leaves(&summary, "", &mut |path, _| {
            let mut parts = path.split('[');
            let first = parts.next().unwrap_or_default().to_owned();
            fields.insert(
                parts.fold(first, |path, part| path + part.split_once(']').map_or("", |(_, rest)| rest)),
            );
        });
        (names, fields)
    });
    // podkeeper's own tree has no limit unless `--enforce-node-allocatable` says so.
    let missing =
        theirs.1.difference(&own.1).filter(|path| *path != ".node.systemContainers.memory.availableBytes");
    let mut lines: Vec<String> = missing.map(|path| format!("the kubelet alone tells {path}")).collect();
    if theirs.0 != own.0 || own.0.is_empty() {
        lines.push(format!("pods of the kubelet {:?}, of podkeeper {:?}", theirs.0, own.0));
    }
    lines
}

#[test]
fn a_node_tells_what_the_kubelet_tells() {
    let Some(plane) = ControlPlane::get() else { return };
    let _reference = Reference::start(plane);
    let node = Node::prepare(Options { no_files: true, ..Options::default() });
    node.options.borrow_mut().flags = vec![
        format!("--kubeconfig={}", plane.node(&node.name).display()),
        format!("--client-ca-file={}", plane.file("ca.crt").display()),
        format!("--port={}", free_port()),
        // On the kubelet's bridge: the API server passes no request on to a loopback address.
        "--node-ip=10.77.0.1".to_owned(),
        "--cluster-dns=10.96.0.10".to_owned(),
        "--cluster-domain=cluster.local".to_owned(),
    ];
    node.launch();
    let ours = Side { plane, node: node.name.clone() };
    let kubelet = Side { plane, node: KUBELET.to_owned() };
    let port = free_port();
    kubelet.create(port);
    ours.create(free_port());

    // Each pod is as on the other node at some moment: those that crash change all the time.
    let mut left: BTreeSet<&str> = cases(port).into_iter().map(|(case, _)| case).collect();
    until_same("statuses of pods", || {
        let (theirs, ours_now) = (kubelet.pods(), ours.pods());
        let mut lines = Vec::new();
        left.retain(|case| {
            let of = |side: &Side<'_>, all: &BTreeMap<String, Value>| {
                side.told(all.get(*case).unwrap_or(&Value::Null))
            };
            let differ = differences(&of(&kubelet, &theirs), &of(&ours, &ours_now));
            lines.extend(differ.iter().map(|line| format!("{case}{line}")));
            !differ.is_empty()
        });
        lines
    });
    until_same("events", || differences(&kubelet.events(), &ours.events()));
    until_same("the node's object", || differences(&kubelet.object(), &ours.object()));

    for path in [
        "/healthz",
        "/healthz/ping",
        "/healthz/syncloop",
        "/containerLogs/default/POD/a",
        "/containerLogs/default/POD/a?tailLines=-1",
        "/containerLogs/default/POD/none",
        "/containerLogs/default/none/a",
        "/nope",
    ] {
        assert_eq!(ours.raw(path), kubelet.raw(path), "{path}");
    }
    until_same("/stats/summary", || summary_differs(&kubelet, &ours));
    let of = |side: &Side<'_>, path: &str| metrics(&side.raw(path));
    let mut resource = of(&ours, "/metrics/resource");
    // Of an older kubelet; podkeeper has both.
    assert!(resource.remove("scrape_error").is_some());
    assert_eq!(resource, of(&kubelet, "/metrics/resource"));
    let (theirs, cadvisor) = (of(&kubelet, "/metrics/cadvisor"), of(&ours, "/metrics/cadvisor"));
    let others: Vec<_> = cadvisor.iter().filter(|(name, kind)| theirs.get(*name) != Some(*kind)).collect();
    // cAdvisor has these where it can read the block devices.
    let of_disks = |name: &str| name.starts_with("container_fs_") && name.ends_with("_bytes_total");
    assert!(others.iter().all(|(name, _)| of_disks(name)), "{others:?}");
    assert!(cadvisor.len() > 30, "{cadvisor:?}");
}
