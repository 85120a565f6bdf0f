//! Host names, /etc/hosts and DNS of a pod.

use k8s_openapi::api::core::v1::PodSpec;

use super::super::path::{Path, Report, forbidden, invalid, required, too_long, too_many};
use super::{accepted, accepted_if_set, names, one_of};
use crate::base::limits;

/// Longest host name of the kernel, bytes.
const KERNEL_NAME_BYTES: usize = 64;

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    accepted_if_set(spec.hostname.as_deref(), names::label, &path.field("hostname"), report);
    accepted_if_set(spec.subdomain.as_deref(), names::label, &path.field("subdomain"), report);
    let over = path.field("hostnameOverride");
    if spec.hostname_override.is_some() && spec.host_network == Some(true) {
        report.error(&over, forbidden("may not be specified when `hostNetwork` is true"));
    }
    if let Some(name) = spec.hostname_override.as_deref() {
        accepted(name, names::subdomain, &over, report);
        if name.len() > KERNEL_NAME_BYTES {
            report.error(&over, too_long(KERNEL_NAME_BYTES));
        }
        if spec.set_hostname_as_fqdn == Some(true) {
            report.error(&over, forbidden("may not be specified when `setHostnameAsFQDN` is true"));
        }
    }
    let aliases = path.field("hostAliases");
    for (i, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = aliases.index(i);
        accepted(&alias.ip, names::ip, &path.field("ip"), report);
        let hosts = path.field("hostnames");
        for (k, name) in alias.hostnames.iter().flatten().enumerate() {
            accepted(name, names::subdomain, &hosts.index(k), report);
        }
    }
    let policies = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    one_of(spec.dns_policy.as_deref(), &policies, &path.field("dnsPolicy"), report);
    dns(spec, &path.field("dnsConfig"), report);
}

fn dns(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let config = spec.dns_config.as_ref();
    let servers = config.and_then(|c| c.nameservers.as_deref()).unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && servers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        report.error(&path.field("nameservers"), required(detail));
    }
    let Some(config) = config else { return };
    let field = path.field("nameservers");
    if servers.len() > limits::RESOLVER_SERVERS {
        report.error(&field, too_many(servers.len(), limits::RESOLVER_SERVERS));
    }
    for (i, server) in servers.iter().enumerate() {
        accepted(server, names::ip, &field.index(i), report);
    }
    let field = path.field("searches");
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > limits::RESOLVER_SEARCHES {
        report.error(&field, too_many(searches.len(), limits::RESOLVER_SEARCHES));
    }
    if searches.join(" ").len() > limits::RESOLVER_SEARCH_BYTES {
        let detail = "must not have more than 2048 characters (including spaces) in the search list";
        report.error(&field, invalid("", detail));
    }
    for (i, search) in searches.iter().enumerate() {
        // The root alone, one trailing dot and underscores are valid for a resolver.
        if search == "." {
            continue;
        }
        if let Err(detail) = names::search(search.strip_suffix('.').unwrap_or(search)) {
            report.error(&field.index(i), invalid(search, detail));
        }
    }
    let field = path.field("options");
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            report.error(&field.index(i).field("name"), required("must not be empty"));
        }
    }
}
