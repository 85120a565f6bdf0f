//! The API server's defaults (`pkg/apis/core/v1/defaults.go`). No identity or hash may depend on them
//! (kubernetes/kubernetes#63814).

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, HTTPGetAction, PodSpec, Probe, ResourceRequirements, Volume,
};

/// Sets the fields that the manifest leaves out.
pub(crate) fn apply(spec: &mut PodSpec) {
    set(&mut spec.dns_policy, "ClusterFirst");
    set(&mut spec.restart_policy, "Always");
    let grace =
        spec.termination_grace_period_seconds.get_or_insert(crate::base::limits::GRACE_DEFAULT.into());
    // As upstream, a negative one becomes the shortest possible.
    if *grace < 0 {
        *grace = 1;
    }
    spec.security_context.get_or_insert_default();
    set(&mut spec.scheduler_name, "default-scheduler");
    spec.enable_service_links.get_or_insert(true);
    let host_network = spec.host_network.unwrap_or(false);
    let init = spec.init_containers.iter_mut().flatten();
    for each in init.chain(&mut spec.containers) {
        container(each, host_network);
    }
    spec.volumes.iter_mut().flatten().for_each(volume);
}

fn set(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}

fn container(container: &mut Container, host_network: bool) {
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    set(&mut container.image_pull_policy, policy);
    set(&mut container.termination_message_path, "/dev/termination-log");
    set(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        set(&mut port.protocol, "TCP");
        if host_network && port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
    for env in container.env.iter_mut().flatten() {
        if let Some(field) = env.value_from.as_mut().and_then(|from| from.field_ref.as_mut()) {
            set(&mut field.api_version, "v1");
        }
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            handler.http_get.iter_mut().for_each(http_get);
        }
    }
    container.resources.iter_mut().for_each(requests);
}

/// The `imagePullPolicy` of a container that has none: an image with tag `latest`, or without tag and digest, is always
/// pulled.
#[must_use]
pub fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest => "IfNotPresent",
        None => "Always",
    }
}

fn probe(probe: &mut Probe) {
    let or = |field: &mut Option<i32>, value| {
        if field.unwrap_or(0) == 0 {
            *field = Some(value);
        }
    };
    or(&mut probe.timeout_seconds, 1);
    or(&mut probe.period_seconds, 10);
    or(&mut probe.success_threshold, 1);
    or(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn http_get(get: &mut HTTPGetAction) {
    set(&mut get.path, "/");
    set(&mut get.scheme, "HTTP");
}

/// A limit without a request sets the request too.
fn requests(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

fn volume(volume: &mut Volume) {
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(0o644);
    }
    if let Some(map) = &mut volume.config_map {
        map.default_mode.get_or_insert(0o644);
    }
    if let Some(api) = &mut volume.downward_api {
        api.default_mode.get_or_insert(0o644);
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(0o644);
    }
    if let Some(path) = &mut volume.host_path {
        path.type_.get_or_insert_default();
    }
    let bare = Volume { name: volume.name.clone(), ..Volume::default() };
    if *volume == bare {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_tag_and_digest() {
        for (image, expected) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("registry:5000/busybox", "Always"),
            ("registry:5000/busybox:1", "IfNotPresent"),
            ("registry:5000/a/busybox@sha256:00", "IfNotPresent"),
            ("busybox:latest@sha256:00", "Always"),
            ("", "Always"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
