//! Pods on networks that plugins make (CNI, `--network-plugin=cni`), as the kubelet's Docker shim did it: a sandbox is
//! made without a network, plugins attach it once it runs, and take it off before it ends. `conf`, `call`, `answer`,
//! `record` and `wanted` are pure: configurations, what a plugin is given, what it says, what is kept of it, what a pod
//! asks for. `directory`, `cache` and `run` touch files and run plugins, `attach` puts them together for one sandbox,
//! `orders` has the thread of one pod, and `networks` what all share.
//!
//! What must not happen: a plugin that hangs holds up another pod, or its own pod's end; an attached sandbox goes without
//! a DEL. So a record is on the disk before the first plugin runs, and goes after the DEL worked; a sandbox is not removed
//! before; what a daemon that was killed left behind is taken off by the next one (`sweep`), and plugins of its that still
//! attach a sandbox are ended before (`earlier`). The sandbox's own label
//! says that it is one of these: when the flag changes, those that run stay as they are.
//!
//! CHECK is never run, as upstream: portmap's fails on pods without IPv6.

pub mod answer;
mod attach;
mod cache;
pub mod call;
pub mod conf;
mod directory;
mod earlier;
pub mod networks;
pub mod orders;
mod ports;
pub mod record;
mod run;
mod sweep;
pub mod wanted;

use serde_json::{Map, Value};

use crate::pod::PodKey;

/// A sandbox, and what its pod asks of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Docker's id of the sandbox.
    pub sandbox: String,
    /// Its pod.
    pub key: PodKey,
    /// UID of its pod.
    pub uid: String,
    /// From [`wanted::capabilities`]; `Err`: the pod must not be attached.
    pub capabilities: Result<Map<String, Value>, String>,
}

/// Work on the network of a sandbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Attach it, unless that was done; it runs.
    Attach(Box<Wanted>),
    /// Take it off; it may be gone.
    Detach(Box<Wanted>),
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It is not attached yet: plugins run now.
    Attaching { sandbox: String },
    /// Its addresses, or why it has none.
    Attached { sandbox: String, result: Result<Vec<String>, String> },
    /// It was attached, and is not any more: somebody started it again, say.
    Lost { sandbox: String },
    /// It is taken off, or why not.
    Detached { sandbox: String, result: Result<(), String> },
}
