//! Flags: the name of the node, and the resources that it gives to pods.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::Repeats::Adds;
use super::Takes::{Count, Duration, List, Map, Name, Number, PathOrNone, Switch, Text};
use super::{Flag, InFile, RUN, RUN_CHECK, RUN_CHECK_HOLLOW, Section, put, value};
use crate::base::limits;
use crate::manifest::quoted;
use crate::node;
use crate::source::signature::GROUP;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub hostname_override: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub ips: Vec<IpAddr>,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// `None` for a resolver on the node itself.
    pub resolv_conf: Option<PathBuf>,
    /// Resources for pods; the unsafe sysctls are among the flags of the policy.
    pub gives: node::Options,
}

pub static SECTION: Section = Section {
    title: "Node",
    flags: &[
        Flag {
            name: "hostname-override",
            takes: Name("NAME", |o, name| o.node.hostname_override = name),
            rule: |o| {
                let name = o.node.hostname_override.as_ref()?;
                let good = value::is_dns_subdomain(&name.trim().to_lowercase());
                (!good).then(|| format!("{} must be an RFC 1123 subdomain", quoted(name)))
            },
            ..RUN_CHECK
        },
        Flag {
            name: "node-labels",
            takes: Map("K=V,...", '=', |o, text| value::labels(text, &mut o.node.labels)),
            repeats: Adds,
            live: |now, new| {
                // The sources of signing keys are read at the start alone.
                let signs = now.sources.verifier.is_some()
                    && now.node_labels.get(GROUP) != new.node_labels.get(GROUP);
                if !signs {
                    now.node_labels.clone_from(&new.node_labels);
                }
                !signs
            },
            ..RUN_CHECK_HOLLOW
        },
        Flag {
            name: "node-ip",
            takes: Text("IP[,IP]", |o, text| put(&mut o.node.ips, value::node_ips(text))),
            ..RUN
        },
        Flag {
            name: "cluster-dns",
            takes: List("IP,...", |o, text| {
                o.node.cluster_dns.extend(value::addresses(text)?);
                Ok(())
            }),
            repeats: Adds,
            ..RUN
        },
        Flag {
            name: "cluster-domain",
            takes: Text("DOMAIN", |o, text| put(&mut o.node.cluster_domain, value::domain(text))),
            ..RUN
        },
        Flag {
            name: "resolv-conf",
            takes: PathOrNone("FILE", |o, path| o.node.resolv_conf = path),
            default: "/etc/resolv.conf",
            ..RUN
        },
        Flag {
            name: "kube-reserved",
            takes: Map("RESOURCE=N,...", '=', |o, text| {
                put(&mut o.node.gives.kube_reserved, node::parse_reserved(text))
            }),
            ..RUN_CHECK
        },
        Flag {
            name: "system-reserved",
            takes: Map("RESOURCE=N,...", '=', |o, text| {
                put(&mut o.node.gives.system_reserved, node::parse_reserved(text))
            }),
            ..RUN_CHECK
        },
        Flag {
            name: "max-pods",
            takes: Count("N", |o, most| o.node.gives.max_pods = most.into()),
            default: "110",
            live: |now, new| {
                Arc::make_mut(&mut now.node).max_pods = new.node.max_pods;
                true
            },
            ..RUN_CHECK_HOLLOW
        },
        Flag {
            name: "pod-max-pids",
            field: "podPidsLimit",
            takes: Number("N", |o, most| put(&mut o.node.gives.pod_max_pids, Ok(most))),
            default: "-1",
            ..RUN
        },
        Flag {
            name: "max-container-restart-period",
            takes: Duration(|o, time| o.node.gives.max_restart_period = time),
            default: "5m",
            rule: |o| {
                let (time, most) = (o.node.gives.max_restart_period, limits::BACKOFF_MAX);
                (time < limits::RESTART_PERIOD_MIN || time > most)
                    .then(|| "must be set between 1s and 300s".to_owned())
            },
            ..RUN
        },
        Flag {
            name: "cgroups-per-qos",
            takes: Switch(|o, on| o.node.gives.cgroups_per_qos = on),
            default: "true",
            ..RUN
        },
        Flag {
            name: "cgroup-root",
            takes: Text("PATH", |o, text| put(&mut o.node.gives.cgroup_root, value::cgroup(text))),
            ..RUN
        },
        Flag {
            name: "device",
            field: "devices",
            takes: Text("NAME=PATH,...", |o, text| o.node.gives.devices.add(text)),
            in_file: InFile::Pairs('='),
            repeats: Adds,
            ..RUN_CHECK
        },
        Flag {
            name: "runtime-class",
            field: "runtimeClasses",
            takes: Text("NAME=RUNTIME", |o, text| o.node.gives.runtimes.add(text)),
            in_file: InFile::Pairs('='),
            repeats: Adds,
            ..RUN_CHECK
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("hostname-override", "edge", |o| o.node.hostname_override == Some("edge".to_owned())),
                ("node-labels", "a=b", |o| {
                    o.node.labels == BTreeMap::from([("a".to_owned(), "b".to_owned())])
                }),
                ("node-ip", "192.0.2.1", |o| o.node.ips == [IpAddr::from([192, 0, 2, 1])]),
                ("cluster-dns", "10.96.0.10", |o| o.node.cluster_dns == [IpAddr::from([10, 96, 0, 10])]),
                ("cluster-domain", "Cluster.Local.", |o| o.node.cluster_domain == "cluster.local"),
                ("resolv-conf", "", |o| o.node.resolv_conf.is_none()),
                ("kube-reserved", "cpu=1", |o| o.node.gives.kube_reserved.milli_cpu == 1000),
                ("system-reserved", "cpu=1", |o| o.node.gives.system_reserved.milli_cpu == 1000),
                ("max-pods", "5", |o| o.node.gives.max_pods == 5),
                ("pod-max-pids", "64", |o| o.node.gives.pod_max_pids == 64),
                ("max-container-restart-period", "10s", |o| o.node.gives.max_restart_period.as_secs() == 10),
                ("cgroups-per-qos", "false", |o| !o.node.gives.cgroups_per_qos),
                ("cgroup-root", "/edge", |o| o.node.gives.cgroup_root == "/edge"),
                ("device", "a=/dev/null", |o| o.node.gives.devices.count("podkeeper.dev/a") == 1),
                ("runtime-class", "a=runc", |o| o.node.gives.runtimes != Default::default()),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("node-labels", ["a=b", "c=d"], &["a", "-a=b"]),
                ("node-ip", ["192.0.2.1", "192.0.2.2"], &["x", "192.0.2.1,192.0.2.2"]),
                ("cluster-dns", ["10.0.0.1", "10.0.0.2"], &["dns"]),
                ("cluster-domain", ["a", "b"], &["a b"]),
                ("kube-reserved", ["cpu=1", "memory=1Mi"], &["cpu", "cpu=-1", "cpu=x"]),
                ("system-reserved", ["cpu=1", "memory=1Mi"], &["cpu", "cpu=-1", "cpu=x"]),
                ("pod-max-pids", ["7", "8"], &["x", ""]),
                ("cgroup-root", ["/a", "/b"], &["a", "/a/../b"]),
                ("device", ["a=/dev/null", "b=/dev/zero"], &["a", "a=null"]),
                ("runtime-class", ["a=runc", "b=runc"], &["a", "A=runc"]),
            ],
        );
    }

    #[test]
    fn a_cgroup_root_has_no_way_up() {
        assert_eq!(value::cgroup(""), Ok(String::new()));
        for bad in ["edge", "/a/../b", "/a/./b"] {
            assert!(value::cgroup(bad).is_err(), "{bad}");
        }
    }
}
