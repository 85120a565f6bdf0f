//! A pod in the form for the checks, and the phrases of their messages.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EphemeralContainer, Lifecycle, PodSecurityContext, PodSpec, Probe,
    SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::base::order;

/// A container of any kind.
#[derive(Clone)]
pub(super) struct Each<'a> {
    /// Its path in the manifest: `spec.containers[0]`.
    pub(super) field: String,
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) security: Option<&'a SecurityContext>,
    pub(super) ports: &'a [ContainerPort],
    pub(super) mounts: &'a [VolumeMount],
    pub(super) probes: [Option<&'a Probe>; 3],
    pub(super) lifecycle: Option<&'a Lifecycle>,
}

impl<'a> Each<'a> {
    fn of(list: &str, at: usize, c: &'a Container) -> Each<'a> {
        Each {
            field: format!("spec.{list}[{at}]"),
            name: &c.name,
            image: c.image.as_deref().unwrap_or_default(),
            security: c.security_context.as_ref(),
            ports: c.ports.as_deref().unwrap_or_default(),
            mounts: c.volume_mounts.as_deref().unwrap_or_default(),
            probes: [c.liveness_probe.as_ref(), c.readiness_probe.as_ref(), c.startup_probe.as_ref()],
            lifecycle: c.lifecycle.as_ref(),
        }
    }

    fn added(at: usize, c: &'a EphemeralContainer) -> Each<'a> {
        Each {
            field: format!("spec.ephemeralContainers[{at}]"),
            name: &c.name,
            image: c.image.as_deref().unwrap_or_default(),
            security: c.security_context.as_ref(),
            ports: c.ports.as_deref().unwrap_or_default(),
            mounts: c.volume_mounts.as_deref().unwrap_or_default(),
            probes: [c.liveness_probe.as_ref(), c.readiness_probe.as_ref(), c.startup_probe.as_ref()],
            lifecycle: c.lifecycle.as_ref(),
        }
    }
}

/// A pod with all its containers in one list.
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a ObjectMeta,
    pub(super) spec: &'a PodSpec,
    /// Init, regular, ephemeral: upstream's order (`visitor.go`).
    pub(super) containers: Vec<Each<'a>>,
}

impl<'a> Pod<'a> {
    pub(super) fn new(metadata: &'a ObjectMeta, spec: &'a PodSpec) -> Pod<'a> {
        let init = spec.init_containers.iter().flatten().enumerate();
        let mut containers: Vec<Each<'a>> = init.map(|(at, c)| Each::of("initContainers", at, c)).collect();
        let regular = spec.containers.iter().enumerate();
        containers.extend(regular.map(|(at, c)| Each::of("containers", at, c)));
        let added = spec.ephemeral_containers.iter().flatten().enumerate();
        containers.extend(added.map(|(at, c)| Each::added(at, c)));
        Pod { metadata, spec, containers }
    }

    pub(super) fn security(&self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec.os.as_ref().is_some_and(|os| os.name == "windows")
    }

    /// The pod has its own user namespace: root in it has no privileges outside.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.host_users == Some(false)
    }

    /// Names of the containers for which `test` returns true.
    pub(super) fn names(&self, test: &dyn Fn(&Each<'a>) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|c| test(c)).map(|c| c.name).collect()
    }
}

/// Sorted in byte order, without duplicates, as Go prints sets.
pub(super) fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    order::sort(&mut items);
    items.dedup();
    items
}

/// `"a", "b"`, without escapes, as upstream.
pub(super) fn quoted(items: &[&str]) -> String {
    if items.is_empty() { String::new() } else { format!("\"{}\"", items.join("\", \"")) }
}

/// The singular or the plural, by `count`.
pub(super) fn plural(one: &'static str, more: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { more }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// The objects that set a bad value: `pod`, `container "a"`, `pod and containers "a", "b"`; `None`
/// without any.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

/// `key="value"` with the value as in Go's `%q`.
pub(super) fn pair(key: &str, value: &str) -> String {
    let mut text = format!("{key}=\"");
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{7}' => text.push_str("\\a"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{b}' => text.push_str("\\v"),
            // Rust escapes the characters that are not printable in either language.
            _ if c == '\'' || c.escape_debug().len() == 1 => text.push(c),
            _ if c.is_ascii() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ if u32::from(c) > 0xffff => text.push_str(&format!("\\U{:08x}", u32::from(c))),
            _ => text.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    text.push('"');
    text
}
