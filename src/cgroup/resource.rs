//! Resource containers: cgroups for processes outside of pods. podkeeper, Docker and the rest of the system are moved
//! into those that flags name, and reserved ones are limited to the reserved amounts (upstream
//! `pkg/kubelet/cm/container_manager_linux.go`).
//!
//! A process in a unit of systemd is never moved: systemd would put it back, or kill what it no longer finds. Instead,
//! a log line names systemd's own setting for the same effect.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::cpu;
use super::engine;
use super::slices::Slices;
use super::tree::Tree;
use super::values::{Version, memory_file, memory_property, weight_file, weight_property};
use crate::base::limits;
use crate::base::table::Set;
use crate::node::Node;
use crate::node::host::{Enforce, Host};
use crate::pod::allocatable::Allocatable;

/// `oom_score_adj` of Docker's programs (`pkg/kubelet/qos/policy.go`).
const OOM_DOCKER: &str = "-999";

/// The result for a reserved cgroup, for an event of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Its limits are set: "kube" or "system", and its name.
    Enforced(&'static str, String),
    /// They could not be set: "Kube" or "System", its name and why.
    Failed(&'static str, String, String),
}

/// The resource containers of this node. Clones share the record of logged messages.
#[derive(Debug, Clone)]
pub struct Resources {
    host: Arc<Host>,
    kube: Allocatable,
    system: Allocatable,
    tree: Tree,
    proc: PathBuf,
    /// Set if systemd runs here.
    slices: Option<Slices>,
    told: Arc<Mutex<Set<String>>>,
}

impl Resources {
    /// Resource containers of this node, with cgroups mounted at `mount`; `None` when no flag uses them.
    #[must_use]
    pub fn of(node: &Node, mount: PathBuf) -> Option<Resources> {
        let host = &node.host;
        let named = [&host.kubelet_cgroups, &host.runtime_cgroups, &host.system_cgroups];
        let reserved = [
            Enforce::KubeReserved,
            Enforce::KubeReservedCompressible,
            Enforce::SystemReserved,
            Enforce::SystemReservedCompressible,
        ];
        if named.iter().all(|name| name.is_empty()) && !reserved.iter().any(|each| host.enforces(*each)) {
            return None;
        }
        Some(Resources {
            host: Arc::new(host.clone()),
            kube: node.kube_reserved,
            system: node.system_reserved,
            tree: Tree::open(mount, String::new()),
            proc: "/proc".into(),
            slices: Slices::open().ok(),
            told: Arc::default(),
        })
    }

    /// Moves all processes into their cgroups, and sets limits. A failure is logged once. `socket` is Docker's.
    #[must_use]
    pub fn settle(&self, socket: Option<&Path>) -> Vec<Settled> {
        if !self.host.system_cgroups.is_empty() {
            self.gather();
        }
        if !self.host.kubelet_cgroups.is_empty() {
            self.place("--kubelet-cgroups", &self.host.kubelet_cgroups, "podkeeper", std::process::id());
        }
        if !self.host.runtime_cgroups.is_empty() {
            for (pid, name) in engine::processes(&self.proc, socket) {
                self.place("--runtime-cgroups", &self.host.runtime_cgroups, name, pid);
                self.protect(pid, name);
            }
        }
        let kube = (Enforce::KubeReserved, Enforce::KubeReservedCompressible);
        let system = (Enforce::SystemReserved, Enforce::SystemReservedCompressible);
        let mut told = Vec::new();
        for ((low, high), (whole, part), cgroup, amount) in [
            (("kube", "Kube"), kube, &self.host.kube_reserved_cgroup, self.kube),
            (("system", "System"), system, &self.host.system_reserved_cgroup, self.system),
        ] {
            let (whole, part) = (self.host.enforces(whole), self.host.enforces(part));
            if whole || part {
                let memory = Some(amount.memory).filter(|memory| whole && *memory > 0);
                told.push(match self.limit(cgroup, amount.milli_cpu, memory) {
                    Ok(()) => Settled::Enforced(low, cgroup.clone()),
                    Err(error) => Settled::Failed(high, cgroup.clone(), error.to_string()),
                });
            }
        }
        told.retain(|told| self.is_new(&format!("{told:?}")));
        told
    }

    fn is_new(&self, words: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(words.to_owned())
    }

    fn say(&self, line: &str) {
        if self.is_new(line) {
            log::warn!("{line}");
        }
    }

    /// Moves one process, unless it is in place or systemd manages it.
    fn place(&self, flag: &str, cgroup: &str, name: &str, pid: u32) {
        let Some(now) = cgroup_of(&self.proc, pid, self.tree.version) else { return };
        if Path::new(&now) == Path::new(cgroup) {
            return;
        }
        if let Some(unit) = self.slices.as_ref().and_then(|_| unit_of(&now)) {
            self.say(&format!(
                "{flag} {cgroup}: {name} (process {pid}) stays in {now}: it is of systemd's {unit}, which says with \
                 Slice= where it belongs"
            ));
            return;
        }
        match self.tree.enter(Path::new(cgroup.trim_start_matches('/')), pid) {
            Ok(()) => log::info!("{name} (process {pid}) is in cgroup {cgroup} now; it was in {now}"),
            Err(error) => {
                self.say(&format!("{flag} {cgroup}: {name} (process {pid}) stays in {now}: {error}"))
            }
        }
    }

    /// Makes the kernel's OOM killer kill it last.
    fn protect(&self, pid: u32, name: &str) {
        let file = self.proc.join(pid.to_string()).join("oom_score_adj");
        if fs::read_to_string(&file).is_ok_and(|score| score.trim() != OOM_DOCKER)
            && let Err(error) = fs::write(&file, OOM_DOCKER)
        {
            self.say(&format!("oom_score_adj of {name} stays as it is: {error}"));
        }
    }

    /// Moves the processes in the topmost cgroup, except the first process and the kernel's own.
    fn gather(&self) {
        let cgroup = &self.host.system_cgroups;
        let to = Path::new(cgroup.trim_start_matches('/'));
        let is_kernels = |pid: &u32| fs::read_link(self.proc.join(pid.to_string()).join("exe")).is_err();
        for _ in 0..limits::CGROUP_ROUNDS {
            let mut pids = self.tree.processes(Path::new(""));
            pids.retain(|pid| *pid != 1 && !is_kernels(pid));
            if pids.is_empty() {
                return;
            }
            // A process that has ended meanwhile is not an error.
            let gone = rustix::io::Errno::SRCH.raw_os_error();
            let failed = pids.iter().filter_map(|pid| self.tree.enter(to, *pid).err());
            let failed: Vec<io::Error> = failed.filter(|error| error.raw_os_error() != Some(gone)).collect();
            if let Some(error) = failed.first() {
                return self.say(&format!("--system-cgroups {cgroup}: not every process was moved: {error}"));
            }
        }
    }

    /// Sets the weight, and the memory limit if there is one, of an existing cgroup.
    fn limit(&self, cgroup: &str, milli_cpu: i64, memory: Option<i64>) -> io::Result<()> {
        let (version, shares) = (self.tree.version, cpu::shares(milli_cpu));
        let path = Path::new(cgroup.trim_start_matches('/'));
        let unit = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".slice"));
        if let (Some(slices), Some(unit)) = (&self.slices, unit) {
            let mut properties = vec![weight_property(version, shares)];
            properties.extend(memory.map(|memory| memory_property(version, Some(memory))));
            return slices.set(unit, &properties);
        }
        if !self.tree.exists(path) {
            return Err(io::Error::new(ErrorKind::NotFound, format!("{cgroup:?} cgroup does not exist")));
        }
        let mut files = vec![weight_file(version, shares)];
        files.extend(memory.map(|memory| memory_file(version, Some(memory))));
        self.tree.write(path, &files)
    }
}

/// The cgroup of a process, from the root: that of the memory controller, or the only one. `proc` is `/proc`.
#[must_use]
pub fn cgroup_of(proc: &Path, pid: u32, version: Version) -> Option<String> {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()?;
    let mut lines = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let is_it = |(controllers, _): &(&str, &str)| match version {
        Version::V2 => controllers.is_empty(),
        Version::V1 => controllers.split(',').any(|each| each == "memory"),
    };
    lines.find(is_it).map(|(_, path)| path.to_owned())
}

/// The systemd unit of a cgroup.
fn unit_of(cgroup: &str) -> Option<&str> {
    cgroup.split('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        dir: PathBuf,
        resources: Resources,
    }

    impl Machine {
        /// With cgroups of this version, in files.
        fn new(name: &str, version: Version, host: Host) -> Machine {
            let dir = crate::base::testing::scratch(name);
            let (mount, proc) = (dir.join("cgroup"), dir.join("proc"));
            if version == Version::V2 {
                fs::create_dir_all(&mount).unwrap();
                fs::write(mount.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
            } else {
                ["cpu", "memory", "pids"].iter().for_each(|c| fs::create_dir_all(mount.join(c)).unwrap());
            }
            fs::create_dir_all(&proc).unwrap();
            let reserved = Allocatable { milli_cpu: 500, memory: 1 << 30, ephemeral_storage: 0 };
            let node = Node { host, kube_reserved: reserved, system_reserved: reserved, ..Node::default() };
            let mut resources = Resources::of(&node, mount).unwrap();
            (resources.proc, resources.slices) = (proc, None);
            Machine { dir, resources }
        }

        fn process(&self, pid: u32, name: &str, cgroup: &str) {
            let of = self.resources.proc.join(pid.to_string());
            fs::create_dir_all(&of).unwrap();
            fs::write(of.join("comm"), format!("{name}\n")).unwrap();
            fs::write(of.join("oom_score_adj"), "0\n").unwrap();
            fs::write(of.join("cgroup"), format!("0::{cgroup}\n4:memory:{cgroup}\n")).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.dir.join(path)).unwrap_or_default().trim().to_owned()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.dir);
        }
    }

    fn runtime() -> Host {
        Host { runtime_cgroups: "/docker-own".to_owned(), ..Host::default() }
    }

    #[test]
    fn docker_is_moved_and_its_oom_score_set() {
        for (version, file) in [(Version::V2, "cgroup/docker-own"), (Version::V1, "cgroup/memory/docker-own")]
        {
            let machine = Machine::new(&format!("resource-{version:?}"), version, runtime());
            machine.process(7, "dockerd", "/");
            machine.process(8, "bash", "/");
            assert!(machine.resources.settle(None).is_empty());
            assert_eq!(machine.read(&format!("{file}/cgroup.procs")), "7");
            let scores = [7, 8].map(|pid| machine.read(&format!("proc/{pid}/oom_score_adj")));
            assert_eq!(scores, ["-999", "0"]);
        }
    }

    /// Otherwise it could escape the limits of its pod, and would be killed last when memory is short.
    #[test]
    fn a_container_that_calls_itself_docker_is_left_where_it_is() {
        let machine = Machine::new("resource-false-docker", Version::V2, runtime());
        let container = format!("/kubepods/besteffort/pod1/{}", "a".repeat(64));
        machine.process(7, "dockerd", &container);
        machine.process(8, "dockerd", "/");
        let namespace = machine.dir.join("proc/8/ns");
        fs::create_dir_all(&namespace).unwrap();
        std::os::unix::fs::symlink("pid:[4026532000]", namespace.join("pid")).unwrap();
        assert!(machine.resources.settle(None).is_empty());
        let scores = [7, 8].map(|pid| machine.read(&format!("proc/{pid}/oom_score_adj")));
        assert_eq!(scores, ["0", "0"]);
        assert!(!machine.dir.join("cgroup/docker-own/cgroup.procs").exists());
    }

    #[test]
    fn what_systemd_keeps_is_not_moved() {
        let mut machine = Machine::new("resource-systemd", Version::V2, runtime());
        machine.resources.slices = Some(Slices::of(machine.dir.join("control"), "false".into()));
        machine.process(7, "dockerd", "/system.slice/docker.service");
        assert!(machine.resources.settle(None).is_empty());
        assert!(!machine.dir.join("cgroup/docker-own").exists());
        assert_eq!(machine.read("proc/7/oom_score_adj"), "-999");
        let told = machine.resources.told.lock().unwrap().clone();
        assert!(told.iter().any(|line| line.contains("it is of systemd's docker.service")), "{told:?}");
    }

    #[test]
    fn reserved_cgroups_get_what_is_reserved() {
        let host = |what: &str| Host {
            enforce: Some(crate::node::host::parse_enforce(what).unwrap()),
            kube_reserved_cgroup: "/kube".to_owned(),
            ..Host::default()
        };
        let machine = Machine::new("resource-kube", Version::V2, host("kube-reserved"));
        let missing = Settled::Failed("Kube", "/kube".into(), "\"/kube\" cgroup does not exist".into());
        assert_eq!(machine.resources.settle(None), [missing]);
        assert!(machine.resources.settle(None).is_empty(), "it is told once");
        fs::create_dir_all(machine.dir.join("cgroup/kube")).unwrap();
        assert_eq!(machine.resources.settle(None), [Settled::Enforced("kube", "/kube".into())]);
        assert_eq!(machine.read("cgroup/kube/memory.max"), (1 << 30).to_string());
        assert_ne!(machine.read("cgroup/kube/cpu.weight"), "");
        let machine = Machine::new("resource-cpu", Version::V2, host("kube-reserved-compressible"));
        fs::create_dir_all(machine.dir.join("cgroup/kube")).unwrap();
        assert_eq!(machine.resources.settle(None).len(), 1);
        assert_eq!(machine.read("cgroup/kube/memory.max"), "", "memory is not taken back");
    }

    #[test]
    fn without_flags_nothing_is_done() {
        assert!(Resources::of(&Node::default(), "/sys/fs/cgroup".into()).is_none());
    }
}
