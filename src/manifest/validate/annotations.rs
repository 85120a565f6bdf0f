//! Annotations that mean something to the API: those that preceded a field of the pod must be valid, and say what the
//! field says (upstream `ValidatePodSpecificAnnotations` and what `ValidatePodCreate` checks beside it).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSpec, SeccompProfile, SecurityContext, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::super::path::{Path, Report, forbidden, invalid};
use super::scheduling::toleration;
use super::security::app_armor_name;
use super::volumes::has_dot_dot;
use crate::base::json;

/// Followed by the container's name.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Followed by the container's name.
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

type Annotations = BTreeMap<String, String>;

pub(super) fn check(meta: &ObjectMeta, spec: &PodSpec, report: &mut Report<'_>) {
    let Some(annotations) = &meta.annotations else { return };
    let root = Path::ROOT;
    let path = root.field("metadata");
    let path = path.field("annotations");
    values(annotations, spec, &path, report);
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        tolerations(text, &path.key(TOLERATIONS), report);
    }
    let path = root.field("spec");
    fields(annotations, spec, &path, report);
}

fn values(annotations: &Annotations, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let all = spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.name.as_str());
    let added = spec.ephemeral_containers.iter().flatten().map(|c| c.name.as_str());
    let names: Vec<&str> = all.chain(added).collect();
    for (key, value) in annotations {
        let path = path.key(key);
        let verdict = if let Some(container) = key.strip_prefix(APPARMOR) {
            if !names.contains(&container) {
                report.error(&path, invalid(container, "container not found"));
            }
            app_armor(value)
        } else if key == SECCOMP || key.starts_with(SECCOMP_OF) {
            seccomp(value)
        } else if key == DELETION_COST {
            deletion_cost(value)
        } else {
            continue;
        };
        if let Err(why) = verdict {
            report.error(&path, invalid(value, why));
        }
    }
}

type Verdict = Result<(), &'static str>;

fn app_armor(value: &str) -> Verdict {
    match value {
        "" | "runtime/default" | "unconfined" => Ok(()),
        other => match other.strip_prefix("localhost/") {
            None => Err("invalid AppArmor profile name"),
            Some("") => Err("must name a profile"),
            Some(name) => app_armor_name(name),
        },
    }
}

fn seccomp(value: &str) -> Verdict {
    match value {
        "runtime/default" | "docker/default" | "unconfined" => Ok(()),
        other => other.strip_prefix("localhost/").map_or(Err("must be a valid seccomp profile"), below),
    }
}

/// A file below the directory of profiles (`validateLocalDescendingPath`).
pub(super) fn below(file: &str) -> Verdict {
    if file.starts_with('/') {
        return Err("must be a relative path");
    }
    if has_dot_dot(file) { Err("must not contain '..'") } else { Ok(()) }
}

/// A plus sign and leading zeros are no part of a number here.
fn deletion_cost(value: &str) -> Verdict {
    let first = value.bytes().next().unwrap_or_default();
    let begins = value == "0" || first == b'-' || (b'1'..=b'9').contains(&first);
    if begins && value.parse::<i32>().is_ok() { Ok(()) } else { Err("must be a 32bit integer") }
}

fn tolerations(text: &str, path: &Path<'_>, report: &mut Report<'_>) {
    let list = serde_json::from_str::<Value>(text).and_then(|value| match value {
        Value::Null => Ok(Vec::new()),
        value => json::read::<Vec<Toleration>>(&value),
    });
    match list {
        Ok(list) => list.iter().enumerate().for_each(|(i, each)| toleration(each, &path.index(i), report)),
        Err(why) => report.error(path, invalid(text, &why.to_string())),
    }
}

/// Annotation and field must say the same, where there are both.
fn fields(annotations: &Annotations, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let context = spec.security_context.as_ref();
    if let Some(profile) = context.and_then(|c| c.seccomp_profile.as_ref()) {
        let path = path.field("securityContext");
        same_seccomp(annotations.get(SECCOMP), profile, &path.field("seccompProfile"), report);
    }
    let pods = context.and_then(|c| c.app_armor_profile.as_ref());
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (name, list) in [("initContainers", init), ("containers", &spec.containers)] {
        let list_path = path.field(name);
        for (i, container) in list.iter().enumerate() {
            let path = list_path.index(i);
            of_container(annotations, container, pods, &path.field("securityContext"), report);
        }
    }
}

fn of_container(
    annotations: &Annotations,
    container: &Container,
    pods: Option<&AppArmorProfile>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let own: Option<&SecurityContext> = container.security_context.as_ref();
    let name = &container.name;
    if let Some(profile) = own.and_then(|c| c.seccomp_profile.as_ref()) {
        let value = annotations.get(&format!("{SECCOMP_OF}{name}"));
        same_seccomp(value, profile, &path.field("seccompProfile"), report);
    }
    let Some(profile) = own.and_then(|c| c.app_armor_profile.as_ref()).or(pods) else { return };
    let Some(value) = annotations.get(&format!("{APPARMOR}{name}")) else { return };
    let defaults = ["runtime/default"];
    let wanted = Wanted { kind: &profile.type_, file: profile.localhost_profile.as_deref() };
    same("apparmor", value, &defaults, wanted, &path.field("appArmorProfile"), report);
}

fn same_seccomp(value: Option<&String>, profile: &SeccompProfile, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(value) = value else { return };
    let defaults = ["runtime/default", "docker/default"];
    let wanted = Wanted { kind: &profile.type_, file: profile.localhost_profile.as_deref() };
    same("seccomp", value, &defaults, wanted, path, report);
}

/// The field's profile.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    kind: &'a str,
    file: Option<&'a str>,
}

fn same(
    what: &str,
    value: &str,
    defaults: &[&str],
    wanted: Wanted<'_>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let file = value.strip_prefix("localhost/");
    let is_same_type = match wanted.kind {
        "Unconfined" => value == "unconfined",
        "RuntimeDefault" => defaults.contains(&value),
        "Localhost" => file.is_some(),
        _ => return,
    };
    if !is_same_type {
        report.error(
            &path.field("type"),
            forbidden(&format!("{what} type in annotation and field must match")),
        );
    } else if wanted.kind == "Localhost" && file != wanted.file {
        report.error(
            &path.field("localhostProfile"),
            forbidden(&format!("{what} profile in annotation and field must match")),
        );
    }
}
