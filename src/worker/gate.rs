//! How many containers are started at once, all pods together. Docker does no more work by being asked
//! for more at a time, and on a small machine a hundred starts at boot would all run past their deadline.
//! First come, first served; nobody blocks: who must wait is woken through its mailbox.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mailbox::Mailbox;
use crate::base::limits;

/// The gate. Clones are the same one.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    free: usize,
    waiting: VecDeque<Arc<Mailbox>>,
}

/// The right to one start, given back when dropped.
pub struct Permit {
    gate: Gate,
}

impl Default for Gate {
    fn default() -> Gate {
        let inner = Inner { free: limits::STARTS_AT_ONCE, waiting: VecDeque::new() };
        Gate { inner: Arc::new(Mutex::new(inner)) }
    }
}

impl Gate {
    /// A permit, or a place in the queue: then [`Mailbox::grant`] is called when it is this one's turn.
    pub fn enter(&self, mailbox: &Arc<Mailbox>) -> Option<Permit> {
        let mut inner = self.lock();
        match inner.free.checked_sub(1) {
            Some(left) => {
                inner.free = left;
                Some(self.permit())
            }
            None => {
                inner.waiting.push_back(Arc::clone(mailbox));
                None
            }
        }
    }

    /// Turns a grant that was read from the mailbox into its permit.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit { gate: self.clone() }
    }

    /// Takes a worker that ends out of the queue.
    pub fn leave(&self, mailbox: &Arc<Mailbox>) {
        self.lock().waiting.retain(|m| !Arc::ptr_eq(m, mailbox));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        match inner.waiting.pop_front() {
            Some(next) => next.grant(),
            None => inner.free += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_in_order_and_none_is_lost() {
        let gate = Gate::default();
        let busy: Vec<Permit> = (0..limits::STARTS_AT_ONCE)
            .map(|_| gate.enter(&Arc::new(Mailbox::new().unwrap())).unwrap())
            .collect();
        let [a, b, c] = [(); 3].map(|()| Arc::new(Mailbox::new().unwrap()));
        for waiting in [&a, &b, &c] {
            assert!(gate.enter(waiting).is_none());
        }
        // One that ends while it waits takes no turn.
        gate.leave(&b);
        drop(busy);
        let granted = [&a, &b, &c].map(|m| m.take_grants());
        assert_eq!(granted, [1, 0, 1]);
        // The two that were granted give their turns back: all of them are free again.
        drop([gate.permit(), gate.permit()]);
        let again: Vec<Option<Permit>> = (0..=limits::STARTS_AT_ONCE).map(|_| gate.enter(&a)).collect();
        assert_eq!(again.iter().flatten().count(), limits::STARTS_AT_ONCE);
    }
}
