//! Docker names of our containers (cri-dockerd `core/naming.go`):
//! `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`, `POD` for the sandbox, and one more part `_<8 hex>`
//! after a name conflict. Pure.
//!
//! The name contains the attempt, so that Docker itself refuses to create the same attempt twice.

use crate::pod::PodKey;
use crate::runtime::labels;

/// The parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// Container name; `POD` for a sandbox.
    pub container: &'a str,
    /// Pod name.
    pub pod: &'a str,
    /// Pod namespace.
    pub namespace: &'a str,
    /// Pod UID.
    pub uid: &'a str,
    /// Sandbox attempt or restart count.
    pub attempt: u32,
    /// The random part that was added after a name conflict.
    pub suffix: Option<u32>,
}

/// The Docker name of a container.
#[must_use]
pub fn container(key: &PodKey, uid: &str, container: &str, attempt: u32) -> String {
    format!("k8s_{container}_{}_{}_{uid}_{attempt}", key.name, key.namespace)
}

/// The Docker name of a sandbox.
#[must_use]
pub fn sandbox(key: &PodKey, uid: &str, attempt: u32) -> String {
    container(key, uid, labels::SANDBOX_NAME, attempt)
}

/// The name to use when a container that Docker can neither show nor remove holds `name`
/// (kubernetes/kubernetes#40443).
#[must_use]
pub fn with_suffix(name: &str, random: u32) -> String {
    format!("{name}_{random:08x}")
}

/// Suffix of a sandbox's name after its pod exceeded activeDeadlineSeconds: labels of an existing container
/// cannot change, while a name can and survives all restarts.
pub const DEADLINE: u32 = 0xdead_11fe;

/// Name of the sandbox of a pod that has exceeded its activeDeadlineSeconds.
#[must_use]
pub fn past_deadline(key: &PodKey, uid: &str, attempt: u32) -> String {
    with_suffix(&sandbox(key, uid, attempt), DEADLINE)
}

/// Suffix of the name of a sandbox that has to be replaced on request, without any other change.
pub const RESTART: u32 = 0xa6a1_0001;

/// Name of a sandbox that has to be stopped with its containers and replaced. The name lasts until then, even if the
/// daemon ends meanwhile.
#[must_use]
pub fn to_restart(key: &PodKey, uid: &str, attempt: u32) -> String {
    with_suffix(&sandbox(key, uid, attempt), RESTART)
}

/// Parses a name without the leading slash. Strict: `None` for any name that [`container`], [`sandbox`] and
/// [`with_suffix`] could not have made.
#[must_use]
pub fn parse(name: &str) -> Option<Name<'_>> {
    let mut parts = name.split('_');
    if parts.next() != Some("k8s") {
        return None;
    }
    let mut text = || parts.next().filter(|part| !part.is_empty());
    let (container, pod, namespace, uid) = (text()?, text()?, text()?, text()?);
    let attempt = text()?;
    let canonical =
        attempt.bytes().all(|b| b.is_ascii_digit()) && (attempt == "0" || !attempt.starts_with('0'));
    let attempt = attempt.parse().ok().filter(|_| canonical)?;
    let suffix = match parts.next() {
        None => None,
        Some(part) => Some(parse_suffix(part)?),
    };
    if parts.next().is_some() {
        return None;
    }
    Some(Name { container, pod, namespace, uid, attempt, suffix })
}

fn parse_suffix(part: &str) -> Option<u32> {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let canonical = part.len() == 8 && part.bytes().all(hex);
    u32::from_str_radix(part, 16).ok().filter(|_| canonical)
}

/// Prefix of a Docker container's id in the Kubernetes API.
const ID: &str = "docker://";

/// `ID` -> `docker://ID`, as in statuses.
#[must_use]
pub fn container_id(id: &str) -> String {
    format!("{ID}{id}")
}

/// `docker://ID` -> `ID`; `None` for other ids.
#[must_use]
pub fn docker_id(container_id: &str) -> Option<&str> {
    container_id.strip_prefix(ID).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> PodKey {
        PodKey { namespace: "default".into(), name: "web-node1".into() }
    }

    #[test]
    fn formats() {
        assert_eq!(sandbox(&key(), "0123abcd", 0), "k8s_POD_web-node1_default_0123abcd_0");
        assert_eq!(container(&key(), "u-1", "main", 17), "k8s_main_web-node1_default_u-1_17");
        assert_eq!(
            with_suffix("k8s_main_web-node1_default_u-1_17", 0xbeef),
            "k8s_main_web-node1_default_u-1_17_0000beef"
        );
    }

    #[test]
    fn a_deadline_that_passed_is_a_suffix() {
        let name = past_deadline(&key(), "u-1", 3);
        assert_eq!(name, "k8s_POD_web-node1_default_u-1_3_dead11fe");
        let parsed = parse(&name).unwrap();
        assert_eq!((parsed.attempt, parsed.suffix), (3, Some(DEADLINE)));
    }

    #[test]
    fn a_restart_that_is_asked_for_is_a_suffix() {
        let name = to_restart(&key(), "u-1", 3);
        assert_eq!(name, "k8s_POD_web-node1_default_u-1_3_a6a10001");
        assert_eq!(parse(&name).map(|n| (n.attempt, n.suffix)), Some((3, Some(RESTART))));
    }

    #[test]
    fn parses_strictly() {
        let good = Name {
            container: "main",
            pod: "web-node1",
            namespace: "default",
            uid: "u",
            attempt: 3,
            suffix: None,
        };
        assert_eq!(parse("k8s_main_web-node1_default_u_3"), Some(good));
        assert_eq!(
            parse("k8s_main_web-node1_default_u_3_00c0ffee"),
            Some(Name { suffix: Some(0xc0_ffee), ..good })
        );
        assert_eq!(parse("k8s_a_b_c_d_4294967295").map(|n| n.attempt), Some(u32::MAX));
        for bad in [
            "",
            "k8s",
            "web",
            "/k8s_a_b_c_d_0",
            "k8s_a_b_c_d",
            "k8s_a_b_c_d_",
            "k8s_a_b_c_d_x",
            "k8s_a_b_c_d_-1",
            "k8s_a_b_c_d_+1",
            "k8s_a_b_c_d_01",
            "k8s_a_b_c_d_4294967296",
            "k8s_a__c_d_0",
            "k8s_a_b_c__0",
            "k8s__b_c_d_0",
            "k9s_a_b_c_d_0",
            "K8s_a_b_c_d_0",
            "k8s_a_b_c_d_0_",
            "k8s_a_b_c_d_0_1234567",
            "k8s_a_b_c_d_0_123456789",
            "k8s_a_b_c_d_0_1234567G",
            "k8s_a_b_c_d_0_ABCDEF01",
            "k8s_a_b_c_d_0_+1234567",
            "k8s_a_b_c_d_0_12345678_",
            "k8s_a_b_c_d_0_12345678_9",
            // A container of Kubernetes 1.0: its last part is not an attempt.
            "k8s_POD.e4cc795_web-node1_default_u_8f20aab1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            (c, pod, namespace) in ("[a-z0-9.-]{1,20}", "[a-z0-9.-]{1,40}", "[a-z0-9-]{1,20}"),
            uid in "[0-9a-f-]{1,36}",
            attempt: u32,
            suffix: Option<u32>,
        ) {
            let key = PodKey { namespace, name: pod };
            let mut name = container(&key, &uid, &c, attempt);
            if let Some(random) = suffix {
                name = with_suffix(&name, random);
            }
            let expected =
                Name { container: &c, pod: &key.name, namespace: &key.namespace, uid: &uid, attempt, suffix };
            prop_assert_eq!(parse(&name), Some(expected));
        }
        #[test]
        fn never_panics(name in ".{0,60}|k8s(_[a-z0-9é+]{0,9}){0,8}") {
            if let Some(n) = parse(&name) {
                let key = PodKey { namespace: n.namespace.into(), name: n.pod.into() };
                let again = container(&key, n.uid, n.container, n.attempt);
                let again = n.suffix.map_or(again.clone(), |s| with_suffix(&again, s));
                prop_assert_eq!(again, name);
            }
        }
    }
}
