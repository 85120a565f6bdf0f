//! The authority of this node's API: it signs the API's own certificate and those of clients. It is made once and kept
//! below the root directory; removing it revokes all clients.
//!
//! Never here: a text with a byte of a key.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::base::{durable, limits, regular};

/// Directory of the authority below the root directory.
const DIRECTORY: &str = "pki/api";
const AUTHORITY: &str = "podkeeper-api";

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// The authority of a root directory.
pub struct Authority {
    /// PEM.
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Path of the authority's certificate.
#[must_use]
pub fn certificate_file(root_dir: &Path) -> PathBuf {
    root_dir.join(DIRECTORY).join("ca.crt")
}

impl Authority {
    /// Reads the authority, or makes it.
    ///
    /// # Errors
    /// A sentence that names the directory.
    pub fn open(root_dir: &Path) -> Result<Authority, String> {
        let directory = root_dir.join(DIRECTORY);
        let cannot = |error: &dyn std::fmt::Display| {
            format!("the authority of the API in {} cannot be used: {error}", directory.display())
        };
        if !directory.exists() {
            make(&directory).map_err(|error| cannot(&error))?;
        }
        let read = |name: &str| {
            let bytes =
                regular::read(&directory.join(name), limits::PEM_FILE).map_err(|error| cannot(&error))?;
            String::from_utf8(bytes).map_err(|_| cannot(&format!("{name} is no PEM file")))
        };
        let key = KeyPair::from_pem(&read("ca.key")?).map_err(|error| cannot(&error))?;
        Ok(Authority { certificate: read("ca.crt")?, issuer: Issuer::new(parameters(), key) })
    }

    /// A certificate for the API itself, by these names and addresses.
    ///
    /// # Errors
    /// A name is invalid.
    pub fn server(&self, names: &[String]) -> Result<Pair, String> {
        let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
        params.distinguished_name.push(DnType::CommonName, "podkeeper API");
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a user of a group, valid as long as the authority: a node whose clock is wrong has no other.
    ///
    /// # Errors
    /// No key can be made.
    pub fn client(&self, user: &str, group: &str) -> Result<Pair, String> {
        let mut params = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<Pair, String> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let signed = params.signed_by(&key, &self.issuer).map_err(|error| error.to_string())?;
        Ok(Pair { certificate: signed.pem(), key: key.serialize_pem() })
    }
}

/// The parameters of the authority, the same each time, because its name is the issuer of certificates.
fn parameters() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params
}

/// Makes the directory completely or not at all: the daemon and a command may do so at once.
fn make(directory: &Path) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let key = KeyPair::generate().map_err(|error| text(&error))?;
    let certificate = parameters().self_signed(&key).map_err(|error| text(&error))?;
    let beside = directory.with_extension(format!("{}.tmp", std::process::id()));
    for directory in beside.parent().into_iter().chain([beside.as_path()]) {
        durable::make_directory(directory).map_err(|error| text(&error))?;
    }
    durable::write(&beside.join("ca.key"), key.serialize_pem().as_bytes()).map_err(|error| text(&error))?;
    durable::write(&beside.join("ca.crt"), certificate.pem().as_bytes()).map_err(|error| text(&error))?;
    let renamed = std::fs::rename(&beside, directory);
    if renamed.is_err() {
        // The other one was faster, or the rename failed: in both cases this directory is not needed.
        let _ = std::fs::remove_dir_all(&beside);
    }
    match renamed {
        Err(error) if !directory.exists() => Err(text(&error)),
        _ => durable::sync_parent(directory).map_err(|error| text(&error)),
    }
}

/// The names of the API's certificate.
#[must_use]
pub fn names(node: &str, address: IpAddr, of_node: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1", node].map(str::to_owned).into();
    names.extend(of_node.iter().cloned());
    if !address.is_unspecified() {
        names.push(address.to_string());
    }
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;
    use crate::server::auth;
    use crate::server::tls::{self, Certificates};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    #[test]
    fn a_client_of_the_authority_is_known_and_another_one_is_not() {
        let dir = scratch("api-pki");
        let authority = Authority::open(&dir).unwrap();
        let made =
            authority.server(&names("n1", "10.0.0.1".parse().unwrap(), &["10.0.0.2".to_owned()])).unwrap();
        std::fs::write(dir.join("s.crt"), &made.certificate).unwrap();
        std::fs::write(dir.join("s.key"), &made.key).unwrap();
        let certificates = Certificates::open(tls::Settings {
            given: Some((dir.join("s.crt"), dir.join("s.key"))),
            signed: None,
            client_ca: Some(certificate_file(&dir)),
            ..tls::Settings::default()
        });
        let chain = |pair: &Pair| vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        // The second one reads the files of the first.
        let client = Authority::open(&dir).unwrap().client("eve", "podkeeper:view").unwrap();
        let user = auth::known(&certificates, &chain(&client)).unwrap();
        assert_eq!((user.name.as_str(), user.groups.contains("podkeeper:view")), ("eve", true));
        std::fs::create_dir(dir.join("other")).unwrap();
        let other = Authority::open(&dir.join("other")).unwrap().client("eve", "podkeeper:admin").unwrap();
        assert!(auth::known(&certificates, &chain(&other)).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
