//! What was last accepted from a source, kept so that a node starts without that source: `ROOT/last-good/`.
//!
//! One file for each content of a path that is still needed (usually one), sealed: see `sealed`; and one with the
//! highest signed versions: see `seen`. The source's own thread reads it once at start, judges everything anew (`replay`), and writes after what it says was
//! sent: a slow or full disk delays no pod. Whatever goes wrong here is told once, in the source's state too,
//! and tried again; it stops nothing.
//!
//! Never here: trusting what was read, writing while nothing changes, making a directory anew that somebody
//! took away (that is how `forget` tells a daemon).

pub mod forget;
mod key;
pub mod replay;
pub mod sealed;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

pub use self::sealed::{Key, Remembered};
pub use self::seen::Board;

use self::key::KeyFile;
use self::seen::Seen;
use crate::base::clock::Mono;
use crate::base::durable;
use crate::base::limits;
use crate::base::order;
use crate::base::regular;
use crate::pod::Source;
use crate::source::SourceUpdate;
use crate::source::in_force::Version;

/// Directory below the root directory.
pub const DIRECTORY: &str = "last-good";
/// The key's name in it.
const KEY: &str = "key";
/// Ending of a file that yielded nothing.
const DAMAGED: &str = "damaged";

/// The store of one source.
#[derive(Debug)]
pub struct LastGood {
    source: Source,
    /// `ROOT/last-good/SOURCE`.
    dir: PathBuf,
    key_file: KeyFile,
    key: Option<Key>,
    paths: BTreeMap<String, Kept>,
    /// The directory is there, as far as is known.
    present: bool,
    /// The last attempt failed: the next one comes then, or with the next change.
    retry: Option<Mono>,
    /// How long to wait after the next failure.
    wait: Duration,
    /// Why not everything is remembered.
    trouble: Option<String>,
    /// What of that the loop was told.
    told: Option<String>,
    /// The highest signed versions.
    seen: Seen,
    /// Those of all sources.
    board: Board,
}

/// What is kept of one path.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes of each file that is there.
    stored: BTreeMap<Version, u64>,
    /// Contents whose file is still to be written.
    unsaved: BTreeMap<Version, Remembered>,
    /// Contents that make the state, oldest first; none when the path is to be forgotten.
    needed: Vec<Version>,
    /// There was no room for the newest one.
    left_out: bool,
}

impl Kept {
    fn is_settled(&self) -> bool {
        self.unsaved.is_empty() && self.stored.keys().all(|v| self.needed.contains(v))
    }
}

/// Directory of a source's store.
#[must_use]
pub fn directory(root_dir: &Path, source: Source) -> PathBuf {
    root_dir.join(DIRECTORY).join(source.as_str())
}

impl LastGood {
    /// The store of a source below this root directory. Nothing is touched yet. `key_file`:
    /// `--last-good-key-file`.
    #[must_use]
    pub fn new(root_dir: &Path, key_file: Option<&Path>, source: Source) -> LastGood {
        let key_file = match key_file {
            Some(path) => KeyFile::Given(path.to_owned()),
            None => KeyFile::Own(root_dir.join(DIRECTORY).join(KEY)),
        };
        LastGood {
            source,
            dir: directory(root_dir, source),
            key_file,
            key: None,
            paths: BTreeMap::new(),
            present: false,
            retry: None,
            wait: limits::LAST_GOOD_RETRY_MIN,
            trouble: None,
            told: None,
            seen: Seen::default(),
            board: Board::default(),
        }
    }

    /// Makes the directory and the key that all sources share, before any of them begins. What fails here is
    /// tried again by each of them, and told by each.
    ///
    /// # Errors
    /// For the operator.
    pub fn prepare(root_dir: &Path, key_file: Option<&Path>) -> Result<(), String> {
        let store = LastGood::new(root_dir, key_file, Source::File);
        let dir = root_dir.join(DIRECTORY);
        durable::make_directory(&dir).map_err(|e| format!("{} cannot be made: {e}", dir.display()))?;
        store.key_file.read_or_make().map(|_| ())
    }

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

    /// Remembers a content, and of its path nothing but the versions that are `needed` (oldest first, this
    /// one among them). It is written by [`LastGood::save_some`].
    pub fn remember(&mut self, content: Remembered, needed: &[Version]) {
        let kept = self.paths.entry(content.path.clone()).or_default();
        kept.needed = needed.to_vec();
        kept.unsaved.retain(|version, _| needed.contains(version));
        kept.unsaved.insert(content.version, content);
        kept.left_out = false;
        self.retry = None;
    }

    /// Of this path only these versions are needed, as its replay has shown.
    pub fn keep(&mut self, path: &str, needed: &[Version]) {
        if let Some(kept) = self.paths.get_mut(path) {
            kept.needed = needed.to_vec();
        }
    }

    /// Keeps only the paths that are wanted.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        for (path, kept) in &mut self.paths {
            if !wanted(path) {
                kept.unsaved.clear();
                kept.needed.clear();
                kept.left_out = false;
                self.retry = None;
            }
        }
    }

    /// There is something to write or to remove now.
    #[must_use]
    pub fn is_behind(&self, now: Mono) -> bool {
        self.retry.is_none_or(|at| at <= now) && self.is_unsettled()
    }

    /// When to try again what failed.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        self.retry.filter(|_| self.is_unsettled())
    }

    fn is_unsettled(&self) -> bool {
        self.paths.values().any(|kept| !kept.is_settled()) || !self.seen.is_settled()
    }

    /// What the loop should know of the store, if that is new.
    pub fn take_news(&mut self) -> Option<SourceUpdate> {
        if self.told == self.trouble {
            return None;
        }
        self.told.clone_from(&self.trouble);
        Some(SourceUpdate::Store(self.trouble.clone()))
    }

    /// Brings one path up to date. Failure is told once and tried again, ever more slowly, and with the next
    /// change.
    pub fn save_some(&mut self, now: Mono) {
        if !self.is_behind(now) {
            return;
        }
        // The record goes first: at the next start another source may judge by it before this one has learned from
        // its contents. What it is made of is removed after it was written.
        let seen = if self.seen.is_settled() { Ok(()) } else { self.store_seen() };
        let first = |is: fn(&Kept) -> bool| {
            self.paths.iter().find(|(_, kept)| is(kept)).map(|(path, _)| path.clone())
        };
        let next = match first(|kept| !kept.unsaved.is_empty()) {
            None if self.seen.is_settled() => first(|kept| !kept.is_settled()),
            next => next,
        };
        let done = match next {
            // Also when the record cannot be written.
            Some(path) => self.save(&path),
            None => seen,
        };
        match done {
            Ok(()) => {
                self.retry = None;
                self.wait = limits::LAST_GOOD_RETRY_MIN;
                let all = !self.is_unsettled()
                    && !self.seen.is_lost()
                    && !self.paths.values().any(|kept| kept.left_out);
                if all && self.trouble.take().is_some() {
                    log::info!("what source {} says is remembered again", self.source);
                }
            }
            Err(why) => {
                self.retry = Some(now.after(self.wait));
                self.wait = self.wait.saturating_mul(2).min(limits::LAST_GOOD_RETRY_MAX);
                self.tell(why);
            }
        }
    }

    /// Somebody took the directory away (`podkeeper forget`): what is known is forgotten, and a new
    /// directory made.
    pub fn was_forgotten(&mut self) -> bool {
        let gone = || fs::symlink_metadata(&self.dir).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        if !self.present || !gone() {
            return false;
        }
        self.paths.clear();
        self.seen = Seen::default();
        self.show_seen();
        // The key may have gone, too.
        self.key = None;
        self.retry = None;
        self.make_directory();
        true
    }

    fn make_directory(&mut self) {
        let made = match self.dir.parent() {
            Some(parent) => durable::make_directory(parent).and_then(|()| durable::make_directory(&self.dir)),
            None => Ok(()),
        };
        self.present = made.is_ok();
        if let Err(e) = made {
            self.tell(format!("{} cannot be made: {e}", self.dir.display()));
        }
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

    fn store_seen(&mut self) -> Result<(), String> {
        if !self.present {
            self.make_directory();
        }
        self.save_seen().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&self.dir),
            _ => format!("the highest signed versions that were seen cannot be kept: {e}"),
        })
    }

    /// Writes what is new of a path, then removes what is not needed any more, oldest first: a kill in
    /// between leaves a history that means the same.
    fn save(&mut self, path: &str) -> Result<(), String> {
        if !self.present {
            // It could not be made before; one that was there and is gone was taken away on purpose.
            self.make_directory();
        }
        let Some(mut kept) = self.paths.remove(path) else { return Ok(()) };
        let done = self.bring_up_to_date(path, &mut kept);
        if !(kept.needed.is_empty() && kept.stored.is_empty()) {
            self.paths.insert(path.to_owned(), kept);
        }
        done.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&self.dir),
            _ => format!("{path} cannot be remembered in {}: {e}", self.dir.display()),
        })?;
        Ok(())
    }

    fn bring_up_to_date(&mut self, path: &str, kept: &mut Kept) -> io::Result<()> {
        while let Some(content) = kept.unsaved.first_entry() {
            match self.write(content.get(), &kept.stored)? {
                Some(size) => _ = kept.stored.insert(*content.key(), size),
                None => {
                    // Rather an old version than none.
                    kept.unsaved.clear();
                    kept.needed = kept.stored.keys().copied().collect();
                    kept.left_out = true;
                    self.tell(format!(
                        "{path} is not remembered as it is now: what the source says is more than {} bytes or \
                         {} files",
                        limits::LAST_GOOD_BYTES,
                        limits::LAST_GOOD_FILES
                    ));
                    return Ok(());
                }
            }
            content.remove();
        }
        if !self.seen.is_settled() {
            return Ok(());
        }
        let surplus: Vec<Version> =
            kept.stored.keys().filter(|v| !kept.needed.contains(v)).copied().collect();
        for version in surplus {
            if let Some(key) = &self.key {
                durable::remove(&self.dir.join(key.name(path, version)))?;
            }
            kept.stored.remove(&version);
        }
        Ok(())
    }

    /// Writes one content; answers with the size of its file, or `None` when there is no room for it.
    fn write(&mut self, content: &Remembered, own: &BTreeMap<Version, u64>) -> io::Result<Option<u64>> {
        let key = match self.key.take() {
            Some(key) => key,
            None => self.key_file.read_or_make().map_err(io::Error::other)?,
        };
        let key = self.key.insert(key);
        let mut nonce = [0_u8; 12];
        SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("no random numbers"))?;
        let sealed = key.seal(self.source, content, nonce);
        let (name, file) = sealed.ok_or_else(|| io::Error::other("it cannot be sealed"))?;
        let size = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let others = self.paths.values().flat_map(|kept| kept.stored.values());
        let (files, bytes) =
            others.chain(own.values()).fold((1_usize, size), |(n, sum), s| (n + 1, sum.saturating_add(*s)));
        if files > limits::LAST_GOOD_FILES || bytes > limits::LAST_GOOD_BYTES {
            return Ok(None);
        }
        durable::write(&self.dir.join(name), &file)?;
        Ok(Some(size))
    }

    /// Tells the operator, but not the same again.
    fn tell(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            log::error!("source {}: {why}; podkeeper goes on without it and tries again", self.source);
            self.trouble = Some(why);
        }
    }
}

fn gone(dir: &Path) -> String {
    format!("{} is gone; SIGHUP makes podkeeper begin anew", dir.display())
}

/// Reads a regular file of at most `limit` bytes.
fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let limit = limit.min(u64::try_from(limits::LAST_GOOD_FILE).unwrap_or(u64::MAX));
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    regular::read(path, usize::try_from(limit).unwrap_or(usize::MAX))
}
