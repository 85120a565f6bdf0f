//! TLS for the manifest URL: certificates and keys from files, and errors in an operator's words.
//!
//! The files are read for each poll, so that a rotated certificate needs no restart and nothing of them stays in
//! memory. No text here may hold a number that changes by itself (a time, an age): the loop logs every new text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};

use crate::base::tls::pem;
use crate::base::tls::{self, Hints};

/// The flags of this source, for hints in errors.
pub const HINTS: Hints = Hints { authorities: "--manifest-url-ca-file", client: "--manifest-url-cert-file" };

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
/// The file that is not usable, and the reason.
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
            if chain.first().is_some_and(|certificate| tls::is_version_1(certificate)) {
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
                        format!(
                            "the certificate in {certificate} is not usable: {}",
                            tls::reason(&why, HINTS.authorities)
                        )
                    }
                    _ => format!(
                        "the key in {key} is not usable, or not that of the certificate in {certificate}"
                    ),
                }
            })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // No session is resumed: nothing of a connection outlives its poll.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let path = ca_file.or_else(tls::system_authorities).ok_or(
        "the system has no file of certificate authorities: install ca-certificates, or give \
         --manifest-url-ca-file",
    )?;
    let mut store = RootCertStore::empty();
    // A bundle may hold certificates in old formats that cannot be parsed.
    let (usable, _) = store.add_parsable_certificates(pem::certificates(path)?);
    if usable == 0 { Err(format!("no certificate in {}", path.display())) } else { Ok(store) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::TempDir;

    #[test]
    fn a_client_certificate_of_version_1_is_called_so() {
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
