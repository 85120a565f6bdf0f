//! The last accepted contents of a source, kept so that a node starts without the source: `ROOT/last-good/`.
//!
//! There is one sealed file for each content of a path that is still needed (usually one; see `sealed`), and one with
//! the highest signed versions (see `seen`). The source's own thread reads them once at the start and judges everything
//! anew (`replay`). A thread of its own (`saver`) writes new content, after the source's update was sent: a slow, full
//! or dead disk delays no pod. A failure here is reported once, also in the source's state, and the work is retried; it
//! stops nothing else.
//!
//! Never here: trusting what was read, writing while nothing changes, or restoring a directory that was removed (that
//! is how `forget` tells a daemon).

pub mod forget;
mod key;
mod load;
pub(super) mod proof;
pub mod replay;
mod save;
pub(super) mod saver;
pub mod sealed;
mod seen;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::saver::Saver;
pub use self::sealed::{Key, Remembered};
pub use self::seen::Board;

pub(super) use self::key::KeyFile;
pub(super) use self::save::for_sealing;
use self::seen::Seen;
use crate::base::clock::Mono;
use crate::base::durable;
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::Source;
use crate::source::SourceUpdate;
use crate::source::in_force::Version;

/// Directory below the root directory.
pub const DIRECTORY: &str = "last-good";
/// The key's name in it.
const KEY: &str = "key";
/// Extension of a damaged file.
pub(super) const DAMAGED: &str = "damaged";

/// The store of one source.
#[derive(Debug)]
pub struct LastGood {
    source: Source,
    /// `ROOT/last-good/SOURCE`.
    dir: PathBuf,
    key_file: KeyFile,
    key: Option<Key>,
    /// The directory has a proof of the key: see `proof`.
    is_proven: bool,
    paths: Table<String, Kept>,
    /// Files of contents that exist and could not be read or unsealed.
    unread: Table<String, Unread>,
    /// The directory exists, as far as is known.
    present: bool,
    /// Time of the next try after a failure; a change is tried at once.
    retry: Option<Mono>,
    /// How long to wait after the next failure.
    wait: Duration,
    /// The reason why not everything is stored.
    trouble: Option<String>,
    /// The part of it that the loop knows.
    told: Option<String>,
    /// The highest signed versions.
    seen: Seen,
    /// The highest signed versions of all sources.
    board: Board,
}

/// The stored contents of one path.
#[derive(Debug, Default)]
struct Kept {
    /// Bytes of each existing file.
    stored: Table<Version, u64>,
    /// Contents whose file is not written yet.
    unsaved: Table<Version, Remembered>,
    /// Contents that make the state, oldest first; none when the path is to be forgotten.
    needed: Vec<Version>,
    /// There was no room for the newest content.
    left_out: bool,
}

/// A file that could not be read and stays.
#[derive(Debug)]
struct Unread {
    /// Bytes.
    size: u64,
    /// The next start may read it.
    waits: bool,
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

/// The file of the key. `given`: `--last-good-key-file`.
pub(super) fn key_file(root_dir: &Path, given: Option<&Path>) -> KeyFile {
    match given {
        Some(path) => KeyFile::Given(path.to_owned()),
        None => KeyFile::Own(root_dir.join(DIRECTORY).join(KEY)),
    }
}

impl LastGood {
    /// The store of a source below this root directory. It does not touch the disk yet. `key_file`:
    /// `--last-good-key-file`.
    #[must_use]
    pub fn new(root_dir: &Path, key_file: Option<&Path>, source: Source) -> LastGood {
        let key_file = self::key_file(root_dir, key_file);
        LastGood {
            source,
            dir: directory(root_dir, source),
            key_file,
            key: None,
            is_proven: false,
            paths: Table::new(),
            unread: Table::new(),
            present: false,
            retry: None,
            wait: limits::LAST_GOOD_RETRY_MIN,
            trouble: None,
            told: None,
            seen: Seen::default(),
            board: Board::default(),
        }
    }

    /// Makes the directory and the key that all sources share, before any of them begins. Each source retries and
    /// reports what fails here.
    ///
    /// # Errors
    /// A message for the operator.
    pub fn prepare(root_dir: &Path, key_file: Option<&Path>) -> Result<(), String> {
        let store = LastGood::new(root_dir, key_file, Source::File);
        let dir = root_dir.join(DIRECTORY);
        durable::make_directory(&dir).map_err(|e| format!("{} cannot be made: {e}", dir.display()))?;
        store.key_file.read_or_make().map(|_| ())
    }

    /// Stores a content, and only the `needed` versions of its path (oldest first, this one among them).
    /// [`LastGood::save_some`] writes it.
    pub fn remember(&mut self, content: Remembered, needed: &[Version]) {
        let kept = self.paths.get_or_default(content.path.clone());
        kept.needed = needed.to_vec();
        kept.unsaved.retain(|version, _| needed.contains(version));
        kept.unsaved.insert(content.version, content);
        kept.left_out = false;
        self.retry = None;
    }

    /// Keeps only these versions of a path, which its replay has shown to be needed.
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

    /// Whether there is something to write or to remove now.
    #[must_use]
    pub fn is_behind(&self, now: Mono) -> bool {
        self.retry.is_none_or(|at| at <= now) && self.is_unsettled()
    }

    /// When to retry after a failure.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        self.retry.filter(|_| self.is_unsettled())
    }

    fn is_unsettled(&self) -> bool {
        self.paths.values().any(|kept| !kept.is_settled()) || !self.seen.is_settled()
    }

    /// A new report about the store for the loop.
    pub fn take_news(&mut self) -> Option<SourceUpdate> {
        if self.told == self.trouble {
            return None;
        }
        self.told.clone_from(&self.trouble);
        Some(SourceUpdate::Store(self.trouble.clone()))
    }

    /// Whether the directory was removed (`podkeeper forget`). If so, forgets all stored contents and makes a new
    /// directory.
    pub fn was_forgotten(&mut self) -> bool {
        let gone = || fs::symlink_metadata(&self.dir).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        if !self.present || !gone() {
            return false;
        }
        self.paths.clear();
        self.unread.clear();
        self.is_proven = false;
        self.seen = Seen::default();
        self.show_seen();
        // The key may have been removed, too.
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

    /// Reports a problem to the operator, once.
    fn tell(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            log::error!("source {}: {why}; podkeeper goes on without it and tries again", self.source);
            self.trouble = Some(why);
        }
    }
}
