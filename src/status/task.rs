//! The tasks of the daemon's threads, as the watch, the log and the status name them.
//!
//! Never here: the decision whether a thread hangs, and its consequences.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::base::pulse;
use crate::pod::{PodKey, Source};

/// The watched threads.
pub type Pulses = pulse::Pulses<Task>;

/// The task of one thread of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// The main loop.
    MainLoop,
    /// The work for one pod.
    Pod(PodKey),
    /// Reading a source, and checking its content.
    Source(Source),
    /// Writing a source's content to the disk.
    Store(Source),
    /// Docker's events and lists.
    Events,
    /// The keeper of the node.
    Keeper,
    /// Connections to the daemon's own ports.
    Servers,
    /// The node's certificates.
    Certificates,
    /// Reports about the node to an API server.
    Heartbeat,
    /// Reports about pods to an API server.
    PodStatus,
    /// Events for an API server.
    ApiEvents,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Task::MainLoop => f.write_str("the main loop"),
            Task::Pod(key) => write!(f, "pod {key}"),
            Task::Source(source) => write!(f, "the {source} source"),
            Task::Store(source) => write!(f, "the store of source {source}"),
            Task::Events => f.write_str("Docker's event stream"),
            Task::Keeper => f.write_str("the keeper of the node"),
            Task::Servers => f.write_str("the servers"),
            Task::Certificates => f.write_str("the node's certificates"),
            Task::Heartbeat => f.write_str("what the API server is told of the node"),
            Task::PodStatus => f.write_str("what the API server is told of pods"),
            Task::ApiEvents => f.write_str("what the API server is told of events"),
        }
    }
}

/// As text, because people read the status file.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
