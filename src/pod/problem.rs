//! Problems in manifests, and the pods that are refused for them. Plain data, for the rooms that decode,
//! merge and report.

use std::fmt;
use std::sync::Arc;

use crate::pod::DesiredPod;

/// A pod that the node's policy refuses: it never reaches Docker.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The pod as written.
    pub pod: Arc<DesiredPod>,
    /// 1-based line and column of the field, when known.
    pub at: Option<(u32, u32)>,
    /// For `status.reason`, for example `PodSecurity`.
    pub reason: String,
    /// For `status.message`.
    pub message: String,
}

/// The severity of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pod (or file) is refused; running pods keep running.
    Error,
    /// The pod is accepted; this part of it has no effect here.
    Warning,
}

/// A problem in a manifest, and its place.
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
    /// Field path, if the problem is about a field: `spec.containers[0].ports[1].containerPort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The problem: `must be between 1 and 65535, inclusive`.
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
