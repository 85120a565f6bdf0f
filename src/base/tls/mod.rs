//! Shared parts of TLS clients: the system's authorities, a client that accepts any server, and errors in words for an
//! operator.
//!
//! Never here: a text with a changing number (a time, an age), because every new text is logged.

pub mod pem;
pub mod x509;

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error,
    SignatureScheme,
};

/// The names of the flags or fields that an operator has to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Setting of the authorities that sign the server's certificate.
    pub authorities: &'static str,
    /// Setting of the client's own certificate.
    pub client: &'static str,
}

/// Settings of a client that accepts any server certificate. No secret may be sent over such a connection unless the
/// operator has asked for exactly that.
///
/// # Errors
/// The library does not support its own default versions.
pub fn of_any_server(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))))
}

/// Accepts every certificate, even an unreadable one: if any server is accepted, a signature adds nothing.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
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

/// Where distributions keep the authorities that they trust: Debian, Alpine, Arch; Fedora, RHEL; openSUSE;
/// older RHEL; BSDs and Alpine.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The bundle of authorities that the system trusts.
#[must_use]
pub fn system_authorities<'a>() -> Option<&'a Path> {
    SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.is_file())
}

/// DER tags of a sequence, and of a certificate's version.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Whether a certificate is of version 1: in DER the version comes first, and is left out for version 1.
#[must_use]
pub fn is_version_1(certificate: &[u8]) -> bool {
    let tbs = inside(certificate, SEQUENCE).and_then(|outer| inside(outer, SEQUENCE));
    tbs.and_then(<[u8]>::first).is_some_and(|tag| *tag != VERSION)
}

/// The content of the first element, if it has this tag; up to the end of the input.
fn inside(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    // A long form has this many more bytes of length.
    let more = if *length >= 0x80 { usize::from(length & 0x7f) } else { 0 };
    if *found == tag { rest.get(more..) } else { None }
}

/// The TLS error inside an I/O error, in words.
#[must_use]
pub fn words_of(error: &io::Error, hints: &Hints) -> Option<String> {
    error.get_ref()?.downcast_ref::<rustls::Error>().map(|error| words(error, hints))
}

/// A TLS error in words without ever-changing numbers.
#[must_use]
pub fn words(error: &rustls::Error, hints: &Hints) -> String {
    use rustls::Error as E;
    let what = match error {
        E::InvalidCertificate(why) => {
            return format!("the server's certificate is not accepted: {}", reason(why, hints.authorities));
        }
        E::AlertReceived(alert) => return refused_by_server(*alert, hints),
        E::InvalidMessage(_) | E::InappropriateMessage { .. } | E::InappropriateHandshakeMessage { .. } => {
            "the server does not speak TLS here"
        }
        E::PeerIncompatible(_) => "the server speaks no version of TLS, or no cipher, that podkeeper accepts",
        E::NoCertificatesPresented => "the server shows no certificate",
        E::PeerMisbehaved(_) => "the server breaks the rules of TLS",
        E::DecryptError => "what came from the server cannot be decrypted",
        _ => "TLS failed",
    };
    what.to_owned()
}

/// Why a certificate is not accepted; `authorities` names the setting of trusted authorities.
#[must_use]
pub fn reason(error: &CertificateError, authorities: &str) -> String {
    use CertificateError as C;
    let words = match error {
        // `CaUsedAsEndEntity` and similar, without numbers.
        C::Other(rule) => return format!("it breaks a rule: {rule}"),
        C::Expired | C::ExpiredContext { .. } => "it has expired (or this node's clock is wrong)",
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "it is not valid yet (or this node's clock is wrong)"
        }
        C::UnknownIssuer => {
            return format!("no certificate authority that podkeeper trusts has signed it ({authorities})");
        }
        C::NotValidForName | C::NotValidForNameContext { .. } => "it is for another name",
        C::Revoked => "it is revoked",
        C::BadEncoding => "it is malformed",
        C::BadSignature => "its signature is wrong",
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => "it is not for servers",
        _ => "it breaks a rule",
    };
    words.to_owned()
}

fn refused_by_server(alert: AlertDescription, hints: &Hints) -> String {
    let about_us = matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    );
    let hint = if about_us { format!("; see {}", hints.client) } else { String::new() };
    format!("the server ends the TLS connection: {alert:?}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_version_1_is_told_from_others() {
        // Version 1 starts with the serial number, later versions with the version.
        assert!(is_version_1(&[0x30, 0x82, 1, 0, 0x30, 0x81, 200, 2, 1, 5]));
        assert!(!is_version_1(&[0x30, 0x82, 1, 0, 0x30, 0x81, 200, 0xa0, 3, 2, 1, 2]));
        for damaged in [&[][..], &[0x30], &[0x30, 0x84, 1], &[0x31, 3, 0x30, 1, 2]] {
            assert!(!is_version_1(damaged), "{damaged:?}");
        }
    }
}
