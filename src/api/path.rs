//! The meaning of a path. Pure.

use super::kinds::{Kind, Part, within};

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route<'p> {
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(&'p str),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Version(&'p str, &'p str),
    /// A collection, an object or a part of one.
    Object(Target<'p>),
    /// `/version`
    ServerVersion,
    /// `/healthz`, `/livez`, `/readyz`, and checks below them.
    Health,
    /// `/openapi/v3`
    OpenApi,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`
    OpenApiOf(&'p str, &'p str),
    /// `/openapi/v2`
    OpenApiOld,
    /// Any other path.
    Unknown,
}

/// A collection, an object, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'p> {
    pub kind: &'static Kind,
    /// Always `None` for a kind without namespaces.
    pub namespace: Option<&'p str>,
    pub name: Option<&'p str>,
    pub part: Option<&'static Part>,
}

/// Parses a path, which is decoded already.
#[must_use]
pub fn route(path: &str) -> Route<'_> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api"] => Route::Core,
        ["apis"] => Route::Groups,
        ["version"] => Route::ServerVersion,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["openapi", "v3"] => Route::OpenApi,
        ["openapi", "v3", "api", version] => Route::OpenApiOf("", version),
        ["openapi", "v3", "apis", group, version] => Route::OpenApiOf(group, version),
        ["openapi", "v2"] => Route::OpenApiOld,
        ["api", version] => Route::Version("", version),
        ["apis", group] => Route::Group(group),
        ["apis", group, version] => Route::Version(group, version),
        ["api", version, rest @ ..] => object("", version, rest),
        ["apis", group, version, rest @ ..] => object(group, version, rest),
        _ => Route::Unknown,
    }
}

fn object<'p>(group: &str, version: &str, rest: &[&'p str]) -> Route<'p> {
    // `kubectl auth whoami` of 1.27 knows no other version, and asks without discovery.
    let version = if (group, version) == ("authentication.k8s.io", "v1beta1") { "v1" } else { version };
    let found = |plural: &str| within(group, version).find(|kind| kind.plural == plural);
    let (namespace, rest) = match rest {
        // A namespace is an object too, and the rest may be a part of it.
        ["namespaces", namespace, plural, rest @ ..] if found(plural).is_some_and(|kind| kind.namespaced) => {
            (Some(*namespace), [&[*plural], rest].concat())
        }
        _ => (None, rest.to_vec()),
    };
    let (Some(kind), name, part) = (match rest.as_slice() {
        [plural] => (found(plural), None, None),
        [plural, name] => (found(plural), Some(*name), None),
        [plural, name, part] => (found(plural), Some(*name), Some(*part)),
        _ => return Route::Unknown,
    }) else {
        return Route::Unknown;
    };
    // An object with a namespace is not found without it.
    if name.is_some() && kind.namespaced && namespace.is_none() || [name, namespace].contains(&Some("")) {
        return Route::Unknown;
    }
    let part = match part.map(|part| kind.part(part)) {
        None => None,
        Some(Some(part)) => Some(part),
        Some(None) => return Route::Unknown,
    };
    Route::Object(Target { kind, namespace, name, part })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, namespace, name, part.
    type Found<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>);

    #[test]
    fn paths_name_collections_objects_and_parts() {
        let check = |path: &str, expected: Option<Found<'_>>| {
            let found = match route(path) {
                Route::Object(t) => Some((t.kind.kind, t.namespace, t.name, t.part.map(|part| part.name))),
                Route::Unknown => None,
                other => panic!("{path}: {other:?}"),
            };
            assert_eq!(found, expected, "{path}");
        };
        check("/api/v1/pods", Some(("Pod", None, None, None)));
        check("/api/v1/namespaces/a/pods", Some(("Pod", Some("a"), None, None)));
        check("/api/v1/namespaces/a/pods/b", Some(("Pod", Some("a"), Some("b"), None)));
        check("/api/v1/namespaces/a/pods/b/log", Some(("Pod", Some("a"), Some("b"), Some("log"))));
        check("/api/v1/namespaces", Some(("Namespace", None, None, None)));
        check("/api/v1/namespaces/pods", Some(("Namespace", None, Some("pods"), None)));
        check("/api/v1/nodes/n", Some(("Node", None, Some("n"), None)));
        check(
            "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews",
            Some(("SelfSubjectReview", None, None, None)),
        );
        check("/apis/metrics.k8s.io/v1beta1/nodes", Some(("NodeMetrics", None, None, None)));
        check(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
            Some(("Lease", Some("kube-node-lease"), Some("n"), None)),
        );
        for unknown in [
            "/api/v1/pods/b",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/namespaces/a/pods/b/nothing",
            "/api/v1/namespaces/a/pods/b/log/x",
            "/api/v1/namespaces//pods",
            "/api/v2/pods",
            "/apis/apps/v1/deployments",
            "/x",
            "/",
        ] {
            check(unknown, None);
        }
        assert_eq!(route("/apis/apps/v1"), Route::Version("apps", "v1"));
        assert_eq!(route("/readyz/ping"), Route::Health);
    }
}
