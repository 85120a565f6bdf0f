//! Sysctls of pods: the syntax of their names, and the ones that a pod may set (upstream
//! `pkg/kubelet/sysctl`, `component-helpers/node/util/sysctl`). Pure.

use crate::pod::DesiredPod;

/// Longest name or pattern, bytes.
const NAME_BYTES: usize = 253;

/// The namespace of a sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

/// Sysctls that are safe on every node, from this kernel version on.
const SAFE: &[(&str, (u32, u32))] = &[
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];

/// The unsafe sysctls that pods may set, and the kernel version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Names, and patterns that end with `*`, in dotted form.
    unsafe_ones: Vec<String>,
    /// Major and minor version of the kernel.
    kernel: (u32, u32),
}

impl Allowed {
    /// The sysctls of this kernel release (`6.1.0-13-amd64`), with these unsafe names and patterns.
    #[must_use]
    pub fn new(unsafe_ones: Vec<String>, release: &str) -> Allowed {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        Allowed { unsafe_ones, kernel }
    }

    /// Checks that the pod may set all its sysctls.
    ///
    /// # Errors
    /// The kubelet's words about the first one it may not set.
    pub fn check(&self, pod: &DesiredPod) -> Result<(), String> {
        let sysctls = pod.spec.security_context.iter().flat_map(|c| c.sysctls.iter().flatten());
        for sysctl in sysctls {
            let name = dotted(&sysctl.name);
            if !self.is_allowed(&name) {
                return Err(format!("forbidden sysctl: {name:?} not allowlisted"));
            }
            let shared = Shared { ipc: pod.spec.host_ipc == Some(true), net: pod.host_network() };
            let host = match of_host(&sysctl.name, shared) {
                Some("hostIPC") => "IPC",
                Some(_) => "Net",
                None => continue,
            };
            return Err(format!("forbidden sysctl: {name:?} not allowed with host {host} enabled"));
        }
        Ok(())
    }

    fn is_allowed(&self, name: &str) -> bool {
        SAFE.iter().any(|(safe, since)| *safe == name && *since <= self.kernel)
            || self.unsafe_ones.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => pattern == name,
            })
    }
}

/// Parses a list of unsafe names and patterns, the syntax of `--allowed-unsafe-sysctls`.
///
/// # Errors
/// The kubelet's words about the first invalid one.
pub fn parse_patterns(list: &str) -> Result<Vec<String>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let name = dotted(word);
            let (stem, what, are) = match name.strip_suffix('*') {
                Some(prefix) => (prefix.trim_end_matches('.'), "sysctls", "are"),
                None => (name.as_str(), "sysctl", "is"),
            };
            if name.len() > NAME_BYTES || !is_name(stem) {
                return Err(format!(
                    "sysctl {word:?} must have at most {NAME_BYTES} characters and be a name like kernel.msgmax, \
                     or a pattern like kernel.shm* or net.*"
                ));
            }
            match namespace(&name) {
                Some(_) => Ok(name),
                None => Err(format!("the {what} {word:?} {are} not known to be namespaced")),
            }
        })
        .collect()
}

/// Whether the name consists of parts of lower-case letters, digits, `-` and `_`, joined by dots; each part
/// begins with a letter or digit.
fn is_name(name: &str) -> bool {
    name.split('.').all(|part| {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.bytes().all(|c| plain(c) || matches!(c, b'-' | b'_')) && part.bytes().next().is_some_and(plain)
    })
}

/// The name with dots: `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`. The first separator shows which
/// of the two forms it is.
#[must_use]
pub fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'/') => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Namespaces that a pod shares with the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    pub ipc: bool,
    pub net: bool,
}

/// The field of a pod that makes a sysctl the host's own.
#[must_use]
pub fn of_host(name: &str, shared: Shared) -> Option<&'static str> {
    match namespace(&dotted(name))? {
        Namespace::Ipc => shared.ipc.then_some("hostIPC"),
        Namespace::Net => shared.net.then_some("hostNetwork"),
    }
}

fn namespace(name: &str) -> Option<Namespace> {
    let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."];
    if name == "kernel.sem" || ipc.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(Namespace::Ipc);
    }
    name.starts_with("net.").then_some(Namespace::Net)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::pod;

    #[test]
    fn names_with_slashes() {
        for (name, expected) in [
            ("kernel.shmmax", "kernel.shmmax"),
            ("kernel/shmmax", "kernel.shmmax"),
            ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.forwarding"),
            ("net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.forwarding"),
            ("", ""),
        ] {
            assert_eq!(dotted(name), expected);
        }
    }

    #[test]
    fn patterns() {
        let check = |list: &str, expected: Result<&[&str], &str>| {
            let expected = expected.map(|all| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
            match (parse_patterns(list), expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{list}: {why}"),
                (got, expected) => assert_eq!(got, expected.map_err(str::to_owned), "{list}"),
            }
        };
        check("", Ok(&[]));
        check("kernel.shm*, net.core.somaxconn", Ok(&["kernel.shm*", "net.core.somaxconn"]));
        check("net/ipv4/route/min_pmtu", Ok(&["net.ipv4.route.min_pmtu"]));
        check("net.*", Ok(&["net.*"]));
        check("vm.swappiness", Err("the sysctl \"vm.swappiness\" is not known to be namespaced"));
        check("kernel.*", Err("the sysctls \"kernel.*\" are not known to be namespaced"));
        check("*", Err("must have at most 253"));
        check("Net.x", Err("must have at most 253"));
        check(&format!("net.{}", "a".repeat(250)), Err("must have at most 253"));
    }

    #[test]
    fn verdicts() {
        let check = |patterns: &str, release: &str, spec: &str, expected: Result<(), &str>| {
            let pod = pod(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#));
            let allowed = Allowed::new(parse_patterns(patterns).unwrap(), release);
            assert_eq!(allowed.check(&pod), expected.map_err(str::to_owned), "{spec}");
        };
        let with = |name: &str, more: &str| {
            format!(
                r#"{{"containers":[],"securityContext":{{"sysctls":[{{"name":"{name}","value":"1"}}]}}{more}}}"#
            )
        };
        check("", "6.1.0-13-amd64", r#"{"containers":[]}"#, Ok(()));
        check("", "6.1.0-13-amd64", &with("net.ipv4.tcp_syncookies", ""), Ok(()));
        check("", "6.1", &with("net/ipv4/tcp_rmem", ""), Ok(()));
        let old = Err("forbidden sysctl: \"net.ipv4.tcp_rmem\" not allowlisted");
        check("", "4.14.9", &with("net.ipv4.tcp_rmem", ""), old);
        check("", "4.15.0", &with("net.ipv4.tcp_rmem", ""), Ok(()));
        let no = Err("forbidden sysctl: \"kernel.msgmax\" not allowlisted");
        check("", "6.1", &with("kernel.msgmax", ""), no);
        check("kernel.msg*", "6.1", &with("kernel.msgmax", ""), Ok(()));
        check("kernel.msgmax", "6.1", &with("kernel.msgmax", ""), Ok(()));
        check("kernel.shm*", "6.1", &with("kernel.msgmax", ""), no);
        let host = Err("forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled");
        check("", "6.1", &with("net.ipv4.tcp_syncookies", r#","hostNetwork":true"#), host);
        let host = Err("forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled");
        check("", "6.1", &with("kernel.shm_rmid_forced", r#","hostIPC":true"#), host);
        check("", "6.1", &with("kernel.shm_rmid_forced", r#","hostNetwork":true"#), Ok(()));
    }
}
