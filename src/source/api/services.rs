//! The environment variables that tell containers of the services around them (`pkg/kubelet/envvars/envvars.go`,
//! `getServiceEnvVarMap` in `pkg/kubelet/kubelet_pods.go`). Pure.
//!
//! They are a ConfigMap that the source makes of the server's services, under a name that is never asked for at the server,
//! and that each container reads before anything of its own: whatever it names itself takes precedence.
//!
//! Never here: a call.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::pod::object::{ObjectKey, ObjectKind};

/// Where the API server itself is a service.
pub const MASTER: (&str, &str) = ("default", "kubernetes");
/// The variables of all services of a namespace.
const LINKS: &str = "podkeeper-services";
/// Those of the API server alone, for `enableServiceLinks: false`.
const NO_LINKS: &str = "podkeeper-services-kubernetes";

/// Which services an object is made of; `None` for one of the server's own.
#[must_use]
pub fn of(key: &ObjectKey) -> Option<Wanted> {
    match (key.kind, key.name.as_str()) {
        (ObjectKind::ConfigMap, LINKS) => Some(Wanted::Namespace),
        (ObjectKind::ConfigMap, NO_LINKS) => Some(Wanted::Master),
        _ => None,
    }
}

/// See [`of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those of the object's namespace, and the API server.
    Namespace,
    /// The API server.
    Master,
}

/// Has each container of a pod's spec read the variables first. What is remembered of a pod has that already.
pub fn refer(spec: &mut Value) {
    let links = spec.get("enableServiceLinks").and_then(Value::as_bool).unwrap_or(true);
    let name = if links { LINKS } else { NO_LINKS };
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let first = json!({"configMapRef": {"name": name}});
            let own = container.get("envFrom").and_then(Value::as_array).cloned().unwrap_or_default();
            if own.first() != Some(&first) {
                container.insert("envFrom".to_owned(), std::iter::once(first).chain(own).collect());
            }
        }
    }
}

/// The object of these services; `all` are services of any namespaces, of which those with an address in the object's own
/// count, and the API server's.
#[must_use]
pub fn object(key: &ObjectKey, wanted: Wanted, all: &[Value]) -> Value {
    let mut used: BTreeMap<&str, &Value> = BTreeMap::new();
    for service in all {
        let (namespace, name) = (text(service, "/metadata/namespace"), text(service, "/metadata/name"));
        if name.is_empty() || matches!(text(service, "/spec/clusterIP"), "" | "None") {
            continue;
        }
        // One of the namespace's own of that name comes first.
        if (namespace, name) == MASTER {
            used.entry(name).or_insert(service);
        } else if wanted == Wanted::Namespace && namespace == key.namespace {
            used.insert(name, service);
        }
    }
    let mut data = Map::new();
    used.into_iter().for_each(|(name, service)| variables(name, service, &mut data));
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": data,
    })
}

fn text<'v>(of: &'v Value, path: &str) -> &'v str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The variables of one service.
fn variables(name: &str, service: &Value, data: &mut Map<String, Value>) {
    let prefix = variable(name);
    let address = text(service, "/spec/clusterIP");
    let mut put = |name: String, value: String| _ = data.insert(name, value.into());
    put(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    for (at, port) in ports.into_iter().flatten().enumerate() {
        let Some(number) = port.get("port").and_then(Value::as_u64) else { continue };
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            other => other,
        };
        let low = protocol.to_lowercase();
        let url = format!("{low}://{host}:{number}");
        if at == 0 {
            put(format!("{prefix}_SERVICE_PORT"), number.to_string());
            put(format!("{prefix}_PORT"), url.clone());
        }
        let port_name = text(port, "/name");
        if !port_name.is_empty() {
            put(format!("{prefix}_SERVICE_PORT_{}", variable(port_name)), number.to_string());
        }
        let link = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
        put(format!("{link}_PROTO"), low);
        put(format!("{link}_PORT"), number.to_string());
        put(format!("{link}_ADDR"), address.to_owned());
        put(link, url);
    }
}

fn variable(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(namespace: &str, name: &str, address: &str, ports: Value) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": address, "ports": ports}})
    }

    /// The variables, one a line.
    fn told(name: &str, all: &[Value]) -> Vec<String> {
        let key =
            ObjectKey { kind: ObjectKind::ConfigMap, namespace: "shop".to_owned(), name: name.to_owned() };
        let object = object(&key, of(&key).unwrap(), all);
        let data = object["data"].as_object().unwrap();
        data.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect()
    }

    #[test]
    fn variables_of_services() {
        let all = [
            service(
                "shop",
                "web-1",
                "10.0.0.7",
                json!([{"name": "http-a", "port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]),
            ),
            service("shop", "headless", "None", json!([{"port": 1}])),
            service("shop", "elsewhere", "", json!([])),
            service("other", "far", "10.0.0.9", json!([{"port": 1}])),
            service("default", "kubernetes", "fd00::1", json!([{"name": "https", "port": 443}])),
        ];
        let master = [
            "KUBERNETES_PORT=tcp://[fd00::1]:443",
            "KUBERNETES_PORT_443_TCP=tcp://[fd00::1]:443",
            "KUBERNETES_PORT_443_TCP_ADDR=fd00::1",
            "KUBERNETES_PORT_443_TCP_PORT=443",
            "KUBERNETES_PORT_443_TCP_PROTO=tcp",
            "KUBERNETES_SERVICE_HOST=fd00::1",
            "KUBERNETES_SERVICE_PORT=443",
            "KUBERNETES_SERVICE_PORT_HTTPS=443",
        ];
        assert_eq!(told(NO_LINKS, &all), master);
        let web = [
            "WEB_1_PORT=tcp://10.0.0.7:80",
            "WEB_1_PORT_53_UDP=udp://10.0.0.7:53",
            "WEB_1_PORT_53_UDP_ADDR=10.0.0.7",
            "WEB_1_PORT_53_UDP_PORT=53",
            "WEB_1_PORT_53_UDP_PROTO=udp",
            "WEB_1_PORT_80_TCP=tcp://10.0.0.7:80",
            "WEB_1_PORT_80_TCP_ADDR=10.0.0.7",
            "WEB_1_PORT_80_TCP_PORT=80",
            "WEB_1_PORT_80_TCP_PROTO=tcp",
            "WEB_1_SERVICE_HOST=10.0.0.7",
            "WEB_1_SERVICE_PORT=80",
            "WEB_1_SERVICE_PORT_HTTP_A=80",
        ];
        assert_eq!(told(LINKS, &all), [&master[..], &web[..]].concat());
        // A namespace's own service of that name.
        let own = [service("shop", "kubernetes", "10.0.0.8", json!([])), all[4].clone()];
        assert_eq!(told(LINKS, &own), ["KUBERNETES_SERVICE_HOST=10.0.0.8"]);
        let own = [all[4].clone(), own[0].clone()];
        assert_eq!(told(LINKS, &own), ["KUBERNETES_SERVICE_HOST=10.0.0.8"]);
        assert_eq!(told(LINKS, &[json!({"spec": 7}), json!([])]), [""; 0]);
    }

    #[test]
    fn containers_read_them_before_what_they_name() {
        let mut spec = json!({"initContainers": [{"name": "i"}], "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]});
        refer(&mut spec);
        assert_eq!(spec["initContainers"][0]["envFrom"], json!([{"configMapRef": {"name": LINKS}}]));
        assert_eq!(spec["containers"][0]["envFrom"][0]["configMapRef"]["name"], LINKS);
        assert_eq!(spec["containers"][0]["envFrom"][1]["secretRef"]["name"], "s");
        let once = spec.clone();
        refer(&mut spec);
        assert_eq!(spec, once, "a pod that is remembered is another one");
        let mut spec = json!({"enableServiceLinks": false, "containers": [{"name": "c"}]});
        refer(&mut spec);
        assert_eq!(spec["containers"][0]["envFrom"][0]["configMapRef"]["name"], NO_LINKS);
    }
}
