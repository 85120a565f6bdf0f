//! The locks of a daemon's root directory and run directory: `run` takes them; other commands look who holds them, to
//! warn the user or to signal the daemon.
//!
//! Never here: waiting for a lock.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use super::exit::Exit;
use crate::base::durable;
use crate::base::locks::{self, LOCK};
use crate::daemon::config::Config;
use crate::status::writer::Restore;

/// Why the daemon may not begin.
#[derive(Debug)]
pub enum NotReady {
    /// Another podkeeper has this directory's lock.
    Locked(PathBuf),
    /// The directory cannot be made or written.
    Unusable(PathBuf, io::Error),
}

impl NotReady {
    /// The exit code of the process.
    pub fn exit(&self) -> Exit {
        match self {
            NotReady::Locked(_) => Exit::AlreadyRunning,
            NotReady::Unusable(..) => Exit::Directory,
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::Locked(dir) => {
                write!(f, "another podkeeper runs on {}; nothing was done", dir.display())
            }
            NotReady::Unusable(dir, error) => {
                let dir = dir.display();
                match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        write!(
                            f,
                            "{dir} is not writable: permission denied; run as root, or choose another one"
                        )?;
                    }
                    io::ErrorKind::ReadOnlyFilesystem => {
                        write!(f, "{dir} is on a read-only file system; choose a writable place for it")?;
                    }
                    io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                        write!(f, "{dir} is not a directory")?;
                    }
                    _ => write!(f, "{dir} cannot be used: {error}")?,
                }
                f.write_str(" (--root-dir, --run-dir)")
            }
        }
    }
}

/// Makes both directories and takes both locks: two daemons share neither the state nor the status.
///
/// # Errors
/// A directory cannot be made, or another daemon has its lock.
pub fn prepare(config: &Config) -> Result<[File; 2], NotReady> {
    let root = lock(&config.root_dir, 0o750)?;
    let run = if config.run_dir == config.root_dir {
        root.try_clone().map_err(|e| NotReady::Unusable(config.run_dir.clone(), e))?
    } else {
        lock(&config.run_dir, 0o700)?
    };
    // An older directory may be readable by others; the status file shows environment variables.
    fs::set_permissions(&config.run_dir, fs::Permissions::from_mode(0o700))
        .map_err(|e| NotReady::Unusable(config.run_dir.clone(), e))?;
    Ok([root, run])
}

/// Returns the function that makes the run directory anew and takes its lock.
pub fn restore(dir: PathBuf) -> Restore {
    let held = Mutex::new(None);
    Box::new(move || {
        if !dir.join(LOCK).exists() {
            let file = lock(&dir, 0o700).map_err(|error| io::Error::other(error.to_string()))?;
            // The file that was held before is deleted, and its lock is useless.
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        Ok(())
    })
}

/// Checks the root directory for a command that changes something in it.
///
/// # Errors
/// The path is no directory, or cannot be read; the message names the flag.
pub fn check_root(root_dir: &Path) -> Result<(), String> {
    let why = match fs::metadata(root_dir) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    Err(format!("the root directory {} (--root-dir) {why}", root_dir.display()))
}

/// Makes `dir` and takes its lock, which lasts as long as the file is open.
fn lock(dir: &Path, mode: u32) -> Result<File, NotReady> {
    let unusable = |error: io::Error| NotReady::Unusable(dir.to_owned(), error);
    fs::DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(unusable)?;
    let mut options = File::options();
    let file = durable::open_as(&dir.join(LOCK), options.write(true).create(true).truncate(false));
    let file = file.map_err(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            // The pid is for [`tell`]; without it the user can still send the signal.
            let told = file.set_len(0).and_then(|()| writeln!(&file, "{}", std::process::id()));
            told.map(|()| file).map_err(unusable)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Err(NotReady::Locked(dir.to_owned())),
        Err(error) => Err(unusable(error.into())),
    }
}

/// The result of signalling the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notified {
    /// No daemon runs there.
    Nobody,
    /// A daemon runs and could not be signalled.
    Deaf,
    /// This process got the signal.
    Daemon(Pid),
}

/// The message for [`Notified::Deaf`].
pub const DEAF: &str = "podkeeper runs and could not be told: send it SIGHUP";

/// Signals the daemon of a root directory to look at its files again.
pub fn tell(root_dir: &Path) -> Notified {
    if !locks::is_alive(root_dir) {
        return Notified::Nobody;
    }
    let pid = locks::holder(root_dir).and_then(|pid| Pid::from_raw(pid.cast_signed()));
    match pid.filter(|pid| kill_process(*pid, Signal::HUP).is_ok()) {
        Some(pid) => Notified::Daemon(pid),
        None => Notified::Deaf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;
    use crate::cli::flags::Verb;
    use crate::cli::run;

    #[test]
    fn where_no_daemon_runs_nobody_is_told() {
        let dir = scratch("tell");
        assert_eq!(tell(&dir), Notified::Nobody);
        fs::write(dir.join(LOCK), format!("{}\n", std::process::id())).unwrap();
        assert_eq!((tell(&dir), locks::holder(&dir)), (Notified::Nobody, None), "the lock is not held");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_second_daemon_is_refused() {
        let dir = scratch("lock");
        let line = format!("run --pod-manifest-path m --root-dir {0}/root --run-dir {0}/run", dir.display());
        let config = run::configuration(Verb::Run, &run::tests::parsed(&line), "n").unwrap();
        let held = prepare(&config).unwrap();
        assert!(locks::is_alive(&config.run_dir));
        assert_eq!(locks::holder(&config.run_dir), Some(std::process::id()));
        let error = prepare(&config).unwrap_err();
        assert_eq!(error.exit(), Exit::AlreadyRunning);
        assert!(error.to_string().contains("another podkeeper runs on"), "{error}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&config.root_dir), mode(&config.run_dir)), (0o750, 0o700));
        // Another root directory does not help: a status file has one writer.
        let other = Config { root_dir: dir.join("other"), ..config.clone() };
        assert_eq!(prepare(&other).unwrap_err().exit(), Exit::AlreadyRunning);
        drop(held);
        assert!(!locks::is_alive(&config.run_dir));
        assert!(prepare(&config).is_ok());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_no_root_directory_is_told_with_its_flag() {
        let dir = scratch("no-root");
        fs::write(dir.join("file"), "").unwrap();
        let check = |name: &str, why: &str| {
            let expected = format!("the root directory {}/{name} (--root-dir) {why}", dir.display());
            assert_eq!(check_root(&dir.join(name)), Err(expected));
        };
        check("none", "does not exist");
        check("file", "is not a directory");
        check("file/below", "cannot be read: Not a directory (os error 20)");
        assert_eq!(check_root(&dir), Ok(()));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_unusable_directory_is_told() {
        let dir = scratch("unusable");
        fs::write(dir.join("file"), "").unwrap();
        let check = |root: PathBuf, part: &str| {
            let error = lock(&root, 0o750).unwrap_err();
            assert_eq!(error.exit(), Exit::Directory);
            assert!(error.to_string().contains(part), "{error}");
        };
        check(dir.join("file"), "is not a directory");
        check(dir.join("file/below"), "is not a directory");
        check("/proc/podkeeper".into(), "/proc/podkeeper cannot be used");
        let error = NotReady::Unusable("/x".into(), io::ErrorKind::PermissionDenied.into());
        assert!(error.to_string().contains("/x is not writable: permission denied; run as root"));
        let error = NotReady::Unusable("/x".into(), io::ErrorKind::ReadOnlyFilesystem.into());
        assert!(error.to_string().contains("read-only file system"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
