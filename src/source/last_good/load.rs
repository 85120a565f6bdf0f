//! Reads the store at the start. Damaged files are set aside. A file that cannot be read now, or not with this key, is
//! not damaged: it stays for another start.
//!
//! Never here: deleting a file that could not be unsealed.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use super::{DAMAGED, Key, LastGood, Remembered, Unread, proof, sealed};
use crate::base::human::many;
use crate::base::{durable, limits, order, regular};

/// The reason why a file yields no content.
enum Failed {
    /// The file does not exist any more.
    Gone,
    /// Its content is not what was written.
    Damaged(String),
    /// It may be readable another time.
    Trouble(String),
}

/// Repeats a read that may fail only for now.
fn patiently<T>(mut read: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 1..limits::READ_TRIES {
        if let Ok(done) = read() {
            return Ok(done);
        }
        thread::sleep(limits::READ_AGAIN);
    }
    read()
}

impl LastGood {
    /// Reads the stored contents, in the order of path and version. Damaged files are set aside.
    pub fn load(&mut self) -> Vec<Remembered> {
        self.paths.clear();
        self.unread.clear();
        self.make_directory();
        let names = match patiently(|| self.names()) {
            Ok(names) => names,
            Err(why) => {
                self.tell(why);
                return Vec::new();
            }
        };
        if names.is_empty() {
            return Vec::new();
        }
        match patiently(|| self.fitting_key(&names)) {
            Ok(key) => self.key = key,
            Err(why) => {
                // The key may only be late, or have been another one: the files stay for the next start.
                names.into_iter().for_each(|name| self.leave(name, true));
                self.tell(why);
                return Vec::new();
            }
        }
        let mut loaded = self.open_all(names);
        order::sort_by(&mut loaded, |a: &Remembered, b| (&a.path, a.version).cmp(&(&b.path, b.version)));
        loaded
    }

    fn open_all(&mut self, mut names: Vec<String>) -> Vec<Remembered> {
        let (mut loaded, mut bad, mut room) = (Vec::new(), Vec::new(), limits::LAST_GOOD_READ);
        let mut tries = limits::READ_TRIES;
        loop {
            let mut trouble = Vec::new();
            for name in names {
                match self.open(&name, &mut room) {
                    Ok(content) => loaded.push(content),
                    Err(Failed::Gone) => {}
                    Err(Failed::Damaged(why)) => bad.push((name, why)),
                    Err(Failed::Trouble(why)) => trouble.push((name, why)),
                }
            }
            tries = tries.saturating_sub(1);
            let Some((first, why)) = trouble.first() else { break };
            if tries == 0 {
                let what = many(trouble.len(), "file");
                self.tell(format!(
                    "{what} in {} that remember what it said cannot be read now and stay for the next start: {first}: {why}",
                    self.dir.display(),
                ));
                trouble.into_iter().for_each(|(name, _)| self.leave(name, true));
                break;
            }
            thread::sleep(limits::READ_AGAIN);
            names = trouble.into_iter().map(|(name, _)| name).collect();
        }
        self.set_aside(bad);
        loaded
    }

    /// The key; `None` when there is none yet and podkeeper may make it. `names`: the stored files.
    ///
    /// # Errors
    /// The key cannot be read, or another key sealed the stored files.
    fn fitting_key(&self, names: &[String]) -> Result<Option<Key>, String> {
        let key = self.key_file.read()?;
        if let Some(key) = &key {
            proof::check((&self.dir, self.source), &self.key_file, key, names)?;
        }
        Ok(key)
    }

    /// Reads the key that fits the stored files, unless it is known.
    ///
    /// # Errors
    /// As [`LastGood::fitting_key`].
    pub(super) fn find_key(&mut self) -> Result<(), String> {
        if self.key.is_none() {
            self.key = self.fitting_key(&self.names()?)?;
            // The next start has the key, too.
            self.unread.values_mut().for_each(|file| file.waits = false);
        }
        Ok(())
    }

    /// Notes a file that is left in place.
    fn leave(&mut self, name: String, waits: bool) {
        let size = fs::symlink_metadata(self.dir.join(&name)).map_or(0, |meta| meta.len());
        self.unread.insert(name, Unread { size, waits });
    }

    /// Names of the files that may be contents. Incomplete files of a write that a power cut ended are removed.
    fn names(&self) -> Result<Vec<String>, String> {
        let what = |e: io::Error| format!("{} cannot be read: {e}", self.dir.display());
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(names),
            other => other.map_err(what)?,
        };
        for entry in entries {
            let Ok(name) = entry.map_err(what)?.file_name().into_string() else { continue };
            if sealed::is_name(&name) {
                names.push(name);
            } else if name.ends_with(&format!(".{}", durable::BESIDE)) {
                let _harmless = durable::remove(&self.dir.join(name));
            }
        }
        order::sort(&mut names);
        Ok(names)
    }

    /// Reads one file and notes it; `room` is the number of bytes that all files may still have.
    fn open(&mut self, name: &str, room: &mut u64) -> Result<Remembered, Failed> {
        let bytes = read(&self.dir.join(name), *room).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Failed::Gone,
            _ if regular::is_trouble(&e) => Failed::Trouble(e.to_string()),
            _ => Failed::Damaged(e.to_string()),
        })?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let key = self.key.as_ref().ok_or_else(|| Failed::Damaged("its key is lost".to_owned()))?;
        let content = key.open(self.source, name, &bytes).map_err(|why| Failed::Damaged(why.to_string()))?;
        let kept = self.paths.get_or_default(content.path.clone());
        kept.stored.insert(content.version, size);
        // Until the source has decided.
        kept.needed.push(content.version);
        *room = room.saturating_sub(size);
        Ok(content)
    }

    /// Renames the first unusable files, up to a bound; others stay, and are unusable at the next start, too.
    fn set_aside(&mut self, bad: Vec<(String, String)>) {
        let Some((first, why)) = bad.first() else { return };
        log::error!(
            "{} of the files in {} that remember what source {} said cannot be used and are set aside \
             (*.{DAMAGED}; at most {}, others stay as they are): {first}: {why}",
            bad.len(),
            self.dir.display(),
            self.source,
            limits::LAST_GOOD_DAMAGED
        );
        let is_damaged = |name: &str| name.ends_with(DAMAGED);
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut there = entries.filter(|e| e.file_name().to_str().is_some_and(is_damaged)).count();
        for (name, _) in bad {
            let path = self.dir.join(&name);
            if there >= limits::LAST_GOOD_DAMAGED {
                self.leave(name, false);
                continue;
            }
            there = there.saturating_add(1);
            if let Err(e) = fs::rename(&path, self.dir.join(format!("{name}.{DAMAGED}"))) {
                log::warn!("{} cannot be set aside: {e}", path.display());
                self.leave(name, false);
            }
        }
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let limit = limit.min(u64::try_from(limits::LAST_GOOD_FILE).unwrap_or(u64::MAX));
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    regular::read(path, usize::try_from(limit).unwrap_or(usize::MAX))
}
