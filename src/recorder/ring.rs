//! The kept events: each once, with a count, bounded by [`limits`]. Pure.
//!
//! As in upstream's correlator, texts that always differ (a probe that prints the time) become one event
//! after the first [`limits::EVENT_VARIANTS`], so that no container can displace the events of others. A
//! repeated event is rarely logged again: a crash loop must not fill a log on flash.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ObjectEvent;
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;

/// Prefix of the message of a combined event (upstream `events_cache.go`).
pub const COMBINED: &str = "(combined from similar events): ";

/// An event, with its count.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub event: ObjectEvent,
    /// Unique for each event: nanoseconds of its first time, or a little more.
    pub serial: i128,
    /// First time, wall clock: only shown.
    pub first: Timestamp,
    /// Last time, wall clock: only shown.
    pub last: Timestamp,
    /// Number of times.
    pub count: u32,
    /// When its log line was last written; `None`: by an earlier daemon, or never.
    logged: Option<Mono>,
}

impl Kept {
    /// An event from an earlier daemon's file.
    #[must_use]
    pub fn restored(event: ObjectEvent, serial: i128, first: Timestamp, last: Timestamp, count: u32) -> Kept {
        Kept { event, serial, first, last, count, logged: None }
    }

    fn is_combined(&self) -> bool {
        self.event.message.starts_with(COMBINED)
    }

    /// The log line, if one is due: the first time, at each power of ten, and after a long silence.
    fn line(&mut self, now: Mono) -> Option<String> {
        let quiet = self.logged.is_none_or(|at| now.since(at) >= limits::EVENT_LOG_AGAIN);
        if !quiet && self.count.checked_ilog10().is_none_or(|n| self.count != 10_u32.pow(n)) {
            return None;
        }
        self.logged = Some(now);
        let ObjectEvent { of, subject, reason, message, .. } = &self.event;
        let container = subject.as_ref().map(|s| format!("container {}: ", s.name)).unwrap_or_default();
        let times = if self.count > 1 { format!(" (x{})", self.count) } else { String::new() };
        Some(format!("{of}: {container}{reason}: {message}{times}"))
    }
}

/// Kind of change since the last write of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Known events happened again.
    Repeated,
    /// There is a new event.
    New,
}

/// The kept events, ordered by their last time. See the module.
#[derive(Debug, Default)]
pub struct Ring {
    kept: VecDeque<Arc<Kept>>,
    bytes: usize,
    serial: i128,
    changed: Option<Change>,
}

impl Ring {
    /// Takes over the events of an earlier daemon, in their order.
    pub fn restore(&mut self, kept: impl IntoIterator<Item = Kept>) {
        for kept in kept {
            self.serial = self.serial.max(kept.serial);
            self.push(kept);
        }
    }

    /// Takes an event. Returns its log line, if one is due.
    pub fn add(&mut self, event: ObjectEvent, now: &Now) -> Option<String> {
        let same = self.kept.iter().rposition(|k| !k.is_combined() && k.event.is_again(&event));
        let (at, event) = match same {
            Some(at) => (Some(at), event),
            None => self.combine(event),
        };
        let mut kept = match at.and_then(|at| self.take(at)) {
            Some(mut old) => {
                old.count = old.count.saturating_add(1);
                old.last = now.wall;
                old.event = event;
                self.changed = self.changed.max(Some(Change::Repeated));
                old
            }
            None => {
                self.changed = Some(Change::New);
                self.serial = now.wall.as_nanosecond().max(self.serial.saturating_add(1));
                let (first, last) = (now.wall, now.wall);
                Kept { event, serial: self.serial, first, last, count: 1, logged: None }
            }
        };
        let line = kept.line(now.mono);
        self.push(kept);
        line
    }

    /// Over the bound of texts of one kind, the event becomes the combined one, in its place.
    fn combine(&self, mut event: ObjectEvent) -> (Option<usize>, ObjectEvent) {
        let like = |k: &&Arc<Kept>| k.event.is_like(&event);
        if self.kept.iter().filter(like).count() < limits::EVENT_VARIANTS {
            return (None, event);
        }
        let at = self.kept.iter().rposition(|k| k.is_combined() && k.event.is_like(&event));
        event.message = super::cut(format!("{COMBINED}{}", event.message));
        (at, event)
    }

    fn take(&mut self, at: usize) -> Option<Kept> {
        let old = self.kept.remove(at)?;
        self.bytes = self.bytes.saturating_sub(old.event.size());
        Some(Arc::unwrap_or_clone(old))
    }

    fn push(&mut self, kept: Kept) {
        self.bytes = self.bytes.saturating_add(kept.event.size());
        self.kept.push_back(Arc::new(kept));
        while self.kept.len() > limits::EVENTS || self.bytes > limits::EVENTS_BYTES {
            if self.take(0).is_none() {
                return;
            }
        }
    }

    /// The change since the last call.
    pub fn take_changed(&mut self) -> Option<Change> {
        self.changed.take()
    }

    /// All kept events, the latest last. Cheap.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Kept>> {
        self.kept.iter().cloned().collect()
    }
}
