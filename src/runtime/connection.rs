//! One non-blocking connection to Docker's Unix socket, and the only place that waits for sockets.
//!
//! Never here: HTTP. A connection is closed when it is dropped.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, shutdown, socket_with,
};

use super::types::DockerError;

/// A connected, non-blocking stream socket.
#[derive(Debug)]
pub struct Connection {
    fd: OwnedFd,
}

/// The condition of an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It can carry a request.
    Usable,
    /// Docker closed it and may have been restarted.
    Closed,
    /// Bytes arrived that belong to no request.
    Stray,
}

impl Connection {
    /// Connects to the socket at `path`. Never waits: a socket whose backlog is full counts as unreachable.
    ///
    /// # Errors
    /// [`DockerError::Unreachable`], with a text for the operator.
    pub fn open(path: &Path) -> Result<Connection, DockerError> {
        let shown = path.display();
        let address = SocketAddrUnix::new(path)
            .map_err(|e| DockerError::Unreachable(format!("{shown} is not a path for a socket: {e}")))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|e| DockerError::Unreachable(format!("no socket can be made: {e}")))?;
        let mut result = connect(&fd, &address);
        while result == Err(Errno::INTR) {
            result = connect(&fd, &address);
        }
        result.map_err(|errno| {
            DockerError::Unreachable(match errno {
                Errno::NOENT => format!("{shown} does not exist: is Docker installed and running?"),
                Errno::CONNREFUSED => format!("nobody listens on {shown}: is Docker running?"),
                Errno::ACCESS | Errno::PERM => {
                    format!("no permission to use {shown}: run as root or as a member of the socket's group")
                }
                Errno::AGAIN => {
                    format!("{shown} takes no more connections at the moment: Docker is stuck or overloaded")
                }
                other => format!("cannot connect to {shown}: {other}"),
            })
        })?;
        Ok(Connection { fd })
    }

    /// A connection over an existing socket, which is made non-blocking.
    ///
    /// # Errors
    /// The descriptor refuses its flags.
    pub fn over(fd: OwnedFd) -> Result<Connection, DockerError> {
        rustix::io::ioctl_fionbio(&fd, true)
            .map_err(|e| DockerError::Unreachable(format!("cannot use this socket: {e}")))?;
        Ok(Connection { fd })
    }

    /// Writes as much as the socket takes now; `None` when it takes no byte.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&self, bytes: &[u8]) -> Result<Option<usize>, Errno> {
        loop {
            return match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(n) => Ok(Some(n)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(None),
                Err(e) => Err(e),
            };
        }
    }

    /// Reads what is available; `None` when there is no byte yet, `Some(0)` at the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            return match recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((n, _)) => Ok(Some(n)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(None),
                Err(e) => Err(e),
            };
        }
    }

    /// Checks a connection that carries no request.
    #[must_use]
    pub fn idle(&self) -> Idle {
        match recv(&self.fd, &mut [0u8; 1], RecvFlags::PEEK) {
            Err(Errno::AGAIN) => Idle::Usable,
            Ok((n, _)) if n > 0 => Idle::Stray,
            _ => Idle::Closed,
        }
    }

    /// Tells Docker that no more bytes will be written.
    pub fn close_write(&self) {
        // This is not needed on a connection that is broken already.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How long to wait, and a descriptor that ends the wait early.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait<'a> {
    /// Longest time; `None` waits without end.
    pub timeout: Option<Duration>,
    /// Ends the wait when it becomes readable.
    pub wake: Option<BorrowedFd<'a>>,
}

impl Wait<'_> {
    /// Waits at most this long.
    #[must_use]
    pub fn at_most(timeout: Duration) -> Wait<'static> {
        Wait { timeout: Some(timeout), wake: None }
    }

    /// The end of this wait if it begins now.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.timeout.and_then(|t| Instant::now().checked_add(t))
    }
}

/// Why [`poll`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// Some connection can continue. Also returned after a signal: the caller tries and waits again.
    Ready,
    /// The time is up.
    TimedOut,
    /// The wake-up descriptor is readable.
    Woken,
}

/// Waits until one of `fds` (true: also wait to write) can continue, `wake` is readable, or `until` is
/// reached.
pub fn poll<'a>(
    fds: impl Iterator<Item = (BorrowedFd<'a>, bool)>,
    wake: Option<BorrowedFd<'a>>,
    until: Option<Instant>,
) -> Polled {
    let flags = |write| if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    poll_set(fds.map(|(fd, write)| PollFd::from_borrowed_fd(fd, flags(write))).collect(), wake, until)
}

/// Waits until `fd` accepts bytes; readable bytes are ignored.
pub fn poll_write<'a>(fd: BorrowedFd<'a>, wake: Option<BorrowedFd<'a>>, until: Option<Instant>) -> Polled {
    poll_set(vec![PollFd::from_borrowed_fd(fd, PollFlags::OUT)], wake, until)
}

fn poll_set<'a>(mut set: Vec<PollFd<'a>>, wake: Option<BorrowedFd<'a>>, until: Option<Instant>) -> Polled {
    set.extend(wake.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let Ok(there) = crate::base::wait::until(set, until) else { return Polled::Ready };
    if wake.is_some() && there.last().is_some_and(|flags| !flags.is_empty()) {
        return Polled::Woken;
    }
    let nothing = there.iter().all(|flags| flags.is_empty());
    if nothing && until.is_some_and(|at| at <= Instant::now()) { Polled::TimedOut } else { Polled::Ready }
}
