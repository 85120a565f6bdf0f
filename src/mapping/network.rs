//! Names, ports and the Docker network of a pod (cri-dockerd's `core/helpers.go`, upstream
//! `pkg/kubelet/container/helpers.go`, `pkg/kubelet/kubelet_pods.go`). Pure.

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use crate::base::table::Table;
use crate::network::hosts;
use crate::network::resolver::Asked;
use crate::network::{DockerNetwork, NetworkConfig, Wanted};
use crate::pod::{ContainerKind, DesiredPod, PodKey, Source};
use crate::runtime::{CreateBody, Empty, Endpoint, Mount, NetworkingConfig, PortBinding, labels};

/// Longest host name of the kernel, bytes.
const KERNEL_NAME_BYTES: usize = 64;

/// Host name and domain of a pod; the domain is empty without a subdomain (`GeneratePodHostNameAndDomain`).
#[must_use]
pub fn host_and_domain(pod: &DesiredPod, config: &NetworkConfig) -> (String, String) {
    let subdomain = pod.spec.subdomain.as_deref().unwrap_or_default();
    let overridden = pod.spec.hostname_override.as_deref().is_some_and(|name| !name.is_empty());
    if subdomain.is_empty() || overridden {
        return (pod.hostname(), String::new());
    }
    let namespace = &pod.key.namespace;
    let domain = match config.cluster_domain.as_str() {
        "" => format!("{subdomain}.{namespace}.svc"),
        cluster => format!("{subdomain}.{namespace}.svc.{cluster}"),
    };
    (pod.hostname(), domain)
}

/// The output of `uname -n` in a pod with its own network (`GetNodenameForKernel`).
///
/// # Errors
/// The pod wants its full name and it is too long; the kubelet's sentence.
pub fn kernel_name(pod: &DesiredPod, config: &NetworkConfig) -> Result<String, String> {
    let (host, domain) = host_and_domain(pod, config);
    if !pod.spec.set_hostname_as_fqdn.unwrap_or(false) || domain.is_empty() {
        return Ok(host);
    }
    let full = format!("{host}.{domain}");
    let (most, have) = (KERNEL_NAME_BYTES, full.len());
    if have > most {
        return Err(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long ({most} characters is the max, {have} characters requested)"
        ));
    }
    Ok(full)
}

/// Sets the network fields of a sandbox.
pub(super) fn sandbox(body: &mut CreateBody, pod: &DesiredPod, config: &NetworkConfig, node: &str) -> Wanted {
    let own = !pod.host_network();
    let by_plugins = own && config.cni.is_on;
    let network = config.docker_network.as_ref().filter(|_| own && !by_plugins);
    body.host_config.namespaces.network_mode = match network {
        _ if by_plugins => "none".to_owned(),
        Some(network) => network.name.clone(),
        None if own => String::new(),
        None => "host".to_owned(),
    };
    body.networking_config = network.map(|network| endpoint(network, pod, config, node));
    body.hostname = host_name(pod, config).filter(|_| own);
    // A plugin maps the ports: Docker would accept them, without effect.
    let bindings = if by_plugins { Table::new() } else { port_bindings(pod) };
    if by_plugins {
        body.labels.insert(labels::NETWORK.to_owned(), labels::NETWORK_CNI.to_owned());
    }
    body.exposed_ports = bindings.keys().map(|key| (key.clone(), Empty {})).collect();
    body.host_config.port_bindings = bindings;
    Wanted { resolver: Asked::of(pod), hosts: None, sandbox: true, names: network.is_some() }
}

/// Sets the network fields of a container that joins the sandbox. `hosts_path` is the pod's hosts file on the
/// node.
pub(super) fn container(
    body: &mut CreateBody,
    pod: &DesiredPod,
    container: &Container,
    ips: &[String],
    config: &NetworkConfig,
    hosts_path: String,
) -> Wanted {
    let managed = hosts::is_managed(container);
    if managed {
        body.host_config.mounts.push(Mount::bind(hosts_path, hosts::TARGET.to_owned()));
    }
    Wanted {
        resolver: Asked::of(pod),
        hosts: managed.then(|| hosts_file(pod, ips, config)),
        sandbox: false,
        names: config.docker_network.is_some() && !pod.host_network(),
    }
}

/// The pod's hosts file, with these addresses. A withheld name belongs to another pod, and must not resolve to this
/// pod here either.
#[must_use]
pub fn hosts_file(pod: &DesiredPod, ips: &[String], config: &NetworkConfig) -> hosts::HostsFile {
    let (host, domain) = host_and_domain(pod, config);
    if is_withheld(pod, &host) || is_withheld(pod, &format!("{host}.{domain}")) {
        let host = host_name(pod, config).unwrap_or_else(|| pod.uid.clone());
        return hosts::file(pod, ips, &host, "");
    }
    hosts::file(pod, ips, &host, &domain)
}

/// The host name of a sandbox with its own network. On a user-defined network Docker resolves this name, too: a
/// withheld name is replaced by the pod's full name, that by the same with the namespace, and that by Docker's choice,
/// the container's short id.
fn host_name(pod: &DesiredPod, config: &NetworkConfig) -> Option<String> {
    // When the name is too long, the sandbox is not created.
    let wanted = kernel_name(pod, config).unwrap_or_else(|_| pod.hostname());
    let PodKey { namespace, name } = &pod.key;
    let others = [name.clone(), format!("{name}.{namespace}")];
    let others = others.into_iter().filter(|name| name.len() <= KERNEL_NAME_BYTES);
    std::iter::once(wanted).chain(others).find(|name| !is_withheld(pod, name))
}

/// The form in which names are compared: Docker's resolver ignores case.
#[must_use]
pub fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

fn is_withheld(pod: &DesiredPod, name: &str) -> bool {
    pod.withheld.contains(&folded(name))
}

/// The pod's endpoint on a Docker network, with its names there.
fn endpoint(
    network: &DockerNetwork,
    pod: &DesiredPod,
    config: &NetworkConfig,
    node: &str,
) -> NetworkingConfig {
    let host = pod.hostname();
    let own = [written_name(&pod.key, pod.source, node), pod.key.name.as_str(), host.as_str()];
    // A single name with a dot looks like an external host name, such as `google.com`, and would hide that host from
    // every pod on the network. With the namespace appended, it is one of ours.
    let is_foreign = |name: &str| name.contains('.') && own.contains(&name);
    let mut aliases = names(pod, config, node);
    aliases.retain(|name| !is_withheld(pod, name) && !is_foreign(name));
    NetworkingConfig { endpoints_config: Table::from([(network.name.clone(), Endpoint { aliases })]) }
}

/// The names that a pod with its own network requests on a Docker network, each once: its name in the manifest, its
/// name on the node and its host name, each also with the namespace, and the names that a cluster's DNS would have.
#[must_use]
pub fn names(pod: &DesiredPod, config: &NetworkConfig, node: &str) -> Vec<String> {
    let (host, domain) = host_and_domain(pod, config);
    let mut aliases = names_of_key(&pod.key, pod.source, node);
    for alias in [host.clone(), format!("{host}.{}", pod.key.namespace)] {
        if !aliases.contains(&alias) {
            aliases.push(alias);
        }
    }
    if let Some((subdomain, _)) = domain.split_once('.') {
        aliases.push(format!("{host}.{subdomain}"));
        aliases.push(format!("{host}.{subdomain}.{}", pod.key.namespace));
        aliases.push(format!("{host}.{domain}"));
    }
    aliases
}

/// The part of [`names`] that follows from the identity and the source alone.
#[must_use]
pub fn names_of_key(key: &PodKey, source: Source, node: &str) -> Vec<String> {
    let (written, full) = (written_name(key, source, node), key.name.as_str());
    let mut names = vec![written.to_owned(), format!("{written}.{}", key.namespace)];
    if written != full {
        names.extend([full.to_owned(), format!("{full}.{}", key.namespace)]);
    }
    names
}

/// The pod's name without the suffix that pods of files and URLs get on their node.
fn written_name<'a>(key: &'a PodKey, source: Source, node: &str) -> &'a str {
    let name = key.name.as_str();
    let short = name.strip_suffix(node).and_then(|name| name.strip_suffix('-'));
    short.filter(|name| source != Source::Api && !name.is_empty()).unwrap_or(name)
}

/// Host ports of regular containers and of sidecars, which run as long as the pod. Empty with host
/// network, where a container's port is the host's port already.
fn port_bindings(pod: &DesiredPod) -> Table<String, Vec<PortBinding>> {
    let mut found: Table<String, Vec<PortBinding>> = Table::new();
    if pod.host_network() {
        return found;
    }
    let lasting = pod.containers().filter(|(kind, _)| *kind != ContainerKind::Init);
    for port in lasting.flat_map(|(_, container)| container.ports.iter().flatten()) {
        let Some(host_port) = port.host_port.filter(|&host_port| host_port != 0) else { continue };
        let binding = PortBinding {
            host_ip: port.host_ip.clone().unwrap_or_default(),
            host_port: host_port.to_string(),
        };
        let bindings = found.get_or_default(port_key(port));
        if !bindings.contains(&binding) {
            bindings.push(binding);
        }
    }
    found
}

/// `80/tcp`; a protocol that Docker does not support becomes tcp.
fn port_key(port: &ContainerPort) -> String {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => "udp",
        Some("SCTP") => "sctp",
        _ => "tcp",
    };
    format!("{}/{protocol}", port.container_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing;

    fn config(domain: &str) -> NetworkConfig {
        let network = DockerNetwork { name: "pods".into(), cidrs: Vec::new() };
        NetworkConfig {
            docker_network: Some(network),
            cluster_domain: domain.into(),
            ..NetworkConfig::default()
        }
    }

    #[test]
    fn full_names() {
        let check = |spec: &str, domain: &str, expected: Result<&str, &str>| {
            let pod = testing::pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            let name = kernel_name(&pod, &config(domain));
            assert_eq!(name.as_deref().map_err(String::as_str), expected, "{spec}");
        };
        check("", "x.y", Ok("web-node"));
        check("subdomain: s", "x.y", Ok("web-node"));
        check("setHostnameAsFQDN: true", "x.y", Ok("web-node"));
        check("subdomain: s, setHostnameAsFQDN: true", "x.y", Ok("web-node.s.default.svc.x.y"));
        check("subdomain: s, setHostnameAsFQDN: true", "", Ok("web-node.s.default.svc"));
        check("subdomain: s, setHostnameAsFQDN: true, hostname: h", "x", Ok("h.s.default.svc.x"));
        check("subdomain: s, hostnameOverride: o.p, hostname: h", "x", Ok("o.p"));
        let long = "x".repeat(60);
        check(
            "subdomain: s, setHostnameAsFQDN: true",
            &long,
            Err(&format!(
                "failed to construct FQDN from pod hostname and cluster domain, FQDN web-node.s.default.svc.{long} is too long (64 characters is the max, 83 characters requested)"
            )),
        );
    }

    #[test]
    fn a_pod_has_several_names_on_a_network() {
        let network = DockerNetwork { name: "pods".into(), cidrs: Vec::new() };
        let of = |spec: &str, node: &str| {
            let pod = testing::pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            let names = endpoint(&network, &pod, &config("x"), node).endpoints_config;
            names["pods"].aliases.join(" ")
        };
        assert_eq!(of("", "node"), "web web.default web-node web-node.default");
        assert_eq!(of("", "other"), "web-node web-node.default");
        assert_eq!(of("", "web-node"), "web-node web-node.default");
        assert_eq!(
            of("hostname: h, subdomain: s", "node"),
            "web web.default web-node web-node.default h h.default h.s h.s.default h.s.default.svc.x"
        );
    }

    #[test]
    fn a_pod_with_a_dotted_name_does_not_hide_a_machine_elsewhere() {
        let network = DockerNetwork { name: "pods".into(), cidrs: Vec::new() };
        let of = |name: &str, spec: &str| {
            let mut pod = testing::pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            pod.key.name = name.to_owned();
            let names = endpoint(&network, &pod, &config("x"), "node").endpoints_config;
            names["pods"].aliases.join(" ")
        };
        assert_eq!(of("google.com-node", ""), "google.com.default google.com-node.default");
        assert_eq!(
            of("web-node", "hostnameOverride: google.com"),
            "web web.default web-node web-node.default google.com.default"
        );
        assert_eq!(
            of("google.com-node", "hostname: h"),
            "google.com.default google.com-node.default h h.default"
        );
    }

    #[test]
    fn a_withheld_name_does_not_lead_a_pod_to_itself() {
        let of = |spec: &str, withheld: &[&str]| {
            let mut pod = testing::pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            pod.withheld = withheld.iter().map(ToString::to_string).collect();
            hosts_file(&pod, &["10.0.0.9".to_owned()], &config("X")).text.lines().last().map(str::to_owned)
        };
        assert_eq!(of("hostname: h", &[]).as_deref(), Some("10.0.0.9\th"));
        assert_eq!(of("hostname: h", &["h"]).as_deref(), Some("10.0.0.9\tweb-node"));
        let full = "hostname: h, subdomain: s";
        assert_eq!(of(full, &[]).as_deref(), Some("10.0.0.9\th.s.default.svc.X\th"));
        assert_eq!(of(full, &["h"]).as_deref(), Some("10.0.0.9\tweb-node"));
        let all = ["h", "web-node", "web-node.default"];
        assert!(
            of("hostname: h", &all)
                .is_some_and(|line| all.iter().all(|name| !line.ends_with(&format!("\t{name}"))))
        );
    }

    /// Docker 20.10 resolves a container's host name like an alias, regardless of case.
    #[test]
    fn a_withheld_name_is_neither_an_alias_nor_the_host_name() {
        let of = |spec: &str, withheld: &[&str]| {
            let mut pod = testing::pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            pod.withheld = withheld.iter().map(ToString::to_string).collect();
            let mut body = CreateBody::default();
            sandbox(&mut body, &pod, &config("X"), "node");
            let aliases = body.networking_config.unwrap().endpoints_config["pods"].aliases.join(" ");
            (aliases, body.hostname.unwrap_or("none".to_owned()))
        };
        let check = |spec: &str, withheld: &[&str], aliases: &str, host: &str| {
            assert_eq!(of(spec, withheld), (aliases.to_owned(), host.to_owned()), "{spec} {withheld:?}");
        };
        check("", &[], "web web.default web-node web-node.default", "web-node");
        check("", &["web"], "web.default web-node web-node.default", "web-node");
        check("hostname: h", &["h"], "web web.default web-node web-node.default h.default", "web-node");
        check(
            "hostname: h",
            &["h", "web-node"],
            "web web.default web-node.default h.default",
            "web-node.default",
        );
        check("", &["web", "web.default", "web-node", "web-node.default"], "", "none");
        let full = "setHostnameAsFQDN: true, hostname: h, subdomain: s";
        check(
            full,
            &["h.s.default.svc.x"],
            "web web.default web-node web-node.default h h.default h.s h.s.default",
            "web-node",
        );
    }
}
