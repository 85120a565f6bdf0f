//! Rights of users, by the groups of the servers' flags. Viewers see everything but Secrets and change nothing;
//! administrators do everything. The API server of a cluster decides about its users, who have a token.

use crate::base::json::json;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{self, Kind, Resource};
use super::value::place;
use crate::base::table::Set;
use crate::server::auth::webhook::Webhook;
use crate::server::auth::{Authorization, Settings, User};

/// An action in the terms of authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The plural; `*` for all.
    pub resource: &'a str,
    pub part: &'a str,
    pub namespace: &'a str,
}

/// To act as another user, which nobody can.
pub const IMPERSONATE: Act<'static> =
    Act { verb: "impersonate", group: "", resource: "users", part: "", namespace: "" };

/// The role of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Admin,
    View,
    Nobody,
}

/// The rules by which rights are decided.
#[derive(Debug, Default)]
pub struct Rules {
    pub settings: Settings,
    /// Decides about tokens and rights; `None` without an API server.
    pub webhook: Option<Webhook>,
    /// The API server decides about users that it knows by a token.
    pub asks: bool,
}

impl Rules {
    /// The API server that decides about this user; `None` when the decision is made here.
    fn asked(&self, user: &User) -> Option<&Webhook> {
        self.webhook.as_ref().filter(|_| self.asks && user.by_token)
    }

    fn role(&self, user: &User) -> Role {
        match &self.settings.authorization {
            Authorization::AlwaysAllow => Role::Admin,
            // Another server decides only about its own users.
            Authorization::Webhook => Role::Nobody,
            Authorization::Groups { admin, view } => {
                let is_of = |groups: &Set<String>| user.groups.iter().any(|group| groups.contains(group));
                match () {
                    () if is_of(admin) => Role::Admin,
                    () if is_of(view) => Role::View,
                    () => Role::Nobody,
                }
            }
        }
    }
}

/// Whether every identified user may create it: reviews tell users about themselves.
fn is_review(kind: &Kind) -> bool {
    use Resource::{SelfSubjectAccessReviews, SelfSubjectReviews, SelfSubjectRulesReviews};
    [SelfSubjectReviews, SelfSubjectAccessReviews, SelfSubjectRulesReviews].contains(&kind.resource)
}

/// Whether a user may do this with an object of this name; `None` for all, and for an object without a name yet.
///
/// # Errors
/// The API server has not decided.
pub fn allows(rules: &Rules, user: &User, act: Act<'_>, name: Option<&str>) -> Result<bool, Failure> {
    let mut all = kinds::KINDS.iter().filter(|kind| kind.group == act.group && kind.plural == act.resource);
    if act.verb == "create" && all.clone().any(is_review) {
        return Ok(true);
    }
    if let Some(webhook) = rules.asked(user) {
        let attributes = json!({
            "verb": act.verb, "group": act.group, "resource": act.resource, "subresource": act.part,
            "namespace": act.namespace, "name": name.unwrap_or_default(),
        });
        return webhook.may(user, "resourceAttributes", attributes).map_err(unknown);
    }
    Ok(match rules.role(user) {
        Role::Admin => true,
        Role::View => all.any(|kind| is_seen(kind, act.part, act.verb)),
        Role::Nobody => false,
    })
}

/// Whether this API has such an action at all; `*` is any.
#[must_use]
pub fn exists(act: Act<'_>) -> bool {
    let mut all = kinds::KINDS.iter().filter(|kind| kind.group == act.group && kind.plural == act.resource);
    let has = |verbs: &[&str]| act.verb == "*" || verbs.contains(&act.verb);
    act.resource == "*"
        || all.any(|kind| match act.part {
            "" => has(kind.verbs),
            part => kind.part(part).is_some_and(|part| has(part.verbs)),
        })
}

/// Whether a viewer may do this with objects of a kind, or with this part of them.
fn is_seen(kind: &Kind, part: &str, verb: &str) -> bool {
    let reads = ["get", "list", "watch"].contains(&verb);
    reads && kind.resource != Resource::Secrets && ["", "log", "status"].contains(&part)
}

/// Whether a user may read a path that is no resource: discovery, schemas, the version, health.
///
/// # Errors
/// Those of [`allows`].
pub fn allows_path(rules: &Rules, user: &User, verb: &str, path: &str) -> Result<bool, Failure> {
    if let Some(webhook) = rules.asked(user) {
        let attributes = json!({"verb": verb, "path": path});
        return webhook.may(user, "nonResourceAttributes", attributes).map_err(unknown);
    }
    Ok(rules.role(user) == Role::Admin || ["get", "head"].contains(&verb))
}

fn unknown(why: String) -> Failure {
    Failure::new(500, format!("Internal error occurred: whether this is allowed is not known: {why}"))
}

/// The refusal, in the API server's words.
#[must_use]
pub fn forbidden(user: &User, act: Act<'_>, name: Option<&str>) -> Failure {
    let Act { verb, group, resource, part, namespace } = act;
    let quoted = name.map(|name| format!(" {name:?}")).unwrap_or_default();
    let of = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let path = if part.is_empty() { resource.to_owned() } else { format!("{resource}/{part}") };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let user = &user.name;
    let message = format!(
        "{of}{quoted} is forbidden: User {user:?} cannot {verb} resource {path:?} in API group {group:?} {scope}"
    );
    let mut details = json!({"kind": resource});
    if let Some(name) = name {
        *place(&mut details, &["name"]) = name.into();
    }
    Failure { details, ..Failure::new(403, message) }
}

/// The rules of a user, for `selfsubjectrulesreviews`.
#[must_use]
pub fn rules(rules: &Rules, user: &User) -> Value {
    let role = rules.role(user);
    let mut resources: Vec<Value> = Vec::new();
    for kind in kinds::KINDS {
        let parts = kind.parts.iter().map(|part| (part.name, part.verbs));
        for (part, verbs) in std::iter::once(("", kind.verbs)).chain(parts) {
            let may = |verb: &&&str| match role {
                _ if is_review(kind) => true,
                Role::Admin => true,
                Role::View => is_seen(kind, part, verb),
                Role::Nobody => false,
            };
            let verbs: Vec<&str> = verbs.iter().filter(may).copied().collect();
            let name =
                if part.is_empty() { kind.plural.to_owned() } else { format!("{}/{part}", kind.plural) };
            if !verbs.is_empty() {
                resources.push(json!({"verbs": verbs, "apiGroups": [kind.group], "resources": [name]}));
            }
        }
    }
    if rules.asked(user).is_some() {
        // An API server that decides each request has no list.
        return json!({"resourceRules": resources, "nonResourceRules": [], "incomplete": true,
                      "evaluationError": "webhook authorizer does not support user rule resolution"});
    }
    json!({"resourceRules": resources, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}],
           "incomplete": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(group: &str) -> User {
        User { name: "u".to_owned(), groups: [group.to_owned()].into(), ..User::default() }
    }

    #[test]
    fn each_role_has_its_rights() {
        let set = |group: &str| Set::from([group.to_owned()]);
        let authorization = Authorization::Groups { admin: set("admin"), view: set("view") };
        let settings = Settings { authorization, ..Settings::default() };
        let rules = Rules { settings, ..Rules::default() };
        let allows = |user: &User, act| allows(&rules, user, act, None).unwrap();
        let act = |verb, resource, part| Act { verb, group: "", resource, part, namespace: "a" };
        let review = Act { group: "authorization.k8s.io", ..act("create", "selfsubjectaccessreviews", "") };
        for (verb, resource, part, of_view) in [
            ("get", "pods", "", true),
            ("watch", "configmaps", "", true),
            ("get", "pods", "log", true),
            ("get", "pods", "exec", false),
            ("create", "pods", "exec", false),
            ("list", "secrets", "", false),
            ("delete", "pods", "", false),
            ("get", "deployments", "", false),
        ] {
            let act = act(verb, resource, part);
            assert_eq!(allows(&user("view"), act), of_view, "{act:?}");
            assert!(allows(&user("admin"), act), "{act:?}");
            assert!(!allows(&user("other"), act), "{act:?}");
        }
        // What is possible for nobody is not possible for an administrator.
        for (verb, resource, part, is_there) in [
            ("delete", "nodes", "", false),
            ("create", "services", "", false),
            ("impersonate", "users", "", false),
            ("create", "deployments", "", false),
            ("create", "pods", "exec", true),
            ("delete", "pods", "", true),
            ("*", "*", "", true),
        ] {
            assert_eq!(exists(act(verb, resource, part)), is_there, "{verb} {resource}");
        }
        let of_view = super::rules(&rules, &user("view"))["resourceRules"].to_string();
        assert!(of_view.contains("pods/log") && of_view.contains("metrics.k8s.io"), "{of_view}");
        assert!(!of_view.contains("secrets") && !of_view.contains("delete"), "{of_view}");
        for group in ["view", "admin", "other"] {
            assert!(allows(&user(group), review));
        }
        let refused = forbidden(&user("view"), act("create", "pods", "exec"), Some("web"));
        let words = "pods \"web\" is forbidden: User \"u\" cannot create resource \"pods/exec\" in API group \"\" in \
                     the namespace \"a\"";
        assert_eq!(refused.message, words);
    }
}
