//! The names of links. Pure.

use std::path::{Path, PathBuf};

use super::ContainerLog;
use crate::pod::PodKey;

/// Longest file name, bytes (`NAME_MAX`).
const NAME_BYTES: usize = 255;
const SUFFIX: &str = ".log";

/// Both links of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links {
    /// `<ns>_<pod>_<uid>`, below the directory of pods.
    pub pod: String,
    /// The container's directory below it.
    pub container: String,
    /// `<restart count>.log`.
    pub file: String,
    /// `<pod>_<ns>_<container>-<id>.log`, in the directory of containers.
    pub flat: String,
}

impl Links {
    /// `None`: a name is empty, has a slash or starts with a dot. Labels of a container may have any
    /// content.
    pub fn of(key: &PodKey, log: &ContainerLog) -> Option<Links> {
        let parts = [&key.namespace, &key.name, &log.uid, &log.container, &log.id];
        let odd = |part: &&String| part.is_empty() || part.contains(['/', '\0']) || part.starts_with('.');
        if parts.iter().any(odd) {
            return None;
        }
        Some(Links {
            pod: format!("{}_{}_{}", key.namespace, key.name, log.uid),
            container: log.container.clone(),
            file: format!("{}{SUFFIX}", log.attempt),
            flat: flat(key, log),
        })
    }

    /// The link by pod, below `dir`.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(&self.pod).join(&self.container).join(&self.file)
    }
}

/// The first part is cut so that the name is short enough for every file system; the id stays whole.
fn flat(key: &PodKey, log: &ContainerLog) -> String {
    let mut base = format!("{}_{}_{}", key.name, key.namespace, log.container);
    let room = NAME_BYTES.saturating_sub(log.id.len() + 1 + SUFFIX.len());
    let end = (0..=room.min(base.len())).rev().find(|&at| base.is_char_boundary(at)).unwrap_or(0);
    base.truncate(end);
    format!("{base}-{}{SUFFIX}", log.id)
}

/// The id in the name of a link in the directory of containers.
pub(super) fn id_of(flat: &str) -> Option<&str> {
    flat.strip_suffix(SUFFIX)?.rsplit_once('-').map(|(_, id)| id)
}
