//! Amounts of resources of a node, as plain numbers.

/// Resources for all pods together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of the file system that holds the root directory; 0 when unknown.
    pub ephemeral_storage: i64,
}
