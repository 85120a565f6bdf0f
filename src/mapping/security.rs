//! Maps securityContext to Docker's fields. Pure: a seccomp profile of the node is only named; the code that
//! sends the create reads it.
//!
//! Upstream: `pkg/securitycontext/util.go`, `pkg/kubelet/kuberuntime/security_context.go`, cri-dockerd's
//! `core/security_context.go`. A container without a seccomp profile keeps Docker's default one, while the
//! kubelet would run it unconfined: an omitted field must not weaken a container.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, PodSecurityContext, SELinuxOptions, SeccompProfile,
    SecurityContext,
};

use crate::base::order;
use crate::node::sysctl;
use crate::pod::DesiredPod;
use crate::runtime::{CreateBody, HostConfig};

/// Annotation of older manifests, followed by the container's name: its AppArmor profile.
pub const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The effective values of one container: the pod's, each overridden by the container's own.
struct Effective<'a> {
    pod: Option<&'a PodSecurityContext>,
    own: Option<&'a SecurityContext>,
}

impl<'a> Effective<'a> {
    fn of(pod: &'a DesiredPod, container: &'a Container) -> Effective<'a> {
        Effective { pod: pod.spec.security_context.as_ref(), own: container.security_context.as_ref() }
    }

    fn user(&self) -> Option<i64> {
        self.own.and_then(|c| c.run_as_user).or(self.pod.and_then(|p| p.run_as_user))
    }

    fn group(&self) -> Option<i64> {
        self.own.and_then(|c| c.run_as_group).or(self.pod.and_then(|p| p.run_as_group))
    }

    fn non_root(&self) -> bool {
        let own = self.own.and_then(|c| c.run_as_non_root);
        own.or(self.pod.and_then(|p| p.run_as_non_root)).unwrap_or(false)
    }

    fn seccomp(&self) -> Option<&'a SeccompProfile> {
        let own = self.own.and_then(|c| c.seccomp_profile.as_ref());
        own.or(self.pod.and_then(|p| p.seccomp_profile.as_ref()))
    }

    fn app_armor(&self) -> Option<&'a AppArmorProfile> {
        let own = self.own.and_then(|c| c.app_armor_profile.as_ref());
        own.or(self.pod.and_then(|p| p.app_armor_profile.as_ref()))
    }

    fn se_linux(&self) -> Option<&'a SELinuxOptions> {
        let own = self.own.and_then(|c| c.se_linux_options.as_ref());
        own.or(self.pod.and_then(|p| p.se_linux_options.as_ref()))
    }
}

/// The user that a container runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// Docker's `User`; `None`: the image's user.
    Is(Option<String>),
    /// The image's own user must be known first.
    AsksImage,
    /// The container may not run as this user; the kubelet's words.
    Refused(String),
}

/// The user this container runs as. `image`: the image's `User`, when it is known.
#[must_use]
pub fn user(pod: &DesiredPod, container: &Container, image: Option<&str>) -> User {
    let effective = Effective::of(pod, container);
    let location = || format!("(pod: {:?}, container: {})", described(pod), container.name);
    let (group, non_root) = (effective.group(), effective.non_root());
    let with_group = |user: String| match group {
        Some(group) => format!("{user}:{group}"),
        None => user,
    };
    if let Some(user) = effective.user() {
        if non_root && user == 0 {
            return User::Refused(format!("container's runAsUser breaks non-root policy {}", location()));
        }
        return User::Is(Some(with_group(user.to_string())));
    }
    if !non_root && group.is_none() {
        return User::Is(None);
    }
    let Some(image) = image else { return User::AsksImage };
    // `user[:group]`; an empty user is root.
    let named = image.split(':').next().unwrap_or_default();
    let number = if named.is_empty() { Some(0) } else { named.parse::<i64>().ok() };
    if non_root {
        match number {
            Some(0) => {
                return User::Refused(format!(
                    "container has runAsNonRoot and image will run as root {}",
                    location()
                ));
            }
            Some(_) => {}
            None => {
                return User::Refused(format!(
                    "container has runAsNonRoot and image has non-numeric user ({named}), cannot verify user is \
                     non-root {}",
                    location()
                ));
            }
        }
    }
    let named = if named.is_empty() { "0" } else { named };
    User::Is(group.map(|_| with_group(named.to_owned())))
}

/// `name_namespace(uid)`, the kubelet's notation for a pod.
fn described(pod: &DesiredPod) -> String {
    format!("{}_{}({})", pod.key.name, pod.key.namespace, pod.uid)
}

/// Sets a container's security fields; returns the name of the seccomp profile that has to be read. Its user
/// needs the image: [`user`].
#[must_use]
pub fn apply(body: &mut CreateBody, pod: &DesiredPod, container: &Container) -> Option<String> {
    let effective = Effective::of(pod, container);
    let host = &mut body.host_config;
    if let User::Is(user) = user(pod, container, None) {
        body.user = user;
    }
    host.group_add = groups(effective.pod);
    let own = effective.own;
    if let Some(capabilities) = own.and_then(|c| c.capabilities.as_ref()) {
        let Capabilities { add, drop } = capabilities;
        host.cap_add = without_prefix(add.as_deref());
        host.cap_drop = without_prefix(drop.as_deref());
    }
    host.readonly_rootfs = own.and_then(|c| c.read_only_root_filesystem).unwrap_or(false);
    if own.and_then(|c| c.allow_privilege_escalation) == Some(false) {
        host.security_opt.push("no-new-privileges".to_owned());
    }
    let seccomp_profile =
        match effective.seccomp().map(|p| (p.type_.as_str(), p.localhost_profile.as_deref())) {
            Some(("Unconfined", _)) => {
                host.security_opt.push("seccomp=unconfined".to_owned());
                None
            }
            Some(("Localhost", profile)) => Some(profile.unwrap_or_default().to_owned()),
            _ => None,
        };
    match app_armor(pod, container, &effective) {
        Some(AppArmor::Unconfined) => host.security_opt.push("apparmor=unconfined".to_owned()),
        Some(AppArmor::Localhost(name)) => host.security_opt.push(format!("apparmor={name}")),
        Some(AppArmor::RuntimeDefault) | None => {}
    }
    se_linux(host, effective.se_linux());
    seccomp_profile
}

/// Sets the sandbox's security fields: user and groups (files that it creates in shared namespaces belong to
/// them), SELinux labels, and all sysctls, because they belong to its namespaces.
pub fn apply_sandbox(body: &mut CreateBody, pod: &DesiredPod) {
    let Some(context) = &pod.spec.security_context else { return };
    if let Some(user) = context.run_as_user {
        let group = context.run_as_group.map(|group| format!(":{group}")).unwrap_or_default();
        body.user = Some(format!("{user}{group}"));
    }
    let host = &mut body.host_config;
    host.group_add = groups(Some(context));
    se_linux(host, context.se_linux_options.as_ref());
    let sysctls = context.sysctls.iter().flatten();
    host.sysctls = order::map(sysctls.map(|s| (sysctl::dotted(&s.name), s.value.clone())));
}

/// A requested AppArmor profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AppArmor<'a> {
    RuntimeDefault,
    Unconfined,
    Localhost(&'a str),
}

fn app_armor<'a>(
    pod: &'a DesiredPod,
    container: &Container,
    effective: &Effective<'a>,
) -> Option<AppArmor<'a>> {
    if let Some(profile) = effective.app_armor() {
        return Some(match profile.type_.as_str() {
            "Unconfined" => AppArmor::Unconfined,
            "Localhost" => AppArmor::Localhost(profile.localhost_profile.as_deref().unwrap_or_default()),
            _ => AppArmor::RuntimeDefault,
        });
    }
    let annotations = pod.metadata.annotations.as_ref()?;
    let text = annotations.get(&format!("{APPARMOR}{}", container.name))?;
    Some(match text.as_str() {
        "unconfined" => AppArmor::Unconfined,
        text => match text.strip_prefix("localhost/") {
            Some(name) => AppArmor::Localhost(name),
            None => AppArmor::RuntimeDefault,
        },
    })
}

/// Whether the pod has a profile that only a kernel with AppArmor can enforce.
#[must_use]
pub fn needs_app_armor(pod: &DesiredPod) -> bool {
    pod.containers().any(|(_, container)| {
        let profile = app_armor(pod, container, &Effective::of(pod, container));
        profile.is_some_and(|profile| profile != AppArmor::Unconfined)
    })
}

/// fsGroup first, then the supplemental groups.
fn groups(context: Option<&PodSecurityContext>) -> Vec<String> {
    let Some(context) = context else { return Vec::new() };
    let supplemental = context.supplemental_groups.iter().flatten().copied();
    context.fs_group.into_iter().chain(supplemental).map(|id| id.to_string()).collect()
}

fn without_prefix(names: Option<&[String]>) -> Vec<String> {
    let names = names.unwrap_or_default().iter();
    names.map(|name| name.strip_prefix("CAP_").unwrap_or(name).to_owned()).collect()
}

fn se_linux(host: &mut HostConfig, options: Option<&SELinuxOptions>) {
    let Some(options) = options else { return };
    for (word, value) in [
        ("user", &options.user),
        ("role", &options.role),
        ("type", &options.type_),
        ("level", &options.level),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            host.security_opt.push(format!("label={word}:{value}"));
        }
    }
}

#[cfg(test)]
mod tests;
