//! The sizes of a pod's containers as a text, which its sandbox keeps: when the sizes of a later edit have no room, the pod
//! can be made anew with those that it had, also after a boot. The kubelet keeps them in a file (`allocated_pods_state`).
//!
//! Never here: whether there is room.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use super::DesiredPod;
use crate::base::table::Table;

/// Amounts of cpu and memory of one container, as written.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sizes {
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    limits: Table<String, String>,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    requests: Table<String, String>,
}

const SIZED: [&str; 2] = ["cpu", "memory"];

/// Containers whose sizes can be changed: init containers that run to their end keep theirs.
fn sized(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    let sidecars = spec.init_containers.iter_mut().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter_mut().chain(sidecars)
}

fn of(resources: &ResourceRequirements) -> Sizes {
    let amounts = |all: &Option<std::collections::BTreeMap<String, Quantity>>| {
        let sized = all.iter().flatten().filter(|(resource, _)| SIZED.contains(&resource.as_str()));
        sized.map(|(resource, amount)| (resource.clone(), amount.0.clone())).collect()
    };
    Sizes { limits: amounts(&resources.limits), requests: amounts(&resources.requests) }
}

/// The sizes, as JSON by the containers' names.
#[must_use]
pub fn text(spec: &PodSpec) -> String {
    let mut spec = spec.clone();
    let all: Table<String, Sizes> = sized(&mut spec)
        .filter_map(|container| Some((container.name.clone(), of(container.resources.as_ref()?))))
        .filter(|(_, sizes)| *sizes != Sizes::default())
        .collect();
    serde_json::to_string(&all).unwrap_or_default()
}

/// The pod with the sizes of this text; `None` if the text is none, or the pod has these sizes.
#[must_use]
pub fn with(pod: &DesiredPod, text: &str) -> Option<DesiredPod> {
    let all: Table<String, Sizes> = serde_json::from_str(text).ok()?;
    let mut spec = PodSpec::clone(&pod.spec);
    for container in sized(&mut spec) {
        let wanted = all.get(&container.name).cloned().unwrap_or_default();
        let now = container.resources.get_or_insert_default();
        for (list, wanted) in [(&mut now.limits, wanted.limits), (&mut now.requests, wanted.requests)] {
            let mut amounts = list.take().unwrap_or_default();
            amounts.retain(|resource, _| !SIZED.contains(&resource.as_str()));
            amounts.extend(wanted.into_iter().map(|(resource, amount)| (resource, Quantity(amount))));
            *list = (!amounts.is_empty()).then_some(amounts);
        }
        if *now == ResourceRequirements::default() {
            container.resources = None;
        }
    }
    (spec != *pod.spec).then(|| DesiredPod { spec: spec.into(), ..pod.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::pod;

    #[test]
    fn a_pod_gets_back_the_sizes_that_it_had_and_nothing_else() {
        let of = |cpu: &str, memory: &str, image: &str| {
            let resources = serde_json::json!({"requests": {"cpu": cpu, "podkeeper.dev/x": "1"}, "limits": {"memory": memory}});
            pod(&serde_json::json!({
                "containers": [{"name": "app", "image": image, "resources": resources}, {"name": "b"}],
                "initContainers": [
                    {"name": "once", "resources": resources},
                    {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}},
                ],
            })
            .to_string())
        };
        let (before, after) = (of("100m", "1Gi", "a"), of("64", "2Ti", "b"));
        let text = text(&before.spec);
        assert_eq!(
            text,
            r#"{"app":{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m"}},"side":{"requests":{"cpu":"100m"}}}"#
        );
        let back = with(&after, &text).unwrap();
        let mut expected = PodSpec::clone(&of("100m", "1Gi", "b").spec);
        expected.init_containers.as_mut().unwrap()[0].resources =
            after.spec.init_containers.as_ref().unwrap()[0].resources.clone();
        assert_eq!(*back.spec, expected);
        assert_eq!(with(&back, &text), None);
        assert_eq!((with(&after, ""), with(&after, "[")), (None, None));
        let small = with(&after, "{}").unwrap();
        assert_eq!(self::text(&small.spec), "{}");
    }
}
