//! Containers: names, images, policies; calls the checks of their parts.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::super::path::{Path, Report, duplicate, forbidden, invalid, required, too_many, unsupported};
use super::{chosen, env, lifecycle, names, needed, one_of, ports, probes, resources, security, volumes};
use crate::base::table::Set;

/// Most restart rules of a container, and most exit codes of a rule (upstream
/// `pkg/apis/core/validation/validation.go`).
const RULES: usize = 20;
const EXIT_CODES: usize = 255;

pub(super) fn check_all(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let volumes = volumes::known(path, report);
    let mut names = HashSet::new();
    let init = path.field("initContainers");
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = init.index(i);
        one(container, spec, &volumes, &path, report);
        init_only(container, &path, report);
        unique(&container.name, &mut names, &path, report);
    }
    let regular = path.field("containers");
    if spec.containers.is_empty() {
        report.error(&regular, required(""));
    }
    for (i, container) in spec.containers.iter().enumerate() {
        let path = regular.index(i);
        one(container, spec, &volumes, &path, report);
        probes::check_all(container, &path, report);
        unique(&container.name, &mut names, &path, report);
    }
    ports::check_host_ports(
        "initContainers",
        spec.init_containers.as_deref().unwrap_or_default(),
        path,
        report,
    );
    ports::check_host_ports("containers", &spec.containers, path, report);
}

fn unique(name: &str, names: &mut HashSet<String>, path: &Path<'_>, report: &mut Report<'_>) {
    if !name.is_empty() && !names.insert(name.to_owned()) {
        report.error(&path.field("name"), duplicate(name));
    }
}

fn one(container: &Container, spec: &PodSpec, volumes: &Set<&str>, path: &Path<'_>, report: &mut Report<'_>) {
    needed(&container.name, names::label, &path.field("name"), report);
    let image = container.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        report.error(&path.field("image"), required(""));
    } else if image != image.trim() {
        report.error(&path.field("image"), invalid(image, "must not have leading or trailing whitespace"));
    }
    let policy = path.field("imagePullPolicy");
    one_of(container.image_pull_policy.as_deref(), &["Always", "IfNotPresent", "Never"], &policy, report);
    let message = path.field("terminationMessagePolicy");
    let policies = ["FallbackToLogsOnError", "File"];
    one_of(container.termination_message_policy.as_deref(), &policies, &message, report);
    restart(container, path, report);
    env::check(container, path, report);
    ports::check(container, spec, path, report);
    resources::check(container, spec, path, report);
    security::check_container(container, path, report);
    lifecycle::check(container, spec, path, report);
    volumes::check_mounts(container, volumes, path, report);
}

/// Probes and hooks need a container that keeps running: among init containers, a sidecar.
fn init_only(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    if container.restart_policy.as_deref() == Some("Always") {
        return probes::check_all(container, path, report);
    }
    resources::check_init(container, path, report);
    for (name, set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if set {
            let detail = "may not be set for init containers without restartPolicy=Always";
            report.error(&path.field(name), forbidden(detail));
        }
    }
}

fn restart(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    let policy = container.restart_policy.as_deref();
    chosen(policy, &["Always", "Never", "OnFailure"], &path.field("restartPolicy"), report);
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if rules.is_empty() {
        return;
    }
    if policy.is_none() {
        let detail = "must specify restartPolicy when restart rules are used";
        report.error(&path.field("restartPolicy"), required(detail));
    }
    let path = path.field("restartPolicyRules");
    if rules.len() > RULES {
        report.error(&path, too_many(rules.len(), RULES));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&rule.action.as_str()) {
            report.error(&path.field("action"), unsupported(&rule.action, &actions));
        }
        let path = path.field("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            report.error(&path, required("must be specified"));
            continue;
        };
        let operators = ["In", "NotIn"];
        if !operators.contains(&codes.operator.as_str()) {
            report.error(&path.field("operator"), unsupported(&codes.operator, &operators));
        }
        // As upstream, an empty list is valid: it matches no code.
        let many = codes.values.as_deref().unwrap_or_default().len();
        if many > EXIT_CODES {
            report.error(&path.field("values"), too_many(many, EXIT_CODES));
        }
    }
}
