//! The list of loaded archives, so that a boot does not load them again: a small file, written atomically and
//! only when the list has changed. A damaged file counts as missing.

use std::io;
use std::path::Path;

use crate::base::json::json;
use serde_json::Value;

use crate::base::checked::{self, Entries};
use crate::base::limits;
use crate::base::table::Table;

/// The attributes by which a changed file is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds of the last change: compared, never ordered.
    pub mtime: (i64, i64),
}

/// One archive that has been loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// Stamp of the file at that time.
    pub stamp: Stamp,
    /// Names (or ids) of its images, as reported by Docker.
    pub images: Vec<String>,
}

/// Loaded archives by file name.
pub type Memory = Table<String, Loaded>;

/// First word of the file; another version has another word.
const FORMAT: &str = "podkeeper-preloaded-1";

fn entries(memory: &Memory) -> Entries {
    let mut files = Entries::new();
    for (name, loaded) in memory {
        let Stamp { size, mtime } = loaded.stamp;
        let file = json!({ "size": size, "mtime": [mtime.0, mtime.1], "images": loaded.images });
        files.insert(name.clone(), file);
    }
    files
}

fn parse(files: &Entries) -> Result<Memory, String> {
    let loaded = |file: &Value| {
        let number = |at| file.pointer(at).and_then(Value::as_i64);
        let images = file.get("images")?.as_array()?.iter().map(|i| i.as_str().map(str::to_owned));
        let stamp =
            Stamp { size: file.get("size")?.as_u64()?, mtime: (number("/mtime/0")?, number("/mtime/1")?) };
        Some(Loaded { stamp, images: images.collect::<Option<_>>()? })
    };
    let mut memory = Memory::new();
    for (name, file) in files {
        memory.insert(name.clone(), loaded(file).ok_or("a file in it has another form")?);
    }
    Ok(memory)
}

/// Reads the file; a missing one is an empty list.
///
/// # Errors
/// The file cannot be read, or is damaged; as text for the operator.
pub fn read(path: &Path) -> Result<Memory, String> {
    parse(&checked::read(path, limits::PRELOAD_MEMORY_BYTES, FORMAT)?)
}

/// Writes the file.
///
/// # Errors
/// Errors of [`checked::write`].
pub fn write(path: &Path, memory: &Memory) -> io::Result<()> {
    checked::write(path, FORMAT, entries(memory))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn memory() -> Memory {
        let loaded = |size, images: &[&str]| Loaded {
            stamp: Stamp { size, mtime: (-5, 999_999_999) },
            images: images.iter().map(|i| (*i).to_owned()).collect(),
        };
        [("a.tar", loaded(u64::MAX / 4, &["x:1", "y:ü"])), ("b \"\n.tar", loaded(0, &[]))]
            .map(|(name, loaded)| (name.to_owned(), loaded))
            .into()
    }

    #[test]
    fn what_is_written_is_read() {
        for memory in [memory(), Memory::new()] {
            assert_eq!(parse(&entries(&memory)), Ok(memory));
        }
    }

    #[test]
    fn an_entry_of_another_form_is_refused() {
        let entry = [("a".to_owned(), json!({ "size": 1 }))];
        assert!(parse(&entry.into_iter().collect()).is_err());
    }

    #[test]
    fn files() {
        let dir = crate::base::testing::scratch("remembered");
        let path = dir.join("preloaded");
        assert_eq!(read(&path), Ok(Memory::new()));
        write(&path, &memory()).unwrap();
        assert_eq!(read(&path), Ok(memory()));
        fs::write(&path, "{}").unwrap();
        assert!(read(&path).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
