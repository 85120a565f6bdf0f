//! Docker's events of images, beside those of containers and in the same thread: a stream of its own, because the labels by
//! which the events of containers are chosen would have to be on the images, too. It makes no list and no timer; without
//! it images are known when they are listed.
//!
//! Never here: what an event means.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::base::clock::{Clock as _, System};
use crate::base::limits;
use crate::daemon::events::Listener;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::event_stream::{EventNext, EventStream};

/// The stream, while there is one.
#[derive(Debug, Default)]
pub(super) struct ImageEvents {
    stream: Option<EventStream>,
    /// When the stream was asked for, until it has told an event.
    begun: Option<Instant>,
    /// From where on the next stream replays events, in seconds of wall time: the last event, or the first stream if none
    /// was heard.
    since: Option<i64>,
    /// When the next stream is asked for, if Docker gave none.
    again: Option<Instant>,
}

impl ImageEvents {
    /// Subscribes if there is no stream.
    pub fn subscribe(&mut self, docker: &Docker, listener: &dyn Listener) {
        let is_early = self.again.is_some_and(|again| Instant::now() < again);
        if self.stream.is_some() || is_early || !listener.wants_images() {
            return;
        }
        // It begins a moment after this, when Docker has read the request, and nothing waits for that.
        let since = *self.since.get_or_insert_with(|| System::start().now().wall.as_second());
        self.begun = Some(Instant::now());
        match docker.image_events(since) {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.refused(&error.to_string()),
        }
    }

    fn refused(&mut self, why: &str) {
        log::debug!("no events of images: {why}");
        self.again = Instant::now().checked_add(limits::IMAGE_STREAM_AGAIN);
    }

    /// Becomes readable when there may be events.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(EventStream::as_fd)
    }

    /// Takes the events that are there. Returns whether there may be more.
    pub fn take(&mut self, listener: &dyn Listener) -> bool {
        for _ in 0..limits::IMAGE_EVENTS {
            let Some(stream) = &mut self.stream else { return false };
            match stream.next(&Wait::at_most(Duration::ZERO)) {
                EventNext::Event(event) => {
                    self.since = Some(event.time_nano / NANOS);
                    self.begun = None;
                    listener.image_event(Some(&event));
                }
                EventNext::Unread => listener.image_event(None),
                EventNext::Idle => return false,
                EventNext::End(why) => {
                    let early = self.begun.is_some_and(|begun| begun.elapsed() < limits::IMAGE_STREAM_EARLY);
                    if early {
                        self.refused(&why.to_string());
                    } else {
                        log::debug!("the events of images ended: {why}");
                    }
                    self.lost(listener);
                }
            }
        }
        true
    }

    /// The stream is over.
    pub fn lost(&mut self, listener: &dyn Listener) {
        if self.stream.take().is_some() {
            listener.image_event(None);
        }
    }
}

const NANOS: i64 = 1_000_000_000;
