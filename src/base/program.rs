//! Programs of the host, for tasks that only they can do: each runs to its end, with a deadline and bounded
//! output.
//!
//! Never here: a shell, or text of a manifest that a program could take for an option.

pub mod heap;
pub mod pages;

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::limits;

/// The variables by which systemd tells a service how to notify it (`sd_notify(3)`, `sd_watchdog_enabled(3)`).
pub const NOTIFY: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Runs the program without input; its standard output is discarded.
///
/// # Errors
/// The program cannot be run, it failed (with its standard error), or it did not end in time.
pub fn run(mut command: Command, within: Duration) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).env("LC_ALL", "C");
    // Only podkeeper itself may notify systemd.
    for name in NOTIFY {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let begun = Instant::now();
    let mut wait = limits::HELPER_LOOK;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(format!("{name} failed: {status}: {}", stderr_so_far(&mut child)));
            }
            Ok(None) => {}
            Err(error) => return Err(format!("{name}: {error}")),
        }
        if begun.elapsed() > within {
            _ = child.kill();
            // A process that the kernel cannot end is not waited for.
            thread::sleep(limits::HELPER_LOOK);
            _ = child.try_wait();
            return Err(format!("{name} did not end within {} s", within.as_secs()));
        }
        thread::sleep(wait);
        wait = wait.saturating_mul(2).min(limits::HELPER_LOOK_MAX);
    }
}

/// The available part of the program's standard error, without waiting: a process that it left running
/// (`mount.nfs` starts `rpc.statd`) may hold the other end open for ever.
fn stderr_so_far(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = child.stderr.take()
        && rustix::io::ioctl_fionbio(&stderr, true).is_ok()
    {
        // The read ends with the error that no more is available; the bytes before it are kept.
        _ = stderr.take(limits::HELPER_WORDS).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Result<(), String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, PATIENCE)
    }

    #[test]
    fn what_a_program_left_running_holds_nobody_up() {
        let begun = Instant::now();
        let why = shell("sleep 30 & echo $! >&2; exit 1").unwrap_err();
        assert!(begun.elapsed() < PATIENCE);
        let pid = why.strip_prefix("sh failed: exit status: 1: ").unwrap();
        shell(&format!("kill {pid}")).unwrap();
    }
}
