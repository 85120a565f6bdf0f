//! Reading files that another user may have put there: regular files only, without waiting, and never more
//! than a bound. Opening a pipe would block the reader for ever, opening a device may have side effects, and
//! a file without an end would fill the memory.
//!
//! The kernel's own files (below `/proc` and `/sys`) are the only ones that are read without this room.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, StatFs};
use rustix::io::Errno;

use super::limits;

/// Opens a regular file for reading; links are followed. If the kernel allows it, the access time is not
/// updated: reading must not cause writes.
///
/// # Errors
/// Errors of the system, and `InvalidInput` for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    faults::read(path)?;
    // Checked before opening: opening a device may have side effects.
    check_regular(&fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        other => other,
    };
    let file = File::from(opened?);
    // Checked again afterwards: the path may lead elsewhere by now.
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Whether this error of [`read`] may be temporary (EIO, EMFILE): the file may exist and be intact.
#[must_use]
pub fn is_trouble(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
    )
}

fn check_regular(meta: &fs::Metadata) -> io::Result<()> {
    if meta.is_file() {
        return Ok(());
    }
    let what = if meta.is_dir() { "it is a directory" } else { "it is not a regular file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Reads a whole regular file.
///
/// # Errors
/// Errors of [`open`], and `FileTooLarge` for more than `limit` bytes.
pub fn read(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    read_rest(open(path)?, limit)
}

/// Like [`read`], with a few retries after a temporary error. Takes up to half a second.
///
/// # Errors
/// Errors of [`read`].
pub fn read_patiently(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    for _ in 1..limits::READ_TRIES {
        match read(path, limit) {
            Err(e) if is_trouble(&e) => thread::sleep(limits::READ_AGAIN),
            other => return other,
        }
    }
    read(path, limit)
}

/// Reads a regular file from its beginning, at most `most` bytes.
///
/// # Errors
/// Errors of [`open`].
pub fn read_start(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the rest of an open file or stream.
///
/// # Errors
/// Errors of the system, and `FileTooLarge` for more than `limit` bytes.
pub fn read_rest(input: impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    input.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        let what = format!("it is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads a whole regular file as UTF-8 text.
///
/// # Errors
/// Errors of [`read`], and `InvalidData` when the text is not UTF-8.
pub fn read_text(path: &Path, limit: usize) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Makes a named pipe that has no writer.
#[cfg(test)]
pub(crate) fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// A disk with read errors, for tests.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::{Errno, Path, io};

    thread_local! {
        /// Files that this thread cannot read, with the number of failures and the error.
        pub static READS: RefCell<BTreeMap<PathBuf, (u32, Errno)>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub fn read(path: &Path) -> io::Result<()> {
        READS.with_borrow_mut(|all| match all.get_mut(path) {
            Some((times @ 1.., why)) => {
                *times -= 1;
                Err((*why).into())
            }
            _ => Ok(()),
        })
    }
}

/// The kernel's number of a file system's kind (`statfs(2)`, `f_type`): its lower 32 bits, for the width and the sign of the
/// field differ by architecture.
#[must_use]
pub fn file_system(of: &StatFs) -> u32 {
    (i128::from(of.f_type) & 0xffff_ffff).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::base::testing::scratch;

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let dir = scratch("regular");
        let (pipe, file) = (dir.join("pipe"), dir.join("file"));
        fifo(&pipe);
        fs::write(&file, "12345").unwrap();
        std::os::unix::fs::symlink("pipe", dir.join("link")).unwrap();
        for path in [&pipe, &dir.join("link"), Path::new("/dev/zero")] {
            assert_eq!(open(path).unwrap_err().to_string(), "it is not a regular file", "{}", path.display());
        }
        assert_eq!(open(&dir).unwrap_err().to_string(), "it is a directory");
        assert_eq!(open(&dir.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        let error = read(&file, 4).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "it is larger than 4 bytes")
        );
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        fs::remove_dir_all(&dir).unwrap();
    }

    fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => sources(&path, all),
                Some("rs") => all.push(path),
                _ => {}
            }
        }
    }

    /// Every file that is read by its path is opened here; the exceptions are listed with their reason.
    #[test]
    fn no_other_room_opens_files_to_read_them() {
        const WAYS: &[&str] = &["File::open(", "fs::read(", "read_to_string("];
        // A directory, for its fsync.
        const FREE: &[(&str, &str)] = &[("base/durable.rs", "File::open(dir)")];
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        sources(&root, &mut all);
        for path in all {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            const TESTS: &[&str] = &["test", "effects/", "layers.rs"];
            // These files read files of the kernel: the cgroup tree, and `/proc` and `/sys`.
            const KERNEL: &[&str] = &[
                "regular.rs",
                "cgroup/engine.rs",
                "cgroup/tree.rs",
                "cgroup/resource.rs",
                "stats/mod.rs",
                "sys.rs",
                "/kernel.rs",
            ];
            if TESTS.iter().chain(KERNEL).any(|part| name.contains(part)) {
                continue;
            }
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for line in code.lines().filter(|line| WAYS.iter().any(|way| line.contains(way))) {
                let kernels = line.contains("\"/proc/") || line.contains("\"/sys/");
                let free = FREE.iter().any(|(file, part)| name == *file && line.contains(part));
                if !kernels && !free {
                    wrong.push(format!("{name}: {}", line.trim()));
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
