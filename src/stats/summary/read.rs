//! Reads all requested figures: from `/proc`, the cgroups and the disks.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::asked::{Asked, ContainerPlace, PodPlace, VolumePlace};
use super::{
    ContainerStats, Cpu, Disk, InterfaceStats, Io, Memory, Network, NodeStats, PodStats, Processes, Runtime,
    Summary, Swap, Tasks, Used, VolumeStats,
};
use crate::base::clock::Timestamp;
use crate::base::table::Table;
use crate::cgroup::Naming;
use crate::cgroup::{engine, resource};
use crate::pod::qos::Qos;
use crate::stats::cgroup::Hierarchies;
use crate::stats::container_disk::{self, ContainerDisk};
use crate::stats::disk::FileSystem;
use crate::stats::disk_use::{DiskUse, Round};
use crate::stats::pressure::Pressures;
use crate::stats::{field, network, node, places, process, rate, text};

/// The interface whose figures are the default ones (`pkg/kubelet/stats/helper.go`).
const DEFAULT_INTERFACE: &str = "eth0";
/// Programs that belong to Docker beside its two main ones, by the beginning of their names.
const DOCKERS_OWN: [&str; 3] = ["containerd-shim", "docker-proxy", "docker-init"];

/// CPU time by subject, and the time of the reading: the base of a rate.
pub type Counters = Table<String, (u64, Instant)>;

/// Where figures are read from.
#[derive(Debug, Clone)]
enum Place {
    Machine,
    Cgroup(PathBuf),
    /// Programs that share their cgroup with others.
    Processes(Vec<u32>),
}

/// Reads the figures of one request; a new one is made for each, because cgroups come and go.
#[derive(Debug)]
pub struct Reader<'a> {
    proc: PathBuf,
    cgroups: Hierarchies,
    asked: &'a Asked,
    /// Cgroups of containers, by Docker's id.
    found: Table<String, PathBuf>,
}

impl<'a> Reader<'a> {
    /// `proc` is `/proc`.
    #[must_use]
    pub fn new(proc: PathBuf, cgroups: Hierarchies, asked: &'a Asked) -> Reader<'a> {
        let found = places::containers(&cgroups);
        Reader { proc, cgroups, asked, found }
    }

    /// The first reading of CPU times.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let of_pod = |pod: &PodPlace| -> Vec<(String, Place)> {
            let own = self.pod_cgroup(pod).map(|path| (pod_key(pod), Place::Cgroup(path)));
            let containers = pod
                .containers
                .iter()
                .filter_map(|c| Some((c.id.clone(), Place::Cgroup(self.found.get(&c.id)?.clone()))));
            own.into_iter().chain(containers).collect()
        };
        let all = self.asked.pods.iter().flat_map(of_pod);
        let system = self.system().into_iter().map(|(name, place)| (name.to_owned(), place));
        let machine = [("node".to_owned(), Place::Machine)];
        let all = machine.into_iter().chain(system).chain(all);
        all.filter_map(|(key, place)| Some((key, (self.cpu(&place)?, Instant::now())))).collect()
    }

    /// All figures, with rates since the reading `before`. `now` is wall time.
    #[must_use]
    pub fn summary(&self, before: &Counters, now: Timestamp) -> Summary {
        let now = seconds(now);
        let took = Taking {
            reader: self,
            before,
            now,
            docker: self.asked.docker_root.as_deref().and_then(FileSystem::of),
        };
        let pods: Vec<(PodStats, u64)> = self.asked.pods.iter().map(|pod| took.pod(pod)).collect();
        let layers = pods.iter().fold(0, |sum: u64, (_, layers)| sum.saturating_add(*layers));
        let pods = pods.into_iter().map(|(pod, _)| pod).collect();
        Summary { node: took.node(layers), pods }
    }

    fn cpu(&self, place: &Place) -> Option<u64> {
        match place {
            Place::Machine => node::read(&self.proc).cpu,
            Place::Cgroup(path) => self.cgroups.read(path).cpu,
            Place::Processes(pids) => process::read_all(&self.proc, pids).map(|it| it.cpu),
        }
    }

    fn pod_cgroup(&self, pod: &PodPlace) -> Option<PathBuf> {
        let container = pod.containers.iter().find_map(|c| self.found.get(&c.id))?;
        Naming::pod_of(container, &pod.reference.uid).map(Path::to_owned)
    }

    /// Programs outside of pods, and the cgroups above all pods, with the kubelet's names.
    fn system(&self) -> Vec<(&'static str, Place)> {
        let naming = self.asked.pods.iter().find_map(|pod| Naming::of_below(&self.pod_cgroup(pod)?));
        let cgroups = naming.into_iter().flat_map(|naming| {
            [
                ("pods", naming.top()),
                ("burstable", naming.class(Qos::Burstable)),
                ("besteffort", naming.class(Qos::BestEffort)),
            ]
        });
        let cgroups = cgroups.filter(|(_, path)| self.cgroups.tree().join(path).exists());
        let cgroups = cgroups.map(|(name, path)| (name, Place::Cgroup(path)));
        let daemon: Vec<u32> = self.asked.daemon.into_iter().collect();
        let docker = engine::processes(&self.proc, self.asked.socket.as_deref())
            .into_iter()
            .map(|(pid, _)| pid)
            .collect();
        let programs = [("kubelet", daemon), ("runtime", docker)].into_iter();
        let programs = programs.filter(|(_, pids)| !pids.is_empty());
        cgroups.chain(programs.map(|(name, pids)| (name, self.place_of(pids)))).collect()
    }

    /// The cgroup of these processes, if they have a common one that contains no other process.
    fn place_of(&self, pids: Vec<u32>) -> Place {
        let of = |pid: &u32| resource::cgroup_of(&self.proc, *pid, self.cgroups.version());
        let mut theirs = pids.iter().map(of);
        let Some(Some(cgroup)) = theirs.next() else { return Place::Processes(pids) };
        let path = PathBuf::from(cgroup.trim_start_matches('/'));
        let is_dockers = |pid: &u32| {
            let name = text(&self.proc.join(pid.to_string()).join("comm")).unwrap_or_default();
            DOCKERS_OWN.iter().any(|program| name.starts_with(program))
        };
        let others =
            || self.cgroups.processes(&path).into_iter().any(|pid| !pids.contains(&pid) && !is_dockers(&pid));
        let is_one = theirs.all(|other| other.as_deref() == Some(cgroup.as_str()));
        if path.as_os_str().is_empty() || !is_one || others() {
            return Place::Processes(pids);
        }
        Place::Cgroup(path)
    }
}

fn pod_key(pod: &PodPlace) -> String {
    format!("pod {}", pod.reference.uid)
}

/// A time without fractions of seconds, as in the API.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// A summary in progress.
struct Taking<'a> {
    reader: &'a Reader<'a>,
    before: &'a Counters,
    now: Timestamp,
    /// Docker's file system.
    docker: Option<FileSystem>,
}

impl Taking<'_> {
    fn node(&self, layers: u64) -> NodeStats {
        let Reader { proc, asked, .. } = self.reader;
        let machine = node::read(proc);
        let boot = node::boot_seconds(proc).and_then(|seconds| i64::try_from(seconds).ok());
        let start_time = boot.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let system = self.reader.system().into_iter().map(|(name, place)| ContainerStats {
            name: name.to_owned(),
            start_time: self.started(&place, start_time),
            used: self.used(name, &place),
            rootfs: None,
            logs: None,
        });
        let runtime = self.docker.map(|disk| Runtime {
            image_fs: Disk::whole(self.now, disk),
            container_fs: Disk::new(self.now, Some(disk), DiskUse { bytes: layers, inodes: 0 }),
        });
        NodeStats {
            node_name: asked.node.clone(),
            system_containers: system.collect(),
            start_time,
            used: self.used("node", &Place::Machine),
            network: self.network(1),
            fs: FileSystem::of(&asked.root_dir).map(|disk| Disk::whole(self.now, disk)),
            runtime,
            rlimit: Some(Tasks { time: self.now, maxpid: machine.most_tasks, curproc: machine.tasks }),
        }
    }

    fn started(&self, place: &Place, boot: Option<Timestamp>) -> Option<Timestamp> {
        let Place::Processes(pids) = place else { return None };
        let began = process::read_all(&self.reader.proc, pids)?.started;
        boot?.checked_add(Duration::from_secs(began.as_secs())).ok()
    }

    /// Figures of a pod, and the bytes of its writable layers.
    fn pod(&self, pod: &PodPlace) -> (PodStats, u64) {
        let mut round = Round::default();
        let (mut local, mut layers) = (DiskUse::default(), 0_u64);
        let containers: Vec<ContainerStats> = pod
            .containers
            .iter()
            .map(|container| {
                let disk = self.container_disk(container, &mut round);
                local = local.and(disk.writable).and(disk.logs).and(disk.shared);
                layers = layers.saturating_add(disk.writable.bytes);
                self.container(container, disk)
            })
            .collect();
        let volumes: Vec<VolumeStats> = pod
            .volumes
            .iter()
            .map(|volume| {
                let used = round.tree(&volume.path);
                if volume.is_ephemeral {
                    local = local.and(used);
                }
                self.volume(volume, used)
            })
            .collect();
        let used = match self.reader.pod_cgroup(pod) {
            Some(path) => self.used(&pod_key(pod), &Place::Cgroup(path)),
            None => sum(containers.iter().map(|container| &container.used), self.now),
        };
        let on = FileSystem::of(&self.reader.asked.root_dir);
        let stats = PodStats {
            pod_ref: pod.reference.clone(),
            start_time: pod.started.map(seconds),
            containers,
            used,
            network: self.pod_network(pod),
            volumes,
            ephemeral_storage: Some(Disk::new(self.now, on, local)),
        };
        (stats, layers)
    }

    fn container_disk(&self, container: &ContainerPlace, round: &mut Round) -> ContainerDisk {
        let root = self.reader.asked.docker_root.as_deref();
        let files = container.files.as_ref();
        files.map(|files| container_disk::read(&container.id, files, root, round)).unwrap_or_default()
    }

    fn container(&self, container: &ContainerPlace, disk: ContainerDisk) -> ContainerStats {
        let place = self.reader.found.get(&container.id).cloned().map(Place::Cgroup);
        let on_disk =
            |used: DiskUse| container.files.as_ref().map(|_| Disk::new(self.now, self.docker, used));
        ContainerStats {
            name: container.name.clone(),
            start_time: container.started.map(seconds),
            used: place.map(|place| self.used(&container.id, &place)).unwrap_or_default(),
            rootfs: on_disk(disk.writable),
            logs: on_disk(disk.logs),
        }
    }

    fn volume(&self, volume: &VolumePlace, used: DiskUse) -> VolumeStats {
        VolumeStats {
            disk: Disk::new(self.now, FileSystem::of(&volume.path), used),
            name: volume.name.clone(),
            pvc_ref: volume.claim.clone(),
        }
    }

    fn pod_network(&self, pod: &PodPlace) -> Option<Network> {
        if pod.host_network {
            return None;
        }
        let containers = pod.containers.iter().map(|container| container.id.as_str());
        // Every container of the pod has the same namespace, unless it may create its own.
        let mut ids = pod.sandbox.as_deref().into_iter().chain(containers);
        let cgroup = ids.find_map(|id| self.reader.found.get(id))?;
        self.network(*self.reader.cgroups.processes(cgroup).first()?)
    }

    fn network(&self, pid: u32) -> Option<Network> {
        let found = network::of_process(&self.reader.proc, pid)?;
        let interfaces: Vec<InterfaceStats> = found.into_iter().map(InterfaceStats::from).collect();
        let default = interfaces.iter().find(|it| it.name == DEFAULT_INTERFACE).cloned();
        Some(Network { time: self.now, default, interfaces })
    }

    fn used(&self, key: &str, place: &Place) -> Used {
        let cpu = |total: Option<u64>, told: Pressures| self.cpu(key, total, told);
        match place {
            Place::Machine => self.machine(),
            Place::Cgroup(path) => {
                let (figures, details) = (self.reader.cgroups.read(path), self.reader.cgroups.details(path));
                let told = self.reader.cgroups.pressures(path);
                let left = figures.limit.zip(figures.working_set);
                let memory = figures.usage.map(|usage| Memory {
                    time: self.now,
                    available_bytes: left.map(|(limit, used)| limit.saturating_sub(used)),
                    usage_bytes: Some(usage),
                    working_set_bytes: figures.working_set,
                    rss_bytes: details.rss,
                    page_faults: details.page_faults,
                    major_page_faults: details.major_page_faults,
                    psi: told.memory.map(Into::into),
                });
                let swap = details.swap.map(|used| self.swap(used, details.swap_limit));
                let processes = figures.tasks.map(|process_count| Processes { process_count });
                Used { cpu: cpu(figures.cpu, told), memory, io: self.io(told), swap, processes }
            }
            Place::Processes(pids) => {
                let Some(figures) = process::read_all(&self.reader.proc, pids) else {
                    return Used::default();
                };
                Used {
                    cpu: cpu(Some(figures.cpu), Pressures::default()),
                    memory: Some(self.memory(figures.rss, figures.rss)),
                    io: None,
                    swap: Some(self.swap(figures.swap, None)),
                    processes: Some(Processes { process_count: figures.tasks }),
                }
            }
        }
    }

    /// Figures in place of the root cgroup's, because version 2 has fewer for it than `/proc`.
    fn machine(&self) -> Used {
        let proc = &self.reader.proc;
        let machine = node::read(proc);
        let told = Pressures::of_machine(proc);
        let meminfo = text(&proc.join("meminfo")).unwrap_or_default();
        let bytes = |name: &str| field(&meminfo, name).and_then(|kib| kib.checked_mul(1024));
        let details = self.reader.cgroups.details(Path::new(""));
        let memory = machine.memory.zip(bytes("MemFree")).zip(machine.working_set);
        let memory = memory.map(|((all, free), working_set)| Memory {
            available_bytes: Some(all.saturating_sub(working_set)),
            rss_bytes: bytes("AnonPages"),
            page_faults: details.page_faults,
            major_page_faults: details.major_page_faults,
            psi: told.memory.map(Into::into),
            ..self.memory(all.saturating_sub(free), working_set)
        });
        let swap = bytes("SwapTotal").zip(bytes("SwapFree"));
        let swap = swap.map(|(all, free)| self.swap(all.saturating_sub(free), Some(all)));
        Used { cpu: self.cpu("node", machine.cpu, told), memory, io: self.io(told), swap, processes: None }
    }

    fn cpu(&self, key: &str, total: Option<u64>, told: Pressures) -> Option<Cpu> {
        let (total, at) = (total?, Instant::now());
        let before = self.before.get(key);
        let rate = before
            .and_then(|(before, then)| rate::nano_cores(*before, total, at.saturating_duration_since(*then)));
        Some(Cpu {
            time: self.now,
            usage_nano_cores: rate,
            usage_core_nano_seconds: Some(total),
            psi: told.cpu.map(Into::into),
        })
    }

    fn memory(&self, usage: u64, working_set: u64) -> Memory {
        Memory {
            time: self.now,
            available_bytes: None,
            usage_bytes: Some(usage),
            working_set_bytes: Some(working_set),
            rss_bytes: Some(working_set),
            page_faults: None,
            major_page_faults: None,
            psi: None,
        }
    }

    fn swap(&self, used: u64, limit: Option<u64>) -> Swap {
        let left = limit.map(|limit| limit.saturating_sub(used));
        Swap { time: self.now, swap_available_bytes: left, swap_usage_bytes: used }
    }

    fn io(&self, told: Pressures) -> Option<Io> {
        told.io.map(|psi| Io { time: self.now, psi: psi.into() })
    }
}

/// Usage of a pod without a cgroup of its own: the sum over its containers.
fn sum<'a>(all: impl Iterator<Item = &'a Used>, now: Timestamp) -> Used {
    fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
        a.zip(b).map(|(a, b)| a.saturating_add(b)).or(a).or(b)
    }
    let (mut cores, mut time, mut usage, mut working_set, mut rss, mut tasks) =
        (None, None, None, None, None, None);
    for used in all {
        let (cpu, memory) = (used.cpu.as_ref(), used.memory.as_ref());
        cores = add(cores, cpu.and_then(|it| it.usage_nano_cores));
        time = add(time, cpu.and_then(|it| it.usage_core_nano_seconds));
        usage = add(usage, memory.and_then(|it| it.usage_bytes));
        working_set = add(working_set, memory.and_then(|it| it.working_set_bytes));
        rss = add(rss, memory.and_then(|it| it.rss_bytes));
        tasks = add(tasks, used.processes.map(|it| it.process_count));
    }
    let cpu = time.map(|time| Cpu {
        time: now,
        usage_nano_cores: cores,
        usage_core_nano_seconds: Some(time),
        psi: None,
    });
    let memory = usage.map(|usage| Memory {
        time: now,
        available_bytes: None,
        usage_bytes: Some(usage),
        working_set_bytes: working_set,
        rss_bytes: rss,
        page_faults: None,
        major_page_faults: None,
        psi: None,
    });
    Used { cpu, memory, processes: tasks.map(|process_count| Processes { process_count }), ..Used::default() }
}

#[cfg(test)]
mod tests;
