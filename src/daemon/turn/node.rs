//! The node: pressures, conditions in the kubelet's words (`pkg/kubelet/nodestatus/setters.go`), and events.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use super::pods::order::Rooms;
use super::{Earlier, Turn, pods, sizes};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::table::{Set, Table};
use crate::base::{order, quantity};
use crate::eviction::News;
use crate::node::pressure::{Pressure, Pressures};
use crate::pod::allocatable::Allocatable;
use crate::pod::{DesiredPod, PodKey};
use crate::recorder::{ObjectEvent, Words, words};
use crate::status::resized::Resized;
use crate::status::snapshot::{ConditionView, EvictionView, NodeView};

/// Whether the node can run pods.
const READY: &str = "Ready";

/// The loop's state of the node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pressures: Pressures,
    /// Ready, and one for each kind of pressure, as recorded last.
    conditions: Vec<ConditionView>,
    /// Whether the node accepted new pods, as recorded last.
    schedulable: Option<bool>,
    /// When the daemon began, wall time.
    started: Option<Timestamp>,
    /// Whether CNI plugins can attach pods, once it is known; the inner `Some`: why they cannot.
    network: Option<Option<String>>,
    /// No evicted pod starts again before this time.
    pub(super) returns: Mono,
    /// Evictions by an earlier daemon, by pod, until the pod comes.
    pub(super) evicted_earlier: Table<String, EvictionView>,
    /// Containers that an earlier daemon has killed, as long as Docker may have them.
    pub(super) stopped_earlier: Set<String>,
    /// The pods of an earlier daemon, until Docker is listed.
    pub(super) pods_earlier: Vec<Pod>,
    /// The sizes of their containers, by UID, until they run in this daemon.
    pub(super) sizes_earlier: Table<String, String>,
    /// Sizes that pods had and that no sandbox tells, until they run in this daemon.
    pub(super) sizes_kept: Resized,
    /// How the containers of those ended that had failed for good, by UID, while an API server may have to hear of it.
    pub(super) ends_earlier: Table<String, PodStatus>,
    /// When the pods of each name had room last.
    pub(super) rooms: Rooms,
    /// Those of them that run, and that no source told then.
    pub(super) earlier: Table<PodKey, Arc<DesiredPod>>,
    /// Containers of those that have ended since Docker's last list.
    pub(super) earlier_ended: Set<String>,
}

impl NodeState {
    pub(super) fn pressures(&self) -> &Pressures {
        &self.pressures
    }

    pub(super) fn conditions(&self) -> &[ConditionView] {
        &self.conditions
    }
}

impl Turn {
    /// Takes over what an earlier daemon had not finished. `signalled`: the containers that it had signalled;
    /// `resized`: sizes that no sandbox tells.
    pub fn restore_unfinished(&mut self, earlier: Earlier, signalled: Set<String>, resized: Resized) {
        self.node.evicted_earlier = earlier.evictions;
        self.node.stopped_earlier = earlier.stopping;
        self.node.stopped_earlier.extend(signalled);
        self.node.sizes_earlier = sizes::of_earlier(&earlier.pods);
        self.node.sizes_kept = resized;
        if self.config.sources.in_cluster() {
            self.node.ends_earlier = pods::last::ends_of(&earlier.pods);
        }
        self.node.rooms = Rooms::of_earlier(&earlier.pods, earlier.without_room, earlier.had_room);
        self.node.pods_earlier = earlier.pods;
    }

    pub(super) fn node_told(&mut self, news: News, now: &Now) {
        match news {
            News::Pressures(pressures) => {
                if self.node.pressures != pressures {
                    self.node.pressures = pressures;
                    // First, because the pods are judged by it.
                    self.note_node(now);
                    self.readmit(&[], now);
                    self.return_evicted(now);
                }
            }
            News::Evict(eviction) => self.evict(eviction, now),
            News::Node(words) => self.node_event(words, now),
        }
    }

    /// Keeps an event of the node.
    pub(super) fn node_event(&mut self, words: Words, now: &Now) {
        self.record(ObjectEvent::of_node(&self.config.node_name, words), now);
    }

    /// The node's resources and properties; they change only with the flags.
    pub(super) fn node_view(&self) -> NodeView {
        let node = &self.config.node;
        let list = |of: &Allocatable| {
            let pages = node.huge_pages.iter();
            let mut list = order::map(pages.map(|(name, bytes)| (name.clone(), quantity::bytes(*bytes))));
            let storage = Some(of.ephemeral_storage).filter(|bytes| *bytes > 0).map(quantity::bytes);
            list.extend(storage.map(|bytes| ("ephemeral-storage".to_owned(), bytes)));
            list.insert("cpu".to_owned(), quantity::cores(of.milli_cpu));
            list.insert("memory".to_owned(), quantity::bytes(of.memory));
            list.insert("pods".to_owned(), node.max_pods.to_string());
            list.extend(node.devices.counts().map(|(name, count)| (name.to_owned(), count.to_string())));
            list
        };
        NodeView {
            labels: self.config.node_labels.clone(),
            capacity: list(&node.capacity),
            allocatable: list(&node.allocatable),
            started: self.node.started,
        }
    }

    /// Why CNI plugins cannot attach pods, in the kubelet's words.
    fn no_network(&self) -> Option<String> {
        if !self.config.network.cni.is_on {
            return None;
        }
        match &self.node.network {
            None => Some("container runtime network not ready: network state unknown".to_owned()),
            Some(missing) => missing.as_deref().map(words::network_problem),
        }
    }

    /// Takes whether CNI plugins can attach pods; `Some`: why they cannot.
    pub(super) fn network_told(&mut self, missing: Option<String>) {
        self.node.network = Some(missing);
    }

    /// Compares the conditions with those recorded last.
    pub(super) fn note_node(&mut self, now: &Now) {
        self.node.started.get_or_insert(now.wall);
        let ready = match self.docker.engine.problem() {
            Some(why) => Some(format!("container runtime is down: {why}")),
            None => self.no_network(),
        };
        // Newer kubelets do not have this condition.
        let has_out_of_disk = self.config.eviction.low_disk_space > 0;
        let told = |pressure: &Pressure| *pressure != Pressure::OutOfDisk || has_out_of_disk;
        let pressures = Pressure::ALL.into_iter().filter(told).map(|pressure| {
            let is_short = self.node.pressures.contains(&pressure);
            condition_of_pressure(pressure, is_short)
        });
        let conditions = [condition_of_ready(ready)].into_iter().chain(pressures);
        let conditions: Vec<Condition> = conditions.collect();
        for told in conditions {
            let old = self.node.conditions.iter_mut().find(|old| old.type_ == told.type_);
            let view = told.view(now);
            let is_news = match old {
                Some(old) if old.is_true == view.is_true => {
                    if old.message != view.message {
                        self.changed = true;
                        old.message = view.message;
                    }
                    false
                }
                Some(old) => {
                    *old = view;
                    true
                }
                None => {
                    self.node.conditions.push(view);
                    // At the start, a node that is not ready and is short of nothing is expected. A control plane gets
                    // the other conditions, too, as from the kubelet.
                    self.config.cluster.is_some() && told.type_ != READY
                }
            };
            if is_news {
                self.changed = true;
                let words = words::node_is(&self.config.node_name, told.event, told.is_good());
                if told.type_ == READY {
                    // The log line about Docker says it already.
                    let event = ObjectEvent::of_node(&self.config.node_name, words);
                    let _line = self.ring.add(event, now);
                } else {
                    self.node_event(words, now);
                }
            }
        }
        let schedulable = self.draining.is_none();
        if self.node.schedulable.replace(schedulable).is_some_and(|before| before != schedulable) {
            let event = if schedulable { "NodeSchedulable" } else { "NodeNotSchedulable" };
            self.node_event(words::node_is(&self.config.node_name, event, true), now);
        }
    }
}

/// A condition as it is now.
struct Condition {
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
    /// Reason of the event for this state.
    event: &'static str,
}

impl Condition {
    /// Whether the condition is good: Ready when it is true, a pressure when it is false.
    fn is_good(&self) -> bool {
        (self.type_ == READY) == self.is_true
    }

    fn view(&self, now: &Now) -> ConditionView {
        ConditionView {
            type_: self.type_.to_owned(),
            is_true: self.is_true,
            reason: self.reason.to_owned(),
            message: self.message.clone(),
            since: now.wall,
        }
    }
}

fn condition_of_ready(why_not: Option<String>) -> Condition {
    match why_not {
        None => Condition {
            type_: READY,
            is_true: true,
            reason: "KubeletReady",
            message: "kubelet is posting ready status".to_owned(),
            event: "NodeReady",
        },
        Some(message) => Condition {
            type_: READY,
            is_true: false,
            reason: "KubeletNotReady",
            message,
            event: "NodeNotReady",
        },
    }
}

fn condition_of_pressure(pressure: Pressure, is_short: bool) -> Condition {
    let (reason, message, event) = match (pressure, is_short) {
        (Pressure::Memory, false) => (
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ),
        (Pressure::Memory, true) => (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ),
        (Pressure::Disk, false) => {
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure")
        }
        (Pressure::Disk, true) => {
            ("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure")
        }
        (Pressure::Pid, false) => {
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID")
        }
        (Pressure::Pid, true) => {
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID")
        }
        // From `setNodeOODCondition` in `pkg/kubelet/kubelet_node_status.go` of the kubelet until 1.12.
        (Pressure::OutOfDisk, false) => (
            "KubeletHasSufficientDisk",
            "kubelet has sufficient disk space available",
            "NodeHasSufficientDisk",
        ),
        (Pressure::OutOfDisk, true) => ("KubeletOutOfDisk", "out of disk space", "NodeOutOfDisk"),
    };
    Condition { type_: pressure.condition(), is_true: is_short, reason, message: message.to_owned(), event }
}
