//! Flags: what an API server is told of this node.

use std::time;

use super::Takes::{Count, Duration, Switch, Text};
use super::{Flag, Options, RUN, Section, put, value};
use crate::cluster::node::{self, Settings, Taint};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub register_node: bool,
    pub taints: Vec<Taint>,
    pub update: time::Duration,
    pub report: time::Duration,
    /// Seconds.
    pub lease: u32,
    /// Negative: all.
    pub images: i64,
}

impl Options {
    /// What the API server is told of the node of this name, whose kubelet's server listens on this port.
    pub fn cluster_node(&self, name: &str, port: Option<u16>) -> Settings {
        let Values { register_node, taints, update, report, lease, images } = &self.cluster;
        Settings {
            name: name.to_owned(),
            register: *register_node,
            taints: taints.clone(),
            port,
            update: *update,
            report: *report,
            lease: time::Duration::from_secs((*lease).into()),
            images: usize::try_from(*images).ok(),
        }
    }
}

pub static SECTION: Section = Section {
    title: "In a cluster",
    flags: &[
        Flag {
            name: "register-node",
            takes: Switch(|o, on| o.cluster.register_node = on),
            default: "true",
            help: "Make the node object at the API server when there is none",
            ..RUN
        },
        Flag {
            name: "register-with-taints",
            takes: Text("KEY=VALUE:EFFECT,...", |o, text| {
                put(&mut o.cluster.taints, node::parse_taints(text))
            }),
            help: "Taints of a node object that is made; one that is there keeps its own",
            ..RUN
        },
        Flag {
            name: "node-status-update-frequency",
            takes: Duration(|o, time| o.cluster.update = time),
            default: "10s",
            help: "How often a changed status of the node is sent",
            rule: |o| value::too_short(o.cluster.update),
            ..RUN
        },
        Flag {
            name: "node-status-report-frequency",
            takes: Duration(|o, time| o.cluster.report = time),
            default: "5m",
            help: "How often an unchanged status of the node is sent",
            rule: |o| value::too_short(o.cluster.report),
            ..RUN
        },
        Flag {
            name: "node-lease-duration-seconds",
            takes: Count("N", |o, seconds| o.cluster.lease = seconds),
            default: "40",
            help: "How long the node's lease holds; it is renewed four times in that time",
            rule: |o| (o.cluster.lease < 4).then(|| format!("{} must be at least 4", o.cluster.lease)),
            ..RUN
        },
        Flag {
            name: "node-status-max-images",
            takes: Text("N", |o, text| put(&mut o.cluster.images, value::number(text))),
            default: "50",
            help: "Most images in the node's status; -1 for all",
            ..RUN
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::sets;
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("register-node", "false", |o| !o.cluster.register_node),
                ("register-with-taints", "edge=true:NoSchedule", |o| o.cluster.taints.len() == 1),
                ("node-status-update-frequency", "4s", |o| o.cluster.update == time::Duration::from_secs(4)),
                ("node-status-report-frequency", "1m", |o| o.cluster.report == time::Duration::from_secs(60)),
                ("node-lease-duration-seconds", "20", |o| o.cluster.lease == 20),
                ("node-status-max-images", "-1", |o| o.cluster_node("n1", None).images.is_none()),
            ],
        );
    }
}
