//! What is known of images: pulls that are under way, pulls that failed and how long they are waited for, digests.
//! One record for each image.

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
    /// The version of the pod that it belonged to, whose secrets are shown.
    pub pod: Arc<DesiredPod>,
}

/// What became of the pull of one image.
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
        /// The reason that the kubelet has for it.
        reason: Reason,
        message: String,
    },
}

/// Why a pull waits.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::machine) struct Failure {
    /// When it failed.
    pub at: Mono,
    /// The reason that the kubelet has for it.
    pub reason: Reason,
    pub message: String,
    /// When the next pull may begin.
    pub until: Mono,
    /// The whole wait.
    pub delay: Duration,
}

/// What is known of images.
#[derive(Debug)]
pub(in crate::machine) struct Images {
    /// By image, as it is written.
    pulls: Table<String, Pull>,
    /// How long pulls that failed are waited for.
    backoff: Backoff,
    /// By id: the digest of each image that was asked for it, once it is known.
    digests: Table<String, Option<String>>,
}

impl Default for Images {
    fn default() -> Images {
        Images { pulls: Table::new(), backoff: Backoff::pulls(), digests: Table::new() }
    }
}

impl Images {
    /// A pull of it is under way.
    pub fn is_pulling(&self, image: &str) -> bool {
        matches!(self.pulls.get(image), Some(Pull::Asked { .. }))
    }

    /// A pull begins.
    pub fn begin(&mut self, image: &str, asker: Option<Asker>, now: &Now) {
        let ask = Pull::Asked { asker, since: now.mono };
        self.pulls.insert(image.to_owned(), ask);
    }

    /// The pull under way is over, or nothing waits for it any more: which container asked, and when.
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

    /// The pull failed, and the next one waits.
    pub fn failed(&mut self, image: &str, why: &str, now: &Now) {
        self.backoff.advance(image, Some(now.mono), now.mono);
        let (reason, message) = failure::explain(image, why);
        self.pulls.insert(image.to_owned(), Pull::Failed { at: now.mono, reason, message });
    }

    /// The failure of a pull that has to be waited for.
    pub fn held_back(&self, image: &str, now: &Now) -> Option<Failure> {
        let Some(Pull::Failed { at, reason, message }) = self.pulls.get(image).cloned() else { return None };
        match self.backoff.check_retry(image, now.mono) {
            Verdict::Go => None,
            Verdict::Wait { until, delay } => Some(Failure { at, reason, message, until, delay }),
        }
    }

    /// No pull that failed is waited for.
    pub fn forget_failures(&mut self) {
        self.keep_failures(|_| false);
    }

    /// Pulls of other images than these are not waited for.
    pub fn keep_failures(&mut self, counts: impl Fn(&str) -> bool) {
        self.pulls.retain(|image, pull| matches!(pull, Pull::Asked { .. }) || counts(image));
        self.backoff.retain(counts);
    }

    /// The digest of this image has to be asked for: it was not yet.
    pub fn ask_digest(&mut self, image_id: &str) -> bool {
        let new = !self.digests.contains_key(image_id);
        if new {
            self.digests.insert(image_id.to_owned(), None);
        }
        new
    }

    /// Docker told it.
    pub fn digest_is(&mut self, image_id: &str, digest: Option<String>) {
        if let Some(known) = self.digests.get_mut(image_id) {
            *known = digest;
        }
    }

    /// It was not told, and may be asked for again.
    pub fn forget_digest(&mut self, image_id: &str) {
        self.digests.remove(image_id);
    }

    /// Other images than these have no container any more.
    pub fn keep_digests(&mut self, counts: impl Fn(&str) -> bool) {
        self.digests.retain(|image_id, _| counts(image_id));
    }

    /// Those that are known, by image id.
    pub fn digests(&self) -> BTreeMap<String, String> {
        order::map(self.digests.iter().filter_map(|(id, digest)| Some((id.clone(), digest.clone()?))))
    }

    /// How many things it remembers.
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
        // A pull that is under way is none that failed.
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
