//! What a user is told about itself: who it is, and what it may do. Pure.

use serde_json::{Value, json};

use super::kinds::{Kind, Resource};
use super::rights::{self, Act};
use crate::server::auth::{Settings, User};

/// The answer to a review; `body` is what was sent.
#[must_use]
pub fn review(kind: &Kind, body: &Value, settings: &Settings, user: &User) -> Value {
    let status = match kind.resource {
        Resource::SelfSubjectReviews => {
            json!({"userInfo": {"username": user.name, "groups": user.groups}})
        }
        Resource::SelfSubjectAccessReviews => access(body, settings, user),
        _ => rights::rules(settings, user),
    };
    json!({
        "kind": kind.kind,
        "apiVersion": kind.api_version(),
        "metadata": {"creationTimestamp": null},
        "spec": body.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": status,
    })
}

fn access(body: &Value, settings: &Settings, user: &User) -> Value {
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
            rights::allows(settings, user, act)
        }
        None => {
            let verb = body.pointer("/spec/nonResourceAttributes/verb").and_then(Value::as_str);
            rights::allows_path(settings, user, verb.unwrap_or_default())
        }
    };
    json!({"allowed": allowed})
}
