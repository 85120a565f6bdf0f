//! Long answers, read piece by piece: a container's output, and the connections that attach and exec take
//! over. Events are in `event_stream`, images in `pull`.
//!
//! Silence is normal here, so each read gets a [`Wait`]: the reader decides how long to wait, and can be
//! woken. Dropping a stream closes its connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::client::Client;
use super::connection::{Connection, Polled, Wait, poll, poll_write};
use super::exchange::Exchange;
use super::frames::{Frames, StreamKind};
use super::http1::Parser;
use super::refusal::refusal;
use super::request::Request;
use super::types::DockerError;
use crate::base::limits;

/// The body of a long answer.
#[derive(Debug)]
pub struct Body {
    connection: Arc<Connection>,
    parser: Parser,
    stage: Stage,
    what: String,
}

/// The known part of an answer.
#[derive(Debug)]
enum Stage {
    /// The head has not arrived.
    Asked,
    /// The status is a success: the body follows.
    Good,
    /// The status is an error: its text is being read.
    Refused(u16, Vec<u8>),
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Bytes were appended.
    Bytes,
    /// The time was up first.
    Idle,
    /// The wake-up came first.
    Woken,
    /// The answer ended properly.
    End,
}

impl Body {
    /// Sends `request`; returns the body, and the bytes of it that have been read already.
    pub(super) fn open(client: &Client, request: Request) -> Result<(Body, Vec<u8>), DockerError> {
        let (exchange, begun) = client.open(request)?;
        Ok((Body::of(exchange), begun))
    }

    /// Sends `request`, and leaves its head to be read with the rest: Docker sends none before its first
    /// output, which for a pull is when the registry has answered. [`Body::read`] returns a refusal.
    pub(super) fn ask(client: &Client, request: Request) -> Result<(Body, Vec<u8>), DockerError> {
        let (exchange, early) = client.send(request)?;
        match early {
            Some(begun) => Ok((Body::of(exchange), begun)),
            None => {
                let what = exchange.what().to_owned();
                let (connection, parser) = exchange.into_parts();
                let connection = Arc::new(connection);
                Ok((Body { connection, parser, stage: Stage::Asked, what }, Vec::new()))
            }
        }
    }

    /// The rest of an exchange whose head has been read. A connection that was upgraded is raw from here.
    pub(super) fn of(exchange: Exchange) -> Body {
        let what = exchange.what().to_owned();
        let (connection, mut parser) = exchange.into_parts();
        match parser.head().map(|head| head.status) {
            Some(101) => parser = Parser::raw(),
            // The bound of an ordinary answer does not hold for a stream.
            _ => parser.remove_limit(),
        }
        Body { connection: Arc::new(connection), parser, stage: Stage::Good, what }
    }

    /// A body with all bytes of `socket`: an engine in this process writes a stream to it.
    ///
    /// # Errors
    /// The descriptor is not a socket.
    pub fn over(socket: OwnedFd, what: &str) -> Result<Body, DockerError> {
        let connection = Arc::new(Connection::over(socket)?);
        Ok(Body { connection, parser: Parser::raw(), stage: Stage::Good, what: what.to_owned() })
    }

    /// Appends the next bytes to `into`.
    ///
    /// # Errors
    /// [`DockerError::Lost`] when the answer ends too early, [`DockerError::BadAnswer`] when it is not HTTP;
    /// [`DockerError::Refused`] when the head is read here and is a refusal.
    pub fn read(&mut self, into: &mut Vec<u8>, wait: &Wait<'_>) -> Result<Read, DockerError> {
        let until = wait.until();
        let before = into.len();
        loop {
            match self.take(into)? {
                _ if into.len() > before => return Ok(Read::Bytes),
                Taken::End => return Ok(Read::End),
                // The answer has ended, although the connection stays open.
                Taken::Some if self.parser.is_done() => continue,
                // Framing without content must not postpone the deadline or the wake-up.
                Taken::Some | Taken::Nothing => {}
            }
            if until.is_some_and(|at| at <= Instant::now()) {
                return Ok(Read::Idle);
            }
            if self.poll(wait, until) == Polled::Woken {
                return Ok(Read::Woken);
            }
        }
    }

    fn poll(&self, wait: &Wait<'_>, until: Option<Instant>) -> Polled {
        poll(std::iter::once((self.connection.as_fd(), false)), wait.wake, until)
    }

    fn take(&mut self, into: &mut Vec<u8>) -> Result<Taken, DockerError> {
        if self.parser.is_done() {
            return match &self.stage {
                Stage::Asked | Stage::Good => Ok(Taken::End),
                Stage::Refused(status, why) => Err(refusal(*status, why)),
            };
        }
        let mut chunk = vec![0u8; limits::HTTP_READ];
        match self.connection.receive(&mut chunk) {
            Ok(None) => Ok(Taken::Nothing),
            // The next call returns the end, or the refusal.
            Ok(Some(0)) if self.parser.finish() => Ok(Taken::Some),
            Ok(Some(0)) => Err(self.lost("Docker closed it")),
            Ok(Some(n)) => {
                self.feed(chunk.get(..n).unwrap_or_default(), into)?;
                Ok(Taken::Some)
            }
            Err(errno) => Err(self.lost(&errno.to_string())),
        }
    }

    fn feed(&mut self, input: &[u8], into: &mut Vec<u8>) -> Result<(), DockerError> {
        let bad = |why| DockerError::BadAnswer(format!("{}: {why}", self.what));
        match &mut self.stage {
            Stage::Good => _ = self.parser.feed(input, into).map_err(bad)?,
            Stage::Refused(_, why) => _ = self.parser.feed(input, why).map_err(bad)?,
            Stage::Asked => {
                let mut begun = Vec::new();
                self.parser.feed(input, &mut begun).map_err(bad)?;
                match self.parser.head().map(|head| head.status) {
                    None => {}
                    Some(status) if status >= 300 => self.stage = Stage::Refused(status, begun),
                    Some(_) => {
                        self.stage = Stage::Good;
                        // As in `of`: a stream has no bound.
                        self.parser.remove_limit();
                        into.append(&mut begun);
                    }
                }
            }
        }
        Ok(())
    }

    fn lost(&self, why: &str) -> DockerError {
        DockerError::Lost(format!("{}: the connection broke in the middle of the answer: {why}", self.what))
    }

    /// Method and path, for messages.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl AsFd for Body {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

enum Taken {
    Some,
    Nothing,
    End,
}

/// A container's or an exec's output.
#[derive(Debug)]
pub struct OutputStream {
    body: Body,
    frames: Frames,
    bytes: Vec<u8>,
    at: usize,
}

/// The result of a read of the output.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// A piece of one stream: not a line, not a frame.
    Bytes(StreamKind, &'a [u8]),
    /// The time was up, or the wake-up came, first.
    Idle,
    /// The output has ended.
    End,
}

impl OutputStream {
    /// Reads output from `body`, of which `begun` was read before; `tty` when the bytes come without frames.
    #[must_use]
    pub fn new(body: Body, begun: Vec<u8>, tty: bool) -> OutputStream {
        OutputStream { body, frames: Frames::new(tty), bytes: begun, at: 0 }
    }

    /// Waits for output; false when it ended, or the time was up, or the wake-up came, first.
    ///
    /// # Errors
    /// As [`Body::read`].
    pub fn is_there(&mut self, wait: &Wait<'_>) -> Result<bool, DockerError> {
        Ok(self.at < self.bytes.len() || self.body.read(&mut self.bytes, wait)? == Read::Bytes)
    }

    /// The next piece.
    ///
    /// # Errors
    /// [`DockerError::Lost`] when the stream ends in the middle of a frame, [`DockerError::BadAnswer`]
    /// when the bytes are not frames.
    pub fn next(&mut self, wait: &Wait<'_>) -> Result<Output<'_>, DockerError> {
        let until = wait.until();
        let mut looked = false;
        let piece = loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let found = self.frames.next(rest);
            let found = found.map_err(|why| DockerError::BadAnswer(format!("{}: {why}", self.body.what)))?;
            if let Some(piece) = found {
                break piece;
            }
            self.bytes.clear();
            self.at = 0;
            // Frames without content could come for ever.
            if looked && until.is_some_and(|at| at <= Instant::now()) {
                return Ok(Output::Idle);
            }
            looked = true;
            match self.body.read(&mut self.bytes, wait)? {
                Read::Bytes => {}
                Read::Idle | Read::Woken => return Ok(Output::Idle),
                Read::End if self.frames.is_whole() => return Ok(Output::End),
                Read::End => return Err(self.body.lost("the last piece of output is not whole")),
            }
        };
        self.at = self.at.saturating_add(piece.used);
        let from = self.at.saturating_sub(piece.len);
        Ok(Output::Bytes(piece.kind, self.bytes.get(from..self.at).unwrap_or_default()))
    }
}

impl AsFd for OutputStream {
    /// For polling together with other descriptors; only after [`OutputStream::next`] returned idle.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.body.as_fd()
    }
}

/// The standard input of a container or an exec. Usable from another thread than the output.
#[derive(Debug)]
pub struct InputStream {
    connection: Arc<Connection>,
}

impl InputStream {
    /// Writes as much as is accepted immediately and returns the number of bytes: 0 when the program does not
    /// read.
    ///
    /// # Errors
    /// [`DockerError::Lost`]: the program no longer reads.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, DockerError> {
        match self.connection.send(bytes) {
            Ok(taken) => Ok(taken.unwrap_or(0)),
            Err(errno) => Err(DockerError::Lost(format!("nobody reads the input: {errno}"))),
        }
    }

    /// Writes all of `bytes`; `wait` counts from the last accepted byte. False when the time was up or the
    /// wake-up came before the end: then the number of bytes written is unknown.
    ///
    /// # Errors
    /// As [`InputStream::write`].
    pub fn write_all(&mut self, bytes: &[u8], wait: &Wait<'_>) -> Result<bool, DockerError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.write(rest)?;
            rest = rest.get(n..).unwrap_or_default();
            if n == 0 && poll_write(self.connection.as_fd(), wait.wake, wait.until()) != Polled::Ready {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tells the program that its input has ended; output goes on.
    pub fn close(&mut self) {
        self.connection.close_write();
    }
}

impl AsFd for InputStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// Both directions of an attach or exec.
#[derive(Debug)]
pub struct Duplex {
    /// Output of the program.
    pub output: OutputStream,
    /// Input of the program.
    pub input: InputStream,
}

impl Duplex {
    /// A connection that was taken over; `begun` was read from it before.
    #[must_use]
    pub fn new(body: Body, begun: Vec<u8>, tty: bool) -> Duplex {
        let input = InputStream { connection: Arc::clone(&body.connection) };
        Duplex { output: OutputStream::new(body, begun, tty), input }
    }
}

#[cfg(test)]
mod tests;
