//! The records of attached pods on the disk: `<cache dir>/results/<network>-<sandbox>-eth0`, as with libcni.
//!
//! Never here: changing a file whose name is not that of a record.

use std::io;
use std::path::{Path, PathBuf};

use super::call::INTERFACE;
use super::record::{Record, suffix};
use crate::base::{durable, limits, order, regular};

/// A sandbox's record on the disk.
#[derive(Debug, PartialEq)]
pub enum Kept {
    Nothing,
    /// A file that cannot be read.
    Damaged(PathBuf),
    Record(Box<Record>, PathBuf),
}

/// The directory of the records.
#[must_use]
pub fn directory(cache_dir: &Path) -> PathBuf {
    cache_dir.join("results")
}

/// Finds the record of this sandbox, on any network.
///
/// # Errors
/// The directory cannot be read.
pub fn find(cache_dir: &Path, sandbox: &str) -> Result<Kept, String> {
    let end = suffix(sandbox);
    let of_it = names(cache_dir)?.into_iter().find(|name| name.ends_with(&end));
    let Some(name) = of_it else { return Ok(Kept::Nothing) };
    let path = directory(cache_dir).join(name);
    Ok(match regular::read(&path, limits::CNI_RECORD).ok().and_then(|bytes| Record::decode(&bytes)) {
        Some(record) if record.sandbox == sandbox => Kept::Record(Box::new(record), path),
        _ => Kept::Damaged(path),
    })
}

/// All readable records, of every runtime.
#[must_use]
pub fn all(cache_dir: &Path) -> Vec<(Record, PathBuf)> {
    let names = names(cache_dir).unwrap_or_default();
    let paths = names.into_iter().map(|name| directory(cache_dir).join(name));
    let read = |path: PathBuf| {
        let bytes = regular::read(&path, limits::CNI_RECORD).ok()?;
        Some((Record::decode(&bytes)?, path))
    };
    paths.filter_map(read).collect()
}

/// Sandboxes and interfaces on this network, of every runtime; `None` when a record of the network cannot be read.
#[must_use]
pub fn attached(cache_dir: &Path, network: &str) -> Option<Vec<(String, String)>> {
    let files = names(cache_dir).ok()?;
    let files =
        files.iter().filter(|name| name.strip_prefix(network).is_some_and(|rest| rest.starts_with('-')));
    let records = all(cache_dir).into_iter().map(|(record, _)| record);
    let of_it: Vec<Record> = records.filter(|record| record.list.name == network).collect();
    let valid = of_it.iter().map(|record| (record.sandbox.clone(), INTERFACE.to_owned())).collect();
    (files.count() == of_it.len()).then_some(valid)
}

fn names(cache_dir: &Path) -> Result<Vec<String>, String> {
    let dir = directory(cache_dir);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", dir.display())),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| !name.starts_with('.')).take(limits::CNI_RECORDS).collect();
    order::sort(&mut names);
    Ok(names)
}

/// Writes a record; it is on the disk when this returns.
///
/// # Errors
/// The reason.
pub fn write(cache_dir: &Path, record: &Record) -> Result<(), String> {
    let dir = directory(cache_dir);
    let path = dir.join(record.file_name());
    let write = || {
        std::fs::create_dir_all(cache_dir)?;
        durable::make_directory(&dir)?;
        // A network's name may have dots: the temporary file is named after the sandbox, which is unique.
        durable::write_by(&path, &dir.join(format!(".{}.tmp", record.sandbox)), &record.encode())
    };
    write().map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a record.
///
/// # Errors
/// The reason.
pub fn remove(path: &Path) -> Result<(), String> {
    durable::remove(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::conf;
    use super::*;
    use crate::base::testing::scratch;

    fn record(network: &str, sandbox: &str) -> Record {
        let text = format!(r#"{{"name":"{network}","plugins":[{{"type":"bridge"}}]}}"#);
        Record {
            sandbox: sandbox.into(),
            list: conf::parse(text.as_bytes(), true).unwrap(),
            netns: String::new(),
            arguments: Vec::new(),
            capabilities: Map::new(),
            result: Some(json!({})),
            root_dir: None,
        }
    }

    #[test]
    fn records_are_found_by_sandbox() {
        let dir = scratch("cni-cache");
        assert_eq!(find(&dir, "a"), Ok(Kept::Nothing));
        // Networks with a dot in their names do not share a temporary file.
        let (one, two) = (record("net.one", "a"), record("net.two", "b"));
        for record in [&one, &two, &one] {
            write(&dir, record).unwrap();
        }
        assert_eq!(all(&dir).into_iter().map(|(record, _)| record).collect::<Vec<_>>(), [one.clone(), two]);
        let Kept::Record(found, path) = find(&dir, "a").unwrap() else { panic!() };
        assert_eq!((*found, path.file_name().unwrap().to_str().unwrap()), (one, "net.one-a-eth0"));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(find(&dir, "a"), Ok(Kept::Damaged(path.clone())));
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(find(&dir, "a"), Ok(Kept::Nothing));
        // A record that names another sandbox.
        std::fs::write(directory(&dir).join("net.two-c-eth0"), record("net.two", "b").encode()).unwrap();
        assert!(matches!(find(&dir, "c"), Ok(Kept::Damaged(_))));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
