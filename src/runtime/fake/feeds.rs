//! The long answers of the in-memory engine, as bytes over a socket pair: the bytes that a stream of the real
//! client reads after the HTTP head. No call blocks here; a slow reader gets the bytes later, and a reader
//! that lags by more than the ring of events loses some, as with Docker.

use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::base::json::json;

use super::answers::has_label;
use super::events::{Cursor, EventNext, FakeEvent};
use super::state::State;
use crate::runtime::{DockerError, DockerState};

/// One open stream.
pub(super) struct Feed {
    socket: UnixStream,
    unsent: Vec<u8>,
    source: Source,
}

/// The content that still comes.
pub(super) enum Source {
    /// Events of containers with these labels.
    Events(Cursor, Vec<String>),
    /// Events of images.
    Images(Cursor),
    /// No bytes; it ends when this run of the container ends.
    Life(String, u32),
    /// No bytes; it ends with the exec.
    Exec(String),
    /// The stream is over.
    Over,
}

impl Feed {
    /// A stream that begins with these bytes, and the reader's end of it.
    pub(super) fn open(begin: Vec<u8>, source: Source) -> Result<(Feed, OwnedFd), DockerError> {
        let pair = UnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            Ok((ours, theirs))
        });
        let (socket, theirs) = pair.map_err(|e| DockerError::Unreachable(format!("fake engine: {e}")))?;
        Ok((Feed { socket, unsent: begin, source }, theirs.into()))
    }

    /// Whether its reader has not taken all bytes.
    pub(super) fn lags(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Writes available bytes; returns false when the stream is over.
    pub(super) fn pump(&mut self, state: &State) -> bool {
        loop {
            while !self.unsent.is_empty() {
                match self.socket.write(&self.unsent) {
                    Ok(n) => drop(self.unsent.drain(..n.min(self.unsent.len()))),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                    Err(_) => return false,
                }
            }
            match &mut self.source {
                Source::Events(cursor, labels) => match state.next_event(cursor) {
                    EventNext::Event(e) if labels.iter().all(|l| has_label(&e.labels, l)) => {
                        self.unsent = line(&e, "container");
                    }
                    EventNext::Event(_) => {}
                    EventNext::Idle => return true,
                    EventNext::End(_) => return false,
                },
                Source::Images(cursor) => match state.next_image_event(cursor) {
                    EventNext::Event(e) => self.unsent = line(&e, "image"),
                    EventNext::Idle => return true,
                    EventNext::End(_) => return false,
                },
                Source::Life(id, starts) => {
                    let same = |state: DockerState, n: u32| state == DockerState::Running && n == *starts;
                    return state.get(id).is_some_and(|c| same(c.state, c.starts));
                }
                Source::Exec(id) => return state.execs.iter().any(|e| e.id == *id && e.code.is_none()),
                Source::Over => return false,
            }
        }
    }
}

/// One line of `GET /events`.
fn line(e: &FakeEvent, kind: &str) -> Vec<u8> {
    let mut line = json!({
        "status": e.action, "id": e.id, "from": e.labels.get("image"), "Type": kind,
        "Action": e.action, "Actor": { "ID": e.id, "Attributes": e.labels }, "scope": "local",
        "time": e.time_nano / 1_000_000_000, "timeNano": e.time_nano,
    })
    .to_string()
    .into_bytes();
    line.push(b'\n');
    line
}

/// Standard output in Docker's framing; raw with a terminal; empty for an empty text.
pub(super) fn frame(text: &str, tty: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !tty && !text.is_empty() {
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// The last `n` lines.
pub(super) fn tail(text: &str, n: usize) -> &str {
    let from = text.lines().count().saturating_sub(n);
    let skip: usize = text.split_inclusive('\n').take(from).map(str::len).sum();
    text.get(skip..).unwrap_or_default()
}
