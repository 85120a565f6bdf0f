//! The durable store of objects that are written over this node's own API: one sealed file for each object, written
//! completely or not at all before the client gets its answer.
//!
//! Files are sealed like the contents of the other sources, with the same key: see
//! [`last_good::sealed`](super::last_good). A damaged file is set aside and reported; the others count. A file that
//! cannot be read now is not damaged: the whole store is read again, a few times. When a key that was named fits no
//! file, the key is wrong: nothing is changed. Never here: treating a missing object as one that is not wanted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::concealed::Concealed;
use crate::base::table::Set;
use crate::base::{durable, limits, order, regular};
use crate::pod::Source;
use crate::source::last_good::sealed::{self, Key, Remembered};
use crate::source::last_good::{DAMAGED, KeyFile, LastGood, for_sealing, key_file, proof};

/// The store's directory below the root directory.
const DIRECTORY: &str = "api";

/// The files of the store, and their key.
#[derive(Debug)]
pub struct Store {
    root_dir: PathBuf,
    dir: PathBuf,
    given: Option<PathBuf>,
    key_file: KeyFile,
    key: Option<Key>,
    /// The directory has a proof of the key.
    is_proven: bool,
    /// Files that exist and could not be used, by the stem of their names.
    unread: Set<String>,
}

/// The reason why a file is not used.
enum Unread {
    /// Its content is not what was written.
    Damaged(String),
    /// It may be readable another time.
    Trouble(String),
    /// The file does not exist any more.
    Gone,
}

/// The common prefix of the names of a file and its damaged form.
fn stem(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The store's directory.
#[must_use]
pub fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join(DIRECTORY)
}

impl Store {
    /// The store below this root directory; it does not touch the disk yet. `given`: `--last-good-key-file`.
    #[must_use]
    pub fn new(root_dir: &Path, given: Option<&Path>) -> Store {
        Store {
            root_dir: root_dir.to_owned(),
            dir: directory(root_dir),
            given: given.map(Path::to_owned),
            key_file: key_file(root_dir, given),
            key: None,
            is_proven: false,
            unread: Set::new(),
        }
    }

    /// All stored objects, by path. `patient`: files that cannot be read now are an error; otherwise the others count
    /// without them.
    ///
    /// # Errors
    /// The store cannot be read now, for the operator. It may be readable another time.
    pub fn load(&mut self, patient: bool) -> Result<Vec<(String, Vec<u8>)>, String> {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.key_file.read()?;
        if let Some(key) = &key {
            proof::check((&self.dir, Source::Api), &self.key_file, key, &names)?;
        }
        self.key = key;
        let mut all = Vec::new();
        for name in names {
            match self.open(&name) {
                Ok(content) => all.push((content.path, content.bytes.0)),
                Err(Unread::Gone) => {}
                Err(Unread::Trouble(why)) if patient => {
                    return Err(format!("{} cannot be read: {why}", self.dir.join(name).display()));
                }
                Err(Unread::Trouble(why)) => {
                    log::error!("{} is left out: {why}", self.dir.join(&name).display());
                    self.unread.insert(stem(&name));
                }
                Err(Unread::Damaged(why)) => self.set_aside(&name, &why),
            }
        }
        order::sort_by(&mut all, |a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// Number of files whose content is not known.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.unread.len()
    }

    fn names(&mut self) -> Result<Vec<String>, String> {
        let what = |error: io::Error| format!("{} cannot be read: {error}", self.dir.display());
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(what)?,
        };
        let mut names = Vec::new();
        self.unread.clear();
        for entry in entries {
            let Ok(name) = entry.map_err(what)?.file_name().into_string() else { continue };
            if sealed::is_name(&name) && names.len() < limits::API_OBJECTS {
                names.push(name);
            } else if sealed::is_name(&name) || name.ends_with(&format!(".{DAMAGED}")) {
                self.unread.insert(stem(&name));
            } else if name.ends_with(&format!(".{}", durable::BESIDE)) {
                let _harmless = durable::remove(&self.dir.join(name));
            }
        }
        order::sort(&mut names);
        Ok(names)
    }

    fn open(&self, name: &str) -> Result<Remembered, Unread> {
        let read = regular::read(&self.dir.join(name), limits::API_STORED);
        let bytes = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unread::Gone,
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => Unread::Damaged(error.to_string()),
            _ => Unread::Trouble(error.to_string()),
        })?;
        let key = self.key.as_ref().ok_or_else(|| Unread::Damaged("its key is lost".to_owned()))?;
        key.open(Source::Api, name, &bytes).map_err(|why| Unread::Damaged(why.to_string()))
    }

    fn set_aside(&mut self, name: &str, why: &str) {
        let path = self.dir.join(name);
        let aside = path.with_extension(DAMAGED);
        self.unread.insert(stem(name));
        let (path_text, text) = (path.display(), aside.display());
        match fs::rename(&path, &aside) {
            Ok(()) => log::error!("{path_text} is not used: {why}; it is {text} now"),
            Err(error) => log::error!("{path_text} is not used: {why}; it cannot be set aside: {error}"),
        }
    }

    /// Notes that the content of a damaged file is known again, or not wanted any more.
    fn settle(&mut self, name: &str) {
        if self.unread.remove(&stem(name)) {
            let _harmless = durable::remove(&self.dir.join(name).with_extension(DAMAGED));
        }
    }

    /// Writes one object.
    ///
    /// # Errors
    /// The object is unchanged; for the client.
    pub fn save(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{path} cannot be stored: {error}");
        if !self.dir.exists() {
            LastGood::prepare(&self.root_dir, self.given.as_deref()).map_err(|why| cannot(&why))?;
            durable::make_directory(&self.dir).map_err(|error| cannot(&error))?;
            durable::sync_parent(&self.dir).map_err(|error| cannot(&error))?;
        }
        if !self.is_proven {
            let (key, nonce) = for_sealing(&mut self.key, &self.key_file).map_err(|error| cannot(&error))?;
            let at = (self.dir.as_path(), Source::Api);
            proof::leave(at, &self.key_file, key, nonce).map_err(|error| cannot(&error))?;
            self.is_proven = true;
        }
        let (key, nonce) = for_sealing(&mut self.key, &self.key_file).map_err(|error| cannot(&error))?;
        let content = Remembered { path: path.to_owned(), bytes: Concealed(bytes), ..Remembered::default() };
        let sealed = key.seal(Source::Api, &content, nonce);
        let (name, file) = sealed.ok_or_else(|| cannot(&"it cannot be sealed"))?;
        durable::write(&self.dir.join(&name), &file).map_err(|error| cannot(&error))?;
        self.settle(&name);
        Ok(())
    }

    /// Removes one object.
    ///
    /// # Errors
    /// The object may be there again after the next start; for the client.
    pub fn remove(&mut self, path: &str) -> Result<(), String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{path} cannot be removed: {error}");
        let (key, _) = for_sealing(&mut self.key, &self.key_file).map_err(|error| cannot(&error))?;
        let name = key.name(path, Remembered::default().version);
        let file = self.dir.join(&name);
        durable::remove(&file).and_then(|()| durable::sync_parent(&file)).map_err(|error| cannot(&error))?;
        self.settle(&name);
        Ok(())
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
        assert_eq!(store.load(true), Ok(Vec::new()));
        store.save("pods/default/web", b"canary-1".to_vec()).unwrap();
        store.save("secrets/default/s", b"canary-2".to_vec()).unwrap();
        store.save("pods/default/web", b"canary-3".to_vec()).unwrap();
        let pair = |path: &str, bytes: &str| (path.to_owned(), bytes.as_bytes().to_vec());
        let expected = vec![pair("pods/default/web", "canary-3"), pair("secrets/default/s", "canary-2")];
        assert_eq!(Store::new(&dir, None).load(true), Ok(expected));
        for file in fs::read_dir(dir.join(DIRECTORY)).unwrap() {
            let file = file.unwrap().path();
            assert!(!String::from_utf8_lossy(&fs::read(&file).unwrap()).contains("canary"));
            assert!(!file.to_string_lossy().contains("web"));
        }
        store.remove("pods/default/web").unwrap();
        assert_eq!(Store::new(&dir, None).load(true).unwrap().len(), 1);
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
        assert_eq!(Store::new(&dir, None).load(true).unwrap().len(), 1);
        assert!(first.with_extension(DAMAGED).exists());
        // Its pod may run: it counts as missing after the next start too, until the object is written again.
        let mut store = Store::new(&dir, None);
        assert_eq!((store.load(true).unwrap().len(), store.unread()), (1, 1));
        store.save("pods/default/a", b"a".to_vec()).unwrap();
        store.save("pods/default/b", b"b".to_vec()).unwrap();
        assert_eq!(store.unread(), 0);
        assert!(!first.with_extension(DAMAGED).exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    /// All objects that were written over the API were set aside at a start with another key.
    #[test]
    fn with_a_wrong_key_nothing_is_touched() {
        let dir = scratch("api-store-key");
        fs::create_dir_all(&dir).unwrap();
        let key = dir.join("given");
        fs::write(&key, [5; 32]).unwrap();
        let new = || Store::new(&dir, Some(&key));
        new().save("pods/default/a", b"a".to_vec()).unwrap();
        let file = fs::read_dir(dir.join(DIRECTORY)).unwrap().map(|e| e.unwrap().path());
        let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "good")).unwrap();
        fs::write(&key, [6; 32]).unwrap();
        for patient in [true, false] {
            let why = new().load(patient).unwrap_err();
            assert!(why.contains("another key than the one that sealed"), "{why}");
        }
        fs::write(&key, [5; 32]).unwrap();
        assert_eq!(new().load(true).unwrap().len(), 1);
        // With the right key only this file is damaged.
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        let mut store = new();
        assert_eq!((store.load(true).unwrap().len(), store.unread()), (0, 1));
        fs::remove_dir_all(&dir).unwrap();
    }

    /// One error of the disk lost a whole file, and its pod was stopped.
    #[test]
    fn a_file_that_cannot_be_read_now_is_no_damaged_one() {
        let dir = scratch("api-store-trouble");
        let mut store = Store::new(&dir, None);
        store.save("pods/default/a", b"a".to_vec()).unwrap();
        store.save("pods/default/b", b"b".to_vec()).unwrap();
        let first = fs::read_dir(dir.join(DIRECTORY)).unwrap().next().unwrap().unwrap().path();
        let aside = first.with_extension("aside");
        fs::rename(&first, &aside).unwrap();
        // The kernel refuses a ring of links.
        std::os::unix::fs::symlink(&first, &first).unwrap();
        let mut store = Store::new(&dir, None);
        assert!(store.load(true).unwrap_err().contains("cannot be read"));
        assert_eq!((store.load(false).unwrap().len(), store.unread()), (1, 1));
        fs::rename(&aside, &first).unwrap();
        assert_eq!((store.load(true).unwrap().len(), store.unread()), (2, 0));
        fs::remove_dir_all(&dir).unwrap();
    }
}
