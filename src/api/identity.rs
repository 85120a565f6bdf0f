//! Reviews in which a user asks about itself: its identity, and its rights.

use crate::base::json::json;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{Kind, Resource};
use super::rights::{self, Act, Rules};
use crate::server::auth::User;

/// The answer to a review; `body` is the request's.
///
/// # Errors
/// The rights of the user cannot be decided.
pub fn review(kind: &Kind, body: &Value, rules: &Rules, user: &User) -> Result<Value, Failure> {
    let status = match kind.resource {
        Resource::SelfSubjectReviews => {
            json!({"userInfo": {"username": user.name, "groups": user.groups}})
        }
        Resource::SelfSubjectAccessReviews => access(body, rules, user)?,
        _ => rights::rules(rules, user),
    };
    Ok(json!({
        "kind": kind.kind,
        // An older kubectl asks for an older version of the same.
        "apiVersion": body.get("apiVersion").cloned().unwrap_or_else(|| kind.api_version().into()),
        "metadata": {"creationTimestamp": null},
        "spec": body.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": status,
    }))
}

fn access(body: &Value, rules: &Rules, user: &User) -> Result<Value, Failure> {
    let allowed = match body.pointer("/spec/resourceAttributes") {
        Some(wanted) => {
            let field = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default();
            let act = Act {
                verb: field("verb"),
                group: field("group"),
                resource: field("resource"),
                part: field("subresource"),
                namespace: field("namespace"),
            };
            let name = Some(field("name")).filter(|name| !name.is_empty());
            if !rights::exists(act) {
                return Ok(
                    json!({"allowed": false, "reason": "this node has no such resource, or no such verb of it"}),
                );
            }
            rights::allows(rules, user, act, name)?
        }
        None => {
            let field = |name: &str| {
                let field = body.pointer("/spec/nonResourceAttributes").and_then(|all| all.get(name));
                field.and_then(Value::as_str).unwrap_or_default()
            };
            rights::allows_path(rules, user, field("verb"), field("path"))?
        }
    };
    Ok(json!({"allowed": allowed}))
}
