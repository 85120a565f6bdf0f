//! Volumes that an image declares. Docker makes one of each for every container, and copies into it what the image has at
//! its path, following links: a small image with many of them at one large file fills a disk before the container is there,
//! and no pod is charged with it.
//!
//! Never here: volumes of pods.

use crate::runtime::{CreateBody, Mount};

/// Makes the volumes of the image of a source behind others begin empty, except where the pod mounts something.
///
/// # Errors
/// A path is relative: Docker would take it for another volume.
pub fn begin_empty(body: &mut CreateBody, declared: &[String]) -> Result<(), String> {
    for path in declared {
        let target = clean(path).ok_or_else(|| {
            format!("the image declares a volume at {path:?}, and podkeeper takes absolute paths for a source behind others")
        })?;
        let mounts = &mut body.host_config.mounts;
        if !mounts.iter().any(|mount| clean(&mount.target).as_ref() == Some(&target)) {
            mounts.push(Mount::empty_volume(target));
        }
    }
    Ok(())
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
        assert_eq!(begin_empty(&mut body, &declared), Ok(()));
        let made = serde_json::to_value(&body.host_config.mounts).unwrap();
        let expected = serde_json::json!([
            {"Type": "bind", "Source": "/pods/data", "Target": "/data/"},
            {"Type": "volume", "Target": "/var/lib/y", "VolumeOptions": {"NoCopy": true}},
        ]);
        assert_eq!(made, expected);
        let why = begin_empty(&mut body, &["data".to_owned()]).unwrap_err();
        assert!(why.contains("a volume at \"data\""), "{why}");
    }
}
