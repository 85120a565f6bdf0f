//! One manifest file over time: when new content is believed, and what stays when it is bad. Pure.
//!
//! A writer may be at work at any moment (kontena/pharos-cluster#252). New content is believed when its
//! writer was seen to finish (and it decodes), when two equal looks lie [`limits::SCAN_SETTLE`] apart, or
//! at the daemon's first scan when nobody wrote the file for [`limits::SCAN_QUIET`]. Content that does not
//! decode never replaces what did.
//!
//! A manifest and its signature are two files, written one after the other in any order: together they are
//! one content here. A signature that fits proves that both are whole.

use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use crate::base::clock::{Mono, Now};
use crate::base::concealed::Concealed;
use crate::base::limits;
use crate::manifest::Decoded;
use crate::manifest::edition::Claim;
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::source::disk::Stamps;
use crate::source::in_force::{InForce, Version};
use crate::source::last_good::replay::Replayed;

/// Why content might be believed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The writer was seen to close it, or it was moved here whole.
    Finished,
    /// The daemon's first look: what nobody wrote of late is whole.
    FirstLook,
    /// Found by a scan that came for another reason.
    Found,
    /// Signatures are asked for: one that fits proves that its manifest is whole, whoever wrote it.
    Proof,
}

/// What was read of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The manifest.
    pub content: Concealed<Vec<u8>>,
    /// Its signature, where one is asked for and there.
    pub signature: Option<Vec<u8>>,
    /// State of both; `None` when one changed while it was read.
    pub stamps: Option<Stamps>,
}

/// Content that was accepted just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its number.
    pub version: Version,
    /// Versions that make what is in force, oldest first, this one last.
    pub needed: Vec<Version>,
    /// What its signer says.
    pub signed: Option<Box<Claim>>,
}

/// Length and hash of what was read: never decoded twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    length: usize,
    hash: u64,
}

/// Content that was believed.
#[derive(Debug)]
struct Taken {
    content: Content,
    good: bool,
    problems: Vec<Problem>,
}

/// New content that is not believed yet.
#[derive(Debug)]
struct Pending {
    content: Content,
    stamps: Option<Stamps>,
    since: Mono,
    /// When to look again, counted from `since`; grows while the file keeps changing.
    wait: Duration,
    /// Set when it was decoded early and found bad.
    bad: Option<Decoded>,
}

/// One file. Starts as "nothing known", which counts as broken.
#[derive(Debug, Default)]
pub struct Entry {
    taken: Option<Taken>,
    pending: Option<Pending>,
    /// The file cannot be read now.
    trouble: Option<Problem>,
    /// Known to be whole: it was good when everything was forgotten.
    whole: Option<Content>,
    /// State in which the file was last read, if it cannot change without leaving that state.
    skip: Option<Stamps>,
    /// Of the last good content.
    in_force: InForce,
    /// Number of the scan that saw the file last.
    pub round: u64,
    /// Its deletion was seen to happen.
    pub deletion_seen: bool,
    /// Since when it is not there.
    pub missing: Option<Mono>,
}

impl Entry {
    /// A file that has not been seen yet, with what was remembered of it.
    #[must_use]
    pub fn remembered(of: Replayed) -> Entry {
        let taken = of.newest.map(|newest| Taken {
            content: Content::of(&newest.bytes, newest.signature.as_deref()),
            good: true,
            problems: of.problems,
        });
        Entry { taken, in_force: of.in_force, ..Entry::default() }
    }

    /// Forgets what was accepted. Content that is good now is believed at once when it is read again.
    pub fn forget(&mut self) {
        let good = self.taken.take().filter(|t| t.good && self.trouble.is_none());
        *self = Entry { whole: good.map(|t| t.content), round: self.round, ..Entry::default() };
    }

    /// What the last good content means.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// What the user should know about the file now.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_content = self.taken.iter().filter(|_| self.trouble.is_none()).flat_map(|t| &t.problems);
        self.trouble.iter().chain(of_content)
    }

    /// The file's content is not usable now: unreadable, bad, or not believed yet and never good.
    pub fn is_broken(&self) -> bool {
        self.trouble.is_some() || !self.taken.as_ref().is_some_and(|t| t.good)
    }

    /// When the file must be looked at again even if nothing points to it.
    pub fn due(&self) -> Option<Mono> {
        self.pending.as_ref().map(|p| p.since.after(p.wait))
    }

    /// In this state the file holds for sure what was read last.
    pub fn is_known(&self, stamps: &Stamps) -> bool {
        self.skip == Some(*stamps) && self.pending.is_none() && self.trouble.is_none()
    }

    /// The file cannot be read; whatever it held stays. What was being waited for is read anew when it can be
    /// read again: until then nothing is due.
    pub fn fail(&mut self, path: &str, message: String) {
        self.pending = None;
        self.trouble = Some(whole_file(Severity::Error, path, message));
    }

    /// Takes notice of what was read; answers when it is accepted and new. `settle` is
    /// [`limits::SCAN_SETTLE`], or [`limits::SIGNATURE_SETTLE`] where signatures are asked for, but in tests.
    pub fn read(
        &mut self,
        look: &Look,
        trust: Trust,
        now: Now,
        settle: Duration,
        accept: impl Fn(&[u8], Option<&[u8]>) -> Decoded,
    ) -> Option<Accepted> {
        self.trouble = None;
        self.skip = look.stamps.filter(|s| s.is_quiet(now));
        let signature = look.signature.as_deref();
        let content = Content::of(&look.content, signature);
        if self.taken.as_ref().is_some_and(|t| t.content == content) {
            self.pending = None;
            return None;
        }
        let mut pending = self.await_content(content, look.stamps, now.mono, settle);
        let whole = look.stamps.is_some();
        let settled = whole && now.mono.since(pending.since) >= settle;
        let believed = match trust {
            _ if settled || self.whole == Some(content) => true,
            Trust::FirstLook => self.skip.is_some(),
            Trust::Finished | Trust::Found | Trust::Proof => false,
        };
        let early = whole && matches!(trust, Trust::Finished | Trust::Proof);
        if believed || (early && pending.bad.is_none()) {
            let decoded = pending.bad.take().unwrap_or_else(|| accept(&look.content, signature));
            if believed || decoded.is_good() {
                return self.take(content, decoded);
            }
            // Perhaps the next write is about to come: it is reported only when it stays like this.
            pending.bad = Some(decoded);
        }
        self.pending = Some(pending);
        None
    }

    /// The pending record for this content: the same one while nothing changes, else a new one.
    fn await_content(
        &mut self,
        content: Content,
        stamps: Option<Stamps>,
        now: Mono,
        settle: Duration,
    ) -> Pending {
        let mut wait = settle;
        if let Some(old) = self.pending.take() {
            if old.content == content && old.stamps == stamps && stamps.is_some() {
                return old;
            }
            let longest = settle.saturating_mul(1 << limits::SCAN_SETTLE_DOUBLINGS);
            let again_in_vain = now.since(old.since) >= old.wait;
            wait = if again_in_vain { old.wait.saturating_mul(2).min(longest) } else { old.wait };
        }
        Pending { content, stamps, since: now, wait, bad: None }
    }

    fn take(&mut self, content: Content, mut decoded: Decoded) -> Option<Accepted> {
        let good = decoded.is_good();
        let problems = std::mem::take(&mut decoded.problems);
        let accepted = good.then(|| {
            let signed = decoded.signed.take();
            let needed = self.in_force.apply(decoded);
            Accepted { version: self.in_force.newest(), needed, signed }
        });
        self.taken = Some(Taken { content, good, problems });
        self.pending = None;
        accepted
    }
}

impl Content {
    fn of(bytes: &[u8], signature: Option<&[u8]>) -> Content {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        if let Some(signature) = signature {
            hasher.write_u8(1);
            hasher.write(signature);
        }
        Content { length: bytes.len(), hash: hasher.finish() }
    }
}

/// A problem with a file as a whole.
pub fn whole_file(severity: Severity, path: &str, message: String) -> Problem {
    Problem { severity, path: path.to_owned(), at: None, pod: None, field: None, message }
}
