//! The list of loaded archives, so that a boot does not load them again: a small file, written whole and only
//! when the list changed. The format is pure; a damaged file counts as none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::base::durable;
use crate::base::limits;
use crate::base::regular;

/// Files with equal stamps count as equal.
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
    /// Names (or ids) of its images, as Docker gave them.
    pub images: Vec<String>,
}

/// By file name.
pub type Memory = BTreeMap<String, Loaded>;

/// First word of the file; another version has another word.
const FORMAT: &str = "podkeeper-preloaded-1";

/// The file's bytes.
#[must_use]
pub fn render(memory: &Memory) -> Vec<u8> {
    let mut files = Map::new();
    for (name, loaded) in memory {
        let Stamp { size, mtime } = loaded.stamp;
        let file = json!({ "size": size, "mtime": [mtime.0, mtime.1], "images": loaded.images });
        files.insert(name.clone(), file);
    }
    let body = Value::Object(files).to_string();
    format!("{FORMAT} {}\n{body}\n", checksum(body.as_bytes())).into_bytes()
}

/// Parses a file.
///
/// # Errors
/// It is damaged, or of another version.
pub fn parse(bytes: &[u8]) -> Result<Memory, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (head, body) = text.split_once('\n').ok_or("its first line is cut off")?;
    let sum = head.strip_prefix(FORMAT).ok_or("it has another format")?.trim();
    let body = body.strip_suffix('\n').ok_or("it is cut off")?;
    if sum != checksum(body.as_bytes()) {
        return Err("its checksum is wrong");
    }
    let value: Value = serde_json::from_str(body).map_err(|_| "it is not JSON")?;
    let files = value.as_object().ok_or("it holds no files")?;
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

fn checksum(bytes: &[u8]) -> String {
    hmac_sha256::Hash::hash(bytes).iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Reads the file; a missing one is an empty list.
///
/// # Errors
/// In words for the operator: it cannot be read, or is damaged.
pub fn read(path: &Path) -> Result<Memory, String> {
    match regular::read(path, limits::PRELOAD_MEMORY_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Memory::new()),
        Err(error) => Err(error.to_string()),
        Ok(bytes) => parse(&bytes).map_err(str::to_owned),
    }
}

/// Writes the file.
///
/// # Errors
/// Those of [`durable::write`].
pub fn write(path: &Path, memory: &Memory) -> io::Result<()> {
    durable::write(path, &render(memory))
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
            assert_eq!(parse(&render(&memory)), Ok(memory));
        }
    }

    /// kubernetes/kubernetes#135711: a torn state file.
    #[test]
    fn k135711_a_damaged_file_is_told_and_nothing_else() {
        let bytes = render(&memory());
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut]).is_err(), "{cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1;
            assert!(parse(&flipped).is_err(), "{cut}");
            let mut zeros = bytes.clone();
            zeros[cut..].fill(0);
            assert!(parse(&zeros).is_err(), "{cut}");
        }
        let signed = |body: &str| format!("{FORMAT} {}\n{body}\n", checksum(body.as_bytes()));
        assert!(parse(signed(r#"{"a":{"size":1}}"#).as_bytes()).is_err());
        assert!(parse(signed("[]").as_bytes()).is_err());
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
