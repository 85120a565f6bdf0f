//! HTTPS without a certificate check: what a probe or a hook asks is whether the container answers, not who
//! it is (as with the kubelet, `pkg/probe/http/http.go`). Nothing but [`super::net`] may use this, and
//! nothing secret is ever sent over it.
//!
//! What must not happen here: a look for more where nothing more can come. One thread has all probes and hooks
//! of the node, and what a server sends decides how often a loop goes round.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

use super::net::Progress;
use crate::base::limits;

/// Believes everything.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Settings for all connections of one prober.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Ready to use.
    ///
    /// # Errors
    /// The library does not know its own versions.
    pub fn new() -> Result<Tls, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }

    /// A connection to this host, bytes in and bytes out.
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
    /// The first bytes of the server, to tell what speaks there if it is not TLS.
    first: Vec<u8>,
}

impl Session {
    /// Puts plain bytes in.
    pub fn send(&mut self, plain: &[u8]) -> Result<(), String> {
        self.connection.writer().write_all(plain).map_err(|e| e.to_string())
    }

    /// Takes bytes from the network; plain ones are appended to `into`, at most so many that a hostile
    /// server cannot fill memory. `out` gets what is to be sent. [`Progress::Closed`]: the server has said
    /// that nothing more comes, whether or not it closes the connection; what it sends after that is not
    /// looked at.
    ///
    /// # Errors
    /// It is not TLS, or refuses us; in Go's words where users know them.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        into: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, String> {
        let room = 5usize.saturating_sub(self.first.len());
        self.first.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        while !bytes.is_empty() {
            // After the server's goodbye the library takes nothing more, and says so by 0.
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

    /// What has been decrypted: no more than a record or two, for it is taken after each step.
    fn take_plain(&mut self, into: &mut Vec<u8>) {
        let mut chunk = [0u8; 4096];
        while let Ok(n) = self.connection.reader().read(&mut chunk)
            && n > 0
        {
            let room = limits::TLS_BYTES.saturating_sub(into.len()).min(n);
            into.extend_from_slice(chunk.get(..room).unwrap_or_default());
        }
    }

    /// Appends what is to be sent.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if !matches!(self.connection.write_tls(out), Ok(n) if n > 0) {
                return;
            }
        }
    }
}

/// Upstream's words for a server that speaks plain HTTP where TLS was asked for.
pub const PLAIN: &str = "http: server gave HTTP response to HTTPS client";
