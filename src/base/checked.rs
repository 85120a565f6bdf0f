//! podkeeper's own small files: a line with the format's name and a checksum, then one JSON object in one
//! line. They are written atomically.
//!
//! Never here: a secret. These files are not sealed.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::{durable, hex, regular};

/// The entries of a file.
pub type Entries = Map<String, Value>;

fn render(format: &str, entries: Entries) -> Vec<u8> {
    let body = Value::Object(entries).to_string();
    format!("{format} {}\n{body}\n", hex::sha256(body.as_bytes())).into_bytes()
}

fn parse(format: &str, bytes: &[u8]) -> Result<Entries, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (head, body) = text.split_once('\n').ok_or("its first line is cut off")?;
    let sum = head.strip_prefix(format).ok_or("it has another format")?.trim();
    let body = body.strip_suffix('\n').ok_or("it is cut off")?;
    if sum != hex::sha256(body.as_bytes()) {
        return Err("its checksum is wrong");
    }
    match serde_json::from_str(body) {
        Ok(Value::Object(entries)) => Ok(entries),
        Ok(_) => Err("it holds no JSON object"),
        Err(_) => Err("it is not JSON"),
    }
}

/// Reads a file of at most `limit` bytes; a missing one has no entries. `format` is its first word; each
/// version has its own.
///
/// # Errors
/// The reason, for the operator: the file cannot be read, is damaged, or has another format.
pub fn read(path: &Path, limit: usize, format: &str) -> Result<Entries, String> {
    look(path, limit, format).map_err(|(why, _)| why)
}

/// Like [`read`].
///
/// # Errors
/// The reason, and whether the file may still be intact because it only cannot be read now.
pub fn look(path: &Path, limit: usize, format: &str) -> Result<Entries, (String, bool)> {
    match regular::read_patiently(path, limit) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::new()),
        Err(error) => Err((error.to_string(), regular::is_trouble(&error))),
        Ok(bytes) => parse(format, &bytes).map_err(|why| (why.to_owned(), false)),
    }
}

/// Writes a file.
///
/// # Errors
/// Errors of [`durable::write`].
pub fn write(path: &Path, format: &str, entries: Entries) -> io::Result<()> {
    durable::write(path, &render(format, entries))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORMAT: &str = "podkeeper-test-1";

    fn entries() -> Entries {
        [("b \"\n", json!({ "n": u64::MAX })), ("a", json!(["ü"]))]
            .map(|(k, v)| (k.to_owned(), v))
            .into_iter()
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for entries in [entries(), Entries::new()] {
            assert_eq!(parse(FORMAT, &render(FORMAT, entries.clone())), Ok(entries));
        }
        // Files of earlier versions must stay readable.
        let sum = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(render(FORMAT, Entries::new()), format!("{FORMAT} {sum}\n{{}}\n").into_bytes());
        let list = format!("{FORMAT} {}\n[]\n", hex::sha256(b"[]"));
        assert_eq!(parse(FORMAT, list.as_bytes()), Err("it holds no JSON object"));
    }

    /// kubernetes/kubernetes#135711: a torn state file.
    #[test]
    fn k135711_a_damaged_file_is_told_and_nothing_else() {
        let bytes = render(FORMAT, entries());
        for cut in 0..bytes.len() {
            assert!(parse(FORMAT, &bytes[..cut]).is_err(), "{cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1;
            assert!(parse(FORMAT, &flipped).is_err(), "{cut}");
            let mut zeros = bytes.clone();
            zeros[cut..].fill(0);
            assert!(parse(FORMAT, &zeros).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_missing_file_has_no_entries() {
        let dir = crate::base::testing::scratch("checked");
        let path = dir.join("file");
        assert_eq!(read(&path, 1000, FORMAT), Ok(Entries::new()));
        write(&path, FORMAT, entries()).unwrap();
        assert_eq!(read(&path, 1000, FORMAT), Ok(entries()));
        std::fs::write(&path, "{}").unwrap();
        assert!(read(&path, 1000, FORMAT).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
