//! What happens to the server, its pods, the daemon and the machine.

use podkeeper::testing::runtime::fake::Restart;
use serde_json::{Value, json};

use super::super::scenes::with_volume;
use super::super::seconds;
use super::super::world::{NODE, World};
use super::server::is_deleted;

/// A pod of the server. `kind` decides what it is.
fn pod(name: &str, kind: u64) -> Value {
    let container = |name: &str, command: Value| {
        json!({
            "name": name, "image": "busybox:static", "imagePullPolicy": "IfNotPresent", "command": command,
            "resources": {}, "terminationMessagePath": "/dev/termination-log",
        })
    };
    let mut spec = json!({
        "nodeName": NODE, "terminationGracePeriodSeconds": 3, "restartPolicy": "Always",
        "containers": [container("app", json!(["sleep", "100000000"]))],
    });
    match kind % 5 {
        1 => {
            spec["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
            spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        }
        2 => spec["initContainers"] = json!([container("prepare", json!(["true"]))]),
        3 => {
            spec["containers"] = json!([container("once", json!(["true"]))]);
            spec["restartPolicy"] = "Never".into();
        }
        4 => spec["hostNetwork"] = true.into(),
        _ => {}
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": spec, "status": {"phase": "Pending"},
    })
}

impl World {
    /// A user makes a pod.
    pub(super) fn a_user_makes(&mut self, name: &str, kind: u64) {
        let wall = self.now().wall;
        self.cluster_mut().server.create(pod(name, kind), wall);
        self.doom_by_server();
    }

    /// Something happens to a pod of the server.
    fn a_user_does(&mut self, what: u64, name: &str) {
        let wall = self.now().wall;
        // A job of a static pod's name has to run again when it has its name back.
        let kinds = if name.starts_with("api") { 5 } else { 3 };
        let (kind, version) = (self.below(kinds), self.below(100));
        let is_there = self.cluster().server.pods.contains_key(name);
        let server = &mut self.cluster_mut().server;
        match what {
            0..30 if !is_there => server.create(pod(name, kind), wall),
            0..12 => server.delete(name, 3, wall),
            12..18 => server.delete(name, 0, wall),
            18..24 => {
                // Another pod of that name, at once.
                server.delete(name, 0, wall);
                server.create(pod(name, kind), wall);
            }
            24..30 => {
                server.change(name, |pod| pod["metadata"]["labels"] = json!({"v": version.to_string()}))
            }
            _ => {
                // The node controller takes the node for lost.
                server.change(name, |pod| {
                    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
                    for condition in conditions.into_iter().flatten().filter(|c| c["type"] == "Ready") {
                        condition["status"] = "False".into();
                    }
                });
            }
        }
        self.note(|| format!("turmoil: a user does {what} to {name}"));
    }

    /// Something happens to a party of the cluster.
    pub(super) fn cluster_turmoil(&mut self) {
        let (what, which) = (self.below(100), self.below(4));
        match what {
            0..45 => self.a_user_does(self.seed.wrapping_add(what * 7) % 34, &format!("api{which}")),
            45..50 => {
                // Somebody deletes a mirror, or takes its name.
                let name = format!("pod{which}-{NODE}");
                self.a_user_does(self.seed.wrapping_add(what) % 18, &name);
            }
            50..56 => {
                let path = format!("/m/pod{which}.yaml");
                let version = self.below(3);
                self.note(|| format!("turmoil: {path} is written"));
                if self.below(3) == 0 {
                    self.files.remove(&path);
                } else {
                    self.files.insert(path, with_volume(&format!("pod{which}"), version, which));
                }
                self.hint_files();
            }
            56..64 => {
                self.note(|| "turmoil: the server goes".to_owned());
                self.server_goes();
                let gone = 1 << self.below(9);
                self.pass(seconds(gone));
                self.note(|| "turmoil: the server is back".to_owned());
                self.cluster_mut().server.is_down = false;
            }
            64..70 => {
                self.note(|| "turmoil: the watch is cut".to_owned());
                self.cluster_mut().server.stream = None;
            }
            70..74 => self.cluster_mut().server.compact(),
            74..78 => self.cluster_mut().server.version += 100_000,
            78..82 => self.cluster_mut().server.back_up(),
            82..85 => {
                self.note(|| "turmoil: etcd is restored to an older state".to_owned());
                let goes_back = which == 0;
                self.cluster_mut().server.restore(goes_back);
                self.doom_by_server();
                if goes_back && self.seed.is_multiple_of(2) {
                    // Kubernetes advises to restart everybody.
                    self.kill_daemon();
                    self.start_daemon();
                }
            }
            85..94 => {
                self.kill_daemon();
                self.start_daemon();
            }
            _ => {
                self.note(|| "turmoil: power cut".to_owned());
                let now = self.now();
                self.kill_daemon();
                self.engine.restart_engine(Restart::PowerCut, now);
                self.start_daemon();
            }
        }
        self.doom_by_server();
    }

    /// All connections break.
    pub(super) fn server_goes(&mut self) {
        let server = &mut self.cluster_mut().server;
        server.is_down = true;
        server.stream = None;
    }

    /// From now on the containers may be stopped of pods that the server does not want any more.
    pub(super) fn doom_by_server(&mut self) {
        let cluster = self.cluster_mut();
        let wanted: std::collections::BTreeSet<&str> =
            cluster.server.pods.values().filter(|pod| !is_deleted(pod)).map(super::server::uid_of).collect();
        let lost: Vec<String> =
            cluster.seen.iter().filter(|uid| !wanted.contains(uid.as_str())).cloned().collect();
        cluster.doomed.extend(lost);
        let all: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        cluster.seen.extend(all);
    }
}
