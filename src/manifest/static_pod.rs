//! Turns a decoded pod into a static pod of this node: UID, name suffix, namespace, node, annotations,
//! toleration, phase (upstream `pkg/kubelet/config/common.go`).

use k8s_openapi::api::core::v1::{PodSpec, PodStatus, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::path::{Path, Report, quoted, required};
use super::validate::names;
use super::{Context, hash, tree};
use crate::node::{devices, runtimes};
use crate::pod::Source;
use crate::pod::qos;

/// Annotation: the pod's source: `file`, `http`, `api`.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation: the static pod's UID.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation: when the pod was first seen, wall time, set by the merge: for display, no decision depends on
/// it.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Annotation of mirror pods only: the static pod's hash.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// [`crate::pod::DesiredPod::written`] and [`crate::pod::DesiredPod::shape`].
pub(crate) struct Hashes {
    pub written: Option<String>,
    pub shape: Option<String>,
}

/// Changes metadata and spec, as written and defaulted, into those of a static pod. `report` is at the pod.
pub(crate) fn apply(
    meta: &mut ObjectMeta,
    spec: &mut PodSpec,
    context: &Context<'_>,
    report: &mut Report<'_>,
) -> (PodStatus, Hashes) {
    let root = Path::ROOT;
    let metadata = root.field("metadata");
    match meta.name.as_deref().unwrap_or_default() {
        "" => report.error(&metadata.field("name"), required("name is needed for the pod")),
        // The API's names need no suffix.
        _ if context.source == Source::Api => {}
        name => meta.name = Some(format!("{name}-{}", context.node_name.to_ascii_lowercase())),
    }
    if meta.namespace.as_deref().unwrap_or_default().is_empty() {
        meta.namespace = Some("default".to_owned());
    }
    // Hashes the text as written, not as decoded: a default or field of a later version changes no identity
    // (kubernetes/kubernetes#63814).
    let canonical = tree::canonical(report.root());
    let written = hash::fnv1a_128_hex(&[&canonical]);
    let given = meta.uid.take().filter(|uid| !uid.is_empty()).map(|uid| usable(uid, context, report));
    let written = given.is_none().then_some(written);
    let shape = given.is_none().then(|| hash::shape(&tree::without_sizes(report.root()), qos::class(spec)));
    let uid = given.unwrap_or_else(|| {
        let host = Some(context.node_name).filter(|_| context.source == Source::File);
        hash::pod_uid(&canonical, host, context.path)
    });
    meta.uid = Some(uid.clone());
    // The kubelet overwrites another node's name and runs the pod. Here the name stays, and admission
    // refuses the pod with reason NodeName: a manifest that names another node is not meant for this one.
    if spec.node_name.as_deref().unwrap_or_default().is_empty() {
        spec.node_name = Some(context.node_name.to_owned());
    }
    // The creation time is another cluster's, or made up.
    meta.creation_timestamp = None;
    let annotations = meta.annotations.get_or_insert_default();
    let own = [CONFIG_SOURCE, CONFIG_HASH, CONFIG_SEEN, CONFIG_MIRROR, devices::ASSIGNED];
    for key in own.into_iter().chain([runtimes::HANDLER, runtimes::RUNTIME]) {
        if annotations.remove(key).is_some() {
            let path = metadata.field("annotations");
            report.warning(&path.key(key), "is ignored: podkeeper sets this annotation itself");
        }
    }
    if context.source != Source::Api {
        annotations.insert(CONFIG_HASH.to_owned(), uid);
    }
    annotations.insert(CONFIG_SOURCE.to_owned(), context.source.as_str().to_owned());
    if context.source == Source::File {
        tolerate_no_execute(spec);
    }
    (PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() }, Hashes { written, shape })
}

/// The UID that a manifest gives, or the hash of a text that cannot be a part of paths and container names. So an edit
/// keeps the UID, and two pods with the same text have one UID.
fn usable(uid: String, context: &Context<'_>, report: &mut Report<'_>) -> String {
    // The API's UIDs are refused instead: an object with another UID would be another object.
    if context.source == Source::Api || names::uid(&uid).is_ok() {
        return uid;
    }
    let made = hash::fnv1a_128_hex(&["metadata.uid:", &uid]);
    let message = format!("{} cannot be a part of paths: the pod has the UID {made}", quoted(&uid));
    report.warning(&Path::ROOT.field("metadata").field("uid"), message);
    made
}

/// Adds `{operator: Exists, effect: NoExecute}`; a matching one is replaced, not duplicated.
fn tolerate_no_execute(spec: &mut PodSpec) {
    let ours = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let same = |t: &Toleration| {
        let text = |s: &Option<String>| s.clone().unwrap_or_default();
        text(&t.key).is_empty()
            && text(&t.value).is_empty()
            && t.operator == ours.operator
            && t.effect == ours.effect
    };
    let list = spec.tolerations.get_or_insert_default();
    list.retain(|t| !same(t));
    list.push(ours);
}
