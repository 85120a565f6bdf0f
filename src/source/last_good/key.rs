//! The key that seals stored manifests: one file of 32 random bytes.
//!
//! The key below the root directory is made when it is first needed. A key that the operator names is never made here:
//! it may be late (unsealed by a TPM, on a file system in memory), and a new key in its place would make all stored
//! contents unreadable.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};

use super::sealed::{KEY_BYTES, Key};
use crate::base::durable;
use crate::base::regular;

/// The file of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFile {
    /// podkeeper's own: made when it is missing.
    Own(PathBuf),
    /// `--last-good-key-file`.
    Given(PathBuf),
}

impl KeyFile {
    /// Reads the key; `None` when there is none yet and podkeeper may make it.
    ///
    /// # Errors
    /// The reason why there is no key, for the operator.
    pub fn read(&self) -> Result<Option<Key>, String> {
        let (KeyFile::Own(path) | KeyFile::Given(path)) = self;
        let what = |why: String| format!("the key file {}: {why}", path.display());
        let file = match regular::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => match self {
                KeyFile::Own(_) => return Ok(None),
                KeyFile::Given(_) => {
                    let how = "does not exist; make one with: head -c 32 /dev/urandom";
                    return Err(what(how.to_owned()));
                }
            },
            Err(e) => return Err(what(e.to_string())),
        };
        let meta = file.metadata().map_err(|e| what(e.to_string()))?;
        if meta.permissions().mode() & 0o077 != 0 {
            log::warn!("{} may be read by others than its owner", path.display());
        }
        let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
        file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| what(e.to_string()))?;
        let key = <&[u8; KEY_BYTES]>::try_from(bytes.as_slice()).ok().and_then(Key::new);
        match self {
            _ if key.is_some() => Ok(key),
            KeyFile::Given(_) => Err(what(format!("must hold exactly {KEY_BYTES} random bytes"))),
            KeyFile::Own(_) => {
                let aside = path.with_extension("damaged");
                fs::rename(path, &aside).map_err(|e| what(e.to_string()))?;
                log::warn!("{} is damaged; it is {} now", path.display(), aside.display());
                Ok(None)
            }
        }
    }

    /// The key, made if there is none yet. Sources share it, and each has a thread: one of them makes it, the others
    /// read it.
    ///
    /// # Errors
    /// The reason why there is no key, for the operator.
    pub fn read_or_make(&self) -> Result<Key, String> {
        static MAKING: Mutex<()> = Mutex::new(());
        let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        match self.read()? {
            Some(key) => Ok(key),
            None => self.make(),
        }
    }

    /// Makes podkeeper's own key.
    ///
    /// # Errors
    /// The reason of the failure. A key that the operator names is never made.
    fn make(&self) -> Result<Key, String> {
        let KeyFile::Own(path) = self else { return Err("there is no key".to_owned()) };
        let what =
            |why: &dyn std::fmt::Display| format!("the key file {} cannot be made: {why}", path.display());
        let mut bytes = [0_u8; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| what(&"no random numbers"))?;
        durable::write(path, &bytes).map_err(|e| what(&e))?;
        Key::new(&bytes).ok_or_else(|| what(&"it does not fit"))
    }
}
