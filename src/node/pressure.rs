//! Resources that a node can be short of (`pkg/kubelet/eviction/types.go`, the node conditions of
//! `core/v1`).

use std::fmt;

use crate::base::table::Set;

/// One resource that a node is short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Memory.
    Memory,
    /// Bytes or inodes of a file system.
    Disk,
    /// Numbers of processes.
    Pid,
    /// Bytes of a file system, below `--low-diskspace-threshold-mb`: the kubelet's word until 1.12.
    OutOfDisk,
}

/// All resources that a node is short of; empty for a healthy node.
pub type Pressures = Set<Pressure>;

impl Pressure {
    /// All pressures, in the order of the node's conditions.
    pub const ALL: [Pressure; 4] = [Pressure::Memory, Pressure::Disk, Pressure::Pid, Pressure::OutOfDisk];

    /// The node condition for the pressure.
    #[must_use]
    pub fn condition(self) -> &'static str {
        match self {
            Pressure::Memory => "MemoryPressure",
            Pressure::Disk => "DiskPressure",
            Pressure::Pid => "PIDPressure",
            Pressure::OutOfDisk => "OutOfDisk",
        }
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition())
    }
}
