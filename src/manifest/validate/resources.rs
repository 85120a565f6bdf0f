//! Requests and limits of containers and pods.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::path::{Path, Report, duplicate, forbidden, invalid, quoted, required, unsupported};
use super::{accepted, names};
use crate::base::quantity;
use crate::pod::requests::{self, HUGE_PAGES};

pub(super) fn check(container: &Container, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    resize_policy(container, spec, path, report);
    let Some(resources) = &container.resources else { return };
    let path = path.field("resources");
    lists(resources, &path, report);
    huge_pages_alone(resources, &path, report);
    let limits_path = path.field("limits");
    for (name, pod) in spec.resources.iter().flat_map(|r| r.limits.iter().flatten()) {
        let Some(limit) = resources.limits.as_ref().and_then(|limits| limits.get(name)) else { continue };
        if compare(&limit.0, &pod.0).is_some_and(Ordering::is_gt) {
            let detail = format!("must be less than or equal to pod limits of {}", pod.0);
            report.error(&limits_path.key(name), invalid(&limit.0, &detail));
        }
    }
}

/// The pod's overhead in addition to its containers, checked like limits.
pub(super) fn check_overhead(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.field("overhead");
    for (name, quantity) in spec.overhead.iter().flatten() {
        one(name, quantity, &path.key(name), report);
    }
    let resources = ResourceRequirements { limits: spec.overhead.clone(), ..Default::default() };
    huge_pages_alone(&resources, &path, report);
}

fn huge_pages_alone(resources: &ResourceRequirements, path: &Path<'_>, report: &mut Report<'_>) {
    let mut names = resources.limits.iter().chain(&resources.requests).flat_map(|list| list.keys());
    let huge = names.clone().any(|name| name.starts_with(HUGE_PAGES));
    if huge && !names.any(|name| is_cpu_or_memory(name)) {
        report.error(path, forbidden("HugePages require cpu or memory"));
    }
}

fn is_cpu_or_memory(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// An init container that ends is not resized.
pub(super) fn check_init(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.field("resizePolicy");
    for (i, policy) in container.resize_policy.iter().flatten().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let path = path.index(i);
            report.error(&path.field("restartPolicy"), invalid("RestartContainer", detail));
        }
    }
}

/// The pod's own requests and limits.
pub(super) fn check_pod(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(resources) = &spec.resources else { return };
    let path = path.field("resources");
    lists(resources, &path, report);
    // The pod requests what its containers request, unless it says otherwise.
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let requests = all.flat_map(|c| c.resources.iter().flat_map(|r| r.requests.iter().flatten()));
    if !requests.into_iter().any(|(name, _)| is_cpu_or_memory(name)) {
        huge_pages_alone(resources, &path, report);
    }
    let claims = path.field("claims");
    // As upstream, an empty list is one, too.
    if report.written(&claims).is_some_and(|node| !node.is_null()) {
        report.error(&claims, forbidden("claims may not be set for Resources at pod-level"));
    }
    for (list, word) in [(&resources.limits, "limits"), (&resources.requests, "requests")] {
        let path = path.field(word);
        for (name, quantity) in list.iter().flatten() {
            let path = path.key(name);
            if !is_cpu_or_memory(name) && !name.starts_with(HUGE_PAGES) {
                report.error(&path, unsupported(name, &["cpu", "hugepages-", "memory"]));
                continue;
            }
            if word == "limits" {
                continue;
            }
            let all = requests::containers_request(spec, name);
            let own = if name == "cpu" { quantity::milli(&quantity.0) } else { quantity::value(&quantity.0) };
            if own.is_ok_and(|own| own < all) {
                let unit = if name == "cpu" { "m" } else { "" };
                let detail =
                    format!("must be greater than or equal to aggregate container requests of {all}{unit}");
                report.error(&path, invalid(&quantity.0, &detail));
            }
        }
    }
}

fn lists(resources: &ResourceRequirements, path: &Path<'_>, report: &mut Report<'_>) {
    let limits_path = path.field("limits");
    for (name, limit) in resources.limits.iter().flatten() {
        one(name, limit, &limits_path.key(name), report);
    }
    let requests_path = path.field("requests");
    for (name, request) in resources.requests.iter().flatten() {
        let path = requests_path.key(name);
        // A default from the limit is skipped, because its own problem is reported.
        if report.written(&path).is_none() {
            continue;
        }
        one(name, request, &path, report);
        let whole = is_extended(name) || name.starts_with(HUGE_PAGES);
        let Some(limit) = resources.limits.as_ref().and_then(|limits| limits.get(name)) else {
            if whole {
                report.error(&path, required("Limit must be set for non overcommitable resources"));
            }
            continue;
        };
        match compare(&request.0, &limit.0) {
            Some(order) if whole && order.is_ne() => {
                report.error(
                    &path,
                    invalid(&request.0, &format!("must be equal to {name} limit of {}", limit.0)),
                );
            }
            Some(order) if order.is_gt() => {
                let detail = format!("must be less than or equal to {name} limit of {}", limit.0);
                report.error(&path, invalid(&request.0, &detail));
            }
            _ => {}
        }
    }
}

fn resize_policy(container: &Container, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.field("resizePolicy");
    let mut seen = BTreeSet::new();
    for (i, policy) in container.resize_policy.iter().flatten().enumerate() {
        let path = path.index(i);
        match policy.resource_name.as_str() {
            "" => report.error(&path.field("resourceName"), required("")),
            name @ ("cpu" | "memory") if !seen.insert(name) => report.error(&path, duplicate(name)),
            "cpu" | "memory" => {}
            other => report.error(&path.field("resourceName"), unsupported(other, &["cpu", "memory"])),
        }
        let field = path.field("restartPolicy");
        match policy.restart_policy.as_str() {
            "" => report.error(&field, required("")),
            "RestartContainer" if spec.restart_policy.as_deref() == Some("Never") => {
                let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
                report.error(&field, invalid("RestartContainer", detail));
            }
            "NotRequired" | "RestartContainer" => {}
            other => report.error(&field, unsupported(other, &["NotRequired", "RestartContainer"])),
        }
    }
}

fn one(name: &str, quantity: &Quantity, path: &Path<'_>, report: &mut Report<'_>) {
    accepted(name, names::qualified, path, report);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES);
    if !name.contains('/') && !standard {
        report.error(path, invalid(name, "must be a standard resource for containers"));
    }
    let is_good = |name: &str| names::qualified(name).is_ok();
    if is_extended(name) && is_good(name) && (name.starts_with(QUOTA) || !is_good(&format!("{QUOTA}{name}")))
    {
        report.error(path, invalid(name, "doesn't follow extended resource name standard"));
    }
    no_digits(&quantity.0, path, report);
    match quantity::value(&quantity.0) {
        Err(e) => report.error(path, invalid(&quantity.0, &e.to_string())),
        Ok(_) if quantity.0.starts_with('-') && compare(&quantity.0, "0").is_some_and(|o| o.is_lt()) => {
            report.error(path, invalid(&quantity.0, "must be greater than or equal to 0"));
        }
        Ok(value) if is_extended(name) && quantity::milli(&quantity.0) != Ok(value.saturating_mul(1000)) => {
            report.error(path, invalid(&quantity.0, "must be an integer"));
        }
        Ok(value) => {
            if let Some(size) = name.strip_prefix(HUGE_PAGES).filter(|_| !is_multiple(value, name)) {
                let detail = format!("{} is not positive integer multiple of {HUGE_PAGES}{size}", quantity.0);
                report.error(path, invalid(&quantity.0, &detail));
            }
        }
    }
}

/// Prefix of a resource's name in a quota, with which the name must be one as well.
const QUOTA: &str = "requests.";

/// Warns about a suffix without a number: its writer meant an amount, and a limit of zero is none.
pub(super) fn no_digits(text: &str, path: &Path<'_>, report: &mut Report<'_>) {
    if !quantity::has_digits(text) && quantity::value(text).is_ok() {
        report.warning(path, format!("{} has no digits, and counts as 0", quoted(text)));
    }
}

/// True for a resource that is not Kubernetes' own (`IsExtendedResourceName`).
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// True for a whole number of pages of the size in the name. A part of a byte counts as one, as upstream.
fn is_multiple(value: i64, name: &str) -> bool {
    let size = quantity::value(name.strip_prefix(HUGE_PAGES).unwrap_or_default());
    size.is_ok_and(|size| size > 0 && value.checked_rem(size) == Some(0))
}

/// Compares by thousandths; by whole units if thousandths do not fit.
fn compare(a: &str, b: &str) -> Option<Ordering> {
    if let (Ok(a), Ok(b)) = (quantity::milli(a), quantity::milli(b))
        && a.max(b) < i64::MAX
    {
        return Some(a.cmp(&b));
    }
    match (quantity::value(a), quantity::value(b)) {
        (Ok(a), Ok(b)) => Some(a.cmp(&b)),
        _ => None,
    }
}
