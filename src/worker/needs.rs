//! Parts of a create that come from the node and not from Docker, made or read by the worker's thread just before
//! the create is sent: seccomp profiles, devices, the file of last words. If a part is missing, the worker answers in Docker's place and
//! sends nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open, openat};

use crate::base::limits;
use crate::mapping::needs::Needs;
use crate::runtime::{CreateBody, DockerError, Refusal};
use crate::termination::LogFile;
use crate::termination::files::Files;

/// Directory of seccomp profiles below the root directory.
const SECCOMP: &str = "seccomp";

/// Completes a create, or returns why it cannot be sent.
///
/// # Errors
/// A refusal like Docker's, in the kubelet's words if there are any.
pub fn complete(body: &mut CreateBody, needs: &Needs, root_dir: &Path) -> Result<(), DockerError> {
    for device in &body.host_config.devices {
        look_at_device(&device.path_on_host).map_err(Refusal::not_sent)?;
    }
    let Some(profile) = &needs.seccomp_profile else { return Ok(()) };
    match read_profile(root_dir, profile) {
        Ok(json) => body.host_config.security_opt.push(format!("seccomp={json}")),
        Err(why) => {
            let path = root_dir.join(SECCOMP).join(profile);
            let why = format!("seccomp: cannot load seccomp profile {path:?}: {why}");
            return Err(Refusal::not_sent(why));
        }
    }
    Ok(())
}

/// Makes the file of a container's last words. On a disk that is full or read-only there are none: the container runs
/// without the mount.
///
/// # Errors
/// The file cannot be made for another reason.
pub fn termination(
    body: &mut CreateBody,
    files: &Files,
    file: &LogFile,
    root_dir: &Path,
) -> Result<(), DockerError> {
    let Err(error) = files.make(file) else { return Ok(()) };
    let path = file.path(root_dir).unwrap_or_default();
    let why = format!("its termination-log file {} cannot be made: {error}", path.display());
    let (read_only, full) = (io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull);
    if ![read_only, full, io::ErrorKind::QuotaExceeded].contains(&error.kind()) {
        return Err(Refusal::not_sent(why));
    }
    log::warn!("container {} of pod {} has no termination message: {why}", file.container, file.uid);
    body.host_config.mounts.retain(|mount| Path::new(&mount.source) != path);
    Ok(())
}

/// Checks a device now: Docker would notice only at the start, and the container would then count as one that ran.
fn look_at_device(path: &str) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(meta) if meta.file_type().is_char_device() || meta.file_type().is_block_device() => Ok(()),
        Ok(_) => Err(format!("device {path} is no device")),
        Err(error) => Err(format!("device {path} is not there: {error}")),
    }
}

/// The profile as compact JSON. The path leads neither up nor through links, so it cannot leave the
/// directory.
fn read_profile(root_dir: &Path, profile: &str) -> io::Result<String> {
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at: OwnedFd = open(root_dir.join(SECCOMP), directory, Mode::empty())?;
    let mut parts = Path::new(profile).components().filter(|c| !matches!(c, Component::CurDir)).peekable();
    let last = loop {
        let Some(Component::Normal(part)) = parts.next() else {
            return Err(io::Error::other("its path must be relative, and must not lead up"));
        };
        if parts.peek().is_none() {
            break part;
        }
        at = openat(&at, part, directory | OFlags::NOFOLLOW, Mode::empty())?;
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&at, last, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if meta.len() > limits::SECCOMP_PROFILE {
        return Err(io::Error::other(format!("it is larger than {} bytes", limits::SECCOMP_PROFILE)));
    }
    let mut bytes = Vec::new();
    file.take(limits::SECCOMP_PROFILE).read_to_end(&mut bytes)?;
    let json: serde_json::Value = serde_json::from_slice(&bytes)?;
    Ok(json.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::devices::Device;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir =
            crate::base::testing::temporary().join(format!("podkeeper-needs-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("seccomp/profiles")).unwrap();
        dir
    }

    #[test]
    fn profiles() {
        let root = scratch("profiles");
        std::fs::write(root.join("seccomp/a.json"), "{\n \"defaultAction\": \"SCMP_ACT_ALLOW\"\n}\n")
            .unwrap();
        std::fs::copy(root.join("seccomp/a.json"), root.join("seccomp/profiles/b.json")).unwrap();
        std::fs::copy(root.join("seccomp/a.json"), root.join("outside.json")).unwrap();
        std::fs::write(root.join("seccomp/torn.json"), "{").unwrap();
        std::os::unix::fs::symlink("../outside.json", root.join("seccomp/link.json")).unwrap();
        std::os::unix::fs::symlink("..", root.join("seccomp/up")).unwrap();
        let check = |profile: &str, expected: Result<&str, &str>| {
            let needs = Needs { seccomp_profile: Some(profile.to_owned()), ..Needs::default() };
            let mut body = CreateBody::default();
            match (complete(&mut body, &needs, &root), expected) {
                (Ok(()), Ok(json)) => assert_eq!(body.host_config.security_opt, [format!("seccomp={json}")]),
                (Err(error), Err(part)) => {
                    let text = error.to_string();
                    assert!(text.starts_with("seccomp: cannot load seccomp profile"), "{text}");
                    assert!(text.contains(part), "{text}");
                }
                (got, _) => panic!("{profile}: {got:?}"),
            }
        };
        let json = r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#;
        check("a.json", Ok(json));
        check("./profiles/b.json", Ok(json));
        check("missing.json", Err("No such file"));
        check("torn.json", Err("EOF"));
        check("../outside.json", Err("must not lead up"));
        check("profiles/../../outside.json", Err("must not lead up"));
        check("/etc/passwd", Err("must be relative"));
        check("", Err("must be relative"));
        check("link.json", Err("symbolic links"));
        check("up/outside.json", Err("Not a directory"));
        check("profiles", Err("no regular file"));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn devices() {
        let check = |path: &str, expected: Option<&str>| {
            let mut body = CreateBody::default();
            body.host_config.devices.push(Device {
                path_on_host: path.to_owned(),
                path_in_container: path.to_owned(),
                cgroup_permissions: "rwm".to_owned(),
            });
            let got =
                complete(&mut body, &Needs::default(), Path::new("/")).map_err(|error| error.to_string());
            match expected {
                None => assert_eq!(got, Ok(())),
                Some(part) => assert!(got.as_ref().is_err_and(|why| why.contains(part)), "{got:?}"),
            }
        };
        check("/dev/null", None);
        check("/dev/pts", None);
        check("/dev/podkeeper-none", Some("device /dev/podkeeper-none is not there"));
        check("/etc/passwd", Some("device /etc/passwd is no device"));
    }
}
