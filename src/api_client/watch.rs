//! A stream of events, one JSON object per line (`k8s.io/apimachinery/pkg/watch`).
//!
//! Never here: the meaning of an event for a pod.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::error::ApiError;
use super::json;
use super::line::{Broken, Line};
use crate::base::limits;
use crate::runtime::http1::{Head, Parser};

/// Annotation of the bookmark after the last object of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Added,
    Modified,
    Deleted,
    /// Only the version is used.
    Bookmark {
        /// It follows the last object of a streaming list.
        is_initial_end: bool,
    },
}

/// A change of one object.
#[derive(Clone, PartialEq)]
pub struct WatchEvent {
    pub kind: Kind,
    /// The current object, or its last state before the deletion. May hold a Secret's values.
    pub object: Value,
}

impl std::fmt::Debug for WatchEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of version {}", self.kind, self.version())
    }
}

impl WatchEvent {
    /// `metadata.resourceVersion`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
    }
}

/// The result of reading a watch.
#[derive(Debug, PartialEq)]
pub enum Next {
    Event(WatchEvent),
    /// No event within the time.
    Quiet,
    /// The server has ended the watch after the requested time.
    End,
}

/// See the head of this file. Dropping it closes its connection.
#[derive(Debug)]
pub struct Watch {
    line: Line,
    parser: Parser,
    lines: Lines,
    head: Head,
}

impl Watch {
    /// A watch after its answer's head; `body` has the bytes that were read already.
    pub(super) fn new(line: Line, parser: Parser, body: Vec<u8>, head: Head) -> Watch {
        let lines = Lines { bytes: body, searched: 0 };
        Watch { line, parser, lines, head }
    }

    /// Waits for the next event, at most `wait`.
    ///
    /// # Errors
    /// An error event of the server, a broken connection, or invalid bytes.
    pub fn next(&mut self, wait: Duration) -> Result<Next, ApiError> {
        let until = Instant::now() + wait;
        self.line.set_until(until);
        loop {
            if let Some(line) = self.lines.next()? {
                if line.is_empty() {
                    continue;
                }
                return event(&line, &self.head).map(Next::Event);
            }
            if self.parser.is_done() {
                return match self.lines.bytes.trim_ascii().is_empty() {
                    true => Ok(Next::End),
                    false => Err(ApiError::BadAnswer("a watch ended within an event".to_owned())),
                };
            }
            match self.line.read(&mut self.parser, &mut self.lines.bytes) {
                Ok(_) => {}
                Err(_) if Instant::now() >= until => return Ok(Next::Quiet),
                Err(Broken::For(error)) => return Err(error),
                Err(Broken::Stale) => {
                    return Err(ApiError::Unreachable("the server closed the connection".to_owned()));
                }
            }
        }
    }
}

/// Received bytes, split at line ends.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Number of bytes at the beginning without a line end.
    searched: usize,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.bytes.len())
    }
}

impl Lines {
    /// The next complete line, without its end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let unsearched = self.bytes.get(self.searched..).unwrap_or_default();
        match unsearched.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let end = self.searched.saturating_add(at);
                let rest = self.bytes.split_off(end.saturating_add(1));
                let mut line = std::mem::replace(&mut self.bytes, rest);
                line.truncate(end);
                self.searched = 0;
                Ok(Some(line))
            }
            None if self.bytes.len() > limits::API_EVENT => Err(ApiError::BadAnswer(format!(
                "an event of a watch is larger than {} bytes",
                limits::API_EVENT
            ))),
            None => {
                self.searched = self.bytes.len();
                Ok(None)
            }
        }
    }
}

/// Parses one event.
///
/// # Errors
/// The error in it, or that it is not an event.
fn event(line: &[u8], head: &Head) -> Result<WatchEvent, ApiError> {
    let mut event = json::parse(line, head)?;
    let object = event.get_mut("object").map(Value::take).unwrap_or_default();
    let kind = match event.get("type").and_then(Value::as_str) {
        Some("ADDED") => Kind::Added,
        Some("MODIFIED") => Kind::Modified,
        Some("DELETED") => Kind::Deleted,
        Some("BOOKMARK") => {
            let annotations = object.pointer("/metadata/annotations");
            let end = annotations.and_then(|all| all.get(INITIAL_END)).and_then(Value::as_str);
            Kind::Bookmark { is_initial_end: end == Some("true") }
        }
        Some("ERROR") => return Err(ApiError::of_status(&object)),
        _ => return Err(ApiError::BadAnswer("what the server sends is no event of a watch".to_owned())),
    };
    if !object.is_object() {
        return Err(ApiError::BadAnswer("an event of a watch has no object".to_owned()));
    }
    Ok(WatchEvent { kind, object })
}

/// Parses bytes like a watch, regardless of how they were split over reads; for the fuzz target.
#[cfg(feature = "testing")]
#[must_use]
pub fn events(pieces: &[&[u8]]) -> (Vec<WatchEvent>, Option<ApiError>) {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in pieces {
        lines.bytes.extend_from_slice(piece);
        loop {
            match lines.next() {
                Ok(Some(line)) if line.is_empty() => {}
                Ok(Some(line)) => match event(&line, &Head::default()) {
                    Ok(event) => found.push(event),
                    Err(error) => return (found, Some(error)),
                },
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_each_kind() {
        let text = concat!(
            r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}"#,
            "\n\n",
            r#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"2"}}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            "\n",
            r#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"5"}}}"#,
            "\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#,
            "\n",
        )
        .as_bytes();
        let shown = |pieces: &[&[u8]]| {
            let (found, error) = events(pieces);
            (found.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>(), error)
        };
        let (found, error) = shown(&[text]);
        assert_eq!(
            found,
            [
                "Added of version 1",
                "Modified of version 2",
                "Bookmark { is_initial_end: false } of version 3",
                "Bookmark { is_initial_end: true } of version 4",
                "Deleted of version 5"
            ]
        );
        assert!(error.is_some_and(|error| error.is_gone()));
        for at in 0..text.len() {
            let (a, b) = text.split_at(at);
            assert_eq!(shown(&[a, b]).0, found, "split at {at}");
        }
    }

    #[test]
    fn bytes_that_are_no_events() {
        for (text, part) in [
            ("<html>\n", "a web page"),
            ("{}\n", "no event of a watch"),
            ("{\"type\":\"ADDED\"}\n", "has no object"),
            ("{\"type\":\"NEW\",\"object\":{}}\n", "no event of a watch"),
        ] {
            let (found, error) = events(&[text.as_bytes()]);
            let error = error.unwrap().to_string();
            assert!(found.is_empty() && error.contains(part), "{error}");
        }
        let long = vec![b' '; limits::API_EVENT + 1];
        assert!(events(&[&long]).1.unwrap().to_string().contains("is larger than"));
    }
}
