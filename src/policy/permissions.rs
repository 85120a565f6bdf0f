//! What pods of a source may ask of the host beside the Pod Security Standards: its network, privileged containers, devices
//! (the old kubelet's `canRunPod`).
//!
//! Never here: what the node has, or has not.

use super::allow::Refusal;
use super::baseline::named_host;
use super::source_policy::SourcePolicy;
use crate::node::devices;
use crate::pod::ContainerKind;
use crate::pod::DesiredPod;

impl SourcePolicy {
    /// Whether a pod of the source may ask for what it does of the host.
    ///
    /// # Errors
    /// The first thing that it may not ask for.
    pub fn permits(&self, pod: &DesiredPod) -> Result<(), Refusal> {
        self.permits_devices(pod)?;
        self.permits_network(pod)?;
        if self.allow_privileged {
            return Ok(());
        }
        let mut all = pod.placed();
        let privileged =
            all.find(|(_, _, c)| c.security_context.as_ref().and_then(|s| s.privileged).unwrap_or(false));
        let Some((field, kind, _)) = privileged else { return Ok(()) };
        let what = if kind == ContainerKind::Regular { "container" } else { "init container" };
        let message = format!(
            "pod with UID {:?} specified privileged {what}, but is disallowed (--allow-privileged, --source-policy)",
            pod.uid
        );
        refuse(format!("{field}.securityContext.privileged"), message)
    }

    fn permits_network(&self, pod: &DesiredPod) -> Result<(), Refusal> {
        if self.host_network {
            return Ok(());
        }
        let uid = &pod.uid;
        if pod.host_network() {
            let message = format!(
                "pod with UID {uid:?} specified host networking, but is disallowed (--host-network-sources, --source-policy)"
            );
            return refuse("spec.hostNetwork".to_owned(), message);
        }
        let Some((field, host)) = named_host(&pod.spec) else { return Ok(()) };
        let message = format!(
            "pod with UID {uid:?} specified host {host:?} of a probe or hook, which is asked from the host's network, but is \
             disallowed (--host-network-sources, --source-policy)"
        );
        refuse(field, message)
    }

    fn permits_devices(&self, pod: &DesiredPod) -> Result<(), Refusal> {
        let field = format!("metadata.annotations[{}]", devices::DEVICE);
        let named = match devices::named(pod) {
            Ok(named) => named,
            Err(why) => return refuse(field, format!("annotation {}: {why}", devices::DEVICE)),
        };
        let mut wrong = named.iter().filter_map(|(_, device)| {
            Some((&device.path_on_host, self.refuses_device(&device.path_on_host)?))
        });
        let Some((path, why)) = wrong.next() else { return Ok(()) };
        let message =
            format!("pod with UID {:?} specified device {path}, but is disallowed ({why})", pod.uid);
        refuse(field, message)
    }
}

fn refuse(field: String, message: String) -> Result<(), Refusal> {
    Err(Refusal { reason: "Forbidden".to_owned(), message, field })
}
