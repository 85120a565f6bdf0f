//! Limits how many containers of all pods are started at a time, and how many images are judged. Docker does no more
//! work when it gets more requests at once, and on a small machine a hundred starts at boot would all miss their
//! deadlines; a hundred inspects of one image with large labels would take Docker's memory. Within a source first come,
//! first served; sources take turns, and those behind others wait for the others and leave them places. No thread blocks:
//! a worker that must wait is woken through its mailbox. Calls that hang do not delay the others until their deadline:
//! while none ends, one place after the other is passed on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mailbox::Mailbox;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::pod::Source;

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

impl Gates {
    /// The gates, open. Pods of these sources are behind those of others.
    #[must_use]
    pub fn new(behind: &Set<Source>) -> Gates {
        // All images that are judged are of sources behind others.
        Gates {
            start: Gate::new(Turn::Start, limits::STARTS_AT_ONCE, limits::STARTS_BEHIND, behind),
            judge: Gate::new(Turn::Judge, limits::JUDGED_AT_ONCE, limits::JUDGED_AT_ONCE, behind),
        }
    }

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
    /// Most places that all sources behind others hold together, and that hang, too, before no more are passed on to them.
    most_behind: usize,
    /// Number of calls of sources behind others that hang.
    hung_behind: usize,
    sources: Table<Source, OfSource>,
    /// Number of calls that ended and of places that were passed on; wraps.
    moves: u64,
    /// Number of turns that were granted; wraps.
    granted: u64,
}

/// The turns of one source.
#[derive(Default)]
struct OfSource {
    is_behind: bool,
    /// Places that it holds.
    held: usize,
    /// [`Inner::granted`] at its last turn.
    last: u64,
    waiting: VecDeque<Arc<Mailbox>>,
}

/// The right to one call, given back when dropped.
pub struct Permit {
    gate: Gate,
    source: Source,
    /// The last seen value of [`Inner::moves`], and when it was first seen.
    moves: u64,
    since: Mono,
    /// The place was passed on to another call.
    passed_on: bool,
}

impl Gate {
    /// A gate with so many places, of which sources behind others hold at most `most_behind`.
    fn new(turn: Turn, places: usize, most_behind: usize, behind: &Set<Source>) -> Gate {
        let of = |source| OfSource { is_behind: behind.contains(&source), ..OfSource::default() };
        let sources = Source::ALL.into_iter().map(|source| (source, of(source))).collect();
        let inner = Inner { free: places, most_behind, hung_behind: 0, sources, moves: 0, granted: 0 };
        Gate { turn, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Returns a permit for a call for a pod of this source, or puts the worker into the queue: then [`Mailbox::grant`]
    /// is called when its turn comes.
    pub fn enter(&self, mailbox: &Arc<Mailbox>, source: Source, now: Mono) -> Option<Permit> {
        let mut inner = self.lock();
        let has_turn = inner.free > 0 && inner.may_hold_more(source);
        if has_turn {
            inner.take_place(source);
        } else {
            inner.sources.get_or_default(source).waiting.push_back(Arc::clone(mailbox));
        }
        drop(inner);
        has_turn.then(|| self.permit(source, now))
    }

    /// Turns a grant that was read from the mailbox into its permit.
    #[must_use]
    pub fn permit(&self, source: Source, now: Mono) -> Permit {
        Permit { gate: self.clone(), source, moves: self.lock().moves, since: now, passed_on: false }
    }

    fn leave(&self, mailbox: &Arc<Mailbox>) {
        for of in self.lock().sources.values_mut() {
            of.waiting.retain(|m| !Arc::ptr_eq(m, mailbox));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn may_hold_more(&self, source: Source) -> bool {
        let is_behind = |of: &&OfSource| of.is_behind;
        let held: usize = self.sources.values().filter(is_behind).map(|of| of.held).sum();
        let most = self.most_behind.saturating_add(self.hung_behind.min(self.most_behind));
        held < most || !self.sources.get(&source).is_some_and(|of| of.is_behind)
    }

    fn take_place(&mut self, source: Source) {
        self.free = self.free.saturating_sub(1);
        self.granted = self.granted.wrapping_add(1);
        let of = self.sources.get_or_default(source);
        (of.held, of.last) = (of.held.saturating_add(1), self.granted);
    }

    /// A call of this source has ended. `has_place`: its place was not passed on.
    fn ended(&mut self, turn: Turn, source: Source, has_place: bool) {
        let of = self.sources.get_or_default(source);
        if has_place || of.is_behind {
            of.held = of.held.saturating_sub(1);
        }
        if of.is_behind && !has_place {
            self.hung_behind = self.hung_behind.saturating_sub(1);
        }
        self.next(turn, has_place);
    }

    /// A call of this source hangs: another one gets a place. Those of sources behind others still count, so that not
    /// ever more of them are at work in Docker.
    fn pass_on(&mut self, turn: Turn, source: Source) {
        let of = self.sources.get_or_default(source);
        match of.is_behind {
            true => self.hung_behind = self.hung_behind.saturating_add(1),
            false => of.held = of.held.saturating_sub(1),
        }
        self.next(turn, true);
    }

    /// Grants the next turn, if one may begin. `is_free`: one more place is free.
    fn next(&mut self, turn: Turn, is_free: bool) {
        self.moves = self.moves.wrapping_add(1);
        self.free = self.free.saturating_add(usize::from(is_free));
        if self.free == 0 {
            return;
        }
        let waits =
            self.sources.iter().filter(|(source, of)| !of.waiting.is_empty() && self.may_hold_more(**source));
        let next = waits.min_by_key(|(_, of)| (of.is_behind, of.held, of.last)).map(|(source, _)| *source);
        if let Some(source) = next
            && let Some(mailbox) = self.sources.get_or_default(source).waiting.pop_front()
        {
            self.take_place(source);
            mailbox.grant(turn, source);
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
        // The next place is passed on after the same time again, for this counts as a move.
        inner.pass_on(self.gate.turn, self.source);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        inner.ended(self.gate.turn, self.source, !self.passed_on);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BEGIN: Mono = Mono(Duration::ZERO);
    const FILE: Source = Source::File;

    fn gates() -> Gates {
        Gates::new(&[Source::Http, Source::Api].into())
    }

    #[test]
    fn turns_are_taken_in_order_and_none_is_lost() {
        let gate = gates().of(Turn::Start).clone();
        let busy: Vec<Permit> = (0..limits::STARTS_AT_ONCE)
            .map(|_| gate.enter(&Arc::new(Mailbox::new().unwrap()), FILE, BEGIN).unwrap())
            .collect();
        let [a, b, c] = [(); 3].map(|()| Arc::new(Mailbox::new().unwrap()));
        for waiting in [&a, &b, &c] {
            assert!(gate.enter(waiting, FILE, BEGIN).is_none());
        }
        // A worker that ends while it waits takes no turn.
        gate.leave(&b);
        drop(busy);
        let granted = [&a, &b, &c].map(|m| m.take_grants());
        assert_eq!(granted, [vec![(Turn::Start, FILE)], vec![], vec![(Turn::Start, FILE)]]);
        // The two granted workers give their places back: all places are free again.
        drop([gate.permit(FILE, BEGIN), gate.permit(FILE, BEGIN)]);
        let again: Vec<Option<Permit>> =
            (0..=limits::STARTS_AT_ONCE).map(|_| gate.enter(&a, FILE, BEGIN)).collect();
        assert_eq!(again.iter().flatten().count(), limits::STARTS_AT_ONCE);
    }

    /// Forty pods of sixteen containers asked for one image of 5 MB of labels at once: Docker took 21 GB.
    #[test]
    fn few_images_are_judged_at_a_time_and_starts_do_not_wait_for_them() {
        let gates = gates();
        let judging = Arc::new(Mailbox::new().unwrap());
        let enter = |turn| gates.of(turn).enter(&judging, Source::Http, BEGIN);
        let mut judged: Vec<Permit> = (0..640).filter_map(|_| enter(Turn::Judge)).collect();
        assert_eq!(judged.len(), limits::JUDGED_AT_ONCE);
        assert!(judged.iter().all(|permit| permit.turn() == Turn::Judge));
        assert_eq!(enter(Turn::Start).map(|permit| permit.turn()), Some(Turn::Start));
        assert!(judging.take_grants().is_empty());
        judged.truncate(1);
        assert_eq!(judging.take_grants(), [(Turn::Judge, Source::Http)]);
        gates.leave(&judging);
        drop(judged);
        assert!(judging.take_grants().is_empty(), "a worker that has ended gets no turn");
    }

    #[test]
    fn starts_that_hang_hold_up_the_others_for_a_moment_only() {
        let gate = gates().of(Turn::Start).clone();
        let mailbox = || Arc::new(Mailbox::new().unwrap());
        let mut hung: Vec<Permit> =
            (0..limits::STARTS_AT_ONCE).map(|_| gate.enter(&mailbox(), FILE, BEGIN).unwrap()).collect();
        let waiting = [(); 3].map(|()| mailbox());
        assert!(waiting.iter().all(|m| gate.enter(m, FILE, BEGIN).is_none()));
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
            drop(gate.permit(FILE, at(1)));
            assert_eq!(look(at(1)), (all - 1, 1));
        }
        drop(gate.permit(FILE, at(1)));
        assert_eq!(look(at(2)), (all - 1, 0), "one ended since");
        assert_eq!(look(at(3)), (all - 2, 0), "none ended since");
        // Permits that have passed their places on give nothing back: in the end there are as many places as
        // before.
        drop(hung);
        let again: Vec<_> = (0..=all).map(|_| gate.enter(&waiting[0], FILE, at(4))).collect();
        assert_eq!(again.iter().flatten().count(), all);
    }

    /// Pods of a URL, which were behind others, had a thousand containers to start at once: a container of a file's pod
    /// that had ended waited for five minutes.
    #[test]
    fn pods_of_a_source_behind_others_hold_up_no_start_of_another() {
        let gate = gates().of(Turn::Start).clone();
        let mailbox = || Arc::new(Mailbox::new().unwrap());
        let behind = mailbox();
        let mut held: Vec<Permit> =
            (0..1000).filter_map(|_| gate.enter(&behind, Source::Http, BEGIN)).collect();
        assert_eq!(held.len(), limits::STARTS_BEHIND);
        // Places are free for the others, and as soon as these are taken the next one is theirs, too.
        let mut others: Vec<Permit> = (limits::STARTS_BEHIND..limits::STARTS_AT_ONCE)
            .map(|_| gate.enter(&mailbox(), FILE, BEGIN).unwrap())
            .collect();
        let file = mailbox();
        assert!(gate.enter(&file, FILE, BEGIN).is_none());
        drop(held.pop());
        assert_eq!((file.take_grants().len(), behind.take_grants().len()), (1, 0));
        others.push(gate.permit(FILE, BEGIN));
        // The sources behind others take turns, in what they may hold together.
        let other_behind = mailbox();
        assert!(gate.enter(&other_behind, Source::Api, BEGIN).is_none());
        let granted = || (behind.take_grants().len(), other_behind.take_grants().len());
        drop(others.pop());
        assert_eq!(granted(), (0, 1), "the one that holds less");
        drop(gate.permit(Source::Api, BEGIN));
        assert_eq!(granted(), (1, 0));
        held.push(gate.permit(Source::Http, BEGIN));
        // A place that hangs is not passed on to them while another source waits.
        assert!(gate.enter(&file, FILE, BEGIN).is_none() || others.pop().is_some());
        gate.leave(&behind);
        drop((held, others));
        assert_eq!(granted(), (0, 0));
    }

    /// Starts of pods of a URL that hung were passed on to others of them without a bound, and then not at all: other pods of
    /// the URL waited for more than a minute.
    #[test]
    fn calls_of_a_source_behind_others_that_hang_are_passed_on_to_the_others_first_and_to_few_of_its_own() {
        let gate = gates().of(Turn::Start).clone();
        let (behind, file) = (Arc::new(Mailbox::new().unwrap()), Arc::new(Mailbox::new().unwrap()));
        let mut hung: Vec<Permit> =
            (0..100).filter_map(|_| gate.enter(&behind, Source::Http, BEGIN)).collect();
        let _others = [(); 2].map(|()| gate.enter(&file, FILE, BEGIN).unwrap());
        assert!(gate.enter(&file, FILE, BEGIN).is_none());
        let look = |hung: &mut Vec<Permit>, times: u32| {
            let now = BEGIN.after(limits::STARTS_STUCK * times);
            hung.iter_mut().for_each(|permit| _ = permit.pass_on_if_stuck(now));
            let granted = behind.take_grants().len();
            hung.extend((0..granted).map(|_| gate.permit(Source::Http, now)));
            (file.take_grants().len(), granted)
        };
        assert_eq!(look(&mut hung, 0), (0, 0));
        assert_eq!(look(&mut hung, 1), (1, 0));
        let third = gate.permit(FILE, BEGIN);
        let granted: usize = (2..40).map(|times| look(&mut hung, times).1).sum();
        assert_eq!((granted, hung.len()), (limits::STARTS_BEHIND, 2 * limits::STARTS_BEHIND));
        assert!(
            gate.enter(&file, FILE, BEGIN).is_some(),
            "the places that were passed on wait for the others"
        );
        // Each that ends lets another one begin.
        drop(hung.pop());
        assert_eq!(look(&mut hung, 40).1, 1);
        gate.leave(&behind);
        drop((hung, third));
        // All places are there again.
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let again: Vec<_> = (0..100).filter_map(|_| gate.enter(&mailbox, Source::Http, BEGIN)).collect();
        assert_eq!(again.len(), limits::STARTS_BEHIND);
    }
}
