//! The answer to `/configz` of the kubelet's server: the settings in force, as fields of a `KubeletConfiguration` where
//! it has them. Pure.
//!
//! Never here: a value that may hold a password.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::config_file::kubelet::{FIELDS, Means};
use super::flags::{self, Flag, Takes};
use super::given::Parsed;
use super::value;
use crate::base::json;

/// The body of the answer.
#[must_use]
pub fn text(parsed: &Parsed) -> String {
    let mut all = Map::new();
    for (field, means) in FIELDS {
        let (Means::Flag(name) | Means::Pointer(name)) = means else { continue };
        let Some(flag) = flags::all().find(|flag| flag.name == *name && !flag.is_secret()) else { continue };
        let given: Vec<&str> = parsed.in_force(flag).map(|given| given.value.text()).collect();
        let is_switch = matches!(flag.takes, Takes::Switch(_));
        let texts = match given.as_slice() {
            [] if flag.default.is_empty() && is_switch => vec!["false"],
            [] if flag.default.is_empty() => continue,
            [] => vec![flag.default],
            given => given.to_vec(),
        };
        put(&mut all, field, of_type(flag, &texts.join(",")));
    }
    // Its default depends on another flag.
    put(&mut all, "serializeImagePulls", parsed.options.docker.serializes_pulls().into());
    json!({"kubeletconfig": all}).to_string()
}

/// Puts a value at a path of names, with full stops between.
fn put(map: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => _ = map.insert(path.to_owned(), value),
        Some((first, rest)) => {
            let below = map.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                put(below, rest, value);
            }
        }
    }
}

/// The value with the type that its field has.
fn of_type(flag: &Flag, text: &str) -> Value {
    let parts = || text.split(',').filter(|part| !part.is_empty());
    match flag.takes {
        Takes::Switch(_) => value::boolean(text).unwrap_or_default().into(),
        Takes::Count(..) | Takes::Seconds(_) | Takes::Number(..) | Takes::Port(_) => {
            text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
        }
        Takes::Taints(_) => parts().map(taint).collect(),
        Takes::List(..) => parts().collect(),
        Takes::Map(_, between, _) => {
            let pairs = parts().filter_map(|part| part.split_once(between));
            json::object(&mut pairs.map(|(key, value)| (key.to_owned(), Value::from(value)))).into()
        }
        Takes::Duration(_)
        | Takes::Path(..)
        | Takes::PathOrNone(..)
        | Takes::Name(..)
        | Takes::Choice(..)
        | Takes::Format(..)
        | Takes::Text(..)
        | Takes::Secret(..) => text.into(),
    }
}

fn taint(text: &str) -> Value {
    let (pair, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    json!({"key": key, "value": value, "effect": effect})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::run::tests::parsed;

    #[test]
    fn settings_stand_where_a_kubelet_configuration_has_them() {
        let line = "run --pod-manifest-path /m --max-pods 7 --kube-reserved cpu=100m,memory=64Mi --cluster-dns 10.0.0.1 \
             --eviction-hard memory.available<1Mi --register-with-taints edge=true:NoSchedule --anonymous-auth \
             --authorization-mode AlwaysAllow --manifest-url https://a/?token=canary --image-gc-high-threshold 90";
        let text = text(&parsed(line));
        assert!(!text.contains("canary"));
        let value: Value = serde_json::from_str(&text).unwrap();
        let check = |pointer: &str, expected: Value| {
            assert_eq!(
                value.pointer(&format!("/kubeletconfig/{pointer}")),
                Some(&expected),
                "{pointer}: {text}"
            );
        };
        check("staticPodPath", "/m".into());
        check("maxPods", 7.into());
        check("kubeReserved", json!({"cpu": "100m", "memory": "64Mi"}));
        check("clusterDNS", json!(["10.0.0.1"]));
        check("evictionHard", json!({"memory.available": "1Mi"}));
        check("registerWithTaints", json!([{"key": "edge", "value": "true", "effect": "NoSchedule"}]));
        check("authentication/anonymous/enabled", true.into());
        check("authentication/webhook/enabled", false.into());
        check("authorization/mode", "AlwaysAllow".into());
        check("syncFrequency", "1m".into());
        check("imageGCHighThresholdPercent", 90.into());
        check("port", 0.into());
        check("serializeImagePulls", true.into());
    }

    #[test]
    fn a_flag_that_is_given_again_has_the_value_that_is_in_force() {
        let line = "run --pod-manifest-path /m --cluster-dns 10.0.0.1 --cluster-dns 10.0.0.2,10.0.0.3 --max-pods 7 \
             --max-pods 8 --register-with-taints a=b:NoSchedule --register-with-taints c=d:NoExecute \
             --eviction-hard memory.available<1Mi --eviction-hard memory.available<2Mi,pid.available<5";
        let value: Value = serde_json::from_str(&text(&parsed(line))).unwrap();
        let of = |field: &str| value.pointer(&format!("/kubeletconfig/{field}")).cloned().unwrap_or_default();
        assert_eq!(of("clusterDNS"), json!(["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
        assert_eq!(of("maxPods"), json!(8));
        assert_eq!(of("registerWithTaints"), json!([{"key": "c", "value": "d", "effect": "NoExecute"}]));
        assert_eq!(of("evictionHard"), json!({"memory.available": "2Mi", "pid.available": "5"}));
    }
}
