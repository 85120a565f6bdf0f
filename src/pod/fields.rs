//! The fields of a pod for field selectors, as in the API server
//! (`pkg/registry/core/pod/strategy.go`, `ToSelectableFields`). Pure.

use k8s_openapi::api::core::v1::Pod;

/// The names of these fields.
pub const NAMES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

/// The value of one of [`NAMES`]; empty when it is not set, or for another name.
#[must_use]
pub fn value<'a>(pod: &'a Pod, name: &str) -> &'a str {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let text = match name {
        "metadata.name" => pod.metadata.name.as_ref(),
        "metadata.namespace" => pod.metadata.namespace.as_ref(),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.as_ref()),
        "spec.restartPolicy" => spec.and_then(|spec| spec.restart_policy.as_ref()),
        "spec.schedulerName" => spec.and_then(|spec| spec.scheduler_name.as_ref()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.as_ref()),
        "spec.hostNetwork" => {
            return if spec.and_then(|spec| spec.host_network) == Some(true) { "true" } else { "false" };
        }
        "status.phase" => status.and_then(|status| status.phase.as_ref()),
        "status.podIP" => status.and_then(|status| status.pod_ip.as_ref()),
        "status.nominatedNodeName" => status.and_then(|status| status.nominated_node_name.as_ref()),
        _ => None,
    };
    text.map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_field_has_its_value() {
        let pod = json!({
            "metadata": {"name": "metadata.name", "namespace": "metadata.namespace"},
            "spec": {"nodeName": "spec.nodeName", "restartPolicy": "spec.restartPolicy", "containers": [],
                     "schedulerName": "spec.schedulerName", "serviceAccountName": "spec.serviceAccountName",
                     "hostNetwork": true},
            "status": {"phase": "status.phase", "podIP": "status.podIP",
                       "nominatedNodeName": "status.nominatedNodeName"},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        for name in NAMES {
            let expected = if *name == "spec.hostNetwork" { "true" } else { name };
            assert_eq!(value(&pod, name), expected);
            assert_eq!(value(&Pod::default(), name), if expected == "true" { "false" } else { "" });
        }
        assert_eq!(value(&pod, "spec.hostname"), "");
    }
}
