//! OpenAPI v3 of the served resources: one document for each group, from the table of resources and two tables of
//! fields, that of manifests and one of what is only served. `kubectl explain` reads the schemas; `kubectl apply`
//! reads whether the server checks fields itself. Pure.
//!
//! No operation has the schema of its body: kubectl then uses its own, complete one for patches
//! (`kubectl/pkg/cmd/apply/patcher.go`). A schema without merge keys would make wrong patches.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::kinds::{Kind, groups, within};
use super::value::place;
use crate::base::packed::Packed;
use crate::base::{hex, sha256};
use crate::manifest::fields::{self, Field};

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
        let hash = hex::hex(&sha256::hash(text.as_bytes())).to_uppercase();
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The document of a group, if it is served.
#[must_use]
pub fn document(group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), types());
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

/// Types that are served and are no part of a manifest, in the form of [`fields::TYPES`].
static SERVED: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/served.txt.packed")));
/// Fields of every kind.
const COMMON: [(&str, &str, &str); 3] = [
    ("apiVersion", "string", "Version of the API's form."),
    ("kind", "string", "Which form it is."),
    ("metadata", "ObjectMeta", "Name, namespace, labels and annotations."),
];

/// The fields of a type of either table.
fn fields_of(kind: &str) -> impl Iterator<Item = Field> + use<> {
    fields::of(kind).chain(fields::within(SERVED.text(), kind))
}

fn schema_of(kind: &Kind, schemas: &mut Map<String, Value>) {
    let name = kind.kind;
    let mut schema = type_schema(name, &format!("{name} of this node."));
    for (name, kind, meaning) in COMMON {
        *place(&mut schema, &["properties", name]) = property(kind, meaning);
    }
    *place(&mut schema, &["x-kubernetes-group-version-kind"]) = json!([gvk(kind)]);
    schemas.insert(name.to_owned(), schema);
}

/// The types of both tables.
fn types() -> Map<String, Value> {
    let names =
        fields::TYPES.text().lines().chain(SERVED.text().lines()).filter_map(|line| line.strip_prefix("= "));
    let mut types = Map::new();
    for name in names {
        types.insert(name.to_owned(), type_schema(name, name));
    }
    types
}

fn type_schema(name: &str, meaning: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields_of(name) {
        properties.insert(field.name.to_owned(), property(field.kind, field.meaning));
        if field.meaning.ends_with(" Required.") {
            required.push(field.name);
        }
    }
    let mut schema = json!({"type": "object", "description": meaning, "properties": properties});
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
        other if fields_of(other).next().is_some() => json!({"$ref": reference(other)}),
        _ => json!({"type": "object"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::shape;

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

    /// Each type of the table has exactly the API's fields, with their types. Left out are types with bytes, which
    /// have another form in Rust, and those of metrics, which are of another library.
    #[test]
    fn what_is_served_has_the_fields_of_the_api() {
        use k8s_openapi::api::{coordination::v1::Lease, core::v1};
        use std::collections::BTreeMap;
        let shapes = [
            shape::of_pod(),
            shape::of::<v1::Node>(),
            shape::of::<v1::Event>(),
            shape::of::<v1::Namespace>(),
            shape::of::<v1::PersistentVolumeClaim>(),
            shape::of::<Lease>(),
        ]
        .concat();
        let mut types: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for shape in &shapes {
            types.entry(shape.owner).or_default().insert(shape.name, &shape.kind);
        }
        let names = SERVED.text().lines().filter_map(|line| line.strip_prefix("= "));
        let mut wrong = String::new();
        let is_left_out = |name: &str| name.ends_with("Metrics") || ["ConfigMap", "Secret"].contains(&name);
        for name in names.filter(|name| !is_left_out(name)) {
            let told: BTreeMap<&str, &str> =
                fields::within(SERVED.text(), name).map(|field| (field.name, field.kind)).collect();
            let mut of_api = types.get(name).cloned().unwrap_or_default();
            // Each kind has them, and some types have a field of such a name.
            of_api.retain(|field, _| {
                told.contains_key(field) || !COMMON.iter().any(|(common, ..)| common == field)
            });
            if told != of_api {
                wrong.push_str(&format!("{name}: {told:?}\nof the API: {of_api:?}\n"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn each_meaning_of_what_is_served_is_a_sentence() {
        for line in SERVED.text().lines().filter(|line| !line.starts_with("= ")) {
            assert!(line.ends_with('.') && line.split(' ').count() >= 4, "{line}");
        }
    }

    /// Whether a path of a kind leads to a field with a type and a meaning, as `kubectl explain` follows it.
    #[test]
    fn the_fields_of_each_kind_are_told_in_depth() {
        let told = |group: &str, path: &str| {
            let document = document(group, "v1").unwrap();
            let schemas = &document["components"]["schemas"];
            let mut words = path.split('.');
            let mut at = &schemas[words.next().unwrap()];
            for word in words {
                at = &at["properties"][word];
                let inner = if at["items"].is_object() { &at["items"] } else { at };
                let reference = inner["$ref"].as_str().or_else(|| inner["allOf"][0]["$ref"].as_str());
                if let Some(name) = reference.and_then(|text| text.rsplit('/').next()) {
                    at = &schemas[name];
                }
            }
            at["properties"].as_object().map_or(0, |fields| fields.len())
        };
        for path in [
            "Pod.status.containerStatuses.state.terminated",
            "Pod.status.conditions",
            "Node.spec.taints",
            "Node.status.nodeInfo",
            "Event.involvedObject",
            "Namespace.status",
            "PersistentVolumeClaim.spec.resources",
            "PersistentVolumeClaim.status",
            "ConfigMap.metadata.ownerReferences",
        ] {
            assert!(told("", path) > 0, "{path}");
        }
        assert!(told("coordination.k8s.io", "Lease.spec") > 0);
        let schema = &document("", "v1").unwrap()["components"]["schemas"]["ConfigMap"];
        assert_eq!(schema["properties"]["data"]["description"], "Texts by key.");
    }

    #[test]
    fn the_index_names_each_group_once() {
        let index = index();
        let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with("/openapi/v3/api/v1?hash="), "{url}");
        assert!(index["paths"].get("apis/metrics.k8s.io/v1beta1").is_some());
    }
}
