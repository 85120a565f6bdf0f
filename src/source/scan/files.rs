//! The files of the manifest directory in one scan: which count, and the content of each and its signature.
//!
//! It never decides that a pod is gone: an unknown state is `Presence::Unknown` and changes nothing.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::{Scanned, Scanner, wording};
use crate::base::clock::Now;
use crate::base::limits;
use crate::base::table::Set;
use crate::manifest::edition::Claim;
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::source::disk::{Found, Stamp, Stamps};
use crate::source::entry::{Accepted, Entry, Look, Trust, whole_file};
use crate::source::hints::{Hints, is_manifest_name};
use crate::source::last_good::Remembered;
use crate::source::signature;

/// One file to look at.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// As users see it.
    pub(super) text: String,
    pub(super) name: String,
}

/// The state of one candidate.
pub(super) enum Presence {
    /// There is a file, good or bad.
    File,
    /// There is nothing that could be a manifest.
    Absent,
    /// The state cannot be known.
    Unknown(String),
}

impl Scanner {
    /// The files of the directory that count, in order. Past the bound known files stay, and the first of the new ones
    /// are added.
    pub(super) fn list(&self, notes: &mut Vec<Problem>) -> io::Result<Vec<Candidate>> {
        let (mut known, mut fresh) = (Set::new(), Set::new());
        let (mut crowded, mut unreadable) = (0_usize, None);
        self.disk.names(&self.path, &mut |name: &OsStr| {
            let Some(name) = name.to_str() else {
                if is_manifest_name(&name.to_string_lossy()) {
                    unreadable = Some(self.text_of(&name.to_string_lossy()));
                }
                return;
            };
            if !is_manifest_name(name) {
                return;
            }
            if self.entries.contains_key(&self.text_of(name)) {
                known.insert(name.to_owned());
            } else {
                fresh.insert(name.to_owned());
                if fresh.len() > limits::MANIFEST_FILES {
                    fresh.pop_last();
                    crowded = crowded.saturating_add(1);
                }
            }
        })?;
        while known.len().saturating_add(fresh.len()) > limits::MANIFEST_FILES && fresh.pop_last().is_some() {
            crowded = crowded.saturating_add(1);
        }
        if crowded > 0 {
            let message = format!(
                "{crowded} manifest files more than the {} that are read: the last new ones by name are ignored",
                limits::MANIFEST_FILES
            );
            notes.push(whole_file(Severity::Error, &self.text, message));
        }
        if let Some(path) = unreadable {
            let message = "the file name is not UTF-8: not read".to_owned();
            notes.push(whole_file(Severity::Error, &path, message));
        }
        known.extend(fresh);
        let candidate =
            |name: String| Candidate { path: self.path.join(&name), text: self.text_of(&name), name };
        Ok(known.into_iter().map(candidate).collect())
    }

    fn text_of(&self, name: &str) -> String {
        format!("{}/{name}", self.text)
    }

    /// Looks at one file.
    pub(super) fn examine(
        &mut self,
        candidate: &Candidate,
        now: Now,
        hints: &Hints,
        notes: &mut Vec<Problem>,
    ) -> Presence {
        let Candidate { path, text, name } = candidate;
        let stamp = match self.disk.find(path) {
            Ok(Found::File(stamp)) => stamp,
            Ok(Found::Directory(_)) => {
                notes.push(whole_file(Severity::Warning, text, "is a directory: ignored".into()));
                return Presence::Absent;
            }
            Ok(Found::Special) => return Presence::Unknown("is not a regular file".into()),
            Err(e) => return self.absent_or_unknown(path, &e),
        };
        let signature = match self.signature_stamp(path) {
            Ok(signature) => signature,
            Err(why) => return Presence::Unknown(why),
        };
        let round = self.round;
        let stamps = Stamps { manifest: stamp, signature };
        if let Some(entry) = self.entries.get_mut(text).filter(|e| e.is_known(&stamps)) {
            entry.seen(round);
            return Presence::File;
        }
        let look = match self.read(path, signature) {
            Ok(look) => look,
            Err(presence) => return presence,
        };
        let signed = self.acceptor.wants_signature();
        let quiet = look.stamps.is_some_and(|s| s.is_quiet(now));
        let trust = match () {
            () if signed && (!quiet || self.scanned != Scanned::No) => Trust::Proof,
            () if hints.written.contains(name) => Trust::Finished,
            () if self.scanned == Scanned::No => Trust::FirstLook,
            () => Trust::Found,
        };
        let settle = if signed { self.settle.max(limits::SIGNATURE_SETTLE) } else { self.settle };
        let accept =
            |bytes: &[u8], signature: Option<&[u8]>| self.acceptor.accept(text, bytes, signature, &self.seen);
        let entry = self.entries.get_or_default(text.clone());
        let before = if signed { entry.in_force().names() } else { Set::new() };
        let accepted = entry.read(&look, trust, now, settle, accept);
        entry.seen(round);
        if let Some(Accepted { version, needed, signed }) = accepted {
            if let Some(claim) = signed {
                self.note(*claim, before);
            }
            let remembered = Remembered {
                path: text.clone(),
                version,
                bytes: look.content,
                signature: look.signature,
                mounted: self.mounted,
                ..Remembered::default()
            };
            self.accepted.push((remembered, needed));
        }
        Presence::File
    }

    /// Reads the file, and its signature if there is one.
    ///
    /// # Errors
    /// The state of a file that cannot be read.
    fn read(&self, path: &Path, signature: Option<Stamp>) -> Result<Look, Presence> {
        let reading = match self.disk.read(path, self.acceptor.max_bytes) {
            Ok(reading) => reading,
            Err(e) => return Err(self.absent_or_unknown(path, &e)),
        };
        let mut look = Look {
            content: reading.content,
            signature: None,
            stamps: reading.stamp.map(|manifest| Stamps { manifest, signature: None }),
        };
        if signature.is_some() {
            match self.disk.read(&signature::beside(path), limits::SIGNATURE_BYTES) {
                Ok(reading) => {
                    look.stamps = look
                        .stamps
                        .zip(reading.stamp)
                        .map(|(both, signature)| Stamps { signature: Some(signature), ..both });
                    look.signature = Some(reading.content.0);
                }
                // The signature is gone since: the next scan finds none.
                Err(e) if e.kind() == io::ErrorKind::NotFound => look.stamps = None,
                Err(e) => return Err(Presence::Unknown(of_signature(&wording(&e)))),
            }
        }
        Ok(look)
    }

    /// Notes a signed content that was accepted, for the contents that are judged after it.
    fn note(&mut self, claim: Claim, mut before: Set<String>) {
        if before.iter().any(|name| !claim.names.contains(name)) {
            let now = self.names();
            before.retain(|name| !now.contains(name));
        }
        self.seen.note(&claim, &before);
        self.signed.push((claim, before));
    }

    /// The state of the signature beside a manifest, if one is required and exists.
    fn signature_stamp(&self, path: &Path) -> Result<Option<Stamp>, String> {
        if !self.acceptor.wants_signature() {
            return Ok(None);
        }
        match self.disk.find(&signature::beside(path)) {
            Ok(Found::File(stamp)) => Ok(Some(stamp)),
            Ok(Found::Directory(_) | Found::Special) => Err(of_signature("is not a regular file")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(of_signature(&wording(&e))),
        }
    }

    fn absent_or_unknown(&self, path: &Path, error: &io::Error) -> Presence {
        if error.kind() != io::ErrorKind::NotFound {
            Presence::Unknown(wording(error))
        } else if self.disk.is_link(path) {
            Presence::Unknown("is a symbolic link to nothing".into())
        } else {
            Presence::Absent
        }
    }
}

impl Entry {
    fn seen(&mut self, round: u64) {
        self.round = round;
        self.deletion_seen = false;
        self.missing = None;
    }
}

fn of_signature(why: &str) -> String {
    format!("its signature (*.{}) {why}", signature::SUFFIX)
}
