//! Identities that stay the same across versions of podkeeper: container hashes and the UIDs of static pods.
//!
//! Changing one byte of the hashed text restarts every container of every node on upgrade
//! (kubernetes/kubernetes#63814), so the serializations are documented, versioned, and pinned by golden
//! files. A value that a default or a new field could change must not be part of it. Never `std::hash`: its
//! output is not stable across releases.

use crate::pod::qos::Qos;

/// Container hash, serialisation version 1: FNV-1a 32 over the bytes `<name> 0x00 <image>`.
///
/// Exactly name and image from the manifest (upstream `pkg/kubelet/container/helpers.go` hashes the same
/// two); neither can hold a NUL, so no two pairs share a serialisation.
#[must_use]
pub fn container_hash(name: &str, image: &str) -> u32 {
    let bytes = name.bytes().chain([0]).chain(image.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a 128 over the concatenated parts: 32 lower-case hex digits.
#[must_use]
pub fn fnv1a_128_hex(parts: &[&str]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

/// UID of a static pod whose manifest gives none (upstream `pkg/kubelet/config/common.go`, which hashes
/// another text and so gives other UIDs), serialisation version 1: FNV-1a 128 over the pod as written
/// (canonical JSON, without podkeeper's defaults), then `host:<node>` when a node is given (file sources
/// only), then `place`: `file:<path>` or `url:<url>`.
#[must_use]
pub fn pod_uid(canonical_json: &str, node: Option<&str>, place: &str) -> String {
    match node {
        Some(node) => fnv1a_128_hex(&[canonical_json, "host:", node, place]),
        None => fnv1a_128_hex(&[canonical_json, place]),
    }
}

/// Hash of a pod that does not change when containers are resized, serialization version 1: FNV-1a 128 over
/// the pod as written, without the cpu and memory sizes of its containers, then `qos:` and its class. A limit
/// that is added or removed changes the shape, and so does another class: Docker cannot remove a limit, and
/// the kubelet refuses a change of class.
#[must_use]
pub fn shape(canonical_without_sizes: &str, qos: Qos) -> String {
    fnv1a_128_hex(&[canonical_without_sizes, "qos:", qos.as_str()])
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    /// Compares with a golden file; `UPDATE=1` rewrites it.
    fn golden(name: &str, actual: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/docker").join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, actual).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(expected, actual, "{name} differs: an upgrade would restart what runs");
    }

    #[test]
    fn published_vectors() {
        // http://www.isthe.com/chongo/tech/comp/fnv: FNV-1a 128.
        assert_eq!(fnv1a_128_hex(&[]), "6c62272e07bb014262b821756295c58d");
        assert_eq!(fnv1a_128_hex(&["a"]), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(fnv1a_128_hex(&["foo", "", "bar"]), "343e1662793c64bf6f0d3597ba446f18");
        // FNV-1a 32 of the single byte NUL.
        assert_eq!(container_hash("", ""), 0x050c_5d1f);
    }

    #[test]
    fn k63814_container_hashes_stay() {
        let images = [
            "busybox",
            "busybox:static",
            "busybox:1.36",
            "docker.io/library/busybox:latest",
            "registry.example:5000/team/app:v1.2.3-rc.1",
            "quay.io/x/y@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ];
        let mut text = String::new();
        for name in ["main", "a", "web-server", "init-db", "0", &"n".repeat(63)] {
            for image in images {
                let _ = writeln!(text, "{:08x} {name} {image}", container_hash(name, image));
            }
        }
        golden("hashes.txt", &text);
        let mut seen: Vec<&str> = text.lines().filter_map(|line| line.get(..8)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 36, "two of these hash alike");
    }

    #[test]
    fn k63814_pod_uids_stay() {
        let pods = [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[]}}"#,
            r#"{"kind":"Pod","metadata":{"name":"ü"}}"#,
            "",
        ];
        let places = [
            (Some("node1"), "file:/etc/pods/web.yaml"),
            (Some("node2"), "file:/etc/pods/web.yaml"),
            (Some("node1"), "file:/etc/pods/web2.yaml"),
            (None, "url:https://example.com/pods"),
        ];
        let mut text = String::new();
        for pod in pods {
            for (node, place) in places {
                let _ = writeln!(text, "{} {node:?} {place} {pod}", pod_uid(pod, node, place));
            }
        }
        golden("uids.txt", &text);
    }
}
