//! The kubelet's reasons and texts, one function for each event (upstream
//! `pkg/kubelet/events/event.go`, `kuberuntime_container.go`, `image_manager.go`, `prober.go`). Pure.
//!
//! Texts contain no ids and no future times: a repeated event has the same text, and is counted.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LifecycleHandler, ResourceRequirements};

mod images;
mod node;
mod reload;

use super::Weight;
use crate::base::limits;
use crate::plan::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, backoff};
use crate::pod::waiting::HOOK_OUTPUT;
use crate::pod::{DesiredPod, PodKey};

pub use images::{
    bad_image_name, local_copy, never_pulled, present, pull_backs_off, pull_failed, pull_secrets, pulled,
    pulling,
};
pub use node::{
    allocatable_enforced, archive_refused, node_is, rebooted, reserved_enforced, reserved_not_enforced,
    root_is_read_only, starting, system_oom, threshold_met,
};
pub use reload::{reload_needs_restart, reload_refused, reloaded};

/// Kind, reason and message of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Kind of the event.
    pub weight: Weight,
    /// One word.
    pub reason: Cow<'static, str>,
    /// One sentence.
    pub message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> Words {
    Words { weight: Weight::Normal, reason: reason.into(), message: message.into() }
}

fn warning(reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Words {
    Words { weight: Weight::Warning, reason: reason.into(), message: message.into() }
}

/// A pod had to go. Upstream: `pkg/kubelet/eviction/eviction_manager.go`, `pkg/kubelet/preemption/preemption.go`.
#[must_use]
pub fn evicted(reason: &'static str, message: &str) -> Words {
    warning(reason, message)
}

/// The sizes of a container were changed. Upstream: `pkg/kubelet/events/event.go`, from 1.34 on.
#[must_use]
pub fn resize_completed(container: &str, resources: Option<&ResourceRequirements>) -> Words {
    let what = crate::base::json::json!({ "containers": [{ "name": container, "resources": resources }] });
    normal("ResizeCompleted", format!("Pod resize completed: {what}"))
}

/// The sizes of a container could not be changed.
#[must_use]
pub fn resize_error(container: &str, why: &str) -> Words {
    warning("ResizeError", format!("Pod resize error: container {container}: {why}"))
}

/// There is no room for the new sizes now (`Deferred`), or never will be (`Infeasible`).
#[must_use]
pub fn resize_pending(reason: &'static str, message: &str) -> Words {
    let event = if reason == "Infeasible" { "ResizeInfeasible" } else { "ResizeDeferred" };
    warning(event, format!("Pod resize {reason}: {message}"))
}

/// The pod's `activeDeadlineSeconds` have passed.
#[must_use]
pub fn deadline_exceeded() -> Words {
    normal(DEADLINE_EXCEEDED, DEADLINE_MESSAGE)
}

/// The pod has waited long enough for the pods that it names in `podkeeper.dev/after`.
#[must_use]
pub fn after_timeout(waited: Duration, missing: &str) -> Words {
    let seconds = waited.as_secs();
    warning("AfterTimeout", format!("Waited {seconds} s for {missing}; starting all the same"))
}

/// An API server rejects the mirror pod of a static pod. The kubelet only logs it.
#[must_use]
pub fn mirror_failed(why: &str) -> Words {
    warning(
        "FailedMirror",
        format!("Failed to create a mirror pod: {why}; the pod runs, and is not seen there"),
    )
}

/// A container cannot be started: a waiting reason, or an error's text.
#[must_use]
pub fn error(what: &str) -> Words {
    warning("Failed", format!("Error: {what}"))
}

/// A pod's cgroup could not be created or set. Unlike with the kubelet, the pod runs.
#[must_use]
pub fn cgroup_failed(why: &str) -> Words {
    warning("FailedToCreatePodContainer", format!("unable to ensure pod container exists: {why}"))
}

/// The cgroup of a pod that is gone could not be removed.
#[must_use]
pub fn cgroup_stays(why: &str) -> Words {
    warning(
        "FailedKillPod",
        format!("error removing cgroup of pod: {why}; it stays until podkeeper starts anew"),
    )
}

/// Docker's inspect of a container failed.
#[must_use]
pub fn inspect_failed(container: &str, why: &str) -> Words {
    let message = format!(
        "error determining status: container {container}: {why}; what Docker's list shows is believed, and it is \
         asked again"
    );
    warning("FailedSync", message)
}

/// Docker does not identify a container in the pod's cgroup.
#[must_use]
pub fn unlisted(container: &str, why: &str) -> Words {
    let message = format!(
        "error determining status: container {container} is in the pod's cgroup and not in Docker's list: {why}; \
         nothing is started beside it, and it is asked again"
    );
    warning("FailedSync", message)
}

/// An operation that the pod does not depend on failed.
#[must_use]
pub fn sync_failed(why: &str) -> Words {
    warning("FailedSync", format!("error syncing pod: {why}"))
}

/// Docker created a container with differences from the request.
#[must_use]
pub fn docker_warns(warning_text: &str) -> Words {
    warning("DockerWarning", format!("Docker warns: {warning_text}"))
}

/// The link to a log could not be made.
#[must_use]
pub fn log_link_failed(why: &str) -> Words {
    warning("FailedLogLink", format!("{why}; the log is not to be found there, podkeeper logs shows it"))
}

/// The system has no thread for the pod, so no work is done for it.
#[must_use]
pub fn no_thread(why: &str) -> Words {
    warning("FailedSync", format!("no thread could be started for the pod: {why}; it is tried again"))
}

/// Volumes of a pod could not be removed.
#[must_use]
pub fn unmount_failed(why: &str) -> Words {
    let message = format!("volumes cannot be taken down: {why}; it is tried again in the background");
    warning("FailedUnMount", message)
}

/// The environment of a container leaves out some Services. With the kubelet it gets too many to start.
#[must_use]
pub fn services_left_out(what: &str) -> Words {
    warning("ServiceLinksLeftOut", what)
}

/// A dead container could not be removed.
#[must_use]
pub fn removal_failed(container: &str, why: &str) -> Words {
    let message =
        format!("dead container {container} cannot be removed: {why}; it is tried again in the background");
    warning("FailedRemoveContainer", message)
}

/// A volume could not be set up.
#[must_use]
pub fn mount_failed(volume: &str, why: &str) -> Words {
    warning("FailedMount", format!("MountVolume.SetUp failed for volume {volume:?} : {why}"))
}

/// The set-up of a pod's volumes takes long, or their removal (`is_set_up` is false).
#[must_use]
pub fn volumes_slow(is_set_up: bool) -> Words {
    let (reason, what) = if is_set_up { ("FailedMount", "set up") } else { ("FailedUnMount", "taken down") };
    let after = limits::VOLUMES_SLOW.as_secs();
    let hang = match is_set_up {
        true => "a file system may hang; podkeeper goes on waiting",
        false => "they have very many files, or a file system hangs; podkeeper goes on",
    };
    warning(reason, format!("the volumes are not {what} after {after} s: {hang}"))
}

/// Changing a volume's group takes long.
#[must_use]
pub fn ownership_slow(volume: &str, files: u64) -> Words {
    let message = format!(
        "Setting volume ownership for {volume} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods, processed {files} files."
    );
    warning("VolumePermissionChangeInProgress", message)
}

/// A volume is empty, but there are data that may belong to it.
#[must_use]
pub fn volume_begins_empty(volume: &str, why: &str) -> Words {
    warning("VolumeBeginsEmpty", format!("volume {volume:?}: {why}"))
}

/// A container was created.
#[must_use]
pub fn created() -> Words {
    normal("Created", "Container created")
}

/// A container was started.
#[must_use]
pub fn started() -> Words {
    normal("Started", "Container started")
}

/// A container is being stopped; `why` is the kubelet's message for a special cause.
#[must_use]
pub fn killing(container: &str, why: Option<&str>) -> Words {
    match why {
        Some(why) => normal("Killing", why),
        None => normal("Killing", format!("Stopping container {container}")),
    }
}

/// Docker refused a stop signal.
#[must_use]
pub fn kill_failed(why: &str) -> Words {
    warning("FailedKillPod", format!("error killing pod: {why}"))
}

/// A container that ended waits for its back-off.
#[must_use]
pub fn backs_off(container: &str, pod: &DesiredPod) -> Words {
    warning("BackOff", backoff::crash_event(container, pod))
}

/// A postStart hook failed; `why` ends with its output, which may hold secrets and is left out.
#[must_use]
pub fn post_start_failed(why: &str) -> Words {
    warning("FailedPostStartHook", format!("PostStartHook failed: {}", without_output(why)))
}

/// A preStop hook failed. See [`post_start_failed`].
#[must_use]
pub fn pre_stop_failed(why: &str) -> Words {
    warning("FailedPreStopHook", format!("PreStopHook failed: {}", without_output(why)))
}

/// Of a command only the program and its exit code: who may read events may not read manifests.
fn without_output(why: &str) -> String {
    let Some((command, _)) = why.split_once(HOOK_OUTPUT) else { return why.to_owned() };
    let program = command.split_inclusive(' ').take(2).collect::<String>();
    let program = program.trim_end_matches([' ', '\'']);
    match command.rsplit_once("' ") {
        Some((_, exited)) => format!("{program}' {exited}"),
        None => program.to_owned(),
    }
}

/// Why a container waits whose postStart hook failed (`pkg/kubelet/lifecycle/handlers.go`).
#[must_use]
pub fn post_start_error(pod: &DesiredPod, container: &str, why: &str) -> String {
    let spec = pod.container(container).map(|(_, spec)| spec);
    let hook = spec.and_then(|spec| spec.lifecycle.as_ref()?.post_start.as_ref());
    let what = match hook {
        Some(LifecycleHandler { exec: Some(exec), .. }) => {
            format!("Exec lifecycle hook ([{}])", exec.command.as_deref().unwrap_or_default().join(" "))
        }
        Some(LifecycleHandler { http_get: Some(get), .. }) => {
            format!("HTTP lifecycle hook ({})", get.path.as_deref().unwrap_or_default())
        }
        _ => "Lifecycle hook".to_owned(),
    };
    format!("{what} for Container {container:?} in Pod {:?} failed - error: {why}", backoff::pod_words(pod))
}

/// A new sandbox replaces an earlier one. `is_asked`: by `podkeeper restart`.
#[must_use]
pub fn sandbox_changed(is_asked: bool) -> Words {
    let why = if is_asked { "A restart of the pod was asked for" } else { "Pod sandbox changed" };
    normal("SandboxChanged", format!("{why}, it will be killed and re-created."))
}

/// No sandbox could be made.
#[must_use]
pub fn sandbox_failed(why: &str) -> Words {
    warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {why}"))
}

/// CNI plugins cannot attach pods, and only pods with host network start; in the kubelet's words.
#[must_use]
pub fn network_not_ready(why: &str) -> Words {
    warning("NetworkNotReady", format!("network is not ready: {}", network_problem(why)))
}

/// Why pods with their own network do not start, in the kubelet's words, which it also uses for the node.
#[must_use]
pub fn network_problem(why: &str) -> String {
    format!(
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:docker: network \
         plugin is not ready: {why}"
    )
}

/// The network of a pod that has ended could not be detached.
#[must_use]
pub fn tear_down_failed(key: &PodKey, why: &str) -> Words {
    let PodKey { namespace, name } = key;
    kill_failed(&format!(
        "failed to \"KillPodSandbox\" for {name:?} with KillPodSandboxError: \"networkPlugin cni failed to teardown pod \
         \\\"{name}_{namespace}\\\" network: {why}\"; podkeeper tries again"
    ))
}

/// A part of a pod's resolver settings was left out; `what` is the kubelet's sentence.
#[must_use]
pub fn dns_config(what: String) -> Words {
    warning("DNSConfigForming", what)
}

/// Cluster DNS is requested but not configured.
#[must_use]
pub fn missing_cluster_dns() -> Words {
    let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                   \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
    warning("MissingClusterDNS", message)
}

/// The pod requests names on the pods' network that belong to pods of preceding sources.
#[must_use]
pub fn names_withheld(what: &str) -> Words {
    let message = format!(
        "Names on the pods' network that belong to a preceding source: {what}. This pod does not get them; if its \
         sandbox has some already, it keeps them until it is made anew"
    );
    warning("NamesWithheld", message)
}

/// The pod's sandbox was made on another network than the current flags name. `has`: the Docker network, `None` for a
/// network of plugins; `named`: the flag's network; `cni`: whether plugins attach pods now.
#[must_use]
pub fn network_kept(has: Option<&str>, named: Option<&str>, cni: bool) -> Words {
    let now = match (named, has) {
        _ if cni => "and --network-plugin names cni now".to_owned(),
        (Some(name), _) => format!("and --docker-network names {name} now"),
        (None, Some(_)) => "which --docker-network does not name any more".to_owned(),
        (None, None) => "and --network-plugin does not name cni any more".to_owned(),
    };
    let has = has.map_or_else(|| "network of plugins".to_owned(), |name| format!("Docker network {name}"));
    let message = format!(
        "The pod stays on the {has}, on which its sandbox was made, {now}: it moves when its sandbox is \
         made anew, by drain and resume, say"
    );
    warning("NetworkKept", message)
}

/// The outcome of a probe, in the words of `probe::outcome`.
#[must_use]
pub fn probe(reason: &'static str, text: String) -> Words {
    warning(reason, text)
}

/// The pod was refused; reason and message are those of its status.
#[must_use]
pub fn rejected(reason: &str, message: &str) -> Words {
    warning(reason.to_owned(), message)
}

#[cfg(test)]
mod tests;
