//! Which pods' figures are requested, and where their files are. Pure.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::{ClaimRef, PodRef};
use crate::base::clock::Timestamp;
use crate::layout::{self, Kind};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::Source;
use crate::runtime::{ContainerFiles, names};

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The node's name.
    pub node: String,
    /// Process id of the daemon, while it runs.
    pub daemon: Option<u32>,
    /// Docker's socket.
    pub socket: Option<PathBuf>,
    /// podkeeper's root directory.
    pub root_dir: PathBuf,
    /// Docker's root directory, if Docker has told it.
    pub docker_root: Option<PathBuf>,
    /// Pods with a running container.
    pub pods: Vec<PodPlace>,
}

/// A pod.
#[derive(Debug, Clone)]
pub struct PodPlace {
    /// The pod's name.
    pub reference: PodRef,
    /// Start time.
    pub started: Option<Timestamp>,
    /// The pod has no network namespace of its own.
    pub host_network: bool,
    /// Docker's id of its sandbox, if known: network figures are read from that process, which the pod does not
    /// control.
    pub sandbox: Option<String>,
    /// Running containers.
    pub containers: Vec<ContainerPlace>,
    /// Volumes with a directory of their own.
    pub volumes: Vec<VolumePlace>,
}

/// A container.
#[derive(Debug, Clone)]
pub struct ContainerPlace {
    /// Name in the pod.
    pub name: String,
    /// Docker's id.
    pub id: String,
    /// Start time.
    pub started: Option<Timestamp>,
    /// Docker's files of it, once Docker has told them.
    pub files: Option<ContainerFiles>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumePlace {
    /// Name in the pod.
    pub name: String,
    /// Directory.
    pub path: PathBuf,
    /// The volume is on the node's disk and is removed with the pod.
    pub is_ephemeral: bool,
    /// The claim that it belongs to.
    pub claim: Option<ClaimRef>,
}

/// Names, Docker ids and start times of a pod's running containers.
pub fn running(pod: &Pod) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
    let status = pod.status.as_ref();
    let lists = [
        status.and_then(|s| s.init_container_statuses.as_ref()),
        status.and_then(|s| s.container_statuses.as_ref()),
        status.and_then(|s| s.ephemeral_container_statuses.as_ref()),
    ];
    lists.into_iter().flatten().flatten().filter_map(|container: &ContainerStatus| {
        let running = container.state.as_ref()?.running.as_ref()?;
        let id = names::docker_id(container.container_id.as_deref()?)?;
        Some((container.name.as_str(), id, running.started_at.as_ref().map(|time| time.0)))
    })
}

impl PodPlace {
    /// A pod, without the data that need Docker; `None` when none of its containers runs.
    #[must_use]
    pub fn of(pod: &Pod, root_dir: &Path) -> Option<PodPlace> {
        let (metadata, spec) = (&pod.metadata, pod.spec.as_ref()?);
        let containers: Vec<ContainerPlace> = running(pod)
            .map(|(name, id, started)| ContainerPlace {
                name: name.into(),
                id: id.into(),
                started,
                files: None,
            })
            .collect();
        if containers.is_empty() {
            return None;
        }
        let reference = PodRef {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            uid: metadata.uid.clone().unwrap_or_default(),
        };
        let source = metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_SOURCE));
        let source = source.and_then(|word| Source::parse(word)).unwrap_or(Source::File);
        let volumes = spec.volumes.iter().flatten().filter_map(|volume| {
            let kind = Kind::of(volume);
            let (path, claim) = match kind {
                Kind::Claim(claim) => {
                    let parts = layout::claim(source, &reference.namespace, &claim.claim_name);
                    let named =
                        ClaimRef { name: claim.claim_name.clone(), namespace: reference.namespace.clone() };
                    (layout::below(root_dir, &parts)?, Some(named))
                }
                // Reading from a server that is gone would block.
                Kind::Nfs(_) => return None,
                _ => {
                    let parts = ["pods", &reference.uid, layout::VOLUMES, kind.plugin()?, &volume.name];
                    (layout::below(root_dir, &parts)?, None)
                }
            };
            Some(VolumePlace { name: volume.name.clone(), path, is_ephemeral: kind.is_on_disk(), claim })
        });
        let volumes = volumes.collect();
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
        let host_network = spec.host_network.unwrap_or(false);
        Some(PodPlace { reference, started, host_network, sandbox: None, containers, volumes })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &str) -> Pod {
        let value = json!({
            "metadata": {"name": "web-n1", "namespace": "shop", "uid": "u1",
                "annotations": {"kubernetes.io/config.source": "http"}},
            "spec": {"hostNetwork": true, "containers": [{"name": "app"}, {"name": "late"}], "volumes": [
                {"name": "disk"},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "settings", "configMap": {"name": "c"}},
                {"name": "key", "secret": {"secretName": "s"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
                {"name": "host", "hostPath": {"path": "/etc"}},
                {"name": "far", "nfs": {"server": "s", "path": "/"}},
                {"name": "..", "emptyDir": {}},
            ]},
            "status": {"startTime": "2026-01-02T03:04:05Z", "containerStatuses": [
                {"name": "app", "containerID": "docker://abc", "image": "", "imageID": "", "ready": true,
                    "restartCount": 0, "state": {state: {"startedAt": "2026-01-02T03:04:07Z"}}},
                {"name": "late", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {}}},
            ]},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn where_a_pod_has_its_things() {
        let place = PodPlace::of(&pod("running"), Path::new("/r")).unwrap();
        assert_eq!(place.reference.uid, "u1");
        assert!(place.host_network);
        assert_eq!(place.started.unwrap().to_string(), "2026-01-02T03:04:05Z");
        let names: Vec<(&str, &str)> = place.containers.iter().map(|c| (&*c.name, &*c.id)).collect();
        assert_eq!(names, [("app", "abc")]);
        let volumes: Vec<(&str, &str, bool)> =
            place.volumes.iter().map(|v| (&*v.name, v.path.to_str().unwrap(), v.is_ephemeral)).collect();
        assert_eq!(
            volumes,
            [
                ("disk", "/r/pods/u1/volumes/kubernetes.io~empty-dir/disk", true),
                ("memory", "/r/pods/u1/volumes/kubernetes.io~empty-dir/memory", false),
                ("settings", "/r/pods/u1/volumes/kubernetes.io~configmap/settings", true),
                ("key", "/r/pods/u1/volumes/kubernetes.io~secret/key", false),
                ("data", "/r/local-storage/.http/shop/d", false),
            ]
        );
        let claim = place.volumes.last().unwrap().claim.clone().unwrap();
        assert_eq!((claim.name.as_str(), claim.namespace.as_str()), ("d", "shop"));
        assert!(PodPlace::of(&pod("terminated"), Path::new("/r")).is_none(), "nothing of it runs");
    }
}
