//! A disk in memory, which the real scanner reads.

use super::*;

/// A directory of files in memory. Clones share it.
#[derive(Clone, Default)]
pub(super) struct SimDisk(pub(super) Arc<Mutex<Files>>);

#[derive(Default)]
pub(super) struct Files {
    pub(super) files: BTreeMap<PathBuf, (String, Stamp)>,
    inode: u64,
    pub(super) unreadable: bool,
}

impl SimDisk {
    pub(super) fn write(&self, path: &str, text: &str, now: &Now) {
        let mut disk = self.0.lock().unwrap();
        disk.inode += 1;
        let changed = now.wall.as_nanosecond();
        let size = text.len() as u64;
        let stamp = Stamp { file: (1, disk.inode), size, modified: changed, changed };
        disk.files.insert(path.into(), (text.to_owned(), stamp));
    }

    fn whole(&self) -> io::Result<std::sync::MutexGuard<'_, Files>> {
        let disk = self.0.lock().unwrap();
        if disk.unreadable { Err(io::ErrorKind::TimedOut.into()) } else { Ok(disk) }
    }
}

impl Disk for SimDisk {
    fn find(&self, path: &Path) -> io::Result<Found> {
        let disk = self.whole()?;
        match disk.files.get(path) {
            Some((_, stamp)) => Ok(Found::File(*stamp)),
            None if path == Path::new(DIRECTORY) || path.ends_with("..") => Ok(Found::Directory(1)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_link(&self, _path: &Path) -> bool {
        false
    }

    fn names(&self, _directory: &Path, each: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        self.whole()?.files.keys().filter_map(|path| path.file_name()).for_each(each);
        Ok(())
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<Reading> {
        let disk = self.whole()?;
        let (text, stamp) = disk.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        assert!(text.len() <= limit);
        Ok(Reading { content: text.clone().into_bytes().into(), stamp: Some(*stamp) })
    }
}
