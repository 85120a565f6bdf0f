//! Pods on networks of plugins (CNI, `--network-plugin=cni`), as in the kubelet's Docker shim: a sandbox is made
//! without a network, plugins attach it once it runs, and detach it before it ends. `conf`, `call`, `answer`, `record`
//! and `wanted` are pure: configurations, a plugin's input, its output, the stored record, a pod's requests.
//! `directory`, `cache` and `run` touch files and run plugins, `attach` combines them for one sandbox, `orders` has the
//! thread of one pod, and `networks` the parts that all pods share.
//!
//! Two things must not happen: a plugin that hangs delays another pod, or its own pod's end; an attached sandbox is
//! removed without a DEL. So a record is on the disk before the first plugin runs, and is removed after the DEL
//! succeeded; a sandbox is not removed before; sandboxes of a killed daemon are detached by the next one (`sweep`),
//! after its plugins that still run were killed (`earlier`). A label of the sandbox shows that it uses plugins: when
//! the flag changes, running sandboxes stay as they are.
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

/// A sandbox, and the network settings of its pod.
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
    /// Attach it, unless it is attached; it runs.
    Attach(Box<Wanted>),
    /// Detach it; it may be gone.
    Detach(Box<Wanted>),
}

/// The result of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Attaching has begun: plugins run now.
    Attaching { sandbox: String },
    /// Its addresses, or why it has none.
    Attached { sandbox: String, result: Result<Vec<String>, String> },
    /// It was attached, and is not any more, for example because it was restarted by hand.
    Lost { sandbox: String },
    /// It is detached, or why not.
    Detached { sandbox: String, result: Result<(), String> },
}
