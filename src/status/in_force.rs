//! Requests and limits that Docker has in force for a running container, in the API's words (upstream
//! `pkg/kubelet/kubelet_pods.go`, `convertContainerStatusResources`). Pure. For a container whose resize has not worked yet,
//! under a daemon that has not told of the sizes before it.
//!
//! Never here: what Docker does not know: a request of memory is that of the manifest.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::base::quantity;
use crate::cgroup::cpu;
use crate::runtime::Resources;

/// The wanted resources, with the values that Docker shows in place of those that differ. A value that an engine leaves
/// out, or shows as 0, is no difference.
#[must_use]
pub(super) fn resources(wanted: &ResourceRequirements, seen: Resources) -> ResourceRequirements {
    let mut all = wanted.clone();
    let shown = |value: Option<i64>| value.filter(|value| *value > 0);
    let milli = |text: &Quantity| quantity::milli(&text.0).unwrap_or_default();
    if let Some(requests) = &mut all.requests
        && let Some(request) = requests.get_mut("cpu")
        && let Some(shares) = shown(seen.cpu_shares).filter(|shares| *shares != cpu::shares(milli(request)))
    {
        // Rounded up, as the shares are rounded down.
        request.0 = quantity::cores(shares.saturating_mul(1000).saturating_add(1023) / 1024);
    }
    if let Some(limits) = &mut all.limits {
        if let Some(limit) = limits.get_mut("cpu")
            && let (Some(quota), Some(period)) = (shown(seen.cpu_quota), shown(seen.cpu_period))
        {
            let in_force = quota.saturating_mul(1000) / period;
            if cpu::quota(milli(limit)) != quota {
                limit.0 = quantity::cores(in_force);
            }
        }
        if let Some(limit) = limits.get_mut("memory")
            && let Some(memory) = shown(seen.memory)
                .filter(|memory| quantity::value(&limit.0).is_ok_and(|wanted| wanted != *memory))
        {
            limit.0 = quantity::bytes(memory);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_differ_are_those_of_docker() {
        let read = |value| serde_json::from_value::<ResourceRequirements>(value).unwrap();
        let wanted = read(json!({
            "requests": {"cpu": "250m", "memory": "1Mi"}, "limits": {"cpu": "500m", "memory": "16Mi"},
        }));
        let seen = Resources {
            cpu_shares: Some(102),
            cpu_period: Some(100_000),
            cpu_quota: Some(20_000),
            memory: Some(128 << 20),
            memory_swap: None,
        };
        let expected = read(json!({
            "requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"},
        }));
        assert_eq!(resources(&wanted, seen), expected);
        let same = Resources {
            cpu_shares: Some(cpu::shares(250)),
            cpu_period: Some(100_000),
            cpu_quota: Some(50_000),
            memory: Some(16 << 20),
            memory_swap: None,
        };
        assert_eq!(resources(&wanted, same), wanted);
        let zero =
            Resources { cpu_shares: Some(0), cpu_period: Some(0), memory: Some(0), ..Resources::default() };
        for nothing in [Resources::default(), zero] {
            assert_eq!(resources(&wanted, nothing), wanted);
        }
    }
}
