//! Tests of the policy: the grammar, each check alone, all checks at all versions, the node's own lists.

mod allow;
mod baseline;
mod generated;
mod level;
mod restricted;
mod source_policy;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::LevelVersion;
use super::standards::{Violation, evaluate};

/// Metadata with these annotations, and the spec.
fn pod(annotations: &Value, spec: &Value) -> (ObjectMeta, PodSpec) {
    let metadata = json!({"name": "web", "annotations": annotations});
    (serde_json::from_value(metadata).unwrap(), serde_json::from_value(spec.clone()).unwrap())
}

fn at(text: &str) -> LevelVersion {
    LevelVersion::parse(text).unwrap()
}

fn violations(level: &str, annotations: &Value, spec: &Value) -> Vec<Violation> {
    let (metadata, spec) = pod(annotations, spec);
    evaluate(&at(level), &metadata, &spec)
}
