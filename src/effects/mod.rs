//! Compares the list of fields ([`crate::manifest::support`]) with the program: each field is set in a small
//! pod, which must change a visible effect, or nothing at all. The man page and `explain` are generated from
//! that list, so this checks them, too. For tests only.
//!
//! The identity that is derived from the manifest's text is left out: every pod here has a UID. (Without a UID,
//! any edit, even of an ignored field, makes another pod.)

mod cases;
mod look;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::base::json::json;
use serde_json::Value;

use crate::base::table::{Set, Table};
use crate::manifest::support::{self, Support};
use crate::manifest::tests::shape;
use crate::pod::object::{Objects, testing::snapshot};
use cases::{CASES, Case, HOOK, HOOKS, OBJECTS, PROBE, PROBES};
use look::{Seen, look};

/// Of these fields only one may be given: setting one removes the others.
const UNIONS: &[&[&str]] = &[
    &["exec", "httpGet", "tcpSocket", "grpc", "sleep"],
    &["value", "valueFrom"],
    &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"],
    &["configMapRef", "secretRef"],
    &["subPath", "subPathExpr"],
    &["configMap", "secret", "downwardAPI", "clusterTrustBundle", "podCertificate", "serviceAccountToken"],
];

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Sets the field at a path, in the first element of each list. A last part with a `*` takes the entries of a
/// map.
fn set(pod: &mut Value, path: &str, value: Value) {
    let free_key = [".limits.", ".requests.", ".annotations."]
        .iter()
        .find_map(|part| Some(path.find(part)? + part.len() - 1));
    let mut at = pod;
    let mut parent_is_volume = false;
    let parts: Vec<&str> = path.get(..free_key.unwrap_or(path.len())).unwrap().split('.').collect();
    for (i, part) in parts.iter().enumerate() {
        let (name, is_list) = part.strip_suffix("[*]").map_or((*part, false), |name| (name, true));
        let map = at.as_object_mut().unwrap_or_else(|| panic!("{path}: {part} is in no map"));
        let is_one_of = |others: &&&[&str]| others.contains(&name);
        for other in UNIONS.iter().filter(is_one_of).flat_map(|others| others.iter()) {
            if *other != name {
                map.remove(*other);
            }
        }
        if parent_is_volume && name != "name" {
            map.retain(|key, _| key == "name" || key == name);
        }
        if i + 1 == parts.len() && !is_list {
            match (free_key, value) {
                (Some(_), Value::Object(entries)) => {
                    let into = map.entry(name).or_insert(json!({}));
                    into.as_object_mut().unwrap().extend(entries);
                }
                (_, value) => _ = map.insert(name.to_owned(), value),
            }
            return;
        }
        at = map.entry(name).or_insert(if is_list { json!([]) } else { json!({}) });
        if is_list {
            let list = at.as_array_mut().unwrap();
            if list.is_empty() {
                list.push(json!({}));
            }
            at = list.first_mut().unwrap();
        }
        parent_is_volume = *part == "volumes[*]";
    }
}

/// A pod with the fields that a case needs. `c` in a path is the container of the case.
fn pod(base: &str, init: bool) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u-1"},
        "spec": {"containers": [{"name": "app", "image": "busybox"}]}});
    if init {
        let sidecar = json!({"name": "side", "image": "busybox", "restartPolicy": "Always"});
        set(&mut pod, "spec.initContainers", json!([sidecar]));
    }
    let base = yaml(if base.is_empty() { "{}" } else { base });
    // Fields of the pod are set before fields of the container.
    let (of_container, of_pod): (Vec<_>, Vec<_>) =
        base.as_object().unwrap().iter().partition(|(path, _)| path.starts_with("c."));
    for (path, value) in of_pod.into_iter().chain(of_container) {
        set(&mut pod, &place(path, init), value.clone());
    }
    pod
}

/// The full path, in the right list of containers.
fn place(path: &str, init: bool) -> String {
    let list = if init { "spec.initContainers[*]." } else { "spec.containers[*]." };
    match path.strip_prefix("c.") {
        Some(rest) => format!("{list}{rest}"),
        None => path.to_owned(),
    }
}

/// The results of all threads, one for each pod.
#[derive(Default)]
struct Looks(Mutex<Table<String, Arc<OnceLock<Seen>>>>);

impl Looks {
    fn at(&self, manifest: &Value, objects: &Arc<Objects>) -> Arc<OnceLock<Seen>> {
        let place = Arc::clone(self.0.lock().unwrap().get_or_default(manifest.to_string()));
        place.get_or_init(|| look(manifest, objects));
        place
    }
}

/// All cases, including those of probes and hooks for each kind.
fn cases() -> Vec<(String, String, String)> {
    let owned = |case: &Case| (case.0.to_owned(), case.1.to_owned(), case.2.to_owned());
    let mut all: Vec<_> = CASES.iter().map(owned).collect();
    for (names, cases) in [(PROBES, PROBE), (HOOKS, HOOK)] {
        for name in names {
            let of = |text: &str| text.replace("$", name);
            all.extend(
                cases.iter().map(|Case(field, value, base)| (of(field), (*value).to_owned(), of(base))),
            );
        }
    }
    all
}

/// The list's entry for a field: that of its first parent that is not carried out.
fn said(field: &str) -> Support {
    // The name of a resource has dots.
    if let Some(row) = support::table().iter().find(|row| row.field == field) {
        return row.support;
    }
    let ends = field.match_indices('.').map(|(at, _)| at).chain([field.len()]);
    let rows: Vec<_> =
        ends.filter_map(|end| support::row(field.get(..end)?.trim_end_matches("[*]"))).collect();
    let no = rows.iter().find(|row| row.support != Support::Supported);
    no.or(rows.last()).map_or(Support::Supported, |row| row.support)
}

/// The mistake in the list's entry for one field.
fn wrong(looks: &Looks, (field, value, base): &(String, String, String), init: bool) -> Option<String> {
    let objects = snapshot(OBJECTS);
    let plain = pod(base, init);
    let mut with = plain.clone();
    set(&mut with, &place(field, init), yaml(value.trim_start_matches('!')));
    let (before, after) = (looks.at(&plain, &objects), looks.at(&with, &objects));
    let (before, after) = (before.get()?, after.get()?);
    if !before.errors.is_empty() {
        return Some(format!("the pod without it: {:?}", before.errors));
    }
    match said(&place(field, false)) {
        Support::Supported if value.starts_with('!') => {
            after.errors.is_empty().then(|| "a wrong value is taken".to_owned())
        }
        Support::Supported if !after.errors.is_empty() => Some(format!("{:?}", after.errors)),
        Support::Supported => after.difference(before).is_none().then(|| "has no effect".to_owned()),
        Support::Ignored(_) if !after.errors.is_empty() => {
            Some(format!("{:?} {:?}", after.errors, after.warnings))
        }
        Support::Ignored(why) => {
            let warned = after.warnings.iter().any(|(_, text)| *text == format!("is ignored: {why}"));
            match after.difference(before) {
                None if warned => None,
                None => Some(format!("[] {:?}", after.warnings)),
                Some((facts, before)) => {
                    let other = facts.iter().find(|fact| !before.contains(fact)).cloned();
                    Some(format!("has an effect: {}", other.unwrap_or_default()))
                }
            }
        }
        // Validation may refuse it before the list does, in the kubelet's words.
        Support::Refused(_) => after.errors.is_empty().then(|| "is not refused".to_owned()),
    }
}

/// Whether a case is about volumes, which are set up for it: only root may mount them and change their owners.
fn has_volumes((field, _, base): &(String, String, String)) -> bool {
    field.contains("spec.volumes") || base.contains("spec.volumes")
}

#[test]
fn every_field_does_what_the_list_says() {
    check(|case| !has_volumes(case));
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn every_field_of_volumes_does_what_the_list_says() {
    check(has_volumes);
}

/// Tries the selected cases, on all cores.
fn check(is_tried: impl Fn(&(String, String, String)) -> bool) {
    let cases: Vec<_> = cases().into_iter().filter(is_tried).collect();
    assert!(!cases.is_empty());
    let (next, found, looks) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Looks::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let of_sidecars =
                        case.0.starts_with("c.") && !cases::NOT_OF_SIDECARS.contains(&case.0.as_str());
                    for init in [false, true].into_iter().filter(|init| !init || of_sidecars) {
                        if let Some(why) = wrong(&looks, case, init) {
                            found.lock().unwrap().push(format!("{}: {why}", place(&case.0, init)));
                        }
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), cases.len(), found.join("\n"));
}

/// Every row of the list, and every supported field of the API, has a case.
#[test]
fn no_field_is_without_a_case() {
    let mut covered: Set<String> = Set::new();
    for (field, ..) in cases() {
        let field = place(&field, false);
        let ends = field.match_indices('.').map(|(at, _)| at).chain([field.len()]);
        covered.extend(ends.map(|end| field[..end].trim_end_matches("[*]").to_owned()));
    }
    let rows = support::table().iter().map(|row| row.field.to_owned());
    let shapes = shape::of_pod().into_iter().map(|shape| shape::as_row(&shape.path));
    let carried_out = shapes.filter(|path| said(path) == Support::Supported);
    let has_case =
        |field: &String| covered.contains(field) || cases::WITHOUT_MEANING.contains(&field.as_str());
    let missing: Set<String> = rows.chain(carried_out).filter(|field| !has_case(field)).collect();
    assert!(missing.is_empty(), "{} are without a case:\n{missing:#?}", missing.len());
    let names = cases().into_iter().map(|(field, ..)| place(&field, false));
    let known: Set<String> = shape::of_pod().iter().map(|shape| shape::as_row(&shape.path)).collect();
    let rows: Set<&str> = support::table().iter().map(|row| row.field).collect();
    for name in names {
        assert!(known.contains(&name) || rows.contains(name.as_str()), "{name} is no field");
    }
}
