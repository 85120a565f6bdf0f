//! All figures of the node at once, in the shape of the kubelet's `/stats/summary`
//! (`staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go`). Figures are read only on request.
//!
//! [`asked`] tells the pods and where their files are; [`read()`] reads. Some fields are in addition to the kubelet's
//! summary, from its `/metrics/cadvisor`: packets, and the processes of containers; the classes of service are listed
//! beside `pods`. Stall times are in nanoseconds, as the type says, and percent.

pub mod asked;
mod read;

use serde::Serialize;

pub use self::read::{Counters, Reader};
use super::disk::FileSystem;
use super::disk_use::DiskUse;
use super::network::Interface;
use super::pressure::{Pressure, Stall};
use crate::base::clock::Timestamp;

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The machine, and programs outside of pods.
    pub node: NodeStats,
    /// Pods with a running container.
    pub pods: Vec<PodStats>,
}

impl Summary {
    /// Drops everything but processors and memory (upstream `only_cpu_and_memory`).
    pub fn keep_cpu_and_memory(&mut self) {
        let node = &mut self.node;
        (node.network, node.fs, node.runtime, node.rlimit) = (None, None, None, None);
        node.used.keep_cpu_and_memory();
        node.system_containers.iter_mut().for_each(ContainerStats::keep_cpu_and_memory);
        for pod in &mut self.pods {
            (pod.network, pod.ephemeral_storage) = (None, None);
            pod.volumes.clear();
            pod.used.keep_cpu_and_memory();
            pod.containers.iter_mut().for_each(ContainerStats::keep_cpu_and_memory);
        }
    }

    /// Takes over another summary's disk figures, for pods that both have.
    pub fn take_disks_of(&mut self, other: &Summary) {
        self.node.runtime.clone_from(&other.node.runtime);
        for pod in &mut self.pods {
            let counted = other.pods.iter().find(|counted| counted.pod_ref.uid == pod.pod_ref.uid);
            // Before it is counted, the figure is absent, not zero.
            pod.ephemeral_storage = counted.and_then(|counted| counted.ephemeral_storage.clone());
            pod.volumes = counted.map(|counted| counted.volumes.clone()).unwrap_or_default();
            for container in &mut pod.containers {
                let is_it = |counted: &&ContainerStats| {
                    counted.name == container.name && counted.start_time == container.start_time
                };
                let counted = counted.and_then(|pod| pod.containers.iter().find(is_it));
                container.rootfs = counted.and_then(|counted| counted.rootfs.clone());
                container.logs = counted.and_then(|counted| counted.logs.clone());
            }
        }
    }
}

impl ContainerStats {
    fn keep_cpu_and_memory(&mut self) {
        (self.rootfs, self.logs) = (None, None);
        self.used.keep_cpu_and_memory();
    }
}

impl Used {
    fn keep_cpu_and_memory(&mut self) {
        (self.io, self.swap, self.processes) = (None, None, None);
    }
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStats {
    /// The node's name.
    pub node_name: String,
    /// `pods`, `burstable`, `besteffort`: the cgroups of all pods and of classes; `kubelet`: podkeeper; `runtime`: Docker.
    pub system_containers: Vec<ContainerStats>,
    /// When the machine was booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Its usage.
    #[serde(flatten)]
    pub used: Used,
    /// Its interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The file system of the root directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<Disk>,
    /// The file systems of Docker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<Tasks>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStats {
    /// The pod's name.
    pub pod_ref: PodRef,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Running containers.
    pub containers: Vec<ContainerStats>,
    /// Usage of its cgroup; without one, the sums over its containers of figures that can be added.
    #[serde(flatten)]
    pub used: Used,
    /// Traffic in its own network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Volumes with a directory of their own.
    #[serde(rename = "volume")]
    pub volumes: Vec<VolumeStats>,
    /// Writable layers, logs, and volumes on the node's disk.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Disk>,
}

/// The identity of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodRef {
    /// Name, with the node's suffix.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
}

/// A container, or another part of the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStats {
    /// Name.
    pub name: String,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Its usage.
    #[serde(flatten)]
    pub used: Used,
    /// Its writable layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<Disk>,
    /// Its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<Disk>,
}

/// The kernel's figures of a cgroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Used {
    /// Processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Processes and threads.
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
}

/// Use of processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Time of the reading.
    pub time: Timestamp,
    /// Billionths of a core, since the last reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// Nanoseconds in total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_core_nano_seconds: Option<u64>,
    /// How long tasks waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
}

/// Use of memory, bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Time of the reading.
    pub time: Timestamp,
    /// Bytes left below the limit; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Including all page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Without page cache that was unused for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Anonymous memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Number of page faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// Page faults that read from a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_page_faults: Option<u64>,
    /// How long tasks waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Psi>,
}

/// Waiting for disks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Io {
    /// Time of the reading.
    pub time: Timestamp,
    /// How long tasks waited.
    pub psi: Psi,
}

/// Stall times; zero for a kind that the kernel does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Psi {
    /// All tasks waited.
    pub full: PsiData,
    /// At least one task waited.
    pub some: PsiData,
}

/// Stall times of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PsiData {
    /// Nanoseconds.
    pub total: u64,
    /// Percent of the last 10 seconds.
    pub avg10: f64,
    /// Percent of the last minute.
    pub avg60: f64,
    /// Percent of the last five minutes.
    pub avg300: f64,
}

impl From<Pressure> for Psi {
    fn from(pressure: Pressure) -> Psi {
        let of = |stall: Option<Stall>| {
            let Stall { total, average: [avg10, avg60, avg300] } = stall.unwrap_or_default();
            PsiData { total: total.saturating_mul(1000), avg10, avg60, avg300 }
        };
        Psi { full: of(pressure.full), some: of(pressure.some) }
    }
}

/// Use of swap, bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swap {
    /// Time of the reading.
    pub time: Timestamp,
    /// Bytes left below the limit; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    /// Used bytes.
    pub swap_usage_bytes: u64,
}

/// Number of processes and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Processes {
    /// Processes and threads, as `--pod-max-pids` limits them.
    pub process_count: u64,
}

/// Processes and threads of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tasks {
    /// Time of the reading.
    pub time: Timestamp,
    /// Highest possible number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maxpid: Option<u64>,
    /// Current number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curproc: Option<u64>,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    /// Time of the reading.
    pub time: Timestamp,
    /// Figures of `eth0`, if there is one.
    #[serde(flatten)]
    pub default: Option<InterfaceStats>,
    /// All interfaces, without the loopback and the node's ends of containers' interfaces.
    pub interfaces: Vec<InterfaceStats>,
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "received and sent, since it was made")]
pub struct InterfaceStats {
    pub name: String,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

impl From<Interface> for InterfaceStats {
    fn from(it: Interface) -> InterfaceStats {
        let Interface { name, received, sent } = it;
        InterfaceStats {
            name,
            rx_bytes: received.bytes,
            rx_packets: received.packets,
            rx_errors: received.errors,
            rx_dropped: received.dropped,
            tx_bytes: sent.bytes,
            tx_packets: sent.packets,
            tx_errors: sent.errors,
            tx_dropped: sent.dropped,
        }
    }
}

/// Docker's disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// The file system of its root directory, with all its usage.
    pub image_fs: Disk,
    /// The same file system, with the usage of writable layers.
    pub container_fs: Disk,
}

/// A file system, and its usage by one user of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Time of the reading.
    pub time: Timestamp,
    /// Bytes that unprivileged programs can still write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Total bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Used bytes.
    pub used_bytes: u64,
    /// Inodes that can still be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// Total inodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Used inodes.
    pub inodes_used: u64,
}

impl Disk {
    /// One usage of this file system.
    fn new(time: Timestamp, on: Option<FileSystem>, used: DiskUse) -> Disk {
        // 0 means that there is no such bound.
        let inodes = on.filter(|on| on.inodes > 0);
        Disk {
            time,
            available_bytes: on.map(|on| on.available),
            capacity_bytes: on.map(|on| on.capacity),
            used_bytes: used.bytes,
            inodes_free: inodes.map(|on| on.inodes_free),
            inodes: inodes.map(|on| on.inodes),
            inodes_used: used.inodes,
        }
    }

    /// All usage of the file system.
    fn whole(time: Timestamp, on: FileSystem) -> Disk {
        let used = DiskUse { bytes: on.used, inodes: on.inodes.saturating_sub(on.inodes_free) };
        Disk::new(time, Some(on), used)
    }
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStats {
    /// Usage of the volume, and its file system.
    #[serde(flatten)]
    pub disk: Disk,
    /// Name in the pod.
    pub name: String,
    /// The claim that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_ref: Option<ClaimRef>,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimRef {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}
