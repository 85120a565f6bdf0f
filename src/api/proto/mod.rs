//! Bodies of requests: JSON, YAML, or protobuf, which typed clients send since kubectl 1.32
//! (`apimachinery/pkg/runtime/serializer/protobuf`). Pure: the bytes are a client's.
//!
//! In protobuf only the kinds are read that kubectl creates by typed clients. Field numbers are those of each group's
//! `generated.proto`; those of a pod are in [`pod`].

use crate::base::json::json;
use serde_json::{Map, Value};

mod pod;
mod wire;

use wire::{Left, Wire};

use crate::api::failure::Failure;
use crate::base::clock::Timestamp;
use crate::manifest::base64;

/// The first bytes of an envelope.
const MAGIC: &[u8] = b"k8s\0";
/// Depth of messages within messages.
const DEPTH: usize = 16;

/// The type of a field.
enum Holds {
    Text,
    Number,
    Switch,
    Texts,
    TextMap,
    BytesMap,
    Time,
    One(&'static Message),
    Many(&'static Message),
}

/// The known fields of a message: number, name in JSON, type.
type Message = [(u64, &'static str, Holds)];

use Holds::{BytesMap, Many, Number, One, Switch, Text, TextMap, Texts, Time};

static OWNER: &Message = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Switch),
    (7, "blockOwnerDeletion", Switch),
];

static META: &Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", Number),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Many(OWNER)),
    (14, "finalizers", Texts),
];

static CONFIG_MAP: &Message = &[
    (1, "metadata", One(META)),
    (2, "data", TextMap),
    (3, "binaryData", BytesMap),
    (4, "immutable", Switch),
];

static SECRET: &Message = &[
    (1, "metadata", One(META)),
    (2, "data", BytesMap),
    (3, "type", Text),
    (4, "stringData", TextMap),
    (5, "immutable", Switch),
];

static FINALIZERS: &Message = &[(1, "finalizers", Texts)];
static PHASE: &Message = &[(1, "phase", Text)];
static NAMESPACE: &Message =
    &[(1, "metadata", One(META)), (2, "spec", One(FINALIZERS)), (3, "status", One(PHASE))];

static PRECONDITIONS: &Message = &[(1, "uid", Text), (2, "resourceVersion", Text)];
static DELETE_OPTIONS: &Message = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", One(PRECONDITIONS)),
    (3, "orphanDependents", Switch),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];

static RESOURCE: &Message = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
static NO_RESOURCE: &Message = &[(1, "path", Text), (2, "verb", Text)];
static ACCESS_SPEC: &Message =
    &[(1, "resourceAttributes", One(RESOURCE)), (2, "nonResourceAttributes", One(NO_RESOURCE))];
static ACCESS: &Message = &[(1, "metadata", One(META)), (2, "spec", One(ACCESS_SPEC))];
static RULES_SPEC: &Message = &[(1, "namespace", Text)];
static RULES: &Message = &[(1, "metadata", One(META)), (2, "spec", One(RULES_SPEC))];
static REVIEW: &Message = &[(1, "metadata", One(META))];

fn message(kind: &str) -> Option<&'static Message> {
    Some(match kind {
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Namespace" => NAMESPACE,
        "DeleteOptions" => DELETE_OPTIONS,
        "SelfSubjectAccessReview" => ACCESS,
        "SelfSubjectRulesReview" => RULES,
        "SelfSubjectReview" => REVIEW,
        _ => return None,
    })
}

/// The object of a body; null for an empty one.
///
/// # Errors
/// The body cannot be read, has more than `values` values, or is of an unknown type.
pub fn object(content_type: Option<&str>, bytes: &[u8], values: usize) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let media = content_type.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    match media {
        "application/vnd.kubernetes.protobuf" => protobuf(bytes, &Left::new(values)),
        "application/json" => serde_json::from_slice(bytes)
            .map_err(|error| Failure::new(400, format!("the body of the request is no JSON: {error}"))),
        "application/yaml" => crate::manifest::yaml_value(bytes).map_err(|why| Failure::new(400, why)),
        other => {
            let known = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
            let why = format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: {known}"
            );
            Err(Failure::new(415, why))
        }
    }
}

fn protobuf(bytes: &[u8], left: &Left) -> Result<Value, Failure> {
    let broken = || match left.is_used_up() {
        true => Failure::new(413, "the body of the request has too many values"),
        false => Failure::new(400, "the body of the request is no protobuf of Kubernetes"),
    };
    let envelope = bytes.strip_prefix(MAGIC).ok_or_else(broken)?;
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in left.fields(envelope) {
        match field.ok_or_else(broken)? {
            (1, Wire::Bytes(inner)) => {
                for field in left.fields(inner) {
                    match field.ok_or_else(broken)? {
                        (1, Wire::Bytes(text)) => version = String::from_utf8_lossy(text).into_owned(),
                        (2, Wire::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(inner)) => raw = inner,
            _ => {}
        }
    }
    let read = match (kind.as_str(), message(&kind)) {
        ("Pod", _) => pod::decode(raw, left),
        (_, Some(fields)) => decode(raw, fields, left, DEPTH),
        (_, None) => {
            let why = format!("objects of kind {kind:?} are taken as JSON or YAML here, not as protobuf");
            return Err(Failure::new(415, why));
        }
    };
    let mut object = read.ok_or_else(broken)?;
    object.insert("apiVersion".to_owned(), version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn decode(bytes: &[u8], fields: &'static Message, left: &Left, depth: usize) -> Option<Map<String, Value>> {
    let depth = depth.checked_sub(1)?;
    let mut object = Map::new();
    for field in left.fields(bytes) {
        let (number, wire) = field?;
        let Some((_, name, holds)) = fields.iter().find(|(known, ..)| *known == number) else { continue };
        let name = (*name).to_owned();
        match (holds, wire) {
            (Number, Wire::Number(value)) => _ = object.insert(name, value.cast_signed().into()),
            (Switch, Wire::Number(value)) => _ = object.insert(name, (value != 0).into()),
            // Go writes empty texts.
            (Text, Wire::Bytes([])) => {}
            (Text, Wire::Bytes(text)) => _ = object.insert(name, utf8(text)?),
            (Time, Wire::Bytes(inner)) => object.extend(time(inner, left)?.map(|time| (name, time))),
            (One(message), Wire::Bytes(inner)) => {
                _ = object.insert(name, Value::Object(decode(inner, message, left, depth)?));
            }
            (Texts, Wire::Bytes(text)) => push(&mut object, name, utf8(text)?),
            (Many(message), Wire::Bytes(inner)) => {
                push(&mut object, name, Value::Object(decode(inner, message, left, depth)?));
            }
            (TextMap | BytesMap, Wire::Bytes(inner)) => {
                let (key, value) = entry(inner, matches!(holds, BytesMap), left)?;
                let map = object.entry(name).or_insert_with(|| json!({}));
                map.as_object_mut()?.insert(key, value);
            }
            _ => return None,
        }
    }
    Some(object)
}

fn utf8(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}

fn push(object: &mut Map<String, Value>, name: String, value: Value) {
    if let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) {
        list.push(value);
    }
}

/// One entry of a map.
fn entry(bytes: &[u8], is_bytes: bool, left: &Left) -> Option<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::from(""));
    for field in left.fields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => key = std::str::from_utf8(text).ok()?.to_owned(),
            (2, Wire::Bytes(bytes)) if is_bytes => value = base64::encode(bytes).into(),
            (2, Wire::Bytes(text)) => value = utf8(text)?,
            _ => {}
        }
    }
    Some((key, value))
}

/// A time; an inner `None` for Go's zero time.
fn time(bytes: &[u8], left: &Left) -> Option<Option<Value>> {
    let mut seconds = None;
    for field in left.fields(bytes) {
        if let (1, Wire::Number(value)) = field? {
            seconds = Some(value.cast_signed());
        }
    }
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    Some(time.filter(|time| time.as_second() > 0).map(|time| time.to_string().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Option<&str> = Some("application/vnd.kubernetes.protobuf");

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let meta = [field(1, b"c"), field(3, b"default"), field(8, b"")].concat();
        let entry = [field(1, b"k"), field(2, b"v")].concat();
        let binary = [field(1, b"b"), field(2, &[0xff])].concat();
        let raw = [field(1, &meta), field(2, &entry), field(3, &binary)].concat();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "binaryData": {"b": "/w=="},
                              "metadata": {"name": "c", "namespace": "default"}});
        assert_eq!(object(TYPE, &envelope("ConfigMap", &raw), 100), Ok(expected));
    }

    #[test]
    fn a_body_of_very_many_small_fields_is_refused_before_it_is_large() {
        let empty = field(2, &field(2, &[0x7a, 2, 0x0a, 0]));
        let code = |count: usize| {
            let raw = empty.repeat(count);
            let meta = field(2, b"Pod");
            let length =
                [u8::try_from(raw.len() & 0x7f).unwrap() | 0x80, u8::try_from(raw.len() >> 7).unwrap()];
            let bytes = [MAGIC, &field(1, &meta), &[2 << 3 | 2], &length, &raw].concat();
            object(TYPE, &bytes, 1000).map(drop).map_err(|failure| failure.code)
        };
        assert_eq!((code(20), code(900)), (Ok(()), Err(413)));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let code = |kind, bytes: &[u8]| object(kind, bytes, 100).unwrap_err().code;
        assert_eq!(code(TYPE, b"k8s"), 400);
        assert_eq!(code(TYPE, &envelope("Deployment", b"")), 415);
        assert_eq!(code(TYPE, &envelope("Secret", &[0x0a, 0x7f])), 400);
        assert_eq!(code(TYPE, &envelope("Secret", &[0xff; 12])), 400);
        assert_eq!(code(Some("text/plain"), b"x"), 415);
        assert_eq!(code(Some("application/json"), b"{"), 400);
        assert_eq!(object(TYPE, b"", 100), Ok(Value::Null));
    }
}
