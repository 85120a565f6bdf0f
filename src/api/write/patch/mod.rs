//! Patches: RFC 6902, RFC 7386 and the strategic merge of Kubernetes, on JSON values. Pure: patches are a client's, and
//! a patch that does not fit is an error.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

use crate::api::failure::Failure;

/// The accepted types of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Json,
    Merge,
    Strategic,
}

impl Kind {
    /// The type of a patch by the content type of the body.
    ///
    /// # Errors
    /// It is none of them.
    pub fn of(content_type: Option<&str>) -> Result<Kind, Failure> {
        match content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Kind::Json),
            "application/merge-patch+json" => Ok(Kind::Merge),
            "application/strategic-merge-patch+json" => Ok(Kind::Strategic),
            other => Err(Failure::new(
                415,
                format!(
                    "the body of the request was in an unknown format ({other}) - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
                ),
            )),
        }
    }

    /// The object after the patch. `object` is of the API's kind `of`.
    ///
    /// # Errors
    /// The patch does not fit.
    pub fn apply(self, of: &str, object: &Value, patch: &Value) -> Result<Value, Failure> {
        match self {
            Kind::Json => json::apply(object, patch),
            Kind::Merge if !patch.is_object() => Err(Failure::new(400, "a merge patch must be an object")),
            Kind::Merge => Ok(merge::apply(object.clone(), patch)),
            Kind::Strategic => strategic::apply(of, object, patch),
        }
    }
}
