//! Flags: the node as an API server sees it.

use std::path::{Path as StdPath, PathBuf};
use std::time;

use super::Takes::{Duration, Number, Path, Seconds, Switch, Taints};
use super::{Flag, Options, RUN, RUN_HOLLOW, Section, Verb, put, value};
use crate::certificates;
use crate::cluster::node::{Settings, Taint};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub register_node: bool,
    pub taints: Vec<Taint>,
    pub update: time::Duration,
    pub report: time::Duration,
    /// Seconds.
    pub lease: u32,
    /// Number of images; negative for all.
    pub images: i64,
    pub bootstrap: Option<PathBuf>,
    pub renews_client: bool,
    pub asks_serving: bool,
}

impl Options {
    /// Settings of the Node object for the API server; `port` is that of the kubelet's server.
    pub fn cluster_node(&self, name: &str, port: Option<u16>) -> Settings {
        let Values { register_node, taints, update, report, lease, images, .. } = &self.cluster;
        Settings {
            name: name.to_owned(),
            register: *register_node,
            taints: taints.clone(),
            port,
            is_reached: true,
            update: *update,
            report: *report,
            lease: time::Duration::from_secs((*lease).into()),
            images: usize::try_from(*images).ok(),
        }
    }

    /// Settings of the certificates that the API server signs for the node of this name; `directory` is `--cert-dir`.
    /// `full` makes a path absolute.
    ///
    /// # Errors
    /// A path cannot be made absolute.
    pub fn certificates<E>(
        &self,
        name: &str,
        directory: &StdPath,
        full: &impl Fn(&StdPath) -> Result<PathBuf, E>,
    ) -> Result<Option<certificates::Settings>, E> {
        let Some(kubeconfig) = &self.sources.kubeconfig else { return Ok(None) };
        Ok(Some(certificates::Settings {
            node: name.to_owned(),
            kubeconfig: full(kubeconfig)?,
            bootstrap: self.cluster.bootstrap.as_deref().map(full).transpose()?,
            directory: directory.to_owned(),
            renews: self.cluster.renews_client,
            serves: self.cluster.asks_serving,
            node_ips: self.node.ips.clone(),
        }))
    }
}

pub static SECTION: Section = Section {
    title: "In a cluster",
    flags: &[
        Flag {
            name: "bootstrap-kubeconfig",
            takes: Path("FILE", |o, path| o.cluster.bootstrap = Some(path)),
            verbs: &[Verb::Run, Verb::Join],
            ..RUN
        },
        Flag {
            name: "rotate-certificates",
            takes: Switch(|o, on| o.cluster.renews_client = on),
            default: "true",
            ..RUN
        },
        Flag {
            name: "rotate-server-certificates",
            takes: Switch(|o, on| o.cluster.asks_serving = on),
            field: "serverTLSBootstrap",
            ..RUN
        },
        Flag {
            name: "register-node",
            takes: Switch(|o, on| o.cluster.register_node = on),
            default: "true",
            ..RUN
        },
        Flag {
            name: "register-with-taints",
            takes: Taints(|o, taints| o.cluster.taints = taints),
            ..RUN_HOLLOW
        },
        Flag {
            name: "node-status-update-frequency",
            takes: Duration(|o, time| o.cluster.update = time),
            default: "10s",
            rule: |o| value::too_short(o.cluster.update),
            ..RUN_HOLLOW
        },
        Flag {
            name: "node-status-report-frequency",
            takes: Duration(|o, time| o.cluster.report = time),
            default: "5m",
            rule: |o| value::too_short(o.cluster.report),
            ..RUN
        },
        Flag {
            name: "node-lease-duration-seconds",
            takes: Seconds(|o, seconds| o.cluster.lease = seconds),
            default: "40",
            rule: |o| (o.cluster.lease < 4).then(|| format!("{} must be at least 4", o.cluster.lease)),
            ..RUN_HOLLOW
        },
        Flag {
            name: "node-status-max-images",
            takes: Number("N", |o, most| put(&mut o.cluster.images, Ok(most))),
            default: "50",
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
                ("bootstrap-kubeconfig", "/b", |o| o.cluster.bootstrap == Some("/b".into())),
                ("rotate-certificates", "false", |o| !o.cluster.renews_client),
                ("rotate-server-certificates", "true", |o| o.cluster.asks_serving),
                ("register-node", "false", |o| !o.cluster.register_node),
                ("register-with-taints", "edge=true:NoSchedule", |o| {
                    Ok(&o.cluster.taints)
                        == crate::cluster::node::parse_taints("edge=true:NoSchedule").as_ref()
                }),
                ("node-status-update-frequency", "4s", |o| o.cluster.update == time::Duration::from_secs(4)),
                ("node-status-report-frequency", "1m", |o| o.cluster.report == time::Duration::from_secs(60)),
                ("node-lease-duration-seconds", "20", |o| o.cluster.lease == 20),
                ("node-status-max-images", "-1", |o| o.cluster_node("n1", None).images.is_none()),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(&SECTION, &[("node-status-max-images", ["7", "8"], &["x"])]);
    }
}
