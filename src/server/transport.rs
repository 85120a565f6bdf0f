//! The bytes of one connection: TCP, or TLS over it. No call here waits; `connection` and the streams do.
//!
//! Never here: a loop that lasts as long as the client sends. One thread holds all connections without a request under
//! way.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection};

use super::census::Seat;
use crate::base::limits;

/// One connection. Dropping it closes the socket.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    session: Option<Box<ServerConnection>>,
    /// Counts the connection as long as it exists.
    _seat: Seat,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// Number of bytes, at least one.
    Bytes(usize),
    /// No bytes are available now.
    Nothing,
    /// The client sends no more.
    End,
}

impl Transport {
    /// An accepted connection; with `tls` its handshake comes first.
    ///
    /// # Errors
    /// The socket refuses its settings, or the library refuses the configuration.
    pub fn new(socket: TcpStream, tls: Option<Arc<ServerConfig>>, seat: Seat) -> io::Result<Transport> {
        socket.set_nonblocking(true)?;
        // An answer is one write, and a stream's bytes should be sent at once. A failure only makes them slower.
        let _ = socket.set_nodelay(true);
        // Keep-alives detect a client whose machine has lost its power.
        let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        let _ = rustix::net::sockopt::set_tcp_keepidle(&socket, std::time::Duration::from_secs(60));
        let session = tls.map(ServerConnection::new).transpose().map_err(io::Error::other)?;
        Ok(Transport { socket, session: session.map(Box::new), _seat: seat })
    }

    /// The descriptor to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The flags to poll for, in order to read.
    #[must_use]
    pub fn wants(&self) -> PollFlags {
        if self.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Whether bytes wait for room in the socket: see [`Transport::flush`].
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Whether the handshake is under way.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// The client's certificates, its own first; not verified.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.session.as_ref().and_then(|session| session.peer_certificates()).unwrap_or_default()
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.session.is_some()
    }

    /// Appends available bytes, at most `most`. Read until [`Got::Nothing`] before polling, because bytes may be
    /// buffered here.
    ///
    /// # Errors
    /// The connection is broken, or its bytes are not TLS.
    pub fn read(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<Got> {
        let begun = into.len();
        into.resize(begun.saturating_add(most), 0);
        let got = self.read_slice(into.get_mut(begun..).unwrap_or_default());
        let length = if let Ok(Got::Bytes(length)) = got { length } else { 0 };
        into.truncate(begun.saturating_add(length));
        got
    }

    fn read_slice(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        let Some(session) = &mut self.session else {
            return match (&self.socket).read(buffer) {
                Ok(0) if !buffer.is_empty() => Ok(Got::End),
                Ok(length) => Ok(Got::Bytes(length)),
                Err(error) if waits(&error) => Ok(Got::Nothing),
                Err(error) => Err(error),
            };
        };
        for _ in 0..limits::TLS_STEPS {
            match session.reader().read(buffer) {
                Ok(0) => return Ok(Got::End),
                Ok(length) => return Ok(Got::Bytes(length)),
                // TLS ended without close_notify: HTTP and the streams recognise their own ends.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Got::End),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match session.read_tls(&mut &self.socket) {
                Ok(0) => {}
                Ok(_) => {}
                Err(error) if waits(&error) => return Ok(Got::Nothing),
                Err(error) => return Err(error),
            }
            let processed = session.process_new_packets();
            // Sends answers of the handshake, or the alert with the reason of its failure.
            flush(session, &self.socket)?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
        Ok(Got::Nothing)
    }

    /// Takes as many of these bytes as there is room for, and sends as much as possible.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            return match (&self.socket).write(bytes) {
                Ok(length) => Ok(length),
                Err(error) if waits(&error) => Ok(0),
                Err(error) => Err(error),
            };
        };
        if !flush(session, &self.socket)? {
            return Ok(0);
        }
        let taken = session.writer().write(bytes)?;
        flush(session, &self.socket)?;
        Ok(taken)
    }

    /// Sends buffered bytes; returns `true` when none are left.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        match &mut self.session {
            None => Ok(true),
            Some(session) => flush(session, &self.socket),
        }
    }

    /// Ends our side of the connection, as far as that is possible without waiting.
    pub fn close_write(&mut self) {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
            let _ = flush(session, &self.socket);
        }
        // The client may be gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Whether a call would have had to wait, or has to be repeated.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Sends until nothing is left or the socket is full.
fn flush(session: &mut ServerConnection, mut socket: &TcpStream) -> io::Result<bool> {
    while session.wants_write() {
        match session.write_tls(&mut socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if waits(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
/// The reason why the client's certificate cannot be used; `None` for another error.
pub fn bad_certificate(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(why))
            if why.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::UnsupportedCertVersion) =>
        {
            Some(
                "it is not of X.509 version 3; OpenSSL makes version 1 where it is given no extensions"
                    .to_owned(),
            )
        }
        rustls::Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{CertificateError, Error, OtherError};

    use super::*;

    #[test]
    fn a_bad_certificate_is_told_and_noise_is_not() {
        let of = |error: Error| bad_certificate(&io::Error::new(ErrorKind::InvalidData, error));
        let version = OtherError(Arc::new(webpki::Error::UnsupportedCertVersion));
        let told = of(Error::InvalidCertificate(CertificateError::Other(version))).unwrap();
        assert!(told.contains("version 3"), "{told}");
        assert!(of(Error::InvalidCertificate(CertificateError::BadEncoding)).is_some());
        assert_eq!(of(Error::HandshakeNotComplete), None);
        assert_eq!(bad_certificate(&ErrorKind::BrokenPipe.into()), None);
    }
}
