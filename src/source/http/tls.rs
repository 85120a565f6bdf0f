//! TLS for the manifest URL: certificates and keys from files, and what went wrong in an operator's words.
//!
//! The files are read for each poll, so that a rotated certificate needs no restart and nothing of them
//! stays in memory. No text here may hold a number that changes by itself (a time, an age): the loop logs
//! every new text.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::limits;
use crate::regular;

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
            let chain = certificates(&files.certificate)?;
            if chain.is_empty() {
                return Err(format!("no certificate in {}", files.certificate.display()));
            }
            let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
            let key = key.map_err(|_| format!("no private key in {}", files.key.display()))?;
            builder.with_client_auth_cert(chain, key).map_err(|_| {
                let (certificate, key) = (files.certificate.display(), files.key.display());
                format!("the key in {key} is not usable, or not that of the certificate in {certificate}")
            })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of a connection outlives its poll.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let system = || SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.is_file());
    let path = ca_file.or_else(system).ok_or(
        "the system has no file of certificate authorities: install ca-certificates, or give \
         --manifest-url-ca-file",
    )?;
    let mut store = RootCertStore::empty();
    // A bundle may hold old ones that nobody can use.
    let (usable, _) = store.add_parsable_certificates(certificates(path)?);
    if usable == 0 { Err(format!("no certificate in {}", path.display())) } else { Ok(store) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let all = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>();
    all.map_err(|_| format!("{} is not a PEM file of certificates", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    regular::read(path, limits::PEM_FILE)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
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
