//! The network configuration in the operator's file (containernetworking/cni's `libcni/conf.go`, `SPEC.md`
//! section 1). Pure.
//!
//! Never here: the meaning of a plugin's own keys; they are passed on unchanged.

use crate::base::json::json;
use serde_json::{Map, Value};

use crate::base::{json as texts, limits};

/// Supported versions of the specification, the oldest first.
pub const VERSIONS: &[&str] = &["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// A network: plugins that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Name of the network; a plain file name.
    pub name: String,
    /// One of [`VERSIONS`].
    pub version: &'static str,
    /// At least one.
    pub plugins: Vec<Plugin>,
    /// The network opts out of collecting.
    pub disable_gc: bool,
    /// The whole configuration as a list, JSON.
    pub text: Vec<u8>,
}

/// One plugin of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// Name of its program, without a path.
    pub kind: String,
    /// All of its keys.
    pub conf: Map<String, Value>,
}

impl List {
    /// Whether this network's version is at least that one.
    #[must_use]
    pub fn is_at_least(&self, version: &str) -> bool {
        place(self.version) >= place(version)
    }
}

impl Plugin {
    /// Whether the plugin declares this capability.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        let declared = self.conf.get("capabilities").and_then(|all| all.get(capability));
        declared == Some(&Value::Bool(true))
    }
}

fn place(version: &str) -> Option<usize> {
    VERSIONS.iter().position(|known| *known == version)
}

/// Parses a file of the configuration directory; `is_list` depends on its name.
///
/// # Errors
/// The mistake, for the operator.
pub fn parse(text: &[u8], is_list: bool) -> Result<List, String> {
    let what = if is_list { "configuration list" } else { "configuration" };
    let all = object(text).map_err(|why| format!("error parsing {what}: {why}"))?;
    if is_list {
        return list(all, text.to_vec());
    }
    if !matches!(all.get("type"), Some(Value::String(kind)) if !kind.is_empty()) {
        let hint = if all.contains_key("plugins") {
            ": it has plugins, and a list of plugins is read from a file that ends in .conflist"
        } else {
            ""
        };
        return Err(format!("error parsing configuration: missing 'type'{hint}"));
    }
    let mut whole = Map::new();
    for key in ["name", "cniVersion"] {
        whole.extend(all.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    whole.insert("plugins".to_owned(), json!([all]));
    let text = Value::Object(whole.clone()).to_string().into_bytes();
    list(whole, text)
}

fn object(text: &[u8]) -> Result<Map<String, Value>, String> {
    if text.len() > limits::CNI_CONF || texts::values(text) > limits::CNI_VALUES {
        return Err("it is too large".to_owned());
    }
    match serde_json::from_slice(text) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn list(all: Map<String, Value>, text: Vec<u8>) -> Result<List, String> {
    let wrong = |why: String| format!("error parsing configuration list: {why}");
    let name = match all.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        None | Some(Value::String(_)) => return Err(wrong("no name".to_owned())),
        Some(_) => return Err(wrong("its name is no text".to_owned())),
    };
    if !is_name(&name) {
        return Err(wrong(format!(
            "invalid characters found in network name {name:?}: letters, digits, '_', '.' and '-' are allowed, and a \
             letter or digit comes first"
        )));
    }
    let version = version(&all).map_err(wrong)?;
    let disable_gc = flag(&all, "disableGC").map_err(wrong)?;
    let Some(Value::Array(found)) = all.get("plugins") else {
        return Err(wrong("no 'plugins' key, or it is no list".to_owned()));
    };
    if found.is_empty() || found.len() > limits::CNI_PLUGINS {
        return Err(wrong(format!("its plugins are {}, not 1 to {}", found.len(), limits::CNI_PLUGINS)));
    }
    let plugins: Result<Vec<Plugin>, String> = found.iter().enumerate().map(plugin).collect();
    Ok(List { name, version, plugins: plugins.map_err(wrong)?, disable_gc, text })
}

fn plugin((index, conf): (usize, &Value)) -> Result<Plugin, String> {
    let Value::Object(conf) = conf else { return Err(format!("plugin {index} is no JSON object")) };
    match conf.get("type") {
        Some(Value::String(kind)) if is_name(kind) => Ok(Plugin { kind: kind.clone(), conf: conf.clone() }),
        Some(Value::String(kind)) if !kind.is_empty() => {
            Err(format!("plugin {index}: type {kind:?} is no plain file name"))
        }
        _ => Err(format!("plugin {index}: missing 'type'")),
    }
}

/// The version in force: the newest known one of `cniVersions`, else `cniVersion`.
fn version(all: &Map<String, Value>) -> Result<&'static str, String> {
    let several: Vec<&str> = match all.get("cniVersions") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err("its cniVersions are no list".to_owned()),
    };
    let newest = VERSIONS.iter().rev().find(|known| several.contains(known)).copied();
    let one = match all.get("cniVersion") {
        None => "0.1.0",
        Some(Value::String(text)) => text,
        Some(_) => return Err("its cniVersion is no text".to_owned()),
    };
    newest.or_else(|| VERSIONS.iter().find(|known| **known == one).copied()).ok_or_else(|| {
        format!("its cniVersion {one:?} is not known to podkeeper: known are {}", VERSIONS.join(", "))
    })
}

/// A flag, which may also be written as a string, as with upstream.
fn flag(all: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match all.get(key) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(_) => Err(format!("its {key} is neither true nor false")),
    }
}

/// Whether the text is a plain file name that cannot lead out of a directory (upstream `pkg/utils/utils.go`).
fn is_name(text: &str) -> bool {
    text.len() <= NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// Longest name, bytes: together with an id it is part of a file name.
const NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_single_configurations() {
        let list = parse(
            br#"{"cniVersion": "1.0.0", "name": "pods", "disableGC": "true", "plugins": [
                {"type": "bridge", "bridge": "cni0"},
                {"type": "portmap", "capabilities": {"portMappings": true, "bandwidth": false}}]}"#,
            true,
        )
        .unwrap();
        assert_eq!((list.name.as_str(), list.version, list.disable_gc), ("pods", "1.0.0", true));
        let [bridge, portmap] = list.plugins.as_slice() else { panic!("{list:?}") };
        assert_eq!((bridge.kind.as_str(), bridge.conf["bridge"].as_str()), ("bridge", Some("cni0")));
        assert!(portmap.has("portMappings") && !portmap.has("bandwidth") && !bridge.has("portMappings"));
        let one = parse(br#"{"cniVersion": "0.3.1", "name": "n", "type": "ptp", "x": 1}"#, false).unwrap();
        assert_eq!((one.name.as_str(), one.version, one.plugins.len()), ("n", "0.3.1", 1));
        // The stored text is a list, and parses to the same network.
        assert_eq!(parse(&one.text, true).unwrap().plugins, one.plugins);
    }

    #[test]
    fn versions() {
        let of = |versions: &str| {
            parse(format!(r#"{{{versions} "name": "n", "plugins": [{{"type": "p"}}]}}"#).as_bytes(), true)
                .map(|list| list.version)
        };
        assert_eq!(of(""), Ok("0.1.0"));
        assert_eq!(of(r#""cniVersion": "1.1.0","#), Ok("1.1.0"));
        assert_eq!(of(r#""cniVersion": "0.4.0", "cniVersions": ["1.0.0", "9.0.0", "0.4.0"],"#), Ok("1.0.0"));
        assert_eq!(of(r#""cniVersion": "0.4.0", "cniVersions": ["9.0.0"],"#), Ok("0.4.0"));
        assert!(of(r#""cniVersion": "2.0.0","#).unwrap_err().contains("\"2.0.0\" is not known"));
        let list =
            parse(br#"{"cniVersion": "0.4.0", "name": "n", "plugins": [{"type": "p"}]}"#, true).unwrap();
        assert!(list.is_at_least("0.3.1") && list.is_at_least("0.4.0") && !list.is_at_least("1.0.0"));
    }

    #[test]
    fn what_is_wrong() {
        let check = |is_list: bool, text: &str, expected: &str| {
            let why = parse(text.as_bytes(), is_list).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        };
        check(true, "{", "error parsing configuration list: EOF");
        check(true, "[]", "error parsing configuration list: it is no JSON object");
        check(true, r#"{"plugins": [{"type": "a"}]}"#, "error parsing configuration list: no name");
        check(true, r#"{"name": "a"}"#, "no 'plugins' key");
        check(true, r#"{"name": "a", "plugins": []}"#, "its plugins are 0, not 1 to 32");
        check(true, r#"{"name": "a", "plugins": [{"type": "p"}, {}]}"#, "plugin 1: missing 'type'");
        check(true, r#"{"name": "a", "plugins": [{"type": "../sh"}]}"#, "is no plain file name");
        check(
            true,
            r#"{"name": "../a", "plugins": [{"type": "p"}]}"#,
            "invalid characters found in network name",
        );
        check(
            true,
            r#"{"name": "a", "disableGC": 1, "plugins": [{"type": "p"}]}"#,
            "its disableGC is neither",
        );
        check(false, r#"{"name": "a"}"#, "error parsing configuration: missing 'type'");
        check(false, r#"{"name": "a", "plugins": []}"#, "read from a file that ends in .conflist");
        check(false, &format!("[{}0]", "0,".repeat(limits::CNI_VALUES)), "it is too large");
    }
}
