//! Bytes of a manifest -> pods and problems. Pure: no file is read here, nothing is looked up.
//!
//! [`decode`] is the only door: syntax, types, defaults, validation, static-pod rules (spec/01 section 6).

use std::sync::Arc;

use crate::pod::{DesiredPod, Source};
use crate::source::Problem;

/// What the rules need to know besides the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Lower-case node name: suffix of static pods' names, part of their UID.
    pub node_name: &'a str,
    /// Which source the bytes came from.
    pub source: Source,
    /// File path or URL the bytes came from.
    pub path: &'a str,
}

/// What one file (or body) holds. A file is taken whole or not at all: when any problem is an error,
/// `pods` is empty and the caller keeps what it had from this path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// In document order.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Errors and warnings, in order of place.
    pub problems: Vec<Problem>,
}

impl Decoded {
    /// No problem is an error.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.iter().all(|p| p.severity != crate::source::Severity::Error)
    }
}

/// Decodes a manifest: YAML or JSON (by content; JSON is YAML), many documents, `Pod`, `PodList`, `List`.
#[must_use]
pub fn decode(bytes: &[u8], context: &Context<'_>) -> Decoded {
    let _ = (bytes, context);
    Decoded::default()
}
