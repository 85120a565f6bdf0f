//! The files for containers' termination messages. Their content and place are never trusted: no link is
//! followed, no call blocks, and reads are bounded.
//!
//! Never here: the time of an action. Only `ROOT/pods/<uid>/containers` and the files of [`POD_FILES`] are
//! touched; other entries below `ROOT/pods/<uid>` belong to other rooms.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::{LogFile, text};
use crate::base::limits;
use crate::base::table::Set;

/// Flags for every directory: a link in its place is an error.
const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// Further files of a pod that a sweep removes.
const POD_FILES: &[&str] = &[crate::layout::HOSTS, crate::layout::RESOLVER];

/// All termination files of one node. Clones share the state.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
    /// Pods with files created by this process, which a sweep keeps. Bounded by the pods with files.
    in_use: Arc<Mutex<Set<String>>>,
}

impl Files {
    /// Files below this root directory.
    #[must_use]
    pub fn new(root: PathBuf) -> Files {
        Files { root, in_use: Arc::default() }
    }

    /// Creates an instance's file, empty and writable for any user of the container.
    ///
    /// # Errors
    /// The disk is full or read-only, or another kind of file is in its place.
    pub fn make(&self, file: &LogFile) -> io::Result<()> {
        let Some([pods, uid, containers, name, last]) = file.parts() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // Held throughout, so that no sweep removes a directory in between.
        let mut in_use = self.in_use();
        let mut at = rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in [pods, uid.clone(), containers, name] {
            match mkdirat(&at, &part, Mode::from_raw_mode(0o750)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = openat(&at, &part, DIRECTORY, Mode::empty())?;
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let made = openat(&at, &last, flags, Mode::from_raw_mode(0o666))?;
        if FileType::from_raw_mode(fstat(&made)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        rustix::fs::ftruncate(&made, 0)?;
        // Independent of the umask.
        fchmod(&made, Mode::from_raw_mode(0o666))?;
        in_use.insert(uid);
        Ok(())
    }

    /// The message in an instance's file; empty when there is none.
    ///
    /// # Errors
    /// The kubelet's text for the error, shown instead of the message.
    pub fn read(&self, file: &LogFile) -> Result<String, String> {
        let read = || -> io::Result<Vec<u8>> {
            let Some((directory, last)) = self.directory(file)? else { return Ok(Vec::new()) };
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut opened = File::from(openat(&directory, last, flags, Mode::empty())?);
            let meta = opened.metadata()?;
            if !meta.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            let most = u64::try_from(limits::TERMINATION_FILE).unwrap_or(u64::MAX);
            opened.seek(SeekFrom::Start(meta.len().saturating_sub(most)))?;
            let mut bytes = Vec::new();
            opened.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(text(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => {
                let path = file.path(&self.root).unwrap_or_default();
                Err(format!("Error on reading termination log {}: {error}", path.display()))
            }
        }
    }

    /// Removes an instance's file, and the directories that become empty. The sweep of the next start removes
    /// the rest.
    pub fn remove(&self, file: &LogFile) {
        let mut in_use = self.in_use();
        if let Ok(Some((directory, last))) = self.directory(file) {
            _ = unlinkat(&directory, last, AtFlags::empty());
        }
        if self.prune(&file.uid, &file.container) {
            in_use.remove(&file.uid);
        }
    }

    /// Removes the files of all pods but these and those of this process: pods that vanished while the daemon
    /// was down.
    pub fn sweep(&self, keep: &Set<String>) {
        let pods = match rustix::fs::open(self.root.join("pods"), DIRECTORY, Mode::empty()) {
            Ok(pods) => pods,
            Err(_) => return,
        };
        for uid in names(pods.as_fd()).into_iter().filter(|uid| !keep.contains(uid)) {
            let in_use = self.in_use();
            if in_use.contains(&uid) {
                continue;
            }
            self.sweep_pod(&pods, &uid);
        }
    }

    /// Whether a pod's own file is there, with this content. Nothing is opened for writing: on a disk that has become
    /// read-only a pod runs on with the files that it has.
    pub fn holds(&self, uid: &str, name: &str, content: &[u8]) -> bool {
        // Held throughout, so that no sweep removes the file afterwards.
        let mut in_use = self.in_use();
        let is_same = super::is_one_name(uid)
            && self.read_pod_file(uid, name, content.len()).is_ok_and(|it| it == content);
        if is_same {
            in_use.insert(uid.to_owned());
        }
        is_same
    }

    /// At most one byte more than `most`; nothing of a file with another mode.
    fn read_pod_file(&self, uid: &str, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let mut at = rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in ["pods", uid] {
            at = openat(&at, part, DIRECTORY, Mode::empty())?;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = openat(&at, name, flags, Mode::empty())?;
        let mode = fstat(&found)?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::RegularFile || mode & 0o7777 != 0o644 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        File::from(found).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a pod's own file for reading and writing, creating it if missing; `ROOT/pods/<uid>/<name>`.
    ///
    /// # Errors
    /// The disk is full or read-only, or another kind of file is in its place.
    pub fn pod_file(&self, uid: &str, name: &str) -> io::Result<File> {
        if !super::is_one_name(uid) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut in_use = self.in_use();
        let mut at = rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in ["pods", uid] {
            match mkdirat(&at, part, Mode::from_raw_mode(0o750)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            at = openat(&at, part, DIRECTORY, Mode::empty())?;
        }
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let made = openat(&at, name, flags, Mode::from_raw_mode(0o644))?;
        if FileType::from_raw_mode(fstat(&made)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        // Independent of the umask.
        fchmod(&made, Mode::from_raw_mode(0o644))?;
        in_use.insert(uid.to_owned());
        Ok(File::from(made))
    }

    /// Removes the files of a pod that is gone, including those of containers that were never created, and
    /// its directory if it becomes empty.
    pub fn forget_pod(&self, uid: &str) {
        let mut in_use = self.in_use();
        if let Ok(pods) = rustix::fs::open(self.root.join("pods"), DIRECTORY, Mode::empty()) {
            self.sweep_pod(&pods, uid);
        }
        in_use.remove(uid);
    }

    fn sweep_pod(&self, pods: &OwnedFd, uid: &str) {
        let below = |at: BorrowedFd<'_>, name: &str| openat(at, name, DIRECTORY, Mode::empty()).ok();
        let Some(pod) = below(pods.as_fd(), uid) else { return };
        if let Some(containers) = below(pod.as_fd(), "containers") {
            for name in names(containers.as_fd()) {
                let Some(container) = below(containers.as_fd(), &name) else { continue };
                // Only files of this room.
                for file in names(container.as_fd()).iter().filter(|file| is_file_name(file)) {
                    _ = unlinkat(&container, file, AtFlags::empty());
                }
                _ = unlinkat(&containers, &name, AtFlags::REMOVEDIR);
            }
            _ = unlinkat(&pod, "containers", AtFlags::REMOVEDIR);
        }
        remove_pod_files(pods, uid, POD_FILES);
    }

    /// The directory of an instance's file; `None` when it cannot have one.
    fn directory(&self, file: &LogFile) -> io::Result<Option<(OwnedFd, String)>> {
        let Some([pods, uid, containers, name, last]) = file.parts() else { return Ok(None) };
        let mut at = rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for part in [pods, uid, containers, name] {
            at = openat(&at, &part, DIRECTORY, Mode::empty())?;
        }
        Ok(Some((at, last)))
    }

    /// Removes a container's directory and its parents, as far as they are empty. Returns true when the pod
    /// has no files any more.
    fn prune(&self, uid: &str, container: &str) -> bool {
        let file = LogFile { uid: uid.to_owned(), container: container.to_owned(), attempt: 0 };
        let Some([pods, uid, containers, name, _]) = file.parts() else { return true };
        let open = || -> Result<(OwnedFd, OwnedFd, OwnedFd), Errno> {
            let root = rustix::fs::open(&self.root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let pods = openat(&root, &pods, DIRECTORY, Mode::empty())?;
            let pod = openat(&pods, &uid, DIRECTORY, Mode::empty())?;
            let all = openat(&pod, &containers, DIRECTORY, Mode::empty())?;
            Ok((pods, pod, all))
        };
        let Ok((pods, pod, all)) = open() else { return true };
        _ = unlinkat(&all, &name, AtFlags::REMOVEDIR);
        let empty = unlinkat(&pod, &containers, AtFlags::REMOVEDIR).is_ok();
        if empty {
            _ = unlinkat(&pods, &uid, AtFlags::REMOVEDIR);
        }
        empty
    }

    fn in_use(&self) -> MutexGuard<'_, Set<String>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes files of a pod, and its directory if it becomes empty.
fn remove_pod_files(pods: &OwnedFd, uid: &str, files: &[&str]) {
    if let Ok(pod) = openat(pods, uid, DIRECTORY, Mode::empty()) {
        for file in files {
            _ = unlinkat(&pod, *file, AtFlags::empty());
        }
    }
    _ = unlinkat(pods, uid, AtFlags::REMOVEDIR);
}

fn is_file_name(name: &str) -> bool {
    name.len() == 8 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Names in a directory. Names that are not UTF-8 are not podkeeper's, and are skipped.
fn names(directory: BorrowedFd<'_>) -> Vec<String> {
    let Ok(entries) = Dir::read_from(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    names.filter(|name| name != "." && name != "..").collect()
}
