//! When a pull should lose its place, and how it is stopped: Docker stops a pull when its connection closes.
//!
//! Never here: stopping a slow pull while no other waits for its place.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::base::clock::Mono;
use crate::base::limits;
use crate::runtime::progress::{Moment, bytes};

/// Stops one pull.
#[derive(Debug)]
pub(super) struct Stop {
    why: OnceLock<String>,
    wake: OwnedFd,
}

impl Stop {
    /// # Errors
    /// The system has no file descriptor left.
    pub(super) fn new() -> io::Result<Stop> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop { why: OnceLock::new(), wake })
    }

    /// Stops the pull; the first reason is kept.
    pub(super) fn give_up(&self, why: String) {
        if self.why.set(why).is_ok() {
            _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Why it was stopped.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
}

impl AsFd for Stop {
    /// Readable when the pull has to stop.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// News about a pull.
pub(super) enum News<'a> {
    /// Docker has sent a message.
    Heard,
    /// A layer exists, or is being downloaded.
    Moves,
    /// Progress as text, from time to time.
    Progress(&'a str),
    /// It makes almost no progress, with the message.
    Slow(&'a str),
}

/// Whether a pull makes progress. A registry that sends a little from time to time does not count as silent, so the
/// amount is measured.
#[derive(Debug)]
pub(super) struct Speed {
    /// The time in which it has to receive [`limits::PULL_LEAST`].
    within: Duration,
    since: Mono,
    from: u64,
}

impl Speed {
    pub(super) fn new(within: Duration, now: Mono) -> Speed {
        Speed { within, since: now, from: 0 }
    }

    /// The reason if it is too slow. Unpacking by Docker does not count against the registry.
    pub(super) fn complaint(&mut self, moment: &Moment, now: Mono) -> Option<String> {
        let is_unpacked = moment.layers > 0 && moment.exact && moment.done >= moment.total;
        // Docker restarts a layer whose download broke off.
        self.from = self.from.min(moment.done);
        if is_unpacked || moment.done.saturating_sub(self.from) >= limits::PULL_LEAST {
            (self.since, self.from) = (now, moment.done);
            return None;
        }
        let waited = now.since(self.since);
        (waited >= self.within).then(|| {
            format!(
                "given up: the registry has sent {} in {} s, less than {}, and others wait for its place",
                bytes(moment.done.saturating_sub(self.from)),
                waited.as_secs(),
                bytes(limits::PULL_LEAST)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_drips_is_too_slow() {
        let at = |seconds: u64| Mono(Duration::from_secs(seconds));
        let moment = |done, total| Moment { done, total, exact: true, ready: 0, layers: 2 };
        let mut speed = Speed::new(Duration::from_secs(60), at(100));
        for seconds in (100..160).step_by(10) {
            assert_eq!(speed.complaint(&moment(600 * (seconds - 99), 50_000), at(seconds)), None);
        }
        let why = speed.complaint(&moment(1200, 50_000), at(160)).unwrap();
        assert_eq!(
            why,
            "given up: the registry has sent 1.1 KiB in 60 s, less than 64.0 KiB, and others wait for its place"
        );
        // A slow pull that is fast enough; a layer that restarts; and one that is only unpacked.
        let mut speed = Speed::new(Duration::from_secs(60), at(0));
        for minute in 1..10 {
            let done = limits::PULL_LEAST * minute;
            assert_eq!(speed.complaint(&moment(done, 1 << 30), at(minute * 59)), None);
        }
        assert_eq!(speed.complaint(&moment(0, 1 << 30), at(560)), None);
        assert_eq!(speed.complaint(&moment(limits::PULL_LEAST, 1 << 30), at(580)), None);
        for minute in 10..40 {
            assert_eq!(speed.complaint(&moment(1 << 30, 1 << 30), at(minute * 60)), None);
        }
        assert!(speed.complaint(&Moment { layers: 0, ..moment(0, 0) }, at(40 * 60)).is_some());
    }

    #[test]
    fn the_first_reason_counts() {
        let stop = Stop::new().unwrap();
        assert_eq!(stop.why(), None);
        stop.give_up("one".to_owned());
        stop.give_up("two".to_owned());
        assert_eq!(stop.why(), Some("one"));
    }
}
