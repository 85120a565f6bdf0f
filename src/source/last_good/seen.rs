//! The highest signed versions that were seen, stored beside the contents of a source in one sealed file. The file is
//! written before the contents that it is made of: at the next start the other sources judge by it, perhaps before this
//! one has read its contents. Versions that it lacks are then learned from the contents.
//!
//! Never here: overwriting a file that could not be read. It may hold more than is known, and a key may be late.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::load::read;
use super::replay::Replayed;
use super::save::for_sealing;
use super::{DAMAGED, LastGood};
use crate::base::durable;
use crate::base::limits;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::manifest::edition::{Claim, Known, Record};
use crate::pod::Source;

/// The file's name in a source's directory.
pub(super) const NAME: &str = "seen";

/// The record, and the state of its file.
#[derive(Debug, Default)]
pub(super) struct Seen {
    record: Arc<Record>,
    /// The file does not have all of it yet.
    behind: bool,
    /// The file was not read yet, though it may exist.
    unread: bool,
    /// It was damaged, and nothing was accepted since.
    lost: bool,
}

impl Seen {
    pub(super) fn is_settled(&self) -> bool {
        !self.behind && !self.unread
    }

    /// Whether it was lost, which the operator has to know.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }
}

/// The records of all sources of the node: each source judges by all of them.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Table<Source, Arc<Record>>>>);

impl Board {
    pub(super) fn put(&self, source: Source, record: &Arc<Record>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(source, Arc::clone(record));
    }

    /// The record by which a source judges.
    pub(super) fn known(&self, source: Source, record: &Arc<Record>) -> Known {
        Known::new(Arc::clone(record), self.others(source))
    }

    fn others(&self, source: Source) -> Vec<(Source, Arc<Record>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|(other, _)| **other != source);
        others.map(|(other, record)| (*other, Arc::clone(record))).collect()
    }
}

/// Adds the claims of accepted contents to the record of a source, like [`LastGood::note`]; returns whether the record
/// changed.
pub(super) fn note(
    record: &mut Arc<Record>,
    source: Source,
    signed: &[(Claim, Set<String>)],
    in_force: impl FnOnce() -> Set<String>,
) -> bool {
    let own = Arc::make_mut(record);
    let news = signed.iter().fold(false, |news, (claim, before)| own.note(claim, before) | news);
    if own.is_crowded() {
        let dropped = own.trim(&in_force());
        log::warn!(
            "source {source}: the highest signed versions of more than {} pods and objects were seen: the oldest \
             {dropped} are forgotten",
            limits::SEEN_NAMES
        );
    }
    news
}

impl LastGood {
    /// Shares the record with the other sources, from now on. Its file was read before any of them begins;
    /// [`LastGood::load_seen`] reports a file that cannot be read.
    #[must_use]
    pub fn seen_by(mut self, board: &Board) -> LastGood {
        self.board = board.clone();
        if let Ok(bytes) = read(&self.seen_path(), u64::MAX)
            && let Ok(Some(key)) = self.key_file.read()
            && let Ok(record) = key.open_seen(self.source, &bytes)
        {
            self.board.put(self.source, &Arc::new(record));
        }
        self
    }

    /// Updates the shared record, after each change.
    pub(super) fn show_seen(&self) {
        self.board.put(self.source, &self.seen.record);
    }

    /// Reads the record; called after [`LastGood::load`], where signatures are required. A damaged record is set aside
    /// and reported until content is accepted.
    pub fn load_seen(&mut self) {
        self.seen = Seen { unread: true, ..Seen::default() };
        if let Err(why) = self.read_seen() {
            self.tell(format!("the highest signed versions that were seen are not known: {why}"));
        }
    }

    /// The highest signed versions, from this source and the node's other sources.
    #[must_use]
    pub fn seen(&self) -> Known {
        self.board.known(self.source, &self.seen.record)
    }

    /// Adds the signers' claims of accepted contents, each with the names that the content before it had, like
    /// [`Record::note`]; `in_force` has all names of the source now.
    pub fn note(&mut self, signed: &[(Claim, Set<String>)], in_force: impl FnOnce() -> Set<String>) {
        if signed.is_empty() {
            return;
        }
        self.seen.lost = false;
        if note(&mut self.seen.record, self.source, signed, in_force) {
            self.seen.behind = true;
            self.retry = None;
        }
        self.show_seen();
    }

    /// Learns from the present meaning of all stored contents of the source: which of them are needed, and the claims
    /// of their signers, because the record may be lost, or older than a content when the daemon was killed.
    pub fn learn(&mut self, replayed: &[Replayed]) {
        let in_force = order::set(replayed.iter().flat_map(|of| of.in_force.names()));
        for of in replayed {
            self.keep(&of.path, &of.needed);
            if let Some(problem) = &of.refused {
                log::warn!("what was remembered is not accepted any more: {problem}");
            }
        }
        if replayed.iter().any(|of| !of.signed.is_empty()) {
            self.change(|record| {
                let changed =
                    replayed.iter().fold(false, |news, of| record.learn(&of.signed, &in_force) | news);
                record.trim(&in_force);
                changed
            });
        }
        self.show_seen();
    }

    /// The record, as far as it is known now.
    pub(super) fn record(&self) -> &Arc<Record> {
        &self.seen.record
    }

    /// Takes over the changes of a lent record, where signed content was accepted; `before` is its earlier state.
    pub(super) fn take_record(&mut self, before: &Arc<Record>, record: Arc<Record>) {
        self.seen.lost = false;
        let is_as_before = Arc::ptr_eq(&self.seen.record, before);
        self.change(|own| {
            let old = own.clone();
            match is_as_before {
                true => own.clone_from(&record),
                // The file was read meanwhile.
                false => own.merge(&record),
            }
            *own != old
        });
        self.show_seen();
    }

    fn change(&mut self, change: impl FnOnce(&mut Record) -> bool) {
        if change(Arc::make_mut(&mut self.seen.record)) {
            self.seen.behind = true;
            self.retry = None;
        }
    }

    fn seen_path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Adds the content of the file to the record.
    fn read_seen(&mut self) -> Result<(), String> {
        let path = self.seen_path();
        let what = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let bytes = match read(&path, u64::MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.seen.unread = false;
                return Ok(());
            }
            Err(e) => return Err(what(&e)),
        };
        self.find_key()?;
        let opened = match &self.key {
            None => Err("its key is lost".to_owned()),
            Some(key) => key.open_seen(self.source, &bytes).map_err(|why| why.to_string()),
        };
        match opened {
            Ok(record) => {
                let mut merged = record.clone();
                merged.merge(&self.seen.record);
                merged.trim(&Set::new());
                self.seen.behind = merged != record;
                self.seen.unread = false;
                self.seen.record = Arc::new(merged);
                self.show_seen();
                Ok(())
            }
            Err(why) => {
                let aside = path.with_extension(DAMAGED);
                let done = fs::rename(&path, &aside);
                self.seen.lost = true;
                self.seen.unread = false;
                let now = match done {
                    Ok(()) => format!("it is {} now", aside.display()),
                    Err(e) => format!("and it cannot be set aside: {e}"),
                };
                Err(what(&format!(
                    "{why}; {now}. Until they are signed anew, older signed versions of pods that are not \
                     remembered are taken"
                )))
            }
        }
    }

    /// Writes the record, if the file was read and differs.
    pub(super) fn save_seen(&mut self) -> io::Result<()> {
        if self.seen.unread {
            self.read_seen().map_err(io::Error::other)?;
        }
        if !self.seen.behind {
            return Ok(());
        }
        self.find_proven_key()?;
        let (key, nonce) = for_sealing(&mut self.key, &self.key_file)?;
        let sealed = key.seal_seen(self.source, &self.seen.record, nonce);
        let file = sealed.ok_or_else(|| io::Error::other("it cannot be sealed"))?;
        durable::write(&self.seen_path(), &file)?;
        self.seen.behind = false;
        Ok(())
    }
}
