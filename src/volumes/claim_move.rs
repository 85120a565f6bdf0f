//! Moves claims of earlier versions at the daemon's start. Up to version 0.1 all sources had their claims in
//! one place, where only the file source's are now. On a node with a single source that is not the file source,
//! all of them belong to that source, including unused ones (of a drained node) and shared ones: they are
//! moved, once. With several sources their owner is unknown; then the pods that use a claim decide, see
//! [`super::claim_use`].
//!
//! Never here: ending the daemon. A claim that cannot be moved waits and is tried again: by a thread until all
//! are moved, and by each set-up of a claim.

use std::fs::DirBuilder;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use rustix::fs::{AtFlags, Mode, OFlags, renameat, statat};
use rustix::io::Errno;

use super::set_up::PRIVATE;
use super::walk;
use crate::base::{durable, limits, thread};
use crate::layout;
use crate::pod::Source;

/// Marker in the directory of claims: sources have separate places there. From then on a claim's place shows
/// its source, even when the node's sources change.
const MARK: &str = ".by-source";

/// State of the move.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Not tried yet.
    Due,
    /// Some claims are in their old place: they would start empty although they have data.
    Left(String),
    /// All claims are in place, but the marker is missing: the next daemon has to look again.
    Unmarked(String),
    /// All moved, and marked.
    Separate,
}

impl State {
    fn trouble(&self) -> Option<&str> {
        match self {
            State::Due | State::Separate => None,
            State::Left(why) | State::Unmarked(why) => Some(why),
        }
    }
}

/// Receives the problem with the move; `None` once it is complete.
pub type Tell = Box<dyn Fn(Option<String>) + Send + Sync>;

/// The claims of this node, set up one at a time.
pub struct Claims {
    root: PathBuf,
    sources: Vec<Source>,
    state: Mutex<State>,
    tell: Tell,
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Claims")
    }
}

impl Claims {
    /// Claims below this root directory, for a node with these sources. No file is touched yet. `tell` may
    /// block.
    #[must_use]
    pub fn new(root: PathBuf, sources: Vec<Source>, tell: Tell) -> Claims {
        Claims { root, sources, state: Mutex::new(State::Due), tell }
    }

    /// Moves the claims in a thread that ends when all are moved. Running containers keep their mounts.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(claims: &Arc<Claims>) -> io::Result<()> {
        let claims = Arc::clone(claims);
        let body = move || {
            let mut wait = limits::VOLUME_RETRY_MIN;
            while !claims.are_separate() {
                std::thread::sleep(wait);
                wait = wait.saturating_mul(2).min(limits::VOLUME_RETRY_MAX);
            }
        };
        thread::spawn("pk-claims", limits::WORKER_STACK, body).map(drop)
    }

    fn are_separate(&self) -> bool {
        *self.try_move() == State::Separate
    }

    /// Lets one caller at a time set up claims: of two pods that want a claim exclusively, one must be first.
    /// First tries to move the remaining claims.
    pub(super) fn lock(&self) -> Guard<'_> {
        Guard(self.try_move())
    }

    fn try_move(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state != State::Separate {
            let now = separate(&self.root, &self.sources);
            if now.trouble() != state.trouble() {
                (self.tell)(now.trouble().map(str::to_owned));
            }
            *state = now;
        }
        state
    }
}

/// While this exists, no other caller sets up a claim.
pub(super) struct Guard<'a>(MutexGuard<'a, State>);

impl Guard<'_> {
    /// Why claims of an earlier version are still in their old place, if some are.
    pub(super) fn left(&self) -> Option<&str> {
        match &*self.0 {
            State::Left(why) => Some(why),
            State::Due | State::Unmarked(_) | State::Separate => None,
        }
    }
}

/// Moves the claims that must be moved.
fn separate(root: &Path, sources: &[Source]) -> State {
    let storage = root.join(layout::LOCAL_STORAGE);
    match move_claims(root, sources) {
        Err(error) => State::Left(format!(
            "claims of an earlier version in {} cannot be given to the source they belong to: {error}; those that \
             are still there wait, and this is tried again",
            storage.display()
        )),
        Ok(false) => State::Separate,
        // Without the marker the next start looks again, and finds no claim to move.
        Ok(true) => match durable::write(&storage.join(MARK), b"") {
            Ok(()) => State::Separate,
            Err(error) => State::Unmarked(format!(
                "{}: {error}; whose the claims beside it are has to be written there, and this is tried again",
                storage.join(MARK).display()
            )),
        },
    }
}

/// Returns true when all claims are moved and the marker must be written.
fn move_claims(root: &Path, sources: &[Source]) -> io::Result<bool> {
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if matches!(statat(&at, layout::LOCAL_STORAGE, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
        // No claim was ever used; see `begin`.
        return Ok(false);
    }
    let claims = walk::make_below(at.as_fd(), &[layout::LOCAL_STORAGE], PRIVATE)?;
    if sources.is_empty() || statat(&claims, MARK, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(false);
    }
    if let [source] = sources
        && let Some(own) = layout::claims_of(*source)
    {
        let own = walk::make_below(claims.as_fd(), &[own], PRIVATE)?;
        move_all(&claims, &own)?;
    }
    Ok(true)
}

/// Runs before the first claim of a node: its sources have separate places from then on.
///
/// # Errors
/// An error of the system.
pub(super) fn begin(root: &Path) -> io::Result<()> {
    let storage = root.join(layout::LOCAL_STORAGE);
    match DirBuilder::new().mode(PRIVATE).create(&storage) {
        Ok(()) => durable::write(&storage.join(MARK), b"").inspect_err(|_| {
            // The next call begins again.
            let _ = std::fs::remove_dir(&storage);
        }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves all namespaces; of namespaces that exist already, the claims that do not. A claim that cannot be
/// moved (for example because of a mount) does not stop the others; the first error is returned.
fn move_all(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut result = Ok(());
    for namespace in walk::names(from)?.iter().filter(|name| !name.starts_with('.')) {
        let moved = match move_one(from, to, namespace) {
            Ok(true) => Ok(()),
            Ok(false) => move_each(from, to, namespace),
            Err(error) => Err(error),
        };
        result = result.and(moved);
    }
    result
}

/// Moves the claims of a namespace that both have.
fn move_each(from: &OwnedFd, to: &OwnedFd, namespace: &str) -> io::Result<()> {
    let open = |at: &OwnedFd| walk::open_below(at.as_fd(), &[namespace]);
    let (Some(from), Some(to)) = (open(from)?, open(to)?) else { return Ok(()) };
    let mut result = Ok(());
    for claim in walk::names(&from)? {
        result = result.and(move_one(&from, &to, &claim).map(drop));
    }
    result
}

/// Returns false when the name exists already.
fn move_one(from: &OwnedFd, to: &OwnedFd, name: &str) -> io::Result<bool> {
    match statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(false),
        Err(Errno::NOENT) => Ok(renameat(from, name, to, name).map(|()| true)?),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn separate(root: &Path, sources: &[Source]) -> Option<String> {
        let state = super::separate(root, sources);
        state.trouble().map(|why| why.replace(&root.display().to_string(), "ROOT"))
    }

    #[test]
    fn a_node_without_files_keeps_the_claims_of_an_earlier_version_whether_pods_use_them_or_not() {
        let root = crate::base::testing::scratch("claims-tell-apart");
        let data = |place: &str| fs::read_to_string(root.join("local-storage").join(place)).ok();
        let put = |place: &str, text: &str| {
            let path = root.join("local-storage").join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("default/shared/data", "shared");
        put("default/moved/data", "left behind");
        put("team/drained/data", "drained");
        // A start that was killed after some claims.
        put(".http/default/moved/data", "moved");
        assert_eq!(separate(&root, &[]), None);
        assert_eq!(data("team/drained/data").as_deref(), Some("drained"), "nobody to give it to");
        assert_eq!(separate(&root, &[Source::Http]), None);
        assert_eq!(data(".http/default/shared/data").as_deref(), Some("shared"));
        assert_eq!(data(".http/team/drained/data").as_deref(), Some("drained"));
        assert_eq!(data(".http/default/moved/data").as_deref(), Some("moved"));
        assert_eq!(data("default/moved/data").as_deref(), Some("left behind"), "nothing is lost");
        // Later files of the file source's pods belong to it, even when the node has no such source later.
        put("default/later/data", "file");
        assert_eq!(separate(&root, &[Source::Http]), None);
        assert_eq!(data("default/later/data").as_deref(), Some("file"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn claims_of_a_node_with_files_stay_where_they_are() {
        for sources in [&[Source::File][..], &[Source::File, Source::Http]] {
            let root = crate::base::testing::scratch("claims-stay");
            fs::create_dir_all(root.join("local-storage/default/data")).unwrap();
            assert_eq!(separate(&root, sources), None);
            assert_eq!(separate(&root, &[Source::Http]), None);
            assert!(root.join("local-storage/default/data").exists());
            fs::remove_dir_all(&root).unwrap();
        }
        let fresh = crate::base::testing::scratch("claims-fresh");
        assert_eq!(separate(&fresh, &[Source::File]), None);
        assert!(!fresh.join("local-storage").exists(), "nothing is written for nothing");
        begin(&fresh).unwrap();
        fs::create_dir_all(fresh.join("local-storage/default/data")).unwrap();
        assert_eq!(separate(&fresh, &[Source::Http]), None);
        assert!(fresh.join("local-storage/default/data").exists(), "the file source's since the first start");
        fs::remove_dir_all(&fresh).unwrap();
    }
    #[test]
    fn claims_that_cannot_be_moved_are_told_and_tried_again_until_they_are() {
        let root = crate::base::testing::scratch("claims-again");
        let storage = root.join("local-storage");
        fs::create_dir_all(storage.join("default/data")).unwrap();
        fs::create_dir_all(storage.join("team/data")).unwrap();
        // A file occupies the place of this source's claims.
        fs::write(storage.join(".http"), "").unwrap();
        let (tell, told) = crossbeam_channel::unbounded();
        let tell = Box::new(move |trouble| tell.send(trouble).unwrap());
        let claims = Arc::new(Claims::new(root.clone(), vec![Source::Http], tell));
        Claims::start(&claims).unwrap();
        let why = told.recv().unwrap().unwrap().replace(&root.display().to_string(), "ROOT");
        assert_eq!(
            why,
            "claims of an earlier version in ROOT/local-storage cannot be given to the source they belong to: Not \
             a directory (os error 20); those that are still there wait, and this is tried again"
        );
        fs::remove_file(storage.join(".http")).unwrap();
        assert_eq!(told.recv(), Ok(None), "it is told once, and when it is over");
        assert!(storage.join(".http/default/data").exists() && storage.join(".http/team/data").exists());
        assert!(storage.join(MARK).exists());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    #[ignore = "needs root: cargo test --lib -- --ignored"]
    fn a_claim_that_cannot_be_moved_keeps_no_other_one_back() {
        let root = crate::base::testing::scratch("claims-one-left");
        let storage = root.join("local-storage");
        for place in ["a/x", "busy/x", "z/x"] {
            fs::create_dir_all(storage.join(place)).unwrap();
        }
        let busy = fs::File::open(storage.join("busy")).unwrap();
        mount_on_itself(&busy);
        let told = separate(&root, &[Source::Http]).unwrap();
        assert!(told.contains("Device or resource busy"), "{told}");
        assert!(storage.join(".http/a/x").exists() && storage.join(".http/z/x").exists());
        rustix::mount::unmount(storage.join("busy"), rustix::mount::UnmountFlags::DETACH).unwrap();
        assert_eq!(separate(&root, &[Source::Http]), None);
        assert!(storage.join(".http/busy/x").exists());
        fs::remove_dir_all(&root).unwrap();
    }

    fn mount_on_itself(dir: &fs::File) {
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
        rustix::mount::mount_bind(&path, &path).unwrap();
    }

    #[test]
    fn what_is_moved_and_not_written_down_is_told_and_holds_nothing_up() {
        let root = crate::base::testing::scratch("claims-unmarked");
        let storage = root.join("local-storage");
        fs::create_dir_all(storage.join("default/data")).unwrap();
        fs::create_dir(storage.join(".by-source.tmp")).unwrap();
        let (tell, told) = crossbeam_channel::unbounded();
        let tell = Box::new(move |trouble| tell.send(trouble).unwrap());
        let claims = Claims::new(root.clone(), vec![Source::Http], tell);
        assert_eq!(claims.lock().left(), None);
        assert!(storage.join(".http/default/data").exists());
        let why = told.recv().unwrap().unwrap();
        assert!(why.contains(".by-source: Is a directory"), "{why}");
        assert!(!claims.are_separate());
        fs::remove_dir(storage.join(".by-source.tmp")).unwrap();
        assert!(claims.are_separate());
        assert_eq!(told.recv(), Ok(None));
        assert!(storage.join(MARK).exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
