//! Admission of one pod beside the active ones (upstream `pkg/kubelet/allocation/allocation_manager.go`,
//! `pkg/kubelet/lifecycle/predicate.go`). Pure. The first failed check is the reason.

pub mod fits;
pub mod pressure;

use std::fmt;

use k8s_openapi::api::core::v1::ContainerPort;

use crate::base::order;
use crate::daemon::config::Config;
use crate::eviction::preemption::PODS;
use crate::mapping::security;
use crate::node::pressure::Pressures;
use crate::pod::placement::{self, NodeAtServer};
use crate::pod::{ContainerKind, DesiredPod};

/// The check that a pod fails. Shown by the kubelet's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Another pod has its UID. The kubelet has no word for it.
    DuplicateUid,
    /// The node is short of something, and may evict pods.
    Evicted,
    /// The node's disk is full.
    OutOfDisk,
    /// The node has too little of this resource, either now or in total.
    OutOf(String),
    /// It wants a sysctl that is not allowed.
    SysctlForbidden,
    /// A label says that it is for another operating system.
    OsLabel,
    /// It is for another operating system.
    Os,
    /// Its node selector or affinity does not select this node.
    NodeAffinity,
    /// The node has a taint that it does not tolerate.
    Taint,
    /// It is for another node.
    NodeName,
    /// Another pod has a port of the host.
    NodePorts,
    /// The node does not support AppArmor.
    AppArmor,
    /// The node has no runtime for its runtime class.
    Runtime,
    /// The pod's source may not run such a pod.
    Forbidden,
}

impl Reason {
    /// There are as many pods as the node may have.
    pub(super) fn of_pods() -> Reason {
        Reason::OutOf(PODS.to_owned())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OutOf(resource) => return write!(f, "OutOf{resource}"),
            Reason::DuplicateUid => "DuplicateUID",
            Reason::Evicted => pressure::EVICTED,
            Reason::OutOfDisk => "OutOfDisk",
            Reason::SysctlForbidden => "SysctlForbidden",
            Reason::OsLabel => "PodOSSelectorNodeLabelDoesNotMatch",
            Reason::Os => "PodOSNotSupported",
            Reason::NodeAffinity => "NodeAffinity",
            Reason::Taint => "TaintToleration",
            Reason::NodeName => "NodeName",
            Reason::NodePorts => "NodePorts",
            Reason::AppArmor => "AppArmor",
            // The kubelet uses this word for other features that the node lacks.
            Reason::Runtime => "PodFeatureUnsupported",
            Reason::Forbidden => "Forbidden",
        })
    }
}

/// Why a pod is refused, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The failed check.
    pub reason: Reason,
    /// The kubelet's message.
    pub message: String,
    /// Path of the field that causes the refusal.
    pub field: String,
}

impl Rejection {
    /// Whether the node lacks room, now or in total: no reason to stop a pod that has its room already.
    #[must_use]
    pub fn is_for_want_of_room(&self) -> bool {
        match self.reason {
            Reason::OutOf(_) | Reason::OutOfDisk => true,
            Reason::DuplicateUid
            | Reason::Evicted
            | Reason::SysctlForbidden
            | Reason::OsLabel
            | Reason::Os
            | Reason::NodeAffinity
            | Reason::Taint
            | Reason::NodeName
            | Reason::NodePorts
            | Reason::AppArmor
            | Reason::Runtime
            | Reason::Forbidden => false,
        }
    }
}

/// The party that has chosen this node for a pod.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    /// The pod's author: node selector and affinity are checked against the labels that flags give the node.
    Here,
    /// A control plane, by its own record of the node; `None` while that record is unknown, and for a pod that
    /// runs already.
    ByCluster(Option<&'a NodeAtServer>),
}

/// Whether the node's room counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The pod has to fit beside the others.
    Counts,
    /// The same, beside those of the others that have not ended for good, and that give no room back that they borrowed.
    Soon,
    /// The same, beside those of them that the pod does not wait for until they have succeeded.
    Later,
    /// It would be made.
    IsMade,
    /// The pod has ended for good: it needs nothing of the node, and only what it may do counts, for its worker may know
    /// better.
    NotNeeded,
}

/// Decides about `pod`; `others` are the active pods without it, as far as they count for `room`, and `pressures` is what
/// the node is short of.
///
/// # Errors
/// The first check that fails.
pub fn admit<'a>(
    pod: &DesiredPod,
    others: impl Iterator<Item = &'a DesiredPod>,
    config: &Config,
    pressures: &Pressures,
    chosen: Chosen<'_>,
    room: Room,
) -> Result<(), Rejection> {
    if room == Room::NotNeeded {
        sysctls(pod, config)?;
        app_armor(pod, config)?;
        return permissions(pod, config);
    }
    let mut others: Vec<&DesiredPod> = others.collect();
    order::sort_by(&mut others, |a, b| a.key.cmp(&b.key));
    pressure::check(pod, pressures)?;
    sysctls(pod, config)?;
    operating_system(pod, config)?;
    if room != Room::IsMade {
        fits::check(pod, &others, &config.node)?;
    }
    beside_room(pod, &others, config, chosen)
}

fn sysctls(pod: &DesiredPod, config: &Config) -> Result<(), Rejection> {
    let checked = config.node.sysctls.check(pod);
    checked.or_else(|message| refuse(Reason::SysctlForbidden, "spec.securityContext.sysctls", message))
}

fn beside_room(
    pod: &DesiredPod,
    others: &[&DesiredPod],
    config: &Config,
    chosen: Chosen<'_>,
) -> Result<(), Rejection> {
    node_selector(pod, config, chosen)?;
    if let Some(name) = pod.spec.node_name.as_deref()
        && !name.is_empty()
        && name != config.node_name
    {
        return refuse(
            Reason::NodeName,
            "spec.nodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name".to_owned(),
        );
    }
    host_ports(pod, others.iter().copied())?;
    taints(pod, chosen)?;
    app_armor(pod, config)?;
    permissions(pod, config)
}

fn app_armor(pod: &DesiredPod, config: &Config) -> Result<(), Rejection> {
    if config.node.app_armor || !security::needs_app_armor(pod) {
        return Ok(());
    }
    let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
    refuse(Reason::AppArmor, &app_armor_field(pod), message.to_owned())
}

fn refuse(reason: Reason, field: &str, message: String) -> Result<(), Rejection> {
    Err(Rejection { reason, message, field: field.to_owned() })
}

/// Path of the first field that requests AppArmor.
fn app_armor_field(pod: &DesiredPod) -> String {
    let own = pod.placed().find(|(_, _, c)| {
        c.security_context.as_ref().is_some_and(|context| context.app_armor_profile.is_some())
    });
    let whole = pod.spec.security_context.as_ref().is_some_and(|context| context.app_armor_profile.is_some());
    match own {
        Some((field, ..)) => format!("{field}.securityContext.appArmorProfile"),
        None if whole => "spec.securityContext.appArmorProfile".to_owned(),
        None => "metadata.annotations".to_owned(),
    }
}

fn operating_system(pod: &DesiredPod, config: &Config) -> Result<(), Rejection> {
    const LABEL: &str = "kubernetes.io/os";
    let wanted = pod.metadata.labels.as_ref().and_then(|l| l.get(LABEL));
    if let (Some(wanted), Some(ours)) = (wanted, config.node_labels.get(LABEL))
        && wanted != ours
    {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        let field = format!("metadata.labels[{LABEL}]");
        return refuse(Reason::OsLabel, &field, message.to_owned());
    }
    match &pod.spec.os {
        Some(os) if os.name != "linux" => refuse(
            Reason::Os,
            "spec.os",
            "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        ),
        _ => Ok(()),
    }
}

fn node_selector(pod: &DesiredPod, config: &Config, chosen: Chosen<'_>) -> Result<(), Rejection> {
    let labels = match chosen {
        Chosen::Here => &config.node_labels,
        Chosen::ByCluster(None) => return Ok(()),
        Chosen::ByCluster(Some(node)) => &node.labels,
    };
    let message =
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned();
    let mut selector = pod.spec.node_selector.iter().flatten();
    if let Some((key, _)) = selector.find(|(key, value)| labels.get(*key) != Some(value)) {
        return refuse(Reason::NodeAffinity, &format!("spec.nodeSelector[{key}]"), message);
    }
    if placement::is_selected(&pod.spec, &config.node_name, labels) {
        return Ok(());
    }
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    refuse(Reason::NodeAffinity, field, message)
}

fn taints(pod: &DesiredPod, chosen: Chosen<'_>) -> Result<(), Rejection> {
    let Chosen::ByCluster(Some(node)) = chosen else { return Ok(()) };
    match placement::untolerated(&pod.spec, &node.taints, "NoExecute") {
        None => Ok(()),
        Some(_) => {
            let message = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
            refuse(Reason::Taint, "spec.tolerations", message.to_owned())
        }
    }
}

/// Host ports of regular and sidecar containers, with their paths; plain init containers do not count.
fn host_port_list(pod: &DesiredPod) -> impl Iterator<Item = (String, &ContainerPort)> {
    let counting = pod.placed().filter(|(_, kind, _)| *kind != ContainerKind::Init);
    let all = counting.flat_map(|(field, _, c)| {
        let ports = c.ports.iter().flatten().enumerate();
        ports.map(move |(at, port)| (format!("{field}.ports[{at}].hostPort"), port))
    });
    all.filter(|(_, port)| port.host_port.is_some_and(|h| h > 0))
}

/// Checks that no host port of the pod is another one's.
///
/// # Errors
/// The refusal.
pub fn host_ports<'a>(
    pod: &DesiredPod,
    others: impl Iterator<Item = &'a DesiredPod>,
) -> Result<(), Rejection> {
    let wanted: Vec<(String, &ContainerPort)> = host_port_list(pod).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for other in others {
        for (_, theirs) in host_port_list(other) {
            if let Some((field, ours)) = wanted.iter().find(|(_, ours)| clash(ours, theirs)) {
                let message = format!(
                    "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: \
                     host port {} is taken by pod {}",
                    ours.host_port.unwrap_or_default(),
                    other.key
                );
                return refuse(Reason::NodePorts, field, message);
            }
        }
    }
    Ok(())
}

/// Whether two ports clash: same port and protocol, and the same address or one of them on all addresses
/// (`staging/src/k8s.io/kube-scheduler/framework/types.go`).
fn clash(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol = |p: &ContainerPort| p.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let address = |p: &ContainerPort| match p.host_ip.as_deref() {
        None | Some("" | "::") => "0.0.0.0".to_owned(),
        Some(ip) => ip.to_owned(),
    };
    let (ip_a, ip_b) = (address(a), address(b));
    a.host_port == b.host_port
        && protocol(a) == protocol(b)
        && (ip_a == ip_b || ip_a == "0.0.0.0" || ip_b == "0.0.0.0")
}

/// Permissions of the pod's source. Sources refuse such pods themselves, but for that of the API server, where a pod that
/// was bound to this node has to fail.
fn permissions(pod: &DesiredPod, config: &Config) -> Result<(), Rejection> {
    let permitted = config.policy.of(pod.source).permits(pod);
    permitted.or_else(|it| refuse(Reason::Forbidden, &it.field, it.message))
}
