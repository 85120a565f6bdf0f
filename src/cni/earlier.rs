//! Plugins that an earlier daemon started and that still run: they survive when it is killed.
//!
//! Never here: killing a process whose environment does not show that it attaches this sandbox.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::base::{limits, regular};

/// Kills all processes that still attach this sandbox: a plugin that ended after the DEL would leave allocations that
/// are never freed. A plugin's environment names its sandbox, and its child processes inherit it. `procs`: `/proc`.
///
/// # Errors
/// Some of the processes still run.
pub(super) fn end_of(sandbox: &str, procs: &Path) -> Result<(), String> {
    let until = Instant::now().checked_add(limits::CNI_END);
    loop {
        let running = of(sandbox, procs);
        if running.is_empty() {
            return Ok(());
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            return Err(format!(
                "a plugin that an earlier podkeeper began does not end (process {})",
                words(&running)
            ));
        }
        log::info!(
            "sandbox {sandbox}: plugins of an earlier podkeeper are ended: process {}",
            words(&running)
        );
        running.iter().for_each(|pid| end(*pid, sandbox, procs));
        thread::sleep(limits::HELPER_LOOK_MAX);
    }
}

fn words(pids: &[i32]) -> String {
    let words: Vec<String> = pids.iter().take(limits::CNI_PLUGINS).map(i32::to_string).collect();
    words.join(", ")
}

/// Processes that attach this sandbox.
fn of(sandbox: &str, procs: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(procs).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| attaches(*pid, sandbox, procs)).collect()
}

fn attaches(pid: i32, sandbox: &str, procs: &Path) -> bool {
    let of_it: PathBuf = procs.join(pid.to_string());
    // A zombie has no environment.
    let environment =
        regular::read_start(&of_it.join("environ"), limits::CNI_ENVIRONMENT).unwrap_or_default();
    let has = |wanted: &str| environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes());
    has("CNI_COMMAND=ADD") && has(&format!("CNI_CONTAINERID={sandbox}"))
}

/// Kills through a descriptor, which stays with this process even if its id is reused.
fn end(pid: i32, sandbox: &str, procs: &Path) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if attaches(pid.as_raw_nonzero().get(), sandbox, procs) {
        _ = pidfd_send_signal(&process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn plugin(command: &str, sandbox: &str) -> Child {
        // The plugin has a child process, such as an IPAM plugin.
        let mut plugin = Command::new("sh");
        plugin.args(["-c", "sleep 30 & echo; wait"]).stdout(Stdio::piped());
        plugin.env("CNI_COMMAND", command).env("CNI_CONTAINERID", sandbox).spawn().unwrap()
    }

    #[test]
    fn what_attaches_the_sandbox_is_ended_and_nothing_else() {
        let own = format!("own-{}", std::process::id());
        let longer = format!("{own}1");
        let procs = Path::new("/proc");
        end_of(&own, procs).unwrap();
        let mut all = [("ADD", &own), ("DEL", &own), ("ADD", &longer)].map(|(word, id)| plugin(word, id));
        for child in &mut all {
            // It has started.
            let mut line = [0; 1];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        }
        assert_eq!(of(&own, procs).len(), 2);
        end_of(&own, procs).unwrap();
        let [attaches, detaches, of_another] = &mut all;
        assert!(!attaches.wait().unwrap().success());
        assert!(of(&own, procs).is_empty());
        for child in [detaches, of_another] {
            assert_eq!(child.try_wait().unwrap(), None);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        end_of(&longer, procs).unwrap();
    }
}
