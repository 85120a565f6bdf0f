//! The downward API: the values of `fieldRef` and `resourceFieldRef` in an environment or a file. Pure.
//!
//! Upstream: `pkg/fieldpath/fieldpath.go`, `pkg/kubelet/kubelet_pods.go` (`podFieldSelectorRuntimeValue`),
//! `pkg/api/v1/resource/helpers.go` (`ExtractContainerResourceValue`, `MergeContainerResourceLimits`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::base::quantity;
use crate::pod::DesiredPod;
use crate::pod::allocatable::Allocatable;
use crate::pod::qos;

/// Facts about a pod and its node.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub pod: &'a DesiredPod,
    pub node_name: &'a str,
    /// Addresses of the node, the main one first.
    pub host_ips: &'a [String],
    /// Addresses of the pod; the node's with host network. Empty while unknown.
    pub pod_ips: &'a [String],
    /// The value of a limit that is not set.
    pub allocatable: &'a Allocatable,
}

/// The value of a field, for an environment or a volume; validation decides which paths are allowed where.
///
/// # Errors
/// No such field, in the kubelet's words.
pub fn field(path: &str, facts: &Facts<'_>) -> Result<String, String> {
    let meta = &facts.pod.metadata;
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.annotations" => &meta.annotations,
            "metadata.labels" => &meta.labels,
            _ => return Err(format!("fieldPath {path:?} does not support subscript")),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let first = |ips: &[String]| ips.first().cloned().unwrap_or_default();
    Ok(match path {
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.name" => facts.pod.key.name.clone(),
        "metadata.namespace" => facts.pod.key.namespace.clone(),
        "metadata.uid" => facts.pod.uid.clone(),
        "spec.hostname" => facts.pod.hostname(),
        "spec.host" | "spec.nodeName" => facts.node_name.to_owned(),
        "spec.serviceAccountName" => facts.pod.spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => first(facts.host_ips),
        "status.hostIPs" => facts.host_ips.join(","),
        "status.podIP" => first(facts.pod_ips),
        "status.podIPs" => facts.pod_ips.join(","),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// Whether the field is only known once the pod has its network.
#[must_use]
pub fn needs_pod_ip(path: &str) -> bool {
    matches!(path, "status.podIP" | "status.podIPs")
}

/// Whether the field is an address of the node.
#[must_use]
pub fn needs_host_ip(path: &str) -> bool {
    matches!(path, "status.hostIP" | "status.hostIPs")
}

/// Splits `metadata.labels['key']` into `metadata.labels` and `key`.
#[must_use]
pub fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key)).filter(|(map, _)| !map.is_empty())
}

/// The value of a resource, divided and rounded up. `default_container`: the container if the reference
/// names none; empty for a volume, which must name one.
///
/// # Errors
/// No such container or resource, or an invalid divisor, in the kubelet's words.
pub fn resource(
    reference: &ResourceFieldSelector,
    facts: &Facts<'_>,
    default_container: &str,
) -> Result<String, String> {
    let named = reference.container_name.as_deref().filter(|name| !name.is_empty());
    let name = named.unwrap_or(default_container);
    let (_, container) = facts.pod.container(name).ok_or_else(|| format!("container {name} not found"))?;
    let unsupported = || format!("unsupported container resource : {}", reference.resource);
    let (list, resource) = reference.resource.split_once('.').ok_or_else(unsupported)?;
    if !matches!(resource, "cpu" | "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let amount = match list {
        "limits" => match qos::limit(container.resources.as_ref(), resource) {
            0 => default_limit(resource, facts.allocatable),
            limit => limit,
        },
        "requests" => requested(container, resource),
        _ => return Err(unsupported()),
    };
    let divisor = divisor(reference.divisor.as_ref(), resource)?;
    // Validation refuses negative quantities.
    Ok(amount.max(0).unsigned_abs().div_ceil(divisor).to_string())
}

/// The node's allocatable amount, except for huge pages, which are never shared.
fn default_limit(resource: &str, allocatable: &Allocatable) -> i64 {
    match resource {
        "cpu" => allocatable.milli_cpu,
        "memory" => allocatable.memory,
        "ephemeral-storage" => allocatable.ephemeral_storage,
        _ => 0,
    }
}

/// A missing request equals the limit, as in the API's defaults.
fn requested(container: &Container, resource: &str) -> i64 {
    qos::request(container.resources.as_ref(), resource)
}

/// The divisor, in thousandths for cpu; 1 when absent or zero.
fn divisor(given: Option<&Quantity>, resource: &str) -> Result<u64, String> {
    let text = given.map(|q| q.0.as_str()).filter(|text| !text.is_empty()).unwrap_or("0");
    let read = if resource == "cpu" { quantity::milli } else { quantity::value };
    let number = read(text).map_err(|why| format!("divisor {text:?} {why}"))?;
    let one = if resource == "cpu" { 1000 } else { 1 };
    Ok(match u64::try_from(number) {
        Ok(0) | Err(_) => one,
        Ok(number) => number,
    })
}

/// A whole map: `key="value"` lines, sorted, with values quoted as in Go, without a final newline.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(k, v)| format!("{k}={}", quoted(v))).collect();
    lines.join("\n")
}

/// `strconv.Quote`.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if !is_escaped(c) => out.push(c),
            // Writing to a String cannot fail.
            '\0'..='\x7f' => _ = write!(out, "\\x{:02x}", u32::from(c)),
            '\u{80}'..='\u{ffff}' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            _ => _ = write!(out, "\\U{:08x}", u32::from(c)),
        }
    }
    out.push('"');
    out
}

/// Whether the character is not `IsPrint` in Go: controls, blanks other than the space, invisible and
/// private characters.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{f0000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing;

    const ALLOCATABLE: Allocatable =
        Allocatable { milli_cpu: 3800, memory: 1 << 30, ephemeral_storage: 5_000_000_001 };

    fn pod() -> DesiredPod {
        let mut pod = testing::pod(
            "{hostname: h, initContainers: [{name: prepare, resources: {limits: {cpu: 250m}}}], containers: [
               {name: app, resources: {requests: {cpu: 125m, memory: 32Mi, ephemeral-storage: 2Gi},
                 limits: {cpu: 1500m, memory: 64Mi, hugepages-2Mi: 4Mi}}}, {name: free}]}",
        );
        let map = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        pod.metadata.labels = map(&[("zone", "a"), ("app.kubernetes.io/name", "web")]);
        pod.metadata.annotations = map(&[("note", "two\nlines \"q\" \\ é \u{200b}\u{1}"), ("a/b", "")]);
        pod
    }

    fn facts<'a>(pod: &'a DesiredPod, host: &'a [String], ips: &'a [String]) -> Facts<'a> {
        Facts { pod, node_name: "node", host_ips: host, pod_ips: ips, allocatable: &ALLOCATABLE }
    }

    #[test]
    fn fields() {
        let pod = pod();
        let (host, ips) =
            (["192.0.2.7".to_owned(), "fd00::7".to_owned()], ["10.0.0.1".to_owned(), "fd01::1".into()]);
        let facts = facts(&pod, &host, &ips);
        for (path, expected) in [
            ("metadata.name", "web-node"),
            ("metadata.namespace", "default"),
            ("metadata.uid", "uid-1"),
            ("metadata.labels['zone']", "a"),
            ("metadata.labels['app.kubernetes.io/name']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['a/b']", ""),
            ("metadata.labels", "app.kubernetes.io/name=\"web\"\nzone=\"a\""),
            ("metadata.annotations", "a/b=\"\"\nnote=\"two\\nlines \\\"q\\\" \\\\ é \\u200b\\x01\""),
            ("spec.nodeName", "node"),
            ("spec.host", "node"),
            ("spec.hostname", "h"),
            ("spec.serviceAccountName", ""),
            ("status.hostIP", "192.0.2.7"),
            ("status.hostIPs", "192.0.2.7,fd00::7"),
            ("status.podIP", "10.0.0.1"),
            ("status.podIPs", "10.0.0.1,fd01::1"),
        ] {
            assert_eq!(field(path, &facts).as_deref(), Ok(expected), "{path}");
        }
        for (path, why) in [
            ("status.phase", "unsupported fieldPath: status.phase"),
            ("", "unsupported fieldPath: "),
            ("spec.x['a']", "fieldPath \"spec.x['a']\" does not support subscript"),
            ("metadata.labels['a", "unsupported fieldPath: metadata.labels['a"),
        ] {
            assert_eq!(field(path, &facts), Err(why.to_owned()), "{path}");
        }
    }

    #[test]
    fn resources() {
        let pod = pod();
        let facts = facts(&pod, &[], &[]);
        let ask = |container: Option<&str>, resource_: &str, divisor: &str| {
            let reference = ResourceFieldSelector {
                container_name: container.map(str::to_owned),
                resource: resource_.to_owned(),
                divisor: Some(Quantity(divisor.to_owned())).filter(|_| !divisor.is_empty()),
            };
            resource(&reference, &facts, "app")
        };
        for (container, name, divisor, expected) in [
            (None, "limits.cpu", "", "2"),
            (None, "limits.cpu", "0", "2"),
            (None, "limits.cpu", "1m", "1500"),
            (None, "requests.cpu", "", "1"),
            (None, "requests.cpu", "1m", "125"),
            (None, "limits.memory", "", "67108864"),
            (None, "limits.memory", "1Mi", "64"),
            (None, "limits.memory", "1M", "68"),
            (None, "requests.memory", "1Gi", "1"),
            (None, "requests.ephemeral-storage", "1Mi", "2048"),
            (None, "limits.ephemeral-storage", "1G", "6"),
            (None, "limits.hugepages-2Mi", "1Mi", "4"),
            (None, "requests.hugepages-2Mi", "1Mi", "4"),
            (Some("free"), "limits.cpu", "", "4"),
            (Some("free"), "limits.cpu", "1m", "3800"),
            (Some("free"), "limits.memory", "1Mi", "1024"),
            (Some("free"), "requests.cpu", "", "0"),
            (Some("free"), "limits.hugepages-2Mi", "", "0"),
            (Some("prepare"), "limits.cpu", "1m", "250"),
            (Some("prepare"), "requests.cpu", "1m", "250"),
            (Some(""), "limits.cpu", "1m", "1500"),
        ] {
            let given = ask(container, name, divisor);
            assert_eq!(given.as_deref(), Ok(expected), "{container:?} {name} {divisor}");
        }
        for (container, name, divisor, why) in [
            (Some("none"), "limits.cpu", "", "container none not found"),
            (None, "limits.disk", "", "unsupported container resource : limits.disk"),
            (None, "cpu", "", "unsupported container resource : cpu"),
            (None, "given.cpu", "", "unsupported container resource : given.cpu"),
        ] {
            assert_eq!(ask(container, name, divisor), Err(why.to_owned()), "{name}");
        }
        assert!(ask(None, "limits.cpu", "x").is_err());
    }
}
