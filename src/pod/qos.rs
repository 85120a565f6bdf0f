//! Quality-of-service class of a pod, and the requests and limits that determine it (upstream
//! `pkg/apis/core/v1/helper/qos/qos.go`). Pure. An invalid quantity counts as absent: validation has
//! refused it before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::base::quantity;

/// A quality-of-service class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    /// Every container limits cpu and memory, and requests the same amounts.
    Guaranteed,
    /// Some cpu or memory is requested or limited.
    Burstable,
    /// No cpu or memory is requested or limited.
    BestEffort,
}

impl Qos {
    /// The API's word (`status.qosClass`).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Qos::Guaranteed => "Guaranteed",
            Qos::Burstable => "Burstable",
            Qos::BestEffort => "BestEffort",
        }
    }
}

/// The class of a pod, by cpu and memory: from the pod's own resources if it has them, else from all its
/// containers.
#[must_use]
pub fn class(spec: &PodSpec) -> Qos {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let parts: Vec<Option<&ResourceRequirements>> = match &spec.resources {
        Some(pod) => vec![Some(pod)],
        None => containers().map(|c| c.resources.as_ref()).collect(),
    };
    let (mut any, mut guaranteed) = (false, true);
    for resource in ["cpu", "memory"] {
        let (mut requests, mut limits) = (0_i64, 0_i64);
        for part in &parts {
            let (request, limit) = (request(*part, resource), limit(*part, resource));
            guaranteed &= limit > 0;
            requests = requests.saturating_add(request);
            limits = limits.saturating_add(limit);
        }
        any |= requests > 0 || limits > 0;
        guaranteed &= requests == limits;
    }
    match (any, guaranteed) {
        (false, _) => Qos::BestEffort,
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
    }
}

/// Milli-CPUs or bytes of a limit; 0 when absent.
#[must_use]
pub fn limit(resources: Option<&ResourceRequirements>, resource: &str) -> i64 {
    milli_or_bytes(resources.and_then(|r| r.limits.as_ref()), resource)
}

/// Milli-CPUs or bytes of a request; the limit if no request is given, as in the API's defaults; 0 without
/// either.
#[must_use]
pub fn request(resources: Option<&ResourceRequirements>, resource: &str) -> i64 {
    let requests = resources.and_then(|r| r.requests.as_ref());
    match requests.is_some_and(|r| r.contains_key(resource)) {
        true => milli_or_bytes(requests, resource),
        false => limit(resources, resource),
    }
}

/// `cpu` in thousandths, all others in whole units; 0 when absent, negative or invalid.
fn milli_or_bytes(list: Option<&BTreeMap<String, Quantity>>, resource: &str) -> i64 {
    let Some(Quantity(text)) = list.and_then(|list| list.get(resource)) else { return 0 };
    let parsed = if resource == "cpu" { quantity::milli(text) } else { quantity::value(text) };
    parsed.unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_table() {
        let check = |spec: serde_json::Value, expected: &str| {
            let spec: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(class(&spec).as_str(), expected, "{}", serde_json::to_string(&spec).unwrap());
        };
        let of = |resources: serde_json::Value| serde_json::json!({"name": "c", "resources": resources});
        let both = serde_json::json!({"cpu": "1", "memory": "1Gi"});
        let same = serde_json::json!({"cpu": "1000m", "memory": "1024Mi"});
        let full = of(serde_json::json!({"requests": both, "limits": same}));
        let none = of(serde_json::json!({}));
        let zero = of(serde_json::json!({"requests": {"cpu": "0"}, "limits": {"memory": "0"}}));
        let gpu = of(serde_json::json!({"limits": {"example.com/gpu": "1"}}));
        let request = of(serde_json::json!({"requests": {"cpu": "100m"}}));
        let cpu_only = of(serde_json::json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}));
        let less = of(serde_json::json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": both}));
        check(serde_json::json!({"containers": [none]}), "BestEffort");
        check(serde_json::json!({"containers": [zero]}), "BestEffort");
        check(serde_json::json!({"containers": [gpu]}), "BestEffort");
        check(serde_json::json!({"containers": [full]}), "Guaranteed");
        check(serde_json::json!({"containers": [full, full], "initContainers": [full]}), "Guaranteed");
        check(serde_json::json!({"containers": [full, none]}), "Burstable");
        check(serde_json::json!({"containers": [full], "initContainers": [none]}), "Burstable");
        check(serde_json::json!({"containers": [request]}), "Burstable");
        check(serde_json::json!({"containers": [cpu_only]}), "Burstable");
        check(serde_json::json!({"containers": [less]}), "Burstable");
        // With resources at pod level, only these count.
        let pod = serde_json::json!({"requests": both, "limits": same});
        check(serde_json::json!({"containers": [request], "resources": pod}), "Guaranteed");
        check(serde_json::json!({"containers": [full], "resources": {}}), "BestEffort");
        check(
            serde_json::json!({"containers": [none], "resources": {"requests": {"cpu": "1"}}}),
            "Burstable",
        );
    }
}
