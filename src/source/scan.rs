//! The manifest directory (or file) as a set of pods: one scan of all files by content ([`files`]), and the resulting
//! set.
//!
//! Hints say where a writer is known to have finished; everything else is found by scanning. A scan that fails reports
//! so and changes nothing (invariant 2). Waiting, watching and sending are in `file`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::manifest::edition::{Claim, Known};
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::source::accept::Acceptor;
use crate::source::disk::{Disk, Found, RealDisk};
use crate::source::entry::{Entry, whole_file};
use crate::source::hints::{Hints, is_manifest_name};
use crate::source::in_force::{InForce, Version};
use crate::source::last_good::Remembered;
use crate::source::last_good::replay::Replayed;
use crate::source::{PodSet, SourceUpdate};

mod files;

use files::{Candidate, Presence};

/// The result of one scan.
#[derive(Debug, Default)]
pub struct ScanOutcome {
    /// To be sent first: the stored set, when the source cannot be read at the start.
    pub before: Option<SourceUpdate>,
    /// To be sent; `None` when nothing has changed since the last one.
    pub update: Option<SourceUpdate>,
    /// Something is not certain yet: scan again at this time.
    pub settle: Option<Mono>,
    /// The source as a whole could not be read.
    pub failed: bool,
    /// The scan changed nothing, and a watch reports all changes: the files are this machine's, without links.
    pub quiet: bool,
    /// Contents that were accepted in this scan, to be stored, each with the needed versions of its path.
    pub accepted: Vec<(Remembered, Vec<Version>)>,
    /// The signers' claims of these contents, each with the names of the content before it that nothing in force has
    /// now.
    pub signed: Vec<(Claim, Set<String>)>,
}

/// All pods were gone, but no deletion was seen.
#[derive(Debug, Clone, Copy)]
struct Emptying {
    looks: u32,
    last: Mono,
}

/// Whether all accepted content was forgotten, and nothing was read successfully since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgotten {
    No,
    /// The loop does not know yet.
    Untold,
    Told,
}

/// Whether scans have succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scanned {
    No,
    /// Some files of which something is remembered were written a moment before, and nothing is told yet: the time of the
    /// first scan.
    Awaits(Mono),
    /// Some files were written a moment before, and are not read yet: the time of the first scan.
    Partly(Mono),
    Wholly,
}

/// The state between scans.
pub struct Scanner {
    path: PathBuf,
    /// The path as users see it, without a slash at the end.
    text: String,
    pub(super) acceptor: Acceptor,
    disk: Box<dyn Disk>,
    pub(super) settle: Duration,
    /// By path as users see it.
    entries: Table<String, Entry>,
    round: u64,
    scanned: Scanned,
    emptying: Option<Emptying>,
    /// Hash of the existing paths, and since when it is the same.
    listing: (u64, Mono),
    /// Device of the directory at the last scan, and when its pods were last believed.
    device: Option<u64>,
    home: Option<u64>,
    /// The directory is a mount point; it was one when the stored contents were read from it.
    mounted: bool,
    was_mounted: bool,
    /// The last scan found nothing that could change without the watch noticing.
    own: bool,
    sent: Option<SourceUpdate>,
    forgotten: Forgotten,
    accepted: Vec<(Remembered, Vec<Version>)>,
    signed: Vec<(Claim, Set<String>)>,
    /// The highest signed versions that were seen, the contents of this scan included.
    pub(super) seen: Known,
}

impl Scanner {
    /// A scanner that has not scanned yet.
    #[must_use]
    pub fn new(path: PathBuf, acceptor: Acceptor) -> Scanner {
        Scanner::on(Box::new(RealDisk), path, acceptor)
    }

    /// Like [`Scanner::new`], on this disk.
    #[must_use]
    pub fn on(disk: Box<dyn Disk>, path: PathBuf, acceptor: Acceptor) -> Scanner {
        let text = path.to_string_lossy().trim_end_matches('/').to_owned();
        Scanner {
            path,
            text,
            acceptor,
            disk,
            settle: limits::SCAN_SETTLE,
            entries: Table::new(),
            round: 0,
            scanned: Scanned::No,
            emptying: None,
            listing: (0, Mono::default()),
            device: None,
            home: None,
            mounted: false,
            was_mounted: false,
            own: false,
            sent: None,
            forgotten: Forgotten::No,
            accepted: Vec::new(),
            signed: Vec::new(),
            seen: Known::default(),
        }
    }

    /// Starts from stored contents; called before the first scan.
    pub fn restore(&mut self, remembered: Vec<Replayed>) {
        for mut of in remembered {
            if !self.is_ours(&of.path) {
                continue;
            }
            if let Some(newest) = &mut of.newest {
                self.was_mounted |= newest.mounted;
                if !self.acceptor.wants_signature() {
                    newest.signature = None;
                }
            }
            self.entries.insert(of.path.clone(), Entry::remembered(of));
        }
    }

    /// The stored contents, before the first scan; `None` if there are none.
    pub fn remembered(&self) -> Option<PodSet> {
        self.entries.values().any(|entry| !entry.in_force().is_empty()).then(|| self.set(Vec::new()))
    }

    /// Forgets all accepted content: the next scan decides, and a source that cannot be read then has no pods.
    pub fn forget(&mut self) {
        self.entries.values_mut().for_each(Entry::forget);
        self.scanned = Scanned::No;
        self.emptying = None;
        self.was_mounted = false;
        self.sent = None;
        self.forgotten = Forgotten::Untold;
    }

    /// Whether the content of this path is still known, or the path exists.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Names of everything in force.
    pub(super) fn names(&self) -> Set<String> {
        order::set(self.entries.values().flat_map(|entry| entry.in_force().names()))
    }

    /// Whether the path belongs to this directory or file: another one may have been configured before.
    fn is_ours(&self, path: &str) -> bool {
        path == self.text
            || path
                .strip_prefix(self.text.as_str())
                .and_then(|p| p.strip_prefix('/'))
                .is_some_and(is_manifest_name)
    }

    /// Scans everything.
    pub fn scan(&mut self, now: Now, hints: &Hints) -> ScanOutcome {
        let mut outcome = match self.look(now, hints) {
            Ok(notes) => self.conclude(now, hints, notes),
            Err(why) => self.fail(&why),
        };
        outcome.quiet = self.own
            && !hints.any()
            && !outcome.failed
            && outcome.update.is_none()
            && outcome.settle.is_none()
            && self.accepted.is_empty();
        outcome.accepted = std::mem::take(&mut self.accepted);
        outcome.signed = std::mem::take(&mut self.signed);
        outcome
    }

    /// The result when the source as a whole cannot be read; each text is reported once.
    fn fail(&mut self, why: &str) -> ScanOutcome {
        let update = SourceUpdate::Failed(format!("{}: {why}", self.path.display()));
        // What was read while other files were awaited is accepted and remembered, and was not told.
        let untold = matches!(self.scanned, Scanned::Awaits(_));
        let new = self.sent.as_ref() != Some(&update) || untold;
        let mut before = None;
        if self.forgotten == Forgotten::Untold {
            self.forgotten = Forgotten::Told;
            before = Some(SourceUpdate::Forgotten);
        } else if self.sent.is_none() && self.entries.values().any(|e| !e.in_force().is_empty()) {
            before = Some(SourceUpdate::Restored(self.set(Vec::new())));
        } else if untold {
            before = Some(SourceUpdate::Full(self.set(Vec::new())));
        }
        if untold {
            self.scanned = Scanned::No;
        }
        if new {
            self.sent = Some(update.clone());
        }
        ScanOutcome { before, update: new.then_some(update), failed: true, ..ScanOutcome::default() }
    }

    /// Brings every entry up to date; returns problems that belong to no entry.
    fn look(&mut self, now: Now, hints: &Hints) -> Result<Vec<Problem>, String> {
        let mut notes = Vec::new();
        let found = self.disk.find(&self.path).map_err(|e| wording(&e))?;
        self.own = self.disk.is_own(&self.path);
        self.round = self.round.wrapping_add(1);
        match found {
            Found::Directory(device) => {
                self.device = Some(device);
                let above = self.disk.find(&self.path.join(".."));
                self.mounted = matches!(above, Ok(Found::Directory(above)) if above != device);
                for candidate in self.list(&mut notes).map_err(|e| wording(&e))? {
                    self.own &= !self.disk.is_link(&candidate.path);
                    let presence = self.examine(&candidate, now, hints, &mut notes);
                    if let Presence::Unknown(why) = presence {
                        let entry = self.entries.get_or_default(candidate.text.clone());
                        let kept =
                            if entry.in_force().is_empty() { "" } else { "; what was made from it is kept" };
                        entry.fail(&candidate.text, format!("{why}{kept}"));
                        entry.round = self.round;
                    }
                }
            }
            Found::File(_) => {
                self.device = None;
                self.mounted = false;
                let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let candidate = Candidate { path: self.path.clone(), text: self.text.clone(), name };
                match self.examine(&candidate, now, hints, &mut notes) {
                    Presence::File => {}
                    Presence::Absent => return Err("it went away while it was read".into()),
                    Presence::Unknown(why) => return Err(why),
                }
            }
            Found::Special => return Err("it is neither a directory nor a file".into()),
        }
        Ok(notes)
    }

    /// Makes the set of everything known now, unless everything seems to have vanished.
    fn conclude(&mut self, now: Now, hints: &Hints, notes: Vec<Problem>) -> ScanOutcome {
        let round = self.round;
        let (mut some_files, mut some_left, mut vanished) = (false, false, false);
        for (text, entry) in &mut self.entries {
            if entry.round == round {
                some_files = true;
                some_left |= !entry.in_force().is_empty();
                continue;
            }
            let name = text.rsplit('/').next().unwrap_or_default();
            entry.missing.get_or_insert(now.mono);
            entry.deletion_seen |= hints.deleted.contains(name);
            vanished |= !entry.in_force().is_empty() && !entry.deletion_seen;
        }
        self.note_listing(now.mono);
        let settle = self.entries.values().filter(|e| e.round == round).filter_map(Entry::due).min();
        let elsewhere = matches!((self.device, self.home), (Some(now), Some(before)) if now != before);
        if vanished && elsewhere && !some_files {
            return self.fail("it is on another file system now and holds no manifest; was it unmounted?");
        }
        if vanished && !some_files && self.was_mounted && !self.mounted {
            return self.fail(
                "it was a mount point and is none now, and it holds no manifest; was it mounted? (if this is \
                 meant: podkeeper forget --source file)",
            );
        }
        let first = matches!(self.scanned, Scanned::No | Scanned::Awaits(_));
        self.scanned = self.progress(settle.is_none(), now.mono);
        if matches!(self.scanned, Scanned::Awaits(_)) {
            return ScanOutcome { settle, ..ScanOutcome::default() };
        }
        self.was_mounted = false;
        if vanished
            && !some_left
            && let Some(due) = self.doubt(now.mono)
        {
            // A volume that is being replaced looks like this: it is believed only when it stays so.
            return ScanOutcome { settle: settle.into_iter().chain([due]).min(), ..ScanOutcome::default() };
        }
        self.emptying = None;
        self.forgotten = Forgotten::No;
        self.home = self.device;
        let settle = settle.into_iter().chain(self.let_go(now.mono, first)).min();
        let set = self.set(notes);
        let new = !matches!(&self.sent, Some(SourceUpdate::Full(sent)) if same(sent, &set));
        let update = new.then_some(SourceUpdate::Full(set));
        if new {
            self.sent.clone_from(&update);
        }
        ScanOutcome { update, settle, ..ScanOutcome::default() }
    }

    /// How far the first reading is. What is remembered of a file that was written a moment before may be what nobody wants
    /// any more, and not what runs: pods must not be replaced by it for the moment until the file is read.
    fn progress(&self, is_settled: bool, now: Mono) -> Scanned {
        let round = self.round;
        let is_awaited = |e: &Entry| e.round == round && e.due().is_some() && !e.in_force().is_empty();
        match self.scanned {
            _ if is_settled => Scanned::Wholly,
            Scanned::No if self.entries.values().any(is_awaited) => Scanned::Awaits(now),
            Scanned::No => Scanned::Partly(now),
            // A file that changes all the time is never read.
            Scanned::Awaits(since)
                if now.since(since) >= limits::SCAN_QUIET || !self.entries.values().any(is_awaited) =>
            {
                Scanned::Partly(since)
            }
            Scanned::Partly(since) if now.since(since) >= limits::SCAN_PARTIAL => Scanned::Wholly,
            stays => stays,
        }
    }

    /// Notes since when the existing paths are the same.
    fn note_listing(&mut self, now: Mono) {
        let mut hasher = DefaultHasher::new();
        for (text, _) in self.entries.iter().filter(|(_, entry)| entry.round == self.round) {
            text.hash(&mut hasher);
        }
        let hash = hasher.finish();
        if hash != self.listing.0 {
            self.listing = (hash, now);
        }
    }

    /// Gives up the paths that are gone; returns when to look again at those that still count.
    ///
    /// While files come and go, the end is not known: `rm -r` of the whole directory removes the files first, and must
    /// not stop their pods. So the pods of a path stay until the directory has been stable for a while. That does not
    /// hold for the daemon's first scan (`first`), and for a path whose pods and objects all exist in other files.
    fn let_go(&mut self, now: Mono, first: bool) -> Option<Mono> {
        let round = self.round;
        if self.entries.values().all(|entry| entry.round == round) {
            return None;
        }
        let there = || self.entries.values().filter(|entry| entry.round == round).map(Entry::in_force);
        let pods = order::set(there().flat_map(InForce::pods).map(|pod| pod.key.clone()));
        let objects = order::set(there().flat_map(InForce::objects).map(|object| object.key.clone()));
        let (settle, since) = (self.settle, self.listing.1);
        let mut due: Option<Mono> = None;
        self.entries.retain(|_, entry| {
            let Some(missing) = entry.missing.filter(|_| !first) else { return entry.round == round };
            let of = entry.in_force();
            let moved = of.pods().iter().all(|pod| pods.contains(&pod.key))
                && of.objects().iter().all(|object| objects.contains(&object.key));
            let at = missing.max(since).after(settle).min(missing.after(limits::SCAN_GONE_MAX));
            let stays = !moved && now < at;
            if stays {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
            stays
        });
        due
    }

    /// Counts one more scan that found nothing; returns when the next one is due, `None` when there were enough.
    fn doubt(&mut self, now: Mono) -> Option<Mono> {
        let emptying = self.emptying.get_or_insert(Emptying { looks: 1, last: now });
        if now.since(emptying.last) >= self.settle {
            emptying.looks = emptying.looks.saturating_add(1);
            emptying.last = now;
        }
        (emptying.looks < limits::SCAN_EMPTY_LOOKS).then(|| emptying.last.after(self.settle))
    }

    fn set(&self, notes: Vec<Problem>) -> PodSet {
        let is_partial = matches!(self.scanned, Scanned::Partly(_));
        let mut set = PodSet { problems: notes, is_partial, ..PodSet::default() };
        for (text, entry) in &self.entries {
            let in_force = entry.in_force();
            set.pods.extend(in_force.pods().iter().map(Arc::clone));
            set.objects.extend(in_force.objects().iter().map(Arc::clone));
            set.refused.extend(in_force.refused().iter().cloned());
            if entry.is_broken() {
                set.broken.push(text.clone());
            }
            set.problems.extend(entry.problems().cloned());
        }
        // The sort is stable: problems of one file stay in the order of their places.
        order::sort_by(&mut set.problems, |a, b| a.path.cmp(&b.path));
        let hidden = set.problems.len().saturating_sub(limits::PROBLEMS_PER_SOURCE);
        if hidden > 0 {
            set.problems.truncate(limits::PROBLEMS_PER_SOURCE);
            let message = format!("{hidden} more problems are not shown");
            set.problems.push(whole_file(Severity::Error, &self.text, message));
        }
        set
    }
}

/// Whether two sets are equivalent. Decoded pods are kept, so the same pod is the same object.
fn same(a: &PodSet, b: &PodSet) -> bool {
    a.pods.len() == b.pods.len()
        && a.pods.iter().zip(&b.pods).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.objects.len() == b.objects.len()
        && a.objects.iter().zip(&b.objects).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.refused == b.refused
        && (&a.broken, a.is_partial) == (&b.broken, b.is_partial)
        && a.problems == b.problems
}

/// The operating system's message, with the most common ones in plain words.
fn wording(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests;
