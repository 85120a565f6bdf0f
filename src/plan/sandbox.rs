//! Whether the pod's sandbox still serves (upstream `pkg/kubelet/kuberuntime/util/util.go`).
//!
//! Sandboxes are ordered by attempt alone (kubernetes/kubernetes#134153).

use crate::plan::{Link, Observed, Owned, Role};
use crate::pod::DesiredPod;

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SandboxChange<'a> {
    /// This one serves. It may still have to be started.
    Keep(&'a Owned),
    /// None serves: the next one has this attempt.
    New {
        /// 0 for the first, else newest + 1.
        attempt: u32,
    },
}

/// Looks at the sandboxes made for the pod's UID.
///
/// A newest one in state created counts as the current one, unless a start of it may be on its way
/// ([`Owned::start_sent`]). An older one that runs means that two might: a new one
/// is made after both are stopped.
#[must_use]
pub fn sandbox_change<'a>(pod: &DesiredPod, observed: &'a Observed) -> SandboxChange<'a> {
    let sandboxes = observed.sandboxes(&pod.uid);
    let Some((newest, older)) = sandboxes.split_first() else {
        return SandboxChange::New { attempt: 0 };
    };
    let serves = !newest.start_sent
        && !newest.state.is_dead()
        && !older.iter().any(|s| s.state.is_running())
        && network_serves(pod, newest);
    if serves {
        SandboxChange::Keep(newest)
    } else {
        SandboxChange::New { attempt: newest.attempt.saturating_add(1) }
    }
}

/// The network mode, as written on the sandbox, is the wanted one.
///
/// The kubelet also replaces every sandbox without an address. Docker gives the address before the start is
/// over, so one that never had any is on an engine that does not report it, and the next one would look
/// alike: an endless loop of replacements (balena-os/meta-balena#2062, design invariant 4). One that has lost it
/// is replaced here too.
fn network_serves(pod: &DesiredPod, sandbox: &Owned) -> bool {
    let Role::Sandbox { host_network, link, .. } = &sandbox.role else { return false };
    *host_network == pod.host_network() && (*host_network || *link != Link::Lost)
}
