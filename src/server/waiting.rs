//! A connection without a request under way: the bytes read so far, and its time limit.
//!
//! Never here: a wait.

use std::time::{Duration, Instant};

use super::census::Client;
use super::connection::Connection;
use super::crowded::Place;
use super::http::request::{self, Refused, Request};
use super::transport::{self, Got};
use crate::base::limits;

/// A connection without a request under way.
pub struct Waiting {
    pub connection: Connection,
    /// Its place in the list of ports.
    pub port: usize,
    phase: Phase,
    /// When the wait began, and when it ends.
    pub since: Instant,
    pub until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Handshake,
    /// Number of bytes of the head that were searched for its end.
    Head(usize),
    Idle,
}

/// The next step of a waiting connection.
pub enum Next {
    Stays,
    Gone,
    /// The TLS handshake has failed because of the client's certificate; the reason.
    BadCertificate(String),
    /// A request has arrived.
    Asks(Box<Request>),
    Refused(Refused),
}

impl Waiting {
    /// A connection with this much time from now on.
    pub fn new(connection: Connection, port: usize, phase: Phase, time: Duration) -> Waiting {
        let since = Instant::now();
        Waiting { connection, port, phase, since, until: since.checked_add(time).unwrap_or(since) }
    }

    /// The place that it takes.
    #[must_use]
    pub fn place(&self) -> Place {
        let Connection { peer, is_known, client, .. } = &self.connection;
        let is_known = *is_known || matches!(client, Some(Client::User(_)));
        let at = Client::at(peer.ip());
        Place { client: client.clone().unwrap_or_else(|| at.clone()), at, is_known, since: self.since }
    }

    fn enter(&mut self, phase: Phase, time: Duration) {
        let now = Instant::now();
        self.phase = phase;
        self.until = now.checked_add(time).unwrap_or(now);
    }

    /// Reads available bytes.
    pub fn advance(&mut self, head: Duration) -> Next {
        loop {
            if let Some(next) = self.head(head) {
                return next;
            }
            let most = limits::SERVER_HEAD.saturating_add(1).saturating_sub(self.connection.buffer.len());
            match self.connection.transport.read(&mut self.connection.buffer, most.min(limits::HTTP_READ)) {
                Ok(Got::Bytes(_)) => {}
                Ok(Got::End) => return Next::Gone,
                Err(error) => {
                    return transport::bad_certificate(&error).map_or(Next::Gone, Next::BadCertificate);
                }
                Ok(Got::Nothing) => {
                    if self.phase == Phase::Handshake && !self.connection.transport.is_handshaking() {
                        self.enter(Phase::Head(0), head);
                    }
                    return match self.connection.transport.flush() {
                        Ok(_) => Next::Stays,
                        Err(_) => Next::Gone,
                    };
                }
            }
        }
    }

    /// The next step by the bytes read so far; `None` when more are needed.
    fn head(&mut self, patience: Duration) -> Option<Next> {
        if self.connection.buffer.is_empty() {
            return None;
        }
        let seen = match self.phase {
            Phase::Head(seen) => seen,
            Phase::Idle | Phase::Handshake => {
                self.enter(Phase::Head(0), patience);
                0
            }
        };
        match request::end_of_head(&self.connection.buffer, seen) {
            Err(refused) => Some(Next::Refused(refused)),
            Ok(None) => {
                self.phase = Phase::Head(self.connection.buffer.len());
                None
            }
            Ok(Some(end)) => {
                let head: Vec<u8> = self.connection.buffer.drain(..end).collect();
                Some(match request::parse(&head) {
                    Ok(request) => Next::Asks(Box::new(request)),
                    Err(refused) => Next::Refused(refused),
                })
            }
        }
    }
}
