//! Answers to the workers that requested an image.
//!
//! Never here: waiting for a worker.

use std::sync::Weak;
use std::time::Duration;

use crate::machine::{PullOutcome, PullRequest, Pulled};
use crate::worker::mailbox::Mailbox;

/// Where an answer goes; the preparation of the sandbox image needs none. A worker that has ended reads no
/// answer.
pub(super) type Answer = Option<Weak<Mailbox>>;

/// Sends the answer, with the duration of the pull and the image's size in bytes.
pub(super) fn reply(
    request: &PullRequest,
    answer: &Answer,
    outcome: PullOutcome,
    (took, size): (Duration, Option<u64>),
) {
    if let Some(mailbox) = answer.as_ref().and_then(Weak::upgrade) {
        let pulled = Pulled { image: request.image.clone(), outcome, took, size };
        mailbox.put(|slot| slot.pulled(pulled));
    }
}

/// Whether a worker still holds this mailbox, and will read the answer.
pub(super) fn is_read(answer: &Answer) -> bool {
    answer.as_ref().is_none_or(|mailbox| mailbox.strong_count() > 0)
}
