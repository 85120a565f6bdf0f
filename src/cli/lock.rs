//! The locks of a daemon's root directory and run directory: `run` takes them; other commands look who holds them, to
//! warn the user or to signal the daemon.
//!
//! Never here: waiting for a lock.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
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

/// Makes both directories and takes their locks: two daemons share neither the state nor the status. A disk that is
/// full or read-only is no reason not to start: what cannot be written is logged.
///
/// # Errors
/// A directory cannot be made, or another daemon has its lock.
pub fn prepare(config: &Config) -> Result<Vec<File>, NotReady> {
    let mut held = Vec::new();
    let run = (config.run_dir != config.root_dir).then_some((&config.run_dir, 0o700));
    for (dir, mode) in [(&config.root_dir, 0o750)].into_iter().chain(run) {
        let (locks, missing) = lock(dir, mode, Time::First)?;
        held.extend(locks);
        if let Some(missing) = missing {
            log::warn!("{missing}; podkeeper starts all the same");
        }
    }
    // An older directory may be readable by others; the status file shows environment variables.
    let unusable = |error| NotReady::Unusable(config.run_dir.clone(), error);
    let mode = fs::metadata(&config.run_dir).map_err(unusable)?.permissions().mode();
    if mode & 0o7777 != 0o700 {
        fs::set_permissions(&config.run_dir, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
    }
    Ok(held)
}

/// Returns the function that makes the run directory anew and takes its lock.
pub fn restore(dir: PathBuf) -> Restore {
    let held = Mutex::new(Vec::new());
    Box::new(move || {
        if !dir.join(LOCK).exists() {
            let again = lock(&dir, 0o700, Time::Again);
            let (locks, _) = again.map_err(|error| io::Error::other(error.to_string()))?;
            // The file that was held before is deleted, and its lock is useless.
            *held.lock().unwrap_or_else(PoisonError::into_inner) = locks;
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

/// Which time a directory's locks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// At the start.
    First,
    /// After the file was removed: the lock on the directory itself may be this process's own.
    Again,
}

/// Makes `dir` and takes its locks, which last as long as the files are open: that of the directory itself, which needs
/// no room on the disk, and that of the file in it, which earlier versions and commands know. Returns what could not
/// be written, too.
fn lock(dir: &Path, mode: u32, time: Time) -> Result<(Vec<File>, Option<String>), NotReady> {
    let unusable = |error: io::Error| NotReady::Unusable(dir.to_owned(), error);
    fs::DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(unusable)?;
    let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let directory = take(open_directory(dir));
    if time == Time::First && directory.as_ref().is_err_and(is_busy) {
        return Err(NotReady::Locked(dir.to_owned()));
    }
    // Its lock alone is enough where the file cannot be written; some network file systems lock no directory.
    let is_held = directory.is_ok() || time == Time::Again;
    let path = dir.join(LOCK);
    let mut options = File::options();
    let opened = durable::open_as(&path, options.write(true).create(true).truncate(false));
    let (file, missing) = match take(opened) {
        Ok(file) => {
            // The pid is for [`tell`]; without it the run directory's is looked at.
            let told = write_pid(&file).err();
            let why =
                told.map(|error| format!("{}: no process id could be written: {error}", path.display()));
            (Some(file), why)
        }
        Err(error) if is_busy(&error) => return Err(NotReady::Locked(dir.to_owned())),
        Err(error) if is_held && has_no_room(&error) => {
            (None, Some(format!("{} cannot be made: {error}", path.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            // A daemon of an earlier version may have it.
            let file = match take(durable::open_as(&path, File::options().read(true))) {
                Err(error) if is_busy(&error) => return Err(NotReady::Locked(dir.to_owned())),
                Ok(file) => Some(file),
                Err(_) if is_held => None,
                Err(_) => return Err(unusable(error)),
            };
            (
                file,
                Some(format!("{} is on a read-only file system: nothing can be stored in it", dir.display())),
            )
        }
        Err(error) => return Err(unusable(error)),
    };
    Ok((directory.into_iter().chain(file).collect(), missing))
}

fn open_directory(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(dir, flags, Mode::empty())?))
}

fn take(opened: io::Result<File>) -> io::Result<File> {
    let file = opened?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Writes over the old content, and shortens the file last: on a full disk the room that it gave up would be gone.
fn write_pid(file: &File) -> io::Result<()> {
    let line = format!("{}\n", std::process::id());
    file.write_all_at(line.as_bytes(), 0)?;
    file.set_len(u64::try_from(line.len()).unwrap_or(u64::MAX))
}

fn has_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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

/// Signals the daemon of a root directory to look at its files again. Where no process id could be written into that
/// directory, the one in the run directory counts, if that process holds the root directory.
pub fn tell(root_dir: &Path, run_dir: &Path) -> Notified {
    if !locks::is_alive(root_dir) {
        return Notified::Nobody;
    }
    let of_run = || locks::holder(run_dir).filter(|pid| locks::is_held_by(root_dir, *pid));
    let pid = locks::holder(root_dir).or_else(of_run).and_then(|pid| Pid::from_raw(pid.cast_signed()));
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
        assert_eq!(tell(&dir, &dir), Notified::Nobody);
        fs::write(dir.join(LOCK), format!("{}\n", std::process::id())).unwrap();
        assert_eq!((tell(&dir, &dir), locks::holder(&dir)), (Notified::Nobody, None), "the lock is not held");
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
    fn the_directory_is_locked_also_without_a_file_and_made_again_by_its_holder() {
        let dir = scratch("lock-directory");
        fs::remove_dir_all(&dir).unwrap();
        let (held, missing) = lock(&dir, 0o700, Time::First).unwrap();
        assert_eq!((held.len(), missing), (2, None));
        fs::write(dir.join(LOCK), "12345678901\n").unwrap();
        write_pid(&held[1]).unwrap();
        assert_eq!(locks::holder(&dir), Some(std::process::id()), "an older, longer content is gone");
        fs::remove_file(dir.join(LOCK)).unwrap();
        assert!(locks::is_alive(&dir) && locks::is_held_by(&dir, std::process::id()));
        assert!(matches!(lock(&dir, 0o700, Time::First), Err(NotReady::Locked(_))));
        let restore = restore(dir.clone());
        restore().unwrap();
        assert_eq!(locks::holder(&dir), Some(std::process::id()));
        drop((held, restore));
        assert!(!locks::is_alive(&dir) && lock(&dir, 0o700, Time::First).is_ok());
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
            let error = lock(&root, 0o750, Time::First).unwrap_err();
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
