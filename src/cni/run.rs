//! Runs one plugin to its end, with a deadline and bounded output.
//!
//! Never here: a shell; a wait that only the plugin ends; the meaning of its output.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::base::{limits, program, wait};

/// A plugin that ended.
#[derive(Debug)]
pub struct Ended {
    pub is_success: bool,
    /// How it ended, as text.
    pub status: String,
    /// Its complete standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

/// How long a plugin may run.
#[derive(Debug, Clone, Copy)]
pub struct Allowed<'a> {
    pub until: Instant,
    /// The duration behind `until`, for the error.
    pub within: Duration,
    /// Set when the result is not needed any more.
    pub is_cancelled: &'a AtomicBool,
}

impl<'a> Allowed<'a> {
    /// The time from now on.
    #[must_use]
    pub fn of(within: Duration, is_cancelled: &'a AtomicBool) -> Allowed<'a> {
        let now = Instant::now();
        Allowed { until: now.checked_add(within).unwrap_or(now), within, is_cancelled }
    }

    /// Why the plugin must stop.
    fn ends(&self) -> Option<String> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Some("it was ended: the pod is being stopped".to_owned());
        }
        (Instant::now() >= self.until).then(|| {
            format!("it did not end within the {} s of all plugins, and was killed", self.within.as_secs())
        })
    }
}

/// Runs the program with these variables in addition to podkeeper's own.
///
/// # Errors
/// The plugin cannot be run, was killed, or has too much output.
pub fn run(
    program: &Path,
    variables: &[(&'static str, String)],
    input: &[u8],
    allowed: Allowed<'_>,
) -> Result<Ended, String> {
    let mut child = spawn(program, variables, allowed)?;
    let done = talk(&mut child, input, allowed);
    let status = match &done {
        Ok(_) => end(&mut child, allowed),
        Err(why) => {
            kill(&mut child);
            Err(why.clone())
        }
    };
    let (said, status) = (done?, status?);
    Ok(Ended {
        is_success: status.success(),
        status: status.to_string(),
        stdout: said.stdout,
        stderr: said.stderr,
    })
}

fn spawn(
    program: &Path,
    variables: &[(&'static str, String)],
    allowed: Allowed<'_>,
) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in program::NOTIFY {
        command.env_remove(name);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // Its child processes (an IPAM plugin) are killed with it.
    command.process_group(0);
    let mut tries = 1;
    loop {
        match command.spawn() {
            Ok(child) => return Ok(child),
            // An installer is just writing the file, as handled in upstream's `pkg/invoke/raw_exec.go`.
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy
                    && tries < limits::CNI_BUSY_TRIES
                    && allowed.ends().is_none() =>
            {
                tries += 1;
                thread::sleep(limits::CNI_BUSY);
            }
            Err(error) => return Err(format!("{}: {error}", program.display())),
        }
    }
}

/// Kills a process; a process that the kernel cannot end is not waited for.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        _ = kill_process_group(group, Signal::KILL);
    }
    _ = child.kill();
    thread::sleep(limits::HELPER_LOOK);
    _ = child.try_wait();
}

/// Its exit status, after it has closed its outputs.
fn end(child: &mut Child, allowed: Allowed<'_>) -> Result<ExitStatus, String> {
    let mut wait = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        if let Some(why) = allowed.ends() {
            kill(child);
            return Err(why);
        }
        thread::sleep(wait);
        wait = wait.saturating_mul(2).min(limits::CNI_LOOK);
    }
}

/// The output so far.
#[derive(Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Writes the input and reads the outputs until the plugin has closed both or has ended, regardless of child
/// processes that hold them open.
fn talk(child: &mut Child, input: &[u8], allowed: Allowed<'_>) -> Result<Said, String> {
    let text = |error: io::Error| error.to_string();
    let mut stdin = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    let mut stdout = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    let mut stderr = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
    for pipe in [&stdin, &stdout, &stderr].into_iter().flatten() {
        rustix::io::ioctl_fionbio(pipe, true).map_err(|error| text(error.into()))?;
    }
    let mut left = input;
    let mut said = Said::default();
    while stdout.is_some() || stderr.is_some() {
        if let Some(why) = allowed.ends() {
            return Err(why);
        }
        let has_ended = child.try_wait().map_err(text)?.is_some();
        if let Some(pipe) = &mut stdin {
            // A plugin that does not read its input may still have output.
            match pipe.write(left) {
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => left = &[],
            }
            if left.is_empty() {
                stdin = None;
            }
        }
        if hear(&mut stdout, &mut said.stdout).map_err(text)? {
            stdout = None;
        }
        if said.stdout.len() > limits::CNI_OUTPUT {
            return Err(format!("it says more than {} bytes, and was killed", limits::CNI_OUTPUT));
        }
        if hear(&mut stderr, &mut said.stderr).map_err(text)? {
            stderr = None;
        }
        said.stderr.truncate(limits::CNI_WORDS);
        if has_ended {
            break;
        }
        rest([&stdin, &stdout, &stderr], allowed);
    }
    Ok(said)
}

/// Reads the available output. Returns true at the end.
fn hear(pipe: &mut Option<File>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(false) };
    let mut some = [0; 4096];
    // A bounded amount at a time, so that endless output is noticed.
    for _ in 0..TURN {
        match pipe.read(&mut some) {
            Ok(0) => return Ok(true),
            Ok(count) => into.extend(some.iter().take(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Reads of 4 KiB before the other pipes are served.
const TURN: usize = 16;

/// Waits for any of the pipes, for a bounded time, to check whether the plugin is still wanted.
fn rest(pipes: [&Option<File>; 3], allowed: Allowed<'_>) {
    let [stdin, stdout, stderr] = pipes;
    let mut set: Vec<PollFd<'_>> = Vec::with_capacity(3);
    set.extend(stdin.iter().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)));
    for pipe in [stdout, stderr] {
        set.extend(pipe.iter().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)));
    }
    let look = Instant::now().checked_add(limits::CNI_LOOK);
    if wait::until(set, look.map(|look| look.min(allowed.until))).is_err() {
        thread::sleep(limits::WAIT_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;

    const PATIENCE: Duration = Duration::from_secs(20);
    static NEVER: AtomicBool = AtomicBool::new(false);

    fn script(name: &str, text: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = scratch(&format!("cni-run-{name}")).join("plugin");
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn run_for(name: &str, text: &str, input: &[u8], within: Duration) -> Result<Ended, String> {
        let variables = [("CNI_COMMAND", "ADD".to_owned())];
        run(&script(name, text), &variables, input, Allowed::of(within, &NEVER))
    }

    #[test]
    fn a_plugin_hears_and_says() {
        let ended = run_for("says", "cat; echo $CNI_COMMAND; echo log >&2; exit 3", b"{}", PATIENCE).unwrap();
        assert_eq!((ended.is_success, ended.status.as_str()), (false, "exit status: 3"));
        assert_eq!(
            (ended.stdout.as_slice(), ended.stderr.as_slice()),
            (b"{}ADD\n".as_slice(), b"log\n".as_slice())
        );
        let large = vec![b'x'; limits::CNI_OUTPUT];
        let ended = run_for("large", "cat", &large, PATIENCE).unwrap();
        assert_eq!(ended.stdout, large);
        // It does not read its input.
        let ended = run_for("deaf", "exec <&-; echo ok", &large, PATIENCE).unwrap();
        assert!(ended.is_success && ended.stdout == b"ok\n");
        assert!(
            run_for("noisy", "yes | head -c 100000 >&2", b"", PATIENCE).unwrap().stderr.len()
                <= limits::CNI_WORDS
        );
    }

    #[test]
    fn a_plugin_that_hangs_or_says_too_much_is_killed_with_what_it_started() {
        let begun = Instant::now();
        let why = run_for("hangs", "sleep 30 & sleep 30; echo", b"", Duration::from_millis(300)).unwrap_err();
        assert!(why.contains("did not end within"), "{why}");
        let why = run_for("endless", "cat /dev/zero", b"", PATIENCE).unwrap_err();
        assert!(why.contains("says more than"), "{why}");
        // A child process that is left holds its output open.
        assert!(run_for("leaves", "sleep 5 & echo ok", b"", PATIENCE).unwrap().is_success);
        let cancelled = AtomicBool::new(true);
        let why =
            run(&script("cancelled", "sleep 30"), &[], b"", Allowed::of(PATIENCE, &cancelled)).unwrap_err();
        assert!(why.contains("the pod is being stopped"), "{why}");
        assert!(begun.elapsed() < PATIENCE);
        let none = run(Path::new("/nonexistent/x"), &[], b"", Allowed::of(PATIENCE, &NEVER)).unwrap_err();
        assert!(none.starts_with("/nonexistent/x: "), "{none}");
    }
}
