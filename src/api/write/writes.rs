//! Writes: create, replace, patch and delete, with the rules of an API server
//! (`apiserver/pkg/registry/generic/registry`). Objects of files or the URL are not written: the client is told where
//! they come from.

use std::fmt;
use std::sync::Arc;

use crate::base::json::json;
use serde_json::Value;

use super::added::Maker;
use super::form::{self, Validation};
use super::managed::{self, By};
use super::patch;
use super::written::{elsewhere, grace_left, is_shadowed, made_up, remove, uid, without_live};
use crate::api::failure::Failure;
use crate::api::holdings::{Change, Holdings, Id, problems};
use crate::api::kinds::{Kind, Resource};
use crate::api::path::Target;
use crate::api::value::{part, place};
use crate::api::world::{Object, World, set_version};
use crate::base::clock::{Clock as _, System};
use crate::manifest::Decoded;
use crate::server::http::query::Query;

/// The writes of the API.
pub struct Writes {
    pub holdings: Holdings,
    pub world: Arc<World>,
    /// Adds containers to pods.
    pub maker: Maker,
}

/// The answer to a write.
pub struct Done {
    pub code: u16,
    pub value: Value,
    pub warnings: Vec<String>,
}

/// Without the value, which may be a Secret's.
impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}, warnings {:?}>", self.code, self.warnings)
    }
}

/// How a write is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) dry: bool,
    validation: Validation,
}

impl How {
    pub(super) fn read(query: &Query) -> Result<How, Failure> {
        let dry = match query.get("dryRun") {
            None | Some("") => false,
            Some("All") => true,
            Some(other) => {
                return Err(Failure::new(
                    422,
                    format!("dryRun: Unsupported value: {other:?}: supported values: \"All\""),
                ));
            }
        };
        Ok(How { dry, validation: Validation::parse(query.get("fieldValidation"))? })
    }
}

/// The origin of a new version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The client sent it, or a patch; with the manager.
    Replace(&'a str),
    Patch(&'a str),
    /// A patch of containers' resources alone.
    Resize(&'a str),
    /// Server-side apply, which has already noted the owners.
    Apply,
}

/// The place of the containers that were added to a pod.
const ADDED: &str = "/spec/ephemeralContainers";

/// An object that may be stored.
struct Checked {
    value: Value,
    decoded: Decoded,
    warnings: Vec<String>,
}

impl Writes {
    /// Makes an object.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn create(&self, target: Target<'_>, query: &Query, body: Value) -> Result<Done, Failure> {
        let mut body = self.meant(target, body)?;
        remove(place(&mut body, &["metadata"]), "managedFields");
        self.make(&mut self.holdings.begin()?, target, query, body)
    }

    /// Makes an object that does not exist.
    ///
    /// # Errors
    /// The reason of the failure.
    pub(super) fn make(
        &self,
        change: &mut Change<'_>,
        target: Target<'_>,
        query: &Query,
        mut body: Value,
    ) -> Result<Done, Failure> {
        let how = How::read(query)?;
        let kind = target.kind;
        if body.pointer("/metadata/resourceVersion").and_then(Value::as_str).is_some_and(|v| !v.is_empty()) {
            return Err(Failure::new(400, "resourceVersion should not be set on objects to be created"));
        }
        if body.pointer(ADDED).and_then(Value::as_array).is_some_and(|added| !added.is_empty()) {
            let why = "spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in create";
            return Err(Failure::new(422, format!("{} is invalid: {why}", kind.kind)));
        }
        let named = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let name = match body.pointer("/metadata/generateName").and_then(Value::as_str) {
            Some(beginning) if named.is_empty() && !beginning.is_empty() => made_up(beginning),
            _ => named.to_owned(),
        };
        let namespace = target.namespace.unwrap_or_default();
        let id = (kind.resource, (namespace.to_owned(), name.clone()));
        let now = crate::status::seconds(System::start().now().wall).0.to_string();
        *place(&mut body, &["metadata", "name"]) = name.clone().into();
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
            remove(place(&mut body, &["metadata"]), field);
        }
        *place(&mut body, &["metadata", "uid"]) = uid().into();
        *place(&mut body, &["metadata", "creationTimestamp"]) = now.into();
        {
            let state = self.world.now();
            if kind.namespaced && state.get(Resource::Namespaces, "", namespace).is_none() {
                let kind = crate::api::kinds::of(Resource::Namespaces).unwrap_or(kind);
                return Err(Failure::not_found(kind, namespace));
            }
            if let Some(there) = state.get(kind.resource, namespace, &name) {
                let going = there.value.pointer("/metadata/deletionTimestamp").is_some();
                let what = if going { "object is being deleted: " } else { "" };
                let why = format!("{what}{} {name:?} already exists", kind.qualified());
                return Err(Failure { reason: "AlreadyExists", ..Failure::of(409, kind, &name, why) });
            }
        }
        let checked = self.check(&id, kind, body, how, false)?;
        self.put(change, &id, checked, how, None, 201)
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn replace(
        &self,
        target: Target<'_>,
        name: &str,
        query: &Query,
        manager: &str,
        body: Value,
    ) -> Result<Done, Failure> {
        let body = self.meant(target, body)?;
        let mut change = self.holdings.begin()?;
        let live = self.live(&change, target, name)?;
        self.update(&mut change, target.kind, name, &live, body, query, Origin::Replace(manager))
    }

    /// Patches an object. `content` is the type of the body.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn patch(
        &self,
        target: Target<'_>,
        name: &str,
        query: &Query,
        content: Option<&str>,
        manager: &str,
        body: &Value,
    ) -> Result<Done, Failure> {
        let by = patch::Kind::of(content)?;
        if query.get("force").is_some() {
            return Err(Failure::new(422, "force: Forbidden: may not be specified for non-apply patch"));
        }
        let mut change = self.holdings.begin()?;
        let live = self.live(&change, target, name)?;
        let patched = by.apply(target.kind.kind, &live.value, body)?;
        self.update(&mut change, target.kind, name, &live, patched, query, Origin::Patch(manager))
    }

    /// The body, if it has the kind and the namespace of the path.
    pub(super) fn meant(&self, target: Target<'_>, mut body: Value) -> Result<Value, Failure> {
        let kind = target.kind;
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).unwrap_or_default();
        if !body.is_object() {
            return Err(Failure::new(400, "the body of the request must be an object"));
        }
        let (version, of) = (text("/apiVersion"), text("/kind"));
        if !["", kind.kind].contains(&of)
            || !["".to_owned(), kind.api_version()].contains(&version.to_owned())
        {
            let why = format!(
                "the object provided is unrecognized (must be of type {}): {version}, kind {of}",
                kind.kind
            );
            return Err(Failure::new(400, why));
        }
        let namespace = text("/metadata/namespace");
        if kind.namespaced && !namespace.is_empty() && target.namespace != Some(namespace) {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::new(400, why));
        }
        let name = text("/metadata/name");
        if let Some(wanted) = target.name.filter(|wanted| *wanted != name) {
            let why =
                format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
            return Err(Failure::new(400, why));
        }
        if !body.get("metadata").is_some_and(Value::is_object) {
            *place(&mut body, &["metadata"]) = json!({});
        }
        match target.namespace {
            Some(namespace) => *place(&mut body, &["metadata", "namespace"]) = namespace.into(),
            None => remove(place(&mut body, &["metadata"]), "namespace"),
        }
        Ok(body)
    }

    pub(super) fn found(&self, target: Target<'_>, name: &str) -> Result<Arc<Object>, Failure> {
        crate::api::reads::get(&self.world.now(), target.kind, target.namespace, name)
    }

    /// The live object, if it may be written.
    pub(super) fn live(
        &self,
        change: &Change<'_>,
        target: Target<'_>,
        name: &str,
    ) -> Result<Arc<Object>, Failure> {
        let live = self.found(target, name)?;
        let id = (target.kind.resource, (target.namespace.unwrap_or_default().to_owned(), name.to_owned()));
        let stored = change.get(&id);
        let is_shown = |stored: &Arc<Value>| !is_shadowed(stored, &live.value);
        if target.kind.resource == Resource::Namespaces || stored.as_ref().is_some_and(is_shown) {
            return Ok(live);
        }
        if stored.is_none() && live.value.pointer("/metadata/deletionTimestamp").is_some() {
            let why = format!(
                "Operation cannot be fulfilled on {} {name:?}: it is being deleted",
                target.kind.plural
            );
            return Err(Failure::of(409, target.kind, name, why));
        }
        Err(elsewhere(target.kind, name, &live.value, &self.world))
    }

    /// Checks an object as the node reads it.
    fn check(&self, id: &Id, kind: &Kind, body: Value, how: How, is_patch: bool) -> Result<Checked, Failure> {
        let name = &id.1.1;
        form::check_depth(&body)?;
        let (mut value, unknown) = form::typed(kind, &body)?;
        let mut warnings = how.validation.judge(kind, &unknown, is_patch)?;
        without_live(&mut value);
        form::complete(kind, &mut value);
        let decoded = self.holdings.decode(id, &value);
        form::bind(kind, &mut value);
        let (of_manifest, told) = problems(&decoded);
        let mut errors = form::metadata_errors(kind, &value);
        errors.extend(of_manifest);
        if !errors.is_empty() {
            return Err(Failure::invalid(kind, name, &errors));
        }
        if let Some(refused) = decoded.refused.first() {
            let why =
                format!("{} {name:?} is forbidden: {}: {}", kind.plural, refused.reason, refused.message);
            return Err(Failure::of(403, kind, name, why));
        }
        warnings.extend(told);
        if let Some(pod) = decoded.pods.first() {
            *place(&mut value, &["spec"]) = serde_json::to_value(&*pod.spec).unwrap_or_default();
            self.holdings.check_again(id, &value)?;
        }
        Ok(Checked { value, decoded, warnings })
    }

    #[expect(clippy::too_many_arguments, reason = "what a write is about")]
    pub(super) fn update(
        &self,
        change: &mut Change<'_>,
        kind: &Kind,
        name: &str,
        live: &Object,
        mut new: Value,
        query: &Query,
        by: Origin<'_>,
    ) -> Result<Done, Failure> {
        let how = How::read(query)?;
        let conflict = |why: &str| {
            let why = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
            Failure::of(409, kind, name, why)
        };
        let text = |value: &Value, path: &str| {
            value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let version = text(&new, "/metadata/resourceVersion");
        if !version.is_empty() && version != live.version.to_string() {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(conflict(why));
        }
        let uid = text(&new, "/metadata/uid");
        if !uid.is_empty() && uid != text(&live.value, "/metadata/uid") {
            return Err(conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(&live.value, "/metadata/uid")
            )));
        }
        fixed(kind, name, &live.value, &mut new)?;
        let namespace = text(&live.value, "/metadata/namespace");
        let id = (kind.resource, (namespace, name.to_owned()));
        if part(&new, "/metadata").get("managedFields").is_none()
            && let Some(owners) = part(&live.value, "/metadata").get("managedFields")
        {
            *place(&mut new, &["metadata", "managedFields"]) = owners.clone();
        }
        let is_patch = matches!(by, Origin::Patch(_) | Origin::Resize(_));
        let mut before = live.value.clone();
        without_live(&mut before);
        let mut checked = self.check(&id, kind, new, how, is_patch)?;
        if let Origin::Replace(manager) | Origin::Patch(manager) | Origin::Resize(manager) = by {
            let now = crate::status::seconds(System::start().now().wall).0.to_string();
            managed::updated(kind, &before, &mut checked.value, By { manager, now: &now });
        }
        if !matches!(by, Origin::Resize(_)) {
            form::check_update(kind, name, &before, &checked.value)?;
        }
        // Warnings about the previous version are not repeated; filled-in defaults are not the client's.
        let known = problems(&self.holdings.decode(&id, &before)).1;
        checked.warnings.retain(|warning| !known.contains(warning));
        if before == checked.value {
            return Ok(Done { code: 200, value: live.value.clone(), warnings: checked.warnings });
        }
        let is_free = |value: &Value| {
            value.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
        };
        if checked.value.pointer("/metadata/deletionTimestamp").is_some()
            && is_free(&checked.value)
            && !how.dry
        {
            return let_go(change, &id, checked);
        }
        self.put(change, &id, checked, how, Some(live), 200)
    }

    /// Stores an object, unless nothing is to be stored, and returns the result.
    fn put(
        &self,
        change: &mut Change<'_>,
        id: &Id,
        checked: Checked,
        how: How,
        live: Option<&Object>,
        code: u16,
    ) -> Result<Done, Failure> {
        let Checked { value, decoded, warnings } = checked;
        if how.dry {
            let mut shown = value;
            if let Some(live) = live {
                set_version(&mut shown, live.version);
                if let Some(status) = live.value.get("status") {
                    *place(&mut shown, &["status"]) = status.clone();
                }
                if let Some(added) = live.value.pointer(ADDED) {
                    *place(&mut shown, &["spec", "ephemeralContainers"]) = added.clone();
                }
            }
            return Ok(Done { code, value: shown, warnings });
        }
        change.put(id, value.clone(), decoded)?;
        let shown = self.world.now().get(id.0, &id.1.0, &id.1.1);
        Ok(Done { code, value: shown.map_or(value, |object| object.value.clone()), warnings })
    }
}

/// Removes an object whose last finalizer is gone.
fn let_go(change: &mut Change<'_>, id: &Id, checked: Checked) -> Result<Done, Failure> {
    let Checked { value, warnings, .. } = checked;
    match id.0 {
        Resource::Pods => change.remove_pod(id, value.clone(), grace_left(&value).unwrap_or(0))?,
        _ => change.remove(id)?,
    }
    Ok(Done { code: 200, value, warnings })
}

/// Keeps the parts of an object that no update changes: a new name is refused, the rest stays.
fn fixed(kind: &Kind, name: &str, live: &Value, new: &mut Value) -> Result<(), Failure> {
    let invalid = |why: &str| Failure::invalid_field(kind, name, why);
    for field in ["name", "namespace"] {
        let path = format!("/metadata/{field}");
        if part(new, &path).as_str().unwrap_or_default() != part(live, &path).as_str().unwrap_or_default() {
            return Err(invalid(&format!("metadata.{field}: field is immutable")));
        }
    }
    for field in ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        match part(live, "/metadata").get(field) {
            Some(value) => *place(new, &["metadata", field]) = value.clone(),
            None => remove(place(new, &["metadata"]), field),
        }
    }
    match new.pointer(ADDED) {
        Some(added) if live.pointer(ADDED) != Some(added) => Err(invalid(form::ONLY)),
        _ => Ok(()),
    }
}
