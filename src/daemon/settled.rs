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
    /// There was. At this time it will be long enough ago, or it has gone on for so long that it may never end (`most`).
    At { at: Mono, most: Mono },
}

impl Settled {
    /// There was work.
    pub(super) fn worked(&mut self, now: Mono) {
        let most = match *self {
            Settled::NotMine => return,
            Settled::Yes => now.after(limits::SETTLED_MOST),
            Settled::At { most, .. } => most,
        };
        *self = Settled::At { at: now.after(limits::SETTLED).min(most), most };
    }

    /// A list of Docker was looked at. If it begins no other work, and there was none before, the pages are given back at
    /// once, and nothing wakes this thread for it.
    pub(super) fn listed(&mut self, begins: bool, now: Mono) {
        if begins {
            self.worked(now);
        } else if *self == Settled::Yes {
            *self = Settled::At { at: now, most: now };
        }
    }

    /// The time to wait; `None`: nothing is to be done.
    pub(super) fn due(self, now: Mono) -> Option<Duration> {
        match self {
            Settled::At { at, .. } => Some(at.since(now)),
            Settled::NotMine | Settled::Yes => None,
        }
    }

    /// Gives the pages back if it is time.
    pub(super) fn give_back(&mut self, now: Mono) {
        if matches!(*self, Settled::At { at, .. } if at <= now) {
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
        assert_eq!(settled, Settled::At { at: at(15), most: at(61) });
        settled.give_back(at(15));
        assert_eq!((settled, settled.due(at(16))), (Settled::Yes, None));
        settled.listed(false, at(20));
        assert_eq!(settled.due(at(20)), Some(Duration::ZERO));
        settled.give_back(at(20));
        assert_eq!(settled.due(at(21)), None);
        settled.listed(true, at(22));
        settled.listed(false, at(30));
        assert_eq!(settled.due(at(32)), Some(Duration::ZERO));
        // A pod in a crash loop does not keep them for ever.
        let mut busy = Settled::Yes;
        (100..165).for_each(|second| busy.worked(at(second)));
        assert_eq!(busy.due(at(159)), Some(Duration::from_secs(1)));
        busy.give_back(at(160));
        assert_eq!(busy, Settled::Yes);
        let mut other = Settled::NotMine;
        other.listed(true, at(1));
        other.worked(at(1));
        assert_eq!(other, Settled::NotMine);
    }
}
