//! The API server of the world: its pods by name, their versions, and what happened last. It keeps the rules that the node
//! may rely on: preconditions, no-op writes, graceful deletions, and watches from a version that it still knows.

use std::collections::{BTreeMap, VecDeque};

use podkeeper::testing::api::Kind as Patch;
use podkeeper::testing::api_client::{Kind, WatchEvent};
use podkeeper::testing::base::clock::Timestamp;
use podkeeper::testing::cluster::Answer;
use podkeeper::testing::cluster::desk::Ask;
use serde_json::{Value, json};

use super::super::world::NODE;

/// Annotation of a mirror pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

pub fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn uid_of(pod: &Value) -> &str {
    text(pod, "/metadata/uid")
}

pub fn is_mirror(pod: &Value) -> bool {
    pod.pointer("/metadata/annotations").and_then(|all| all.get(MIRROR)).is_some()
}

pub fn is_deleted(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

pub fn phase(pod: &Value) -> &str {
    text(pod, "/status/phase")
}

pub fn is_terminal(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// One watch of the daemon.
pub struct Stream {
    pub id: u64,
    /// It has no events of this version and earlier ones.
    pub since: u64,
    pub events: VecDeque<WatchEvent>,
}

/// A state of etcd, and its version.
type Backup = (u64, BTreeMap<String, Value>);

#[derive(Default)]
pub struct Server {
    pub version: u64,
    /// All pods of the namespace `default`, also those of another node.
    pub pods: BTreeMap<String, Value>,
    history: Vec<(u64, Kind, Value)>,
    /// No watch begins before this version.
    floor: u64,
    pub is_down: bool,
    /// Number of writes of the node that changed something.
    pub writes: u64,
    /// Those that changed nothing.
    pub idle_writes: u64,
    made: u64,
    pub stream: Option<Stream>,
    pub backup: Option<Backup>,
    /// The node's lease is older than the node has seen it.
    pub is_lease_older: bool,
}

fn event(kind: Kind, object: Value) -> WatchEvent {
    WatchEvent { kind, object }
}

fn is_here(pod: &Value) -> bool {
    text(pod, "/spec/nodeName") == NODE
}

impl Server {
    fn write(&mut self, kind: Kind, mut pod: Value) -> Value {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        let name = text(&pod, "/metadata/name").to_owned();
        match kind {
            Kind::Deleted => _ = self.pods.remove(&name),
            _ => _ = self.pods.insert(name, pod.clone()),
        }
        self.history.push((self.version, kind, pod.clone()));
        let version = self.version;
        if let Some(stream) = self.stream.as_mut().filter(|it| is_here(&pod) && it.since < version) {
            stream.events.push_back(event(kind, pod.clone()));
        }
        pod
    }

    pub fn uid(&mut self) -> String {
        self.made += 1;
        format!("00000000-0000-4000-8000-{:012}", self.made)
    }

    /// A user makes a pod, or an event of the past does.
    pub fn create(&mut self, mut pod: Value, now: Timestamp) {
        let uid = self.uid();
        pod["metadata"]["uid"] = uid.into();
        pod["metadata"]["creationTimestamp"] = now.to_string().into();
        pod["metadata"]["generation"] = 1.into();
        self.write(Kind::Added, pod);
    }

    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(mut pod) = self.pods.get(name).cloned() else { return };
        change(&mut pod);
        if self.pods.get(name) != Some(&pod) {
            self.write(Kind::Modified, pod);
        }
    }

    /// A user deletes a pod. Without a grace period it is gone at once, whatever runs.
    pub fn delete(&mut self, name: &str, grace: u64, now: Timestamp) {
        let Some(pod) = self.pods.get(name).cloned() else { return };
        if grace == 0 {
            self.write(Kind::Deleted, pod);
            return;
        }
        self.change(name, |pod| {
            if !is_deleted(pod) {
                let end = Timestamp::from_second(now.as_second() + i64::try_from(grace).unwrap()).unwrap();
                pod["metadata"]["deletionTimestamp"] = end.to_string().into();
                pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            }
        });
    }

    /// Carries out a request of the node.
    pub fn perform(&mut self, name: &str, ask: &Ask, now: Timestamp) -> Answer {
        let known = self.pods.get(name).cloned();
        let before = self.version;
        let answer = match (ask, known) {
            (Ask::MakeMirror(_), Some(_)) => Answer::Exists,
            (Ask::MakeMirror(body), None) => {
                let mut pod = body.clone();
                pod["spec"]["nodeName"] = NODE.into();
                self.create(pod, now);
                Answer::Done(self.pods[name].clone())
            }
            (_, None) => Answer::Missing,
            (Ask::Status(patch), Some(pod)) => {
                let wanted = text(patch, "/metadata/uid");
                let version = text(patch, "/metadata/resourceVersion");
                let is_other = |wanted: &str, is: &str| !wanted.is_empty() && wanted != is;
                if is_other(wanted, uid_of(&pod))
                    || is_other(version, text(&pod, "/metadata/resourceVersion"))
                {
                    return Answer::Conflict;
                }
                let Ok(mut after) = Patch::Strategic.apply("Pod", &pod, patch) else {
                    panic!("a patch that does not fit: {patch}")
                };
                // Only the status can be written there.
                after["metadata"] = pod["metadata"].clone();
                after["spec"] = pod["spec"].clone();
                self.change(name, |pod| *pod = after);
                Answer::Done(self.pods[name].clone())
            }
            (Ask::Finish { uid, version }, Some(pod)) => {
                let is_same =
                    version.as_deref().is_none_or(|at| at == text(&pod, "/metadata/resourceVersion"));
                if uid != uid_of(&pod) || !is_same {
                    return Answer::Conflict;
                }
                Answer::Done(self.write(Kind::Deleted, pod))
            }
            (Ask::DropMirror(uid), Some(pod)) => {
                if uid != uid_of(&pod) {
                    return Answer::Conflict;
                }
                Answer::Done(self.write(Kind::Deleted, pod))
            }
        };
        let changed = self.version != before;
        self.writes += u64::from(changed);
        self.idle_writes += u64::from(!changed && matches!(answer, Answer::Done(_)));
        answer
    }

    /// Opens a watch that begins with all pods, or after this version; `Err` for one that is not known any more. One after a
    /// version that is still to come is silent until then, as that of a real server.
    pub fn open(&mut self, id: u64, since: Option<u64>) -> Result<(), &'static str> {
        let mut events = VecDeque::new();
        match since {
            None => {
                let here = self.pods.values().filter(|pod| is_here(pod));
                events.extend(here.map(|pod| event(Kind::Added, pod.clone())));
                events.push_back(self.bookmark(true));
            }
            Some(version) if version < self.floor => return Err("Expired"),
            Some(version) => {
                let later = self.history.iter().filter(|(at, _, pod)| *at > version && is_here(pod));
                events.extend(later.map(|(_, kind, pod)| event(*kind, pod.clone())));
            }
        }
        self.stream = Some(Stream { id, since: since.unwrap_or(0), events });
        Ok(())
    }

    pub fn bookmark(&self, is_initial_end: bool) -> WatchEvent {
        let version = self.version.to_string();
        event(Kind::Bookmark { is_initial_end }, json!({"metadata": {"resourceVersion": version}}))
    }

    /// Old versions are forgotten.
    pub fn compact(&mut self) {
        self.floor = self.version;
        self.history.clear();
    }

    pub fn back_up(&mut self) {
        self.backup = Some((self.version, self.pods.clone()));
    }

    /// An older state of etcd is restored, with versions that go on, as `--bump-revision` does, or that go back.
    pub fn restore(&mut self, goes_back: bool) {
        let Some((version, pods)) = self.backup.clone() else { return };
        self.pods = pods;
        self.version = if goes_back { version } else { self.version + 1000 };
        self.is_lease_older |= goes_back;
        self.compact();
        self.stream = None;
    }
}
