//! The local objects a pod refers to, and where. Pure; whether they exist is not checked here.

use k8s_openapi::api::core::v1::{Container, Volume};

use super::{ObjectKey, ObjectKind};
use crate::pod::DesiredPod;

/// One reference of a pod to a local object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The object; always in the pod's own namespace.
    pub key: ObjectKey,
    /// The key of its data; `None` for all of them.
    pub entry: Option<String>,
    /// The container starts without it.
    pub optional: bool,
    /// Field path of the reference: `spec.containers[0].env[1].valueFrom.secretKeyRef`.
    pub field: String,
}

/// Every reference of a pod, in the order of its fields.
#[must_use]
pub fn references(pod: &DesiredPod) -> Vec<Reference> {
    let mut found = Found { namespace: &pod.key.namespace, list: Vec::new() };
    for (i, secret) in pod.spec.image_pull_secrets.iter().flatten().enumerate() {
        // Optional: the image may be present already, or need no credentials.
        let field = format!("spec.imagePullSecrets[{i}]");
        found.add(ObjectKind::Secret, &secret.name, None, Some(true), field);
    }
    for (name, list) in [("initContainers", pod.init_containers()), ("containers", &pod.spec.containers)] {
        for (i, container) in list.iter().enumerate() {
            found.container(container, name, i);
        }
    }
    // Volumes that no container mounts are not set up.
    let volumes = pod.spec.volumes.iter().flatten().enumerate();
    for (i, volume) in volumes.filter(|(_, volume)| pod.mounts(&volume.name)) {
        found.volume(volume, &format!("spec.volumes[{i}]"));
    }
    found.list
}

struct Found<'p> {
    namespace: &'p str,
    list: Vec<Reference>,
}

impl Found<'_> {
    fn container(&mut self, container: &Container, list: &str, index: usize) {
        use ObjectKind::{ConfigMap, Secret};
        for (i, from) in container.env_from.iter().flatten().enumerate() {
            let field = |kind: &str| format!("spec.{list}[{index}].envFrom[{i}].{kind}");
            if let Some(it) = &from.config_map_ref {
                self.add(ConfigMap, &it.name, None, it.optional, field("configMapRef"));
            }
            if let Some(it) = &from.secret_ref {
                self.add(Secret, &it.name, None, it.optional, field("secretRef"));
            }
        }
        for (i, var) in container.env.iter().flatten().enumerate() {
            let Some(from) = &var.value_from else { continue };
            let field = |kind: &str| format!("spec.{list}[{index}].env[{i}].valueFrom.{kind}");
            if let Some(it) = &from.config_map_key_ref {
                self.add(ConfigMap, &it.name, Some(&it.key), it.optional, field("configMapKeyRef"));
            }
            if let Some(it) = &from.secret_key_ref {
                self.add(Secret, &it.name, Some(&it.key), it.optional, field("secretKeyRef"));
            }
        }
    }

    /// References of a volume. Its keys are only checked when the files are written: they may be binary.
    fn volume(&mut self, volume: &Volume, at: &str) {
        use ObjectKind::{ConfigMap, PersistentVolumeClaim, Secret};
        if let Some(it) = &volume.config_map {
            self.add(ConfigMap, &it.name, None, it.optional, format!("{at}.configMap"));
        }
        if let Some(it) = &volume.secret {
            let name = it.secret_name.as_deref().unwrap_or_default();
            self.add(Secret, name, None, it.optional, format!("{at}.secret"));
        }
        if let Some(it) = &volume.persistent_volume_claim {
            let field = format!("{at}.persistentVolumeClaim");
            self.add(PersistentVolumeClaim, &it.claim_name, None, None, field);
        }
        let sources = volume.projected.iter().flat_map(|it| it.sources.iter().flatten());
        for (i, source) in sources.enumerate() {
            let at = format!("{at}.projected.sources[{i}]");
            if let Some(it) = &source.config_map {
                self.add(ConfigMap, &it.name, None, it.optional, format!("{at}.configMap"));
            }
            if let Some(it) = &source.secret {
                self.add(Secret, &it.name, None, it.optional, format!("{at}.secret"));
            }
        }
    }

    fn add(
        &mut self,
        kind: ObjectKind,
        name: &str,
        entry: Option<&str>,
        optional: Option<bool>,
        field: String,
    ) {
        let key = ObjectKey { kind, namespace: self.namespace.to_owned(), name: name.to_owned() };
        let optional = optional.unwrap_or(false);
        self.list.push(Reference { key, entry: entry.map(str::to_owned), optional, field });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing;

    #[test]
    fn every_reference_is_found_with_its_place() {
        let pod = testing::pod(
            "{imagePullSecrets: [{name: r}], initContainers: [{name: i, envFrom: [{secretRef: {name: s, optional: true}}]}], containers: [
             {name: a, env: [{name: A, value: x}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}]},
             {name: b, env: [{name: C, valueFrom: {secretKeyRef: {name: s, key: p}}}],
              envFrom: [{prefix: P_, configMapRef: {name: c}}]}],
             volumes: [{name: e, emptyDir: {}}, {name: c, configMap: {name: c, optional: true}}, {name: s, secret: {secretName: s}},
              {name: d, persistentVolumeClaim: {claimName: data}},
              {name: p, projected: {sources: [{configMap: {name: c}}, {secret: {name: s}}]}}]}",
        );
        let found: Vec<String> = references(&pod)
            .iter()
            .map(|r| format!("{} {:?} {} {}", r.key, r.entry, r.optional, r.field))
            .collect();
        assert_eq!(
            found,
            [
                "Secret default/r None true spec.imagePullSecrets[0]",
                "Secret default/s None true spec.initContainers[0].envFrom[0].secretRef",
                "ConfigMap default/c Some(\"k\") false spec.containers[0].env[1].valueFrom.configMapKeyRef",
                "ConfigMap default/c None false spec.containers[1].envFrom[0].configMapRef",
                "Secret default/s Some(\"p\") false spec.containers[1].env[0].valueFrom.secretKeyRef",
                "ConfigMap default/c None true spec.volumes[1].configMap",
                "Secret default/s None false spec.volumes[2].secret",
                "PersistentVolumeClaim default/data None false spec.volumes[3].persistentVolumeClaim",
                "ConfigMap default/c None false spec.volumes[4].projected.sources[0].configMap",
                "Secret default/s None false spec.volumes[4].projected.sources[1].secret",
            ]
        );
    }
}
