//! The labels podkeeper writes on every container, and how they are read back. Running containers are judged
//! only by these (invariant 4); a label defined outside this room is a mistake.
//!
//! The `io.kubernetes.*` ones are the kubelet's (upstream `pkg/kubelet/kuberuntime/labels.go`) and
//! cri-dockerd's (`core/docker_service.go`), so that cAdvisor and log shippers recognise the containers. The
//! `podkeeper.dev/*` ones are ours.

/// `podsandbox` or `container`.
pub const TYPE: &str = "io.kubernetes.docker.type";
/// Value of [`TYPE`] on a sandbox.
pub const TYPE_SANDBOX: &str = "podsandbox";
/// Value of [`TYPE`] on any other container.
pub const TYPE_CONTAINER: &str = "container";
/// On containers: full id of the sandbox whose namespaces it joins.
pub const SANDBOX_ID: &str = "io.kubernetes.sandbox.id";
/// Container name; `POD` on the sandbox.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Value of [`CONTAINER_NAME`] on a sandbox.
pub const SANDBOX_NAME: &str = "POD";
pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Prefix under which annotations are kept as labels.
pub const ANNOTATION: &str = "annotation.";
/// Container hash, lower-case hex.
pub const HASH: &str = "annotation.io.kubernetes.container.hash";
/// Attempt of a container, decimal: the only order there is.
pub const RESTART_COUNT: &str = "annotation.io.kubernetes.container.restartCount";
/// On the sandbox: when the pod was first seen. It is an annotation of the pod that podkeeper itself writes.
pub const SEEN: &str = "annotation.kubernetes.io/config.seen";
/// Path of the termination message in the container.
pub const TERMINATION_MESSAGE_PATH: &str = "annotation.io.kubernetes.container.terminationMessagePath";
/// `File` or `FallbackToLogsOnError`.
pub const TERMINATION_MESSAGE_POLICY: &str = "annotation.io.kubernetes.container.terminationMessagePolicy";
/// Decimal seconds of `deletionGracePeriodSeconds`; empty when not set.
pub const DELETION_GRACE: &str = "annotation.io.kubernetes.pod.deletionGracePeriod";
/// Decimal seconds: the grace period of a container whose manifest is gone.
pub const TERMINATION_GRACE: &str = "annotation.io.kubernetes.pod.terminationGracePeriod";
/// JSON of the lifecycle handler; empty when there is none.
pub const PRE_STOP: &str = "annotation.io.kubernetes.container.preStopHandler";
/// JSON array of container ports; empty when there are none.
pub const PORTS: &str = "annotation.io.kubernetes.container.ports";
/// On every object: the root directory of the podkeeper that made it. An object with another value, or
/// without one, is foreign and left alone.
pub const ROOT_DIR: &str = "podkeeper.dev/root-dir";
/// On every object: `file`, `http` or `api`; only that source may remove the pod.
pub const SOURCE: &str = "podkeeper.dev/source";
/// On every object: the manifest's path or URL, so that the pod of a manifest that cannot be read at the
/// start is kept.
pub const ORIGIN: &str = "podkeeper.dev/origin";
/// On every object of a pod whose UID podkeeper made: hash of the manifest as written, so that a pod that
/// moves to another source is recognised.
pub const WRITTEN: &str = "podkeeper.dev/written";
/// On every object of such a pod: hash of the manifest without the fields that can change while it runs, so
/// that a pod that was resized is recognised; of a pod of an API server its UID.
pub const SHAPE: &str = "podkeeper.dev/shape";
/// Of sandboxes: the sizes of the pod's containers ([`crate::pod::sizes`]).
pub const SIZES: &str = "podkeeper.dev/sizes";
/// On the sandbox: units of devices that the pod was given. It is an annotation of the pod that podkeeper
/// itself writes.
pub const ASSIGNED_DEVICES: &str = "annotation.podkeeper.dev/assigned-devices";
/// On the sandbox: the runtime of Docker for all containers of the pod, if it is not the default. Also such an
/// annotation. Like [`NETWORK`], it is on no sandbox but by podkeeper.
pub const RUNTIME: &str = "annotation.podkeeper.dev/runtime";
/// On the sandbox: attempt, decimal (also the last part of its name).
pub const SANDBOX_ATTEMPT: &str = "podkeeper.dev/sandbox-attempt";
/// On containers: `init`, `sidecar` or `regular`, so that a pod whose manifest is gone stops in order;
/// followed by `.` and the index in its list (`sidecar.1`).
pub const KIND: &str = "podkeeper.dev/kind";
/// On the sandbox: `true` when it uses the host's network, else `false`. The container list does not contain
/// the network mode, and a sandbox with the wrong one must be replaced.
pub const HOST_NETWORK: &str = "podkeeper.dev/host-network";

/// On the sandbox of a pod with activeDeadlineSeconds: when the pod became active, as `BOOT/MILLISECONDS`:
/// the kernel's boot id and the uptime at that time.
pub const ACTIVE_SINCE: &str = "podkeeper.dev/active-since";

/// On containers: the sandbox's id once more. It proves that podkeeper wrote every label, even the empty
/// ones: Docker adds the image's labels where the create names none, but an image cannot know this id.
/// Containers of older versions of podkeeper lack it.
pub const SEALED: &str = "podkeeper.dev/sealed";

/// On a container after attempts that never ran and could not be removed: their number, and the sandbox's id, as
/// `COUNT/ID`. No image can know that id, so the label is on no other container.
pub const NEVER_RAN: &str = "podkeeper.dev/never-ran";

/// On a sandbox that CNI plugins attach: [`NETWORK_CNI`]. A sandbox's image is podkeeper's or the operator's own, so
/// the label is on no other one.
pub const NETWORK: &str = "podkeeper.dev/network";
/// Value of [`NETWORK`].
pub const NETWORK_CNI: &str = "cni";

/// On containers of sources behind others: bytes of Docker's record of the container when it was made, decimal.
pub const RECORDED: &str = "podkeeper.dev/recorded";

/// Whether podkeeper reads this label back.
#[must_use]
pub fn is_read(key: &str) -> bool {
    [NEVER_RAN, NETWORK, RUNTIME].contains(&key) || OURS.contains(&key)
}

/// All labels above, except [`NEVER_RAN`], [`NETWORK`] and [`RUNTIME`]. Each is on every object, empty if it has no value:
/// otherwise Docker would use the image's value. A pod's own labels and annotations are copied to its sandbox, except under these
/// keys. So podkeeper only ever reads back what it wrote itself ([`SEALED`]).
pub const OURS: &[&str] = &[
    TYPE,
    SANDBOX_ID,
    CONTAINER_NAME,
    POD_NAME,
    POD_NAMESPACE,
    POD_UID,
    HASH,
    RESTART_COUNT,
    TERMINATION_MESSAGE_PATH,
    TERMINATION_MESSAGE_POLICY,
    DELETION_GRACE,
    TERMINATION_GRACE,
    PRE_STOP,
    PORTS,
    ROOT_DIR,
    SOURCE,
    ORIGIN,
    WRITTEN,
    SHAPE,
    SIZES,
    SANDBOX_ATTEMPT,
    KIND,
    HOST_NETWORK,
    ACTIVE_SINCE,
    ASSIGNED_DEVICES,
    SEEN,
    SEALED,
    RECORDED,
];
