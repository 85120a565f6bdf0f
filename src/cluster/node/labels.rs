//! Labels that a node may set itself at an API server. Pure.

use std::collections::BTreeMap;

/// Labels of Kubernetes' own namespaces that a node may set itself (kubernetes/kubernetes
/// `staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`).
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Namespaces of which a node may set all labels itself.
const OWN_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The objection to labels that a node may not set itself, in the kubelet's words (`cmd/kubelet/app/options/options.go`,
/// `ValidateKubeletFlags`): the API server would not take the node.
#[must_use]
pub fn refused(labels: &BTreeMap<String, String>) -> Option<String> {
    let is_in = |namespace: &str, domain: &str| {
        namespace.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    let is_refused = |key: &&str| {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        ["kubernetes.io", "k8s.io"].iter().any(|domain| is_in(namespace, domain))
            && !OWN_LABELS.contains(key)
            && !OWN_NAMESPACES.iter().any(|domain| is_in(namespace, domain))
    };
    let refused: Vec<&str> = labels.keys().map(String::as_str).filter(is_refused).collect();
    (!refused.is_empty()).then(|| {
        format!(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{}]; --node-labels in the \
             'kubernetes.io' namespace must begin with an allowed prefix ({}) or be in the specifically allowed set ({})",
            refused.join(" "),
            OWN_NAMESPACES.join(", "),
            OWN_LABELS.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server refused the node, and its operator was not told.
    #[test]
    fn labels_that_a_node_may_not_set_itself() {
        let objection =
            |keys: &[&str]| refused(&keys.iter().map(|key| ((*key).to_owned(), String::new())).collect());
        let told = objection(&["node-role.kubernetes.io/edge", "a.k8s.io/b", "x"]).unwrap();
        let start = "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [a.k8s.io/b \
                     node-role.kubernetes.io/edge]; ";
        assert!(told.starts_with(start), "{told}");
        assert!(told.contains("(kubelet.kubernetes.io, node.kubernetes.io)"), "{told}");
        assert!(told.contains("topology.kubernetes.io/zone)"), "{told}");
        for bad in
            ["kubernetes.io/x", "k8s.io/x", "node-restriction.kubernetes.io/x", "xnode.kubernetes.io/y"]
        {
            assert!(objection(&[bad]).is_some(), "{bad}");
        }
        let good = ["site", "example.com/a", "notkubernetes.io/x", "topology.kubernetes.io/zone"];
        let own = [
            "kubernetes.io/hostname",
            "node.kubernetes.io/x",
            "my.node.kubernetes.io/x",
            "kubelet.kubernetes.io/y",
        ];
        assert_eq!(objection(&[good.as_slice(), &own].concat()), None);
    }
}
