//! What was remembered, judged again as if it came today: keys and policy may have changed. Pure.

use crate::source::accept::Acceptor;
use crate::source::in_force::{InForce, Version};
use crate::source::last_good::Remembered;
use crate::source::{Problem, Severity};

/// What the remembered contents of one path mean now.
#[derive(Debug, Default)]
pub struct Replayed {
    /// File path or URL.
    pub path: String,
    /// What is in force; new when nothing was accepted.
    pub in_force: InForce,
    /// The newest content that was accepted.
    pub newest: Option<Remembered>,
    /// Warnings about the newest content.
    pub problems: Vec<Problem>,
    /// Versions that made this; others are not needed any more.
    pub needed: Vec<Version>,
    /// Why the newest remembered content is not accepted any more.
    pub refused: Option<Problem>,
}

/// Folds contents, ordered by path and version, into what they mean.
#[must_use]
pub fn replay(contents: Vec<Remembered>, acceptor: &Acceptor) -> Vec<Replayed> {
    let mut paths: Vec<Replayed> = Vec::new();
    for content in contents {
        if paths.last().is_none_or(|last| last.path != content.path) {
            paths.push(Replayed { path: content.path.clone(), ..Replayed::default() });
        }
        let Some(at) = paths.last_mut() else { continue };
        let signature = content.signature.as_deref();
        let mut decoded = acceptor.accept(&content.path, &content.bytes, signature);
        let error = decoded.problems.iter().find(|p| p.severity == Severity::Error);
        at.refused = error.cloned();
        if at.refused.is_none() {
            at.problems = std::mem::take(&mut decoded.problems);
            at.needed = at.in_force.replay(content.version, decoded);
            at.newest = Some(content);
        } else {
            // Perhaps it is accepted again tomorrow, when a key is put back.
            at.in_force.reserve(content.version);
            at.needed.push(content.version);
        }
    }
    paths
}
