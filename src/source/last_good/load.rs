//! Reading the store at the start: what is damaged is set aside.

use std::fs;
use std::io;
use std::path::Path;

use super::{DAMAGED, LastGood, Remembered, sealed};
use crate::base::{durable, limits, order, regular};

impl LastGood {
    /// Reads what is remembered, in the order of path and version. What is damaged is set aside.
    pub fn load(&mut self) -> Vec<Remembered> {
        self.paths.clear();
        self.make_directory();
        let names = match self.names() {
            Ok(names) => names,
            Err(why) => {
                self.tell(why);
                return Vec::new();
            }
        };
        if names.is_empty() {
            return Vec::new();
        }
        match self.key_file.read() {
            Ok(key) => self.key = key,
            Err(why) => {
                // It may only be late: what is there stays for the next start.
                self.tell(why);
                return Vec::new();
            }
        }
        let (mut loaded, mut bad, mut room) = (Vec::new(), Vec::new(), limits::LAST_GOOD_BYTES);
        for name in names {
            match self.open(&name, &mut room) {
                Ok(content) => loaded.push(content),
                Err(why) => bad.push((name, why)),
            }
        }
        self.set_aside(&bad);
        order::sort_by(&mut loaded, |a: &Remembered, b| (&a.path, a.version).cmp(&(&b.path, b.version)));
        loaded
    }

    /// The names that could be ours. What was being written when the power failed is taken away.
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

    /// Reads one file and takes notice of it; `room` is what all of them may still hold, in bytes.
    fn open(&mut self, name: &str, room: &mut u64) -> Result<Remembered, String> {
        let bytes = read(&self.dir.join(name), *room).map_err(|e| e.to_string())?;
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let key = self.key.as_ref().ok_or("its key is lost")?;
        let content = key.open(self.source, name, &bytes).map_err(|why| why.to_string())?;
        let kept = self.paths.entry(content.path.clone()).or_default();
        kept.stored.insert(content.version, size);
        // Until the source says better.
        kept.needed.push(content.version);
        *room = room.saturating_sub(size);
        Ok(content)
    }

    /// Renames files that yield nothing, and keeps the first few of such.
    fn set_aside(&self, bad: &[(String, String)]) {
        let Some((first, why)) = bad.first() else { return };
        let is_damaged = |name: &str| name.ends_with(DAMAGED);
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut there = entries.filter(|e| e.file_name().to_str().is_some_and(is_damaged)).count();
        for (name, _) in bad {
            let path = self.dir.join(name);
            let done = if there < limits::LAST_GOOD_DAMAGED {
                there = there.saturating_add(1);
                fs::rename(&path, self.dir.join(format!("{name}.{DAMAGED}")))
            } else {
                durable::remove(&path)
            };
            if let Err(e) = done {
                log::warn!("{} cannot be set aside: {e}", path.display());
            }
        }
        log::error!(
            "{} of the files in {} that remember what source {} said cannot be used and are set aside \
             (*.{DAMAGED}): {first}: {why}",
            bad.len(),
            self.dir.display(),
            self.source
        );
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let limit = limit.min(u64::try_from(limits::LAST_GOOD_FILE).unwrap_or(u64::MAX));
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    regular::read(path, usize::try_from(limit).unwrap_or(usize::MAX))
}
