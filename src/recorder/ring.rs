//! The events that are kept: each once, with a count, as many as [`limits`] lets. Pure.
//!
//! As upstream's correlator does, texts that differ from time to time (a probe that prints the hour) become
//! one event after the first [`limits::EVENT_VARIANTS`]; so no container can push out what others say. And
//! what is said again is rarely logged again: a crash loop must not fill a log on flash.

use std::collections::VecDeque;
use std::sync::Arc;

use super::PodEvent;
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;

/// Begins the message of an event that stands for many (upstream `events_cache.go`).
pub const COMBINED: &str = "(combined from similar events): ";

/// An event, and how often it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The event.
    pub event: PodEvent,
    /// Differs from event to event: nanoseconds of its first time, or a little more.
    pub serial: i128,
    /// First time, wall clock: for people.
    pub first: Timestamp,
    /// Last time, wall clock: for people.
    pub last: Timestamp,
    /// How often.
    pub count: u32,
    /// When its log line was last written; `None`: by an earlier daemon, if at all.
    logged: Option<Mono>,
}

impl Kept {
    /// An event as an earlier daemon wrote it down.
    #[must_use]
    pub fn restored(event: PodEvent, serial: i128, first: Timestamp, last: Timestamp, count: u32) -> Kept {
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
        let PodEvent { pod, subject, reason, message, .. } = &self.event;
        let container = subject.as_ref().map(|s| format!("container {}: ", s.name)).unwrap_or_default();
        let times = if self.count > 1 { format!(" (x{})", self.count) } else { String::new() };
        Some(format!("pod {pod}: {container}{reason}: {message}{times}"))
    }
}

/// What has changed since the file was last told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Known events happened again.
    Repeated,
    /// There is a new one.
    New,
}

/// See the module. Ordered by the last time.
#[derive(Debug, Default)]
pub struct Ring {
    kept: VecDeque<Arc<Kept>>,
    bytes: usize,
    serial: i128,
    changed: Option<Change>,
}

impl Ring {
    /// Takes what an earlier daemon wrote down, in its order.
    pub fn restore(&mut self, kept: impl IntoIterator<Item = Kept>) {
        for kept in kept {
            self.serial = self.serial.max(kept.serial);
            self.push(kept);
        }
    }

    /// Takes an event. Gives its log line, if one is to be written.
    pub fn add(&mut self, event: PodEvent, now: &Now) -> Option<String> {
        let same = self.kept.iter().rposition(|k| k.event == event && !k.is_combined());
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

    /// One text too many of the same kind: it is told as one of many, in the place of the last of these.
    fn combine(&self, mut event: PodEvent) -> (Option<usize>, PodEvent) {
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

    /// What has changed since this was last asked.
    pub fn take_changed(&mut self) -> Option<Change> {
        self.changed.take()
    }

    /// All that is kept, the latest last. Cheap.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Kept>> {
        self.kept.iter().cloned().collect()
    }
}
