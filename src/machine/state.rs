//! The four states of a pod worker as one total table (upstream `pkg/kubelet/pod_workers.go`, with "terminating, and
//! wanted again" as a state of its own: kubernetes/kubernetes#104648). The man page has this table.

use std::sync::Arc;

use super::mailbox::StopOrder;
use crate::pod::DesiredPod;

/// The state of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// There is no wish yet: whether its containers are wanted is not known.
    New,
    /// The pod is wanted, and kept running.
    Syncing(Arc<DesiredPod>),
    /// Everything under this identity is being stopped. With `then`, this pod runs after that.
    Terminating {
        /// The last wanted pod; `None` for containers found without their manifest.
        last: Option<Arc<DesiredPod>>,
        /// The order; later orders can only shorten its grace.
        order: StopOrder,
        /// Wanted again.
        then: Option<Arc<DesiredPod>>,
    },
    /// No container runs and no pod is wanted; the remaining containers are being removed.
    Terminated,
}

/// A state without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Syncing,
    Terminating,
    Terminated,
}

/// An event of a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    /// The pod is wanted, perhaps in another version.
    Run(Arc<DesiredPod>),
    /// The pod is to be stopped.
    Stop(StopOrder),
    /// Containers of the same identity and another UID were found alive.
    OtherUid,
    /// Everything was observed dead.
    AllDead,
    /// The pod that is being stopped had ended for good before.
    HadEnded,
}

impl State {
    /// The table: the next state for every state and trigger.
    #[must_use]
    pub fn next(self, trigger: Trigger) -> State {
        use State::{New, Syncing, Terminated, Terminating};
        match (self, trigger) {
            (Syncing(old), Trigger::Run(new)) if old.uid == new.uid => Syncing(new),
            (Syncing(old), Trigger::Run(new)) => {
                Terminating { last: Some(old), order: REPLACED, then: Some(new) }
            }
            (Syncing(old), Trigger::Stop(order)) => Terminating { last: Some(old), order, then: None },
            (Syncing(pod), Trigger::OtherUid) => Terminating { last: None, order: REPLACED, then: Some(pod) },
            (Syncing(pod), Trigger::AllDead) => Syncing(pod),
            (Terminating { last, order, .. }, Trigger::Run(new)) => {
                Terminating { last, order, then: Some(new) }
            }
            (Terminating { last, order, .. }, Trigger::Stop(new)) => {
                Terminating { last, order: order.and(new), then: None }
            }
            (state @ Terminating { .. }, Trigger::OtherUid) => state,
            (Terminating { then: Some(pod), .. }, Trigger::AllDead) => Syncing(pod),
            (Terminating { then: None, .. }, Trigger::AllDead) => Terminated,
            (Terminating { last: Some(pod), then: None, .. }, Trigger::HadEnded) => Syncing(pod),
            (Terminating { last: Some(old), then: Some(new), .. }, Trigger::HadEnded)
                if old.uid == new.uid =>
            {
                Syncing(new)
            }
            (state, Trigger::HadEnded) => state,
            (New | Terminated, Trigger::Run(pod)) => Syncing(pod),
            (New | Terminated, Trigger::Stop(order)) => Terminating { last: None, order, then: None },
            (state @ (New | Terminated), Trigger::OtherUid | Trigger::AllDead) => state,
        }
    }

    /// The pod that runs (or ran last) in this state.
    #[must_use]
    pub fn pod(&self) -> Option<&Arc<DesiredPod>> {
        match self {
            State::Syncing(pod) => Some(pod),
            State::Terminating { last, .. } => last.as_ref(),
            State::New | State::Terminated => None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            State::New => Kind::New,
            State::Syncing(_) => Kind::Syncing,
            State::Terminating { .. } => Kind::Terminating,
            State::Terminated => Kind::Terminated,
        }
    }
}

/// A changed manifest stops the old containers with their own grace.
const REPLACED: StopOrder = StopOrder::new(None, "its manifest changed");
