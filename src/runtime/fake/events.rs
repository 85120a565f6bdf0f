//! The in-memory engine's event streams, of containers and of images: rings, as in Docker, and their subscriptions. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::faults::Fault;
use super::state::{State, Timer};
use crate::base::clock::Now;
use crate::base::limits::FAKE_EVENTS;
use crate::runtime::DockerError;

/// One event of a container or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeEvent {
    /// Container or image id; the name of an image that was pulled.
    pub id: String,
    /// `create`, `start`, `kill`, `oom`, `die`, `destroy`, `exec_…`; `pull`, `load`, `tag`, `untag`, `delete`.
    pub action: String,
    /// The actor's attributes: all labels, `image`, `name`, and `exitCode` or `signal`.
    pub labels: BTreeMap<String, String>,
    /// Wall time in nanoseconds; never the same twice in a row.
    pub time_nano: i64,
}

/// The next result of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventNext {
    Event(FakeEvent),
    /// There is no event now.
    Idle,
    /// The connection is gone.
    End(String),
}

/// A subscription's position in the stream of events.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    next: u64,
    connection: u64,
}

struct Entry {
    event: FakeEvent,
    /// Not delivered to subscribers; a replay (`since`) still has it.
    lost: bool,
}

/// The last events, and the faults in their delivery.
#[derive(Default)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    /// Number of the event that will be pushed next.
    next: u64,
    /// Events of images, in which no fault occurs, and the number of the next one.
    images: (VecDeque<FakeEvent>, u64),
    overtaken: Option<FakeEvent>,
    silent: bool,
    connection: u64,
    /// Wall time of the last event, and the stamp it got.
    stamp: (i64, i64),
}

impl State {
    /// Subscribes from now on, or from the first kept event at or after `since` (wall time, nanoseconds).
    ///
    /// # Errors
    /// The engine is down.
    pub fn subscribe(&mut self, since: Option<i64>) -> Result<Cursor, DockerError> {
        self.reachable()?;
        self.ring.silent = false;
        let first = self.ring.next.saturating_sub(self.ring.entries.len() as u64);
        let skipped =
            since.map(|since| self.ring.entries.iter().take_while(|e| e.event.time_nano < since).count());
        for entry in self.ring.entries.iter_mut().skip(skipped.unwrap_or(usize::MAX)) {
            entry.lost = false;
        }
        let next = skipped.map_or(self.ring.next, |n| first.saturating_add(n as u64));
        Ok(Cursor { next, connection: self.ring.connection })
    }

    /// The next event of a subscription. One that lags behind by more than [`FAKE_EVENTS`] misses some.
    pub fn next_event(&self, cursor: &mut Cursor) -> EventNext {
        if cursor.connection != self.ring.connection {
            return EventNext::End("the fake engine closed the connection".into());
        }
        let first = self.ring.next.saturating_sub(self.ring.entries.len() as u64);
        while cursor.next < self.ring.next {
            let at = cursor.next.saturating_sub(first);
            cursor.next = cursor.next.max(first).saturating_add(1);
            let entry = usize::try_from(at).ok().and_then(|at| self.ring.entries.get(at));
            if let Some(Entry { event, lost: false }) = entry {
                return EventNext::Event(event.clone());
            }
        }
        EventNext::Idle
    }

    /// Subscribes to events of images from now on, or from the first kept one at or after `since`, as with
    /// [`State::subscribe`].
    ///
    /// # Errors
    /// The engine is down.
    pub fn subscribe_images(&mut self, since: Option<i64>) -> Result<Cursor, DockerError> {
        self.reachable()?;
        let (kept, end) = &self.ring.images;
        let replayed =
            since.map_or(0, |since| kept.iter().rev().take_while(|e| e.time_nano >= since).count());
        Ok(Cursor { next: end.saturating_sub(replayed as u64), connection: self.ring.connection })
    }

    /// The next event of an image for a subscription of [`State::subscribe_images`].
    pub fn next_image_event(&self, cursor: &mut Cursor) -> EventNext {
        if cursor.connection != self.ring.connection {
            return EventNext::End("the fake engine closed the connection".into());
        }
        let (kept, end) = &self.ring.images;
        let first = end.saturating_sub(kept.len() as u64);
        let next = cursor.next.max(first);
        let event = usize::try_from(next.saturating_sub(first)).ok().and_then(|at| kept.get(at));
        event.map_or(EventNext::Idle, |event| {
            cursor.next = next.saturating_add(1);
            EventNext::Event(event.clone())
        })
    }

    /// Publishes an event of an image, at the time of the last event of a container.
    pub(super) fn publish_image(&mut self, action: &str, id: &str, name: &str) {
        let labels = [("name".to_owned(), name.to_owned())].into();
        let time_nano = self.ring.stamp.1;
        let (kept, end) = &mut self.ring.images;
        if kept.len() >= FAKE_EVENTS {
            kept.pop_front();
        }
        kept.push_back(FakeEvent { id: id.into(), action: action.into(), labels, time_nano });
        *end = end.saturating_add(1);
    }

    /// Publishes an event of a container (also for its execs).
    pub(super) fn publish_of(&mut self, key: &str, action: &str, more: &[(&str, String)], now: Now) {
        if let Some(event) = self.get(key).map(|c| c.event(action, more)) {
            self.publish(event, now);
        }
    }

    pub(super) fn publish(&mut self, mut event: FakeEvent, now: Now) {
        let wall = i64::try_from(now.wall.as_nanosecond()).unwrap_or(0);
        let stamp = if wall == self.ring.stamp.0 { self.ring.stamp.1.saturating_add(1) } else { wall };
        self.ring.stamp = (wall, stamp);
        event.time_nano = stamp;
        match self.faults.draw_event(now.mono) {
            Some(Fault::EventLost) => self.push(event, true),
            Some(Fault::EventTwice) => {
                self.push(event.clone(), false);
                self.push(event, false);
            }
            Some(Fault::EventOvertaken) if self.ring.overtaken.is_none() => {
                self.ring.overtaken = Some(event);
                self.schedule(now.mono.after(Duration::from_millis(100)), Timer::Overtaken);
            }
            fault => {
                self.ring.silent |= fault == Some(Fault::EventsSilent);
                self.push(event, false);
                if fault == Some(Fault::EventsCut) {
                    self.cut_events();
                }
            }
        }
    }

    fn push(&mut self, event: FakeEvent, lost: bool) {
        if self.ring.entries.len() >= FAKE_EVENTS {
            self.ring.entries.pop_front();
        }
        self.ring.entries.push_back(Entry { event, lost: lost || self.ring.silent });
        self.ring.next += 1;
        self.deliver_delayed();
    }

    /// Delivers the event that was held back.
    pub(super) fn deliver_delayed(&mut self) {
        if let Some(earlier) = self.ring.overtaken.take() {
            self.push(earlier, false);
        }
    }

    /// Disconnects all subscribers.
    pub fn cut_events(&mut self) {
        self.ring.connection += 1;
    }

    /// Empties the ring and disconnects all subscribers, as a new engine does.
    pub(super) fn forget_events(&mut self) {
        self.ring.entries.clear();
        self.ring.images.0.clear();
        self.ring.overtaken = None;
        self.cut_events();
    }
}
