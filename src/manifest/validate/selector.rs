//! Label selectors and node selectors: requirements, operators, and the number of values of each.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::path::{Path, Report, forbidden, invalid, required};
use super::{accepted, metadata, names};

const OPERATOR: &str = "not a valid selector operator";

/// `ValidateLabelSelector`.
pub(super) fn labels(selector: Option<&LabelSelector>, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(selector) = selector else { return };
    if let Some(labels) = &selector.match_labels {
        metadata::labels(labels, &path.field("matchLabels"), report);
    }
    let list = path.field("matchExpressions");
    for (i, each) in selector.match_expressions.iter().flatten().enumerate() {
        let path = list.index(i);
        let values = each.values.as_deref().unwrap_or_default();
        match each.operator.as_str() {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {
                set_or_presence(&each.operator, values, &path, report);
            }
            other => report.error(&path.field("operator"), invalid(other, OPERATOR)),
        }
        accepted(&each.key, names::qualified, &path.field("key"), report);
        label_values(values, &path, report);
    }
}

/// `ValidateNodeSelectorTerm`. A preferred term may name values that no label can have.
pub(super) fn nodes(term: &NodeSelectorTerm, required: bool, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("matchExpressions");
    for (i, each) in term.match_expressions.iter().flatten().enumerate() {
        expression(each, required, &list.index(i), report);
    }
    let list = path.field("matchFields");
    for (i, each) in term.match_fields.iter().flatten().enumerate() {
        field(each, &list.index(i), report);
    }
}

fn expression(each: &NodeSelectorRequirement, strict: bool, path: &Path<'_>, report: &mut Report<'_>) {
    let values = each.values.as_deref().unwrap_or_default();
    match each.operator.as_str() {
        "In" | "NotIn" | "Exists" | "DoesNotExist" => set_or_presence(&each.operator, values, path, report),
        "Gt" | "Lt" if values.len() == 1 => {}
        "Gt" | "Lt" => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            report.error(&path.field("values"), required(detail));
        }
        other => report.error(&path.field("operator"), invalid(other, OPERATOR)),
    }
    accepted(&each.key, names::qualified, &path.field("key"), report);
    if strict {
        label_values(values, path, report);
    }
}

fn field(each: &NodeSelectorRequirement, path: &Path<'_>, report: &mut Report<'_>) {
    let values = each.values.as_deref().unwrap_or_default();
    match each.operator.as_str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            report.error(&path.field("values"), required(detail));
        }
        other => report.error(&path.field("operator"), invalid(other, OPERATOR)),
    }
    if each.key != "metadata.name" {
        report.error(&path.field("key"), invalid(&each.key, "not a valid field selector key"));
        return;
    }
    let list = path.field("values");
    for (i, name) in values.iter().enumerate() {
        accepted(name, names::subdomain, &list.index(i), report);
    }
}

/// Set operators need values, presence operators take none.
fn set_or_presence(operator: &str, values: &[String], path: &Path<'_>, report: &mut Report<'_>) {
    let on_set = matches!(operator, "In" | "NotIn");
    if on_set && values.is_empty() {
        let detail = "must be specified when `operator` is 'In' or 'NotIn'";
        report.error(&path.field("values"), required(detail));
    } else if !on_set && !values.is_empty() {
        let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        report.error(&path.field("values"), forbidden(detail));
    }
}

fn label_values(values: &[String], path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("values");
    for (i, value) in values.iter().enumerate() {
        accepted(value, names::label_value, &list.index(i), report);
    }
}
