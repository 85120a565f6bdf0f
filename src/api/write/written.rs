//! Helpers of writes: errors about objects of other sources, the stored form, and generated names.

use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;

use crate::api::failure::Failure;
use crate::api::kinds::{Kind, Resource};
use crate::api::value::{part, place};
use crate::api::world::{Object, World, set_version};
use crate::base::clock::{Clock as _, SignedDuration, System, Timestamp};
use crate::base::hex;
use crate::status::local_objects::ORIGIN;

/// Letters of generated names.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The annotation with the source of an object of a file.
pub const SOURCE: &str = "/metadata/annotations/kubernetes.io~1config.source";

/// The error for an object that comes from a file or the URL.
#[must_use]
pub fn elsewhere(kind: &Kind, name: &str, value: &Value, world: &World) -> Failure {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let noted = text(&format!("/metadata/annotations/{}", ORIGIN.replace('/', "~1")));
    let (namespace, latest) = (text("/metadata/namespace"), world.told().get());
    let of_pod = latest.snapshot.pods.iter().find(|view| {
        kind.resource == Resource::Pods && view.pod.key.name == name && view.pod.key.namespace == namespace
    });
    let origin = of_pod.map_or(noted, |view| view.pod.origin.to_string());
    let why = format!(
        "Operation cannot be fulfilled on {} {name:?}: it comes from {origin}, and is changed there",
        kind.qualified()
    );
    Failure::of(409, kind, name, why)
}

/// Whether another object of its name, of a file or the URL, is shown in place of the stored one.
#[must_use]
pub fn is_shadowed(stored: &Value, live: &Value) -> bool {
    stored.pointer("/metadata/uid") != live.pointer("/metadata/uid")
}

/// The stored object in the shown form, also when another one is shown in its place.
#[must_use]
pub fn own(stored: &Value, live: &Arc<Object>) -> Arc<Object> {
    if !is_shadowed(stored, &live.value) {
        return Arc::clone(live);
    }
    let mut value = stored.clone();
    set_version(&mut value, live.version);
    Arc::new(Object { version: live.version, value })
}

/// The grace period of an object that is being deleted.
#[must_use]
pub fn grace_left(live: &Value) -> Option<i64> {
    let metadata = part(live, "/metadata");
    metadata.get("deletionTimestamp")?;
    metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// Checks the preconditions of `DeleteOptions`.
///
/// # Errors
/// One is not met.
pub fn preconditions(kind: &Kind, name: &str, options: &Value, live: &Value) -> Result<(), Failure> {
    for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = options.pointer(&format!("/preconditions/{field}")).and_then(Value::as_str);
        let found = part(live, "/metadata").get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty() && *wanted != found) {
            let why = format!(
                "Operation cannot be fulfilled on {} {name:?}: Precondition failed: {word} in precondition: {wanted}, \
                 {word} in object meta: {found}",
                kind.qualified()
            );
            return Err(Failure::of(409, kind, name, why));
        }
    }
    Ok(())
}

/// The object with the end of its grace period, which begins with the first deletion.
#[must_use]
pub fn leaving(live: &Value, grace: i64) -> Value {
    let grace = grace.min(u32::MAX.into());
    let now = System::start().now().wall;
    let end = live.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let end = end.and_then(|end| end.parse::<Timestamp>().ok()).zip(grace_left(live));
    let (from, more) = end.map_or((now, grace), |(end, left)| (end, grace.saturating_sub(left)));
    let end = from.checked_add(SignedDuration::from_secs(more)).unwrap_or(from);
    let mut value = live.clone();
    *place(&mut value, &["metadata", "deletionTimestamp"]) = crate::status::seconds(end).0.to_string().into();
    *place(&mut value, &["metadata", "deletionGracePeriodSeconds"]) = grace.into();
    value
}

/// Removes the parts that are not stored.
pub fn without_live(value: &mut Value) {
    remove(value, "status");
    if let Some(spec) = value.get_mut("spec") {
        // They do not run again after a restart.
        remove(spec, "ephemeralContainers");
    }
    if let Some(metadata) = value.get_mut("metadata") {
        remove(metadata, "resourceVersion");
    }
}

/// Removes a field.
pub fn remove(value: &mut Value, field: &str) {
    if let Value::Object(fields) = value {
        fields.remove(field);
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without random numbers names clash, and the client gets an error.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes
}

/// A version 4 UUID.
#[must_use]
pub fn uid() -> String {
    let bits = u128::from_be_bytes(random::<16>());
    let bits = bits & !(0xf << 76) | 4 << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let hex = hex::hex(&bits.to_be_bytes());
    let piece = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", piece(0, 8), piece(8, 12), piece(12, 16), piece(16, 20), piece(20, 32))
}

/// A generated name with this prefix (`apimachinery/pkg/util/rand`).
#[must_use]
pub fn made_up(beginning: &str) -> String {
    let letters = random::<5>().map(|byte| {
        let at = usize::from(byte) % LETTERS.len();
        char::from(LETTERS.get(at).copied().unwrap_or(b'x'))
    });
    format!("{beginning}{}", letters.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label on a Secret that a file shadows stored the file's values; a deletion affected the file's pod.
    #[test]
    fn an_object_in_the_place_of_a_stored_one_is_not_written() {
        use serde_json::json;
        let value = |uid: &str, data: &str| json!({"metadata": {"name": "s", "uid": uid}, "data": data});
        let live = Arc::new(Object { version: 7, value: value("1", "of the file") });
        let stored = value("2", "mine");
        assert!(is_shadowed(&stored, &live.value) && !is_shadowed(&stored, &stored));
        let own = own(&stored, &live);
        assert_eq!((own.version, &own.value["data"]), (7, &json!("mine")));
        assert_eq!(own.value["metadata"]["resourceVersion"], "7");
        assert!(Arc::ptr_eq(&super::own(&value("1", "mine"), &live), &live));
    }

    #[test]
    fn a_grace_period_is_at_most_what_the_node_counts() {
        let gone = leaving(&serde_json::json!({"metadata": {}}), i64::MAX);
        assert_eq!(grace_left(&gone), Some(u32::MAX.into()));
        assert!(gone["metadata"]["deletionTimestamp"].as_str().unwrap() > "2100");
    }

    /// As the API server counts: from the first request.
    #[test]
    fn a_second_deletion_ends_sooner_by_the_difference() {
        let first = leaving(&serde_json::json!({"metadata": {}}), 30);
        let second = leaving(&first, 5);
        let end = |value: &Value| -> Timestamp {
            value["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap()
        };
        assert_eq!(end(&first).as_second() - end(&second).as_second(), 25);
        assert_eq!(grace_left(&second), Some(5));
    }

    #[test]
    fn identities_are_random_uuids() {
        let (a, b) = (uid(), uid());
        assert!(a != b && a.len() == 36, "{a}");
        assert_eq!(a.as_bytes()[14], b'4');
        assert!("89ab".contains(char::from(a.as_bytes()[19])), "{a}");
        assert!(made_up("web-").len() == 9);
    }
}
