//! The thin threads behind exec, attach and port-forward: sockets on one side, the pure [`super::stream`] in the
//! middle, Docker or a port of a pod on the other.
//!
//! One thread of the server's pool carries one connection with all its streams. It waits in one poll for all its
//! descriptors. When one side does not take bytes, no more are read from the other: buffers have the bounds of
//! `limits`. A client that is gone ends the connection at once; the command continues, as under the kubelet.
//!
//! Never here: the meaning of a stream, or a wait that does not notice when the client is gone.

pub mod client;
pub mod command;
pub mod forward;

use std::time::Instant;

use crate::base::limits;

/// Why an attach ended after [`crate::base::limits::ATTACH_STALL`].
pub const STALLED: &str = "nothing took the output for 10 s, or too little, and the container would have waited: attach again, or read its log";

/// How fast the output of an attach is taken. Much of it waits at many places, and Docker sees the container's end only behind
/// that: a client that takes a little now and then would hide the end for minutes.
#[derive(Debug, Default)]
pub struct Pace {
    /// Since when output has waited, and how much was taken of it in this time.
    behind: Option<(Instant, usize)>,
}

impl Pace {
    /// Notes that so many bytes were taken, and whether more wait than there is room for. Returns true when the attach has
    /// to end.
    pub fn note(&mut self, taken: usize, is_behind: bool, now: Instant) -> bool {
        if !is_behind {
            self.behind = None;
            return false;
        }
        let (since, all) = self.behind.get_or_insert((now, 0));
        *all = all.saturating_add(taken);
        if now.saturating_duration_since(*since) < limits::ATTACH_STALL {
            return false;
        }
        let is_slow = *all < limits::ATTACH_PACE;
        self.behind = Some((now, 0));
        is_slow
    }

    /// When to look again.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.behind.and_then(|(since, _)| since.checked_add(limits::ATTACH_STALL))
    }
}

/// The reason why a connection ended early.
#[derive(Debug)]
pub enum Broken {
    /// The client went away, or the connection broke.
    Gone,
    /// The client broke the protocol, or was idle for too long: this is logged.
    Client(String),
}

impl From<super::stream::Fault> for Broken {
    fn from(fault: super::stream::Fault) -> Broken {
        Broken::Client(fault.0)
    }
}

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Broken {
        Broken::Gone
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Regression: a client that took ten kilobytes a second hid a crash for a minute and a half.
    #[test]
    fn a_client_that_takes_too_little_is_too_slow_and_one_that_keeps_up_is_not() {
        let begun = Instant::now();
        let ends = |bytes: usize, behind: &dyn Fn(u32) -> bool| {
            let mut pace = Pace::default();
            (0..600).find(|n| pace.note(bytes, behind(*n), begun + Duration::from_millis(100) * *n))
        };
        assert_eq!(ends(0, &|_| true), Some(100));
        assert_eq!(ends(1_000, &|_| true), Some(100));
        assert_eq!(ends(20_000, &|_| true), None);
        assert_eq!(ends(1_000, &|n| n % 50 != 0), None, "nothing waits now and then");
    }
}
