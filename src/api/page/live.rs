//! The page's updates as server-sent events: first everything, then changes as they happen.
//!
//! Never here: a wait for a browser that takes nothing ([`limits::SERVER_WRITE`]), or memory for bytes that it has not
//! taken: a page that falls behind the world's history gets everything again.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::base::json::json;
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::figures::Figures;
use super::view;
use crate::api::kinds::Resource;
use crate::api::told::Waker;
use crate::api::world::{Change, Key, Object, State, World};
use crate::base::clock::{Clock as _, System, Timestamp};
use crate::base::wait::{self, later};
use crate::base::{limits, order};
use crate::server::connection::Sink;
use crate::server::kubelet::Node;
use crate::status::snapshot::Snapshot;

/// One open page.
pub struct Live {
    pub node: Arc<Node>,
    pub world: Arc<World>,
    pub figures: Arc<Figures>,
    pub waker: Waker,
}

/// The last state that the page has.
struct Known {
    version: u64,
    figures: u64,
    node: Value,
}

impl Live {
    /// Sends updates until the browser is gone or the time is over.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn pour(self, sink: &mut Sink<'_>) -> io::Result<()> {
        let end = later(limits::PAGE_STREAM);
        let mut known = self.begin(sink)?;
        let mut due = Instant::now();
        let mut alive = later(limits::PAGE_ALIVE);
        loop {
            if Instant::now() >= due {
                self.figures.take(&self.node);
                due = later(limits::PAGE_STEP);
            }
            self.waker.rest();
            if self.news(sink, &mut known)? {
                alive = later(limits::PAGE_ALIVE);
            }
            let woken = self.wait(sink, end.min(due).min(alive))?;
            if woken {
                // Changes that happen together are sent together, and a pod that changes all the time costs little.
                wait_for(sink, later(limits::PAGE_GATHER), None)?;
            }
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if now >= alive {
                sink.write(b":\n\n")?;
                alive = later(limits::PAGE_ALIVE);
            }
        }
    }

    /// Waits; returns whether there may be updates.
    fn wait(&self, sink: &mut Sink<'_>, until: Instant) -> io::Result<bool> {
        wait_for(sink, until, Some(&self.waker))
    }

    fn begin(&self, sink: &mut Sink<'_>) -> io::Result<Known> {
        let retry = format!("retry: {}\n\n", limits::PAGE_AGAIN.as_millis());
        sink.write(retry.as_bytes())?;
        self.tell_all(sink)
    }

    /// Sends everything: objects that the page shows and that are missing in it are gone.
    fn tell_all(&self, sink: &mut Sink<'_>) -> io::Result<Known> {
        let now = now();
        let node = view::node(&self.snapshot());
        let (version, pods, events) = {
            let state = self.world.now();
            let of = |resource| state.list(resource, None).map(|(_, object)| Arc::clone(object));
            let pods: Vec<Arc<Object>> = of(Resource::Pods).collect();
            (state.version(), pods, latest_events(&state))
        };
        let (figures, points) = self.figures.since(0);
        let all = json!({
            "now": now.as_millisecond(),
            "step": limits::PAGE_STEP.as_secs(),
            "span": limits::PAGE_STEP.as_secs().saturating_mul(limits::PAGE_FIGURES as u64),
            "node": node,
            "pods": pods.iter().filter_map(|pod| view::pod(&pod.value, now)).collect::<Vec<_>>(),
            "events": events.iter().map(|event| view::event(&event.value)).collect::<Vec<_>>(),
            "figures": points,
        });
        send(sink, "all", &all)?;
        Ok(Known { version, figures, node })
    }

    /// Sends changes; returns whether there were any.
    fn news(&self, sink: &mut Sink<'_>, known: &mut Known) -> io::Result<bool> {
        let changes = {
            let state = self.world.now();
            let since = |resource| state.since(resource, known.version);
            let changes = since(Resource::Pods).and_then(|pods| Ok((pods, since(Resource::Events)?)));
            changes.map(|(pods, events)| (state.version(), pods, events))
        };
        let Ok((version, pods, events)) = changes else {
            *known = self.tell_all(sink)?;
            return Ok(true);
        };
        known.version = version;
        let now = now();
        let mut is_new = false;
        for change in last_of_each(pods) {
            is_new = true;
            match change.after.and_then(|pod| view::pod(&pod.value, now)) {
                Some(pod) => send(sink, "pod", &pod)?,
                None => send(sink, "gone", &json!({"ns": change.key.0, "name": change.key.1}))?,
            }
        }
        for event in in_time(last_of_each(events).into_iter().filter_map(|change| change.after).collect()) {
            is_new = true;
            send(sink, "event", &view::event(&event.value))?;
        }
        let node = view::node(&self.snapshot());
        if node != known.node {
            is_new = true;
            send(sink, "node", &node)?;
            known.node = node;
        }
        let (newest, points) = self.figures.since(known.figures);
        if newest != known.figures {
            is_new = true;
            send(sink, "figures", &points)?;
            known.figures = newest;
        }
        Ok(is_new)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.world.told().get().snapshot
    }
}

/// The last change of each object, in the order in which they came.
fn last_of_each(changes: Vec<Change>) -> Vec<Change> {
    let mut last: Vec<Change> = Vec::new();
    for change in changes {
        let is_other = |known: &Change, key: &Key| known.key != *key;
        last.retain(|known| is_other(known, &change.key));
        last.push(change);
    }
    last
}

/// The latest events, oldest first. Their versions are no order: those that come between two requests get theirs by
/// name.
fn latest_events(state: &State) -> Vec<Arc<Object>> {
    let all = state.list(Resource::Events, None).map(|(_, object)| Arc::clone(object)).collect();
    let mut all = in_time(all);
    let spare = all.len().saturating_sub(limits::PAGE_EVENTS);
    all.split_off(spare)
}

/// Sorts events by the time of their last occurrence, whose notation sorts by time.
fn in_time(mut events: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    let last = |object: &Arc<Object>| object.value.get("lastTimestamp").map(Value::to_string);
    order::sort_by_key(&mut events, last);
    events
}

/// Sends one event of the stream. JSON has no line breaks here.
fn send(sink: &mut Sink<'_>, name: &str, data: &Value) -> io::Result<()> {
    sink.write(format!("event: {name}\ndata: {data}\n\n").as_bytes())
}

/// Waits until this time, or until the waker; returns `true` for the waker.
///
/// # Errors
/// The browser is gone.
fn wait_for(sink: &mut Sink<'_>, until: Instant, waker: Option<&Waker>) -> io::Result<bool> {
    let mut set = vec![PollFd::from_borrowed_fd(sink.fd(), PollFlags::IN)];
    set.extend(waker.map(|waker| PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)));
    let ready = wait::until(set, Some(until))?;
    let is_ready = |at: usize| ready.get(at).is_some_and(|flags| !flags.is_empty());
    let (of_sink, of_waker) = (is_ready(0), is_ready(1));
    if of_sink && sink.is_gone() {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    Ok(of_waker)
}

fn now() -> Timestamp {
    System::start().now().wall
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_order_of_their_time_and_not_of_their_versions() {
        let event = |version, last: &str| {
            let value = json!({"metadata": {"name": last}, "lastTimestamp": last});
            Arc::new(Object { version, value })
        };
        let (early, late) = ("2026-01-02T03:00:00Z", "2026-01-02T03:00:01Z");
        let sorted = in_time(vec![event(1, late), event(2, early)]);
        let names: Vec<&str> =
            sorted.iter().filter_map(|event| event.value["lastTimestamp"].as_str()).collect();
        assert_eq!(names, [early, late]);
    }
}
