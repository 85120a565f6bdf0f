//! The manifest directory (or file) as a set of pods: one look at everything, by content ([`files`]), and what
//! follows from it.
//!
//! Hints say where a writer is known to have finished; everything else is found by looking. A look that
//! fails says so and changes nothing (invariant 2). It does not wait, watch or send: that is `file`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::order;
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

/// What one look found.
#[derive(Debug, Default)]
pub struct ScanOutcome {
    /// To be sent first: what was remembered, when the source cannot be read at start.
    pub before: Option<SourceUpdate>,
    /// To be sent; `None` when nothing changed since the last one.
    pub update: Option<SourceUpdate>,
    /// Something is not certain yet: look again at this time.
    pub settle: Option<Mono>,
    /// The source as a whole could not be read.
    pub failed: bool,
    /// It changed nothing, and a watch tells of all that could change: files of this machine, no links.
    pub quiet: bool,
    /// What was accepted in this look, to be remembered, each with the versions of its path that are
    /// needed.
    pub accepted: Vec<(Remembered, Vec<Version>)>,
    /// What the signers of those say, each with what the content before it was about and nothing is about now.
    pub signed: Vec<(Claim, BTreeSet<String>)>,
}

/// All pods were gone without anyone being seen to delete them.
#[derive(Debug, Clone, Copy)]
struct Emptying {
    looks: u32,
    last: Mono,
}

/// Whether everything that was accepted was forgotten, and nothing was read well since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgotten {
    No,
    /// The loop does not know yet.
    Untold,
    Told,
}

/// The state between looks.
pub struct Scanner {
    path: PathBuf,
    /// The path as users see it, without a slash at the end.
    text: String,
    pub(super) acceptor: Acceptor,
    disk: Box<dyn Disk>,
    pub(super) settle: Duration,
    /// By path as users see it.
    entries: BTreeMap<String, Entry>,
    round: u64,
    /// A look has succeeded.
    primed: bool,
    emptying: Option<Emptying>,
    /// Hash of the paths that are there, and since when it is the same.
    listing: (u64, Mono),
    /// Device of the directory at the last look, and when its pods were last believed.
    device: Option<u64>,
    home: Option<u64>,
    /// The directory is a mount point, and it was one when what is remembered was read from it.
    mounted: bool,
    was_mounted: bool,
    /// The last look found nothing that could change unseen by a watch.
    own: bool,
    sent: Option<SourceUpdate>,
    forgotten: Forgotten,
    accepted: Vec<(Remembered, Vec<Version>)>,
    signed: Vec<(Claim, BTreeSet<String>)>,
    /// The highest that was seen of what is signed, the contents of this look included.
    pub(super) seen: Known,
}

impl Scanner {
    /// A scanner that has not looked yet.
    #[must_use]
    pub fn new(path: PathBuf, acceptor: Acceptor) -> Scanner {
        Scanner::on(Box::new(RealDisk), path, acceptor)
    }

    /// As [`Scanner::new`], of this disk.
    #[must_use]
    pub fn on(disk: Box<dyn Disk>, path: PathBuf, acceptor: Acceptor) -> Scanner {
        let text = path.to_string_lossy().trim_end_matches('/').to_owned();
        Scanner {
            path,
            text,
            acceptor,
            disk,
            settle: limits::SCAN_SETTLE,
            entries: BTreeMap::new(),
            round: 0,
            primed: false,
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

    /// Begins with what is remembered; to be called before the first look.
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

    /// Forgets all that was ever accepted: the next look says what is there, and a source that cannot be
    /// read then has nothing.
    pub fn forget(&mut self) {
        self.entries.values_mut().for_each(Entry::forget);
        self.primed = false;
        self.emptying = None;
        self.was_mounted = false;
        self.sent = None;
        self.forgotten = Forgotten::Untold;
    }

    /// Whether what was made from this path is still known, or the path is there.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// What everything that is in force is about.
    pub(super) fn names(&self) -> BTreeSet<String> {
        order::set(self.entries.values().flat_map(|entry| entry.in_force().names()))
    }

    /// The path is this directory's or file's: another one may have been configured before.
    fn is_ours(&self, path: &str) -> bool {
        path == self.text
            || path
                .strip_prefix(self.text.as_str())
                .and_then(|p| p.strip_prefix('/'))
                .is_some_and(is_manifest_name)
    }

    /// Looks at everything.
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

    /// The source as a whole says nothing; told once for each text.
    fn fail(&mut self, why: &str) -> ScanOutcome {
        let update = SourceUpdate::Failed(format!("{}: {why}", self.path.display()));
        let new = self.sent.as_ref() != Some(&update);
        let mut before = None;
        if self.forgotten == Forgotten::Untold {
            self.forgotten = Forgotten::Told;
            before = Some(SourceUpdate::Forgotten);
        } else if self.sent.is_none() && self.entries.values().any(|e| !e.in_force().is_empty()) {
            before = Some(SourceUpdate::Restored(self.set(Vec::new())));
        }
        if new {
            self.sent = Some(update.clone());
        }
        ScanOutcome { before, update: new.then_some(update), failed: true, ..ScanOutcome::default() }
    }

    /// Brings every entry up to date; answers with problems that belong to no entry.
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
                        let entry = self.entries.entry(candidate.text.clone()).or_default();
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

    /// Makes the set of what is known now, unless everything seems to have vanished.
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
        let first = !std::mem::replace(&mut self.primed, true);
        self.was_mounted = false;
        if vanished
            && !some_left
            && let Some(due) = self.doubt(now.mono)
        {
            // A volume that is being changed looks like this: it is believed only when it stays.
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

    /// Notes since when the same paths are there.
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

    /// Gives up the paths that are gone, and answers when to look at those again that still count.
    ///
    /// While files come and go nobody knows what it will end as: `rm -r` of the whole directory takes the
    /// files first, and must not stop their pods. So what was made from a path stays until the directory
    /// has rested. Not at the daemon's first look (`first`), and not where all of it is found elsewhere.
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

    /// Counts one more look that found nothing; answers when the next one is due, `None` when there were
    /// enough.
    fn doubt(&mut self, now: Mono) -> Option<Mono> {
        let emptying = self.emptying.get_or_insert(Emptying { looks: 1, last: now });
        if now.since(emptying.last) >= self.settle {
            emptying.looks = emptying.looks.saturating_add(1);
            emptying.last = now;
        }
        (emptying.looks < limits::SCAN_EMPTY_LOOKS).then(|| emptying.last.after(self.settle))
    }

    fn set(&self, notes: Vec<Problem>) -> PodSet {
        let mut set = PodSet { problems: notes, ..PodSet::default() };
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
        // Stable: problems of one file stay in order of place.
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

/// The two would mean the same to everyone. Decoded pods are kept, so the same pod is the same object.
fn same(a: &PodSet, b: &PodSet) -> bool {
    a.pods.len() == b.pods.len()
        && a.pods.iter().zip(&b.pods).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.objects.len() == b.objects.len()
        && a.objects.iter().zip(&b.objects).all(|(a, b)| Arc::ptr_eq(a, b))
        && a.refused == b.refused
        && a.broken == b.broken
        && a.problems == b.problems
}

/// The operating system's words, with the most common ones made plain.
fn wording(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests;
