//! Directories of volumes that images declare. They go with the pod's volumes.
//!
//! Never here: which volumes there are (`mapping/image_volumes`).

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat, renameat};
use rustix::io::Errno;

use super::set_up::PRIVATE;
use super::walk::{self, DIRECTORY};
use crate::layout;

/// Everybody in the container may write, as to an emptyDir: what the image says of the place is not known here.
const OPEN: u32 = 0o777;

/// Makes the directory, unless an earlier run of the container has it.
///
/// # Errors
/// A name is none, something else is in its place, or an error of the system.
pub fn make(root: &Path, uid: &str, name: &str) -> io::Result<()> {
    let parts = layout::image_volume(uid, name);
    let Some((last, above)) = parts.split_last().filter(|_| layout::below(root, &parts).is_some()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let root = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let at = walk::make_below(root.as_fd(), above, PRIVATE)?;
    match openat(&at, *last, DIRECTORY, Mode::empty()) {
        // The container may have changed its mode.
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let new = format!("{last}~");
    match mkdirat(&at, new.as_str(), Mode::from_raw_mode(OPEN)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Independent of the umask; renamed afterwards, because the daemon may be killed between the two.
    fchmod(&openat(&at, new.as_str(), DIRECTORY, Mode::empty())?, Mode::from_raw_mode(OPEN))?;
    Ok(renameat(&at, new.as_str(), &at, *last)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_is_open_to_all_users_and_goes_with_the_pod() {
        let root = crate::base::testing::temporary().join(format!("podkeeper-image-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let at = layout::below(&root, &layout::image_volume("u", "app~1")).unwrap();
        // As a daemon leaves it that was killed.
        std::fs::create_dir_all(at.with_file_name("app~1~")).unwrap();
        make(&root, "u", "app~1").unwrap();
        let mode = || std::fs::metadata(&at).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(), OPEN);
        std::fs::write(at.join("kept"), "x").unwrap();
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o700)).unwrap();
        make(&root, "u", "app~1").unwrap();
        assert!(at.join("kept").exists(), "the next run of the container has it, too");
        assert_eq!(mode(), 0o700, "a database wants it so");
        for (uid, name) in [("u", ".."), ("..", "a"), ("u", "a/b")] {
            assert_eq!(make(&root, uid, name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        std::os::unix::fs::symlink("/", at.with_file_name("app~2")).unwrap();
        assert!(make(&root, "u", "app~2").is_err());
        super::super::tear_down::pod(&root, "u", super::super::tear_down::Which::All, &mut || {}).unwrap();
        assert!(!root.join("pods/u").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
