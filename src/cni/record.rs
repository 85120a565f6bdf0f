//! The stored record of an attached pod, in libcni's format (containernetworking/cni's `libcni/api.go`, `cachedInfo`):
//! its configuration and its result are needed to detach the pod, even after a restart of podkeeper or a reboot. Pure;
//! stored data are not trusted beyond their format.

use crate::base::json::json;
use serde_json::{Map, Value};

use super::call::INTERFACE;
use super::conf::{self, List};
use crate::base::{json as texts, limits};
use crate::manifest::base64;

const KIND: &str = "cniCacheV1";
/// libcni ignores this key. A record without it, or with another root directory, belongs to another runtime.
const OWNER: &str = "podkeeperRootDir";

/// One record. It is written before the first plugin runs, then without a result; so sandboxes of a killed daemon can
/// be detached.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Id of the sandbox.
    pub sandbox: String,
    /// The network when the pod was attached.
    pub list: List,
    /// Path of the network namespace.
    pub netns: String,
    /// `CNI_ARGS`.
    pub arguments: Vec<[String; 2]>,
    /// The capabilities passed to the plugins.
    pub capabilities: Map<String, Value>,
    /// The last plugin's result; `None` while the pod is being attached.
    pub result: Option<Value>,
    /// Root directory of the podkeeper that wrote it; `None` if another runtime did.
    pub root_dir: Option<String>,
}

/// The end of a record's file name.
#[must_use]
pub fn suffix(sandbox: &str) -> String {
    format!("-{sandbox}-{INTERFACE}")
}

impl Record {
    /// Name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}{}", self.list.name, suffix(&self.sandbox))
    }

    /// Content of its file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut all = json!({
            "kind": KIND,
            "containerId": self.sandbox,
            "config": base64::encode(&self.list.text),
            "ifName": INTERFACE,
            "networkName": self.list.name,
            "netns": self.netns,
            "cniArgs": self.arguments,
            "capabilityArgs": self.capabilities,
        });
        if let Some(all) = all.as_object_mut() {
            all.extend(self.result.clone().map(|result| ("result".to_owned(), result)));
            all.extend(self.root_dir.clone().map(|root| (OWNER.to_owned(), root.into())));
        }
        all.to_string().into_bytes()
    }

    /// Parses the content of a file; `None` when it is damaged, or in neither podkeeper's nor libcni's format.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        if bytes.len() > limits::CNI_RECORD || texts::values(bytes) > limits::CNI_VALUES.saturating_mul(2) {
            return None;
        }
        let all: Value = serde_json::from_slice(bytes).ok()?;
        let text = |key: &str| all.get(key).and_then(Value::as_str);
        let list = conf::parse(&base64::decode(text("config")?)?, true).ok()?;
        let fits = text("kind") == Some(KIND)
            && text("ifName") == Some(INTERFACE)
            && text("networkName") == Some(list.name.as_str());
        let pairs = all.get("cniArgs").and_then(Value::as_array).into_iter().flatten();
        let arguments = pairs.map(|pair| {
            let part = |at: usize| pair.get(at).and_then(Value::as_str).map(str::to_owned);
            Some([part(0)?, part(1)?])
        });
        fits.then(|| {
            Some(Record {
                sandbox: text("containerId")?.to_owned(),
                netns: text("netns").unwrap_or_default().to_owned(),
                arguments: arguments.collect::<Option<_>>()?,
                capabilities: all
                    .get("capabilityArgs")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default(),
                result: all.get("result").filter(|result| result.is_object()).cloned(),
                root_dir: text(OWNER).map(str::to_owned),
                list,
            })
        })?
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        let text = br#"{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge"}]}"#;
        Record {
            sandbox: "abc".into(),
            list: conf::parse(text, true).unwrap(),
            netns: "/proc/7/ns/net".into(),
            arguments: vec![["IgnoreUnknown".into(), "1".into()]],
            capabilities: json!({"portMappings": []}).as_object().unwrap().clone(),
            result: Some(json!({"ips": []})),
            root_dir: Some("/var/lib/podkeeper".into()),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let whole = record();
        assert_eq!(whole.file_name(), "pods-abc-eth0");
        assert_eq!(Record::decode(&whole.encode()), Some(whole.clone()));
        let begun = Record { result: None, root_dir: None, ..whole };
        assert_eq!(Record::decode(&begun.encode()), Some(begun));
    }

    /// A record that containerd's libcni 1.1 wrote.
    #[test]
    fn libcni_s_own_records_are_read() {
        let config = base64::encode(br#"{"name":"n","plugins":[{"type":"ptp"}]}"#);
        let text = format!(
            r#"{{"kind":"cniCacheV1","containerId":"i","config":"{config}","ifName":"eth0","networkName":"n",
            "cniArgs":[["IgnoreUnknown","1"]],"result":{{"cniVersion":"1.0.0","dns":{{}}}}}}"#
        );
        let read = Record::decode(text.as_bytes()).unwrap();
        assert_eq!((read.sandbox.as_str(), read.root_dir, read.list.version), ("i", None, "0.1.0"));
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_none_and_never_another_sandbox_s(cut in 0usize..400, flip in 0usize..400, bit in 0u8..8) {
            let whole = record().encode();
            prop_assert_eq!(Record::decode(whole.get(..cut.min(whole.len() - 1)).unwrap()), None);
            let mut torn = whole.clone();
            let at = flip % torn.len();
            torn[at] ^= 1 << bit;
            if let Some(read) = Record::decode(&torn) {
                prop_assert!(Record::decode(&read.encode()).is_some());
            }
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Record::decode(&bytes), None);
        }
    }
}
