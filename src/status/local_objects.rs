//! ConfigMaps, Secrets and claims as objects of the API; and the file of them that the daemon writes beside the status
//! file, for the command line.
//!
//! Never in that file: a value of a Secret.

use std::path::Path;

use crate::base::json::json;
use serde_json::{Map, Value};

use super::snapshot::Snapshot;
use crate::base::clock::Timestamp;
use crate::base::{json, limits, quantity, regular};
use crate::manifest::{base64, hash, static_pod};
use crate::pod::object::{Content, LocalObject, ObjectKind, Scopes, SecretBytes, is_made};

/// Name of the file in the run directory.
pub const NAME: &str = "objects.json";
/// Format of the file. A reader refuses other formats.
const API_VERSION: &str = "podkeeper.dev/v1";
/// Annotation: the file or URL that an object comes from.
pub const ORIGIN: &str = "podkeeper.dev/origin";
/// Annotation, in the file only, of a ConfigMap whose values were left out, with the reason.
const LEFT_OUT: &str = "podkeeper.dev/left-out";

/// A UID for an object without one: a UUID of podkeeper's own form, made from the parts of its name.
#[must_use]
pub fn made_uid(parts: &[&str]) -> String {
    let hex = hash::fnv1a_128_hex(parts);
    let piece = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", piece(0, 8), piece(8, 12), piece(12, 16), piece(16, 20), piece(20, 32))
}

/// The creation time of objects without a known one: when the daemon started.
#[must_use]
pub fn begun(snapshot: &Snapshot) -> String {
    text(snapshot.info.started.unwrap_or(Timestamp::UNIX_EPOCH))
}

fn text(time: Timestamp) -> String {
    super::seconds(time).0.to_string()
}

/// An object as the API has it, with all of its values. `begun` is the creation time if the object has none.
#[must_use]
pub fn value(object: &LocalObject, begun: &str) -> Value {
    let bytes = |bytes: &[u8]| Value::from(base64::encode(bytes));
    let mut fields = head(object, begun);
    match &object.content {
        Content::ConfigMap { .. } => config_map(&mut fields, object),
        Content::Secret { type_, data } => {
            fields.insert("type".to_owned(), type_.clone().into());
            let mut data = data.iter().map(|(key, value)| (key.clone(), bytes(value.expose())));
            fields.insert("data".to_owned(), Value::Object(json::object(&mut data)));
        }
        Content::Claim { access_modes, storage } => {
            let storage = quantity::bytes(i64::try_from(*storage).unwrap_or(i64::MAX));
            fields.insert("spec".to_owned(), claim_spec(access_modes, &storage, &object.key.name));
            let status =
                json!({"phase": "Bound", "accessModes": access_modes, "capacity": {"storage": storage}});
            fields.insert("status".to_owned(), status);
        }
        Content::ClusterClaim(claim) => {
            let storage = quantity::bytes(i64::try_from(claim.storage).unwrap_or(i64::MAX));
            let volume = claim.volume.as_ref().map_or("", |bound| bound.name.as_str());
            let phase = if claim.volume.is_ok() { "Bound" } else { "Pending" };
            fields.insert("spec".to_owned(), claim_spec(&claim.access_modes, &storage, volume));
            fields.insert("status".to_owned(), json!({"phase": phase}));
        }
    }
    if object.immutable && object.key.kind != ObjectKind::PersistentVolumeClaim {
        fields.insert("immutable".to_owned(), true.into());
    }
    Value::Object(fields)
}

fn head(object: &LocalObject, begun: &str) -> Map<String, Value> {
    let (key, source) = (&object.key, object.source.as_str());
    let kind = key.kind.as_str();
    let mut metadata = json!({
        "name": key.name,
        "namespace": key.namespace,
        "uid": made_uid(&[kind, &key.namespace, &key.name, source]),
        "creationTimestamp": object.about.created.map_or_else(|| begun.to_owned(), text),
        "annotations": {(static_pod::CONFIG_SOURCE): source, ORIGIN: object.origin.to_string()},
    });
    if let Some(metadata) = metadata.as_object_mut().filter(|_| !object.about.labels.is_empty()) {
        let mut labels = object.about.labels.iter().map(|(key, value)| (key.clone(), value.clone().into()));
        metadata.insert("labels".to_owned(), Value::Object(json::object(&mut labels)));
    }
    let mut fields = Map::new();
    fields.insert("apiVersion".to_owned(), "v1".into());
    fields.insert("kind".to_owned(), kind.into());
    fields.insert("metadata".to_owned(), metadata);
    fields
}

fn config_map(fields: &mut Map<String, Value>, object: &LocalObject) {
    let Content::ConfigMap { data, binary } = &object.content else { return };
    let mut data = data.iter().map(|(key, text)| (key.clone(), text.clone().into()));
    fields.insert("data".to_owned(), Value::Object(json::object(&mut data)));
    if !binary.is_empty() {
        let mut binary = binary.iter().map(|(key, value)| (key.clone(), base64::encode(value).into()));
        fields.insert("binaryData".to_owned(), Value::Object(json::object(&mut binary)));
    }
}

fn claim_spec(access_modes: &[String], storage: &str, volume: &str) -> Value {
    json!({
        "accessModes": access_modes,
        "resources": {"requests": {"storage": storage}},
        "volumeName": volume,
        "volumeMode": "Filesystem",
    })
}

/// The file's bytes: ConfigMaps, and Secrets without their values. Values of ConfigMaps are included while all of them
/// together stay within [`limits::OBJECTS_SHOWN`]. What podkeeper makes itself is left out.
#[must_use]
pub fn render(objects: &Scopes, begun: &str) -> Vec<u8> {
    let mut shown = 0_usize;
    let mut item = |object: &LocalObject| {
        let mut fields = head(object, begun);
        match &object.content {
            Content::ConfigMap { data, binary } => {
                shown = shown.saturating_add(object.size());
                if shown <= limits::OBJECTS_SHOWN {
                    config_map(&mut fields, object);
                } else {
                    let mut keys = data.keys().chain(binary.keys()).map(|key| (key.clone(), Value::Null));
                    fields.insert("data".to_owned(), Value::Object(json::object(&mut keys)));
                    let why = format!("{} bytes of values: too many to be shown", object.size());
                    let annotations = fields.get_mut("metadata").and_then(|of| of.get_mut("annotations"));
                    if let Some(all) = annotations.and_then(Value::as_object_mut) {
                        all.insert(LEFT_OUT.to_owned(), why.into());
                    }
                }
            }
            Content::Secret { type_, data } => {
                fields.insert("type".to_owned(), type_.clone().into());
                // The form cannot be mistaken for a value.
                let size = |(key, value): (&String, &SecretBytes)| (key.clone(), size_of(value).into());
                fields.insert("data".to_owned(), Value::Object(json::object(&mut data.iter().map(size))));
            }
            Content::Claim { .. } | Content::ClusterClaim(_) => return None,
        }
        if object.immutable {
            fields.insert("immutable".to_owned(), true.into());
        }
        Some(Value::Object(fields))
    };
    let theirs = objects.values().filter(|object| !is_made(&object.key.name));
    let items: Vec<Value> = theirs.filter_map(|object| item(object)).collect();
    // Values always serialise.
    serde_json::to_vec(&json!({"apiVersion": API_VERSION, "kind": "ObjectList", "items": items}))
        .unwrap_or_default()
}

fn size_of(value: &SecretBytes) -> String {
    format!("<{} bytes>", value.expose().len())
}

/// Reads the file of a run directory.
///
/// # Errors
/// A message with the path; also when the file is missing, because podkeeper has not written it yet or is an older
/// version.
pub fn read(run_dir: &Path) -> Result<Vec<Value>, String> {
    let path = run_dir.join(NAME);
    let failed = |why: String| format!("cannot read {}: {why}", path.display());
    let bytes = regular::read(&path, limits::OBJECTS_FILE).map_err(|why| failed(why.to_string()))?;
    let mut all: Value = serde_json::from_slice(&bytes).map_err(|why| failed(format!("damaged: {why}")))?;
    if all.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        return Err(failed("written by another version of podkeeper".to_owned()));
    }
    match all.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(failed("damaged: it has no list".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;
    use crate::pod::object::testing::{config_map, decoded, secret};

    fn scopes(text: &str) -> Scopes {
        let all = decoded("/m/objects.yaml", text);
        all.into_iter().map(|object| ((Source::File, object.key.clone()), object)).collect()
    }

    #[test]
    fn no_value_of_a_secret_is_written() {
        let dir = crate::base::testing::scratch("objects-file");
        assert!(read(&dir).unwrap_err().contains("objects.json: No such file"));
        let text = config_map("web", "{a: open, b: \"1\"}") + &secret("pass", "{key: canary, other: \"\"}");
        let bytes = render(&scopes(&text), "2026-01-02T03:04:05Z");
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"));
        assert!(!String::from_utf8_lossy(&bytes).contains(&base64::encode(b"canary")));
        crate::status::file::write_atomically(&dir, NAME, &bytes).unwrap();
        let all = read(&dir).unwrap();
        assert_eq!(all[0]["data"], json!({"a": "open", "b": "1"}));
        assert_eq!(all[1]["data"], json!({"key": "<6 bytes>", "other": "<0 bytes>"}));
        assert_eq!(
            (&all[1]["type"], &all[1]["metadata"]["creationTimestamp"]),
            (&json!("Opaque"), &json!("2026-01-02T03:04:05Z"))
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_too_much_is_left_out_and_says_so() {
        let large = format!("{{a: {}}}", "x".repeat(limits::OBJECTS_SHOWN));
        let text = config_map("large", &large) + &config_map("other", "{b: c}");
        let all: Value = serde_json::from_slice(&render(&scopes(&text), "")).unwrap();
        for item in all["items"].as_array().unwrap() {
            assert!(item["metadata"]["annotations"][LEFT_OUT].as_str().unwrap().contains("bytes of values"));
        }
        assert_eq!(all["items"][0]["data"], json!({"a": null}));
    }

    #[test]
    fn metadata_that_are_only_shown_are_shown() {
        let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}, \
                    creationTimestamp: \"2020-01-01T00:00:00Z\"}, data: {k: v}, immutable: true}";
        let object = scopes(text).into_values().next().unwrap();
        let all = value(&object, "2026-01-02T03:04:05Z");
        assert_eq!(all["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(all["metadata"]["creationTimestamp"], json!("2020-01-01T00:00:00Z"));
        assert_eq!((&all["immutable"], &all["data"]), (&json!(true), &json!({"k": "v"})));
    }
}
