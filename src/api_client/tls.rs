//! TLS to the server: trusted authorities, and the client's certificate.
//!
//! Never here: a message with a byte of a key.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::base::tls::{self, Hints};

/// Names of the kubeconfig's fields.
pub const HINTS: Hints = Hints {
    authorities: "certificate-authority in the kubeconfig",
    client: "the credentials of the user in the kubeconfig",
};

/// A PEM text, and its name in errors.
pub struct Named {
    pub place: String,
    pub bytes: Vec<u8>,
}

/// The TLS settings of a connection. Without `authorities` any server is accepted:
/// `insecure-skip-tls-verify`.
///
/// # Errors
/// The unusable text, and why.
pub fn configure(
    authorities: Option<&Named>,
    client: Option<(&Named, &Named)>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = match authorities {
        Some(named) => {
            let store = store(named)?;
            let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            builder.map(|builder| builder.with_root_certificates(store))
        }
        None => tls::of_any_server(provider),
    };
    let builder = builder.map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            if chain.first().is_some_and(|first| tls::is_version_1(first)) {
                return Err(format!(
                    "the certificate in {} is of X.509 version 1, which nobody takes",
                    certificate.place
                ));
            }
            let secret = PrivateKeyDer::from_pem_slice(&key.bytes)
                .map_err(|_| format!("no private key that can be used in {}", key.place))?;
            builder.with_client_auth_cert(chain, secret).map_err(|_| {
                let (certificate, key) = (&certificate.place, &key.place);
                format!("the key in {key} is not usable, or not that of the certificate in {certificate}")
            })?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Connections are few and long-lived.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn certificates(named: &Named) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&named.bytes).collect();
    let all = all.map_err(|_| format!("{} is not PEM of certificates", named.place))?;
    if all.is_empty() { Err(format!("no certificate in {}", named.place)) } else { Ok(all) }
}

fn store(named: &Named) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let (usable, _) = store.add_parsable_certificates(certificates(named)?);
    if usable == 0 { Err(format!("no usable certificate in {}", named.place)) } else { Ok(store) }
}
