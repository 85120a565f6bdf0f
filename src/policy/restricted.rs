//! The checks of level restricted. Each gets its revision: the minor version whose rules apply.
//!
//! From v1.25 on, fields that a Windows pod (`spec.os.name: windows`) cannot set are not required of it. From
//! v1.35 on, a pod in its own user namespace (`hostUsers: false`) may be root in it.

use k8s_openapi::api::core::v1::Volume;

use super::baseline::{added, must_not_add, proc_mount_of_all, seccomp_field};
use super::standards::Verdict;
use super::view::{Pod, containers, plural, quoted, setters, sorted};

pub(super) fn allow_privilege_escalation(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 25 && pod.is_windows() {
        return None;
    }
    let names = pod.names(&|c| c.security.and_then(|s| s.allow_privilege_escalation) != Some(false));
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    (!names.is_empty()).then(|| ("allowPrivilegeEscalation != false", detail()))
}

/// All must be dropped, and only NET_BIND_SERVICE may be added.
pub(super) fn capabilities(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 25 && pod.is_windows() {
        return None;
    }
    let keeping = pod.names(&|c| {
        let drop = c.security.and_then(|s| s.capabilities.as_ref()).and_then(|c| c.drop.as_ref());
        !drop.into_iter().flatten().any(|capability| capability == "ALL")
    });
    let (adding, added) = added(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = containers(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        details.push(must_not_add(&adding, &added));
    }
    (!details.is_empty()).then(|| ("unrestricted capabilities", details.join("; ")))
}

/// Unlike the baseline's check, this one also applies to pods in their own user namespace.
pub(super) fn proc_mount(pod: &Pod<'_>, _: u64) -> Verdict {
    proc_mount_of_all(pod)
}

/// The kind of a forbidden volume; `None` for an allowed one.
fn volume_kind(volume: &Volume) -> Option<&'static str> {
    let v = volume;
    if v.config_map.is_some()
        || v.csi.is_some()
        || v.downward_api.is_some()
        || v.empty_dir.is_some()
        || v.ephemeral.is_some()
        || v.image.is_some()
        || v.persistent_volume_claim.is_some()
        || v.projected.is_some()
        || v.secret.is_some()
    {
        return None;
    }
    let kinds = [
        (v.host_path.is_some(), "hostPath"),
        (v.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (v.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (v.git_repo.is_some(), "gitRepo"),
        (v.nfs.is_some(), "nfs"),
        (v.iscsi.is_some(), "iscsi"),
        (v.glusterfs.is_some(), "glusterfs"),
        (v.rbd.is_some(), "rbd"),
        (v.flex_volume.is_some(), "flexVolume"),
        (v.cinder.is_some(), "cinder"),
        (v.cephfs.is_some(), "cephfs"),
        (v.flocker.is_some(), "flocker"),
        (v.fc.is_some(), "fc"),
        (v.azure_file.is_some(), "azureFile"),
        (v.vsphere_volume.is_some(), "vsphereVolume"),
        (v.quobyte.is_some(), "quobyte"),
        (v.azure_disk.is_some(), "azureDisk"),
        (v.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (v.portworx_volume.is_some(), "portworxVolume"),
        (v.scale_io.is_some(), "scaleIO"),
        (v.storageos.is_some(), "storageos"),
    ];
    Some(kinds.iter().find(|(is, _)| *is).map_or("unknown", |(_, kind)| kind))
}

pub(super) fn volumes(pod: &Pod<'_>, _: u64) -> Verdict {
    let (mut names, mut kinds) = (Vec::new(), Vec::new());
    for volume in pod.spec.volumes.iter().flatten() {
        if let Some(kind) = volume_kind(volume) {
            names.push(volume.name.as_str());
            kinds.push(kind);
        }
    }
    if names.is_empty() {
        return None;
    }
    let kinds = sorted(kinds);
    let (volumes, uses) = (plural("volume", "volumes", names.len()), plural("uses", "use", names.len()));
    let word = plural("restricted volume type", "restricted volume types", kinds.len());
    let detail = format!("{volumes} {} {uses} {word} {}", quoted(&names), quoted(&kinds));
    Some(("restricted volume types", detail))
}

pub(super) fn run_as_non_root(pod: &Pod<'_>, revision: u64) -> Verdict {
    const REASON: &str = "runAsNonRoot != true";
    if revision >= 35 && pod.has_own_users() {
        return None;
    }
    let own = pod.security().and_then(|s| s.run_as_non_root);
    let root = pod.names(&|c| c.security.and_then(|s| s.run_as_non_root) == Some(false));
    if let Some(who) = setters(own == Some(false), &root) {
        return Some((REASON, format!("{who} must not set securityContext.runAsNonRoot=false")));
    }
    let silent = pod.names(&|c| c.security.and_then(|s| s.run_as_non_root).is_none());
    if own == Some(true) || silent.is_empty() {
        return None;
    }
    Some((REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent))))
}

pub(super) fn run_as_user(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 35 && pod.has_own_users() {
        return None;
    }
    let own = pod.security().and_then(|s| s.run_as_user);
    let root = pod.names(&|c| c.security.and_then(|s| s.run_as_user) == Some(0));
    let who = setters(own == Some(0), &root)?;
    Some(("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

pub(super) fn seccomp_profile(pod: &Pod<'_>, revision: u64) -> Verdict {
    if revision >= 25 && pod.is_windows() {
        return None;
    }
    let (verdict, without) = seccomp_field(pod);
    if verdict.is_some() || without.is_empty() {
        return verdict;
    }
    let who = containers(&without);
    let must = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    Some(("seccompProfile", format!("pod or {who} {must}")))
}
