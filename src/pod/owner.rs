//! Whose a UID is. Directories, cgroup and volumes are named by the UID alone, and an author of manifests may write any.

use super::object::refs::references;
use super::{DesiredPod, Source};

/// The source whose pod has a UID, and the manifest as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The source that gave the pod.
    pub source: Source,
    /// [`DesiredPod::written`].
    pub written: Option<String>,
}

impl Owner {
    /// The owner of this pod's UID.
    #[must_use]
    pub fn of(pod: &DesiredPod) -> Owner {
        Owner { source: pod.source, written: pod.written.clone() }
    }

    /// Whether a pod of the same name and UID is the same pod: the same source says so, or both manifests are equal word for
    /// word and refer to no object.
    #[must_use]
    pub fn is(&self, pod: &DesiredPod) -> bool {
        let same = self.written.is_some() && self.written == pod.written;
        self.source == pod.source || (same && references(pod).is_empty())
    }
}
