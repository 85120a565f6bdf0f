//! Lists and single objects. Pure, but for the world that they are read from.

use std::sync::Arc;

use crate::base::json::json;
use serde_json::Value;

use super::asked::{Form, Match, Wanted};
use super::failure::Failure;
use super::kinds::{Kind, Resource};
use super::objects;
use super::table::{self, Include};
use super::value::place;
use super::world::{Key, Object, State};
use crate::base::clock::{Clock as _, System};
use crate::manifest::base64;

/// An object in the requested form.
#[must_use]
pub fn in_form(kind: &Kind, object: &Object, form: Form) -> Value {
    let now = System::start().now().wall;
    let renewed = (kind.resource == Resource::Leases).then(|| objects::renewed(&object.value, now));
    let value = renewed.as_ref().unwrap_or(&object.value);
    match form {
        Form::Whole => value.clone(),
        Form::Partial => table::partial(value),
        Form::Table(include) => {
            let metadata = json!({"resourceVersion": object.version.to_string()});
            table::table(kind.resource, [value].into_iter(), &metadata, include, true, now)
        }
    }
}

/// One object.
///
/// # Errors
/// It does not exist.
pub fn get(state: &State, kind: &Kind, namespace: Option<&str>, name: &str) -> Result<Arc<Object>, Failure> {
    let found = state.get(kind.resource, namespace.unwrap_or_default(), name);
    found.ok_or_else(|| Failure::not_found(kind, name))
}

/// A list.
///
/// # Errors
/// The version does not exist.
pub fn list(
    state: &State,
    kind: &'static Kind,
    namespace: Option<&str>,
    wanted: &Wanted,
) -> Result<Value, Failure> {
    let version = state.version();
    check_version(version, wanted)?;
    let from = wanted.from.as_deref().map(|token| resume(state, kind, token)).transpose()?;
    let is_after = |key: &Key| from.as_ref().is_none_or(|from| key > from);
    let selected = state
        .list(kind.resource, namespace)
        .filter(|(key, object)| is_after(key) && wanted.selects(&object.value));
    let most = if wanted.limit == 0 { usize::MAX } else { wanted.limit };
    let mut found: Vec<(&Key, &Arc<Object>)> = selected.take(most.saturating_add(1)).collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if found.len() > most {
        found.truncate(most);
        if let Some((key, _)) = found.last() {
            *place(&mut metadata, &["continue"]) =
                base64::encode(format!("{version}/{}/{}", key.0, key.1).as_bytes()).into();
        }
    }
    let now = System::start().now().wall;
    let renewed: Vec<Value> = match kind.resource {
        Resource::Leases => found.iter().map(|(_, object)| objects::renewed(&object.value, now)).collect(),
        _ => Vec::new(),
    };
    let values = || {
        let kept = found.iter().map(|(_, object)| &object.value).filter(|_| renewed.is_empty());
        renewed.iter().chain(kept)
    };
    Ok(match wanted.form {
        Form::Table(include) => table::table(kind.resource, values(), &metadata, include, true, now),
        Form::Partial => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "items": values().map(table::partial).collect::<Vec<_>>(),
        }),
        Form::Whole => json!({
            "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata,
            "items": values().map(without_kind).collect::<Vec<_>>(),
        }),
    })
}

/// The text of a complete list of these objects; one is converted after the other, because they may be large.
pub fn list_of(kind: &Kind, version: &str, objects: &[Arc<Object>]) -> String {
    let head = json!({"resourceVersion": version});
    let items: Vec<String> = objects.iter().map(|object| without_kind(&object.value).to_string()).collect();
    format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{head},\"items\":[{}]}}",
        kind.kind,
        kind.api_version(),
        items.join(",")
    )
}

/// The object without kind and version, which items of a list do not repeat, as upstream.
fn without_kind(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    value
}

fn check_version(newest: u64, wanted: &Wanted) -> Result<(), Failure> {
    match (wanted.version, wanted.matched) {
        (Some(version), _) if version > newest => Err(Failure {
            details: json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                            "retryAfterSeconds": 1}),
            ..Failure::new(504, format!("Too large resource version: {version}, current: {newest}"))
        }),
        (Some(version), Some(Match::Exact)) if version != newest => {
            Err(Failure::new(410, format!("too old resource version: {version} ({newest})")))
        }
        _ => Ok(()),
    }
}

/// The last key of the previous part; nothing may have changed since then.
fn resume(state: &State, kind: &Kind, token: &str) -> Result<Key, Failure> {
    let text = base64::decode(token).and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| {
        let mut parts = text.splitn(3, '/');
        Some((parts.next()?.parse::<u64>().ok()?, parts.next()?.to_owned(), parts.next()?.to_owned()))
    });
    let Some((version, namespace, name)) = parts else {
        return Err(Failure::new(400, "continue key is not valid: it is none of this server's"));
    };
    match state.since(kind.resource, version) {
        Ok(changes) if changes.is_empty() => Ok((namespace, name)),
        _ => Err(Failure::new(
            410,
            "The provided continue parameter is too old to display a consistent list result. You must start a new \
             list without the continue parameter.",
        )),
    }
}

/// The table for an event of a watch: only the first event has the columns.
#[must_use]
pub fn event_table(kind: &Kind, object: &Object, include: Include, is_first: bool) -> Value {
    let metadata = json!({"resourceVersion": object.version.to_string()});
    let now = System::start().now().wall;
    table::table(kind.resource, [&object.value].into_iter(), &metadata, include, is_first, now)
}
