//! Turns the server's pods into the types of the other rooms. Pure.
//!
//! A pod of the server is decoded and judged like a manifest, without the parts that are the server's own: its history,
//! its status, its service account. A service account's token becomes a Secret, which this source sends with the pod,
//! so that volumes know nothing of tokens. No user can give a Secret its name.
//!
//! Never here: a call.

use std::sync::Arc;

use crate::base::json::json;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Map, Value};

use crate::api_client::pods::{MIRROR, is_mirror};
use crate::base::clock::Timestamp;
use crate::base::limits;
use crate::manifest::edition::Known;
use crate::pod::object::{LocalObject, ObjectKey, ObjectKind, TOKEN, is_made};
use crate::pod::problem::{Problem, Refused, Severity};
use crate::pod::{DISPLACED, DesiredPod, Origin, PodKey, is_final};
use crate::source::accept::Acceptor;
use crate::source::api::{checks, services};

/// A token that a volume of a pod contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The Secret that stands for it.
    pub key: ObjectKey,
    /// The service account.
    pub account: String,
    /// The pod that it is bound to.
    pub pod: PodKey,
    pub uid: String,
    /// Empty for the API server itself.
    pub audience: String,
    /// Seconds.
    pub lasts: u64,
}

/// The use of a pod of the server.
#[derive(Debug, Clone)]
pub enum Meaning {
    /// A mirror pod: the server's copy of a pod of another source.
    Mirror,
    /// The pod ended before this daemon knew it: none of its containers is started again, and they stay for readers of
    /// their logs.
    Finished(Arc<DesiredPod>),
    Wanted(Arc<DesiredPod>, Vec<Token>),
    Refused(Refused),
    /// The pod cannot be read, or told apart from others. Its running containers are left alone.
    Unusable(Problem),
}

/// A pod of the server.
#[derive(Debug, Clone)]
pub struct Read {
    /// The pod in the server's form.
    pub pod: Arc<Pod>,
    /// The user's part of the pod, which is stored.
    pub text: String,
    /// Approximate memory, bytes.
    pub weight: usize,
    /// The problem with a newer version that cannot be read; this is the version before it.
    pub unread: Option<Problem>,
    pub meaning: Meaning,
}

impl Read {
    /// The same version with a deletion that the server does not tell. `None` when the pod does not run here.
    fn deleted(&self, mark: impl FnOnce(&mut ObjectMeta)) -> Option<Read> {
        let Meaning::Wanted(pod, tokens) = &self.meaning else { return None };
        let mut pod = DesiredPod::clone(pod);
        mark(&mut pod.metadata);
        Some(Read { meaning: Meaning::Wanted(Arc::new(pod), tokens.clone()), ..self.clone() })
    }
}

/// The pod's path at the server, which is its path in the other rooms.
#[must_use]
pub fn path_of(server: &str, key: &PodKey) -> String {
    format!("{server}/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

fn text<'v>(of: &'v Value, path: &str) -> &'v str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a pod. `before` is the known version; `None` when the pod is new to this daemon. Returns `None` for a pod
/// without a name.
#[must_use]
pub fn read(value: &Value, acceptor: &Acceptor, server: &str, before: Option<&Read>) -> Option<Read> {
    let key = PodKey {
        namespace: text(value, "/metadata/namespace").to_owned(),
        name: text(value, "/metadata/name").to_owned(),
    };
    if key.namespace.is_empty() || key.name.is_empty() {
        return None;
    }
    let pod = match checks::pod_of(value) {
        Ok(pod) => Arc::new(pod),
        Err(wrong) => return Some(unread(value, key, server, before, wrong)),
    };
    let (own, tokens) = own_of(value);
    let text = own.to_string();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let usable = before.filter(|before| !matches!(before.meaning, Meaning::Unusable(_)));
    let same = usable.filter(|before| before.pod.metadata.uid == pod.metadata.uid);
    let unusable = |(field, why): (&str, String)| Meaning::Unusable(wrong(server, &key, field, why));
    let is_over = is_final(phase(&pod));
    // This daemon would run it again when the static pod that has its name has gone.
    let is_displaced =
        is_over && pod.status.as_ref().is_some_and(|it| it.reason.as_deref() == Some(DISPLACED));
    let meaning = match same {
        _ if is_mirror(&pod) => Meaning::Mirror,
        // Only its status has changed.
        Some(before) if before.text == text && !is_displaced => before.meaning.clone(),
        _ if uid.is_empty() => unusable(("metadata.uid", "must not be empty".to_owned())),
        _ if let Some(wrong) = checks::name(&key) => unusable(wrong),
        same => {
            let meaning = meaning_of(&pod, &key, &text, tokens, acceptor, server);
            let is_deleted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
            let was_over = same.is_none_or(|before| {
                // Only an older state of the server takes a deletion back.
                let is_taken_back = is_deleted(&before.pod) && !is_deleted(&pod);
                matches!(before.meaning, Meaning::Finished(_)) || is_taken_back || is_displaced
            });
            match meaning {
                Meaning::Wanted(wanted, _) if is_over && was_over => {
                    let mut ended = DesiredPod::clone(&wanted);
                    ended.status = pod.status.clone().unwrap_or_default();
                    Meaning::Finished(Arc::new(ended))
                }
                meaning => meaning,
            }
        }
    };
    let weight = checks::weight(value);
    Some(Read { pod, text, weight, unread: None, meaning })
}

/// A pod that cannot be read: its known version stays.
fn unread(
    value: &Value,
    key: PodKey,
    server: &str,
    before: Option<&Read>,
    (field, why): (&str, String),
) -> Read {
    let told = wrong(server, &key, field, format!("cannot be read: {why}"));
    let uid = text(value, "/metadata/uid");
    let usable = before.filter(|before| !matches!(before.meaning, Meaning::Unusable(_)));
    if let Some(before) = usable.filter(|before| before.pod.metadata.uid.as_deref() == Some(uid)) {
        return Read { unread: Some(told), ..before.clone() };
    }
    let metadata = ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        uid: Some(uid.to_owned()),
        ..ObjectMeta::default()
    };
    let weight = checks::NOTE;
    let (pod, text) = (Arc::new(Pod { metadata, ..Pod::default() }), String::new());
    Read { pod, text, weight, unread: None, meaning: Meaning::Unusable(told) }
}

/// The last version of a pod that was removed without a grace period: it gets a moment. `gone` is what the server removed.
/// `None` when it was being deleted, or does not run here.
#[must_use]
pub fn forced(last: &Read, gone: &Read) -> Option<Read> {
    if last.pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    last.deleted(|metadata| {
        metadata.deletion_timestamp.clone_from(&gone.pod.metadata.deletion_timestamp);
        metadata.deletion_grace_period_seconds = Some(limits::API_FORCED_GRACE);
    })
}

/// The last version of a pod that the server has no more, and whose removal was not told. `now`: wall time. `None` when it
/// does not run here.
#[must_use]
pub fn vanished(last: &Read, now: Timestamp) -> Option<Read> {
    last.deleted(|metadata| {
        metadata.deletion_timestamp.get_or_insert(Time(now));
        let grace = &mut metadata.deletion_grace_period_seconds;
        *grace = Some(grace.unwrap_or(i64::MAX).min(limits::API_FORCED_GRACE));
    })
}

/// Reads a stored pod.
#[must_use]
pub fn read_remembered(own: &Value, acceptor: &Acceptor, server: &str) -> Option<Arc<DesiredPod>> {
    match read(own, acceptor, server, None)?.meaning {
        Meaning::Wanted(pod, _) => Some(pod),
        _ => None,
    }
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// Reason of pods that need a feature that this node lacks (`pkg/kubelet/lifecycle/handlers.go`, declared features).
const UNAVAILABLE: &str = "PodFeatureUnsupported";

/// The user's part of a pod, with its tokens as Secrets.
fn own_of(value: &Value) -> (Value, Vec<Token>) {
    let mut metadata = Map::new();
    for key in [
        "name",
        "namespace",
        "uid",
        "labels",
        "annotations",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if let Some(part) =
            value.pointer("/metadata").and_then(|meta| meta.get(key)).filter(|part| !part.is_null())
        {
            metadata.insert(key.to_owned(), part.clone());
        }
    }
    let mut spec = value.get("spec").cloned().unwrap_or_default();
    let pod = PodKey {
        namespace: text(value, "/metadata/namespace").to_owned(),
        name: text(value, "/metadata/name").to_owned(),
    };
    let account = match text(&spec, "/serviceAccountName") {
        "" => "default",
        name => name,
    };
    let (account, uid) = (account.to_owned(), text(value, "/metadata/uid").to_owned());
    let mut tokens = Vec::new();
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten();
    for source in
        volumes.filter_map(|volume| volume.pointer_mut("/projected/sources")?.as_array_mut()).flatten()
    {
        let Some(wanted) = source.get("serviceAccountToken").filter(|wanted| wanted.is_object()) else {
            continue;
        };
        // No pod may name another pod's Secret, and the server is never asked for one of this name.
        let name = format!("{TOKEN}{account}:{uid}-{}", tokens.len());
        let key =
            ObjectKey { kind: ObjectKind::Secret, namespace: pod.namespace.clone(), name: name.clone() };
        let file = match text(wanted, "/path") {
            "" => "token",
            path => path,
        };
        let lasts = wanted.get("expirationSeconds").and_then(Value::as_u64).unwrap_or(3600).max(600);
        let shown = json!({"secret": {"name": name, "items": [{"key": "token", "path": file}]}});
        let audience = text(wanted, "/audience").to_owned();
        tokens.push(Token {
            key,
            account: account.clone(),
            pod: pod.clone(),
            uid: uid.clone(),
            audience,
            lasts,
        });
        *source = shown;
    }
    services::refer(&mut spec);
    (json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}), tokens)
}

fn meaning_of(
    pod: &Pod,
    key: &PodKey,
    own: &str,
    tokens: Vec<Token>,
    acceptor: &Acceptor,
    server: &str,
) -> Meaning {
    let path = path_of(server, key);
    let mut decoded = acceptor.accept(&path, manifest(own).as_bytes(), None, &Known::default());
    let finish = |desired: &Arc<DesiredPod>| {
        let mut desired = DesiredPod::clone(desired);
        let meta = &mut desired.metadata;
        meta.deletion_timestamp.clone_from(&pod.metadata.deletion_timestamp);
        meta.deletion_grace_period_seconds = pod.metadata.deletion_grace_period_seconds;
        meta.owner_references.clone_from(&pod.metadata.owner_references);
        meta.generation = pod.metadata.generation;
        // Of all that admission looks at, the server lets nobody change more than the sizes.
        desired.shape = Some(desired.uid.clone());
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        Arc::make_mut(&mut desired.spec).service_account_name = account;
        Arc::new(desired)
    };
    if let Some(pod) = decoded.pods.first() {
        let pod = finish(pod);
        let reason = UNAVAILABLE.to_owned();
        return match checks::others_token(&pod) {
            Some(message) => Meaning::Refused(Refused { pod, at: None, reason, message }),
            None => Meaning::Wanted(pod, tokens),
        };
    }
    if let Some(refused) = decoded.refused.pop() {
        return Meaning::Refused(Refused { pod: finish(&refused.pod), ..refused });
    }
    let errors = decoded.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let words = errors.map(|problem| match &problem.field {
        Some(field) => format!("{field} {}", problem.message),
        None => problem.message.clone(),
    });
    let message = words.take(limits::API_REFUSAL_REASONS).collect::<Vec<_>>().join("; ");
    let desired = DesiredPod {
        key: key.clone(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        written: None,
        shape: None,
        source: acceptor.source,
        origin: Origin { path, document: 0 },
        metadata: pod.metadata.clone(),
        spec: Arc::new(pod.spec.clone().unwrap_or_default()),
        status: Default::default(),
        withheld: Default::default(),
        weight: 0,
        ceiling: i32::MAX,
    };
    let message = format!("Pod requires node features that are not available: {message}");
    Meaning::Refused(Refused { pod: Arc::new(desired), at: None, reason: UNAVAILABLE.to_owned(), message })
}

/// The user's part as the text of a manifest.
fn manifest(own: &str) -> String {
    let Ok(mut own) = serde_json::from_str::<Value>(own) else { return String::new() };
    if let Some(meta) = own.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("deletionTimestamp");
        meta.remove("deletionGracePeriodSeconds");
        // A user of the server may have written it.
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(MIRROR);
        }
    }
    if let Some(spec) = own.get_mut("spec").and_then(Value::as_object_mut) {
        for key in ["serviceAccount", "serviceAccountName", "ephemeralContainers", "schedulingGates"] {
            spec.remove(key);
        }
    }
    own.to_string()
}

/// An error in a pod of the server.
pub(super) fn wrong(server: &str, key: &PodKey, field: &str, message: String) -> Problem {
    Problem {
        severity: Severity::Error,
        path: path_of(server, key),
        at: None,
        pod: Some(key.to_string()),
        field: Some(field.to_owned()).filter(|field| !field.is_empty()),
        message,
    }
}

/// Reads a ConfigMap or a Secret.
///
/// # Errors
/// The reason why the object is not usable.
pub fn object(
    value: &Value,
    kind: ObjectKind,
    acceptor: &Acceptor,
    server: &str,
) -> Result<Arc<LocalObject>, String> {
    let mut own = own_object(value, kind);
    let (namespace, name) = (text(value, "/metadata/namespace"), text(value, "/metadata/name"));
    let path = format!("{server}/api/v1/namespaces/{namespace}/{}s/{name}", kind.lower());
    let made = Some(name).filter(|name| is_made(name));
    // What podkeeper makes has a name that no object of a manifest may have.
    if let Some(place) = own.pointer_mut("/metadata/name").filter(|_| made.is_some()) {
        *place = "made".into();
    }
    let decoded = acceptor.accept(&path, own.to_string().as_bytes(), None, &Known::default());
    let object = decoded.objects.into_iter().next();
    let object = object.map(|object| match made {
        Some(name) => {
            let key = ObjectKey { name: name.to_owned(), ..object.key.clone() };
            Arc::new(LocalObject { key, ..LocalObject::clone(&object) })
        }
        None => object,
    });
    object.ok_or_else(|| {
        let error = decoded.problems.first();
        error.map_or_else(|| "it is no such object".to_owned(), |problem| problem.message.clone())
    })
}

/// The user's part of an object.
#[must_use]
pub fn own_object(value: &Value, kind: ObjectKind) -> Value {
    let mut own = json!({
        "apiVersion": "v1",
        "kind": kind.as_str(),
        "metadata": {"name": text(value, "/metadata/name"), "namespace": text(value, "/metadata/namespace")},
    });
    for key in ["data", "binaryData", "type", "immutable"] {
        if let (Some(own), Some(part)) = (own.as_object_mut(), value.get(key).filter(|part| !part.is_null()))
        {
            own.insert(key.to_owned(), part.clone());
        }
    }
    own
}

#[cfg(test)]
mod tests;
