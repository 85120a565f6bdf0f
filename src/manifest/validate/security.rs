//! Security contexts of pods and containers.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec, SeccompProfile};

use super::super::path::{Path, Report, duplicate, invalid_plain, required, unsupported};
use super::{between, chosen, names, needed};

/// Largest user or group id.
const ID_MAX: i64 = i32::MAX as i64;

pub(super) fn check_pod(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(context) = &spec.security_context else { return };
    let path = path.field("securityContext");
    for (name, id) in [
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
    ] {
        between(id, 0, ID_MAX, &path.field(name), report);
    }
    let groups = path.field("supplementalGroups");
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        between(Some(*group), 0, ID_MAX, &groups.index(i), report);
    }
    let policies = ["Always", "OnRootMismatch"];
    chosen(context.fs_group_change_policy.as_deref(), &policies, &path.field("fsGroupChangePolicy"), report);
    let policies = ["Merge", "Strict"];
    let policy = path.field("supplementalGroupsPolicy");
    chosen(context.supplemental_groups_policy.as_deref(), &policies, &policy, report);
    // The other one, `MountOption`, is for volumes of drivers.
    let change = path.field("seLinuxChangePolicy");
    chosen(context.se_linux_change_policy.as_deref(), &["Recursive"], &change, report);
    seccomp(context.seccomp_profile.as_ref(), &path.field("seccompProfile"), report);
    app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);
    let sysctls = path.field("sysctls");
    let mut seen = std::collections::BTreeSet::new();
    for (i, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = sysctls.index(i);
        let path = path.field("name");
        needed(&sysctl.name, names::sysctl, &path, report);
        if !seen.insert(sysctl.name.replace('/', ".")) {
            report.error(&path, duplicate(&sysctl.name));
        }
    }
}

pub(super) fn check_container(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(context) = &container.security_context else { return };
    let path = path.field("securityContext");
    between(context.run_as_user, 0, ID_MAX, &path.field("runAsUser"), report);
    between(context.run_as_group, 0, ID_MAX, &path.field("runAsGroup"), report);
    chosen(context.proc_mount.as_deref(), &["Default", "Unmasked"], &path.field("procMount"), report);
    seccomp(context.seccomp_profile.as_ref(), &path.field("seccompProfile"), report);
    app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);
    if context.allow_privilege_escalation == Some(false) {
        let field = path.field("allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            report.error(&field, invalid_plain(false, detail));
        }
        let added = context.capabilities.iter().flat_map(|c| c.add.iter().flatten());
        if added.into_iter().any(|cap| cap == "CAP_SYS_ADMIN" || cap == "SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            report.error(&field, invalid_plain(false, detail));
        }
    }
}

fn seccomp(profile: Option<&SeccompProfile>, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(profile) = profile {
        profile_type(&profile.type_, profile.localhost_profile.as_deref(), path, report);
    }
}

fn app_armor(profile: Option<&AppArmorProfile>, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(profile) = profile {
        profile_type(&profile.type_, profile.localhost_profile.as_deref(), path, report);
    }
}

fn profile_type(kind: &str, localhost: Option<&str>, path: &Path<'_>, report: &mut Report<'_>) {
    let field = path.field("localhostProfile");
    match (kind, localhost.filter(|p| !p.is_empty())) {
        ("Localhost", None) => {
            report.error(&field, required("must be set when type is Localhost"));
        }
        ("Localhost", Some(_)) | ("RuntimeDefault" | "Unconfined", None) => {}
        ("RuntimeDefault" | "Unconfined", Some(profile)) => {
            report.error(&field, super::invalid(profile, "can only be set when type is Localhost"));
        }
        ("", _) => report.error(&path.field("type"), required("type is required")),
        (other, _) => {
            let types = ["Localhost", "RuntimeDefault", "Unconfined"];
            report.error(&path.field("type"), unsupported(other, &types));
        }
    }
}
