//! One manifest file over time: when new content is believed, and what stays when it is bad. Pure.
//!
//! A writer may be at work at any moment (kontena/pharos-cluster#252). New content is believed when its writer was seen
//! to finish (and it decodes), when two equal looks are [`limits::SCAN_SETTLE`] apart, or at the daemon's first scan
//! when the file was not written for [`limits::SCAN_QUIET`]. Content that does not decode never replaces content that
//! did.
//!
//! A manifest and its signature are two files, written one after the other in any order. They count as one content
//! here. A valid signature proves that both are complete.

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

/// The reason to believe content at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The writer was seen to close the file, or the file was moved here complete.
    Finished,
    /// The daemon's first look: a file that was not written recently is complete.
    FirstLook,
    /// Found by a scan that came for another reason.
    Found,
    /// Signatures are required: a valid one proves that its manifest is complete.
    Proof,
}

/// One reading of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The manifest.
    pub content: Concealed<Vec<u8>>,
    /// Its signature, if one is required and exists.
    pub signature: Option<Vec<u8>>,
    /// State of both; `None` when one changed while it was read.
    pub stamps: Option<Stamps>,
}

/// Content that was just accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its number.
    pub version: Version,
    /// Versions that make the state in force, oldest first, this one last.
    pub needed: Vec<Version>,
    /// The signer's claim.
    pub signed: Option<Box<Claim>>,
}

/// Length and hash of a content, so that it is decoded once.
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

/// One file. It starts with nothing known, which counts as broken.
#[derive(Debug, Default)]
pub struct Entry {
    taken: Option<Taken>,
    pending: Option<Pending>,
    /// The file cannot be read now.
    trouble: Option<Problem>,
    /// Content that was good when everything was forgotten, and so is known to be complete.
    whole: Option<Content>,
    /// State in which the file was last read, unless it can change without leaving that state.
    skip: Option<Stamps>,
    /// The pods and objects of the last good content.
    in_force: InForce,
    /// Number of the scan that saw the file last.
    pub round: u64,
    /// Its deletion was seen.
    pub deletion_seen: bool,
    /// Since when it is not there.
    pub missing: Option<Mono>,
}

impl Entry {
    /// A file that has not been seen yet, with its stored contents.
    #[must_use]
    pub fn remembered(of: Replayed) -> Entry {
        let taken = of.newest.map(|newest| Taken {
            content: Content::of(&newest.bytes, newest.signature.as_deref()),
            good: true,
            problems: of.problems,
        });
        Entry { taken, in_force: of.in_force, ..Entry::default() }
    }

    /// Forgets accepted content. Content that is good now is believed at once when it is read again.
    pub fn forget(&mut self) {
        let good = self.taken.take().filter(|t| t.good && self.trouble.is_none());
        *self = Entry { whole: good.map(|t| t.content), round: self.round, ..Entry::default() };
    }

    /// The pods and objects of the last good content.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Current problems of the file, for the user.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let of_content = self.taken.iter().filter(|_| self.trouble.is_none()).flat_map(|t| &t.problems);
        self.trouble.iter().chain(of_content)
    }

    /// Whether the file's content is not usable now: unreadable, bad, or not believed yet and never good.
    pub fn is_broken(&self) -> bool {
        self.trouble.is_some() || !self.taken.as_ref().is_some_and(|t| t.good)
    }

    /// When the file must be looked at again, even without a hint.
    pub fn due(&self) -> Option<Mono> {
        self.pending.as_ref().map(|p| p.since.after(p.wait))
    }

    /// Whether a file in this state certainly holds the content that was read last.
    pub fn is_known(&self, stamps: &Stamps) -> bool {
        self.skip == Some(*stamps) && self.pending.is_none() && self.trouble.is_none()
    }

    /// Notes that the file cannot be read; its last good content stays. Pending content is read anew when the file can
    /// be read again: until then nothing is due.
    pub fn fail(&mut self, path: &str, message: String) {
        self.pending = None;
        self.trouble = Some(whole_file(Severity::Error, path, message));
    }

    /// Takes a reading; returns the content if it is accepted and new. `settle` is [`limits::SCAN_SETTLE`], or
    /// [`limits::SIGNATURE_SETTLE`] where signatures are required, except in tests.
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
            // The next write may be about to come: the problem is reported only if the content stays.
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
