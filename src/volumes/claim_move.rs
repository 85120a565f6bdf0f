//! Claims of earlier versions, when the daemon begins. Up to version 0.1 all sources had their claims in one place,
//! where only the file source's are now. On a node that has one source, and not that one, all of them are this
//! source's, also those that no pod uses now (of a drained node), and those that several pods share: they are
//! moved, once. Where there are several sources nobody can say so, and the pods that use a claim are asked; see
//! [`super::claim_use`].

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, renameat, statat};
use rustix::io::Errno;

use super::set_up::PRIVATE;
use super::{layout, walk};
use crate::durable;
use crate::pod::Source;

/// Below the directory of claims: sources are told apart there. What is written there since is whose it is by its
/// place, also when the node's sources change.
const MARK: &str = ".by-source";

/// Moves what has to be moved. What runs keeps what it has mounted.
///
/// # Errors
/// Not everything could be moved: a claim would begin empty, though there are data.
pub fn tell_apart(root: &Path, sources: &[Source]) -> Result<(), String> {
    let storage = root.join(layout::LOCAL_STORAGE);
    let failed = |error: io::Error| {
        format!("cannot tell apart whose the claims in {} are: {error}", storage.display())
    };
    let at = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let at = at.map_err(io::Error::from).map_err(failed)?;
    if matches!(statat(&at, layout::LOCAL_STORAGE, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
        // No claim was ever used; see `begin`.
        return Ok(());
    }
    let claims = walk::make_below(at.as_fd(), &[layout::LOCAL_STORAGE], PRIVATE).map_err(failed)?;
    if statat(&claims, MARK, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    if sources.is_empty() {
        return Ok(());
    }
    if let [source] = sources
        && let Some(own) = layout::claims_of(*source)
    {
        let own = walk::make_below(claims.as_fd(), &[own], PRIVATE).map_err(failed)?;
        move_all(&claims, &own).map_err(failed)?;
    }
    // Without it the next start looks again, and finds nothing to move.
    if let Err(error) = durable::write(&storage.join(MARK), b"") {
        log::warn!("{}: {error}; this is tried again when the daemon begins", storage.join(MARK).display());
    }
    Ok(())
}

/// Before the first claim of a node: its sources are told apart from the beginning.
///
/// # Errors
/// The system's.
pub(super) fn begin(root: &Path) -> io::Result<()> {
    let storage = root.join(layout::LOCAL_STORAGE);
    match DirBuilder::new().mode(PRIVATE).create(&storage) {
        Ok(()) => durable::write(&storage.join(MARK), b""),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// All namespaces; of those that are there already, all claims that are not.
fn move_all(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    for namespace in walk::names(from)?.iter().filter(|name| !name.starts_with('.')) {
        if move_one(from, to, namespace)? {
            continue;
        }
        let open = |at: &OwnedFd| walk::open_below(at.as_fd(), &[namespace.as_str()]);
        if let (Some(from), Some(to)) = (open(from)?, open(to)?) {
            for claim in walk::names(&from)? {
                move_one(&from, &to, &claim)?;
            }
        }
    }
    Ok(())
}

/// False: there is one of that name.
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

    use super::*;

    #[test]
    fn a_node_without_files_keeps_the_claims_of_an_earlier_version_whether_pods_use_them_or_not() {
        let root = crate::cli::scratch("claims-tell-apart");
        let data = |place: &str| fs::read_to_string(root.join("local-storage").join(place)).ok();
        let put = |place: &str, text: &str| {
            let path = root.join("local-storage").join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("default/shared/data", "shared");
        put("default/moved/data", "left behind");
        put("team/drained/data", "drained");
        // A start that was killed after some.
        put(".http/default/moved/data", "moved");
        tell_apart(&root, &[]).unwrap();
        assert_eq!(data("team/drained/data").as_deref(), Some("drained"), "nobody to give it to");
        tell_apart(&root, &[Source::Http]).unwrap();
        assert_eq!(data(".http/default/shared/data").as_deref(), Some("shared"));
        assert_eq!(data(".http/team/drained/data").as_deref(), Some("drained"));
        assert_eq!(data(".http/default/moved/data").as_deref(), Some("moved"));
        assert_eq!(data("default/moved/data").as_deref(), Some("left behind"), "nothing is lost");
        // What the file source's pods write from now on is theirs, also when the node has no such source later.
        put("default/later/data", "file");
        tell_apart(&root, &[Source::Http]).unwrap();
        assert_eq!(data("default/later/data").as_deref(), Some("file"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn claims_of_a_node_with_files_stay_where_they_are() {
        for sources in [&[Source::File][..], &[Source::File, Source::Http]] {
            let root = crate::cli::scratch("claims-stay");
            fs::create_dir_all(root.join("local-storage/default/data")).unwrap();
            tell_apart(&root, sources).unwrap();
            tell_apart(&root, &[Source::Http]).unwrap();
            assert!(root.join("local-storage/default/data").exists());
            fs::remove_dir_all(&root).unwrap();
        }
        let fresh = crate::cli::scratch("claims-fresh");
        tell_apart(&fresh, &[Source::File]).unwrap();
        assert!(!fresh.join("local-storage").exists(), "nothing is written for nothing");
        begin(&fresh).unwrap();
        fs::create_dir_all(fresh.join("local-storage/default/data")).unwrap();
        tell_apart(&fresh, &[Source::Http]).unwrap();
        assert!(fresh.join("local-storage/default/data").exists(), "the file source's since the first start");
        fs::remove_dir_all(&fresh).unwrap();
    }
}
