//! SPDY on the connection itself, or in the messages of a WebSocket (`SPDY/3.1+portforward.k8s.io`): a tunnel.
//!
//! Never here: the meaning of a stream.

use super::Fault;
use super::outgoing::Outgoing;
use super::spdy::{Event, Session};
use super::websocket::{Message, Socket};
use crate::base::limits;

/// A SPDY session, with its tunnel if it has one.
#[derive(Debug)]
pub struct Wire {
    pub session: Session,
    tunnel: Option<Socket>,
}

/// An event of the client.
#[derive(Debug)]
pub enum Heard {
    Event(Event),
    /// The client ends the tunnel.
    Closed,
}

impl Wire {
    /// SPDY on the connection itself.
    pub fn plain() -> Wire {
        Wire { session: Session::new(), tunnel: None }
    }

    /// SPDY in binary messages.
    pub fn tunnel() -> Wire {
        Wire { session: Session::new(), tunnel: Some(Socket::new()) }
    }

    /// See [`Session::receive`].
    pub fn receive(&mut self, bytes: &[u8]) {
        match &mut self.tunnel {
            None => self.session.receive(bytes),
            Some(socket) => socket.receive(bytes),
        }
    }

    /// See [`Session::news`].
    pub fn news(&mut self) -> Result<Option<Heard>, Fault> {
        loop {
            if let Some(event) = self.session.news()? {
                return Ok(Some(Heard::Event(event)));
            }
            let Some(socket) = &mut self.tunnel else { return Ok(None) };
            match socket.news()? {
                None => return Ok(None),
                Some(Message::Closed) => return Ok(Some(Heard::Closed)),
                Some(Message::Bytes(bytes)) => self.session.receive(&bytes),
            }
        }
    }

    /// See [`Socket::is_closed_by`]. SPDY itself has no answer to its end.
    pub fn is_closed_by(&mut self, bytes: &[u8]) -> bool {
        self.tunnel.as_mut().is_some_and(|socket| socket.is_closed_by(bytes))
    }

    /// Ends the session and its tunnel.
    pub fn close(&mut self) {
        self.session.go_away();
        self.output();
        if let Some(socket) = &mut self.tunnel {
            socket.close();
        }
    }

    /// Bytes for the client.
    pub fn output(&mut self) -> &mut Outgoing {
        let Some(socket) = &mut self.tunnel else { return self.session.output() };
        let frames = self.session.output();
        while let Some(piece) = frames.rest().chunks(limits::WEBSOCKET_DATA).next() {
            let piece = piece.to_vec();
            frames.sent(piece.len());
            socket.send(piece);
        }
        socket.output()
    }
}
