//! Paths of the host that are bound into a pod's directory: hostPath volumes whose path or whose mounts are judged, and
//! the volumes of a cluster's claims.
//!
//! Never here: a bind of a source behind others that is not counted first.

use std::os::fd::OwnedFd;

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource};

use super::One;
use crate::layout;
use crate::policy::AllowedPath;
use crate::volumes::host_path::{self, Foreign};
use crate::volumes::mounts::Later;

impl One<'_> {
    /// Binds a hostPath of a pod that may use only some paths.
    pub(super) fn guarded(&self, spec: &HostPathVolumeSource) -> Result<(), String> {
        let name = self.volume.name.as_str();
        let writes = |c: &Container| {
            c.volume_mounts.iter().flatten().any(|m| m.name == name && m.read_only != Some(true))
        };
        let all = [AllowedPath::all()];
        let wanted = host_path::Wanted {
            path: &spec.path,
            kind: spec.type_.as_deref().unwrap_or_default(),
            writes: self.pod.containers().any(|(_, c)| writes(c)),
            // Any path may be used where none is named.
            allowed: self.node.policies.of(self.pod.source).allowed_host_paths.as_deref().unwrap_or(&all),
        };
        self.bind(&wanted.open()?, &layout::guarded(&self.pod.uid, name))
    }

    /// Binds a directory or file of the host to a place of the pod, after its mounts are counted.
    pub(super) fn bind(&self, open: &OwnedFd, parts: &[&str]) -> Result<(), String> {
        let place = parts.get(2..).unwrap_or_default().join("/");
        let path = layout::below(&self.node.root()?, parts).ok_or("a name is none")?;
        self.count_mounts(|| {
            let below = host_path::mounts_below(&Foreign::of(self.node)?, open, &path)?;
            let all = below.iter().map(|rest| format!("{place}/{rest}")).chain([place.clone()]);
            Ok(self
                .copies()
                .iter()
                .flat_map(|copy| all.clone().map(move |at| format!("{copy}{at}")))
                .collect())
        })?;
        host_path::bind(self.node, open, parts, Later::of(self.is_behind()))
    }

    /// How often the volume is mounted: once at its place, and each container that mounts it more than once has a copy of
    /// all its mounts for each further time. One text for each, which tells them apart.
    fn copies(&self) -> Vec<String> {
        let of_volume = |c: &Container| {
            c.volume_mounts.iter().flatten().filter(|m| m.name == self.volume.name).skip(1).count()
        };
        let further = self.pod.containers().flat_map(|(_, c)| {
            (0..of_volume(c)).map(|index| format!("{}/{index}/", c.name)).collect::<Vec<String>>()
        });
        [String::new()].into_iter().chain(further).collect()
    }
}
