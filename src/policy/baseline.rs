//! The checks of level baseline. Each gets its revision: the minor version whose rules apply.

use k8s_openapi::api::core::v1::{PodSpec, SELinuxOptions, SeccompProfile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::standards::Verdict;
use super::view::{Each, Pod, containers, pair, plural, quoted, setters, sorted};

/// Key prefix of the AppArmor annotations, which preceded the field.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Key of the pod's seccomp annotation, up to v1.18.
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Key prefix of the containers' seccomp annotations, up to v1.18.
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Capabilities that Docker adds by default, without NET_RAW.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// SELinux types that confine a process to its container, with the minor version that added them.
const SE_LINUX_TYPES: &[(&str, u64)] = &[
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

/// Sysctls that affect only the pod itself, with the minor version that added them.
const SYSCTLS: &[(&str, u64)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

fn known(table: &[(&str, u64)], word: &str, revision: u64) -> bool {
    table.iter().any(|(name, since)| *name == word && *since <= revision)
}

/// Checks both fields and annotations, in every version.
pub(super) fn app_armor_profile(pod: &Pod<'_>, _: u64) -> Verdict {
    let bad = |kind: &str| !matches!(kind, "RuntimeDefault" | "Localhost");
    let mut values = Vec::new();
    let own = pod.security().and_then(|s| s.app_armor_profile.as_ref()).map(|p| p.type_.as_str());
    let own = own.filter(|kind| bad(kind));
    values.extend(own);
    let mut names = Vec::new();
    for each in &pod.containers {
        let kind = each.security.and_then(|s| s.app_armor_profile.as_ref()).map(|p| p.type_.as_str());
        if let Some(kind) = kind.filter(|kind| bad(kind)) {
            names.push(each.name);
            values.push(kind);
        }
    }
    let mut values = sorted(values);
    let bad =
        |value: &str| !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"));
    let annotations: Vec<String> = pod
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && bad(value))
        .map(|(key, value)| pair(key, value))
        .collect();
    let annotations = sorted(annotations);
    let mut who: Vec<String> = setters(own.is_some(), &names).into_iter().collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
        values.extend(annotations.iter().map(String::as_str));
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let who = who.join(" and ");
    Some((reason, format!("{who} must not set AppArmor profile type to {}", quoted(&values))))
}

/// Names of containers that add capabilities outside of `allowed`, and these capabilities.
pub(super) fn added<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for each in &pod.containers {
        let add = each.security.and_then(|s| s.capabilities.as_ref()).and_then(|c| c.add.as_ref());
        let before = all.len();
        all.extend(add.into_iter().flatten().map(String::as_str).filter(|c| !allowed.contains(c)));
        if all.len() > before {
            names.push(each.name);
        }
    }
    (names, sorted(all))
}

/// The message for containers that add these capabilities.
pub(super) fn must_not_add(names: &[&str], capabilities: &[&str]) -> String {
    let (who, what) = (containers(names), quoted(capabilities));
    format!("{who} must not include {what} in securityContext.capabilities.add")
}

pub(super) fn capabilities(pod: &Pod<'_>, _: u64) -> Verdict {
    let (names, all) = added(pod, CAPABILITIES);
    (!names.is_empty()).then(|| ("non-default capabilities", must_not_add(&names, &all)))
}

pub(super) fn host_namespaces(pod: &Pod<'_>, _: u64) -> Verdict {
    let mut shared = Vec::new();
    for (is_shared, what) in [
        (pod.spec.host_network, "hostNetwork=true"),
        (pod.spec.host_pid, "hostPID=true"),
        (pod.spec.host_ipc, "hostIPC=true"),
    ] {
        if is_shared == Some(true) {
            shared.push(what);
        }
    }
    (!shared.is_empty()).then(|| ("host namespaces", shared.join(", ")))
}

pub(super) fn host_path_volumes(pod: &Pod<'_>, _: u64) -> Verdict {
    let volumes = pod.spec.volumes.iter().flatten();
    let names: Vec<&str> = volumes.filter(|v| v.host_path.is_some()).map(|v| v.name.as_str()).collect();
    let word = plural("volume", "volumes", names.len());
    (!names.is_empty()).then(|| ("hostPath volumes", format!("{word} {}", quoted(&names))))
}

pub(super) fn host_ports(pod: &Pod<'_>, _: u64) -> Verdict {
    let bad = |port: &Option<i32>| port.unwrap_or(0) != 0;
    let names = pod.names(&|c| c.ports.iter().any(|p| bad(&p.host_port)));
    if names.is_empty() {
        return None;
    }
    let ports = pod.containers.iter().flat_map(|c| c.ports).filter(|p| bad(&p.host_port));
    // Sorted as texts, not as numbers.
    let ports = sorted(ports.map(|p| p.host_port.unwrap_or(0).to_string()).collect());
    let (uses, word) = (plural("uses", "use", names.len()), plural("hostPort", "hostPorts", ports.len()));
    Some(("hostPort", format!("{} {uses} {word} {}", containers(&names), ports.join(", "))))
}

/// Hosts named in a container's probes and hooks.
fn hosts<'a>(each: &Each<'a>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for probe in each.probes.into_iter().flatten() {
        found.extend(probe.http_get.as_ref().and_then(|get| get.host.as_deref()));
        found.extend(probe.tcp_socket.as_ref().and_then(|tcp| tcp.host.as_deref()));
    }
    let hooks = each.lifecycle.map(|l| [l.post_start.as_ref(), l.pre_stop.as_ref()]);
    for hook in hooks.into_iter().flatten().flatten() {
        found.extend(hook.http_get.as_ref().and_then(|get| get.host.as_deref()));
        found.extend(hook.tcp_socket.as_ref().and_then(|tcp| tcp.host.as_deref()));
    }
    found.retain(|host| !host.is_empty());
    found
}

pub(super) fn host_probes_and_lifecycle(pod: &Pod<'_>, _: u64) -> Verdict {
    let names = sorted(pod.names(&|c| !hosts(c).is_empty()));
    let hosts = sorted(pod.containers.iter().flat_map(hosts).collect());
    if names.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", names.len());
    let word = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    let detail = format!("{} {uses} {word} {}", containers(&names), quoted(&hosts));
    Some(("probe or lifecycle host", detail))
}

/// The first container with probes or hooks that name a host, as a field of the manifest, and that host. Podkeeper sends
/// them from the node's own network, whatever network the pod uses.
#[must_use]
pub fn named_host(spec: &PodSpec) -> Option<(String, String)> {
    let metadata = ObjectMeta::default();
    let all = Pod::new(&metadata, spec).containers;
    all.into_iter().find_map(|each| hosts(&each).first().map(|host| (each.field.clone(), (*host).to_owned())))
}

pub(super) fn privileged(pod: &Pod<'_>, _: u64) -> Verdict {
    let names = pod.names(&|c| c.security.is_some_and(|s| s.privileged == Some(true)));
    let detail = || format!("{} must not set securityContext.privileged=true", containers(&names));
    (!names.is_empty()).then(|| ("privileged", detail()))
}

/// From v1.35 on, a pod in its own user namespace is not restricted.
pub(super) fn proc_mount(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 35 && pod.has_own_users() {
        return None;
    }
    proc_mount_of_all(pod)
}

pub(super) fn proc_mount_of_all(pod: &Pod<'_>) -> Verdict {
    let kind =
        |c: &Each<'_>| c.security.and_then(|s| s.proc_mount.as_deref()).is_some_and(|m| m != "Default");
    let names = pod.names(&kind);
    if names.is_empty() {
        return None;
    }
    let kinds = pod.containers.iter().filter(|c| kind(c)).filter_map(|c| c.security?.proc_mount.as_deref());
    let (who, kinds) = (containers(&names), sorted(kinds.collect()));
    Some(("procMount", format!("{who} must not set securityContext.procMount to {}", quoted(&kinds))))
}

/// `container_engine_t` is allowed from v1.31 on.
pub(super) fn se_linux_options(pod: &Pod<'_>, revision: u64) -> Verdict {
    let mut types = Vec::new();
    let (mut user, mut role) = (false, false);
    let is_set = |word: &Option<String>| word.as_deref().is_some_and(|word| !word.is_empty());
    let mut check = |options: Option<&SELinuxOptions>| -> bool {
        let Some(options) = options else { return false };
        let kind = options.type_.clone().unwrap_or_default();
        let bad_type = !known(SE_LINUX_TYPES, &kind, revision);
        if bad_type {
            types.push(kind);
        }
        user |= is_set(&options.user);
        role |= is_set(&options.role);
        bad_type || is_set(&options.user) || is_set(&options.role)
    };
    let own = check(pod.security().and_then(|s| s.se_linux_options.as_ref()));
    let mut names = Vec::new();
    for each in &pod.containers {
        if check(each.security.and_then(|s| s.se_linux_options.as_ref())) {
            names.push(each.name);
        }
    }
    let who = setters(own, &names)?;
    let types = sorted(types);
    let mut what = Vec::new();
    if !types.is_empty() {
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        what.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    let what = what.join("; ");
    Some(("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {what}")))
}

/// Checks annotations up to v1.18, the field from v1.19 on.
pub(super) fn seccomp_profile(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 19 { seccomp_field(pod).0 } else { seccomp_annotations(pod) }
}

fn seccomp_annotations(pod: &Pod<'_>) -> Verdict {
    let mut bad = Vec::new();
    let mut check = |key: &str| {
        let allowed =
            |v: &str| matches!(v, "runtime/default" | "docker/default") || v.starts_with("localhost/");
        if let Some(value) = pod.annotation(key).filter(|value| !allowed(value)) {
            bad.push(pair(key, value));
        }
    };
    check(SECCOMP_POD);
    pod.containers.iter().for_each(|c| check(&format!("{SECCOMP_CONTAINER}{}", c.name)));
    let bad = sorted(bad);
    let word = plural("annotation", "annotations", bad.len());
    (!bad.is_empty()).then(|| ("seccompProfile", format!("forbidden {word} {}", bad.join(", "))))
}

/// The verdict on the set profiles, and the names of the containers without an allowed one.
pub(super) fn seccomp_field<'a>(pod: &Pod<'a>) -> (Verdict, Vec<&'a str>) {
    let good = |profile: &SeccompProfile| matches!(profile.type_.as_str(), "RuntimeDefault" | "Localhost");
    let own = pod.security().and_then(|s| s.seccomp_profile.as_ref());
    let mut values: Vec<&str> = own.filter(|p| !good(p)).map(|p| p.type_.as_str()).into_iter().collect();
    let (mut names, mut without) = (Vec::new(), Vec::new());
    for each in &pod.containers {
        match each.security.and_then(|s| s.seccomp_profile.as_ref()) {
            Some(profile) if good(profile) => {}
            Some(profile) => {
                names.push(each.name);
                values.push(&profile.type_);
            }
            None if own.is_some_and(good) => {}
            None => without.push(each.name),
        }
    }
    let verdict = setters(own.is_some_and(|p| !good(p)), &names).map(|who| {
        let values = quoted(&sorted(values));
        ("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {values}"))
    });
    (verdict, without)
}

/// The list of safe names grew at v1.27, v1.29, v1.32 and v1.37.
pub(super) fn sysctls(pod: &Pod<'_>, revision: u64) -> Verdict {
    let all = pod.security().and_then(|s| s.sysctls.as_ref()).into_iter().flatten();
    let bad: Vec<&str> = all.map(|s| s.name.as_str()).filter(|n| !known(SYSCTLS, n, revision)).collect();
    (!bad.is_empty()).then(|| ("forbidden sysctls", bad.join(", ")))
}

pub(super) fn windows_host_process(pod: &Pod<'_>, _: u64) -> Verdict {
    let own = pod.security().and_then(|s| s.windows_options.as_ref()).and_then(|w| w.host_process);
    let asks = |c: &Each<'_>| {
        c.security.and_then(|s| s.windows_options.as_ref()).and_then(|w| w.host_process) == Some(true)
    };
    let who = setters(own == Some(true), &pod.names(&asks))?;
    Some(("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true")))
}
