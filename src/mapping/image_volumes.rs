//! Volumes that an image declares. Docker makes one of each for every container, and copies into it what the image has at
//! its path, following links: a small image with many of them at one large file fills a disk before the container is there,
//! and no pod is charged with it.
//!
//! Never here: volumes of pods.

use std::fmt::Write as _;
use std::path::Path;

use crate::base::sha256;
use crate::layout;
use crate::runtime::{CreateBody, Mount};

/// Bytes of a path's digest in a volume's name.
const DIGEST: usize = 16;

/// Makes the volumes of the image of a source behind others begin empty, except where the pod mounts something. `mount`
/// makes the mount at a path of the container.
///
/// # Errors
/// A path is relative: Docker would take it for another volume.
pub fn begin_empty(
    body: &mut CreateBody,
    declared: &[String],
    mut mount: impl FnMut(String) -> Mount,
) -> Result<(), String> {
    for path in declared {
        let target = clean(path).ok_or_else(|| {
            format!("the image declares a volume at {path:?}, and podkeeper takes absolute paths for a source behind others")
        })?;
        let mounts = &mut body.host_config.mounts;
        if !mounts.iter().any(|mount| clean(&mount.target).as_ref() == Some(&target)) {
            mounts.push(mount(target));
        }
    }
    Ok(())
}

/// The mount of a directory of the pod, where files count as the pod's, and the directory's name.
#[must_use]
pub fn of_pod(root: &Path, uid: &str, container: &str, target: String) -> (Mount, String) {
    let mut name = format!("{container}~");
    for byte in sha256::hash(target.as_bytes()).iter().take(DIGEST) {
        // Writing to a text cannot fail.
        _ = write!(name, "{byte:02x}");
    }
    let path = layout::below(root, &layout::image_volume(uid, &name)).unwrap_or_default();
    (Mount::bind(path.to_string_lossy().into_owned(), target), name)
}

/// An absolute path without what Docker leaves out of it (Go's `path.Clean`).
fn clean(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_an_image_begin_empty_where_the_pod_mounts_nothing() {
        let mut body = CreateBody::default();
        body.host_config.mounts = vec![Mount::bind("/pods/data".into(), "/data/".into())];
        let declared = ["/data", "/var//lib/./x/../y", "/var/lib/y/"].map(str::to_owned);
        assert_eq!(begin_empty(&mut body, &declared, Mount::empty_volume), Ok(()));
        let made = serde_json::to_value(&body.host_config.mounts).unwrap();
        let expected = serde_json::json!([
            {"Type": "bind", "Source": "/pods/data", "Target": "/data/"},
            {"Type": "volume", "Target": "/var/lib/y", "VolumeOptions": {"NoCopy": true}},
        ]);
        assert_eq!(made, expected);
        let why = begin_empty(&mut body, &["data".to_owned()], Mount::empty_volume).unwrap_err();
        assert!(why.contains("a volume at \"data\""), "{why}");
    }

    #[test]
    fn each_path_of_a_container_has_a_directory_of_its_own() {
        let of = |container: &str, target: &str| of_pod(Path::new("/r"), "u", container, target.to_owned());
        let (mount, name) = of("app", "/data");
        assert_eq!(mount.source, format!("/r/pods/u/volumes/podkeeper.dev~image/{name}"));
        assert_eq!((mount.kind, mount.target.as_str(), name.len()), ("bind", "/data", 4 + 32));
        assert_eq!(of("app", "/data").1, name);
        assert!(of("app", "/data2").1 != name && of("app2", "/data").1 != name);
        let long = of("app", &"/x".repeat(2000));
        assert!(layout::is_one_name(&long.1));
    }
}
