//! HTTPS without a certificate check: a probe or a hook checks whether the container answers, not its
//! identity (as the kubelet does, `pkg/probe/http/http.go`). Only [`super::net`] may use this, and no secret
//! is ever sent over it.
//!
//! Never here: a loop that continues reading when no more bytes can arrive. One thread handles all probes and
//! hooks of the node, and the server's bytes determine how often a loop runs.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::net::Progress;
use crate::base::limits;
use crate::base::tls::of_any_server;

/// Settings for all connections of one prober.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Creates the settings.
    ///
    /// # Errors
    /// The library does not support its own default versions.
    pub fn new() -> Result<Tls, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = of_any_server(provider).map_err(|e| e.to_string())?.with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }

    /// A TLS session with this host, bytes in and bytes out.
    ///
    /// # Errors
    /// The host is neither a name nor an address.
    pub fn connect(&self, host: &str) -> Result<Session, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name).map_err(|e| e.to_string())?;
        Ok(Session { connection, first: Vec::new() })
    }
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    connection: ClientConnection,
    /// The server's first bytes, to recognize plain HTTP.
    first: Vec<u8>,
}

impl Session {
    /// Takes plain bytes to send.
    pub fn send(&mut self, plain: &[u8]) -> Result<(), String> {
        self.connection.writer().write_all(plain).map_err(|e| e.to_string())
    }

    /// Takes bytes from the network. Plain bytes are appended to `into`, with a bound, so that a hostile
    /// server cannot fill the memory; bytes to send are appended to `out`. [`Progress::Closed`]: the server
    /// has sent close_notify, whether or not it closes the connection; later bytes are ignored.
    /// # Errors
    /// The server does not speak TLS, or refuses; in Go's words if users know them.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        into: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, String> {
        let room = 5usize.saturating_sub(self.first.len());
        self.first.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        while !bytes.is_empty() {
            // After close_notify the library takes no more bytes, and returns 0.
            if self.connection.read_tls(&mut bytes).map_err(|e| e.to_string())? == 0 {
                return Ok(Progress::Closed);
            }
            let processed = self.connection.process_new_packets();
            self.flush(out);
            let state = processed.map_err(|error| {
                if self.first == b"HTTP/" {
                    return PLAIN.to_owned();
                }
                format!("tls: {error}")
            })?;
            self.take_plain(into);
            if state.peer_has_closed() {
                return Ok(Progress::Closed);
            }
        }
        Ok(Progress::Waits)
    }

    /// Takes the decrypted bytes: at most a record or two, because this runs after each step.
    fn take_plain(&mut self, into: &mut Vec<u8>) {
        let mut chunk = [0u8; 4096];
        while let Ok(n) = self.connection.reader().read(&mut chunk)
            && n > 0
        {
            let room = limits::TLS_BYTES.saturating_sub(into.len()).min(n);
            into.extend_from_slice(chunk.get(..room).unwrap_or_default());
        }
    }

    /// Appends the bytes to send.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if !matches!(self.connection.write_tls(out), Ok(n) if n > 0) {
                return;
            }
        }
    }
}

/// Upstream's words for a server that speaks plain HTTP when asked over TLS.
pub const PLAIN: &str = "http: server gave HTTP response to HTTPS client";
