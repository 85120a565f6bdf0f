//! The right that a request needs, in the terms of the kubelet's authorization. Pure.

use crate::server::http::request::{Method, Request};

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To view the state of pods and the node, figures, and logs of containers: what the cluster role `view` of
    /// Kubernetes allows, and no more. It changes nothing, runs nothing, and shows no file of the node.
    View,
    /// Everything else.
    Admin,
}

/// Paths below which [`Right::View`] suffices.
const VIEWED: &[&str] =
    &["/healthz", "/pods", "/runningpods", "/stats", "/spec", "/metrics", "/containerLogs"];

/// The right that this request needs.
#[must_use]
pub fn right(request: &Request) -> Right {
    let reads = matches!(request.method, Method::Get | Method::Head)
        // The old way to request figures.
        || request.method == Method::Post && is_below(&request.path, "/stats");
    if reads && VIEWED.iter().any(|path| is_below(&request.path, path)) { Right::View } else { Right::Admin }
}

/// The API's verb of a method.
#[must_use]
pub fn verb(method: Method) -> &'static str {
    match method {
        Method::Get | Method::Head => "get",
        Method::Post => "create",
        Method::Put => "update",
        Method::Patch => "patch",
        Method::Delete => "delete",
        Method::Other => "",
    }
}

/// Subresources of `nodes`, each of which suffices (upstream `GetRequestAttributes`).
#[must_use]
pub fn subresources(path: &str) -> Vec<&'static str> {
    match path {
        _ if is_below(path, "/stats") => vec!["stats"],
        _ if is_below(path, "/spec") => vec!["spec"],
        _ if is_below(path, "/metrics") => vec!["metrics"],
        _ if is_below(path, "/logs") => vec!["log"],
        _ if is_below(path, "/checkpoint") => vec!["checkpoint"],
        _ if is_below(path, "/pods") || is_below(path, "/runningpods") => vec!["pods", "proxy"],
        _ if is_below(path, "/healthz") => vec!["healthz", "proxy"],
        _ if is_below(path, "/configz") => vec!["configz", "proxy"],
        _ => vec!["proxy"],
    }
}

/// Whether it is this path, or one below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
