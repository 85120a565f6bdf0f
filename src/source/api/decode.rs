//! What the server says of a pod, made into what the other rooms know. Pure.
//!
//! A pod of the server goes through the same door as a manifest, without what is the server's own: its history, its
//! status, its service account. A service account's token becomes a Secret of a name that no user can give one, which
//! this source brings with the pod, so that the volumes need no knowledge of tokens.
//!
//! Never here: a call.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::api_client::pods::{MIRROR, is_mirror};
use crate::base::limits;
use crate::manifest::edition::Known;
use crate::pod::object::{LocalObject, ObjectKey, ObjectKind};
use crate::pod::problem::{Problem, Refused, Severity};
use crate::pod::{DesiredPod, Origin, PodKey};
use crate::source::accept::Acceptor;
use crate::source::api::services;

/// A token that a volume of a pod shows.
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

/// What to do with a pod of the server.
#[derive(Debug, Clone)]
pub enum Meaning {
    /// The server's picture of a pod of another source.
    Mirror,
    /// It has come to its end before this daemon knew it: nothing of it is started again, and its containers stay for
    /// those who read their logs.
    Finished(Arc<DesiredPod>),
    Wanted(Arc<DesiredPod>, Vec<Token>),
    Refused(Refused),
    /// It cannot be told apart from others: no name, no UID.
    Unusable(Problem),
}

/// A pod of the server.
#[derive(Debug, Clone)]
pub struct Read {
    pub key: PodKey,
    /// As the server has it.
    pub pod: Arc<Pod>,
    /// What of it is the user's: it is what is remembered.
    pub text: String,
    pub meaning: Meaning,
}

/// Where the pod is at the server: its path in the other rooms.
#[must_use]
pub fn path_of(server: &str, key: &PodKey) -> String {
    format!("{server}/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

fn text<'v>(of: &'v Value, path: &str) -> &'v str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a pod. `before` is what was known of it; `None` when it is new to this daemon.
#[must_use]
pub fn read(value: &Value, acceptor: &Acceptor, server: &str, before: Option<&Read>) -> Option<Read> {
    let key = PodKey {
        namespace: text(value, "/metadata/namespace").to_owned(),
        name: text(value, "/metadata/name").to_owned(),
    };
    if key.namespace.is_empty() || key.name.is_empty() {
        return None;
    }
    let pod: Arc<Pod> = Arc::new(serde_json::from_value(value.clone()).ok()?);
    let (own, tokens) = own_of(value);
    let text = own.to_string();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let same = before.filter(|before| before.pod.metadata.uid == pod.metadata.uid);
    let is_over = matches!(phase(&pod), Some("Succeeded" | "Failed"));
    let meaning = match same {
        _ if is_mirror(&pod) => Meaning::Mirror,
        // Its status has changed, and nothing else.
        Some(before) if before.text == text => before.meaning.clone(),
        _ if uid.is_empty() => {
            Meaning::Unusable(problem(&path_of(server, &key), &key, "it has no UID".to_owned()))
        }
        same => {
            let meaning = meaning_of(&pod, &key, &text, tokens, acceptor, server);
            let was_over = same.is_none_or(|before| matches!(before.meaning, Meaning::Finished(_)));
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
    Some(Read { key, pod, text, meaning })
}

/// Reads what was remembered of a pod.
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

/// Reason of pods that want what this node has not (`pkg/kubelet/lifecycle/handlers.go`, declared features).
const UNAVAILABLE: &str = "PodFeatureUnsupported";

/// What of a pod is the user's, with its tokens as Secrets.
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
        // A Secret of this name at the server is never asked for.
        let name = format!("podkeeper-token-{uid}-{}", tokens.len());
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
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        Arc::make_mut(&mut desired.spec).service_account_name = account;
        Arc::new(desired)
    };
    if let Some(pod) = decoded.pods.first() {
        return Meaning::Wanted(finish(pod), tokens);
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
    };
    let message = format!("Pod requires node features that are not available: {message}");
    Meaning::Refused(Refused { pod: Arc::new(desired), reason: UNAVAILABLE.to_owned(), message })
}

/// The user's part as a manifest may have it.
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

fn problem(path: &str, key: &PodKey, message: String) -> Problem {
    Problem {
        severity: Severity::Error,
        path: path.to_owned(),
        at: None,
        pod: Some(key.to_string()),
        field: None,
        message,
    }
}

/// Reads a ConfigMap or a Secret.
///
/// # Errors
/// Why it is not usable.
pub fn object(
    value: &Value,
    kind: ObjectKind,
    acceptor: &Acceptor,
    server: &str,
) -> Result<Arc<LocalObject>, String> {
    let own = own_object(value, kind);
    let (namespace, name) = (text(value, "/metadata/namespace"), text(value, "/metadata/name"));
    let path = format!("{server}/api/v1/namespaces/{namespace}/{}s/{name}", kind.lower());
    let decoded = acceptor.accept(&path, own.to_string().as_bytes(), None, &Known::default());
    decoded.objects.into_iter().next().ok_or_else(|| {
        let error = decoded.problems.first();
        error.map_or_else(|| "it is no such object".to_owned(), |problem| problem.message.clone())
    })
}

/// What of an object is the user's.
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
mod tests {
    use super::*;
    use crate::pod::Source;

    const SERVER: &str = "https://a:6443";

    fn acceptor() -> Acceptor {
        Acceptor::new(Source::Api, "n1".to_owned())
    }

    /// As a server with its admission plugins has it.
    fn pod(more: &str) -> Value {
        let mut pod: Value = serde_json::from_str(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"7",
            "creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl"}],"generation":1,
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"r"}]},
            "spec":{"nodeName":"n1","serviceAccountName":"robot","serviceAccount":"robot","schedulerName":"default-scheduler",
            "priority":0,"preemptionPolicy":"PreemptLowerPriority","enableServiceLinks":true,"restartPolicy":"Always",
            "dnsPolicy":"ClusterFirst","terminationGracePeriodSeconds":30,"securityContext":{},
            "tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
            "containers":[{"name":"c","image":"i","imagePullPolicy":"Always","resources":{},
            "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
            "volumeMounts":[{"name":"t","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}]}],
            "volumes":[{"name":"t","projected":{"defaultMode":420,"sources":[
            {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
            {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
            {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}}]},
            "status":{"phase":"Pending","qosClass":"BestEffort"}}"#,
        )
        .unwrap();
        let more: Value = serde_json::from_str(more).unwrap();
        for (at, value) in more.as_object().unwrap() {
            let (parent, key) = at.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        pod
    }

    fn wanted(value: &Value) -> (Arc<DesiredPod>, Vec<Token>) {
        match read(value, &acceptor(), SERVER, None).unwrap().meaning {
            Meaning::Wanted(pod, tokens) => (pod, tokens),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_of_a_server_keeps_its_name_and_its_uid() {
        let (pod, tokens) = wanted(&pod("{}"));
        assert_eq!((pod.key.to_string().as_str(), pod.uid.as_str()), ("shop/web", "u-1"));
        assert_eq!(pod.origin.to_string(), "https://a:6443/api/v1/namespaces/shop/pods/web");
        assert_eq!(pod.spec.service_account_name.as_deref(), Some("robot"));
        assert!(pod.metadata.owner_references.is_some() && pod.written.is_none());
        let [token] = tokens.as_slice() else { panic!("{tokens:?}") };
        assert_eq!(
            (token.account.as_str(), token.lasts, token.key.name.as_str()),
            ("robot", 3607, "podkeeper-token-u-1-0")
        );
        let refers = crate::pod::object::refs::references(&pod);
        let refers: Vec<String> = refers.iter().map(|each| each.key.to_string()).collect();
        let services = "ConfigMap shop/podkeeper-services";
        assert!(refers.contains(&services.to_owned()) && refers.len() == 3, "{refers:?}");
        assert!(refers.contains(&"Secret shop/podkeeper-token-u-1-0".to_owned()), "{refers:?}");
        assert!(refers.contains(&"ConfigMap shop/kube-root-ca.crt".to_owned()), "{refers:?}");
    }

    #[test]
    fn deletions_reach_the_pod() {
        let deleted = r#"{"/metadata/deletionTimestamp":"2026-01-01T00:00:30Z","/metadata/deletionGracePeriodSeconds":5}"#;
        let (pod, _) = wanted(&pod(deleted));
        assert!(pod.metadata.deletion_timestamp.is_some());
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(5));
    }

    #[test]
    fn pods_that_are_not_started() {
        let meaning = |more: &str, before: Option<&Read>| {
            read(&pod(more), &acceptor(), SERVER, before).unwrap().meaning
        };
        let mirror = r#"{"/metadata/annotations":{"kubernetes.io/config.mirror":"x"}}"#;
        assert!(matches!(meaning(mirror, None), Meaning::Mirror));
        let over = r#"{"/status/phase":"Succeeded"}"#;
        assert!(matches!(meaning(over, None), Meaning::Finished(_)));
        // One that this daemon has seen run is kept, for its logs.
        let before = read(&pod("{}"), &acceptor(), SERVER, None);
        assert!(matches!(meaning(over, before.as_ref()), Meaning::Wanted(..)));
        let Meaning::Refused(refused) = meaning(r#"{"/spec/runtimeClassName":"gvisor"}"#, None) else {
            panic!("it is taken")
        };
        assert!(refused.message.contains("runtimeClassName"), "{}", refused.message);
        assert_eq!((refused.reason.as_str(), refused.pod.uid.as_str()), ("PodFeatureUnsupported", "u-1"));
        assert!(read(&json!({}), &acceptor(), SERVER, None).is_none());
    }

    #[test]
    fn what_is_remembered_of_a_pod_is_read_again() {
        let first = read(&pod("{}"), &acceptor(), SERVER, None).unwrap();
        assert!(!first.text.contains("status") && !first.text.contains("managedFields"));
        let again =
            read_remembered(&serde_json::from_str(&first.text).unwrap(), &acceptor(), SERVER).unwrap();
        assert_eq!((again.uid.as_str(), again.spec.containers.len()), ("u-1", 1));
    }

    #[test]
    fn objects() {
        let value = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "x"}, "data": {"a": "b"}});
        let found = object(&value, ObjectKind::ConfigMap, &acceptor(), SERVER).unwrap();
        assert_eq!((found.key.to_string().as_str(), found.has_key("a")), ("ConfigMap shop/c", true));
    }
}
