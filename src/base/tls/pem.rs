//! Certificates and keys from PEM files.
//!
//! Never here: a message with a byte of a key.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::base::{limits, regular};

/// All certificates of a file.
///
/// # Errors
/// The file cannot be read, or is not a PEM file of certificates, in a sentence that names it.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let all = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>();
    all.map_err(|_| format!("{} is not a PEM file of certificates", path.display()))
}

/// The first key of a file.
///
/// # Errors
/// The file cannot be read, or has no usable key, in a sentence that names it.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    let says = |word: &[u8]| bytes.windows(word.len()).any(|w| w == word);
    // Both forms of an encrypted key: PKCS #8 and OpenSSL's older one.
    if says(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || says(b"Proc-Type: 4,ENCRYPTED") {
        return Err(format!(
            "the private key in {} is encrypted, and nobody is there to type its passphrase: give one that is not \
             (openssl pkey -in KEY -out NEW)",
            path.display()
        ));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| format!("no private key in {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    regular::read(path, limits::PEM_FILE)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;

    #[test]
    fn an_encrypted_key_is_called_so() {
        let dir = scratch("pem");
        let path = dir.join("key.pem");
        let check = |text: &str, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let error = private_key(&path).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "is encrypted",
        );
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIF\n\
                   -----END RSA PRIVATE KEY-----\n";
        check(old, "is encrypted");
        check("", "no private key in");
        check("-----BEGIN CERTIFICATE-----\nMIIF\n-----END CERTIFICATE-----\n", "no private key in");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
