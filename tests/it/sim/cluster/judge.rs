//! What must hold of all that the node tells the server, and of what it does for the server's pods.

use std::collections::{BTreeMap, BTreeSet};

use podkeeper::testing::cluster::desk::Ask;
use podkeeper::testing::runtime::{Call, DockerState, labels};
use serde_json::Value;

use super::super::world::{NODE, ROOT, World};
use super::server::{MIRROR, is_deleted, is_mirror, is_terminal, phase, text, uid_of};

/// Statuses of all containers.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten()
}

fn count(status: &Value) -> u64 {
    status["restartCount"].as_u64().unwrap_or_default()
}

impl World {
    /// Names and UIDs of this node's running containers, with the UIDs of their pods.
    fn living(&self) -> Vec<(String, String, String)> {
        let ours = self.engine.containers().filter(|c| {
            c.state == DockerState::Running && c.body.labels.get(labels::ROOT_DIR).is_some_and(|r| r == ROOT)
        });
        let label = |of: &BTreeMap<String, String>, key: &str| of.get(key).cloned().unwrap_or_default();
        ours.map(|c| {
            let of = &c.body.labels;
            (label(of, labels::POD_UID), label(of, labels::CONTAINER_NAME), c.id.clone())
        })
        .collect()
    }

    /// Judges a removal that was carried out.
    pub(super) fn judge_end(&self, pod: &Value, ask: &Ask) {
        let name = text(pod, "/metadata/name");
        match ask {
            Ask::DropMirror(_) => assert!(is_mirror(pod), "{name} is no mirror"),
            Ask::Finish { uid, .. } => {
                assert!(is_deleted(pod), "{name} is removed, and nobody deletes it");
                let alive: Vec<_> = self.living().into_iter().filter(|(of, ..)| of == uid).collect();
                assert!(alive.is_empty(), "{name} is removed before it is dead: {alive:?}");
            }
            Ask::Status(_) | Ask::MakeMirror(_) => panic!("{name} is removed by {ask:?}"),
        }
    }

    /// Judges a request that reaches the server, before it is carried out.
    pub(super) fn judge_ask(&self, name: &str, ask: &Ask) {
        let Some(pod) = self.cluster().server.pods.get(name) else { return };
        assert!(
            matches!(ask, Ask::MakeMirror(_)) || text(pod, "/spec/nodeName") == NODE,
            "{name} is of another node: {ask:?}"
        );
    }

    /// No status goes back.
    pub(super) fn judge_change(before: &Value, after: &Value) {
        if uid_of(before) != uid_of(after) {
            return;
        }
        let name = text(before, "/metadata/name");
        if is_terminal(before) {
            assert_eq!(phase(before), phase(after), "{name} had ended");
        }
        let old: BTreeMap<&str, &Value> =
            containers(before).map(|status| (text(status, "/name"), status)).collect();
        for new in containers(after) {
            let Some(old) = old.get(text(new, "/name")) else { continue };
            let id = |status: &Value| text(status, "/containerID").to_owned();
            // A static pod that was removed and has returned while its mirror could not be removed counts from 0.
            let is_other_life = is_mirror(before) && count(new) == 0 && id(old) != id(new);
            assert!(is_other_life || count(new) >= count(old), "{name}: restarts go back: {old} {new}");
            let has_ended = |status: &Value| status.pointer("/state/terminated").is_some();
            assert!(
                !(has_ended(old) && id(old) == id(new) && new.pointer("/state/running").is_some()),
                "{name}: a container that has ended runs: {old} {new}"
            );
        }
    }

    /// No running container of the server's pods is stopped without a reason at the server.
    /// Docker removes none that runs, unless it is forced.
    pub fn judge_cluster_stop(&self, call: &Call) {
        let (Call::Kill { id, .. } | Call::Remove { id, force: true }) = call else { return };
        let Some(cluster) = &self.cluster else { return };
        let Some(victim) = self.engine.get(id).filter(|c| c.state == DockerState::Running) else { return };
        let label = |key: &str| victim.body.labels.get(key).map(String::as_str).unwrap_or_default();
        if label(labels::SOURCE) != "api" || label(labels::ROOT_DIR) != ROOT {
            return;
        }
        let uid = label(labels::POD_UID);
        // A static pod takes the name of a user's.
        let is_taken = label(labels::POD_NAME).ends_with(&format!("-{NODE}"));
        let is_doomed = cluster.doomed.contains(uid) || is_taken;
        // The sandbox of a pod that has ended, and what runs in a sandbox that is being replaced.
        let sandbox = victim.body.labels.get(labels::SANDBOX_ID).and_then(|of| self.engine.get(of));
        let is_sandbox = label(labels::CONTAINER_NAME) == labels::SANDBOX_NAME;
        let is_lost = !is_sandbox && sandbox.is_none_or(|of| of.state != DockerState::Running);
        let is_over = cluster.server.pods.values().any(|pod| uid_of(pod) == uid && is_terminal(pod));
        let is_empty = is_sandbox
            && !self.living().iter().any(|(of, name, _)| of == uid && name != labels::SANDBOX_NAME);
        assert!(
            is_doomed || is_lost || is_over || is_empty,
            "{} of {uid} is stopped, and the server has not asked for it",
            victim.name
        );
    }

    /// In peace the server says of each pod what is true, and runs what it should.
    pub(super) fn check_cluster(&self) {
        let statics: BTreeMap<String, String> =
            self.desired().iter().map(|pod| (pod.key.name.clone(), pod.uid.clone())).collect();
        let mut wanted: BTreeSet<String> = statics.values().cloned().collect();
        let pods = &self.cluster().server.pods;
        let ours = pods.iter().filter(|(_, pod)| text(pod, "/spec/nodeName") == NODE);
        let living = self.living();
        let mut mirrors = BTreeSet::new();
        for (name, pod) in ours {
            if is_mirror(pod) {
                // What Docker cannot remove of a static pod has its mirror still.
                let left =
                    self.engine.containers().any(|c| c.body.labels.get(labels::POD_NAME) == Some(name));
                let of = statics.get(name);
                if of.is_none() && left {
                    continue;
                }
                let mirrored = pod.pointer("/metadata/annotations").and_then(|all| all[MIRROR].as_str());
                assert_eq!(mirrored, of.map(String::as_str), "the mirror {name}");
                mirrors.insert(name.clone());
                assert_eq!(phase(pod), "Running", "the mirror {name}");
                continue;
            }
            // A user's pod has the name of a static one: the static one runs, and has no mirror.
            if statics.contains_key(name) {
                mirrors.insert(name.clone());
                continue;
            }
            assert!(!is_deleted(pod), "{name} is not removed: {}", pod["status"]);
            if is_terminal(pod) {
                assert!(!living.iter().any(|(uid, ..)| uid == uid_of(pod)), "{name} has ended, and runs");
                continue;
            }
            assert_eq!(phase(pod), "Running", "{name}: {}", pod["status"]);
            wanted.insert(uid_of(pod).to_owned());
            let told: BTreeSet<String> = containers(pod)
                .filter(|status| status.pointer("/state/running").is_some())
                .map(|status| text(status, "/containerID").trim_start_matches("docker://").to_owned())
                .collect();
            let runs: BTreeSet<String> = living
                .iter()
                .filter(|(uid, name, _)| uid == uid_of(pod) && name != labels::SANDBOX_NAME)
                .map(|(_, _, id)| id.clone())
                .collect();
            assert_eq!(told, runs, "the containers of {name}");
        }
        let runs: BTreeSet<String> = living.iter().map(|(uid, ..)| uid.clone()).collect();
        let told: Vec<String> = self
            .daemon
            .iter()
            .flat_map(|daemon| daemon.turn.snapshot(&self.now()).pods)
            .filter(|view| !wanted.contains(&view.pod.uid))
            .map(|view| format!("{}: {:?} {:?}", view.pod.key, view.status.reason, view.status.message))
            .collect();
        assert_eq!(runs, wanted, "the pods that run, and those that are wanted; not wanted: {told:?}");
        let named: BTreeSet<String> = statics.into_keys().collect();
        assert_eq!(mirrors, named, "mirrors");
    }

    /// A container that runs once has run once. An older state of the server brings back what had been deleted.
    pub(super) fn check_jobs(&self) {
        let kept = |uid: &String| !self.cluster().doomed.contains(uid);
        let jobs = self.record.starts.iter().filter(|((uid, name), _)| name == "once" && kept(uid));
        for ((uid, name), starts) in jobs {
            assert!(*starts <= 1, "{name} of {uid} has run {starts} times");
        }
    }
}
