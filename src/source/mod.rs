//! Where pods come from. Each source is a thread that sends [`SourceUpdate`]s; it never decides what a
//! set means. "I could not read" is `Failed`, never an empty set (invariant 2).

pub mod accept;
pub mod disk;
pub mod edition;
pub(crate) mod entry;
pub mod file;
pub mod hints;
pub mod http;
pub mod in_force;
pub mod last_good;
mod running;
pub mod scan;
pub mod signature;
#[cfg(test)]
pub(crate) mod testing;
pub mod watch;

use std::fmt;
use std::sync::Arc;

use crate::object::LocalObject;
use crate::pod::{DesiredPod, Source};

/// What a source says: the whole set it wants, or that it could not find out.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceUpdate {
    /// Everything the source wants, complete.
    Full(PodSet),
    /// Read well, and it holds what the last `Full` said.
    Same,
    /// What was last accepted, from the store, because the source itself has not answered (yet). Marks
    /// nothing ready.
    Restored(PodSet),
    /// Nothing is known; what runs stays. The text is for the operator.
    Failed(String),
    /// The source answered, and its content as a whole is not accepted: what runs stays, and is older
    /// than what the source holds.
    Refused {
        /// For the operator.
        why: String,
        /// What is wrong with the content, with places.
        problems: Vec<Problem>,
    },
    /// Of the store of last good versions: why not everything is remembered, or that it is again. Says
    /// nothing of the source itself.
    Store(Option<String>),
}

/// One complete reading of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSet {
    /// In the order of origin (path, then document). Several may share one key: merge resolves that.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Local objects, in the order of origin. Several may share one key: merge resolves that.
    pub objects: Vec<Arc<LocalObject>>,
    /// Pods that policy refuses. Where an older version of one is still in force, `pods` holds that one.
    pub refused: Vec<Refused>,
    /// Paths whose content is not usable now. Pods that were made from them and run are left alone,
    /// also after a restart of the daemon, until the path reads well again or is gone.
    pub broken: Vec<String>,
    /// What the operator should know, errors and warnings.
    pub problems: Vec<Problem>,
}

/// A pod that the node's policy refuses: it never reaches Docker.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// As written.
    pub pod: Arc<DesiredPod>,
    /// For `status.reason`: `PodSecurity` …
    pub reason: String,
    /// For `status.message`.
    pub message: String,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pod (or file) is not taken; what ran before goes on.
    Error,
    /// The pod is taken; this part of it does nothing here.
    Warning,
}

/// Something wrong with what a user wrote, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// File path or URL.
    pub path: String,
    /// 1-based line and column, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<(u32, u32)>,
    /// `namespace/name` of the pod as written (without the node's suffix), when known; of a local object
    /// with its kind in front: `ConfigMap default/web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Field path, when it is about one: `spec.containers[0].ports[1].containerPort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong: `must be between 1 and 65535, inclusive`.
    pub message: String,
}

impl fmt::Display for Problem {
    /// `web.yaml:3:5: pod default/web: spec.containers[0].image: must not be empty`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(pod) = &self.pod {
            let object = ["ConfigMap ", "Secret ", "PersistentVolumeClaim "];
            let word = if object.iter().any(|kind| pod.starts_with(kind)) { "" } else { "pod " };
            write!(f, ": {word}{pod}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// An update with its sender.
#[derive(Debug, Clone, PartialEq)]
pub struct FromSource {
    /// Who says it.
    pub source: Source,
    /// What.
    pub update: SourceUpdate,
}
