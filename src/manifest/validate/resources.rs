//! Requests and limits.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::super::path::{Path, Report, invalid};
use super::super::quantity;
use super::{accepted, names};

pub(super) fn check(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(resources) = &container.resources else { return };
    let path = path.field("resources");
    let limits_path = path.field("limits");
    for (name, limit) in resources.limits.iter().flatten() {
        one(name, limit, &limits_path.key(name), report);
    }
    let requests_path = path.field("requests");
    for (name, request) in resources.requests.iter().flatten() {
        let path = requests_path.key(name);
        // Filled in from the limit, whose own problem is reported.
        if report.written(&path).is_none() {
            continue;
        }
        one(name, request, &path, report);
        let Some(limit) = resources.limits.as_ref().and_then(|limits| limits.get(name)) else { continue };
        let whole = name.contains('/') || name.starts_with("hugepages-");
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

fn one(name: &str, quantity: &Quantity, path: &Path<'_>, report: &mut Report<'_>) {
    accepted(name, names::qualified, path, report);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') && !standard {
        report.error(path, invalid(name, "must be a standard resource for containers"));
    }
    match quantity::value(&quantity.0) {
        Err(e) => report.error(path, invalid(&quantity.0, &e.to_string())),
        Ok(_) if quantity.0.starts_with('-') && compare(&quantity.0, "0").is_some_and(|o| o.is_lt()) => {
            report.error(path, invalid(&quantity.0, "must be greater than or equal to 0"));
        }
        Ok(value) if name.contains('/') && quantity::milli(&quantity.0) != Ok(value.saturating_mul(1000)) => {
            report.error(path, invalid(&quantity.0, "must be an integer"));
        }
        Ok(_) => {}
    }
}

/// By thousandths; by whole units when those do not fit.
fn compare(a: &str, b: &str) -> Option<std::cmp::Ordering> {
    if let (Ok(a), Ok(b)) = (quantity::milli(a), quantity::milli(b)) {
        return Some(a.cmp(&b));
    }
    match (quantity::value(a), quantity::value(b)) {
        (Ok(a), Ok(b)) => Some(a.cmp(&b)),
        _ => None,
    }
}
