//! The fields for a scheduler: selectors, tolerations, priority, groups.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::super::path::{Path, Report, invalid, invalid_plain, unsupported};
use super::{accepted, accepted_if_set, affinity, chosen, metadata, names, one_of};

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(selector) = &spec.node_selector {
        metadata::labels(selector, &path.field("nodeSelector"), report);
    }
    let list = path.field("tolerations");
    for (i, each) in spec.tolerations.iter().flatten().enumerate() {
        toleration(each, &list.index(i), report);
    }
    affinity::check(spec, path, report);
    let policies = ["Never", "PreemptLowerPriority"];
    chosen(spec.preemption_policy.as_deref(), &policies, &path.field("preemptionPolicy"), report);
    if let Some(group) = &spec.scheduling_group {
        let path = path.field("schedulingGroup");
        let path = path.field("podGroupName");
        match group.pod_group_name.as_deref() {
            Some(name) => accepted(name, names::subdomain, &path, report),
            None => report.error(&path, invalid_plain("null", "must specify one of: `podGroupName`")),
        }
    }
}

pub(super) fn toleration(toleration: &Toleration, path: &Path<'_>, report: &mut Report<'_>) {
    let key = toleration.key.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    accepted_if_set(Some(key), names::qualified, &path.field("key"), report);
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        report.error(&path.field("operator"), invalid(operator, detail));
    }
    if toleration.toleration_seconds.is_some() && toleration.effect.as_deref() != Some("NoExecute") {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        report.error(&path.field("effect"), invalid(effect, detail));
    }
    match operator {
        "" | "Equal" => {
            if names::label_value(value).is_err() {
                report.error(&path.field("value"), invalid(value, "must be a valid label value"));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            report.error(
                &path.field("value"),
                invalid(value, "value must be empty when `operator` is 'Exists'"),
            );
        }
        // `Lt` and `Gt` need a feature gate that upstream has off.
        other => report.error(&path.field("operator"), unsupported(other, &["Equal", "Exists"])),
    }
    let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
    one_of(toleration.effect.as_deref(), &effects, &path.field("effect"), report);
}
