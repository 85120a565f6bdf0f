//! Requests and limits of a pod as a whole (upstream `component-helpers/resource/helpers.go`, `PodRequests`
//! and `PodLimits`). Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::qos;
use crate::pod::{ContainerKind, init_kind};

/// Prefix of the names of huge pages, followed by their size.
pub const HUGE_PAGES: &str = "hugepages-";

/// The pod's request in thousandths of a CPU, bytes or pieces.
#[must_use]
pub fn request(spec: &PodSpec, resource: &str) -> i64 {
    let requested = match pod_level(spec, resource) {
        Some(pod) => qos::request(Some(pod), resource),
        None => containers_request(spec, resource),
    };
    requested.saturating_add(overhead(spec, resource))
}

/// The overhead of the pod's runtime class, in addition to its containers.
fn overhead(spec: &PodSpec, resource: &str) -> i64 {
    let Some(overhead) = &spec.overhead else { return 0 };
    let as_requests =
        ResourceRequirements { requests: Some(overhead.clone()), ..ResourceRequirements::default() };
    qos::request(Some(&as_requests), resource)
}

/// The request of its containers alone.
#[must_use]
pub fn containers_request(spec: &PodSpec, resource: &str) -> i64 {
    aggregate(spec, |container| qos::request(container.resources.as_ref(), resource))
}

/// The request of one container.
#[must_use]
pub fn of_container(container: &Container, resource: &str) -> i64 {
    qos::request(container.resources.as_ref(), resource)
}

/// The pod's own request, in addition to its containers.
#[must_use]
pub fn own(spec: &PodSpec, resource: &str) -> Option<i64> {
    let pod = pod_level(spec, resource)?;
    pod.requests.as_ref()?.contains_key(resource).then(|| qos::request(Some(pod), resource))
}

/// The limit of the pod as a whole; `None` when a container has none.
#[must_use]
pub fn limit(spec: &PodSpec, resource: &str) -> Option<i64> {
    if let Some(pod) = pod_level(spec, resource) {
        let limit = qos::limit(Some(pod), resource);
        if limit > 0 {
            return Some(limit.saturating_add(overhead(spec, resource)));
        }
    }
    let of = |container: &Container| qos::limit(container.resources.as_ref(), resource);
    let all = spec.init_containers.iter().flatten().chain(&spec.containers).all(|c| of(c) > 0);
    all.then(|| aggregate(spec, of).saturating_add(overhead(spec, resource)))
}

/// The sum of the limits that are set, even if some containers have none: shown by `kubectl describe node`.
#[must_use]
pub fn limits_told(spec: &PodSpec, resource: &str) -> i64 {
    limit(spec, resource)
        .unwrap_or_else(|| aggregate(spec, |container| qos::limit(container.resources.as_ref(), resource)))
}

/// Every resource name that is requested or limited somewhere in the pod.
pub fn names(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let all = containers.filter_map(|c| c.resources.as_ref()).chain(&spec.resources);
    let lists = all.flat_map(|r| r.requests.iter().chain(&r.limits));
    lists.flat_map(|list| list.keys().map(String::as_str))
}

/// The pod's own resources, if they include this one. Only cpu, memory and huge pages: devices belong
/// to containers.
fn pod_level<'a>(spec: &'a PodSpec, resource: &str) -> Option<&'a ResourceRequirements> {
    let pooled = matches!(resource, "cpu" | "memory") || resource.starts_with(HUGE_PAGES);
    let pod = spec.resources.as_ref().filter(|_| pooled)?;
    let says =
        |list: &Option<BTreeMap<String, Quantity>>| list.as_ref().is_some_and(|l| l.contains_key(resource));
    (says(&pod.requests) || says(&pod.limits)).then_some(pod)
}

/// The sum of regular containers and sidecars; or, if that is more, of an init container with the sidecars
/// that were started before it.
fn aggregate(spec: &PodSpec, of: impl Fn(&Container) -> i64) -> i64 {
    let regular = spec.containers.iter().map(&of).fold(0, i64::saturating_add);
    let (mut sidecars, mut most) = (0_i64, 0_i64);
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if init_kind(container) == ContainerKind::Sidecar {
            sidecars = sidecars.saturating_add(own);
            most = most.max(sidecars);
        } else {
            most = most.max(sidecars.saturating_add(own));
        }
    }
    most.max(regular.saturating_add(sidecars))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pods() {
        let check = |spec: &str, requests: i64, limits: Option<i64>| {
            let spec: PodSpec = serde_json::from_str(spec).unwrap();
            assert_eq!((request(&spec, "cpu"), limit(&spec, "cpu")), (requests, limits), "{spec:?}");
        };
        let c = |request: &str, limit: &str| {
            let limit =
                if limit.is_empty() { String::new() } else { format!(r#","limits":{{"cpu":"{limit}"}}"#) };
            format!(r#"{{"name":"c","resources":{{"requests":{{"cpu":"{request}"}}{limit}}}}}"#)
        };
        let sidecar = |request: &str, limit: &str| {
            c(request, limit).replacen(r#""name":"c""#, r#""name":"s","restartPolicy":"Always""#, 1)
        };
        check(r#"{"containers":[{"name":"c"}]}"#, 0, None);
        check(&format!(r#"{{"containers":[{},{}]}}"#, c("1", "2"), c("500m", "1")), 1500, Some(3000));
        check(&format!(r#"{{"containers":[{},{}]}}"#, c("1", "2"), c("500m", "")), 1500, None);
        // The largest init container counts, not their sum; together with the sidecars before it.
        check(
            &format!(
                r#"{{"initContainers":[{},{}],"containers":[{}]}}"#,
                c("3", "3"),
                c("2", "2"),
                c("1", "1")
            ),
            3000,
            Some(3000),
        );
        check(
            &format!(
                r#"{{"initContainers":[{},{},{}],"containers":[{}]}}"#,
                sidecar("1", "1"),
                c("3", "3"),
                sidecar("1", "1"),
                c("1", "1")
            ),
            4000,
            Some(4000),
        );
        let spec: PodSpec = serde_json::from_str(
            r#"{"containers":[],"resources":{"requests":{"cpu":"2"},"limits":{"memory":"4"}}}"#,
        )
        .unwrap();
        assert_eq!((own(&spec, "cpu"), own(&spec, "memory")), (Some(2000), None));
        // A runtime's overhead counts as requested, and is added to existing limits.
        let over = r#""overhead":{"cpu":"250m"}"#;
        check(&format!(r#"{{"containers":[{}],{over}}}"#, c("1", "2")), 1250, Some(2250));
        check(&format!(r#"{{"containers":[{}],{over}}}"#, c("1", "")), 1250, None);
        // The pod's own resources take precedence.
        let pod = r#""resources":{"requests":{"cpu":"2"},"limits":{"cpu":"4"}}"#;
        check(&format!(r#"{{"containers":[{{"name":"c"}}],{pod}}}"#), 2000, Some(4000));
        check(&format!(r#"{{"containers":[{}],{pod}}}"#, c("1", "2")), 2000, Some(4000));
        let memory = r#""resources":{"requests":{"memory":"2"}}"#;
        check(&format!(r#"{{"containers":[{}],{memory}}}"#, c("1", "2")), 1000, Some(2000));
    }

    #[test]
    fn resource_names() {
        let spec = r#"{"containers":[{"name":"c","resources":{"limits":{"cpu":"1","x.y/z":"1"}}}],
                       "resources":{"requests":{"memory":"1"}}}"#;
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        assert_eq!(names(&spec).collect::<Vec<_>>(), ["cpu", "x.y/z", "memory"]);
    }
}
