//! Ports of containers: ranges, names, protocols, and conflicting host ports within the pod.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::super::path::{Path, Report, duplicate, invalid_plain, required, unsupported};
use super::{accepted, between, names};

pub(super) fn check(container: &Container, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let list = path.field("ports");
    let mut seen = BTreeSet::new();
    for (i, port) in container.ports.iter().flatten().enumerate() {
        let path = list.index(i);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            accepted(name, names::port_name, &path.field("name"), report);
            if !seen.insert(name) {
                report.error(&path.field("name"), duplicate(name));
            }
        }
        let number = path.field("containerPort");
        if port.container_port == 0 && report.written(&number).is_none() {
            report.error(&number, required(""));
        } else {
            between(Some(port.container_port.into()), 1, 65535, &number, report);
        }
        let host = port.host_port.filter(|host| *host != 0);
        let host_path = path.field("hostPort");
        // A default from containerPort is skipped, because its own problem is reported.
        if report.written(&host_path).is_some() {
            between(host.map(i64::from), 1, 65535, &host_path, report);
            if spec.host_network == Some(true) && host.is_some_and(|host| host != port.container_port) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                report.error(&host_path, invalid_plain(host.unwrap_or_default(), detail));
            }
        }
        match port.protocol.as_deref().unwrap_or_default() {
            "" => report.error(&path.field("protocol"), required("")),
            "TCP" | "UDP" | "SCTP" => {}
            other => report.error(&path.field("protocol"), unsupported(other, &["SCTP", "TCP", "UDP"])),
        }
        // The API accepts any text here; Docker decides at the start.
        if port.host_ip.as_deref().is_some_and(|ip| !ip.is_empty() && names::ip(ip).is_err()) {
            let message = "is no IP address: Docker will refuse to start the container";
            report.warning(&path.field("hostIP"), message);
        }
    }
}

/// Checks that no two ports of the list's containers use the same protocol, address and port of the host.
pub(super) fn check_host_ports(
    name: &str,
    containers: &[Container],
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let list = path.field(name);
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = list.index(i);
        let path = path.field("ports");
        for (k, port) in container.ports.iter().flatten().enumerate() {
            let Some(host) = port.host_port.filter(|host| *host != 0) else { continue };
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let ip = port.host_ip.as_deref().unwrap_or_default();
            if !seen.insert((protocol, ip, host)) {
                let what = format!("{protocol}/{ip}/{host}");
                report.error(&path.index(k).field("hostPort"), duplicate(&what));
            }
        }
    }
}
