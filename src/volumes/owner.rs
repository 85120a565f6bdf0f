//! Whose the volumes in a pod's directory are: a link there says it. Docker may have lost the containers that would say so, and
//! another pod may have been given the UID meanwhile.
//!
//! A link, for its text is whole or not there after a power cut, and costs no block on most file systems. It leads nowhere, and
//! is never followed.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, readlinkat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::manager::Node;
use super::set_up::PRIVATE;
use super::tear_down::{self, Which};
use super::walk;
use crate::layout;
use crate::pod::owner::Owner;
use crate::pod::{DesiredPod, Source};

/// Name of the link before it is in force.
const NEW: &str = "owner~";

/// Makes the pod the owner of its directory, before anything is made in it. What another pod has left there is removed.
/// Returns why the link could not be written for a pod that has what is there: it is tried again.
///
/// # Errors
/// What was left cannot be removed, or an error of the system: the pod must not use what is there.
pub(super) fn take(node: &Node, pod: &DesiredPod) -> Result<Option<String>, String> {
    let root = node.root()?;
    let at = format!("{}/pods/{}", root.display(), pod.uid);
    let failed = |error: io::Error| format!("whose the volumes in {at} are cannot be kept: {error}");
    let wanted = text(pod);
    let directory = open(&root, &pod.uid).map_err(failed)?;
    match found(&directory).map_err(failed)? {
        Some(found) if found == wanted => return Ok(None),
        Some(found) if !is(&found, pod) => {
            tear_down::pod(&root, &pod.uid, Which::All, &mut || node.ends.step(&pod.uid))
                .map_err(|why| format!("what another pod of its UID has left is not removed yet: {why}"))?;
            node.in_memory.forget(&pod.uid);
        }
        // An earlier version of the pod has it, or an older podkeeper has made it: on a full disk it has to do as it is.
        Some(_) => return Ok(write(&directory, &wanted).err().map(failed)),
        None if tear_down::has(&directory, layout::VOLUMES) => {
            return Ok(write(&directory, &wanted).err().map(failed));
        }
        None => {}
    }
    // The directory may have gone with what was left.
    open(&root, &pod.uid).and_then(|directory| write(&directory, &wanted)).map_err(failed).map(|()| None)
}

fn open(root: &std::path::Path, uid: &str) -> io::Result<OwnedFd> {
    if !layout::is_one_name(uid) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let root = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    walk::make_below(root.as_fd(), &["pods", uid], PRIVATE)
}

fn found(directory: &OwnedFd) -> io::Result<Option<String>> {
    match readlinkat(directory, layout::OWNER, Vec::new()) {
        Ok(text) => Ok(Some(text.to_string_lossy().into_owned())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(directory: &OwnedFd, text: &str) -> io::Result<()> {
    walk::gone(unlinkat(directory, NEW, AtFlags::empty()))?;
    symlinkat(text, directory, NEW)?;
    Ok(renameat(directory, NEW, directory, layout::OWNER)?)
}

/// Removes the link, after all volumes.
pub(super) fn remove(directory: &OwnedFd) -> io::Result<()> {
    walk::gone(unlinkat(directory, NEW, AtFlags::empty()))?;
    walk::gone(unlinkat(directory, layout::OWNER, AtFlags::empty()))
}

/// `file default/web 0123456789abcdef`; `-` for a manifest that gives the UID itself.
fn text(pod: &DesiredPod) -> String {
    format!("{} {} {}", pod.source, pod.key, pod.written.as_deref().unwrap_or("-"))
}

fn is(found: &str, pod: &DesiredPod) -> bool {
    let mut words = found.split(' ');
    let (source, key) = (words.next().and_then(Source::parse), words.next().unwrap_or_default());
    let written = words.next().filter(|word| *word != "-").map(str::to_owned);
    key == pod.key.to_string() && source.is_some_and(|source| Owner { source, written }.is(pod))
}
