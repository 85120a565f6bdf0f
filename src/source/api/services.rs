//! The environment variables of services for containers (`pkg/kubelet/envvars/envvars.go`, `getServiceEnvVarMap` in
//! `pkg/kubelet/kubelet_pods.go`). Pure.
//!
//! They are a ConfigMap that the source makes of the server's services. The server is never asked for one of its name.
//! Each container reads it before its own variables, which take precedence.
//!
//! Never here: a call.

use crate::base::json::json;
use serde_json::{Map, Value};

use crate::base::table::Table;
use crate::base::{human::many, limits};
use crate::manifest::base64;
use crate::pod::object::{LEFT_OUT, ObjectKey, ObjectKind, SERVICES, SERVICES_OF_SERVER, TOKEN};

/// Namespace and name of the API server's own service.
pub const MASTER: (&str, &str) = ("default", "kubernetes");
/// The variables of all services of a namespace.
const LINKS: &str = SERVICES;
/// The variables of the API server alone, for `enableServiceLinks: false`.
const NO_LINKS: &str = SERVICES_OF_SERVER;

/// The services that an object is made of; `None` for an object of the server's own.
#[must_use]
pub fn of(key: &ObjectKey) -> Option<Wanted> {
    match (key.kind, key.name.as_str()) {
        (ObjectKind::ConfigMap, LINKS) => Some(Wanted::Namespace),
        (ObjectKind::ConfigMap, NO_LINKS) => Some(Wanted::Master),
        _ => None,
    }
}

/// The services of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The services of the object's namespace, and the API server's.
    Namespace,
    /// The API server's alone.
    Master,
}

/// Makes each container of a pod's spec read the variables first. A stored pod does so already.
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

/// Names that podkeeper's first versions gave to what it made, and a user could give to an object.
const EARLIER: [(&str, &str); 2] =
    [("podkeeper-services", LINKS), ("podkeeper-services-kubernetes", NO_LINKS)];
/// The same of tokens; the pod's UID and a number follow.
const EARLIER_TOKEN: &str = "podkeeper-token-";

/// Gives what podkeeper made its names of today in a stored list of an earlier version, so that its pods find it.
pub fn rename_earlier(list: &mut Value) {
    let items = || list.get("items").and_then(Value::as_array).into_iter().flatten();
    let is_new = |item: &Value| {
        let first = item.pointer("/spec/containers/0/envFrom/0/configMapRef/name").and_then(Value::as_str);
        first.is_some_and(|first| matches!(first, LINKS | NO_LINKS))
    };
    if items().any(is_new) {
        return;
    }
    let rename = |name: Option<&mut Value>| {
        let Some(name) = name else { return };
        if let Some((_, now)) = EARLIER.iter().find(|(before, _)| *name == *before) {
            *name = (*now).into();
        }
    };
    for item in list.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        match text(item, "/kind") {
            "ConfigMap" => rename(item.pointer_mut("/metadata/name")),
            "Pod" => {
                for part in ["/spec/initContainers", "/spec/containers"] {
                    let containers =
                        item.pointer_mut(part).and_then(Value::as_array_mut).into_iter().flatten();
                    containers.for_each(|it| rename(it.pointer_mut("/envFrom/0/configMapRef/name")));
                }
                rename_tokens(item);
            }
            _ => {}
        }
    }
}

fn rename_tokens(pod: &mut Value) {
    let uid = text(pod, "/metadata/uid").to_owned();
    let account = match text(pod, "/spec/serviceAccountName") {
        "" => "default",
        name => name,
    };
    let (start, now) = (format!("{EARLIER_TOKEN}{uid}-"), format!("{TOKEN}{account}:{uid}-"));
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten();
    let sources = volumes.filter_map(|it| it.pointer_mut("/projected/sources")?.as_array_mut()).flatten();
    for name in sources.filter_map(|source| source.pointer_mut("/secret/name")) {
        if let Some(number) = name.as_str().and_then(|name| name.strip_prefix(&start)) {
            *name = format!("{now}{number}").into();
        }
    }
}

/// The object of some services.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The ConfigMap.
    pub object: Value,
    /// The services without variables, and the reason.
    pub left_out: Option<String>,
}

/// The object of these services. `all` may hold services of any namespace: those with an address in the object's own
/// namespace count, and the API server's. Variables take at most `room` bytes: the API server's come first, then those
/// of the others by name, up to the first that does not fit.
#[must_use]
pub fn object(key: &ObjectKey, wanted: Wanted, all: &[Value], room: usize) -> Made {
    let mut used: Table<&str, &Value> = Table::new();
    for service in all {
        let (namespace, name) = (text(service, "/metadata/namespace"), text(service, "/metadata/name"));
        if name.is_empty() || matches!(text(service, "/spec/clusterIP"), "" | "None") {
            continue;
        }
        // A service of the same name in the object's namespace takes precedence.
        if (namespace, name) == MASTER {
            used.get_or_insert(name, service);
        } else if wanted == Wanted::Namespace && namespace == key.namespace {
            used.insert(name, service);
        }
    }
    let services = used.len();
    let master = used.remove(MASTER.1).map(|service| (MASTER.1, service));
    let (mut data, mut left, mut given) = (Map::new(), room, 0_usize);
    for (name, service) in master.into_iter().chain(used) {
        let mut own = Map::new();
        variables(name, service, &mut own);
        let sizes = own.iter().map(|(name, value)| {
            name.len()
                .saturating_add(value.as_str().map_or(0, str::len))
                .saturating_add(limits::VARIABLE_BYTES)
        });
        let Some(rest) = left.checked_sub(sizes.fold(0, usize::saturating_add)) else { break };
        left = rest;
        given = given.saturating_add(1);
        data.extend(own);
    }
    let left_out = (given < services).then(|| {
        format!(
            "{} of {} have no environment variables in its containers: no more than {} KiB of them fit",
            services.saturating_sub(given),
            many(services, "Service"),
            room >> 10
        )
    });
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": data,
    });
    if let (Some(why), Some(fields)) = (&left_out, object.as_object_mut()) {
        fields.insert("binaryData".to_owned(), json!({LEFT_OUT: base64::encode(why.as_bytes())}));
    }
    Made { object, left_out }
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

    /// The variables, one per line.
    fn told(name: &str, all: &[Value]) -> Vec<String> {
        let key =
            ObjectKey { kind: ObjectKind::ConfigMap, namespace: "shop".to_owned(), name: name.to_owned() };
        let object = object(&key, of(&key).unwrap(), all, usize::MAX).object;
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
        // The namespace has a service of that name.
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

    /// A user's ConfigMap of this name was hidden by podkeeper's own.
    #[test]
    fn no_object_of_the_api_has_their_names() {
        for name in [LINKS, NO_LINKS] {
            assert!(!super::super::checks::is_name(name), "{name}");
        }
        assert_eq!(
            of(&ObjectKey {
                kind: ObjectKind::ConfigMap,
                namespace: "shop".to_owned(),
                name: "podkeeper-services".to_owned(),
            }),
            None
        );
    }

    #[test]
    fn what_an_earlier_version_has_stored_gets_the_names_of_today() {
        let stored = |services: &str, token: &str| {
            let sources = json!([{"secret": {"name": token}}, {"secret": {"name": "podkeeper-token-mine"}}]);
            json!({"kind": "List", "items": [
                {"kind": "ConfigMap", "metadata": {"name": services}},
                {"kind": "ConfigMap", "metadata": {"name": "other"}},
                {"kind": "Pod", "metadata": {"uid": "u-1"}, "spec": {
                    "initContainers": [{"envFrom": [{"configMapRef": {"name": services}}]}],
                    "containers": [{"envFrom": [{"configMapRef": {"name": services}}, {"secretRef": {"name": "s"}}]}],
                    "serviceAccountName": "robot",
                    "volumes": [{"name": "e"}, {"projected": {"sources": sources}}]}},
            ]})
        };
        let mut list = stored("podkeeper-services", "podkeeper-token-u-1-0");
        rename_earlier(&mut list);
        let now = stored(LINKS, "podkeeper:token:robot:u-1-0");
        assert_eq!(list, now);
        // From now on these are names of users.
        list["items"][0]["metadata"]["name"] = "podkeeper-services".into();
        let kept = list.clone();
        rename_earlier(&mut list);
        assert_eq!(list, kept);
    }

    /// With too many variables execve fails, and the pod could not start.
    #[test]
    fn variables_beyond_what_fits_are_left_out_and_that_is_told() {
        let key = |name: &str| ObjectKey {
            kind: ObjectKind::ConfigMap,
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        let services = (0..4000).rev().map(|n| {
            service("shop", &format!("s-{n:04}-of-thirty-two-characters"), "10.0.0.7", json!([{"port": 80}]))
        });
        let mut all: Vec<Value> = services.collect();
        all.push(service("default", "kubernetes", "10.0.0.1", json!([{"port": 443}])));
        let Made { object: made, left_out } =
            object(&key(LINKS), Wanted::Namespace, &all, limits::SERVICE_VARIABLES);
        let data = made["data"].as_object().unwrap();
        let bytes: usize = data.iter().map(|(k, v)| k.len() + v.as_str().unwrap().len() + 10).sum();
        assert!((500 << 10..=512 << 10).contains(&bytes), "{bytes}");
        assert!(
            data.contains_key("KUBERNETES_SERVICE_HOST")
                && data.contains_key("S_0000_OF_THIRTY_TWO_CHARACTERS_PORT")
        );
        assert!(!data.contains_key("S_3999_OF_THIRTY_TWO_CHARACTERS_PORT"));
        let given = data.keys().filter(|name| name.ends_with("_SERVICE_HOST")).count();
        let why = left_out.unwrap();
        assert_eq!(
            why,
            format!(
                "{} of 4001 Services have no environment variables in its containers: no more than 512 KiB of them fit",
                4001 - given
            )
        );
        assert_eq!(made["binaryData"][LEFT_OUT], base64::encode(why.as_bytes()));
        // Without room there are no variables, and no pod waits for them.
        let none = object(&key(LINKS), Wanted::Namespace, &all, 0);
        assert_eq!(none.object["data"], json!({}));
        assert!(none.left_out.unwrap().starts_with("4001 of 4001 Services"));
        assert_eq!(object(&key(LINKS), Wanted::Namespace, &[], 0).left_out, None);
    }
}
