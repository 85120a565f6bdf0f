//! Files that are written completely or not at all, even when the power fails: temporary file, fsync, rename,
//! fsync of the directory. For state that must survive a reboot; the status file is on tmpfs and is only
//! renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::limits;

/// File name extension of a file that is being written.
pub const BESIDE: &str = "tmp";

/// Writes a file of mode 0600; replaces an existing file of that name.
///
/// # Errors
/// Errors of the system. The old file is unchanged, or (when only the last step failed) the new one may not
/// be durable yet.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(path, &path.with_extension(BESIDE), bytes)
}

/// Like [`write`], with this temporary file in the same directory.
///
/// # Errors
/// Errors of [`write`].
pub fn write_by(path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(step().and_then(|()| open(beside)), path, beside, bytes)
}

/// Like [`write`], for a file that several processes may write in the same moment: one after the other. The bytes are made
/// when the turn has come, from what is there then. The lock is that on the temporary file, which is another one after each
/// rename.
///
/// # Errors
/// Errors of [`write`], and one when another process writes it for longer than [`limits::WRITE_TURN`].
pub fn write_in_turn(path: &Path, make: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
    let beside = path.with_extension(BESIDE);
    let begun = Instant::now();
    loop {
        let opened =
            step().and_then(|()| open_as(&beside, File::options().write(true).create(true).truncate(false)));
        let file = match opened {
            Ok(file) => file,
            // Something else in its place is removed; a regular file may be that of a process that writes it.
            Err(error) => {
                if fs::symlink_metadata(&beside).is_ok_and(|meta| !meta.is_file()) {
                    let _gone = fs::remove_file(&beside);
                }
                return Err(error);
            }
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, &beside) => {
                file.set_len(0)?;
                return replace(Ok(file), path, &beside, &make());
            }
            // The one before has renamed or removed it.
            Ok(()) | Err(Errno::WOULDBLOCK) => {}
            // Another process may have the lock, so that the file stays.
            Err(error) => return Err(error.into()),
        }
        if begun.elapsed() > limits::WRITE_TURN {
            let why = format!("another process is writing it, and has locked {}", beside.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        sleep(limits::WRITE_TURN_LOOK);
    }
}

/// Whether this path is that of this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let of = |meta: fs::Metadata| (meta.dev(), meta.ino());
    file.metadata().ok().map(of).is_some_and(|own| fs::symlink_metadata(path).ok().map(of) == Some(own))
}

/// Puts these bytes in the place of a file, by this empty file beside it.
fn replace(opened: io::Result<File>, path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
    let done = opened.and_then(|file| {
        fill(&file, bytes)?;
        step()?;
        // A lock on the file lasts until it has its place.
        fs::rename(beside, path)
    });
    if done.is_err() && step().is_ok() {
        let _gone = fs::remove_file(beside);
    }
    done?;
    sync_parent(path)
}

/// Opens a file for writing from its beginning: mode 0600, a link in its place is not followed, and a pipe
/// does not block.
///
/// # Errors
/// Errors of the system, and an error for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, File::options().write(true).create(true).truncate(true))
}

/// Like [`open`], with these options.
///
/// # Errors
/// Errors of [`open`].
pub fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn fill(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    step()?;
    file.write_all(first)?;
    step()?;
    file.write_all(rest)?;
    step()?;
    file.sync_all()
}

/// Makes the entries of this path's directory durable (fsync of the directory).
///
/// # Errors
/// The directory is gone, or the disk fails.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    step()?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Removes a file; a file that does not exist is not an error.
///
/// # Errors
/// Errors of the system.
pub fn remove(path: &Path) -> io::Result<()> {
    step()?;
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a directory of mode 0700; a directory that exists is not an error.
///
/// # Errors
/// Errors of the system.
pub fn make_directory(path: &Path) -> io::Result<()> {
    step()?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Called before each change of the disk. Tests make it fail from some step on, as if the process had been
/// killed there.
#[cfg(not(test))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use faults::step;
#[cfg(test)]
pub(crate) use faults::{HANGS, STEPS};

#[cfg(test)]
mod faults {
    use std::cell::{Cell, RefCell};
    use std::io;

    thread_local! {
        /// Called before each disk change of this thread; may block.
        pub static HANGS: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
        /// Number of disk changes that still succeed, and the error of all later ones; `None`: all succeed.
        pub static STEPS: Cell<Option<(u32, io::ErrorKind)>> = const { Cell::new(None) };
    }

    pub fn step() -> io::Result<()> {
        HANGS.with_borrow(|hangs| hangs.iter().for_each(|wait| wait()));
        match STEPS.get() {
            None => Ok(()),
            Some((0, kind)) => Err(kind.into()),
            Some((n, kind)) => {
                STEPS.set(Some((n - 1, kind)));
                Ok(())
            }
        }
    }
}
