//! State of images: pulls under way, failed pulls with their back-offs, digests. One record for each image.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Mono, Now};
use crate::base::order;
use crate::base::table::Table;
use crate::image::failure;
use crate::plan::backoff::{Backoff, Verdict};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;

/// The container that asked for a pull first.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::machine) struct Asker {
    /// Its name.
    pub container: String,
    /// The version of the pod that the container belonged to, whose secrets are used.
    pub pod: Arc<DesiredPod>,
}

/// State of the pull of one image.
#[derive(Debug, Clone, PartialEq)]
enum Pull {
    /// It is under way.
    Asked {
        /// `None` for the sandbox.
        asker: Option<Asker>,
        since: Mono,
    },
    /// It failed.
    Failed {
        at: Mono,
        /// The kubelet's reason for it.
        reason: Reason,
        message: String,
    },
}

/// The failure that a pull waits for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::machine) struct Failure {
    /// Time of the failure.
    pub at: Mono,
    /// The kubelet's reason for it.
    pub reason: Reason,
    pub message: String,
    /// Time of the next pull.
    pub until: Mono,
    /// The whole wait.
    pub delay: Duration,
}

/// State of all images.
#[derive(Debug)]
pub(in crate::machine) struct Images {
    /// Pulls, by image as written.
    pulls: Table<String, Pull>,
    /// Back-offs of failed pulls.
    backoff: Backoff,
    /// Digests by image id; `None` while one is being asked for.
    digests: Table<String, Option<String>>,
}

impl Default for Images {
    fn default() -> Images {
        Images { pulls: Table::new(), backoff: Backoff::pulls(), digests: Table::new() }
    }
}

impl Images {
    /// Whether a pull of the image is under way.
    pub fn is_pulling(&self, image: &str) -> bool {
        matches!(self.pulls.get(image), Some(Pull::Asked { .. }))
    }

    /// Notes the start of a pull.
    pub fn begin(&mut self, image: &str, asker: Option<Asker>, now: &Now) {
        let ask = Pull::Asked { asker, since: now.mono };
        self.pulls.insert(image.to_owned(), ask);
    }

    /// Ends the pull under way; returns the container that asked for it, and when.
    pub fn end(&mut self, image: &str) -> Option<(Option<Asker>, Mono)> {
        match self.pulls.get(image)? {
            Pull::Asked { asker, since } => {
                let asked = (asker.clone(), *since);
                self.pulls.remove(image);
                Some(asked)
            }
            Pull::Failed { .. } => None,
        }
    }

    /// Notes a failed pull, and sets the time of the next one.
    pub fn failed(&mut self, image: &str, why: &str, now: &Now) {
        self.backoff.advance(image, Some(now.mono), now.mono);
        let (reason, message) = failure::explain(image, why);
        self.pulls.insert(image.to_owned(), Pull::Failed { at: now.mono, reason, message });
    }

    /// The failure, while its back-off lasts.
    pub fn held_back(&self, image: &str, now: &Now) -> Option<Failure> {
        let Some(Pull::Failed { at, reason, message }) = self.pulls.get(image).cloned() else { return None };
        match self.backoff.check_retry(image, now.mono) {
            Verdict::Go => None,
            Verdict::Wait { until, delay } => Some(Failure { at, reason, message, until, delay }),
        }
    }

    /// Forgets all failed pulls.
    pub fn forget_failures(&mut self) {
        self.keep_failures(|_| false);
    }

    /// Forgets failed pulls of images that do not match.
    pub fn keep_failures(&mut self, counts: impl Fn(&str) -> bool) {
        self.pulls.retain(|image, pull| matches!(pull, Pull::Asked { .. }) || counts(image));
        self.backoff.retain(counts);
    }

    /// Notes that the digest is being asked for. Returns true if it was not asked for before.
    pub fn ask_digest(&mut self, image_id: &str) -> bool {
        let new = !self.digests.contains_key(image_id);
        if new {
            self.digests.insert(image_id.to_owned(), None);
        }
        new
    }

    /// Takes Docker's answer.
    pub fn digest_is(&mut self, image_id: &str, digest: Option<String>) {
        if let Some(known) = self.digests.get_mut(image_id) {
            *known = digest;
        }
    }

    /// Notes that there was no answer, so that the digest may be asked for again.
    pub fn forget_digest(&mut self, image_id: &str) {
        self.digests.remove(image_id);
    }

    /// Forgets the digests of images that do not match: they have no container any more.
    pub fn keep_digests(&mut self, counts: impl Fn(&str) -> bool) {
        self.digests.retain(|image_id, _| counts(image_id));
    }

    /// The known digests, by image id.
    pub fn digests(&self) -> BTreeMap<String, String> {
        order::map(self.digests.iter().filter_map(|(id, digest)| Some((id.clone(), digest.clone()?))))
    }

    /// Number of remembered items.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.pulls.len() + self.backoff.len() + self.digests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Timestamp;
    use crate::plan::testing::pod;

    fn now() -> Now {
        Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_pull_is_under_way_or_failed_and_never_both() {
        let mut images = Images::default();
        let asker = Asker { container: "app".to_owned(), pod: Arc::new(pod("{containers: [{name: app}]}")) };
        images.begin("a", Some(asker.clone()), &now());
        assert!(images.is_pulling("a") && images.held_back("a", &now()).is_none());
        // A pull under way is not a failed one.
        images.forget_failures();
        assert_eq!(images.end("a"), Some((Some(asker), Mono::default())));
        images.failed("a", "no such host", &now());
        assert!(!images.is_pulling("a") && images.held_back("a", &now()).is_some());
        assert_eq!(images.end("a"), None, "it has ended");
        images.begin("a", None, &now());
        images.end("a");
        assert_eq!(images.held_back("a", &now()), None, "its image has come");
        images.failed("a", "no such host", &now());
        images.keep_failures(|image| image != "a");
        assert_eq!((images.held_back("a", &now()), images.len()), (None, 0));
    }

    #[test]
    fn a_digest_is_asked_for_once_while_the_image_has_a_container() {
        let mut images = Images::default();
        assert!(images.ask_digest("sha256:a") && !images.ask_digest("sha256:a"));
        images.digest_is("sha256:a", Some("repo@sha256:b".into()));
        assert_eq!(images.digests()["sha256:a"], "repo@sha256:b");
        images.keep_digests(|_| false);
        assert!(images.digests().is_empty() && images.ask_digest("sha256:a"));
    }
}
