//! A certificate that the node makes for itself, like the kubelet: it encrypts, and clients that want to verify the
//! node get it by hand. It is made once and kept.

use std::path::Path;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};

use crate::base::durable;

/// Makes a key and a certificate for these names, valid from 1975 to 4096: a node whose clock is wrong at boot has no
/// other certificate.
///
/// # Errors
/// A sentence that names the directory.
pub fn make(directory: &Path, certificate: &Path, key: &Path, names: &[String]) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("no certificate can be made in {}: {error}", directory.display())
    };
    let pair = KeyPair::generate().map_err(|error| cannot(&error))?;
    let mut params = CertificateParams::new(names).map_err(|error| cannot(&error))?;
    let name = names.first().map(String::as_str).unwrap_or("podkeeper");
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let made = params.self_signed(&pair).map_err(|error| cannot(&error))?;
    durable::make_directory(directory).map_err(|error| cannot(&error))?;
    // The key first: a certificate alone would be taken for a pair.
    durable::write(key, pair.serialize_pem().as_bytes()).map_err(|error| cannot(&error))?;
    durable::write(certificate, made.pem().as_bytes()).map_err(|error| cannot(&error))
}
