//! Watches: events as they happen, one JSON object in each line.
//!
//! Never here: a wait for a client that takes nothing ([`limits::SERVER_WRITE`]), or memory for bytes that it has not
//! taken: events come from the world's history, and a client that falls behind it gets 410 and lists again.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::json::json;
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

use super::asked::{Form, Wanted};
use super::failure::Failure;
use super::kinds::{Kind, Resource};
use super::reads;
use super::table;
use super::told::Waker;
use super::value::place;
use super::world::{Change, Object, World};
use crate::base::limits;
use crate::base::wait::{self, later};
use crate::server::connection::Sink;

/// One watch.
pub struct Watch {
    pub world: Arc<World>,
    pub kind: &'static Kind,
    pub namespace: Option<String>,
    /// Name of a single object.
    pub name: Option<String>,
    pub wanted: Wanted,
    pub waker: Waker,
}

/// An event to send.
#[derive(Debug, Clone)]
struct Event {
    kind: &'static str,
    object: Arc<Object>,
}

impl Watch {
    /// Sends events until the client is gone or the time is over.
    ///
    /// # Errors
    /// The client is gone.
    pub fn pour(self, sink: &mut Sink<'_>) -> io::Result<()> {
        let timeout = Duration::from_secs(self.wanted.timeout.unwrap_or(limits::API_WATCH.as_secs()));
        let end = later(timeout.min(limits::API_WATCH));
        let mut is_first = true;
        let mut known = match self.begin(sink, &mut is_first)? {
            Some(version) => version,
            None => return Ok(()),
        };
        // Other kinds may change more often than this.
        let mut bookmark = later(limits::API_BOOKMARK);
        loop {
            self.waker.rest();
            let (events, newest) = match self.news(known) {
                Ok(new) => new,
                Err(failure) => return send(sink, "ERROR", &failure.status()),
            };
            known = newest;
            for event in events {
                self.send_event(sink, &event, &mut is_first)?;
            }
            let until = if self.wanted.bookmarks { end.min(bookmark) } else { end };
            let set = vec![
                PollFd::from_borrowed_fd(self.waker.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(sink.fd(), PollFlags::IN),
            ];
            let ready = wait::until(set, Some(until))?;
            if ready.get(1).is_some_and(|flags| !flags.is_empty()) && sink.is_gone() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            if self.wanted.bookmarks && now >= bookmark {
                self.bookmark(sink, known, false)?;
                bookmark = later(limits::API_BOOKMARK);
            }
        }
    }

    /// Sends the initial objects, if requested; returns the version to continue from.
    fn begin(&self, sink: &mut Sink<'_>, is_first: &mut bool) -> io::Result<Option<u64>> {
        let wants_all = match (self.wanted.initial, self.wanted.version) {
            (Some(initial), _) => initial,
            (None, None | Some(0)) => true,
            (None, Some(_)) => false,
        };
        let (version, all) = {
            let state = self.world.now();
            let all = state.list(self.kind.resource, self.namespace.as_deref());
            let all = all.filter(|_| wants_all).map(|(_, object)| Arc::clone(object));
            (state.version(), all.filter(|object| self.selects(object)).collect::<Vec<_>>())
        };
        if !wants_all {
            return Ok(Some(self.wanted.version.unwrap_or(version)));
        }
        for object in all {
            self.send_event(sink, &Event { kind: "ADDED", object }, is_first)?;
        }
        if self.wanted.initial == Some(true) && self.wanted.bookmarks {
            self.bookmark(sink, version, true)?;
        }
        Ok(Some(version))
    }

    /// The events after a version, and the newest version.
    fn news(&self, known: u64) -> Result<(Vec<Event>, u64), Failure> {
        let state = self.world.now();
        if known > state.version() {
            let why = format!("Too large resource version: {known}, current: {}", state.version());
            return Err(Failure::new(504, why));
        }
        let changes = state.since(self.kind.resource, known);
        let changes = changes.map_err(|_| {
            Failure::new(410, format!("too old resource version: {known} ({})", state.version()))
        })?;
        Ok((changes.into_iter().filter_map(|change| self.event(&change)).collect(), state.version()))
    }

    /// A change as an event for the selected objects.
    fn event(&self, change: &Change) -> Option<Event> {
        if self.namespace.as_ref().is_some_and(|namespace| *namespace != change.key.0) {
            return None;
        }
        let before = change.before.as_ref().filter(|object| self.selects(object));
        let after = change.after.as_ref().filter(|object| self.selects(object));
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(object)) => ("ADDED", Arc::clone(object)),
            (Some(_), Some(object)) => ("MODIFIED", Arc::clone(object)),
            (Some(object), None) => {
                let mut value = object.value.clone();
                super::world::set_version(&mut value, change.version);
                ("DELETED", Arc::new(Object { version: change.version, value }))
            }
        };
        Some(Event { kind, object })
    }

    fn selects(&self, object: &Object) -> bool {
        let name = object.value.pointer("/metadata/name").and_then(Value::as_str);
        self.name.as_deref().is_none_or(|wanted| name == Some(wanted)) && self.wanted.selects(&object.value)
    }

    fn send_event(&self, sink: &mut Sink<'_>, event: &Event, is_first: &mut bool) -> io::Result<()> {
        let is_first = std::mem::take(is_first);
        let object = match self.wanted.form {
            Form::Table(include) => reads::event_table(self.kind, &event.object, include, is_first),
            Form::Whole if self.kind.resource != Resource::Leases => {
                return send(sink, event.kind, &event.object.value);
            }
            form => reads::in_form(self.kind, &event.object, form),
        };
        send(sink, event.kind, &object)
    }

    fn bookmark(&self, sink: &mut Sink<'_>, version: u64, is_end: bool) -> io::Result<()> {
        let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if is_end {
            *place(&mut metadata, &["annotations"]) = json!({"k8s.io/initial-events-end": "true"});
        }
        let object =
            json!({"kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata});
        let object = match self.wanted.form {
            Form::Whole => object,
            Form::Partial => table::partial(&object),
            Form::Table(_) => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                                     "columnDefinitions": [], "rows": []}),
        };
        send(sink, "BOOKMARK", &object)
    }
}

/// Sends one line in pieces: a client that takes nothing holds one piece in memory, and not the object's whole text.
fn send(sink: &mut Sink<'_>, kind: &str, object: &Value) -> io::Result<()> {
    write_line(kind, object, |piece| sink.write(piece))
}

fn write_line(kind: &str, object: &Value, write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    /// A writer that passes pieces to a function.
    struct Out<F>(F);

    impl<F: FnMut(&[u8]) -> io::Result<()>> Write for Out<F> {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            // A text within an object is one write, however long it is.
            let piece = piece.get(..limits::ANSWER_PIECE).unwrap_or(piece);
            (self.0)(piece).map(|()| piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut out = BufWriter::with_capacity(limits::ANSWER_PIECE, Out(write));
    write!(out, "{{\"type\":\"{kind}\",\"object\":")?;
    serde_json::to_writer(&mut out, object)?;
    out.write_all(b"}\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_goes_out_in_pieces() {
        for bytes in [0, 10, limits::ANSWER_PIECE, limits::ANSWER_PIECE * 3 + 1] {
            let object = json!({"data": {"a": "x".repeat(bytes), "b": "\n\"é"}, "kind": "ConfigMap"});
            let (mut line, mut largest) = (Vec::new(), 0);
            let write = |piece: &[u8]| {
                largest = largest.max(piece.len());
                line.extend_from_slice(piece);
                Ok(())
            };
            write_line("ADDED", &object, write).unwrap();
            assert!(largest <= limits::ANSWER_PIECE, "{largest}");
            let text = String::from_utf8(line).unwrap();
            assert_eq!(text.matches('\n').count(), 1);
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, json!({"type": "ADDED", "object": object}));
        }
    }
}
