//! A pod's resolver settings by the kubelet's rules (`pkg/kubelet/network/dns/dns.go`). Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::PodDNSConfig;

use super::NetworkConfig;
use crate::base::limits;
use crate::pod::DesiredPod;

/// Characters of one search domain: glibc aborts at longer ones.
const SEARCH_CHARS_ONE: usize = 253;

/// Resolver settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolver {
    /// Addresses, as text: an address of the node may have a zone.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// `name` or `name:value`.
    pub options: Vec<String>,
}

impl Resolver {
    /// Parses a resolv.conf: the last `search` line and all `options` lines are used.
    #[must_use]
    pub fn parse(text: &str) -> Resolver {
        let mut found = Resolver::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => found.servers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty());
                    found.searches = words.map(str::to_owned).collect();
                }
                Some("options") => append(&mut found.options, words.map(str::to_owned)),
                _ => {}
            }
        }
        found
    }

    /// The settings as a resolv.conf.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text: String = self.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
        for (word, list) in [("search", &self.searches), ("options", &self.options)] {
            if !list.is_empty() {
                text.push_str(&format!("{word} {}\n", list.join(" ")));
            }
        }
        text
    }

    /// Whether Docker, given these settings, writes an equal file. Docker fills an absent list from the
    /// node's file `host` (and on a bridge from a public resolver), and accepts only addresses without a
    /// zone.
    #[must_use]
    pub fn docker_can(&self, host: &Resolver) -> bool {
        let options = !self.options.is_empty() || host.options.is_empty();
        options
            && !self.servers.is_empty()
            && self.servers.iter().all(|server| server.parse::<IpAddr>().is_ok())
    }
}

/// A pod's requested resolver settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// UID of the pod.
    pub uid: String,
    namespace: String,
    kind: Kind,
    config: Option<PodDNSConfig>,
}

/// `dnsPolicy`, after applying the host network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Cluster,
    /// Only if set explicitly, never by default.
    ClusterWithHostNet,
    Host,
}

impl Asked {
    /// The settings of a pod.
    #[must_use]
    pub fn of(pod: &DesiredPod) -> Asked {
        let kind = match pod.spec.dns_policy.as_deref() {
            Some("None") => Kind::None,
            Some("ClusterFirstWithHostNet") => Kind::ClusterWithHostNet,
            Some("Default") => Kind::Host,
            _ if pod.host_network() => Kind::Host,
            _ => Kind::Cluster,
        };
        Asked {
            uid: pod.uid.clone(),
            namespace: pod.key.namespace.clone(),
            kind,
            config: pod.spec.dns_config.clone(),
        }
    }
}

/// Result of [`form`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formed {
    /// The settings.
    pub resolver: Resolver,
    /// Omitted parts, in the kubelet's words (event `DNSConfigForming`).
    pub omitted: Vec<String>,
    /// Set when cluster DNS is wanted but not configured; `Some(true)`: the pod requests it explicitly.
    pub missing_cluster_dns: Option<bool>,
}

/// `GetPodDNS`: `host` is the node's own file.
#[must_use]
pub fn form(asked: &Asked, host: &Resolver, config: &NetworkConfig) -> Formed {
    let mut formed = Formed::default();
    let wants_cluster = matches!(asked.kind, Kind::Cluster | Kind::ClusterWithHostNet);
    formed.resolver = if asked.kind == Kind::None {
        Resolver::default()
    } else if wants_cluster && !config.cluster_dns.is_empty() {
        let mut searches = Vec::new();
        let (namespace, domain) = (&asked.namespace, &config.cluster_domain);
        if !domain.is_empty() {
            searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
        }
        append(&mut searches, host.searches.iter().cloned());
        let servers = config.cluster_dns.iter().map(IpAddr::to_string).collect();
        Resolver { servers, searches, options: vec!["ndots:5".to_owned()] }
    } else {
        formed.missing_cluster_dns = wants_cluster.then_some(asked.kind == Kind::ClusterWithHostNet);
        host.clone()
    };
    if let Some(own) = &asked.config {
        merge(&mut formed.resolver, own);
    }
    fit(&mut formed);
    formed
}

/// `appendDNSConfig`.
fn merge(resolver: &mut Resolver, own: &PodDNSConfig) {
    append(&mut resolver.servers, own.nameservers.iter().flatten().cloned());
    append(&mut resolver.searches, own.searches.iter().flatten().cloned());
    for option in own.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        let text = match option.value.as_deref() {
            None | Some("") => name.to_owned(),
            Some(value) => format!("{name}:{value}"),
        };
        let same = |old: &&mut String| old.split(':').next() == Some(name);
        match resolver.options.iter_mut().find(same) {
            Some(old) => *old = text,
            None => resolver.options.push(text),
        }
    }
}

/// `formDNSConfigFitsLimits`.
fn fit(formed: &mut Formed) {
    let Resolver { servers, searches, .. } = &mut formed.resolver;
    if servers.len() > limits::RESOLVER_SERVERS {
        servers.truncate(limits::RESOLVER_SERVERS);
        let line = servers.join(" ");
        formed.omitted.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {line}"
        ));
    }
    let all = searches.len();
    searches.truncate(limits::RESOLVER_SEARCHES);
    searches.retain(|search| search.len() <= SEARCH_CHARS_ONE);
    while searches.join(" ").len() > limits::RESOLVER_SEARCH_BYTES {
        searches.pop();
    }
    if searches.len() < all {
        let line = searches.join(" ");
        formed.omitted.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {line}"
        ));
    }
}

/// Appends the entries that are missing in the list.
fn append(list: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for word in more {
        if !list.contains(&word) {
            list.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::pod;

    const HOST: &str = "# made by hand\n; too\nnameserver 192.0.2.1\nsearch old.example\nsearch corp.example. . a\n\
        options timeout:1 rotate\noptions rotate edns0\nnameserver  fe80::1%eth0\nnameserver\nsortlist x\n";

    fn config() -> NetworkConfig {
        NetworkConfig {
            cluster_dns: vec!["10.96.0.10".parse().unwrap()],
            cluster_domain: "cluster.local".into(),
            ..NetworkConfig::default()
        }
    }

    fn formed(spec: &str, config: &NetworkConfig) -> Formed {
        let pod = pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
        form(&Asked::of(&pod), &Resolver::parse(HOST), config)
    }

    fn check(spec: &str, config: &NetworkConfig, expected: &str) {
        assert_eq!(formed(spec, config).resolver.text(), expected, "{spec}");
    }

    const AS_HOST: &str = "nameserver 192.0.2.1\nnameserver fe80::1%eth0\nsearch corp.example a\n\
        options timeout:1 rotate edns0\n";
    const CLUSTER: &str = "nameserver 10.96.0.10\n\
        search default.svc.cluster.local svc.cluster.local cluster.local corp.example a\noptions ndots:5\n";

    #[test]
    fn policies() {
        let (with, without) = (config(), NetworkConfig::default());
        let no_domain = NetworkConfig { cluster_domain: String::new(), ..config() };
        check("dnsPolicy: ClusterFirst", &with, CLUSTER);
        check("", &with, CLUSTER);
        check("dnsPolicy: ClusterFirst, hostNetwork: true", &with, AS_HOST);
        check("dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true", &with, CLUSTER);
        check("dnsPolicy: ClusterFirstWithHostNet", &with, CLUSTER);
        check("dnsPolicy: Default", &with, AS_HOST);
        check("dnsPolicy: ClusterFirst", &without, AS_HOST);
        check(
            "dnsPolicy: ClusterFirst",
            &no_domain,
            "nameserver 10.96.0.10\nsearch corp.example a\noptions ndots:5\n",
        );
        check("dnsPolicy: None", &with, "");
        let missing = |spec: &str, config: &NetworkConfig| formed(spec, config).missing_cluster_dns;
        assert_eq!(missing("dnsPolicy: ClusterFirst", &without), Some(false));
        assert_eq!(missing("dnsPolicy: ClusterFirstWithHostNet", &without), Some(true));
        assert_eq!(missing("dnsPolicy: ClusterFirst", &with), None);
        assert_eq!(missing("dnsPolicy: Default", &without), None);
        assert_eq!(missing("dnsPolicy: ClusterFirst, hostNetwork: true", &without), None);
    }

    #[test]
    fn the_pods_own_settings_are_added_and_win() {
        let own = "dnsConfig: {nameservers: [1.1.1.1, 10.96.0.10], searches: [x.y, cluster.local],
            options: [{name: ndots, value: '2'}, {name: use-vc}, {name: timeout, value: '3'}]}";
        check(
            &format!("dnsPolicy: None, {own}"),
            &config(),
            "nameserver 1.1.1.1\nnameserver 10.96.0.10\nsearch x.y cluster.local\n\
             options ndots:2 use-vc timeout:3\n",
        );
        check(
            own,
            &config(),
            "nameserver 10.96.0.10\nnameserver 1.1.1.1\n\
             search default.svc.cluster.local svc.cluster.local cluster.local corp.example a x.y\n\
             options ndots:2 use-vc timeout:3\n",
        );
        check(
            &format!("dnsPolicy: Default, {own}"),
            &config(),
            "nameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver 1.1.1.1\n\
             search corp.example a x.y cluster.local\noptions timeout:3 rotate edns0 ndots:2 use-vc\n",
        );
    }

    #[test]
    fn limits_cut_and_are_told() {
        let told = formed("dnsPolicy: Default, dnsConfig: {nameservers: [1.1.1.1, 2.2.2.2]}", &config());
        assert_eq!(told.resolver.servers, ["192.0.2.1", "fe80::1%eth0", "1.1.1.1"]);
        assert_eq!(
            told.omitted,
            [
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
              192.0.2.1 fe80::1%eth0 1.1.1.1"
            ]
        );
        let searches = |list: Vec<String>| {
            formed(&format!("dnsPolicy: None, dnsConfig: {{searches: [{}]}}", list.join(", ")), &config())
        };
        let many = searches((0..33).map(|n| format!("d{n}")).collect());
        assert_eq!(many.resolver.searches.len(), 32);
        assert!(many.omitted[0].starts_with("Search Line limits were exceeded, some search paths have been"));
        assert!(many.omitted[0].ends_with("d30 d31"), "{:?}", many.omitted);
        let long = "x".repeat(254);
        assert_eq!(searches(vec!["a".into(), long, "b".into()]).resolver.searches, ["a", "b"]);
        let wide = searches((0..10).map(|n| format!("{n}{}", "y".repeat(249))).collect());
        assert_eq!(wide.resolver.searches.len(), 8, "8 x 250 and 7 blanks are within 2048");
        assert_eq!(searches((0..32).map(|n| format!("d{n}")).collect()).omitted, [""; 0]);
    }

    #[test]
    fn where_docker_would_write_something_else() {
        let of = Resolver::parse;
        let plain = of("nameserver 10.0.0.1\n");
        let host = of("nameserver 192.0.2.1\noptions rotate\n");
        assert!(plain.docker_can(&plain));
        assert!(!plain.docker_can(&host), "Docker takes options from the node's file");
        assert!(of("nameserver 10.0.0.1\noptions ndots:5\n").docker_can(&host));
        assert!(!of("search a\n").docker_can(&plain), "Docker falls back to a public resolver");
        assert!(!of("nameserver fe80::1%eth0\n").docker_can(&plain));
        assert!(of("nameserver fd00::1\n").docker_can(&plain));
    }
}
