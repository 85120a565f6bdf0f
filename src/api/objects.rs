//! The published state of the node as objects of the API. Pure.

use std::fmt;
use std::sync::Arc;

use crate::base::json::json;
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::Value;

use super::kinds::{self, Resource};
use super::told::{Added, Latest};
use super::value::{part, place};
use super::world::Key;
use super::write::added;
use crate::base::clock::Timestamp;
use crate::base::table::Table;
use crate::node::facts::Facts;
use crate::pod::object::{LocalObject, ObjectKind};
use crate::pod::{DesiredPod, Source};
use crate::recorder::object::EventObject;
use crate::recorder::ring::Kept;
use crate::status::file::pod_value;
use crate::status::local_objects::{self, begun, made_uid};
use crate::status::node_object::About;
use crate::status::snapshot::{PodView, Snapshot};

/// Namespaces that always exist.
pub const NAMESPACES: [&str; 3] = ["default", "kube-node-lease", "kube-system"];
/// The namespace of leases of nodes.
const LEASES: &str = "kube-node-lease";
/// Duration of a node's lease in seconds, like the kubelet's.
const LEASE_SECONDS: u32 = 40;

/// The input of an object: while it is the same, the object need not be made again.
#[derive(Clone)]
pub enum Origin {
    Pod(Arc<DesiredPod>, Arc<PodStatus>, Option<Timestamp>, bool),
    Event(Arc<Kept>),
    Local(Arc<LocalObject>),
    Stored(Arc<Value>),
    /// A pod, with its stored object.
    StoredPod(Arc<Value>, Box<Origin>),
    /// A pod, with the containers that were added to it.
    Extended(Vec<Added>, Box<Origin>),
    /// The object is made and compared each time.
    Any,
}

/// Of which kind it is: what is stored may be a Secret.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Pod(..) => "<a pod>",
            Origin::Event(_) => "<an event>",
            Origin::Local(_) => "<a local object>",
            Origin::Stored(_) => "<a stored object>",
            Origin::StoredPod(..) => "<a stored pod>",
            Origin::Extended(..) => "<a pod with added containers>",
            Origin::Any => "<an object that is made each time>",
        })
    }
}

impl Origin {
    /// Whether both make the same object.
    #[must_use]
    pub fn is(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::Pod(a, b, c, d), Origin::Pod(e, f, g, h)) => {
                Arc::ptr_eq(a, e) && Arc::ptr_eq(b, f) && c == g && d == h
            }
            (Origin::Event(a), Origin::Event(b)) => Arc::ptr_eq(a, b),
            (Origin::Local(a), Origin::Local(b)) => Arc::ptr_eq(a, b),
            (Origin::Stored(a), Origin::Stored(b)) => Arc::ptr_eq(a, b),
            (Origin::StoredPod(a, c), Origin::StoredPod(b, d)) => Arc::ptr_eq(a, b) && c.is(d),
            (Origin::Extended(a, c), Origin::Extended(b, d)) => a == b && c.is(d),
            _ => false,
        }
    }
}

/// An object that is made when it is needed.
pub struct Fresh<'a> {
    pub origin: Origin,
    pub make: Box<dyn FnOnce() -> Value + 'a>,
}

impl<'a> Fresh<'a> {
    /// An object that was written over the API, in the form of `make`.
    fn stored(value: &Arc<Value>, make: impl FnOnce() -> Value + 'a) -> Fresh<'a> {
        Fresh { origin: Origin::Stored(Arc::clone(value)), make: Box::new(make) }
    }

    fn of(value: Value) -> Fresh<'a> {
        Fresh { origin: Origin::Any, make: Box::new(move || value) }
    }
}

/// All objects of one resource.
type Kind<'a> = Table<Key, Fresh<'a>>;

/// All objects of all resources.
#[must_use]
pub fn all<'a>(latest: &'a Latest, addresses: &'a [String], facts: &'a Facts) -> Vec<(Resource, Kind<'a>)> {
    let snapshot = &*latest.snapshot;
    vec![
        (Resource::Pods, pods(latest, addresses)),
        (
            Resource::Nodes,
            Table::from([(of_cluster(&snapshot.node), Fresh::of(node(snapshot, addresses, facts)))]),
        ),
        (Resource::Namespaces, namespaces(latest)),
        (Resource::Events, events(latest)),
        (Resource::ConfigMaps, locals(latest, ObjectKind::ConfigMap)),
        (Resource::Secrets, locals(latest, ObjectKind::Secret)),
        (Resource::Claims, locals(latest, ObjectKind::PersistentVolumeClaim)),
        (
            Resource::Leases,
            Table::from([((LEASES.to_owned(), snapshot.node.clone()), Fresh::of(lease(snapshot)))]),
        ),
    ]
}

fn of_cluster(name: &str) -> Key {
    (String::new(), name.to_owned())
}

/// The node's pods. Those that were written over the API are shown as written, with the node's status.
fn pods<'a>(latest: &'a Latest, addresses: &'a [String]) -> Kind<'a> {
    let (snapshot, stored) = (&*latest.snapshot, &*latest.stored);
    let mut all: Kind<'a> = Table::new();
    let of_api = stored.objects.iter().filter(|((resource, _), _)| *resource == Resource::Pods);
    for ((_, key), value) in of_api {
        all.insert(key.clone(), Fresh::stored(value, || pending(value)));
    }
    for view in &snapshot.pods {
        let key = (view.pod.key.namespace.clone(), view.pod.key.name.clone());
        let is_it = |value: &&'a Arc<Value>| {
            value.pointer("/metadata/uid").and_then(Value::as_str) == Some(&view.pod.uid)
        };
        let written = stored.leaving.get(&key).filter(is_it);
        let written = written.or_else(|| stored.objects.get(&(Resource::Pods, key.clone())).filter(is_it));
        let own = Origin::Pod(Arc::clone(&view.pod), Arc::clone(&view.status), view.leaving, view.stale);
        let fresh: Fresh<'a> = match written {
            None => Fresh { origin: own, make: Box::new(move || pod(snapshot, view, addresses)) },
            Some(value) => Fresh {
                origin: Origin::StoredPod(Arc::clone(value), Box::new(own)),
                make: Box::new(move || written_pod(value, &pod_value(view, addresses))),
            },
        };
        let has_some = view.status.ephemeral_container_statuses.is_some();
        let asked = latest.added.get(&view.pod.uid).cloned().unwrap_or_default();
        all.insert(key, if has_some || !asked.is_empty() { extended(fresh, asked) } else { fresh });
    }
    all
}

fn extended(fresh: Fresh<'_>, asked: Vec<Added>) -> Fresh<'_> {
    let Fresh { origin, make } = fresh;
    let origin = Origin::Extended(asked.clone(), Box::new(origin));
    let make = move || {
        let mut value = make();
        added::show(&mut value, &asked);
        value
    };
    Fresh { origin, make: Box::new(make) }
}

/// A pod that the node has not taken up yet.
fn pending(written: &Value) -> Value {
    let mut value = written.clone();
    *place(&mut value, &["status"]) = json!({"phase": "Pending"});
    value
}

/// The written pod with the status that the node sees.
fn written_pod(written: &Value, seen: &Value) -> Value {
    let mut value = written.clone();
    *place(&mut value, &["status"]) = part(seen, "/status").clone();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let known = part(&value, "/metadata").get(field).is_some();
        if let Some(leaving) = part(seen, "/metadata").get(field).filter(|_| !known) {
            *place(&mut value, &["metadata", field]) = leaving.clone();
        }
    }
    value
}

/// A pod of the status file, with the fields that an object of the API always has.
fn pod(snapshot: &Snapshot, view: &PodView, addresses: &[String]) -> Value {
    let mut value = pod_value(view, addresses);
    let started = value.pointer("/status/startTime").and_then(Value::as_str).map(str::to_owned);
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        let created = || Value::from(started.unwrap_or_else(|| begun(snapshot)));
        metadata.entry("creationTimestamp").or_insert_with(created);
    }
    value
}

fn node(snapshot: &Snapshot, addresses: &[String], facts: &Facts) -> Value {
    let mut node = About::of_snapshot(snapshot, addresses, env!("CARGO_PKG_VERSION")).object(facts);
    // Not its name, which the kubelet's events have as its UID: `kubectl describe node` prints those of both.
    *place(&mut node, &["metadata", "uid"]) = made_uid(&["Node", &snapshot.node]).into();
    node
}

fn namespaces<'a>(latest: &'a Latest) -> Kind<'a> {
    let snapshot = &*latest.snapshot;
    let of_pods = snapshot.pods.iter().map(|view| view.pod.key.namespace.as_str());
    let of_objects = latest.objects.keys().map(|(_, key)| key.namespace.as_str());
    let stored = &latest.stored.objects;
    let of_stored = stored.keys().filter(|(resource, _)| *resource != Resource::Namespaces);
    let of_stored = of_stored.map(|(_, key)| key.0.as_str());
    let names =
        crate::base::order::set(NAMESPACES.into_iter().chain(of_pods).chain(of_objects).chain(of_stored));
    let fresh = |name: &str| {
        let value = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": namespace_uid(name),
                "creationTimestamp": begun(snapshot),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        (of_cluster(name), Fresh::of(value))
    };
    let mut all: Kind<'a> = names.into_iter().map(fresh).collect();
    for ((_, key), value) in stored.iter().filter(|((resource, _), _)| *resource == Resource::Namespaces) {
        let active = || {
            let mut value = Value::clone(value);
            *place(&mut value, &["status"]) = json!({"phase": "Active"});
            value
        };
        all.insert(key.clone(), Fresh::stored(value, active));
    }
    all
}

/// The UID of a namespace, whether it was written or is only used.
#[must_use]
pub fn namespace_uid(name: &str) -> String {
    made_uid(&["Namespace", name])
}

fn events<'a>(latest: &'a Latest) -> Kind<'a> {
    let fresh = |kept: &'a Arc<Kept>| {
        let object = EventObject::new(kept, &latest.snapshot.node);
        let key = (object.metadata.namespace.clone(), object.metadata.name.clone());
        (key, Fresh { origin: Origin::Event(Arc::clone(kept)), make: Box::new(move || event(&object)) })
    };
    latest.events.iter().map(fresh).collect()
}

fn event(object: &EventObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
    *place(&mut value, &["metadata", "uid"]) = made_uid(&["Event", namespace, name]).into();
    *place(&mut value, &["reportingComponent"]) = object.source.component.clone().into();
    *place(&mut value, &["reportingInstance"]) = object.source.host.clone().into();
    value
}

/// Local objects. When two sources have an object of one name, the first source's is shown.
fn locals<'a>(latest: &'a Latest, kind: ObjectKind) -> Kind<'a> {
    let mut all: Kind<'a> = Table::new();
    let resource = match kind {
        ObjectKind::ConfigMap => Resource::ConfigMaps,
        ObjectKind::Secret => Resource::Secrets,
        ObjectKind::PersistentVolumeClaim => Resource::Claims,
    };
    for ((_, key), value) in latest.stored.objects.iter().filter(|((of, _), _)| *of == resource) {
        all.insert(key.clone(), Fresh::stored(value, move || bound(value)));
    }
    for source in [Source::Http, Source::File] {
        for ((_, key), object) in
            latest.objects.iter().filter(|((of, key), _)| *of == source && key.kind == kind)
        {
            let origin = Origin::Local(Arc::clone(object));
            let make = Box::new(move || local_objects::value(object, &begun(&latest.snapshot)));
            all.insert((key.namespace.clone(), key.name.clone()), Fresh { origin, make });
        }
    }
    all
}

/// A written object with its status: a claim is bound, others have none.
fn bound(written: &Value) -> Value {
    let mut value = written.clone();
    if value.get("kind").and_then(Value::as_str) == Some("PersistentVolumeClaim") {
        *place(&mut value, &["status"]) = json!({
            "phase": "Bound",
            "accessModes": written.pointer("/spec/accessModes"),
            "capacity": {"storage": written.pointer("/spec/resources/requests/storage")},
        });
    }
    value
}

/// A renewed lease: while the API answers, the node is alive.
#[must_use]
pub fn renewed(lease: &Value, now: Timestamp) -> Value {
    let mut lease = lease.clone();
    *place(&mut lease, &["spec", "renewTime"]) = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
    lease
}

fn lease(snapshot: &Snapshot) -> Value {
    json!({
        "apiVersion": kinds::of(Resource::Leases).map(kinds::Kind::api_version),
        "kind": "Lease",
        "metadata": {
            "name": snapshot.node,
            "namespace": LEASES,
            "uid": made_uid(&["Lease", &snapshot.node]),
            "creationTimestamp": begun(snapshot),
        },
        "spec": {
            "holderIdentity": snapshot.node,
            "leaseDurationSeconds": LEASE_SECONDS,
        },
    })
}
