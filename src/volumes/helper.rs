//! The host's own programs for mounts that need more than the kernel: NFS. Each has a deadline.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::mounts;
use crate::limits;

/// Where helpers of `mount` are looked for, as `mount` itself does.
const HELPERS: [&str; 4] = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"];

/// Mounts an export.
///
/// # Errors
/// There is no helper, it failed, or it took too long.
pub(super) fn mount_nfs(server: &str, export: &str, read_only: bool, at: &Path) -> Result<(), String> {
    let helper = HELPERS.iter().map(|dir| PathBuf::from(dir).join("mount.nfs"));
    if !helper.into_iter().any(|path| path.exists()) {
        return Err(
            "this node cannot mount NFS: it has no mount.nfs (Debian's package nfs-common)".to_owned()
        );
    }
    let server = if server.contains(':') && !server.starts_with('[') {
        format!("[{server}]")
    } else {
        server.to_owned()
    };
    let mut command = Command::new("mount");
    command.args(["-t", "nfs"]);
    if read_only {
        command.args(["-o", "ro"]);
    }
    command.arg("--").arg(format!("{server}:{export}")).arg(at);
    run(command)
}

/// Unmounts an export; by force when its server does not answer.
///
/// # Errors
/// Both failed.
pub(super) fn unmount_nfs(at: &Path) -> Result<(), String> {
    let mut command = Command::new("umount");
    command.arg("--").arg(at);
    if run(command).is_ok() {
        return Ok(());
    }
    mounts::end_by_force(at).map_err(|error| error.to_string())
}

fn run(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let begun = Instant::now();
    let mut wait = limits::HELPER_LOOK;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} failed: {status}: {}", last_words(&mut child))),
            Ok(None) => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
        if begun.elapsed() > limits::HELPER {
            _ = child.kill();
            // One that the kernel does not let go is left to itself.
            thread::sleep(limits::HELPER_LOOK);
            _ = child.try_wait();
            return Err(format!("{name} did not end within {} s", limits::HELPER.as_secs()));
        }
        thread::sleep(wait);
        wait = wait.saturating_mul(2).min(limits::HELPER_LOOK_MAX);
    }
}

fn last_words(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        _ = stderr.take(limits::HELPER_WORDS).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
}
