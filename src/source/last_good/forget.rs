//! Removes a source's store: used by `podkeeper forget`, whether a daemon runs or not.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{directory, sealed, seen};
use crate::base::clock::Timestamp;
use crate::pod::Source;

/// Removes the store of a source in one step, then its files; returns the number of stored contents, or `None` when
/// there is no store.
///
/// # Errors
/// The store cannot be removed.
pub fn forget(root_dir: &Path, source: Source) -> io::Result<Option<usize>> {
    let dir = directory(root_dir, source);
    // A daemon may write at this moment: it must find either the whole directory or none.
    let away = dir.with_extension("forgotten");
    match fs::remove_dir_all(&away) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match fs::rename(&dir, &away) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    }
    let names = fs::read_dir(&away)?.flatten().filter_map(|e| e.file_name().into_string().ok());
    let count = names.filter(|name| sealed::is_name(name)).count();
    fs::remove_dir_all(&away)?;
    Ok(Some(count))
}

/// The contents that [`forget`] would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Number of stored contents, without the record of seen versions.
    pub contents: usize,
    /// Wall time of the last write.
    pub stored: Option<Timestamp>,
}

/// Looks at the store of a source, in this directory; `None` when it is empty.
///
/// # Errors
/// The store cannot be read.
pub fn left(dir: &Path) -> io::Result<Option<Left>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut found: Option<Left> = None;
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_content = sealed::is_name(&name);
        if !is_content && name != seen::NAME {
            continue;
        }
        let stored = entry.metadata().ok().and_then(|meta| Timestamp::from_second(meta.mtime()).ok());
        let left = found.get_or_insert(Left { contents: 0, stored: None });
        left.contents = left.contents.saturating_add(usize::from(is_content));
        left.stored = left.stored.max(stored);
    }
    Ok(found)
}
