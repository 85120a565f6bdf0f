//! One worker's orders, carried out one after the other by a thread that lives as long as there are any. An order to
//! detach a sandbox kills the plugins that are attaching it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attach::NotAttached;
use super::networks::Networks;
use super::{Order, Report};
use crate::base::{limits, thread};

/// Receives the results of orders, from any thread.
pub type Tell = Arc<dyn Fn(Report) + Send + Sync>;

/// One worker's handle.
pub struct PodNetworks {
    networks: Arc<Networks>,
    tell: Tell,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Order>,
    runs: bool,
    /// The sandbox that is being attached, and the switch that cancels this.
    attaching: Option<(String, Arc<AtomicBool>)>,
}

impl fmt::Debug for PodNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodNetworks")
    }
}

impl PodNetworks {
    /// Handle for one worker.
    #[must_use]
    pub fn new(networks: &Arc<Networks>, tell: Tell) -> PodNetworks {
        PodNetworks { networks: Arc::clone(networks), tell, queue: Arc::default() }
    }

    /// Carries out an order after earlier ones, and reports its result.
    pub fn order(&self, order: Order) {
        let mut queue = lock(&self.queue);
        match &order {
            Order::Attach(wanted) => self.networks.is_live(&wanted.sandbox),
            Order::Detach(wanted) => {
                if let Some((sandbox, ends)) = &queue.attaching
                    && *sandbox == wanted.sandbox
                {
                    ends.store(true, Ordering::Relaxed);
                }
                self.networks.is_live(&wanted.sandbox);
            }
        }
        queue.orders.push_back(order);
        if queue.runs {
            return;
        }
        queue.runs = true;
        drop(queue);
        let (networks, tell) = (Arc::clone(&self.networks), Arc::clone(&self.tell));
        let shared = Arc::clone(&self.queue);
        let body = move || {
            while let Some((order, ends)) = next(&shared) {
                carry_out(&networks, order, &ends, &tell);
            }
        };
        if let Err(error) = thread::spawn("pk-cni", limits::WORKER_STACK, body) {
            while let Some((order, _)) = next(&self.queue) {
                refuse(order, &format!("no thread could be started: {error}"), &self.tell);
            }
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next order; if there is none, the thread counts as ended.
fn next(queue: &Mutex<Queue>) -> Option<(Order, Arc<AtomicBool>)> {
    let mut queue = lock(queue);
    let order = queue.orders.pop_front();
    queue.runs = order.is_some();
    let ends = Arc::new(AtomicBool::new(false));
    queue.attaching = match &order {
        Some(Order::Attach(wanted)) => Some((wanted.sandbox.clone(), Arc::clone(&ends))),
        _ => None,
    };
    Some((order?, ends))
}

fn carry_out(networks: &Networks, order: Order, ends: &AtomicBool, tell: &Tell) {
    match order {
        Order::Attach(wanted) => {
            let sandbox = wanted.sandbox.clone();
            let begins = || tell(Report::Attaching { sandbox: sandbox.clone() });
            tell(match networks.attach(&wanted, ends, &begins) {
                Ok(ips) => Report::Attached { sandbox, result: Ok(ips) },
                Err(NotAttached::Lost) => Report::Lost { sandbox },
                Err(NotAttached::Failed(why)) => Report::Attached { sandbox, result: Err(why) },
            });
        }
        Order::Detach(wanted) => {
            let result = networks.detach(&wanted, ends);
            if result.is_ok() {
                networks.is_over(&wanted.sandbox);
            }
            tell(Report::Detached { sandbox: wanted.sandbox, result });
        }
    }
}

fn refuse(order: Order, why: &str, tell: &Tell) {
    tell(match order {
        Order::Attach(wanted) => Report::Attached { sandbox: wanted.sandbox, result: Err(why.to_owned()) },
        Order::Detach(wanted) => Report::Detached { sandbox: wanted.sandbox, result: Err(why.to_owned()) },
    });
}
