//! Whether the pod's sandbox can be kept (upstream `pkg/kubelet/kuberuntime/util/util.go`).
//!
//! Sandboxes are ordered only by attempt (kubernetes/kubernetes#134153).

use crate::plan::{Link, Observed, Owned, Role};
use crate::pod::DesiredPod;

/// Whether a sandbox is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SandboxChange<'a> {
    /// Keep this one. It may still have to be started.
    Keep(&'a Owned),
    /// Make a new one with this attempt.
    New {
        /// 0 for the first, else newest + 1.
        attempt: u32,
    },
}

/// Judges the sandboxes made for the pod's UID.
///
/// The newest one in state created counts as the current one, unless its start may be in flight
/// ([`Owned::start_sent`]). If an older one runs, two might run at once: a new one is made after both are
/// stopped.
#[must_use]
pub fn sandbox_change<'a>(pod: &DesiredPod, observed: &'a Observed) -> SandboxChange<'a> {
    let sandboxes = observed.sandboxes(&pod.uid);
    let Some((newest, older)) = sandboxes.split_first() else {
        return SandboxChange::New { attempt: 0 };
    };
    let serves = !newest.start_sent
        && !newest.state.is_dead()
        && !older.iter().any(|s| s.state.is_running())
        && network_serves(pod, newest)
        && !is_given_up(newest);
    if serves {
        SandboxChange::Keep(newest)
    } else {
        let highest = sandboxes.iter().map(|s| s.attempt).max().unwrap_or(newest.attempt);
        SandboxChange::New { attempt: highest.saturating_add(1) }
    }
}

/// True when the network mode in the sandbox's labels is the wanted one.
///
/// The kubelet also replaces every sandbox without an address. Docker assigns the address before the start
/// returns, so a sandbox that never had one is on an engine that does not report it, and its replacement
/// would look the same: an endless loop (balena-os/meta-balena#2062, design invariant 4). A sandbox that has
/// lost its address or was started again by hand is replaced here, too, and so is one that no container can
/// join.
fn network_serves(pod: &DesiredPod, sandbox: &Owned) -> bool {
    let Role::Sandbox { host_network, link, .. } = &sandbox.role else { return false };
    let joinable = match link {
        Link::Untold | Link::Up | Link::Bare | Link::Cut => true,
        Link::Lost | Link::Unfinished => false,
    };
    joinable && *host_network == pod.host_network()
}

/// Whether a replacement was requested.
fn is_given_up(sandbox: &Owned) -> bool {
    sandbox.kept().is_some_and(|kept| kept.restart)
}
