//! Local objects: ConfigMaps, Secrets and claims beside the pods in the same sources. Types only: `manifest/`
//! decodes them, `merge/` chooses between two of the same name in one source, `turn/` decides which of them a
//! pod sees, `mapping/env` uses them.
//!
//! A Secret's values must never be printed: [`SecretBytes`] has no `Display`, and its `Debug` prints only the
//! length.

pub mod claimed;
pub mod refs;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::base::table::Table;
use crate::pod::object::claimed::ClusterClaim;
use crate::pod::{Origin, Source};

/// The kind of a local object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `v1` `ConfigMap`.
    ConfigMap,
    /// `v1` `Secret`.
    Secret,
    /// `v1` `PersistentVolumeClaim`: on this node's own disk, or a cluster's.
    PersistentVolumeClaim,
}

impl ObjectKind {
    /// The API's word: `ConfigMap`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
            ObjectKind::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }

    /// The word in the kubelet's messages: `configmap "x" not found`.
    #[must_use]
    pub fn lower(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
            ObjectKind::PersistentVolumeClaim => "persistentvolumeclaim",
        }
    }
}

/// Name of the ConfigMap with environment variables for Services, which podkeeper makes from a cluster's Services. It ends
/// like no name of an object of the API, and a pod may name it.
pub const SERVICES: &str = "podkeeper-services-";
/// The same with the variables of the API server alone, for `enableServiceLinks: false`.
pub const SERVICES_OF_SERVER: &str = "podkeeper-services-kubernetes-";
/// Beginning of the names of Secrets that stand for tokens; the service account, a colon, the pod's UID, a dash and a number
/// follow. No object of the API has a colon in its name.
pub const TOKEN: &str = "podkeeper:token:";

/// The service account whose token a Secret of this name stands for.
#[must_use]
pub fn account_of_token(name: &str) -> Option<&str> {
    name.strip_prefix(TOKEN)?.split_once(':').map(|(account, _)| account)
}

/// Whether podkeeper makes the object of this name from something else of a cluster.
#[must_use]
pub fn is_made(name: &str) -> bool {
    matches!(name, SERVICES | SERVICES_OF_SERVER) || account_of_token(name).is_some()
}

/// The message where an object is missing that is not optional: the kubelet's, but for objects that podkeeper makes.
#[must_use]
pub fn not_found(kind: ObjectKind, name: &str) -> String {
    match account_of_token(name) {
        Some(account) => {
            format!("the token of service account {account:?} is not there: the API server has not given it yet")
        }
        None if is_made(name) => {
            "the environment variables of Services are not there: the API server has not given its Services yet".to_owned()
        }
        None => format!("{} {name:?} not found", kind.lower()),
    }
}
/// The key in its `binaryData` that lists the Services that are left out, with the reason. Containers do not get this
/// key in their environment.
pub const LEFT_OUT: &str = "left-out";

/// Identity of a local object within its source: two sources may each have an object of this name, and the
/// pods of one source do not see the other's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    /// Never empty; `default` when the manifest gives none.
    pub namespace: String,
    /// As in the manifest: objects get no suffix.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match account_of_token(&self.name) {
            Some(account) => write!(f, "the token of service account {}/{account}", self.namespace),
            None if is_made(&self.name) => write!(f, "the Services of namespace {}", self.namespace),
            None => write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name),
        }
    }
}

/// A value of a Secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Wraps the decoded value.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> SecretBytes {
        SecretBytes(bytes)
    }

    /// The value itself: only to be passed to a container.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} secret bytes>", self.0.len())
    }
}

/// The data of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Keys are disjoint between the two maps.
    ConfigMap {
        /// `data`.
        data: BTreeMap<String, String>,
        /// `binaryData`, decoded.
        binary: BTreeMap<String, Vec<u8>>,
    },
    /// `data` (decoded) with `stringData` over it.
    Secret {
        /// `type`; `Opaque` when not given.
        type_: String,
        /// By key.
        data: BTreeMap<String, SecretBytes>,
    },
    /// A claim on this node's own disk.
    Claim {
        /// `spec.accessModes`.
        access_modes: Vec<String>,
        /// `spec.resources.requests.storage`, bytes: a limit if the source is restricted to a level of Pod Security,
        /// otherwise only shown.
        storage: u64,
    },
    /// A claim of a cluster.
    ClusterClaim(ClusterClaim),
}

/// A local object as its source wants it: decoded and validated. Shared, never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalObject {
    /// Identity.
    pub key: ObjectKey,
    /// The source that owns it.
    pub source: Source,
    /// Its place in the source.
    pub origin: Origin,
    /// `immutable: true`.
    pub immutable: bool,
    /// Its data.
    pub content: Content,
    /// Other metadata; no pod depends on them.
    pub about: About,
}

/// Metadata of an object that are only shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
}

/// All current local objects, one of each name in each source: an immutable snapshot.
pub type Scopes = Table<(Source, ObjectKey), Arc<LocalObject>>;

/// The local objects that one pod sees, one of each name.
pub type Objects = Table<ObjectKey, Arc<LocalObject>>;

/// The data of the Secrets among them.
pub fn secrets(objects: &Objects) -> impl Iterator<Item = &BTreeMap<String, SecretBytes>> {
    objects.values().filter_map(|object| match &object.content {
        Content::Secret { data, .. } => Some(data),
        Content::ConfigMap { .. } | Content::Claim { .. } | Content::ClusterClaim(_) => None,
    })
}

impl LocalObject {
    /// Whether a container's environment can use this key: for a ConfigMap only keys of `data`, as upstream.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        match &self.content {
            Content::ConfigMap { data, .. } => data.contains_key(key),
            Content::Secret { data, .. } => data.contains_key(key),
            Content::Claim { .. } | Content::ClusterClaim(_) => false,
        }
    }

    /// Bytes of its keys and values together, for the bounds on objects.
    #[must_use]
    pub fn size(&self) -> usize {
        let sum = |sizes: &mut dyn Iterator<Item = (usize, usize)>| {
            sizes.fold(0_usize, |sum, (key, value)| sum.saturating_add(key).saturating_add(value))
        };
        match &self.content {
            Content::ConfigMap { data, binary } => sum(&mut data.iter().map(|(k, v)| (k.len(), v.len())))
                .saturating_add(sum(&mut binary.iter().map(|(k, v)| (k.len(), v.len())))),
            Content::Secret { data, .. } => sum(&mut data.iter().map(|(k, v)| (k.len(), v.expose().len()))),
            Content::Claim { .. } | Content::ClusterClaim(_) => 0,
        }
    }
}

/// Objects for tests. For tests only.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::manifest::{self, Context};

    /// The objects in these documents, as the file source decodes them from `path`.
    pub(crate) fn decoded(path: &str, text: &str) -> Vec<Arc<LocalObject>> {
        let context = Context { node_name: "node1", source: Source::File, path };
        let decoded = manifest::decode(text.as_bytes(), &context);
        assert!(decoded.is_good(), "{:?}", decoded.problems);
        decoded.objects
    }

    /// Like [`decoded`], as a snapshot.
    pub(crate) fn snapshot(text: &str) -> Arc<Objects> {
        let all = decoded("/m/objects.yaml", text);
        Arc::new(all.into_iter().map(|object| (object.key.clone(), object)).collect())
    }

    /// A ConfigMap of these data (YAML in braces).
    pub(crate) fn config_map(name: &str, data: &str) -> String {
        format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {data}}}\n")
    }

    /// A Secret of these stringData (YAML in braces).
    pub(crate) fn secret(name: &str, data: &str) -> String {
        format!("---\n{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {data}}}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_podkeeper_makes_are_not_looked_for_in_the_cluster() {
        let token = "podkeeper:token:robot:u-1-0";
        let found = |name: &str| not_found(ObjectKind::Secret, name);
        let why = "the token of service account \"robot\" is not there: the API server has not given it yet";
        assert_eq!((found(token).as_str(), found("s").as_str()), (why, "secret \"s\" not found"));
        let services = not_found(ObjectKind::ConfigMap, SERVICES);
        assert!(services.starts_with("the environment variables of Services"), "{services}");
        let users = not_found(ObjectKind::ConfigMap, "podkeeper-services");
        assert_eq!(users, "configmap \"podkeeper-services\" not found");
    }

    #[test]
    fn k12396_no_debug_output_holds_a_secret() {
        const CANARY: &str = "canary-0123456789-abcdefghijklmn";
        let objects = testing::snapshot(&testing::secret("s", &format!("{{password: {CANARY}}}")));
        let pod = crate::plan::testing::pod(
            "{containers: [{name: a, command: [sh, $(P)], args: [$(P)], env: [
              {name: P, valueFrom: {secretKeyRef: {name: s, key: password}}}]}]}",
        );
        let expanded =
            crate::mapping::env::expand(&pod.spec.containers[0], "default", &objects, None).unwrap();
        assert!(expanded.env.concat().contains(CANARY));
        let config = crate::mapping::tests::config();
        let at = crate::plan::StartRef { kind: crate::pod::ContainerKind::Regular, index: 0 };
        let printed = format!("{objects:?} {expanded:?}");
        let ready = crate::mapping::Ready { expanded, ips: &[], mounts: Default::default() };
        let made = crate::mapping::container(&pod, at, 0, "id", ready, &config).unwrap();
        let (name, body) = (made.name, made.body);
        let labels = format!("{:?}", body.labels);
        let call = crate::runtime::Call::Create { name, body };
        let request = crate::runtime::request::Request::call(&call);
        let effect = crate::daemon::turn::Effect::Objects(pod.key.clone(), objects);
        let digits = format!("{:?}", &CANARY.as_bytes()[..8]);
        for text in [printed, labels, format!("{call:?}"), format!("{request:?}"), format!("{effect:?}")] {
            assert!(!text.contains(CANARY) && !text.contains(&digits[1..digits.len() - 1]), "{text}");
        }
    }
}
