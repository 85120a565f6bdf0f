//! Security contexts of pods and containers.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec, SeccompProfile};

use super::super::path::{Path, Report, duplicate, invalid, invalid_plain, required, unsupported};
use super::{annotations, between, chosen, names, needed};
use crate::node::sysctl::{self, Shared};

/// Largest user or group id.
const ID_MAX: i64 = i32::MAX as i64;
/// Longest name of an AppArmor profile.
const APP_ARMOR_NAME: usize = 4095;

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
    // The other value, `MountOption`, is for volumes of drivers.
    let change = path.field("seLinuxChangePolicy");
    chosen(context.se_linux_change_policy.as_deref(), &["Recursive"], &change, report);
    seccomp(context.seccomp_profile.as_ref(), &path.field("seccompProfile"), report);
    app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);
    let sysctls = path.field("sysctls");
    let shared = Shared { ipc: spec.host_ipc == Some(true), net: spec.host_network == Some(true) };
    let mut seen = std::collections::BTreeSet::new();
    for (i, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = sysctls.index(i);
        let path = path.field("name");
        needed(&sysctl.name, names::sysctl, &path, report);
        if !seen.insert(sysctl.name.replace('/', ".")) {
            report.error(&path, duplicate(&sysctl.name));
        }
        if let Some(field) = sysctl::of_host(&sysctl.name, shared) {
            let detail = format!("may not be specified when '{field}' is true");
            report.error(&path, invalid(&sysctl.name, &detail));
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
    let Some(profile) = profile else { return };
    let file = profile.localhost_profile.as_deref();
    profile_type(&profile.type_, file, path, report);
    if profile.type_ == "Localhost"
        && let Some(file) = file
        && let Err(why) = annotations::below(file)
    {
        report.error(&path.field("localhostProfile"), invalid(file, why));
    }
}

fn app_armor(profile: Option<&AppArmorProfile>, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(profile) = profile {
        let name = profile.localhost_profile.as_deref();
        profile_type(&profile.type_, name, path, report);
        let field = path.field("localhostProfile");
        match name.filter(|_| profile.type_ == "Localhost") {
            Some("") => report.error(&field, required("must be set when type is Localhost")),
            Some(name) => {
                if let Err(why) = app_armor_name(name) {
                    report.error(&field, invalid(name, why));
                }
            }
            None => {}
        }
    }
}

/// Checks the name of a profile of the node. The kubelet refuses a profile that is not loaded; `unconfined`
/// is never loaded, but the kernel reads it as no profile, alone, in another namespace (`:root://unconfined`)
/// or in a stack (`a//&b`).
pub(super) fn app_armor_name(name: &str) -> Result<(), &'static str> {
    if name.len() > APP_ARMOR_NAME {
        return Err("may not be longer than 4095");
    }
    if name == "unconfined" {
        return Err("must be a profile; type Unconfined asks for none");
    }
    let invalid_char = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | '&');
    if name.contains(invalid_char) || name.contains("//") {
        return Err("must be the name of one profile, without spaces, ':', '&' and '//'");
    }
    Ok(())
}

fn profile_type(kind: &str, localhost: Option<&str>, path: &Path<'_>, report: &mut Report<'_>) {
    let field = path.field("localhostProfile");
    // As upstream, an empty text is a value, too.
    match (kind, localhost) {
        ("Localhost", None) => {
            report.error(&field, required("must be set when type is Localhost"));
        }
        ("Localhost", Some(_)) | ("RuntimeDefault" | "Unconfined", None) => {}
        ("RuntimeDefault" | "Unconfined", Some(profile)) => {
            report.error(&field, invalid(profile, "can only be set when type is Localhost"));
        }
        ("", _) => report.error(&path.field("type"), required("type is required")),
        (other, _) => {
            let types = ["Localhost", "RuntimeDefault", "Unconfined"];
            report.error(&path.field("type"), unsupported(other, &types));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::{self, Context};
    use crate::pod::Source;

    /// The problems of a pod with these annotations and this securityContext of its one container.
    fn problems(annotations: &str, context: &str) -> Vec<String> {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, annotations: {{{annotations}}}}}, spec: \
             {{containers: [{{name: c, image: i, securityContext: {{{context}}}}}]}}}}"
        );
        let context = Context { node_name: "n", source: Source::Http, path: "/m" };
        let decoded = manifest::decode(text.as_bytes(), &context);
        decoded.problems.iter().map(|p| p.message.clone()).collect()
    }

    #[test]
    fn an_app_armor_profile_is_one_of_the_node() {
        let check = |name: &str, part: &str| {
            for (annotation, profile) in [
                (String::new(), format!("appArmorProfile: {{type: Localhost, localhostProfile: '{name}'}}")),
                (
                    format!("container.apparmor.security.beta.kubernetes.io/c: 'localhost/{name}'"),
                    String::new(),
                ),
            ] {
                let found = problems(&annotation, &profile);
                let good = if part.is_empty() {
                    found.is_empty()
                } else {
                    found.len() == 1 && found.iter().all(|message| message.contains(part))
                };
                assert!(good, "{name}: {found:?}");
            }
        };
        for name in ["k8s-deny-write", "/usr/bin/man", "a.b_c"] {
            check(name, "");
        }
        check("unconfined", "must be a profile");
        for name in [":root://unconfined", ":ns:p", "a//&unconfined", "a b"] {
            check(name, "must be the name of one profile");
        }
    }

    #[test]
    fn annotations_of_app_armor_are_read() {
        let check = |container: &str, value: &str, part: &str| {
            let note = format!("container.apparmor.security.beta.kubernetes.io/{container}: '{value}'");
            let found = problems(&note, "");
            assert_eq!(found.is_empty(), part.is_empty(), "{value}: {found:?}");
            assert!(found.iter().all(|message| message.contains(part)), "{value}: {found:?}");
        };
        for value in ["", "runtime/default", "unconfined", "localhost/p"] {
            check("c", value, "");
        }
        for value in ["Unconfined", "localhost", "docker-default", "runtime/other"] {
            check("c", value, "invalid AppArmor profile name");
        }
        check("c", "localhost/", "must name a profile");
        check("other", "runtime/default", "container not found");
    }

    #[test]
    fn proc_is_not_unmasked_without_a_user_namespace() {
        assert_eq!(problems("", "procMount: Default"), [""; 0]);
        let found = problems("", "procMount: Unmasked");
        assert!(found.iter().any(|message| message.contains("user namespace")), "{found:?}");
    }
}
