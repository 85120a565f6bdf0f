//! Docker's `/events`, one event at a time. Events are hints: they name the container or image to look at, and may be
//! lost, doubled or late (docker-archive/classicswarm#2309). Never here: a reaction to an event.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use serde_json::Value;

use super::connection::Wait;
use super::lines::{Line, Lines};
use super::stream::{Body, Read};

/// The change that an event reports, of a container or of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventAction {
    /// The container was created.
    Create,
    /// It was started.
    Start,
    /// Its main process ended.
    Die,
    /// The OOM killer killed a process in it; comes before [`EventAction::Die`].
    Oom,
    /// It was removed. For an image, Podman also says so when only a name of it was removed.
    Destroy,
    /// It was renamed.
    Rename,
    /// An image got a name, which is the attribute `name`.
    Tag,
    /// An image lost a name. Docker does not say which one.
    Untag,
    /// An image was pulled. Docker has its name in place of its id.
    Pull,
    /// An image came in another way: from an archive, or built.
    Load,
    /// Anything else: kill, stop, `exec_start: sh -c …`, save, push.
    Other,
}

impl EventAction {
    /// Parses Docker's word, or Podman's.
    #[must_use]
    pub fn parse(word: &str) -> EventAction {
        match word {
            "create" => EventAction::Create,
            "start" => EventAction::Start,
            "die" | "died" => EventAction::Die,
            "oom" => EventAction::Oom,
            "rename" => EventAction::Rename,
            "destroy" | "remove" | "delete" => EventAction::Destroy,
            "tag" => EventAction::Tag,
            "untag" => EventAction::Untag,
            "pull" => EventAction::Pull,
            "load" | "loadfromarchive" | "import" | "build" => EventAction::Load,
            _ => EventAction::Other,
        }
    }
}

/// An event of a container or of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerEvent {
    /// Full id of the container or the image. Docker has the name of a pulled image here, and Podman nothing for one that
    /// comes from an archive.
    pub id: String,
    /// The change.
    pub action: EventAction,
    /// All labels of the container or the image, and Docker's `image`, `name`, `exitCode` and the like.
    pub labels: BTreeMap<String, String>,
    /// Docker's wall time in nanoseconds: only to tell replayed events from new ones.
    pub time_nano: i64,
}

/// The result of one read of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventNext {
    Event(DockerEvent),
    /// An event that was too long to be read; its container is unknown.
    Unread,
    /// The time was up, the wake-up came first, or the event is not needed.
    Idle,
    /// The stream has ended, for this reason: connect again and list.
    End(String),
}

impl DockerEvent {
    /// The attribute `name`: of a container, or the one that an image got.
    #[must_use]
    pub fn name(&self) -> &str {
        self.labels.get("name").map_or("", String::as_str)
    }
}

/// An open event stream.
#[derive(Debug)]
pub struct EventStream {
    body: Body,
    lines: Lines,
    ended: bool,
}

impl EventStream {
    /// Reads events from `body`, of which `begun` was read before.
    #[must_use]
    pub fn new(body: Body, begun: Vec<u8>) -> EventStream {
        let mut lines = Lines::default();
        *lines.space() = begun;
        EventStream { body, lines, ended: false }
    }

    /// Becomes readable when there may be another event.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.body.as_fd()
    }

    /// The next event. Any error of the stream ends it.
    pub fn next(&mut self, wait: &Wait<'_>) -> EventNext {
        let until = wait.until();
        let mut looked = false;
        loop {
            match self.lines.next(false) {
                Ok(Some(Line::TooLong)) => return EventNext::Unread,
                // An event of a container without an id is useless; the reader can do other work now.
                Ok(Some(Line::Json(value))) => {
                    return event(value).map_or(EventNext::Idle, EventNext::Event);
                }
                Ok(None) if self.ended => return EventNext::End("Docker ended the event stream".to_owned()),
                // A line that is too long may never end.
                Ok(None) if looked && until.is_some_and(|at| at <= Instant::now()) => {
                    return EventNext::Idle;
                }
                Ok(None) => {}
                Err(why) => return EventNext::End(format!("{}: {why}", self.body.what())),
            }
            looked = true;
            match self.body.read(self.lines.space(), wait) {
                Ok(Read::Bytes) => {}
                Ok(Read::End) => self.ended = true,
                Ok(Read::Idle | Read::Woken) => return EventNext::Idle,
                Err(error) => return EventNext::End(error.to_string()),
            }
        }
    }
}

fn event(mut value: Value) -> Option<DockerEvent> {
    let text = |at: &str| value.pointer(at).and_then(Value::as_str);
    let id = text("/Actor/ID").or_else(|| text("/id")).unwrap_or_default().to_owned();
    if id.is_empty() && text("/Type") != Some("image") {
        return None;
    }
    let action = EventAction::parse(text("/Action").or_else(|| text("/status")).unwrap_or_default());
    let time_nano = value.get("timeNano").and_then(Value::as_i64).unwrap_or(0);
    let labels = super::reply::labels(value.pointer_mut("/Actor/Attributes"));
    Some(DockerEvent { id, action, labels, time_nano })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    const START: &str = r#"{"status":"start","id":"ab","Type":"container","Action":"start","Actor":{"ID":"ab","Attributes":{"image":"x","k":"v"}},"time":1,"timeNano":12}"#;

    fn stream(bytes: &str) -> (EventStream, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes.as_bytes()).unwrap();
        (EventStream::new(Body::over(ours.into(), "GET /events").unwrap(), Vec::new()), theirs)
    }

    #[test]
    fn events_come_one_by_one() {
        let wait = Wait::at_most(Duration::from_secs(5));
        let exec = START.replace(r#""Action":"start""#, r#""Action":"exec_start: sh -c die""#);
        let old = r#"{"status":"die","id":"cd","timeNano":"soon"}"#;
        let (mut stream, theirs) = stream(&format!("{START}\n{exec}\n{{}}\n{old}\n{{\"to"));
        let expected = DockerEvent {
            id: "ab".into(),
            action: EventAction::Start,
            labels: [("image".to_owned(), "x".to_owned()), ("k".to_owned(), "v".to_owned())].into(),
            time_nano: 12,
        };
        assert_eq!(stream.next(&wait), EventNext::Event(expected.clone()));
        assert_eq!(
            stream.next(&wait),
            EventNext::Event(DockerEvent { action: EventAction::Other, ..expected })
        );
        assert_eq!(stream.next(&wait), EventNext::Idle, "one that says nothing holds nobody up");
        let EventNext::Event(event) = stream.next(&wait) else { panic!("no event") };
        assert_eq!((event.id.as_str(), event.action, event.time_nano), ("cd", EventAction::Die, 0));
        assert_eq!(stream.next(&Wait::at_most(Duration::ZERO)), EventNext::Idle);
        drop(theirs);
        // A line that is cut by the end of the stream is not an event.
        assert_eq!(stream.next(&wait), EventNext::End("Docker ended the event stream".into()));
        assert_eq!(stream.next(&wait), EventNext::End("Docker ended the event stream".into()));
    }

    /// As Docker 20.10 and Podman 4.3 write them.
    #[test]
    fn events_of_images() {
        let pull =
            r#"{"Type":"image","Action":"pull","Actor":{"ID":"a:1","Attributes":{"name":"a"}},"timeNano":1}"#;
        let load =
            r#"{"Type":"image","Action":"loadfromarchive","Actor":{"ID":"","Attributes":{"name":"/x.tar"}}}"#;
        let (mut stream, _theirs) = stream(&format!("{pull}\n{load}\n"));
        let wait = Wait::at_most(Duration::from_secs(5));
        let mut next = || match stream.next(&wait) {
            EventNext::Event(event) => (event.action, event.id.clone(), event.name().to_owned()),
            other => panic!("{other:?}"),
        };
        assert_eq!(next(), (EventAction::Pull, "a:1".into(), "a".into()));
        assert_eq!(next(), (EventAction::Load, String::new(), "/x.tar".into()), "without an id");
    }

    #[test]
    fn garbage_ends_the_stream() {
        let (mut stream, _theirs) = stream("<html>\n");
        let EventNext::End(why) = stream.next(&Wait::default()) else { panic!("no end") };
        assert_eq!(why, "GET /events: a line of the stream is not JSON");
    }

    /// Otherwise each new connection would meet the event again, with a full list each time.
    #[test]
    fn an_event_that_is_too_long_ends_nothing() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let long = START.replace("\"v\"", &format!("\"{}\"", "\\u003c".repeat(200_000)));
        let text = format!("{long}\n{START}\n");
        let writer = std::thread::spawn(move || theirs.write_all(text.as_bytes()).map(|()| theirs));
        let mut stream = EventStream::new(Body::over(ours.into(), "GET /events").unwrap(), Vec::new());
        let wait = Wait::at_most(Duration::from_secs(20));
        assert_eq!(stream.next(&wait), EventNext::Unread);
        assert!(matches!(stream.next(&wait), EventNext::Event(event) if event.id == "ab"));
        let _theirs = writer.join().unwrap().unwrap();
        assert_eq!(stream.next(&Wait::at_most(Duration::ZERO)), EventNext::Idle);
    }

    #[test]
    fn waiting_can_be_interrupted() {
        let (mut stream, _theirs) = stream("");
        let (wake, mut waker) = UnixStream::pair().unwrap();
        waker.write_all(b"!").unwrap();
        let wait = Wait { timeout: None, wake: Some(std::os::fd::AsFd::as_fd(&wake)) };
        assert_eq!(stream.next(&wait), EventNext::Idle);
    }

    #[test]
    fn words() {
        for (word, action) in [
            ("create", EventAction::Create),
            ("died", EventAction::Die),
            ("oom", EventAction::Oom),
            ("destroy", EventAction::Destroy),
            ("remove", EventAction::Destroy),
            ("delete", EventAction::Destroy),
            ("import", EventAction::Load),
            ("untag", EventAction::Untag),
            ("save", EventAction::Other),
            ("kill", EventAction::Other),
            ("exec_die", EventAction::Other),
            ("start: x", EventAction::Other),
        ] {
            assert_eq!(EventAction::parse(word), action, "{word}");
        }
    }
}
