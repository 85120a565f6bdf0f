//! Files that are there whole or not at all, whenever the power fails: temp, fsync, rename, fsync of the
//! directory. For what has to outlive the machine's boot; the status file lies on tmpfs and is only renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Ending of a file that is being written.
pub const BESIDE: &str = "tmp";

/// Puts a file of mode 0600 there, instead of one of that name.
///
/// # Errors
/// Then the file is what it was, or (when only the last step failed) perhaps not yet durable.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(BESIDE);
    let done = write_beside(&beside, bytes).and_then(|()| {
        step()?;
        fs::rename(&beside, path)
    });
    if done.is_err() && step().is_ok() {
        let _gone = fs::remove_file(&beside);
    }
    done?;
    sync_parent(path)
}

/// Opens a file to be written from its beginning: mode 0600, no link in its place is followed, and a pipe is
/// not waited for.
///
/// # Errors
/// Those of the system; something else than a regular file stands there.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, File::options().write(true).create(true).truncate(true))
}

/// The same, as these options say.
///
/// # Errors
/// Those of [`open`].
pub fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn write_beside(beside: &Path, bytes: &[u8]) -> io::Result<()> {
    step()?;
    let mut file = open(beside)?;
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    step()?;
    file.write_all(first)?;
    step()?;
    file.write_all(rest)?;
    step()?;
    file.sync_all()
}

/// Makes the names in the directory of this path durable.
///
/// # Errors
/// The directory is gone, or the disk fails.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    step()?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Removes a file; one that is gone is removed.
///
/// # Errors
/// Those of the system.
pub fn remove(path: &Path) -> io::Result<()> {
    step()?;
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a directory of mode 0700; one that is there is fine.
///
/// # Errors
/// Those of the system.
pub fn make_directory(path: &Path) -> io::Result<()> {
    step()?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Comes before each change of the disk. In tests the process may be "killed" here: from then on nothing
/// is done any more.
#[cfg(not(test))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(crate) use faults::STEPS;
#[cfg(test)]
use faults::step;

#[cfg(test)]
mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Changes of the disk until the kill, and what the error is then; `None` for never.
        pub static STEPS: Cell<Option<(u32, io::ErrorKind)>> = const { Cell::new(None) };
    }

    pub fn step() -> io::Result<()> {
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
