//! OpenAPI v3 of the served resources: one document for each group, from the table of resources and, for pods, from the
//! table of fields. `kubectl explain` reads the schemas; `kubectl apply` reads whether the server checks fields itself.
//! Pure.
//!
//! No operation has the schema of its body: kubectl then uses its own, complete one for patches
//! (`kubectl/pkg/cmd/apply/patcher.go`). A schema without merge keys would make wrong patches.

use serde_json::{Map, Value, json};

use super::kinds::{Kind, groups, within};
use super::value::place;
use crate::base::hex;
use crate::manifest::fields;

/// `/openapi/v3`.
#[must_use]
pub fn index() -> Value {
    let mut paths = Map::new();
    for (group, version) in std::iter::once(("", "v1")).chain(groups()) {
        let path = match group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        let text = document(group, version).unwrap_or_default().to_string();
        let hash = hex::hex(&hmac_sha256::Hash::hash(text.as_bytes())).to_uppercase();
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The document of a group, if it is served.
#[must_use]
pub fn document(group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for kind in within(group, version) {
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{scope}/{}", kind.plural);
        if kind.is_listed() {
            paths.insert(collection.clone(), json!({"get": operation(kind, "list")}));
            paths.insert(format!("{collection}/{{name}}"), object_path(kind));
        } else {
            paths.insert(collection, json!({"post": operation(kind, "post")}));
        }
        schema_of(kind, &mut schemas);
    }
    if paths.is_empty() {
        return None;
    }
    schemas.extend(types());
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "podkeeper", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn operation(kind: &Kind, action: &str) -> Value {
    json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(kind),
           "responses": {"200": {"description": "OK"}}})
}

/// The operations on one object.
fn object_path(kind: &Kind) -> Value {
    let mut all = Map::new();
    all.insert("get".to_owned(), operation(kind, "get"));
    if kind.verbs.contains(&"patch") {
        let mut patch = operation(kind, "patch");
        let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
        *place(&mut patch, &["parameters"]) =
            ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter).as_slice().into();
        all.insert("patch".to_owned(), patch);
    }
    Value::Object(all)
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// Fields of the kinds other than pods: name, type, meaning.
fn own_fields(kind: &str) -> &'static [(&'static str, &'static str, &'static str)] {
    match kind {
        "ConfigMap" => &[
            ("binaryData", "map[string]string", "Bytes by key, in base64."),
            ("data", "map[string]string", "Texts by key."),
            ("immutable", "boolean", "The data cannot be changed."),
        ],
        "Secret" => &[
            ("data", "map[string]string", "Bytes by key, in base64."),
            ("immutable", "boolean", "The data cannot be changed."),
            ("stringData", "map[string]string", "Texts by key, put into data when the object is written."),
            ("type", "string", "What the data are for; Opaque when not given."),
        ],
        "Namespace" | "Node" | "PersistentVolumeClaim" | "Lease" => {
            &[("spec", "Object", "What is wished for."), ("status", "Object", "What was seen.")]
        }
        _ => &[],
    }
}

fn schema_of(kind: &Kind, schemas: &mut Map<String, Value>) {
    let gvk = json!([gvk(kind)]);
    let name = if kind.kind == "Pod" { "Pod".to_owned() } else { format!("{}.{}", kind.group, kind.kind) };
    let mut schema = match kind.kind {
        "Pod" => type_schema("Pod"),
        other => {
            let base = [
                ("apiVersion", "string", "Version of the API's form."),
                ("kind", "string", "Which form it is."),
                ("metadata", "ObjectMeta", "Name, namespace, labels and annotations."),
            ];
            let mut properties = Map::new();
            for (name, kind, meaning) in base.iter().chain(own_fields(other)) {
                properties.insert((*name).to_owned(), property(kind, meaning));
            }
            json!({"type": "object", "description": format!("{other} of this node."), "properties": properties})
        }
    };
    *place(&mut schema, &["x-kubernetes-group-version-kind"]) = gvk;
    schemas.insert(name, schema);
}

/// The types in the table of fields, without the pod's own.
fn types() -> Map<String, Value> {
    let names = fields::TYPES.lines().filter_map(|line| line.strip_prefix("= "));
    let mut all = Map::new();
    for name in names.filter(|name| *name != "Pod") {
        all.insert(name.to_owned(), type_schema(name));
    }
    all
}

fn type_schema(name: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields::of(name) {
        properties.insert(field.name.to_owned(), property(field.kind, field.meaning));
        if field.meaning.ends_with(" Required.") {
            required.push(field.name);
        }
    }
    let mut schema = json!({"type": "object", "description": name, "properties": properties});
    if !required.is_empty() {
        *place(&mut schema, &["required"]) = json!(required);
    }
    schema
}

fn property(kind: &str, meaning: &str) -> Value {
    let mut schema = value(kind);
    if let Some(reference) = schema.as_object_mut().and_then(|schema| schema.remove("$ref")) {
        *place(&mut schema, &["allOf"]) = json!([{"$ref": reference}]);
    }
    *place(&mut schema, &["description"]) = meaning.into();
    schema
}

fn value(kind: &str) -> Value {
    if let Some(item) = kind.strip_prefix("[]") {
        return json!({"type": "array", "items": value(item)});
    }
    if let Some(item) = kind.strip_prefix("map[string]") {
        return json!({"type": "object", "additionalProperties": value(item)});
    }
    match kind {
        "string" | "Quantity" => json!({"type": "string"}),
        "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
        "integer" | "number" | "boolean" => json!({"type": kind}),
        "IntOrString" => {
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
        }
        // As upstream: a type of the table that is another type.
        "EphemeralContainer" => json!({"$ref": reference("Container")}),
        other if fields::of(other).next().is_some() => json!({"$ref": reference(other)}),
        _ => json!({"type": "object"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reference_leads_to_a_schema() {
        let document = document("", "v1").unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        assert_eq!(document["components"]["schemas"]["PodSpec"]["required"], json!(["containers"]));
        assert!(super::document("apps", "v1").is_none());
    }

    #[test]
    fn the_index_names_each_group_once() {
        let index = index();
        let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with("/openapi/v3/api/v1?hash="), "{url}");
        assert!(index["paths"].get("apis/metrics.k8s.io/v1beta1").is_some());
    }
}
