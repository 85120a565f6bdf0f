//! The served resources: one table for discovery, paths and rights. Pure.

/// A resource of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    ConfigMaps,
    Events,
    Namespaces,
    Nodes,
    Claims,
    Pods,
    Secrets,
    Services,
    Leases,
    NodeMetrics,
    PodMetrics,
    SelfSubjectReviews,
    SelfSubjectAccessReviews,
    SelfSubjectRulesReviews,
}

/// A resource with its names and verbs.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    pub resource: Resource,
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
    pub short: &'static [&'static str],
    pub namespaced: bool,
    pub categories: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub parts: &'static [Part],
}

/// A subresource.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// Kind of the body; of the core group.
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

const READ: &[&str] = &["get", "list", "watch"];
/// Verbs of writable resources, in the order of a real API server.
const WRITE: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of namespaces, which are deleted one by one.
const WRITE_ONE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];

const fn core(resource: Resource, plural: &'static str, singular: &'static str, kind: &'static str) -> Kind {
    Kind {
        resource,
        group: "",
        version: "v1",
        plural,
        singular,
        kind,
        short: &[],
        namespaced: true,
        categories: &[],
        verbs: READ,
        parts: &[],
    }
}

const fn review(resource: Resource, group: &'static str, plural: &'static str, kind: &'static str) -> Kind {
    Kind { group, namespaced: false, verbs: CREATE, ..core(resource, plural, "", kind) }
}

/// Verbs of a subresource that can be changed.
const CHANGE: &[&str] = &["get", "patch", "update"];
const STREAM: &[&str] = &["create", "get"];

/// All resources, by group: the core group first, so that `pods` and `nodes` mean its resources.
pub static KINDS: &[Kind] = &[
    Kind {
        short: &["cm"],
        verbs: WRITE,
        ..core(Resource::ConfigMaps, "configmaps", "configmap", "ConfigMap")
    },
    Kind { short: &["ev"], ..core(Resource::Events, "events", "event", "Event") },
    Kind {
        short: &["ns"],
        verbs: WRITE_ONE,
        namespaced: false,
        ..core(Resource::Namespaces, "namespaces", "namespace", "Namespace")
    },
    Kind { short: &["no"], namespaced: false, ..core(Resource::Nodes, "nodes", "node", "Node") },
    Kind {
        short: &["pvc"],
        verbs: WRITE,
        ..core(Resource::Claims, "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim")
    },
    Kind {
        short: &["po"],
        verbs: WRITE,
        categories: &["all"],
        parts: &[
            Part { name: "attach", kind: "PodAttachOptions", verbs: STREAM },
            Part { name: "ephemeralcontainers", kind: "Pod", verbs: CHANGE },
            Part { name: "exec", kind: "PodExecOptions", verbs: STREAM },
            Part { name: "log", kind: "Pod", verbs: &["get"] },
            Part { name: "portforward", kind: "PodPortForwardOptions", verbs: STREAM },
            Part { name: "resize", kind: "Pod", verbs: CHANGE },
            Part { name: "status", kind: "Pod", verbs: &["get"] },
        ],
        ..core(Resource::Pods, "pods", "pod", "Pod")
    },
    Kind { verbs: WRITE, ..core(Resource::Secrets, "secrets", "secret", "Secret") },
    Kind {
        short: &["svc"],
        categories: &["all"],
        ..core(Resource::Services, "services", "service", "Service")
    },
    review(Resource::SelfSubjectReviews, "authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    review(
        Resource::SelfSubjectAccessReviews,
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ),
    review(
        Resource::SelfSubjectRulesReviews,
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    ),
    Kind { group: "coordination.k8s.io", ..core(Resource::Leases, "leases", "lease", "Lease") },
    Kind {
        group: "metrics.k8s.io",
        version: "v1beta1",
        namespaced: false,
        verbs: &["get", "list"],
        ..core(Resource::NodeMetrics, "nodes", "", "NodeMetrics")
    },
    Kind {
        group: "metrics.k8s.io",
        version: "v1beta1",
        verbs: &["get", "list"],
        ..core(Resource::PodMetrics, "pods", "", "PodMetrics")
    },
];

impl Kind {
    /// `v1`, `metrics.k8s.io/v1beta1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name in messages: `pods`, `leases.coordination.k8s.io`.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The subresource of this name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&'static Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Whether its objects are kept and can be listed.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.verbs.contains(&"list")
    }
}

/// The kind of a resource.
#[must_use]
pub fn of(resource: Resource) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.resource == resource)
}

/// The groups in order, each with its only version, without the core group.
pub fn groups() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut last = "";
    KINDS.iter().filter_map(move |kind| {
        let is_new = !kind.group.is_empty() && kind.group != last;
        last = kind.group;
        is_new.then_some((kind.group, kind.version))
    })
}

/// The resources of a group and version.
pub fn within<'a>(group: &'a str, version: &'a str) -> impl Iterator<Item = &'static Kind> + use<'a> {
    KINDS.iter().filter(move |kind| kind.group == group && kind.version == version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::table::Set;

    #[test]
    fn groups_stand_together_and_each_has_one_version() {
        let all: Vec<_> = groups().collect();
        let names: Set<_> = all.iter().map(|(group, _)| group).collect();
        assert_eq!(names.len(), all.len());
        for kind in KINDS {
            assert_eq!(of(kind.resource), Some(kind));
            assert!(kind.group.is_empty() || all.contains(&(kind.group, kind.version)));
        }
    }
}
