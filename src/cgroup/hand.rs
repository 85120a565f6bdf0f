//! The work of one worker on its pod's cgroups, one thing after the other. What may take its time has a thread that
//! runs only while there is something to do: a `systemctl` that hangs holds up one pod, and not even that pod's
//! worker. Directories of the kernel are made at once: a thread for each pod that starts would cost the start more
//! than they do, and its stack stays.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Cgroups, PodCgroup};
use crate::base::limits;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The pod's cgroup is to be so.
    Ensure(Box<PodCgroup>),
    /// Nothing is left in the cgroup of this UID.
    Remove(String),
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It is so, or why it is not.
    Ensured {
        /// As ordered.
        pod: Box<PodCgroup>,
        /// Where cgroups of pods are from now on and why, if that has changed.
        moved: Option<String>,
        /// The kernel's error, or systemd's.
        result: Result<(), String>,
    },
    /// It is gone, or why it stays.
    Removed {
        /// UID of the pod.
        uid: String,
        /// Something in it cannot be killed, or systemd does not answer.
        result: Result<(), String>,
    },
}

/// Told what became of orders, from any thread.
pub type Tell = Arc<dyn Fn(Report) + Send + Sync>;

/// One worker's.
pub struct Hand {
    cgroups: Cgroups,
    tell: Tell,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    runs: bool,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hand")
    }
}

impl Hand {
    /// For one worker.
    #[must_use]
    pub fn new(cgroups: &Cgroups, tell: Tell) -> Hand {
        Hand { cgroups: cgroups.clone(), tell, queue: Arc::default() }
    }

    /// Carries out an order behind those before it, and tells what became of it.
    pub fn order(&self, order: Order) {
        let mut queue = lock(&self.queue);
        if !queue.runs
            && let Order::Ensure(pod) = &order
            && self.cgroups.makes_at_once(&pod.uid)
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
        let named = thread::Builder::new().name("pk-cgroup".to_owned()).stack_size(limits::WORKER_STACK);
        if let Err(error) = named.spawn(body) {
            let why = format!("no thread could be started: {error}");
            while let Some(order) = next(&self.queue) {
                (self.tell)(match order {
                    Order::Ensure(pod) => Report::Ensured { pod, moved: None, result: Err(why.clone()) },
                    Order::Remove(uid) => Report::Removed { uid, result: Err(why.clone()) },
                });
            }
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next order; without one, nobody works from here on.
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
            Report::Ensured { pod, moved, result: result.map_err(|error| error.to_string()) }
        }
        Order::Remove(uid) => {
            let result = cgroups.remove(&uid).map_err(|error| error.to_string());
            Report::Removed { uid, result }
        }
    }
}
