//! Secrets: `stringData` over `data`, and the required keys of the built-in types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::super::path::{Path, Report, required, too_long};
use super::{data, text};
use crate::base::limits;
use crate::base::order;
use crate::pod::object::{Content, SecretBytes};

/// Annotation with the account of a token secret.
const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";
const BASE64: &str = "must be base64; plain text goes into stringData";

type SecretData = BTreeMap<String, SecretBytes>;

/// A Secret's type and data.
pub(super) fn secret(metadata: &ObjectMeta, report: &mut Report<'_>) -> Option<Content> {
    let root = Path::ROOT;
    let path = root.field("data");
    let mut all = data::bytes(&path, report, BASE64);
    let plain = data::texts(&root.field("stringData"), report);
    all.extend(plain.into_iter().map(|(key, text)| (key, text.into_bytes())));
    let all: SecretData = order::map(all.into_iter().map(|(key, bytes)| (key, SecretBytes::new(bytes))));
    if all.values().map(|v| v.expose().len()).fold(0, usize::saturating_add) > limits::OBJECT_BYTES {
        report.error(&path, too_long(limits::OBJECT_BYTES));
    }
    let type_ = Some(text(&root.field("type"), report)).filter(|t| !t.is_empty()).unwrap_or("Opaque");
    // A key that is missing because its part did not decode is not reported twice.
    if report.is_good() {
        built_in(type_, &all, metadata, &path, report);
    }
    Some(Content::Secret { type_: type_.to_owned(), data: all })
}

fn built_in(type_: &str, all: &SecretData, metadata: &ObjectMeta, path: &Path<'_>, report: &mut Report<'_>) {
    let has = |key: &&&str| all.contains_key(**key);
    let is_empty = |key: &str| all.get(key).is_none_or(|v| v.expose().is_empty());
    let mut need = |keys: &[&str]| {
        keys.iter().for_each(|key| report.error(&path.key(key), required("")));
    };
    match type_ {
        "kubernetes.io/dockercfg" => json(".dockercfg", all, path, report),
        "kubernetes.io/dockerconfigjson" => json(".dockerconfigjson", all, path, report),
        // One of the two is enough.
        "kubernetes.io/basic-auth" if !["username", "password"].iter().any(|key| has(&key)) => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if is_empty("ssh-privatekey") => need(&["ssh-privatekey"]),
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].iter().filter(|key| !has(key)).for_each(|key| need(&[key]));
        }
        "kubernetes.io/service-account-token" => {
            let annotations = metadata.annotations.as_ref();
            if annotations.and_then(|all| all.get(SERVICE_ACCOUNT)).is_none_or(String::is_empty) {
                let root = Path::ROOT;
                let path = root.field("metadata");
                report.error(&path.field("annotations").key(SERVICE_ACCOUNT), required(""));
            }
        }
        _ => {}
    }
}

/// Checks that the key exists and its value is a JSON object.
fn json(key: &str, all: &SecretData, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.key(key);
    match all.get(key) {
        None => report.error(&path, required("")),
        // serde's message is not repeated: it may quote the value.
        Some(value) => {
            if serde_json::from_slice::<Option<Map<String, Value>>>(value.expose()).is_err() {
                let text = "Invalid value: \"<secret contents redacted>\": must be a JSON object";
                report.error(&path, text);
            }
        }
    }
}
