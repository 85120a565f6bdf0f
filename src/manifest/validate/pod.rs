//! The pod's own fields: policies, deadlines, names, and fields that a manifest may not have.

use k8s_openapi::api::core::v1::PodSpec;

use super::super::path::{Path, Report, forbidden, invalid_plain, unsupported};
use super::{accepted, accepted_if_set, between, names, needed, one_of};

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    one_of(
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
        &path.field("restartPolicy"),
        report,
    );
    let deadline = path.field("activeDeadlineSeconds");
    between(spec.active_deadline_seconds, 1, i32::MAX.into(), &deadline, report);
    let account = path.field("serviceAccountName");
    accepted_if_set(spec.service_account_name.as_deref(), names::subdomain, &account, report);
    let runtime = path.field("runtimeClassName");
    if let Some(name) = spec.runtime_class_name.as_deref() {
        accepted(name, names::subdomain, &runtime, report);
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.error(&path.field("shareProcessNamespace"), invalid_plain(true, detail));
    }
    if let Some(os) = &spec.os {
        let path = path.field("os");
        let path = path.field("name");
        match os.name.as_str() {
            "linux" => {}
            "windows" => {
                report.error(&path, format!("{} (this node runs Linux)", unsupported("windows", &["linux"])))
            }
            "" => needed("", names::label, &path, report),
            other => report.error(&path, unsupported(other, &["linux", "windows"])),
        }
    }
    if spec.ephemeral_containers.as_deref().is_some_and(|list| !list.is_empty()) {
        let detail = "ephemeral containers not allowed in create operations";
        report.error(&path.field("ephemeralContainers"), forbidden(detail));
    }
    if spec.scheduling_gates.as_deref().is_some_and(|list| !list.is_empty()) {
        let detail = "may not be set when the pod has a node, as every static pod has";
        report.error(&path.field("schedulingGates"), forbidden(detail));
    }
    let gates = path.field("readinessGates");
    for (i, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = gates.index(i);
        let path = path.field("conditionType");
        needed(&gate.condition_type, names::qualified, &path, report);
        if !report.has_error_at(&path) {
            report.warning(&path, "nobody can set this condition here, so the pod is never ready");
        }
    }
    // An empty `imagePullSecrets` item names no secret and is skipped, as upstream.
    let class = path.field("priorityClassName");
    accepted_if_set(spec.priority_class_name.as_deref(), names::subdomain, &class, report);
}
