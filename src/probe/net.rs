//! A TCP connection that never blocks, with or without TLS. The caller knows the meaning of the bytes
//! and the deadline.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};

use super::outcome::errno_words;
use super::tls::Session;
use crate::base::wait;

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No more bytes for now.
    Waits,
    /// The server closed its side, or sent close_notify under TLS.
    Closed,
}

#[derive(Debug)]
pub struct Net {
    fd: OwnedFd,
    address: SocketAddr,
    connected: bool,
    tls: Option<Box<Session>>,
    out: Vec<u8>,
}

impl Net {
    /// Starts to connect.
    ///
    /// # Errors
    /// In Go's words: `dial tcp 10.0.0.1:80: connect: connection refused`.
    pub fn open(address: SocketAddr) -> Result<Net, String> {
        let failed = |errno: Errno| dial_error(address, errno);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
        let connected = match connect(&fd, &address) {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            Err(errno) => return Err(failed(errno)),
        };
        Ok(Net { fd, address, connected, tls: None, out: Vec::new() })
    }

    /// Uses TLS from now on.
    pub fn encrypt(&mut self, session: Session) {
        self.tls = Some(Box::new(session));
    }

    /// Adds bytes to send.
    ///
    /// # Errors
    /// An error of TLS.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        match &mut self.tls {
            Some(session) => {
                session.send(bytes)?;
                session.flush(&mut self.out);
            }
            None => self.out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Whether the connection is established.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Checks whether the connection is established.
    ///
    /// # Errors
    /// The connection failed.
    pub fn advance_connect(&mut self) -> Result<bool, String> {
        if !self.connected {
            // Writable or in error: the connect has ended.
            let set = vec![PollFd::new(&self.fd, PollFlags::OUT)];
            if !wait::until(set, Some(Instant::now())).is_ok_and(|ready| ready.iter().any(|f| !f.is_empty()))
            {
                return Ok(false);
            }
            sockopt::socket_error(&self.fd)
                .and_then(|result| result)
                .map_err(|errno| dial_error(self.address, errno))?;
            self.connected = true;
        }
        Ok(true)
    }

    /// Sends and receives without waiting, at most `most` bytes; received bytes are appended to `into`.
    ///
    /// # Errors
    /// The connection failed or broke, or the server does not speak TLS.
    pub fn advance(&mut self, into: &mut Vec<u8>, most: usize) -> Result<Progress, String> {
        if !self.advance_connect()? {
            return Ok(Progress::Waits);
        }
        self.write()?;
        let mut taken = 0usize;
        let mut chunk = [0u8; 4096];
        while taken < most {
            match recv(&self.fd, &mut chunk, RecvFlags::empty()) {
                Ok((0, _)) => return Ok(Progress::Closed),
                Ok((n, _)) => {
                    taken = taken.saturating_add(n);
                    let bytes = chunk.get(..n).unwrap_or_default();
                    let heard = match &mut self.tls {
                        Some(session) => session.receive(bytes, into, &mut self.out)?,
                        None => {
                            into.extend_from_slice(bytes);
                            Progress::Waits
                        }
                    };
                    self.write()?;
                    if heard == Progress::Closed {
                        return Ok(Progress::Closed);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Progress::Waits),
                Err(errno) => {
                    let words = errno_words(&io::Error::from(errno));
                    return Err(format!("read tcp {}: read: {words}", self.address));
                }
            }
        }
        Ok(Progress::Waits)
    }

    fn write(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match send(&self.fd, &self.out, SendFlags::NOSIGNAL) {
                // No byte was accepted: as with a full buffer.
                Ok(0) => return Ok(()),
                Ok(n) => _ = self.out.drain(..n.min(self.out.len())),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                // The server may have answered before it closed: the answer can still be read.
                Err(Errno::PIPE | Errno::CONNRESET) => self.out.clear(),
                Err(errno) => {
                    let words = errno_words(&io::Error::from(errno));
                    return Err(format!("write tcp {}: write: {words}", self.address));
                }
            }
        }
        Ok(())
    }

    /// Descriptor to poll; true: for writing, too.
    #[must_use]
    pub fn polled(&self) -> (BorrowedFd<'_>, bool) {
        (self.fd.as_fd(), self.wants_write())
    }

    /// Whether to poll for writing, too.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        !self.connected || !self.out.is_empty()
    }
}

impl AsFd for Net {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn dial_error(address: SocketAddr, errno: Errno) -> String {
    format!("dial tcp {address}: connect: {}", errno_words(&io::Error::from(errno)))
}
