//! Limits how many containers of all pods are started at a time, and how many images are judged. Docker does no more
//! work when it gets more requests at once, and on a small machine a hundred starts at boot would all miss their
//! deadlines; a hundred inspects of one image with large labels would take Docker's memory. First come, first served. No
//! thread blocks: a worker that must wait is woken through its mailbox. Calls that hang do not delay the others until
//! their deadline: while none ends, one place after the other is passed on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mailbox::Mailbox;
use crate::base::clock::Mono;
use crate::base::limits;

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The start of a container.
    Start,
    /// The inspect of an image for the size of its configuration.
    Judge,
}

/// The gates of a node: judging does not take the places of starts.
#[derive(Clone)]
pub struct Gates {
    start: Gate,
    judge: Gate,
}

impl Default for Gates {
    fn default() -> Gates {
        Gates {
            start: Gate::new(Turn::Start, limits::STARTS_AT_ONCE),
            judge: Gate::new(Turn::Judge, limits::JUDGED_AT_ONCE),
        }
    }
}

impl Gates {
    /// The gate for these turns.
    #[must_use]
    pub fn of(&self, turn: Turn) -> &Gate {
        match turn {
            Turn::Start => &self.start,
            Turn::Judge => &self.judge,
        }
    }

    /// Takes a worker that ends out of the queues.
    pub fn leave(&self, mailbox: &Arc<Mailbox>) {
        self.start.leave(mailbox);
        self.judge.leave(mailbox);
    }
}

/// The gate. Clones share it.
#[derive(Clone)]
pub struct Gate {
    turn: Turn,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    free: usize,
    waiting: VecDeque<Arc<Mailbox>>,
    /// Number of calls that ended and of places that were passed on; wraps.
    moves: u64,
}

/// The right to one call, given back when dropped.
pub struct Permit {
    gate: Gate,
    /// The last seen value of [`Inner::moves`], and when it was first seen.
    moves: u64,
    since: Mono,
    /// The place was passed on to another call.
    passed_on: bool,
}

impl Gate {
    /// A gate with so many places.
    #[must_use]
    pub fn new(turn: Turn, places: usize) -> Gate {
        let inner = Inner { free: places, waiting: VecDeque::new(), moves: 0 };
        Gate { turn, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns a permit, or puts the worker into the queue: then [`Mailbox::grant`] is called when its turn
    /// comes.
    pub fn enter(&self, mailbox: &Arc<Mailbox>, now: Mono) -> Option<Permit> {
        let mut inner = self.lock();
        match inner.free.checked_sub(1) {
            Some(left) => {
                inner.free = left;
                drop(inner);
                Some(self.permit(now))
            }
            None => {
                inner.waiting.push_back(Arc::clone(mailbox));
                None
            }
        }
    }

    /// Turns a grant that was read from the mailbox into its permit.
    #[must_use]
    pub fn permit(&self, now: Mono) -> Permit {
        Permit { gate: self.clone(), moves: self.lock().moves, since: now, passed_on: false }
    }

    fn leave(&self, mailbox: &Arc<Mailbox>) {
        self.lock().waiting.retain(|m| !Arc::ptr_eq(m, mailbox));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn pass_on(&mut self, turn: Turn) {
        match self.waiting.pop_front() {
            Some(next) => next.grant(turn),
            None => self.free += 1,
        }
    }
}

impl Permit {
    /// What it is for.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.gate.turn
    }

    /// Passes the place on when no call at all has ended for [`limits::STARTS_STUCK`]; with a Docker that is
    /// only slow, some calls end. Returns when to call again; `None`: not again.
    pub fn pass_on_if_stuck(&mut self, now: Mono) -> Option<Mono> {
        if self.passed_on {
            return None;
        }
        let mut inner = self.gate.lock();
        if inner.moves != self.moves {
            (self.moves, self.since) = (inner.moves, now);
        }
        let due = self.since.after(limits::STARTS_STUCK);
        if now < due {
            return Some(due);
        }
        self.passed_on = true;
        // The next place is passed on after the same time again.
        inner.moves = inner.moves.wrapping_add(1);
        inner.pass_on(self.gate.turn);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        inner.moves = inner.moves.wrapping_add(1);
        if !self.passed_on {
            inner.pass_on(self.gate.turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BEGIN: Mono = Mono(Duration::ZERO);

    #[test]
    fn turns_are_taken_in_order_and_none_is_lost() {
        let gate = Gates::default().of(Turn::Start).clone();
        let busy: Vec<Permit> = (0..limits::STARTS_AT_ONCE)
            .map(|_| gate.enter(&Arc::new(Mailbox::new().unwrap()), BEGIN).unwrap())
            .collect();
        let [a, b, c] = [(); 3].map(|()| Arc::new(Mailbox::new().unwrap()));
        for waiting in [&a, &b, &c] {
            assert!(gate.enter(waiting, BEGIN).is_none());
        }
        // A worker that ends while it waits takes no turn.
        gate.leave(&b);
        drop(busy);
        let granted = [&a, &b, &c].map(|m| m.take_grants());
        assert_eq!(granted, [vec![Turn::Start], vec![], vec![Turn::Start]]);
        // The two granted workers give their places back: all places are free again.
        drop([gate.permit(BEGIN), gate.permit(BEGIN)]);
        let again: Vec<Option<Permit>> =
            (0..=limits::STARTS_AT_ONCE).map(|_| gate.enter(&a, BEGIN)).collect();
        assert_eq!(again.iter().flatten().count(), limits::STARTS_AT_ONCE);
    }

    /// Forty pods of sixteen containers asked for one image of 5 MB of labels at once: Docker took 21 GB.
    #[test]
    fn few_images_are_judged_at_a_time_and_starts_do_not_wait_for_them() {
        let gates = Gates::default();
        let judging = Arc::new(Mailbox::new().unwrap());
        let enter = |turn| gates.of(turn).enter(&judging, BEGIN);
        let mut judged: Vec<Permit> = (0..640).filter_map(|_| enter(Turn::Judge)).collect();
        assert_eq!(judged.len(), limits::JUDGED_AT_ONCE);
        assert!(judged.iter().all(|permit| permit.turn() == Turn::Judge));
        assert_eq!(enter(Turn::Start).map(|permit| permit.turn()), Some(Turn::Start));
        assert!(judging.take_grants().is_empty());
        judged.truncate(1);
        assert_eq!(judging.take_grants(), [Turn::Judge]);
        gates.leave(&judging);
        drop(judged);
        assert!(judging.take_grants().is_empty(), "a worker that has ended gets no turn");
    }

    #[test]
    fn starts_that_hang_hold_up_the_others_for_a_moment_only() {
        let gate = Gates::default().of(Turn::Start).clone();
        let mailbox = || Arc::new(Mailbox::new().unwrap());
        let mut hung: Vec<Permit> =
            (0..limits::STARTS_AT_ONCE).map(|_| gate.enter(&mailbox(), BEGIN).unwrap()).collect();
        let waiting = [(); 3].map(|()| mailbox());
        assert!(waiting.iter().all(|m| gate.enter(m, BEGIN).is_none()));
        let at = |times: u32| BEGIN.after(limits::STARTS_STUCK * times);
        // The number of permits that ask again, and of places that were passed on.
        let mut look = |now: Mono| {
            let asking = hung.iter_mut().filter_map(|permit| permit.pass_on_if_stuck(now)).count();
            (asking, waiting.iter().map(|m| m.take_grants().len()).sum::<usize>())
        };
        let all = limits::STARTS_AT_ONCE;
        assert_eq!(look(BEGIN), (all, 0));
        assert_eq!(look(at(1)), (all - 1, 1), "one, not all at once");
        // That start is answered, and its place serves the next two: no other place is needed.
        for _ in 0..2 {
            drop(gate.permit(at(1)));
            assert_eq!(look(at(1)), (all - 1, 1));
        }
        drop(gate.permit(at(1)));
        assert_eq!(look(at(2)), (all - 1, 0), "one ended since");
        assert_eq!(look(at(3)), (all - 2, 0), "none ended since");
        // Permits that have passed their places on give nothing back: in the end there are as many places as
        // before.
        drop(hung);
        let again: Vec<_> = (0..=all).map(|_| gate.enter(&waiting[0], at(4))).collect();
        assert_eq!(again.iter().flatten().count(), all);
    }
}
