//! Decodes the bytes of a manifest into pods, local objects and problems. Pure: no file is read here, and no
//! name is looked up.
//!
//! [`decode`] is the daemon's only entry: syntax, types, defaults, validation, static-pod rules (upstream
//! `pkg/kubelet/config/common.go`). [`inspect`] does the same for commands that only show a manifest. A file
//! is accepted whole or not at all, and a file without an object is an error: a half-written, empty file must
//! never mean that no pods are wanted.

pub(crate) mod base64;
mod defaults;
pub mod edition;
pub(crate) mod fields;
pub mod hash;
mod object;
mod path;
mod places;
mod references;
mod scalar;
pub mod selectors;
pub mod static_pod;
pub mod support;
mod times;
pub(crate) mod tree;
mod types;
mod unknown;
mod validate;
pub(crate) mod yaml;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::table::Set;
use crate::base::{limits, order};
use crate::manifest::edition::Claim;
use crate::pod::object::{LocalObject, ObjectKind};
use crate::pod::problem::{Problem, Refused, Severity};
use crate::pod::{DesiredPod, Origin, PodKey, Source};
pub use defaults::pull_policy;
pub(crate) use path::quoted;
use path::{Path, Report, written_name};
pub use places::places;
use tree::{Node, Place};
pub use validate::stored_metadata;

/// Input of the rules besides the bytes.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Lower-case node name: suffix of static pods' names, part of their UID.
    pub node_name: &'a str,
    /// The source of the bytes.
    pub source: Source,
    /// File path or URL the bytes came from.
    pub path: &'a str,
}

/// The content of one file (or body). A file is accepted whole or not at all: when any problem is an error,
/// `pods` is empty and the caller keeps the previous content of this path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decoded {
    /// The pods, in document order.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Local objects, in document order.
    pub objects: Vec<Arc<LocalObject>>,
    /// Well-formed pods that the policy refuses (`source::accept` moves them here).
    pub refused: Vec<Refused>,
    /// Errors and warnings, in order of place.
    pub problems: Vec<Problem>,
    /// Bytes that the lists of its pods take: many times their text, where elements are short.
    pub lists: usize,
    /// Where signatures are required: the signer's claim (`source::accept` puts it here).
    pub signed: Option<Box<Claim>>,
}

impl Decoded {
    /// True when no problem is an error.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.iter().all(|p| p.severity != Severity::Error)
    }
}

/// Decodes a manifest: YAML or JSON (by content; JSON is YAML), many documents, of pods, local objects and
/// lists of them.
#[must_use]
pub fn decode(bytes: &[u8], context: &Context<'_>) -> Decoded {
    let mut decoded = Decoded::default();
    read(bytes, context, Rules::OfDaemon, &mut |file| decoded = file.finish());
    decoded
}

/// The content of one YAML document.
///
/// # Errors
/// The bytes are not a single YAML document.
pub fn yaml_value(bytes: &[u8]) -> Result<serde_json::Value, String> {
    let documents = yaml::text(bytes).and_then(yaml::documents).map_err(|error| error.message)?;
    match documents.as_slice() {
        [document] => Ok(document.to_value()),
        _ => Err("there must be one document".to_owned()),
    }
}

/// Which problems are errors when a manifest is only inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Everything for which the daemon would refuse it.
    OfDaemon,
    /// Only bad syntax, kinds and types. Unsupported fields, fields that static pods may not have, and fields
    /// that the API's validation refuses give warnings.
    OfSyntax,
}

/// The content of a manifest that is only inspected.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// Pods without an error, in document order, even when another document of the file has one.
    pub pods: Vec<Inspected>,
    /// Local objects without an error.
    pub objects: Vec<Arc<LocalObject>>,
    /// Errors and warnings, in order of place.
    pub problems: Vec<Problem>,
}

/// A pod and the text it was read from.
#[derive(Debug, Clone)]
pub struct Inspected {
    pub pod: Arc<DesiredPod>,
    /// Its text as a tree.
    pub(crate) text: Node,
}

/// Decodes a manifest for inspection, not to run it.
#[must_use]
pub fn inspect(bytes: &[u8], context: &Context<'_>, rules: Rules) -> Inspection {
    let mut found = Inspection::default();
    read(bytes, context, rules, &mut |file| found = file.inspected());
    found
}

fn read(bytes: &[u8], context: &Context<'_>, rules: Rules, finish: &mut dyn FnMut(File<'_>)) {
    let documents = yaml::text(bytes).and_then(|text| yaml::documents(text).map_err(|e| html(text, e)));
    let mut file = File {
        context,
        rules,
        room: limits::DECODED_MANIFEST,
        count: 0,
        pods: Vec::new(),
        objects: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    match &documents {
        Ok(documents) if documents.is_empty() => file.error(Some((1, 1)), "no object in the file"),
        Ok(documents) => documents.iter().for_each(|document| file.object(document, None)),
        Err(e) => file.error(e.at, &e.message),
    }
    finish(file);
}

/// Reports a web server's error page as HTML instead of as a YAML error.
fn html(text: &str, error: yaml::SyntaxError) -> yaml::SyntaxError {
    if text.trim_start().starts_with('<') {
        let message = "this is HTML or XML, not a manifest".to_owned();
        return yaml::SyntaxError { at: Some((1, 1)), message };
    }
    error
}

/// Kinds that users often put into the same file as a pod.
const OTHER_KINDS: &[&str] = &[
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Ingress",
    "Job",
    "Namespace",
    "PersistentVolume",
    "ReplicaSet",
    "ReplicationController",
    "Service",
    "ServiceAccount",
    "StatefulSet",
];

/// True for a kind that is accepted with the right apiVersion.
fn is_known(kind: &str) -> bool {
    let single = kind.strip_suffix("List").unwrap_or(kind);
    matches!(single, "Pod" | "") || object::kind(single).is_some()
}

/// A file that is being decoded.
struct File<'n> {
    context: &'n Context<'n>,
    rules: Rules,
    /// Bytes that lists of further pods may take.
    room: usize,
    /// Number of pods so far, including refused ones.
    count: usize,
    /// Pods without an error, each with its text.
    pods: Vec<(Arc<DesiredPod>, &'n Node)>,
    objects: Vec<Arc<LocalObject>>,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'n> File<'n> {
    fn error(&mut self, at: Option<Place>, message: &str) {
        let path = self.context.path.to_owned();
        let message = message.to_owned();
        self.errors.push(Problem { severity: Severity::Error, path, at, pod: None, field: None, message });
    }

    /// A document, or an item of a list whose items are of kind `implied`.
    fn object(&mut self, node: &'n Node, implied: Option<(&'n str, &'n str)>) {
        if !matches!(node.data, tree::Data::Map(_)) {
            let found = match node.as_str() {
                Some(text) if text.starts_with('<') => "HTML or XML".to_owned(),
                // The text is not repeated: it may be part of a cut-off Secret.
                _ => node.kind().to_owned(),
            };
            return self.error(
                Some(node.at),
                &format!("expected an object with apiVersion and kind, found {found}"),
            );
        }
        let Some(version) = self.word(node, "apiVersion", implied.map(|i| i.0)) else { return };
        let Some(kind) = self.word(node, "kind", implied.map(|i| i.1)) else { return };
        // `/v1` is version v1 of the group with the empty name.
        let version = version.strip_prefix('/').unwrap_or(version);
        match (version, kind) {
            ("v1", "Pod") => self.pod(node),
            ("v1", "PodList") => self.list(node, Some(("v1", "Pod"))),
            ("v1", "List") => self.list(node, None),
            ("v1", "ConfigMapList") => self.list(node, Some(("v1", "ConfigMap"))),
            ("v1", "SecretList") => self.list(node, Some(("v1", "Secret"))),
            ("v1", "PersistentVolumeClaimList") => {
                self.list(node, Some(("v1", "PersistentVolumeClaim")));
            }
            ("v1", _) if object::kind(kind).is_some() => {
                if let Some(kind) = object::kind(kind) {
                    self.local(node, kind);
                }
            }
            (_, kind) if is_known(kind) => {
                let place = node.place(&Path::ROOT.field("apiVersion"));
                let message =
                    format!("apiVersion {} of kind {kind} is not known; it must be v1", quoted(version));
                self.error(Some(place), &message);
            }
            _ => {
                let place = node.place(&Path::ROOT.field("kind"));
                let known = OTHER_KINDS.contains(&kind);
                let why = if known {
                    "this version of podkeeper takes only Pods, ConfigMaps, Secrets and PersistentVolumeClaims"
                } else {
                    "it must be Pod, ConfigMap, Secret or PersistentVolumeClaim, or a List of them"
                };
                self.error(Some(place), &format!("kind {} is not supported: {why}", quoted(kind)));
            }
        }
    }

    /// Reads `apiVersion` or `kind`. Reports a missing one.
    fn word(&mut self, node: &'n Node, key: &str, implied: Option<&'n str>) -> Option<&'n str> {
        // Upstream accepts the keys of these two words, and only these, in any case.
        let any_case = || node.entries().iter().find(|entry| entry.key.eq_ignore_ascii_case(key));
        let written = node.get(key).or_else(|| any_case().map(|entry| &entry.value));
        match written.filter(|n| !n.is_null()) {
            Some(value) => {
                let word = value.as_str().filter(|word| !word.is_empty());
                if word.is_none() {
                    self.error(Some(value.at), &format!("{key} must be a text, not {}", value.kind()));
                }
                word
            }
            None if implied.is_some() => implied,
            None => {
                self.error(
                    Some(node.at),
                    &format!("{key} is missing; a pod has apiVersion: v1 and kind: Pod"),
                );
                None
            }
        }
    }

    fn list(&mut self, node: &'n Node, implied: Option<(&'n str, &'n str)>) {
        match node.get("items") {
            // An empty list means "no pods".
            Some(items) if matches!(items.data, tree::Data::List(_)) => {
                items.items().iter().for_each(|item| match item.get("kind").and_then(Node::as_str) {
                    Some(kind) if kind.ends_with("List") && is_known(kind) => {
                        self.error(Some(item.at), "a list may not stand in a list");
                    }
                    _ => self.object(item, implied),
                });
            }
            Some(items) => self.error(Some(items.at), &format!("items must be a list, not {}", items.kind())),
            None => self.error(Some(node.at), "items is missing; an empty list is written as items: []"),
        }
    }

    fn pod(&mut self, node: &'n Node) {
        let document = u32::try_from(self.count).unwrap_or(u32::MAX);
        if self.count >= limits::PODS_PER_SOURCE {
            let message = format!("more than {} pods in one file", limits::PODS_PER_SOURCE);
            if self.errors.last().is_none_or(|e| e.message != message) {
                self.error(Some(node.at), &message);
            }
            return;
        }
        let origin = Origin { path: self.context.path.to_owned(), document };
        let mut report = Report::new(self.context.path, written_name(node), node);
        report.room = self.room;
        let pod = pod(origin, self.context, self.rules, &mut report);
        self.room = report.room;
        let good = self.report(report);
        self.count = self.count.saturating_add(1);
        self.pods.extend(pod.filter(|_| good).map(|pod| (Arc::new(pod), node)));
    }

    fn local(&mut self, node: &Node, kind: ObjectKind) {
        let document = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        if self.objects.len() >= limits::OBJECTS_PER_SOURCE {
            let message = format!("more than {} local objects in one file", limits::OBJECTS_PER_SOURCE);
            if self.errors.last().is_none_or(|e| e.message != message) {
                self.error(Some(node.at), &message);
            }
            return;
        }
        let origin = Origin { path: self.context.path.to_owned(), document };
        let name = written_name(node).map(|name| format!("{} {name}", kind.as_str()));
        let mut report = Report::new(self.context.path, name, node);
        if self.rules == Rules::OfSyntax {
            report.downgrade_errors();
        }
        let object = object::object(kind, origin, self.context, &mut report);
        let good = self.report(report);
        self.objects.extend(object.filter(|_| good).map(Arc::new));
    }

    /// Adds the report's problems; returns whether there was no error.
    fn report(&mut self, report: Report<'_>) -> bool {
        let mut good = true;
        for problem in report.into_problems() {
            let list = match problem.severity {
                Severity::Error => {
                    good = false;
                    &mut self.errors
                }
                Severity::Warning => &mut self.warnings,
            };
            if list.len() < limits::PROBLEMS_PER_FILE {
                list.push(problem);
            }
        }
        good
    }

    fn finish(self) -> Decoded {
        let whole = self.errors.is_empty();
        let pods = self.pods.iter().filter(|_| whole).map(|(pod, _)| Arc::clone(pod)).collect();
        let objects = if whole { self.objects } else { Vec::new() };
        let lists = limits::DECODED_MANIFEST.saturating_sub(self.room);
        Decoded { pods, objects, lists, problems: in_order(self.errors, self.warnings), ..Decoded::default() }
    }

    fn inspected(self) -> Inspection {
        let pods = self.pods.into_iter().map(|(pod, text)| Inspected { pod, text: text.clone() }).collect();
        Inspection { pods, objects: self.objects, problems: in_order(self.errors, self.warnings) }
    }
}

/// Keeps errors first if there are too many problems, so that warnings cannot hide one.
fn in_order(mut problems: Vec<Problem>, warnings: Vec<Problem>) -> Vec<Problem> {
    problems.extend(warnings);
    let is_full = problems.len() >= limits::PROBLEMS_PER_FILE;
    problems.truncate(limits::PROBLEMS_PER_FILE);
    order::sort_by_key(&mut problems, |p| p.at);
    // Further ones are not counted.
    let more = problems.last().filter(|_| is_full).map(|last| Problem {
        severity: Severity::Warning,
        path: last.path.clone(),
        at: None,
        pod: None,
        field: None,
        message: format!("no more than {} problems of one file are shown", limits::PROBLEMS_PER_FILE),
    });
    problems.extend(more);
    problems
}

/// One pod, if its types fit; further problems are in the report.
fn pod(origin: Origin, context: &Context<'_>, rules: Rules, report: &mut Report<'_>) -> Option<DesiredPod> {
    let room = report.room;
    // A value of the wrong type is dropped, so that it does not hide other problems.
    let mut metadata: ObjectMeta = types::field("metadata", report);
    let mut spec: PodSpec = types::field("spec", report);
    // It has no effect, but must be one.
    let _: PodStatus = types::field("status", report);
    let fits = report.is_good();
    if rules == Rules::OfSyntax {
        report.downgrade_errors();
    }
    unknown::fields(&metadata, &spec, report);
    defaults::apply(&mut spec);
    let (status, static_pod::Hashes { written, shape }) =
        static_pod::apply(&mut metadata, &mut spec, context, report);
    validate::pod(&metadata, &spec, report);
    references::check(&spec, context.source, report);
    support::check(report);
    if !fits {
        return None;
    }
    let key =
        PodKey { namespace: metadata.namespace.clone()?, name: metadata.name.clone().unwrap_or_default() };
    let uid = metadata.uid.clone()?;
    let (source, spec) = (context.source, Arc::new(spec));
    let (withheld, ceiling) = (Set::new(), i32::MAX);
    let weight = room.saturating_sub(report.room).saturating_add(report.root().texts());
    Some(DesiredPod {
        key,
        uid,
        written,
        shape,
        source,
        origin,
        metadata,
        spec,
        status,
        withheld,
        ceiling,
        weight,
    })
}
