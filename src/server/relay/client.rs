//! The client's side of an upgraded connection.
//!
//! Only [`Client::flush`] and [`Client::linger`] wait, for a bounded time.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Broken;
use crate::base::limits;
use crate::base::wait::{self, later};
use crate::server::connection::Upgraded;
use crate::server::stream::outgoing::Outgoing;
use crate::server::transport::Got;

/// The client's side of a connection.
#[derive(Debug)]
pub struct Client {
    upgraded: Upgraded,
}

impl Client {
    /// The client behind this connection.
    #[must_use]
    pub fn new(upgraded: Upgraded) -> Client {
        Client { upgraded }
    }

    /// Available bytes, at most [`limits::HTTP_READ`]; `None` when there are none now.
    ///
    /// # Errors
    /// The client sends no more: it is gone, because streams end by messages of their own.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        if !self.upgraded.early.is_empty() {
            return Ok(Some(std::mem::take(&mut self.upgraded.early)));
        }
        let mut bytes = Vec::new();
        match self.upgraded.transport.read(&mut bytes, limits::HTTP_READ)? {
            Got::Bytes(_) => Ok(Some(bytes)),
            Got::Nothing => Ok(None),
            Got::End => Err(Broken::Gone),
        }
    }

    /// Sends as much as possible now; returns true when something was sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, outgoing: &mut Outgoing) -> Result<bool, Broken> {
        let mut moved = false;
        while !outgoing.is_empty() {
            let taken = self.upgraded.transport.write(outgoing.rest())?;
            if taken == 0 {
                break;
            }
            outgoing.sent(taken);
            moved = true;
        }
        self.upgraded.transport.flush()?;
        Ok(moved)
    }

    /// The descriptor to poll: for reading when `wants_read`, for writing when something waits to be sent.
    #[must_use]
    pub fn poll(&self, wants_read: bool, has_outgoing: bool) -> PollFd<'_> {
        let mut flags = PollFlags::empty();
        if wants_read {
            flags |= PollFlags::IN;
        }
        if has_outgoing || self.upgraded.transport.wants_write() {
            flags |= PollFlags::OUT;
        }
        PollFd::from_borrowed_fd(self.fd(), flags)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.upgraded.transport.fd()
    }

    /// Closes the connection with a last message, if the client takes it at once.
    pub fn give_up(&mut self, outgoing: &mut Outgoing) {
        if self.send(outgoing).is_ok() {
            self.linger(limits::STREAM_LINGER_SHORT, &mut |_| false);
        }
    }

    /// Waits until the client closes the connection, so that what was sent arrives; only a moment after it `is_closed_by` what
    /// the client sends: that need not be an answer, and the client may not have read all.
    pub fn linger(&mut self, time: Duration, is_closed_by: &mut dyn FnMut(&[u8]) -> bool) {
        self.upgraded.transport.close_write();
        let mut end = later(time);
        let mut is_closed = false;
        // Its remaining bytes are read: closing a socket with unread bytes discards what was sent, and so do bytes that come
        // after that.
        while let Ok(bytes) = self.read() {
            if Instant::now() >= end {
                return;
            }
            match bytes {
                // What comes after that is dropped, however much it is.
                Some(bytes) if !is_closed && is_closed_by(&bytes) => {
                    is_closed = true;
                    end = end.min(later(limits::STREAM_LINGER_SHORT));
                }
                Some(_) => {}
                None => {
                    // Nothing more can be sent, and such a socket always has room for it.
                    let polled = PollFd::from_borrowed_fd(self.fd(), PollFlags::IN);
                    if wait::until(vec![polled], Some(end)).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Sends the rest.
    ///
    /// # Errors
    /// The client takes nothing for too long, or the connection is broken.
    pub fn flush(&mut self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        let mut until = later(limits::STREAM_IDLE);
        loop {
            if self.send(outgoing)? {
                until = later(limits::STREAM_IDLE);
            }
            if outgoing.is_empty() && !self.upgraded.transport.wants_write() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Broken::Gone);
            }
            let there = wait::until(vec![self.poll(false, true)], Some(until)).map_err(io::Error::from)?;
            if there.iter().any(|flags| flags.intersects(PollFlags::HUP | PollFlags::ERR)) {
                return Err(Broken::Gone);
            }
        }
    }
}
