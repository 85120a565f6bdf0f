//! One worker's orders for its pod's cgroups, carried out one after the other. Slow orders have a thread that
//! runs only while there are any: a `systemctl` that hangs, or a kernel that reclaims memory for a lower limit,
//! delays one pod, but not that pod's worker. Directories of the kernel are created directly, in the worker's
//! thread: a thread for each starting pod would cost more than the directories, and its stack stays allocated.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Cgroups, PodCgroup};
use crate::base::{limits, thread};

/// Work on the cgroups of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Create the pod's cgroup, or change it to these values.
    Ensure(Box<PodCgroup>),
    /// Remove the cgroup of this UID.
    Remove(String),
}

/// Result of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Result of [`Order::Ensure`].
    Ensured {
        /// The pod as ordered.
        pod: Box<PodCgroup>,
        /// New place of the pods' cgroups and the reason, if the place has changed.
        moved: Option<String>,
        /// Ids of the containers with a cgroup in the pod's: they run, even if Docker does not list them.
        inside: Vec<String>,
        /// Why the pod does not have it.
        result: Result<(), NoCgroup>,
    },
    /// Result of [`Order::Remove`].
    Removed {
        /// UID of the pod.
        uid: String,
        /// `Err`: a process in it cannot be killed, or systemd does not answer.
        result: Result<(), String>,
    },
}

/// Why a pod does not have the ordered cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCgroup {
    /// The kernel or systemd refused a part of it. Docker creates the missing parts.
    Failed(String),
    /// A pod of another podkeeper runs in it. A container that is created there ends when that pod's cgroup is
    /// removed.
    Taken(String),
}

impl From<io::Error> for NoCgroup {
    fn from(error: io::Error) -> NoCgroup {
        NoCgroup::Failed(error.to_string())
    }
}

impl fmt::Display for NoCgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCgroup::Failed(why) | NoCgroup::Taken(why) => f.write_str(why),
        }
    }
}

/// Receives the results of orders, from any thread.
pub type Tell = Arc<dyn Fn(Report) + Send + Sync>;

/// One worker's handle.
pub struct PodCgroups {
    cgroups: Cgroups,
    tell: Tell,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    runs: bool,
}

impl fmt::Debug for PodCgroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodCgroups")
    }
}

impl PodCgroups {
    /// Handle for one worker.
    #[must_use]
    pub fn new(cgroups: &Cgroups, tell: Tell) -> PodCgroups {
        PodCgroups { cgroups: cgroups.clone(), tell, queue: Arc::default() }
    }

    /// Carries out an order after those before it, and reports its result.
    pub fn order(&self, order: Order) {
        let mut queue = lock(&self.queue);
        if !queue.runs
            && let Order::Ensure(pod) = &order
            && self.cgroups.makes_at_once(pod)
        {
            drop(queue);
            return (self.tell)(carry_out(&self.cgroups, order));
        }
        queue.orders.push_back(order);
        if queue.runs {
            return;
        }
        queue.runs = true;
        drop(queue);
        let (cgroups, tell, queue) = (self.cgroups.clone(), Arc::clone(&self.tell), Arc::clone(&self.queue));
        let body = move || {
            while let Some(order) = next(&queue) {
                tell(carry_out(&cgroups, order));
            }
        };
        if let Err(error) = thread::spawn("pk-cgroup", limits::WORKER_STACK, body) {
            let why = format!("no thread could be started: {error}");
            while let Some(order) = next(&self.queue) {
                (self.tell)(match order {
                    Order::Ensure(pod) => {
                        let result = Err(NoCgroup::Failed(why.clone()));
                        Report::Ensured { pod, moved: None, inside: Vec::new(), result }
                    }
                    Order::Remove(uid) => Report::Removed { uid, result: Err(why.clone()) },
                });
            }
        }
    }
}

#[cfg(test)]
impl PodCgroups {
    pub(super) fn is_at_work(&self) -> bool {
        lock(&self.queue).runs
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next order; if there is none, the thread counts as ended.
fn next(queue: &Mutex<Queue>) -> Option<Order> {
    let mut queue = lock(queue);
    let order = queue.orders.pop_front();
    queue.runs = order.is_some();
    order
}

fn carry_out(cgroups: &Cgroups, order: Order) -> Report {
    match order {
        Order::Ensure(pod) => {
            let (moved, result) = cgroups.ensure(&pod);
            let inside = cgroups.inside(&pod);
            Report::Ensured { pod, moved, inside, result }
        }
        Order::Remove(uid) => {
            let result = cgroups.remove(&uid).map_err(|error| error.to_string());
            Report::Removed { uid, result }
        }
    }
}
