//! The files of a certificate that was signed for the node, with the kubelet's layout
//! (`client-go/util/certificate/certificate_store.go`): key and chain in one file `PREFIX-TIME.pem`, and a
//! link `PREFIX-current.pem` to it, so that a power cut leaves either the old pair or the new one.
//!
//! Never here: a message with a byte of a key.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::request::Kind;
use crate::base::clock::Timestamp;
use crate::base::tls::x509::{self, Validity};
use crate::base::{durable, limits, regular};

/// The known fields of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub certificate: CertificateDer<'static>,
    pub validity: Validity,
    /// Its common name.
    pub user: String,
}

impl Held {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// There is no readable certificate.
    pub fn read(pem: &[u8]) -> Result<Held, String> {
        let none = || "no certificate that can be read".to_owned();
        let certificate = CertificateDer::pem_slice_iter(pem).next().and_then(Result::ok).ok_or_else(none)?;
        let (user, _) = x509::subject(&certificate).ok_or_else(none)?;
        let validity = x509::validity(&certificate).ok_or_else(none)?;
        Ok(Held { certificate, validity, user })
    }

    /// Whether the certificate belongs to this key.
    #[must_use]
    pub fn is_of(&self, key: &KeyPair) -> bool {
        x509::public_key(&self.certificate).is_some_and(|of| of == key.subject_public_key_info())
    }
}

/// The files of one kind of certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    directory: PathBuf,
    prefix: &'static str,
}

impl Place {
    /// The files in `--cert-dir`.
    #[must_use]
    pub fn of(kind: Kind, directory: &Path) -> Place {
        Place { directory: directory.to_owned(), prefix: kind.prefix() }
    }

    /// The link to the pair that is in use.
    #[must_use]
    pub fn current(&self) -> PathBuf {
        self.directory.join(format!("{}-current.pem", self.prefix))
    }

    /// The key of a request in progress.
    fn key_file(&self) -> PathBuf {
        self.directory.join(format!("{}.key.asked", self.prefix))
    }

    /// The pair that is in use; `None` without a usable one.
    #[must_use]
    pub fn load(&self) -> Option<Held> {
        let bytes = regular::read_patiently(&self.current(), limits::PEM_FILE).ok()?;
        let held = Held::read(&bytes).ok()?;
        // The certificates come before the key.
        let key = KeyPair::try_from(&PrivateKeyDer::from_pem_slice(&bytes).ok()?).ok()?;
        held.is_of(&key).then_some(held)
    }

    /// The key of the request in progress, or a new one, which is stored durably.
    ///
    /// # Errors
    /// The key cannot be read now, or cannot be stored, in a sentence that names the file.
    pub fn key(&self) -> Result<KeyPair, String> {
        let path = self.key_file();
        let kept = match regular::read_patiently(&path, limits::PEM_FILE) {
            // It may be the key of a request that will be approved.
            Err(error) if regular::is_trouble(&error) => {
                return Err(format!("{} cannot be read: {error}", path.display()));
            }
            other => other.ok(),
        };
        let kept = kept.and_then(|bytes| KeyPair::from_pem(std::str::from_utf8(&bytes).ok()?).ok());
        if let Some(key) = kept {
            return Ok(key);
        }
        let cannot = |error: &dyn std::fmt::Display| format!("{} cannot be written: {error}", path.display());
        let key = KeyPair::generate().map_err(|error| cannot(&error))?;
        self.make_directory().map_err(|error| cannot(&error))?;
        durable::write(&path, key.serialize_pem().as_bytes()).map_err(|error| cannot(&error))?;
        Ok(key)
    }

    /// Forgets the key of a request: the next one has another.
    pub fn drop_key(&self) {
        if let Err(error) = durable::remove(&self.key_file()) {
            log::warn!("{} cannot be removed: {error}", self.key_file().display());
        }
    }

    /// Puts a pair into use, and removes all older ones except the previous one.
    ///
    /// # Errors
    /// The pair cannot be stored, in a sentence that names the file.
    pub fn put(&self, key: &KeyPair, chain: &[u8], now: Timestamp) -> Result<(), String> {
        let name = format!("{}-{}.pem", self.prefix, now.strftime("%Y-%m-%d-%H-%M-%S"));
        let path = self.directory.join(&name);
        let cannot = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        let mut bytes = chain.trim_ascii().to_vec();
        bytes.push(b'\n');
        bytes.extend_from_slice(key.serialize_pem().as_bytes());
        let before = fs::read_link(self.current()).ok();
        self.make_directory().map_err(cannot)?;
        durable::write(&path, &bytes).map_err(cannot)?;
        let beside = self.directory.join(format!("{}-current.{}", self.prefix, durable::BESIDE));
        durable::remove(&beside).map_err(cannot)?;
        symlink(&name, &beside).map_err(cannot)?;
        fs::rename(&beside, self.current()).map_err(cannot)?;
        durable::sync_parent(&self.current()).map_err(cannot)?;
        self.remove_but(&[Some(PathBuf::from(&name)), before]);
        Ok(())
    }

    fn make_directory(&self) -> io::Result<()> {
        match durable::make_directory(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => fs::create_dir_all(&self.directory),
            other => other,
        }
    }

    /// Flash is small: only one replaced pair is kept.
    fn remove_but(&self, kept: &[Option<PathBuf>]) {
        let begin = format!("{}-2", self.prefix);
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            let name = PathBuf::from(entry.file_name());
            let text = name.to_string_lossy();
            let is_pair = text.starts_with(&begin) && text.ends_with(".pem");
            if is_pair && !kept.iter().flatten().any(|kept| *kept == name) {
                // A file that could not be removed is removed the next time.
                let _stays = durable::remove(&entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{CertificateParams, DnType};

    use super::*;
    use crate::base::testing::scratch;

    fn signed(key: &KeyPair) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "system:node:n1");
        params.self_signed(key).unwrap().pem()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    #[test]
    fn a_pair_is_kept_whole_and_for_its_owner_alone() {
        let dir = scratch("certificate-files").join("deep/pki");
        let place = Place::of(Kind::Client, &dir);
        assert_eq!(place.load(), None);
        let key = place.key().unwrap();
        assert_eq!(place.key().unwrap().serialize_pem(), key.serialize_pem(), "a restart finds it");
        place.put(&key, signed(&key).as_bytes(), at(0)).unwrap();
        place.drop_key();
        let held = place.load().unwrap();
        assert_eq!(held.user, "system:node:n1");
        let path = fs::canonicalize(place.current()).unwrap();
        assert_eq!(path.file_name().unwrap(), "kubelet-client-2026-09-21-14-13-20.pem");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = place.key().unwrap();
        assert_ne!(second.serialize_pem(), key.serialize_pem());
        for again in 1..4 {
            place.put(&second, signed(&second).as_bytes(), at(again)).unwrap();
        }
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 4, "the link, two pairs and the key: {names:?}");
        // A certificate of another key does not form a pair.
        place.put(&key, signed(&second).as_bytes(), at(9)).unwrap();
        assert_eq!(place.load(), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Regression: after one disk error, the request of an approved certificate got another key.
    #[test]
    fn a_key_that_cannot_be_read_now_is_kept() {
        use crate::base::regular::faults::READS;
        let dir = scratch("certificate-trouble");
        let place = Place::of(Kind::Client, &dir);
        let key = place.key().unwrap();
        let fails = |path: PathBuf, times| {
            READS.with_borrow_mut(|all| _ = all.insert(path, (times, rustix::io::Errno::MFILE)));
        };
        fails(place.key_file(), u32::MAX);
        assert!(place.key().unwrap_err().contains("client.key.asked cannot be read"));
        fails(place.key_file(), 1);
        assert_eq!(place.key().unwrap().serialize_pem(), key.serialize_pem());
        place.put(&key, signed(&key).as_bytes(), at(0)).unwrap();
        fails(place.current(), 1);
        assert!(place.load().is_some());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_power_cut_at_any_step_leaves_a_pair() {
        let dir = scratch("certificate-cuts");
        let place = Place::of(Kind::Serving, &dir);
        let key = place.key().unwrap();
        place.put(&key, signed(&key).as_bytes(), at(0)).unwrap();
        for steps in 0..12 {
            durable::STEPS.set(Some((steps, ErrorKind::StorageFull)));
            let done = place.key().and_then(|key| place.put(&key, signed(&key).as_bytes(), at(1)));
            durable::STEPS.set(None);
            assert!(place.load().is_some(), "after {steps} steps: {done:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
