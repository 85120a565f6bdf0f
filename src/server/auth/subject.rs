//! The user that a certificate names: its common name, and its organizations as groups (upstream
//! `staging/src/k8s.io/apiserver/pkg/authentication/request/x509`). Pure.
//!
//! Use it only for a certificate that was verified.

use rustls::pki_types::CertificateDer;

use super::User;
use crate::base::tls::x509;

/// The user of a certificate; `None` when it has no readable common name.
#[must_use]
pub fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let (name, groups) = x509::subject(certificate)?;
    Some(User { name, groups, ..User::default() })
}
