//! The registry of checks and their evaluation (upstream's `policy/registry.go`, `checks.go`).
//!
//! The checks are those of upstream v1.37. No feature gate affects their outcome: the gate that once relaxed
//! them for pods in user namespaces (`UserNamespacesPodSecurityStandards`, alpha, off by default) is gone,
//! and its effect applies from v1.35 on; `ProbeHostPodSecurityStandards` was on and locked at v1.34. There is
//! no emulated version, so `latest` means the newest revision of each check.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::level::{Level, LevelVersion};
use super::view::Pod;
use super::{baseline, restricted};

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Upstream's name of the check: `capabilities_restricted`.
    pub id: &'static str,
    /// Upstream's `ForbiddenReason`: `unrestricted capabilities`.
    pub reason: &'static str,
    /// Upstream's `ForbiddenDetail`: the containers or values, and what they must do.
    pub detail: String,
    /// Path of the first container or volume that violates the check by itself, else of the pod's own field.
    pub field: String,
}

/// Reason and detail of a violation; `None` when the check passes.
pub(super) type Verdict = Option<(&'static str, String)>;

/// A check. `revisions` are the minor versions in which its rules changed, starting with the one that
/// introduced it; `run` gets the newest of them that is not newer than the requested version.
pub(super) struct Check {
    pub(super) id: &'static str,
    pub(super) revisions: &'static [u64],
    /// The baseline check that this one replaces.
    pub(super) overrides: Option<&'static str>,
    run: fn(&Pod<'_>, u64) -> Verdict,
}

impl Check {
    /// The revision that applies at this minor version; `None` when the check is newer.
    pub(super) fn revision(&self, minor: u64) -> Option<u64> {
        self.revisions.iter().rev().copied().find(|from| *from <= minor)
    }
}

const fn check(id: &'static str, revisions: &'static [u64], run: fn(&Pod<'_>, u64) -> Verdict) -> Check {
    Check { id, revisions, overrides: None, run }
}

const fn instead_of(
    overridden: &'static str,
    id: &'static str,
    revisions: &'static [u64],
    run: fn(&Pod<'_>, u64) -> Verdict,
) -> Check {
    Check { id, revisions, overrides: Some(overridden), run }
}

/// In byte order of their identifiers, which is the order in messages.
#[rustfmt::skip]
pub(super) const BASELINE: &[Check] = &[
    check("appArmorProfile", &[0], baseline::app_armor_profile),
    check("capabilities_baseline", &[0], baseline::capabilities),
    check("hostNamespaces", &[0], baseline::host_namespaces),
    check("hostPathVolumes", &[0], baseline::host_path_volumes),
    check("hostPorts", &[0], baseline::host_ports),
    check("hostProbesAndHostLifecycle", &[34], baseline::host_probes_and_lifecycle),
    check("privileged", &[0], baseline::privileged),
    check("procMount", &[0, 35], baseline::proc_mount),
    check("seLinuxOptions", &[0, 31], baseline::se_linux_options),
    check("seccompProfile_baseline", &[0, 19], baseline::seccomp_profile),
    check("sysctls", &[0, 27, 29, 32, 37], baseline::sysctls),
    check("windowsHostProcess", &[0], baseline::windows_host_process),
];

/// In messages these follow the baseline's.
#[rustfmt::skip]
pub(super) const RESTRICTED: &[Check] = &[
    check("allowPrivilegeEscalation", &[8, 25], restricted::allow_privilege_escalation),
    instead_of("capabilities_baseline", "capabilities_restricted", &[22, 25], restricted::capabilities),
    instead_of("procMount", "procMount_restricted", &[35], restricted::proc_mount),
    instead_of("hostPathVolumes", "restrictedVolumes", &[0], restricted::volumes),
    check("runAsNonRoot", &[0, 35], restricted::run_as_non_root),
    check("runAsUser", &[23, 35], restricted::run_as_user),
    instead_of("seccompProfile_baseline", "seccompProfile_restricted", &[19, 25], restricted::seccomp_profile),
];

/// The pod's violations of the standard, in upstream's order.
#[must_use]
pub fn evaluate(at: &LevelVersion, metadata: &ObjectMeta, spec: &PodSpec) -> Vec<Violation> {
    let restricted = match at.level {
        Level::Privileged => return Vec::new(),
        Level::Baseline => &[],
        Level::Restricted => RESTRICTED,
    };
    let minor = at.version.minor();
    let overridden =
        |id: &str| restricted.iter().any(|c| c.overrides == Some(id) && c.revision(minor).is_some());
    let pod = Pod::new(metadata, spec);
    let mut violations = Vec::new();
    for check in BASELINE.iter().filter(|c| !overridden(c.id)).chain(restricted) {
        let Some(revision) = check.revision(minor) else { continue };
        if let Some((reason, detail)) = (check.run)(&pod, revision) {
            let field = field(check, revision, &pod);
            violations.push(Violation { id: check.id, reason, detail, field });
        }
    }
    violations
}

/// The field that violates a check: the check runs on the pod without its containers and volumes, then with the
/// first few of them. Adding more never makes a check pass, so a binary search finds the first one that violates it:
/// a check reads the whole pod, and running it for each of thousands would take minutes.
fn field(check: &Check, revision: u64, pod: &Pod<'_>) -> String {
    let of_pod = |spec: &PodSpec| {
        let bare = Pod { metadata: pod.metadata, spec, containers: Vec::new() };
        (check.run)(&bare, revision).is_some()
    };
    let mut spec = pod.spec.clone();
    let volumes = spec.volumes.take().unwrap_or_default();
    if of_pod(&spec) {
        return if check.id == "hostNamespaces" { "spec" } else { "spec.securityContext" }.to_owned();
    }
    let volume = first(&volumes, |some| {
        spec.volumes = Some(some.to_vec());
        of_pod(&spec)
    });
    if let Some(at) = volume {
        return format!("spec.volumes[{at}]");
    }
    let container = first(&pod.containers, |some| {
        let pod = Pod { metadata: pod.metadata, spec: pod.spec, containers: some.to_vec() };
        (check.run)(&pod, revision).is_some()
    });
    let container = container.and_then(|at| pod.containers.get(at));
    container.map_or_else(|| "spec".to_owned(), |each| each.field.clone())
}

/// Index of the last item of the shortest prefix of `all` that violates the check.
fn first<T>(all: &[T], mut violates: impl FnMut(&[T]) -> bool) -> Option<usize> {
    let ends: Vec<usize> = (0..all.len()).collect();
    let at = ends.partition_point(|end| !all.get(..=*end).is_some_and(&mut violates));
    (at < all.len()).then_some(at)
}

/// The sentence that kubectl's users know: `violates PodSecurity "restricted:latest": …`.
#[must_use]
pub fn message(at: &LevelVersion, violations: &[Violation]) -> String {
    let each = |v: &Violation| {
        if v.detail.is_empty() { v.reason.to_owned() } else { format!("{} ({})", v.reason, v.detail) }
    };
    let all: Vec<String> = violations.iter().map(each).collect();
    format!("violates PodSecurity \"{at}\": {}", all.join(", "))
}
