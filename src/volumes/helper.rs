//! The host's own programs for mounts that the kernel alone cannot do: NFS.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::mounts;
use crate::base::limits;
use crate::base::program::run;

/// Directories of `mount`'s helpers, in the order that `mount` uses.
const HELPERS: [&str; 4] = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];

/// Mounts an export.
///
/// # Errors
/// There is no helper, it failed, or it took too long.
pub(super) fn mount_nfs(
    server: &str,
    export: &str,
    read_only: bool,
    options: &[String],
    at: &Path,
) -> Result<(), String> {
    let helper = HELPERS.iter().map(|dir| PathBuf::from(dir).join("mount.nfs"));
    if !helper.into_iter().any(|path| path.exists()) {
        return Err(
            "this node cannot mount NFS: it has no mount.nfs (Debian's package nfs-common)".to_owned()
        );
    }
    let mut command = Command::new("mount");
    command.args(nfs_arguments(server, export, read_only, options)).arg(at);
    run(command, limits::HELPER)
}

/// Arguments of `mount`, except the mount point.
pub(crate) fn nfs_arguments(server: &str, export: &str, read_only: bool, options: &[String]) -> Vec<String> {
    let is_v6 = server.contains(':') && !server.starts_with('[');
    let server = if is_v6 { format!("[{server}]") } else { server.to_owned() };
    let options = read_only.then_some("ro").into_iter().chain(options.iter().map(String::as_str));
    let options = options.collect::<Vec<_>>().join(",");
    let options: &[&str] = if options.is_empty() { &[] } else { &["-o", &options] };
    let words = ["-t", "nfs"].iter().chain(options).chain(&["--"]).map(|word| (*word).to_owned());
    words.chain([format!("{server}:{export}")]).collect()
}

/// Unmounts an export; by force when its server does not answer.
///
/// # Errors
/// Both attempts failed.
pub(super) fn unmount_nfs(at: &Path) -> Result<(), String> {
    let mut command = Command::new("umount");
    command.arg("--").arg(at);
    if run(command, limits::HELPER).is_ok() {
        return Ok(());
    }
    mounts::end_by_force(at).map_err(|error| error.to_string())
}
