//! Eviction signals: the watched resources (`pkg/kubelet/eviction/api/types.go`), and the effects of
//! each (`pkg/kubelet/eviction/helpers.go`).

use std::fmt;

use crate::node::pressure::Pressure;

/// One resource that can run short. The order is used in messages and among equally urgent thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Bytes of the node's memory outside of every working set.
    Memory,
    /// The same for the cgroup of all pods, below its limit. No flag sets it; it is derived.
    AllocatableMemory,
    /// Bytes of the file system of the root directory.
    NodeFs,
    /// Inodes of the file system of the root directory.
    NodeFsInodes,
    /// Bytes of the file system of Docker's root directory.
    ImageFs,
    /// Inodes of the file system of Docker's root directory.
    ImageFsInodes,
    /// Numbers of processes.
    Pid,
}

/// The resource of a signal, as messages call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Bytes of memory.
    Memory,
    /// Bytes of disk.
    Storage,
    /// Inodes.
    Inodes,
    /// Processes and threads.
    Pids,
}

/// Signals of the kubelet that are the same as others here, because Docker keeps writable layers beside images.
const DERIVED: &[&str] = &["containerfs.available", "containerfs.inodesFree"];

impl Signal {
    /// All signals.
    pub const ALL: [Signal; 7] = [
        Signal::Memory,
        Signal::AllocatableMemory,
        Signal::NodeFs,
        Signal::NodeFsInodes,
        Signal::ImageFs,
        Signal::ImageFsInodes,
        Signal::Pid,
    ];

    /// The kubelet's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Signal::Memory => "memory.available",
            Signal::AllocatableMemory => "allocatableMemory.available",
            Signal::NodeFs => "nodefs.available",
            Signal::NodeFsInodes => "nodefs.inodesFree",
            Signal::ImageFs => "imagefs.available",
            Signal::ImageFsInodes => "imagefs.inodesFree",
            Signal::Pid => "pid.available",
        }
    }

    /// The signal of this name. `Ok(None)`: a derived signal of the kubelet that cannot be set.
    ///
    /// # Errors
    /// The kubelet's sentence.
    pub fn parse(name: &str) -> Result<Option<Signal>, String> {
        if DERIVED.contains(&name) {
            return Ok(None);
        }
        let found = Signal::ALL.into_iter().find(|signal| signal.name() == name);
        found.map(Some).ok_or_else(|| format!("unsupported eviction signal {name}"))
    }

    /// The resource that runs short.
    #[must_use]
    pub fn resource(self) -> Resource {
        match self {
            Signal::Memory | Signal::AllocatableMemory => Resource::Memory,
            Signal::NodeFs | Signal::ImageFs => Resource::Storage,
            Signal::NodeFsInodes | Signal::ImageFsInodes => Resource::Inodes,
            Signal::Pid => Resource::Pids,
        }
    }

    /// Whether the signal is of bytes or inodes of a file system.
    #[must_use]
    pub fn is_of_disk(self) -> bool {
        matches!(self.resource(), Resource::Storage | Resource::Inodes)
    }

    /// The condition of the node.
    #[must_use]
    pub fn pressure(self) -> Pressure {
        match self.resource() {
            Resource::Memory => Pressure::Memory,
            Resource::Storage | Resource::Inodes => Pressure::Disk,
            Resource::Pids => Pressure::Pid,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Resource {
    /// The kubelet's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Storage => "ephemeral-storage",
            Resource::Inodes => "inodes",
            Resource::Pids => "pids",
        }
    }

    /// An amount in the kubelet's format: memory and disk in powers of 1024, counts in powers of 1000.
    #[must_use]
    pub fn text(self, amount: u64) -> String {
        let (step, suffixes) = match self {
            Resource::Memory | Resource::Storage => (1024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
            Resource::Inodes | Resource::Pids => (1000, ["k", "M", "G", "T", "P", "E"]),
        };
        let (mut amount, mut suffix) = (amount, "");
        for next in suffixes {
            if amount == 0 || !amount.is_multiple_of(step) {
                break;
            }
            (amount, suffix) = (amount / step, next);
        }
        format!("{amount}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_found_by_its_name() {
        for signal in Signal::ALL {
            assert_eq!(Signal::parse(signal.name()), Ok(Some(signal)));
        }
        assert_eq!(Signal::parse("containerfs.available"), Ok(None));
        assert_eq!(
            Signal::parse("mem.available"),
            Err("unsupported eviction signal mem.available".to_owned())
        );
    }

    #[test]
    fn amounts_are_written_as_the_kubelet_writes_them() {
        for (resource, amount, text) in [
            (Resource::Memory, 0, "0"),
            (Resource::Memory, 1000, "1000"),
            (Resource::Memory, 1536, "1536"),
            (Resource::Memory, 104_857_600, "100Mi"),
            (Resource::Storage, 1_610_612_736, "1536Mi"),
            (Resource::Storage, 1 << 60, "1Ei"),
            (Resource::Inodes, 12_000, "12k"),
            (Resource::Pids, 32_768, "32768"),
            (Resource::Pids, u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(resource.text(amount), text);
        }
    }
}
