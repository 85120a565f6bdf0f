//! Local objects: ConfigMaps, Secrets and claims that stand beside pods in the same sources. Types only:
//! decoding is `manifest/`'s, choosing between two of one name is `merge/`'s.
//!
//! A Secret's values must never be printed: [`SecretBytes`] has no `Display`, and its `Debug` tells the
//! length alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::pod::{Origin, Source};

/// What kind of local object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `v1` `ConfigMap`.
    ConfigMap,
    /// `v1` `Secret`.
    Secret,
    /// `v1` `PersistentVolumeClaim`, on this node's own disk.
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

    /// As the kubelet's messages write it: `configmap "x" not found`.
    #[must_use]
    pub fn lower(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
            ObjectKind::PersistentVolumeClaim => "persistentvolumeclaim",
        }
    }
}

/// Identity of a local object on this node: one for all sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Kind.
    pub kind: ObjectKind,
    /// Never empty; `default` when the manifest gives none.
    pub namespace: String,
    /// As written: objects get no suffix.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// A value of a Secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Takes the decoded value.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> SecretBytes {
        SecretBytes(bytes)
    }

    /// The value itself: only for what goes into a container.
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

/// What an object holds.
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
        /// `spec.resources.requests.storage`, bytes: shown, not enforced.
        storage: u64,
    },
}

/// A local object as its source wants it: decoded and validated. Shared, never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalObject {
    /// Identity.
    pub key: ObjectKey,
    /// Owner.
    pub source: Source,
    /// Where in the source.
    pub origin: Origin,
    /// `immutable: true`.
    pub immutable: bool,
    /// Data.
    pub content: Content,
}

/// All local objects in force, one of each name: an immutable snapshot that workers look things up in.
pub type Objects = BTreeMap<ObjectKey, Arc<LocalObject>>;
