//! The form of clients' objects: unknown fields, types, defaults. Pure.

use crate::base::json::json;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::managed;
use crate::api::failure::Failure;
use crate::api::holdings::problems;
use crate::api::kinds::{Kind, Resource};
use crate::api::value::{is_deeper, part, place};
use crate::base::json;
use crate::base::limits;
use crate::manifest::{self, Context, base64};
use crate::pod::Source;

/// The treatment of fields that the API does not have: `fieldValidation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validation {
    Strict,
    Warn,
    Ignore,
}

impl Validation {
    /// Parses the parameter.
    ///
    /// # Errors
    /// It is another word.
    pub fn parse(text: Option<&str>) -> Result<Validation, Failure> {
        match text {
            None | Some("" | "Warn") => Ok(Validation::Warn),
            Some("Strict") => Ok(Validation::Strict),
            Some("Ignore") => Ok(Validation::Ignore),
            Some(other) => {
                let why = format!(
                    "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Warn\", \"Strict\""
                );
                Err(Failure::new(422, why))
            }
        }
    }

    /// Warnings for these fields.
    ///
    /// # Errors
    /// Validation is strict, and there are any. `is_patch`: the patch brought them.
    pub fn judge(self, kind: &Kind, unknown: &[String], is_patch: bool) -> Result<Vec<String>, Failure> {
        let words: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
        match self {
            Validation::Ignore => Ok(Vec::new()),
            Validation::Warn => Ok(words),
            Validation::Strict if words.is_empty() => Ok(words),
            Validation::Strict => {
                let all = words.join(", ");
                let (kind, version) = (kind.kind, kind.version);
                Err(match is_patch {
                    true => Failure::new(
                        422,
                        format!("{kind} is invalid: patch: Invalid value: strict decoding error: {all}"),
                    ),
                    false => Failure::new(
                        400,
                        format!(
                            "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {all}"
                        ),
                    ),
                })
            }
        }
    }
}

/// The object with only the fields that the API has, and the paths of the others.
///
/// # Errors
/// A value is of the wrong type.
pub fn typed(kind: &Kind, object: &Value) -> Result<(Value, Vec<String>), Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        let (kind, version) = (kind.kind, kind.version);
        Failure::new(400, format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let Value::Object(fields) = object else { return Err(wrong(&"it is no object")) };
    let mut typed = Map::new();
    if kind.resource == Resource::Pods {
        let pod = json::read::<Pod>(object).map_err(|error| match misfit(object) {
            Some(field) => wrong(&field),
            None => wrong(&error),
        })?;
        if let Ok(Value::Object(all)) = serde_json::to_value(&pod) {
            typed = all;
        }
    } else {
        let metadata = fields.get("metadata").cloned().unwrap_or_else(|| json!({}));
        let metadata = json::read::<ObjectMeta>(&metadata).map_err(|error| wrong(&error))?;
        typed.insert("metadata".to_owned(), serde_json::to_value(&metadata).unwrap_or_default());
        if kind.resource == Resource::Secrets {
            texts_of_secret(fields).map_err(|why| wrong(&why))?;
        }
        for name in known(kind.resource) {
            if let Some(value) = fields.get(*name).filter(|value| !value.is_null()) {
                typed.insert((*name).to_owned(), value.clone());
            }
        }
    }
    typed.insert("apiVersion".to_owned(), kind.api_version().into());
    typed.insert("kind".to_owned(), kind.kind.into());
    let (typed, mut unknown) = (Value::Object(typed), Vec::new());
    compare(object, &typed, "", &mut unknown);
    Ok((typed, unknown))
}

/// What is wrong with a pod that has a value of the wrong type, by field, which serde does not tell.
fn misfit(pod: &Value) -> Option<String> {
    let context = Context { node_name: "node", source: Source::Api, path: "object" };
    let decoded = manifest::decode(pod.to_string().as_bytes(), &context);
    let errors: Vec<String> =
        problems(&decoded).0.iter().map(|(field, why)| format!("{field}: {why}")).collect();
    (!errors.is_empty()).then(|| errors.join(", "))
}

/// Checks the types of a Secret's fields that are converted before the manifest's rules see them.
fn texts_of_secret(fields: &Map<String, Value>) -> Result<(), String> {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    if fields.get("type").is_some_and(|value| !is_text(value)) {
        return Err("type: must be a string".to_owned());
    }
    match fields.get("stringData") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(all)) => match all.iter().find(|(_, value)| !is_text(value)) {
            Some((key, _)) => Err(format!("stringData.{key}: must be a string")),
            None => Ok(()),
        },
        Some(_) => Err("stringData: must be a map of strings".to_owned()),
    }
}

/// Fields of a resource beside metadata.
fn known(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::ConfigMaps => &["data", "binaryData", "immutable"],
        Resource::Secrets => &["data", "stringData", "immutable", "type"],
        _ => &["spec", "status"],
    }
}

/// Notes the fields that are missing in `typed`.
fn compare(written: &Value, typed: &Value, path: &str, unknown: &mut Vec<String>) {
    if unknown.len() >= limits::PROBLEMS_PER_FILE {
        return;
    }
    match (written, typed) {
        (Value::Object(written), Value::Object(typed)) => {
            for (key, value) in written {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match typed.get(key) {
                    Some(inner) => compare(value, inner, &below, unknown),
                    None if value.is_null() => {}
                    None => unknown.push(below),
                }
            }
        }
        (Value::Array(written), Value::Array(typed)) => {
            for (at, (value, inner)) in written.iter().zip(typed).enumerate() {
                compare(value, inner, &format!("{path}[{at}]"), unknown);
            }
        }
        _ => {}
    }
}

/// Refuses an object that is deeper than its later reader accepts; called before anything that recurses into it.
///
/// # Errors
/// The object is too deep.
pub fn check_depth(object: &Value) -> Result<(), Failure> {
    match is_deeper(object, limits::API_DEPTH) {
        true => Err(Failure::new(422, format!("the object is deeper than {} fields", limits::API_DEPTH))),
        false => Ok(()),
    }
}

/// Field and message of errors in the parts of metadata that no manifest has.
#[must_use]
pub fn metadata_errors(kind: &Kind, value: &Value) -> Vec<(String, String)> {
    let metadata = json::read::<ObjectMeta>(part(value, "/metadata")).unwrap_or_default();
    let mut errors = crate::manifest::stored_metadata(&metadata, kind.resource == Resource::Namespaces);
    if managed::is_too_large(part(value, "/metadata/managedFields")) {
        let why = format!("Too long: may not be more than {} bytes", limits::API_OWNERS);
        errors.push(("metadata.managedFields".to_owned(), why));
    }
    errors
}

/// Fills in the fields that every stored object has. The defaults of a pod's spec are the manifest's.
pub fn complete(kind: &Kind, value: &mut Value) {
    match kind.resource {
        Resource::Secrets => {
            let plain = value.as_object_mut().and_then(|fields| fields.remove("stringData"));
            if let Some(Value::Object(plain)) = plain {
                let data =
                    value.as_object_mut().map(|fields| fields.entry("data").or_insert_with(|| json!({})));
                if let Some(Value::Object(data)) = data {
                    for (key, text) in plain {
                        let bytes = text.as_str().map(str::as_bytes).unwrap_or_default();
                        data.insert(key, base64::encode(bytes).into());
                    }
                }
            }
            if value.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
                *place(value, &["type"]) = "Opaque".into();
            }
        }
        Resource::Namespaces => {
            let name = value.pointer("/metadata/name").cloned().unwrap_or_default();
            *place(value, &["metadata", "uid"]) =
                crate::api::objects::namespace_uid(name.as_str().unwrap_or_default()).into();
            if !part(value, "/metadata/labels").is_object() {
                *place(value, &["metadata", "labels"]) = json!({});
            }
            *place(value, &["metadata", "labels", "kubernetes.io/metadata.name"]) = name;
            *place(value, &["spec"]) = json!({"finalizers": ["kubernetes"]});
        }
        Resource::Claims => {
            if let Some(Value::Object(spec)) = value.get_mut("spec") {
                spec.entry("volumeMode").or_insert_with(|| "Filesystem".into());
            }
        }
        _ => {}
    }
}

/// Names the volume of a claim: its directory. What the client wrote there has been warned of by then.
pub fn bind(kind: &Kind, value: &mut Value) {
    if kind.resource == Resource::Claims {
        *place(value, &["spec", "volumeName"]) = part(value, "/metadata/name").clone();
    }
}

/// Checks that only those parts of a pod change that may (`pkg/apis/core/validation/validation.go`,
/// `ValidatePodUpdate`).
///
/// # Errors
/// Another part has changed.
pub fn check_update(kind: &Kind, name: &str, old: &Value, new: &Value) -> Result<(), Failure> {
    let invalid = |why: &str| Failure::invalid_field(kind, name, why);
    match kind.resource {
        Resource::Pods => check_pod(old, new).map_err(|why| invalid(&why)),
        Resource::ConfigMaps | Resource::Secrets => {
            let part = |value: &Value, field: &str| value.get(field).cloned().unwrap_or(Value::Null);
            let is_fixed = old.get("immutable").and_then(Value::as_bool) == Some(true);
            if let Some(field) = ["data", "binaryData", "immutable"]
                .into_iter()
                .find(|field| is_fixed && part(old, field) != part(new, field))
            {
                return Err(invalid(&format!(
                    "{field}: Forbidden: field is immutable when `immutable` is set"
                )));
            }
            if kind.resource == Resource::Secrets && part(old, "type") != part(new, "type") {
                return Err(invalid("type: Invalid value: field is immutable"));
            }
            Ok(())
        }
        Resource::Claims if old.get("spec") != new.get("spec") => Err(invalid(
            "spec: Forbidden: spec is immutable after creation: the space of a claim of this node is not enforced",
        )),
        _ => Ok(()),
    }
}

/// The message about fields of a pod's spec that must not change.
pub const ONLY: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                        `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                        to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                        previously negative)";

fn check_pod(old: &Value, new: &Value) -> Result<(), String> {
    let names = |pod: &Value, list: &str| -> Vec<Value> {
        let all = part(pod, &format!("/spec/{list}")).as_array().into_iter().flatten();
        all.map(|one| part(one, "/name").clone()).collect()
    };
    for list in ["containers", "initContainers"] {
        if names(old, list).len() != names(new, list).len() {
            return Err(format!("spec.{list}: Forbidden: pod updates may not add or remove containers"));
        }
    }
    let tolerations = |pod: &Value| {
        let all = part(pod, "/spec/tolerations").as_array().into_iter().flatten();
        crate::base::order::set(all.map(Value::to_string))
    };
    if !tolerations(old).is_subset(&tolerations(new)) {
        return Err(ONLY.to_owned());
    }
    let fixed = |pod: &Value| {
        let mut spec = part(pod, "/spec").clone();
        for list in ["containers", "initContainers"] {
            if let Some(Value::Array(containers)) = spec.get_mut(list) {
                for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                    container.remove("image");
                }
            }
        }
        if let Value::Object(spec) = &mut spec {
            spec.remove("activeDeadlineSeconds");
            spec.remove("tolerations");
        }
        spec
    };
    let (before, after) = (fixed(old), fixed(new));
    if before == after {
        return Ok(());
    }
    let changed = |side: &Value| -> Vec<String> {
        let fields = side.as_object().into_iter().flatten();
        fields.map(|(key, _)| key.clone()).collect()
    };
    let mut fields: Vec<String> = changed(&before).into_iter().chain(changed(&after)).collect();
    fields.retain(|field| before.get(field) != after.get(field));
    crate::base::order::sort(&mut fields);
    fields.dedup();
    Err(format!("{ONLY}\nchanged here: spec.{}", fields.join(", spec.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::kinds::of;

    #[test]
    fn unknown_fields_are_found_and_dropped() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "x": 1, "labels": null},
            "spec": {"foo": 1, "containers": [{"name": "a", "image": "i", "bar": {"b": 1}}]}});
        let kind = of(Resource::Pods).unwrap();
        let (typed, unknown) = typed(kind, &pod).unwrap();
        assert_eq!(unknown, ["metadata.x", "spec.containers[0].bar", "spec.foo"]);
        assert_eq!(typed["spec"], json!({"containers": [{"name": "a", "image": "i"}]}));
        let strict = Validation::Strict.judge(kind, &unknown[2..], false).unwrap_err();
        let words = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.foo\"";
        assert_eq!((strict.code, strict.message.as_str()), (400, words));
        assert_eq!(Validation::Strict.judge(kind, &unknown, true).unwrap_err().code, 422);
        assert_eq!(
            Validation::Warn.judge(kind, &unknown[2..], false).unwrap(),
            ["unknown field \"spec.foo\""]
        );
        assert!(super::typed(kind, &json!({"spec": {"containers": 1}})).is_err());
    }

    /// Regression: serde's words alone named no field.
    #[test]
    fn values_of_the_wrong_type_are_told_with_their_fields() {
        let env = json!([{"name": "A", "value": 1}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"hostNetwork": "yes", "containers": [{"name": "a", "image": "i", "env": env}]}});
        let told = typed(of(Resource::Pods).unwrap(), &pod).unwrap_err().message;
        let expected = "Pod in version \"v1\" cannot be handled as a Pod: \
            spec.containers[0].env[0].value: must be a string, not the number 1; write it in quotes, \
            spec.hostNetwork: must be a boolean (true or false), not the string \"yes\"";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_pod_may_change_in_few_fields() {
        let pod = |image: &str, command: &str| json!({"spec": {"containers": [{"name": "a", "image": image, "command": [command]}]}});
        let kind = of(Resource::Pods).unwrap();
        let check =
            |new: Value| check_update(kind, "p", &pod("x", "1"), &new).map_err(|failure| failure.message);
        assert_eq!(check(pod("y", "1")), Ok(()));
        assert!(check(pod("x", "2")).unwrap_err().ends_with("changed here: spec.containers"));
        let two = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        assert!(check(two).unwrap_err().contains("may not add or remove containers"));
        let mut tolerant = pod("x", "1");
        tolerant["spec"]["tolerations"] = json!([{"key": "k"}]);
        assert_eq!(check(tolerant.clone()), Ok(()));
        assert!(check_update(kind, "p", &tolerant, &pod("x", "1")).is_err());
    }

    /// Two patches of owners made a file that was too large to be read again, and owners of a depth of 150 one that was
    /// too deep: both objects were lost at a restart.
    #[test]
    fn owners_are_neither_deeper_nor_larger_than_what_is_read_again() {
        let deep = (0..150).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let map = |fields: Value| {
            let owner = json!({"manager": "m", "operation": "Update", "fieldsV1": fields});
            json!({"metadata": {"name": "c", "managedFields": [owner]}})
        };
        assert_eq!(check_depth(&map(deep)).unwrap_err().code, 422);
        assert_eq!(check_depth(&map(json!({"f:a": {}}))), Ok(()));
        let kind = of(Resource::ConfigMaps).unwrap();
        let errors =
            metadata_errors(kind, &map(json!({"f:a": {("x".repeat(limits::API_OWNERS).as_str()): {}}})));
        assert_eq!(errors.first().map(|(field, _)| field.as_str()), Some("metadata.managedFields"));
        assert_eq!(metadata_errors(kind, &map(json!({"f:a": {}}))), []);
    }

    /// Wrong values were stored as empty ones, and a wrong type as `Opaque`.
    #[test]
    fn texts_of_a_secret_are_texts() {
        let kind = of(Resource::Secrets).unwrap();
        for (secret, words) in [
            (json!({"stringData": {"a": 5}}), "stringData.a: must be a string"),
            (json!({"stringData": {"a": {"x": 1}}}), "stringData.a: must be a string"),
            (json!({"stringData": "text"}), "stringData: must be a map of strings"),
            (json!({"type": ["x"]}), "type: must be a string"),
        ] {
            let failure = typed(kind, &secret).unwrap_err();
            assert!(failure.code == 400 && failure.message.ends_with(words), "{failure:?}");
        }
        assert!(typed(kind, &json!({"stringData": {"a": null}, "type": null})).is_ok());
    }

    #[test]
    fn a_secret_folds_its_texts_into_its_data() {
        let mut secret =
            json!({"metadata": {"name": "s"}, "stringData": {"a": "x"}, "data": {"a": "eQ==", "b": "eg=="}});
        complete(of(Resource::Secrets).unwrap(), &mut secret);
        assert_eq!(
            secret,
            json!({"metadata": {"name": "s"}, "data": {"a": "eA==", "b": "eg=="}, "type": "Opaque"})
        );
    }
}
