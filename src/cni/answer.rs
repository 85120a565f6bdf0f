//! Answers of plugins: results, errors, versions (containernetworking/cni's `SPEC.md` section 5,
//! `pkg/types`, `pkg/invoke/raw_exec.go`). Pure; answers are not trusted beyond their format.

use std::net::IpAddr;

use serde_json::Value;

use super::call::INTERFACE;
use super::conf::VERSIONS;
use crate::base::{json, limits};

/// Reads the result of attaching a pod.
///
/// # Errors
/// The output is not a result, and why.
pub fn result(stdout: &[u8]) -> Result<Value, String> {
    let said = object(stdout)?;
    match said.get("cniVersion") {
        None => Ok(said),
        Some(Value::String(version)) if VERSIONS.contains(&version.as_str()) => Ok(said),
        Some(version) => Err(format!("unsupported CNI result version {version}")),
    }
}

fn object(stdout: &[u8]) -> Result<Value, String> {
    if json::values(stdout) > limits::CNI_VALUES {
        return Err("it holds too many values".to_owned());
    }
    match serde_json::from_slice(stdout) {
        Ok(said @ Value::Object(_)) => Ok(said),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The addresses of the pod's interface in a result: at most one of each family, IPv4 first.
///
/// # Errors
/// There is none, or it is invalid.
pub fn addresses(result: &Value) -> Result<Vec<String>, String> {
    let mut found: Vec<IpAddr> = Vec::new();
    for (key, old) in [("ip4", true), ("ip6", true), ("ips", false)] {
        match result.get(key) {
            Some(one) if old => found.extend(one.get("ip").map(address).transpose()?),
            Some(Value::Array(all)) => {
                let of_pod = all.iter().filter(|ip| is_of_pod(ip, result.get("interfaces")));
                for ip in of_pod.filter_map(|ip| ip.get("address")) {
                    found.push(address(ip)?);
                }
            }
            _ => {}
        }
    }
    let four = found.iter().find(|ip| ip.is_ipv4());
    let six = found.iter().find(|ip| ip.is_ipv6());
    let all: Vec<String> = four.into_iter().chain(six).map(IpAddr::to_string).collect();
    if all.is_empty() { Err("the result has no address of the pod".to_owned()) } else { Ok(all) }
}

/// Parses an address in CIDR notation.
fn address(value: &Value) -> Result<IpAddr, String> {
    let wrong = || format!("invalid CIDR address: {value}");
    let (ip, bits) = value.as_str().and_then(|text| text.split_once('/')).ok_or_else(wrong)?;
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    bits.parse::<u8>().ok().filter(|bits| *bits <= most).map(|_| ip).ok_or_else(wrong)
}

/// Whether an address belongs to the pod: it may belong to an interface of the node (for example a bridge),
/// which its interface index shows.
fn is_of_pod(ip: &Value, interfaces: Option<&Value>) -> bool {
    let Some(index) = ip.get("interface").and_then(Value::as_u64) else { return true };
    let place = usize::try_from(index).ok();
    let Some(interface) = place.and_then(|at| interfaces?.get(at)) else { return false };
    let text = |key: &str| interface.get(key).and_then(Value::as_str).unwrap_or_default();
    !text("sandbox").is_empty() && text("name") == INTERFACE
}

/// Why a plugin failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code from the specification or the plugin; 0 if there is none.
    pub code: u64,
    /// The message.
    pub text: String,
}

impl Failure {
    /// Whether the plugin does not know the pod: then it holds nothing for it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.code == UNKNOWN || self.text.contains(GONE)
    }
}

/// Code of a container that the plugin does not know, or that does not exist.
const UNKNOWN: u64 = 3;
/// The namespace or the interface is gone; dockershim counts this as done (upstream Mirantis/cri-dockerd's
/// `core/sandbox_stop.go`).
const GONE: &str = "no such file or directory";

/// The failure in a plugin's output. `status`: how it ended.
#[must_use]
pub fn failure(stdout: &[u8], stderr: &[u8], status: &str) -> Failure {
    let printed = String::from_utf8_lossy(stderr);
    let printed = clean(printed.trim());
    let bare = |text: String| Failure { code: 0, text };
    if stdout.iter().all(u8::is_ascii_whitespace) {
        return bare(match printed.is_empty() {
            true => format!("netplugin failed with no error message: {status}"),
            false => format!("netplugin failed: {printed:?}"),
        });
    }
    let said = match object(stdout) {
        Ok(said) => said,
        Err(why) => {
            let start: String = clean(&String::from_utf8_lossy(stdout));
            return bare(format!(
                "netplugin failed but error parsing its diagnostic message {start:?}: {why}"
            ));
        }
    };
    let text = |key: &str| clean(said.get(key).and_then(Value::as_str).unwrap_or_default());
    let (message, details) = (text("msg"), text("details"));
    let text = match (message.is_empty(), details.is_empty()) {
        (true, true) => format!("netplugin failed with no error message: {status}"),
        (false, true) => message,
        (true, false) => details,
        (false, false) => format!("{message}; {details}"),
    };
    Failure { code: said.get("code").and_then(Value::as_u64).unwrap_or(0), text }
}

/// The text in one line, shortened to fit into an event.
fn clean(text: &str) -> String {
    text.chars().take(WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Most characters of a plugin's text in an event.
const WORDS: usize = 1024;

/// The versions that a plugin supports.
///
/// # Errors
/// The output has none.
pub fn versions(stdout: &[u8]) -> Result<Vec<String>, String> {
    let said = object(stdout)?;
    match said.get("supportedVersions") {
        Some(Value::Array(all)) => Ok(all.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        // The answer of old plugins (upstream `pkg/version/plugin.go`).
        _ if said.get("cniVersion").is_some() => Ok(vec!["0.1.0".to_owned()]),
        _ => Err("it names no supportedVersions".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_results() {
        let check = |result: Value, expected: Result<&str, &str>| match (addresses(&result), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got.join(" "), expected, "{result}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{result}: {why}"),
            (got, _) => panic!("{result}: {got:?}"),
        };
        let interfaces =
            json!([{"name": "cni0"}, {"name": "veth1"}, {"name": "eth0", "sandbox": "/proc/1/ns/net"}]);
        check(
            json!({"cniVersion": "1.0.0", "interfaces": interfaces, "ips": [
                {"address": "10.9.9.9/8", "interface": 0},
                {"address": "fd00::2/64", "interface": 2},
                {"address": "10.244.7.2/24", "gateway": "10.244.7.1", "interface": 2},
                {"address": "10.244.7.3/24", "interface": 2}]}),
            Ok("10.244.7.2 fd00::2"),
        );
        check(json!({"ips": [{"version": "4", "address": "10.1.0.2/16"}]}), Ok("10.1.0.2"));
        check(json!({"ip4": {"ip": "10.1.0.2/16"}, "ip6": {"ip": "fd00::2/64"}}), Ok("10.1.0.2 fd00::2"));
        check(
            json!({"ips": [{"address": "10.1.0.2/16", "interface": 9}], "interfaces": []}),
            Err("no address"),
        );
        check(json!({"ips": []}), Err("no address of the pod"));
        check(json!({"ips": [{"address": "10.1.0.2"}]}), Err("invalid CIDR address: \"10.1.0.2\""));
        check(json!({"ips": [{"address": "10.1.0.2/33"}]}), Err("invalid CIDR address"));
        check(json!({"ips": [{"address": 7}]}), Err("invalid CIDR address: 7"));
    }

    #[test]
    fn results() {
        assert!(result(br#"{"cniVersion": "0.4.0"}"#).is_ok() && result(b"{}").is_ok());
        assert_eq!(result(br#"{"cniVersion": "7"}"#).unwrap_err(), "unsupported CNI result version \"7\"");
        assert_eq!(result(b"[]").unwrap_err(), "it is no JSON object");
        assert!(result(b"hello").unwrap_err().starts_with("expected value"));
        let many = format!("[{}0]", "0,".repeat(limits::CNI_VALUES));
        assert_eq!(result(many.as_bytes()).unwrap_err(), "it holds too many values");
    }

    #[test]
    fn failures() {
        let check = |stdout: &str, stderr: &str, code: u64, text: &str| {
            let got = failure(stdout.as_bytes(), stderr.as_bytes(), "exit status: 1");
            assert_eq!(got, Failure { code, text: text.to_owned() });
        };
        check(r#"{"code": 7, "msg": "bad conf", "details": "line 1"}"#, "", 7, "bad conf; line 1");
        check(r#"{"code": 11, "msg": "later"}"#, "noise", 11, "later");
        check("", "", 0, "netplugin failed with no error message: exit status: 1");
        check(" \n", "panic: x\n", 0, "netplugin failed: \"panic: x\"");
        check("{}", "", 0, "netplugin failed with no error message: exit status: 1");
        let got = failure(b"oops", b"", "x").text;
        assert!(
            got.starts_with("netplugin failed but error parsing its diagnostic message \"oops\": "),
            "{got}"
        );
        assert!(failure(br#"{"code": 3, "msg": "m"}"#, b"", "").is_unknown());
        assert!(failure(br#"{"msg": "open /x: no such file or directory"}"#, b"", "").is_unknown());
        assert!(!failure(br#"{"code": 11, "msg": "m"}"#, b"", "").is_unknown());
    }

    #[test]
    fn versions_of_plugins() {
        let said = br#"{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}"#;
        assert_eq!(versions(said).unwrap(), ["0.4.0", "1.0.0"]);
        assert_eq!(versions(br#"{"cniVersion": "0.1.0"}"#).unwrap(), ["0.1.0"]);
        assert_eq!(versions(b"{}").unwrap_err(), "it names no supportedVersions");
    }
}
