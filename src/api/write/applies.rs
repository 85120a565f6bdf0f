//! Server-side apply as a write; [`managed`] decides about owners.

use serde_json::Value;

use super::form;
use super::managed::{self, By};
use super::writes::{Done, Origin, Writes};
use crate::api::failure::Failure;
use crate::api::path::Target;
use crate::base::clock::{Clock as _, System};
use crate::server::http::query::Query;

impl Writes {
    /// Applies an object: makes it, or changes the fields of the manager.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn apply(&self, target: Target<'_>, name: &str, query: &Query, body: Value) -> Result<Done, Failure> {
        let kind = target.kind;
        let manager = query.get("fieldManager").filter(|manager| !manager.is_empty());
        let manager = manager.ok_or_else(|| {
            Failure::new(422, "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
        })?;
        let force = query.switch("force").unwrap_or(false);
        if body
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty())
        {
            return Err(Failure::new(400, "metadata.managedFields must be nil"));
        }
        let body = self.meant(target, body)?;
        let (typed, unknown) = form::typed(kind, &body)?;
        if let Some(field) = unknown.first() {
            let place = format!(
                "{}/{name}; /{}, Kind={}",
                target.namespace.unwrap_or_default(),
                kind.version,
                kind.kind
            );
            let why = format!(
                "failed to create typed patch object ({place}): .{field}: field not declared in schema"
            );
            return Err(Failure::new(500, why));
        }
        let mut change = self.holdings.begin()?;
        let now = crate::status::seconds(System::start().now().wall).0.to_string();
        let by = By { manager, now: &now };
        match self.live(&change, target, name) {
            Ok(live) => {
                let mut before = live.value.clone();
                super::written::remove(&mut before, "status");
                let version = typed.pointer("/metadata/resourceVersion").cloned();
                let mut new = managed::apply(kind, &before, &typed, by, force)?;
                if let Some(version) = version {
                    *crate::api::value::place(&mut new, &["metadata", "resourceVersion"]) = version;
                }
                self.update(&mut change, kind, name, &live, new, query, Origin::Apply)
            }
            Err(failure) if failure.code == 404 => {
                let new = managed::apply(kind, &Value::Null, &typed, by, force)?;
                self.make(&mut change, target, query, new)
            }
            Err(failure) => Err(failure),
        }
    }
}
