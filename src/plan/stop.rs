//! The order in which a pod's containers stop (upstream
//! `pkg/kubelet/kuberuntime/kuberuntime_termination_order.go`). Needs no spec: kind and index come from the
//! containers' labels, so a pod without a manifest stops in order, too.

use std::cmp::Reverse;

use crate::base::order;
use crate::base::table::Table;
use crate::plan::{Observed, Owned, Role};
use crate::pod::ContainerKind;

/// Status reason of a pod that exceeded activeDeadlineSeconds (upstream `pkg/kubelet/active_deadline.go`).
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// Status message of such a pod.
pub const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Rank in the stop order: smaller stops first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Containers,
    Sidecar(Reverse<u32>),
    Sandbox,
}

fn turn(owned: &Owned) -> Turn {
    match &owned.role {
        Role::Sandbox { .. } => Turn::Sandbox,
        Role::Container { kind: ContainerKind::Sidecar, index, .. } => Turn::Sidecar(Reverse(*index)),
        Role::Container { .. } => Turn::Containers,
    }
}

/// The containers to stop now, by id, among the running ones that `counts` selects: all regular and plain
/// init ones together; once none of them runs, the sidecar with the highest index; once no sidecar runs,
/// the sandboxes. Each UID has its own order. Empty when no selected container runs.
///
/// A container that got its signal and still runs stays in the result: the caller remembers the sent
/// signals.
pub fn stop_now(observed: &Observed, counts: impl Fn(&Owned) -> bool) -> Vec<&Owned> {
    let running: Vec<&Owned> = observed.all.iter().filter(|c| c.state.is_running() && counts(c)).collect();
    let mut first: Table<&str, Turn> = Table::new();
    for owned in &running {
        let turn = turn(owned);
        let least = first.get_or_insert(&owned.uid, turn);
        *least = (*least).min(turn);
    }
    let mut now: Vec<&Owned> =
        running.into_iter().filter(|c| first.get(c.uid.as_str()) == Some(&turn(c))).collect();
    order::sort_by(&mut now, |a, b| a.id.cmp(&b.id));
    now
}
