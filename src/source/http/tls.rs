//! TLS for the manifest URL: certificates and keys from files, and what went wrong in an operator's words.
//!
//! The files are read for each poll, so that a rotated certificate needs no restart and nothing of them
//! stays in memory. No text here may hold a number that changes by itself (a time, an age): the loop logs
//! every new text.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::base::pem;

/// Where distributions keep the authorities they trust: Debian, Alpine, Arch; Fedora, RHEL; openSUSE; older
/// RHEL; BSDs and Alpine.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The client's certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// Certificate, and then those of intermediate authorities.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Reads the files.
///
/// # Errors
/// Which file is not usable, and why.
pub fn configure(ca_file: Option<&Path>, client: Option<&ClientFiles>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))?
        .with_root_certificates(authorities(ca_file)?);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = pem::certificates(&files.certificate)?;
            if chain.is_empty() {
                return Err(format!("no certificate in {}", files.certificate.display()));
            }
            if chain.first().is_some_and(|certificate| is_version_1(certificate)) {
                return Err(format!(
                    "the certificate in {} is of X.509 version 1, which nobody takes for TLS any more: have it made \
                     with version 3",
                    files.certificate.display()
                ));
            }
            let key = pem::private_key(&files.key)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                let (certificate, key) = (files.certificate.display(), files.key.display());
                match error {
                    rustls::Error::InvalidCertificate(why) => {
                        format!("the certificate in {certificate} is not usable: {}", reason(&why))
                    }
                    _ => format!(
                        "the key in {key} is not usable, or not that of the certificate in {certificate}"
                    ),
                }
            })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of a connection outlives its poll.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// DER's tag of a sequence, and of a certificate's version.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// In DER the version stands first in a certificate, and is left out for version 1.
fn is_version_1(certificate: &[u8]) -> bool {
    let tbs = inside(certificate, SEQUENCE).and_then(|outer| inside(outer, SEQUENCE));
    tbs.and_then(<[u8]>::first).is_some_and(|tag| *tag != VERSION)
}

/// What stands in an element of this tag, the first one; up to the end of what is given.
fn inside(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    // A long form has as many bytes of length more.
    let more = if *length >= 0x80 { usize::from(length & 0x7f) } else { 0 };
    if *found == tag { rest.get(more..) } else { None }
}

fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let system = || SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.is_file());
    let path = ca_file.or_else(system).ok_or(
        "the system has no file of certificate authorities: install ca-certificates, or give \
         --manifest-url-ca-file",
    )?;
    let mut store = RootCertStore::empty();
    // A bundle may hold old ones that nobody can use.
    let (usable, _) = store.add_parsable_certificates(pem::certificates(path)?);
    if usable == 0 { Err(format!("no certificate in {}", path.display())) } else { Ok(store) }
}

/// The TLS error inside an I/O error, in words.
#[must_use]
pub fn words_of(error: &io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref::<rustls::Error>().map(words)
}

/// A TLS error in words without ever-changing numbers.
#[must_use]
pub fn words(error: &rustls::Error) -> String {
    use rustls::Error as E;
    let what = match error {
        E::InvalidCertificate(why) => {
            return format!("the server's certificate is not accepted: {}", reason(why));
        }
        E::AlertReceived(alert) => return refused_by_server(*alert),
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

fn reason(error: &CertificateError) -> String {
    use CertificateError as C;
    let words = match error {
        // `CaUsedAsEndEntity` and such, without numbers.
        C::Other(rule) => return format!("it breaks a rule: {rule}"),
        C::Expired | C::ExpiredContext { .. } => "it has expired (or this node's clock is wrong)",
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "it is not valid yet (or this node's clock is wrong)"
        }
        C::UnknownIssuer => {
            "no certificate authority that podkeeper trusts has signed it (--manifest-url-ca-file)"
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

fn refused_by_server(alert: AlertDescription) -> String {
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
    let hint = if about_us { "; see --manifest-url-cert-file" } else { "" };
    format!("the server ends the TLS connection: {alert:?}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::TempDir;

    #[test]
    fn a_client_certificate_of_version_1_is_called_so() {
        // Of version 1 the serial number stands first, of others the version.
        assert!(is_version_1(&[0x30, 0x82, 1, 0, 0x30, 0x81, 200, 2, 1, 5]));
        assert!(!is_version_1(&[0x30, 0x82, 1, 0, 0x30, 0x81, 200, 0xa0, 3, 2, 1, 2]));
        for damaged in [&[][..], &[0x30], &[0x30, 0x84, 1], &[0x31, 3, 0x30, 1, 2]] {
            assert!(!is_version_1(damaged), "{damaged:?}");
        }
        let temp = TempDir::new();
        let files = ClientFiles { certificate: temp.path("cert.pem"), key: temp.path("key.pem") };
        let ca = temp.path("ca.pem");
        let pem = include_str!("../../../tests/golden/tls/version-1.pem");
        std::fs::write(&files.certificate, pem).unwrap();
        std::fs::write(&ca, pem).unwrap();
        let error = configure(Some(&ca), Some(&files)).unwrap_err();
        assert!(error.contains("is of X.509 version 1"), "{error}");
    }
}
