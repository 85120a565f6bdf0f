//! The node's resources and limits for pods (upstream `pkg/kubelet/cm/node_container_manager_linux.go`).
//! Plain data, made by `cli/` from flags and the machine.

pub mod devices;
pub mod facts;
pub mod host;
pub mod kernel;
pub mod pressure;
pub mod runtimes;
pub mod sys;
pub mod sysctl;

use std::time::Duration;

use crate::base::limits;
use crate::base::quantity;
use crate::base::table::Table;
use crate::node::devices::Pools;
use crate::node::host::Host;
use crate::node::runtimes::Runtimes;
use crate::pod::allocatable::Allocatable;

/// Default of `--max-pods`.
pub const MAX_PODS: i64 = 110;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Resources of the machine.
    pub capacity: Allocatable,
    /// Resources that all pods together may request, reported as allocatable.
    pub allocatable: Allocatable,
    /// Bytes that all pods together may use: the amount that [`Node::evicts_below`] subtracts is included.
    pub memory_of_pods: i64,
    /// Bytes of huge pages by resource name (`hugepages-2Mi`).
    pub huge_pages: Table<String, i64>,
    /// `--max-pods`.
    pub max_pods: i64,
    /// `--pod-max-pids`; `None` for no limit.
    pub max_pids: Option<i64>,
    /// `--max-container-restart-period`.
    pub max_restart_period: Duration,
    /// A part of its memory is reserved, so all pods together have a limit.
    pub memory_reserved: bool,
    /// `--cgroups-per-qos`.
    pub cgroups_per_qos: bool,
    /// `--cgroup-root`.
    pub cgroup_root: String,
    /// `--allowed-unsafe-sysctls`, on this kernel.
    pub sysctls: sysctl::Allowed,
    /// The kernel can enforce AppArmor profiles.
    pub app_armor: bool,
    /// `--device`.
    pub devices: Pools,
    /// `--runtime-class`.
    pub runtimes: Runtimes,
    /// `--kube-reserved`.
    pub kube_reserved: Allocatable,
    /// `--system-reserved`.
    pub system_reserved: Allocatable,
    /// Settings for the machine itself.
    pub host: Host,
}

impl Default for Node {
    /// A node with unlimited resources that limits only the number of pods.
    fn default() -> Node {
        let all = Allocatable { milli_cpu: i64::MAX, memory: i64::MAX, ephemeral_storage: i64::MAX };
        Node {
            capacity: all,
            allocatable: all,
            memory_of_pods: i64::MAX,
            huge_pages: Table::new(),
            max_pods: MAX_PODS,
            max_pids: None,
            max_restart_period: limits::BACKOFF_MAX,
            memory_reserved: false,
            cgroups_per_qos: false,
            cgroup_root: String::new(),
            sysctls: sysctl::Allowed::default(),
            app_armor: false,
            devices: Pools::default(),
            runtimes: Runtimes::default(),
            kube_reserved: Allocatable::default(),
            system_reserved: Allocatable::default(),
            host: Host::default(),
        }
    }
}

/// The node's flags, as given.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is a flag; cli::flags::FLAGS documents it")]
pub struct Options {
    pub kube_reserved: Allocatable,
    pub system_reserved: Allocatable,
    pub max_pods: i64,
    pub pod_max_pids: i64,
    pub max_restart_period: Duration,
    pub cgroups_per_qos: bool,
    pub cgroup_root: String,
    pub allowed_unsafe_sysctls: Vec<String>,
    pub devices: Pools,
    pub runtimes: Runtimes,
    pub host: Host,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            kube_reserved: Allocatable::default(),
            system_reserved: Allocatable::default(),
            max_pods: MAX_PODS,
            pod_max_pids: -1,
            max_restart_period: limits::BACKOFF_MAX,
            cgroups_per_qos: true,
            cgroup_root: String::new(),
            allowed_unsafe_sysctls: Vec::new(),
            devices: Pools::default(),
            runtimes: Runtimes::default(),
            host: Host::default(),
        }
    }
}

/// Facts about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// Resources of the machine.
    pub capacity: Allocatable,
    /// See [`Node::huge_pages`].
    pub huge_pages: Table<String, i64>,
    /// See [`Node::app_armor`].
    pub app_armor: bool,
    /// Release of the kernel.
    pub kernel: String,
}

impl Node {
    /// The node of this machine, with these flags.
    ///
    /// # Errors
    /// More is reserved than the machine has, in the kubelet's words.
    pub fn new(options: &Options, machine: Machine) -> Result<Node, String> {
        let Machine { capacity, huge_pages, app_armor, kernel } = machine;
        let (kube, system) = (options.kube_reserved, options.system_reserved);
        let left = |name: &str, capacity: i64, kube: i64, system: i64| {
            let reserved = kube.saturating_add(system);
            if reserved > capacity {
                return Err(format!(
                    "invalid Node Allocatable configuration. Resource {name:?} has a reservation of {reserved} but \
                     capacity of {capacity}. Expected capacity >= reservation."
                ));
            }
            Ok(capacity - reserved)
        };
        let pages = huge_pages.values().copied().fold(0, i64::saturating_add);
        let memory = left("memory", capacity.memory, kube.memory, system.memory)?;
        let disk = (kube.ephemeral_storage, system.ephemeral_storage);
        let allocatable = Allocatable {
            milli_cpu: left("cpu", capacity.milli_cpu, kube.milli_cpu, system.milli_cpu)?,
            memory: memory.saturating_sub(pages).max(0),
            ephemeral_storage: left("ephemeral-storage", capacity.ephemeral_storage, disk.0, disk.1)?,
        };
        Ok(Node {
            capacity,
            allocatable,
            memory_of_pods: allocatable.memory,
            huge_pages,
            max_pods: options.max_pods,
            max_restart_period: options.max_restart_period,
            max_pids: Some(options.pod_max_pids).filter(|pids| *pids > 0),
            memory_reserved: memory < capacity.memory,
            cgroups_per_qos: options.cgroups_per_qos,
            cgroup_root: options.cgroup_root.clone(),
            sysctls: sysctl::Allowed::new(options.allowed_unsafe_sysctls.clone(), &kernel),
            app_armor,
            devices: options.devices.clone(),
            runtimes: options.runtimes.clone(),
            kube_reserved: kube,
            system_reserved: system,
            host: options.host.clone(),
        })
    }

    /// Subtracts the amounts at which pods are evicted: they cannot be requested.
    #[must_use]
    pub fn evicts_below(mut self, left: Allocatable) -> Node {
        self.allocatable = host::reported(self.allocatable, left);
        self
    }
}

/// The form of [`parse_reserved`], for an error.
const RESERVABLE: &str = "which takes cpu, memory and ephemeral-storage, as in cpu=500m,memory=256Mi";

/// Parses `cpu=500m,memory=256Mi,ephemeral-storage=1Gi`, the syntax of `--kube-reserved`.
///
/// # Errors
/// The first invalid part.
pub fn parse_reserved(text: &str) -> Result<Allocatable, String> {
    let mut reserved = Allocatable::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, amount) =
            part.split_once('=').ok_or_else(|| format!("{part:?} is not NAME=QUANTITY, {RESERVABLE}"))?;
        let value = quantity::written(amount);
        let value = if name == "cpu" { value.and_then(|_| quantity::milli(amount)) } else { value };
        let value =
            value.map_err(|e| format!("failed to parse quantity {amount:?} for {name:?} resource: {e}"))?;
        if value < 0 {
            return Err(format!("resource quantity for {name:?} cannot be negative: {amount}"));
        }
        match name {
            "cpu" => reserved.milli_cpu = value,
            "memory" => reserved.memory = value,
            "ephemeral-storage" => reserved.ephemeral_storage = value,
            // podkeeper does not count the processes of the whole node.
            other => return Err(format!("{other:?} is no resource of this flag, {RESERVABLE}")),
        }
    }
    Ok(reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations() {
        let check =
            |text: &str, expected: Result<(i64, i64, i64), &str>| match (parse_reserved(text), expected) {
                (Ok(r), Ok(expected)) => {
                    assert_eq!((r.milli_cpu, r.memory, r.ephemeral_storage), expected, "{text}")
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (got, _) => panic!("{text}: {got:?}"),
            };
        check("", Ok((0, 0, 0)));
        check("cpu=500m,memory=256Mi,ephemeral-storage=1Gi", Ok((500, 256 << 20, 1 << 30)));
        check(
            "cpu",
            Err("\"cpu\" is not NAME=QUANTITY, which takes cpu, memory and ephemeral-storage, as in cpu="),
        );
        check("cpu=x", Err("failed to parse quantity \"x\" for \"cpu\" resource"));
        check("memory=-1", Err("resource quantity for \"memory\" cannot be negative: -1"));
        let why = "\"pods\" is no resource of this flag, which takes cpu, memory and ephemeral-storage, as in cpu=500m";
        check("pods=3", Err(why));
    }

    #[test]
    fn what_is_left() {
        let machine = || Machine {
            capacity: Allocatable { milli_cpu: 2000, memory: 1000, ephemeral_storage: 500 },
            huge_pages: [("hugepages-2Mi".to_owned(), 100)].into(),
            app_armor: false,
            kernel: "6.1".to_owned(),
        };
        let node = Node::new(&Options::default(), machine()).unwrap();
        assert_eq!(node.allocatable, Allocatable { memory: 900, ..machine().capacity });
        assert_eq!((node.memory_reserved, node.max_pids, node.max_pods), (false, None, 110));
        let options = Options {
            kube_reserved: parse_reserved("cpu=500m,memory=200").unwrap(),
            system_reserved: parse_reserved("cpu=1,ephemeral-storage=100").unwrap(),
            pod_max_pids: 64,
            ..Options::default()
        };
        let node = Node::new(&options, machine()).unwrap();
        assert_eq!(node.allocatable, Allocatable { milli_cpu: 500, memory: 700, ephemeral_storage: 400 });
        assert_eq!((node.memory_reserved, node.max_pids), (true, Some(64)));
        let node = node.evicts_below(Allocatable { milli_cpu: 0, memory: 150, ephemeral_storage: 50 });
        assert_eq!(node.allocatable, Allocatable { milli_cpu: 500, memory: 550, ephemeral_storage: 350 });
        assert_eq!(node.memory_of_pods, 700);
        let options = Options { kube_reserved: parse_reserved("cpu=3").unwrap(), ..Options::default() };
        let why = Node::new(&options, machine()).unwrap_err();
        assert!(why.contains("Resource \"cpu\" has a reservation of 3000 but capacity of 2000"), "{why}");
    }
}
