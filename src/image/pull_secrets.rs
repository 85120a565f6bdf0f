//! A pod's `imagePullSecrets`: local Secrets of the two types that hold Docker's credentials. Pure.

use std::sync::Arc;

use super::credentials::{DockerConfig, Format};
use crate::pod::DesiredPod;
use crate::pod::object::{Content, ObjectKey, ObjectKind, Objects};

/// The credentials of a pod's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullSecrets {
    /// In the pod's order.
    pub configs: Vec<Arc<DockerConfig>>,
    /// Unusable secrets, as text; with names and without values.
    pub problems: Vec<String>,
}

/// Looks up a pod's secrets. A missing or damaged one does not stop a pull, as upstream.
#[must_use]
pub fn of_pod(pod: &DesiredPod, objects: &Objects) -> PullSecrets {
    let mut found = PullSecrets::default();
    let mut missing = Vec::new();
    for secret in pod.spec.image_pull_secrets.iter().flatten() {
        let (namespace, name) = (pod.key.namespace.clone(), secret.name.clone());
        let key = ObjectKey { kind: ObjectKind::Secret, namespace, name };
        let Some(Content::Secret { type_, data }) = objects.get(&key).map(|object| &object.content) else {
            missing.push(key.name);
            continue;
        };
        let (entry, format) = match type_.as_str() {
            "kubernetes.io/dockerconfigjson" => (".dockerconfigjson", Format::ConfigJson),
            "kubernetes.io/dockercfg" => (".dockercfg", Format::DockerCfg),
            other => {
                found.problems.push(format!("secret {:?} has the type {other:?}", key.name));
                continue;
            }
        };
        let bytes = data.get(entry).map(|value| value.expose()).unwrap_or_default();
        match DockerConfig::parse(bytes, format) {
            Ok(config) => {
                let words = |warning: &String| format!("secret {:?}: {warning}", key.name);
                found.problems.extend(config.warnings.iter().map(words));
                found.configs.push(Arc::new(config));
            }
            Err(why) => found.problems.push(format!("secret {:?}: {why}", key.name)),
        }
    }
    if !missing.is_empty() {
        found.problems.push(format!(
            "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
            missing.join(", ")
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::credentials::lookup;
    use super::*;
    use crate::plan::testing;
    use crate::pod::object::testing::snapshot;

    fn secret(name: &str, type_: &str, key: &str, value: &str) -> String {
        format!(
            "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, type: {type_}, \
             stringData: {{{key}: '{value}'}}}}\n"
        )
    }

    #[test]
    fn both_types_in_the_pods_order_and_what_is_wrong() {
        let json = r#"{"auths": {"r.io": {"username": "canary", "password": "canary"}}, "credsStore": "x"}"#;
        let text = [
            secret("new", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", json),
            secret("old", "kubernetes.io/dockercfg", ".dockercfg", r#"{"r.io/a": {"auth": "dTpw"}}"#),
            secret("other", "Opaque", "x", "canary"),
        ];
        let objects = snapshot(&text.concat());
        let names = "[{name: old}, {name: gone}, {name: new}, {name: other}, {name: lost}]";
        let pod = testing::pod(&format!("{{imagePullSecrets: {names}, containers: [{{name: a}}]}}"));
        let found = of_pod(&pod, &objects);
        let fitting = |n: usize| lookup("r.io/b", [&*found.configs[n]]).len();
        assert_eq!((found.configs.len(), fitting(0), fitting(1)), (2, 0, 1));
        assert_eq!(
            found.problems,
            [
                "secret \"new\": credsStore is not supported: podkeeper runs no helpers",
                "secret \"other\" has the type \"Opaque\"",
                "Unable to retrieve some image pull secrets (gone, lost); attempting to pull the image may not \
                 succeed.",
            ]
        );
        assert!(!format!("{found:?}").contains("canary"));
        assert_eq!(of_pod(&testing::pod("{containers: [{name: a}]}"), &objects), PullSecrets::default());
    }
}
