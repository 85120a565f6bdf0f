//! Taking a source's store away: what `podkeeper forget` does, whether a daemon runs or not.

use std::fs;
use std::io;
use std::path::Path;

use super::{directory, sealed};
use crate::pod::Source;

/// Takes the store of a source away in one step, then what was in it; answers with the number of
/// remembered contents, or `None` when there is no store.
///
/// # Errors
/// It cannot be taken away.
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
