//! When the program's pages are given back: once the daemon has settled after work that idle daemons do not do.
//!
//! Never here: a wake-up of its own without work before it.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::program::{heap, pages};

/// Whether there was work since the pages were given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// Another part of this process decides.
    NotMine,
    /// There was none.
    Yes,
    /// There was, and at this time it will be long enough ago.
    At(Mono),
}

impl Settled {
    /// There was work.
    pub(super) fn worked(&mut self, now: Mono) {
        if *self != Settled::NotMine {
            *self = Settled::At(now.after(limits::SETTLED));
        }
    }

    /// A list of Docker was looked at. If it begins no other work, and there was none before, the pages are given back at
    /// once, and nothing wakes this thread for it.
    pub(super) fn listed(&mut self, begins: bool, now: Mono) {
        if begins {
            self.worked(now);
        } else if *self == Settled::Yes {
            *self = Settled::At(now);
        }
    }

    /// The time to wait; `None`: nothing is to be done.
    pub(super) fn due(self, now: Mono) -> Option<Duration> {
        match self {
            Settled::At(at) => Some(at.since(now)),
            Settled::NotMine | Settled::Yes => None,
        }
    }

    /// Gives the pages back if it is time.
    pub(super) fn give_back(&mut self, now: Mono) {
        if matches!(*self, Settled::At(at) if at <= now) {
            *self = Settled::Yes;
            heap::give_back();
            pages::give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_back_once_after_the_last_work() {
        let at = |seconds| Mono(Duration::from_secs(seconds));
        let mut settled = Settled::Yes;
        assert_eq!(settled.due(at(1)), None);
        settled.worked(at(1));
        settled.worked(at(5));
        assert_eq!(settled.due(at(7)), Some(Duration::from_secs(8)));
        settled.give_back(at(14));
        assert_eq!(settled, Settled::At(at(15)));
        settled.give_back(at(15));
        assert_eq!((settled, settled.due(at(16))), (Settled::Yes, None));
        settled.listed(false, at(20));
        assert_eq!(settled.due(at(20)), Some(Duration::ZERO));
        settled.give_back(at(20));
        assert_eq!(settled.due(at(21)), None);
        settled.listed(true, at(22));
        settled.listed(false, at(30));
        assert_eq!(settled, Settled::At(at(32)));
        let mut other = Settled::NotMine;
        other.listed(true, at(1));
        other.worked(at(1));
        assert_eq!(other, Settled::NotMine);
    }
}
