//! What two nodes tell, compared. Never here: what they are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;

/// Calls `each` with the path and value of each leaf. Elements of a list are named by their type or name.
pub(super) fn leaves(value: &Value, path: &str, each: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}.{name}"), each));
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                let name = item["type"].as_str().or(item["name"].as_str());
                let name = name.map_or_else(|| at.to_string(), str::to_owned);
                leaves(item, &format!("{path}[{name}]"), each);
            }
        }
        _ => each(path, value),
    }
}

/// The lines in which two tables differ.
pub(super) fn differences<T: PartialEq + std::fmt::Debug>(
    kubelet: &BTreeMap<String, T>,
    ours: &BTreeMap<String, T>,
) -> Vec<String> {
    let names: BTreeSet<&String> = kubelet.keys().chain(ours.keys()).collect();
    let differ = names.into_iter().filter(|name| kubelet.get(*name) != ours.get(*name));
    differ
        .map(|name| format!("{name}\n  kubelet: {:?}\n  ours:    {:?}", kubelet.get(name), ours.get(name)))
        .collect()
}

/// Repeats until nothing differs, for what differs for a moment only.
pub(super) fn until_same(what: &str, mut differ: impl FnMut() -> Vec<String>) {
    let begun = Instant::now();
    loop {
        let left = differ();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}:\n{}", left.join("\n"));
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Names, types and labels of metrics.
pub(super) fn metrics(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            all.insert(name.to_owned(), kind.to_owned());
        }
    }
    all
}
