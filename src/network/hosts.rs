//! The text of a pod's `/etc/hosts` (upstream `pkg/kubelet/kubelet_pods.go`,
//! `managedHostsFileContent`, `nodeHostsFileContent`, `hostsEntriesFromHostAliases`). Pure.

use k8s_openapi::api::core::v1::{Container, HostAlias};

use crate::layout;
use crate::pod::DesiredPod;

/// Path of the file in a container.
pub const TARGET: &str = "/etc/hosts";

const MANAGED: &str = "# Kubernetes-managed hosts file.\n\
    127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// Header before the node's own file.
pub const OF_NODE: &str = "# Kubernetes-managed hosts file (host network).\n";

/// A pod's hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsFile {
    /// UID of the pod.
    pub uid: String,
    /// Whether [`OF_NODE`] and the node's own file come before the text.
    pub of_node: bool,
    /// Content of the file.
    pub text: String,
}

/// The file of a pod with these addresses; before its sandbox runs there are none. `name` and `domain`: from
/// [`crate::mapping::network::host_and_domain`].
#[must_use]
pub fn file(pod: &DesiredPod, ips: &[String], name: &str, domain: &str) -> HostsFile {
    let of_node = pod.host_network();
    let mut text = String::new();
    if !of_node {
        text.push_str(MANAGED);
        for ip in ips {
            match domain {
                "" => text.push_str(&format!("{ip}\t{name}\n")),
                _ => text.push_str(&format!("{ip}\t{name}.{domain}\t{name}\n")),
            }
        }
    }
    aliases(pod.spec.host_aliases.as_deref().unwrap_or_default(), &mut text);
    HostsFile { uid: pod.uid.clone(), of_node, text }
}

fn aliases(aliases: &[HostAlias], text: &mut String) {
    if aliases.is_empty() {
        return;
    }
    text.push_str("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        text.push_str(&format!("{}\t{names}\n", alias.ip));
    }
}

/// Whether the container gets the managed file: only if it does not mount its own file there.
#[must_use]
pub fn is_managed(container: &Container) -> bool {
    !container.volume_mounts.iter().flatten().any(|mount| layout::target(&mount.mount_path) == TARGET)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::VolumeMount;

    use super::*;
    use crate::plan::testing::pod;

    fn check(spec: &str, ips: &[&str], domain: &str, expected: &str) {
        let ips: Vec<String> = ips.iter().map(|ip| (*ip).to_owned()).collect();
        assert_eq!(file(&pod(spec), &ips, "web", domain).text, expected, "{spec}");
    }

    #[test]
    fn a_mount_of_ones_own_is_found_however_its_path_is_written() {
        let container = |path: &str| Container {
            volume_mounts: Some(vec![VolumeMount { mount_path: path.to_owned(), ..VolumeMount::default() }]),
            ..Container::default()
        };
        for path in
            ["/etc/hosts", "/etc/hosts/", "/etc//hosts", "//etc/./hosts", "/etc/x/../hosts", "etc/hosts"]
        {
            assert!(!is_managed(&container(path)), "{path}");
        }
        assert!(is_managed(&container("/etc/hosts.d")));
    }

    #[test]
    fn as_the_kubelet_writes_it() {
        let none = "{containers: [{name: c}]}";
        check(none, &[], "", MANAGED);
        check(none, &["10.0.0.2"], "", &format!("{MANAGED}10.0.0.2\tweb\n"));
        check(
            none,
            &["10.0.0.2", "fd00::2"],
            "s.default.svc.x",
            &format!("{MANAGED}10.0.0.2\tweb.s.default.svc.x\tweb\nfd00::2\tweb.s.default.svc.x\tweb\n"),
        );
        let aliases = "hostAliases: [{ip: 127.0.0.1, hostnames: [a, b.c]}, {ip: '::5', hostnames: [d]}]";
        let block = "\n# Entries added by HostAliases.\n127.0.0.1\ta\tb.c\n::5\td\n";
        check(
            &format!("{{containers: [{{name: c}}], {aliases}}}"),
            &["10.0.0.2"],
            "",
            &format!("{MANAGED}10.0.0.2\tweb\n{block}"),
        );
        check(&format!("{{containers: [{{name: c}}], hostNetwork: true, {aliases}}}"), &[], "", block);
        assert!(file(&pod("{containers: [{name: c}], hostNetwork: true}"), &[], "web", "").of_node);
    }

    #[test]
    fn a_container_may_bring_its_own() {
        let of = |mounts: &str| {
            is_managed(
                &pod(&format!("{{containers: [{{name: c, volumeMounts: [{mounts}]}}]}}")).spec.containers[0],
            )
        };
        assert!(of(""));
        assert!(of("{name: v, mountPath: /etc}"));
        assert!(!of("{name: v, mountPath: /etc}, {name: v, mountPath: /etc/hosts}"));
    }
}
