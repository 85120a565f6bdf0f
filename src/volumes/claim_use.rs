//! Which pod uses which claim: recorded as a link in the pod's directory, which is never followed. Its text
//! is the claim's source, namespace and name.
//!
//! Up to version 0.1 all sources had their claims in one place, and the link's text was that place's path.
//! Such a link is the only evidence of the data's owner; see [`Use::adopt`].

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, readlinkat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::set_up::PRIVATE;
use super::{tear_down, walk};
use crate::layout;
use crate::pod::Source;

/// A pod that is about to use a claim.
pub(super) struct Use<'a> {
    /// Root directory, without links.
    pub root: &'a Path,
    /// UID of the pod.
    pub uid: &'a str,
    /// Source of the pod and of the claim.
    pub source: Source,
    /// Namespace of both.
    pub namespace: &'a str,
    /// Name of the claim.
    pub name: &'a str,
}

impl Use<'_> {
    fn words(&self) -> String {
        layout::claim_use(self.source, self.namespace, self.name)
    }

    /// The place of all sources' claims of this name in earlier versions; it is still the file source's
    /// place.
    fn former_place(&self) -> Result<PathBuf, String> {
        let parts = layout::claim(Source::File, self.namespace, self.name);
        layout::below(self.root, &parts).ok_or_else(|| format!("{:?} is no name", self.name))
    }

    /// Another pod that uses the claim, or, with `former`, the data at the former place. A link of an earlier
    /// version may mean this claim.
    ///
    /// # Errors
    /// The users cannot be determined.
    pub(super) fn other_user(&self, former: bool) -> Result<Option<String>, String> {
        let source = if former { Source::File } else { self.source };
        let words = layout::claim_use(source, self.namespace, self.name);
        let path = self.former_place()?;
        let all = [words.as_bytes(), path.as_os_str().as_encoded_bytes()];
        tear_down::user_of(self.root, self.uid, self.name, &all).map_err(|error| {
            format!(
                "cannot find out whether another pod uses PersistentVolumeClaim {}/{}: {error}; the volume is \
                 not set up, and this is tried again",
                self.namespace, self.name
            )
        })
    }

    /// Whether the data may still be in the place of an earlier version, so that the claim would start empty.
    pub(super) fn is_left(&self, root: &OwnedFd) -> bool {
        let is_there = |source| is_there(root, &layout::claim(source, self.namespace, self.name).join("/"));
        !is_there(self.source) && is_there(Source::File)
    }

    /// Moves the data of this pod's claim from the former place, if its own link from an earlier version
    /// shows that no other pod uses them. A claim whose pod is not on this node stays where it is. Returns a
    /// note for the operator if the claim starts empty beside data that may belong to it.
    ///
    /// # Errors
    /// The data cannot be moved.
    pub(super) fn adopt(&self, root: &OwnedFd, users: &OwnedFd) -> Result<Option<String>, String> {
        if self.source == Source::File {
            return Ok(None);
        }
        let former = self.former_place()?;
        let parts = layout::claim(self.source, self.namespace, self.name);
        let failed = |error: io::Error| {
            format!("cannot move {} to the claims of source {}: {error}", former.display(), self.source)
        };
        let from = layout::claim(Source::File, self.namespace, self.name).join("/");
        if !self.is_left(root) {
            return Ok(None);
        }
        let had = readlinkat(users, self.name, Vec::new());
        let had = had.is_ok_and(|link| link.to_bytes() == former.as_os_str().as_encoded_bytes());
        if !had || self.other_user(true)?.is_some() {
            return Ok(Some(format!(
                "PersistentVolumeClaim {}/{} of source {} begins empty: what is in {} is the file source's, or of \
                 an earlier version and perhaps another pod's; if it is this claim's, stop the pod and move it to {}",
                self.namespace,
                self.name,
                self.source,
                former.display(),
                self.root.join(parts.join("/")).display()
            )));
        }
        let above = parts.split_last().map(|(_, above)| above).unwrap_or_default();
        walk::make_below(root.as_fd(), above, PRIVATE).map_err(failed)?;
        match renameat(root, from, root, parts.join("/")) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Makes the link.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn mark(&self, users: &OwnedFd) -> io::Result<()> {
        let words = self.words();
        match symlinkat(&words, users, self.name) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        if readlinkat(users, self.name, Vec::new()).is_ok_and(|link| link.to_bytes() == words.as_bytes()) {
            return Ok(());
        }
        // A death here is harmless: no container uses the claim yet.
        unlinkat(users, self.name, AtFlags::empty())?;
        Ok(symlinkat(&words, users, self.name)?)
    }
}

fn is_there(root: &OwnedFd, path: &str) -> bool {
    statat(root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
