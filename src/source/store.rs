//! The durable store of what is written over this node's own API: one sealed file for each object, written whole or not at
//! all before the client is answered.
//!
//! Sealed as what is remembered of the other sources is, with the same key: see [`last_good::sealed`](super::last_good).
//! A file that cannot be opened is set aside and told; the others count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::concealed::Concealed;
use crate::base::{durable, limits, order, regular};
use crate::pod::Source;
use crate::source::last_good::sealed::{self, Key, Remembered};
use crate::source::last_good::{DAMAGED, KeyFile, LastGood, for_sealing, key_file};

/// The store's directory below the root directory.
const DIRECTORY: &str = "api";

/// See the head of this file.
#[derive(Debug)]
pub struct Store {
    root_dir: PathBuf,
    dir: PathBuf,
    given: Option<PathBuf>,
    key_file: KeyFile,
    key: Option<Key>,
}

/// The store's directory.
#[must_use]
pub fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join(DIRECTORY)
}

impl Store {
    /// The store below this root directory; nothing is touched yet. `key_file`: `--last-good-key-file`.
    #[must_use]
    pub fn new(root_dir: &Path, given: Option<&Path>) -> Store {
        Store {
            root_dir: root_dir.to_owned(),
            dir: directory(root_dir),
            given: given.map(Path::to_owned),
            key_file: key_file(root_dir, given),
            key: None,
        }
    }

    /// Everything that is stored, by path.
    ///
    /// # Errors
    /// It cannot be read now, for the operator. Another time it may.
    pub fn load(&mut self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.key = self.key_file.read()?;
        let mut all = Vec::new();
        for name in names {
            match self.open(&name) {
                Ok(content) => all.push((content.path, content.bytes.0)),
                Err(why) => self.set_aside(&name, &why)?,
            }
        }
        order::sort_by(&mut all, |a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    fn names(&self) -> Result<Vec<String>, String> {
        let what = |error: io::Error| format!("{} cannot be read: {error}", self.dir.display());
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(what)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let Ok(name) = entry.map_err(what)?.file_name().into_string() else { continue };
            if sealed::is_name(&name) && names.len() < limits::API_OBJECTS {
                names.push(name);
            } else if name.ends_with(&format!(".{}", durable::BESIDE)) {
                let _harmless = durable::remove(&self.dir.join(name));
            }
        }
        order::sort(&mut names);
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Remembered, String> {
        let bytes =
            regular::read(&self.dir.join(name), limits::API_STORED).map_err(|error| error.to_string())?;
        let key = self.key.as_ref().ok_or("its key is lost")?;
        key.open(Source::Api, name, &bytes).map_err(|why| why.to_string())
    }

    fn set_aside(&self, name: &str, why: &str) -> Result<(), String> {
        let path = self.dir.join(name);
        let aside = path.with_extension(DAMAGED);
        log::error!("{} is not used: {why}; it is {} now", path.display(), aside.display());
        fs::rename(&path, &aside).map_err(|error| format!("{} cannot be set aside: {error}", path.display()))
    }

    /// Writes one object.
    ///
    /// # Errors
    /// It is as it was before, for the client.
    pub fn save(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{path} cannot be stored: {error}");
        if !self.dir.exists() {
            LastGood::prepare(&self.root_dir, self.given.as_deref()).map_err(|why| cannot(&why))?;
            durable::make_directory(&self.dir).map_err(|error| cannot(&error))?;
            durable::sync_parent(&self.dir).map_err(|error| cannot(&error))?;
        }
        let (key, nonce) = for_sealing(&mut self.key, &self.key_file).map_err(|error| cannot(&error))?;
        let content = Remembered { path: path.to_owned(), bytes: Concealed(bytes), ..Remembered::default() };
        let sealed = key.seal(Source::Api, &content, nonce);
        let (name, file) = sealed.ok_or_else(|| cannot(&"it cannot be sealed"))?;
        durable::write(&self.dir.join(name), &file).map_err(|error| cannot(&error))
    }

    /// Removes one object.
    ///
    /// # Errors
    /// It may be there again after the next start, for the client.
    pub fn remove(&mut self, path: &str) -> Result<(), String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{path} cannot be removed: {error}");
        let (key, _) = for_sealing(&mut self.key, &self.key_file).map_err(|error| cannot(&error))?;
        let file = self.dir.join(key.name(path, Remembered::default().version));
        durable::remove(&file).and_then(|()| durable::sync_parent(&file)).map_err(|error| cannot(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;

    #[test]
    fn what_is_saved_comes_back_and_nothing_of_it_is_seen() {
        let dir = scratch("api-store");
        let mut store = Store::new(&dir, None);
        assert_eq!(store.load(), Ok(Vec::new()));
        store.save("pods/default/web", b"canary-1".to_vec()).unwrap();
        store.save("secrets/default/s", b"canary-2".to_vec()).unwrap();
        store.save("pods/default/web", b"canary-3".to_vec()).unwrap();
        let pair = |path: &str, bytes: &str| (path.to_owned(), bytes.as_bytes().to_vec());
        let expected = vec![pair("pods/default/web", "canary-3"), pair("secrets/default/s", "canary-2")];
        assert_eq!(Store::new(&dir, None).load(), Ok(expected));
        for file in fs::read_dir(dir.join(DIRECTORY)).unwrap() {
            let file = file.unwrap().path();
            assert!(!String::from_utf8_lossy(&fs::read(&file).unwrap()).contains("canary"));
            assert!(!file.to_string_lossy().contains("web"));
        }
        store.remove("pods/default/web").unwrap();
        assert_eq!(Store::new(&dir, None).load().unwrap().len(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_the_others_count() {
        let dir = scratch("api-store-damaged");
        let mut store = Store::new(&dir, None);
        store.save("pods/default/a", b"a".to_vec()).unwrap();
        store.save("pods/default/b", b"b".to_vec()).unwrap();
        let first = fs::read_dir(dir.join(DIRECTORY)).unwrap().next().unwrap().unwrap().path();
        let mut bytes = fs::read(&first).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&first, bytes).unwrap();
        assert_eq!(Store::new(&dir, None).load().unwrap().len(), 1);
        assert!(first.with_extension(DAMAGED).exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
