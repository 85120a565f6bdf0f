//! The input of one run of a plugin: its environment and its standard input (containernetworking/cni's `SPEC.md`
//! sections 2 and 3, `libcni/api.go`). Pure.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::conf::{List, Plugin};
use crate::base::json;
use crate::pod::PodKey;

/// The interface in the pod.
pub const INTERFACE: &str = "eth0";

/// The command for a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Attach a pod.
    Add,
    /// Detach a pod.
    Del,
    /// Free allocations of pods that are gone.
    Gc,
    /// Report the supported versions.
    Version,
}

impl Command {
    /// The command's name for plugins.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Command::Add => "ADD",
            Command::Del => "DEL",
            Command::Gc => "GC",
            Command::Version => "VERSION",
        }
    }
}

/// The sandbox that a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Docker's id.
    pub id: String,
    /// Path of its network namespace; empty if it no longer has one.
    pub netns: String,
    /// Its pod.
    pub key: PodKey,
    pub uid: String,
}

impl Sandbox {
    /// The pairs of `CNI_ARGS`, with the names that the kubelet's runtimes use. `IgnoreUnknown` comes first: otherwise
    /// a plugin that does not know one of the others would fail.
    #[must_use]
    pub fn arguments(&self) -> Vec<[String; 2]> {
        let pair = |key: &str, value: &str| [key.to_owned(), value.to_owned()];
        vec![
            pair("IgnoreUnknown", "1"),
            pair("K8S_POD_NAMESPACE", &self.key.namespace),
            pair("K8S_POD_NAME", &self.key.name),
            pair("K8S_POD_INFRA_CONTAINER_ID", &self.id),
            pair("K8S_POD_UID", &self.uid),
        ]
    }
}

/// The environment in addition to podkeeper's own. `arguments`: the result of [`Sandbox::arguments`] when the sandbox
/// was attached.
#[must_use]
pub fn environment(
    command: Command,
    sandbox: Option<&Sandbox>,
    arguments: &[[String; 2]],
    bin_dirs: &str,
) -> Vec<(&'static str, String)> {
    let mut all = vec![("CNI_COMMAND", command.word().to_owned()), ("CNI_PATH", bin_dirs.to_owned())];
    if let Some(sandbox) = sandbox {
        let pairs: Vec<String> = arguments.iter().map(|[key, value]| format!("{key}={value}")).collect();
        all.extend([
            ("CNI_CONTAINERID", sandbox.id.clone()),
            ("CNI_NETNS", sandbox.netns.clone()),
            ("CNI_IFNAME", INTERFACE.to_owned()),
            ("CNI_ARGS", pairs.join(";")),
        ]);
    }
    all
}

/// Standard input of a plugin that attaches or detaches. `capabilities`: all of the runtime's settings, of which the
/// plugin gets those that it declares. `previous`: the result of the plugin before it.
#[must_use]
pub fn input(
    list: &List,
    plugin: &Plugin,
    capabilities: &Map<String, Value>,
    previous: Option<&Value>,
) -> Vec<u8> {
    let mut conf = begin(list, plugin);
    let taken = capabilities.iter().filter(|(name, _)| plugin.has(name));
    let taken = json::object(&mut taken.map(|(name, value)| (name.clone(), value.clone())));
    if !taken.is_empty() {
        conf.insert("runtimeConfig".to_owned(), Value::Object(taken));
    }
    if let Some(previous) = previous {
        conf.insert("prevResult".to_owned(), previous.clone());
    }
    Value::Object(conf).to_string().into_bytes()
}

/// Standard input of a plugin that collects: everything for other sandboxes is freed. `valid`: the attached sandboxes.
#[must_use]
pub fn input_of_gc(list: &List, plugin: &Plugin, valid: &[(String, String)]) -> Vec<u8> {
    let mut conf = begin(list, plugin);
    let valid: Vec<Value> =
        valid.iter().map(|(id, name)| json!({"containerID": id, "ifname": name})).collect();
    conf.insert("cni.dev/valid-attachments".to_owned(), Value::Array(valid));
    Value::Object(conf).to_string().into_bytes()
}

/// Standard input of a plugin for the version command.
pub const INPUT_OF_VERSION: &[u8] = br#"{"cniVersion":"1.0.0"}"#;

fn begin(list: &List, plugin: &Plugin) -> Map<String, Value> {
    let mut conf = plugin.conf.clone();
    conf.insert("name".to_owned(), list.name.clone().into());
    conf.insert("cniVersion".to_owned(), list.version.into());
    // Only the runtime may set these keys.
    for key in ["prevResult", "runtimeConfig"] {
        conf.remove(key);
    }
    conf
}

#[cfg(test)]
mod tests {
    use super::super::conf;
    use super::*;

    fn sandbox() -> Sandbox {
        let key = PodKey { namespace: "n".into(), name: "p".into() };
        Sandbox { id: "id1".into(), netns: "/proc/7/ns/net".into(), key, uid: "u".into() }
    }

    #[test]
    fn what_a_plugin_is_given() {
        let list = conf::parse(
            br#"{"name": "n", "cniVersion": "1.0.0", "plugins": [
                {"type": "portmap", "snat": true, "prevResult": 1, "capabilities": {"portMappings": true}}]}"#,
            true,
        )
        .unwrap();
        let all = json!({"portMappings": [1], "bandwidth": {"ingressRate": 1}});
        let given = input(&list, &list.plugins[0], all.as_object().unwrap(), Some(&json!({"ips": []})));
        let given: Value = serde_json::from_slice(&given).unwrap();
        let expected = json!({"type": "portmap", "snat": true, "capabilities": {"portMappings": true}, "name": "n",
            "cniVersion": "1.0.0", "runtimeConfig": {"portMappings": [1]}, "prevResult": {"ips": []}});
        assert_eq!(given, expected);
        let bare: Value = serde_json::from_slice(&input(&list, &list.plugins[0], &Map::new(), None)).unwrap();
        assert!(bare.get("runtimeConfig").is_none() && bare.get("prevResult").is_none());
        let valid = [("a".to_owned(), "eth0".to_owned())];
        let gc: Value = serde_json::from_slice(&input_of_gc(&list, &list.plugins[0], &valid)).unwrap();
        assert_eq!(gc["cni.dev/valid-attachments"], json!([{"containerID": "a", "ifname": "eth0"}]));
    }

    #[test]
    fn environments() {
        let sandbox = sandbox();
        let all = environment(Command::Add, Some(&sandbox), &sandbox.arguments(), "/a:/b");
        let args =
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=n;K8S_POD_NAME=p;K8S_POD_INFRA_CONTAINER_ID=id1;K8S_POD_UID=u";
        let expected = [
            ("CNI_COMMAND", "ADD"),
            ("CNI_PATH", "/a:/b"),
            ("CNI_CONTAINERID", "id1"),
            ("CNI_NETNS", "/proc/7/ns/net"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", args),
        ];
        assert_eq!(all, expected.map(|(key, value)| (key, value.to_owned())));
        let version = environment(Command::Version, None, &[], "/a");
        assert_eq!(version, [("CNI_COMMAND", "VERSION".to_owned()), ("CNI_PATH", "/a".to_owned())]);
        assert_eq!([Command::Del.word(), Command::Gc.word()], ["DEL", "GC"]);
    }
}
