//! Flags: podkeeper's effects on the machine itself, beside its pods.

use std::sync::Arc;

use super::Takes::{Duration, List, Switch, Text};
use super::{Flag, RUN, Section, put, value};
use crate::node::host;

pub static SECTION: Section = Section {
    title: "Machine",
    flags: &[
        Flag {
            name: "shutdown-grace-period",
            takes: Duration(|o, time| o.node.gives.host.shutdown = time),
            default: "0s",
            live: |now, new| {
                Arc::make_mut(&mut now.node).host.shutdown = new.node.host.shutdown;
                true
            },
            ..RUN
        },
        Flag {
            name: "shutdown-grace-period-critical-pods",
            takes: Duration(|o, time| o.node.gives.host.shutdown_critical = time),
            default: "0s",
            live: |now, new| {
                Arc::make_mut(&mut now.node).host.shutdown_critical = new.node.host.shutdown_critical;
                true
            },
            ..RUN
        },
        Flag {
            name: "protect-kernel-defaults",
            takes: Switch(|o, on| o.node.gives.host.protect_kernel_defaults = on),
            ..RUN
        },
        Flag {
            name: "enforce-node-allocatable",
            takes: List("WHAT,...", |o, text| {
                put(&mut o.node.gives.host.enforce, host::parse_enforce(text).map(Some))
            }),
            ..RUN
        },
        Flag {
            name: "kube-reserved-cgroup",
            takes: Text("CGROUP", |o, text| {
                put(&mut o.node.gives.host.kube_reserved_cgroup, value::cgroup(text))
            }),
            ..RUN
        },
        Flag {
            name: "system-reserved-cgroup",
            takes: Text("CGROUP", |o, text| {
                put(&mut o.node.gives.host.system_reserved_cgroup, value::cgroup(text))
            }),
            ..RUN
        },
        Flag {
            name: "kubelet-cgroups",
            takes: Text("CGROUP", |o, text| put(&mut o.node.gives.host.kubelet_cgroups, value::cgroup(text))),
            ..RUN
        },
        Flag {
            name: "runtime-cgroups",
            takes: Text("CGROUP", |o, text| put(&mut o.node.gives.host.runtime_cgroups, value::cgroup(text))),
            ..RUN
        },
        Flag {
            name: "system-cgroups",
            takes: Text("CGROUP", |o, text| put(&mut o.node.gives.host.system_cgroups, value::cgroup(text))),
            ..RUN
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
                ("shutdown-grace-period", "30s", |o| o.node.gives.host.shutdown.as_secs() == 30),
                ("shutdown-grace-period-critical-pods", "10s", |o| {
                    o.node.gives.host.shutdown_critical.as_secs() == 10
                }),
                ("protect-kernel-defaults", "true", |o| o.node.gives.host.protect_kernel_defaults),
                ("enforce-node-allocatable", "none", |o| o.node.gives.host.enforce == Some([].into())),
                ("kube-reserved-cgroup", "/kube", |o| o.node.gives.host.kube_reserved_cgroup == "/kube"),
                ("system-reserved-cgroup", "/s", |o| o.node.gives.host.system_reserved_cgroup == "/s"),
                ("kubelet-cgroups", "/podkeeper", |o| o.node.gives.host.kubelet_cgroups == "/podkeeper"),
                ("runtime-cgroups", "/docker", |o| o.node.gives.host.runtime_cgroups == "/docker"),
                ("system-cgroups", "/system", |o| o.node.gives.host.system_cgroups == "/system"),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("enforce-node-allocatable", ["none", "kube-reserved"], &["x"]),
                ("kube-reserved-cgroup", ["/a", "/b"], &["a"]),
                ("system-reserved-cgroup", ["/a", "/b"], &["a"]),
                ("kubelet-cgroups", ["/a", "/b"], &["a"]),
                ("runtime-cgroups", ["/a", "/b"], &["a"]),
                ("system-cgroups", ["/a", "/b"], &["a"]),
            ],
        );
    }
}
