//! A pod's requests to its network: host ports and bandwidth, in the form of the plugins' runtime settings
//! (Mirantis/cri-dockerd's `network/cni/cni.go`, kubernetes' `pkg/util/bandwidth/utils.go`,
//! containernetworking/cni's `CONVENTIONS.md`). Pure.

use crate::base::json::json;
use serde_json::{Map, Value};

use crate::base::quantity;
use crate::pod::{ContainerKind, DesiredPod};

/// Annotations with the bandwidth of a pod, bits per second, each with the names of its rate and its burst.
const BANDWIDTH: [(&str, &str, &str); 2] = [
    ("kubernetes.io/ingress-bandwidth", "ingressRate", "ingressBurst"),
    ("kubernetes.io/egress-bandwidth", "egressRate", "egressBurst"),
];
/// Size of a burst in bits: the largest number that the plugin accepts.
const BURST: i64 = 2_147_483_647;
/// Smallest and largest bandwidth, bits per second.
const LEAST: i64 = 1_000;
const MOST: i64 = 1_000_000_000_000_000;

/// All runtime settings of a pod, by capability.
///
/// # Errors
/// The pod's annotations are invalid; in the kubelet's words.
pub fn capabilities(pod: &DesiredPod) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    all.insert("portMappings".to_owned(), Value::Array(port_mappings(pod)));
    let bandwidth =
        bandwidth(pod).map_err(|why| format!("failed to get pod bandwidth from annotations: {why}"))?;
    if !bandwidth.is_empty() {
        all.insert("bandwidth".to_owned(), Value::Object(bandwidth));
    }
    Ok(all)
}

/// Host ports of regular containers and of sidecars, which run as long as the pod.
fn port_mappings(pod: &DesiredPod) -> Vec<Value> {
    let lasting = pod.containers().filter(|(kind, _)| *kind != ContainerKind::Init);
    let mut all = Vec::new();
    for port in lasting.flat_map(|(_, container)| container.ports.iter().flatten()) {
        let Some(host_port) = port.host_port.filter(|port| *port > 0) else { continue };
        let mapping = json!({
            "hostPort": host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
            "hostIP": port.host_ip.as_deref().unwrap_or_default(),
        });
        if !all.contains(&mapping) {
            all.push(mapping);
        }
    }
    all
}

fn bandwidth(pod: &DesiredPod) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for (annotation, rate, burst) in BANDWIDTH {
        let notes = pod.metadata.annotations.as_ref();
        let Some(text) = notes.and_then(|notes| notes.get(annotation)) else { continue };
        let bits = quantity::value(text).map_err(|why| format!("{annotation}: {text:?}: {why}"))?;
        if bits < LEAST {
            return Err("resource is unreasonably small (< 1kbit)".to_owned());
        }
        if bits > MOST {
            return Err("resource is unreasonably large (> 1Pbit)".to_owned());
        }
        all.extend([(rate.to_owned(), bits.into()), (burst.to_owned(), BURST.into())]);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing;

    fn of(spec: &str, notes: &[(&str, &str)]) -> Result<Value, String> {
        let mut pod = testing::pod(spec);
        let notes =
            notes.iter().map(|(key, value)| (format!("kubernetes.io/{key}-bandwidth"), (*value).to_owned()));
        pod.metadata.annotations.get_or_insert_default().extend(notes);
        capabilities(&pod).map(Value::Object)
    }

    #[test]
    fn host_ports() {
        let spec = "{initContainers: [{name: i, ports: [{containerPort: 1, hostPort: 1}]}], containers: [{name: c, ports: \
            [{containerPort: 80, hostPort: 8080}, {containerPort: 53, hostPort: 53, protocol: UDP, hostIP: 127.0.0.1}, \
            {containerPort: 9}]}]}";
        let expected = json!([
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"}]);
        assert_eq!(of(spec, &[]).unwrap(), json!({"portMappings": expected}));
    }

    #[test]
    fn bandwidths() {
        let spec = "{containers: [{name: c}]}";
        let rates = |notes: &[(&str, &str)]| of(spec, notes).map(|all| all["bandwidth"].clone());
        let both = rates(&[("ingress", "10M"), ("egress", "1k")]).unwrap();
        let expected = json!({"ingressRate": 10_000_000, "ingressBurst": BURST, "egressRate": 1000, "egressBurst": BURST});
        assert_eq!(both, expected);
        assert_eq!(rates(&[]).unwrap(), Value::Null);
        let why = |text: &str| rates(&[("egress", text)]).unwrap_err();
        let begin = "failed to get pod bandwidth from annotations: ";
        assert_eq!(why("1"), format!("{begin}resource is unreasonably small (< 1kbit)"));
        assert_eq!(why("2P"), format!("{begin}resource is unreasonably large (> 1Pbit)"));
        assert!(why("fast").starts_with(&format!("{begin}kubernetes.io/egress-bandwidth: \"fast\": ")));
    }
}
