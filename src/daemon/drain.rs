//! The marker file of a drained node. It lies below the root directory, so it outlives the daemon and a
//! reboot. `podkeeper drain` writes it, `podkeeper resume` removes it, and the daemon reads it at its start
//! and on SIGHUP.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::base::clock::{Timestamp, boot_id};
use crate::base::durable;
use crate::base::{limits, regular};

/// Name of the marker in the root directory.
const NAME: &str = "drained";

/// The node is to have no running pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// When the drain was requested; identifies the drain.
    pub since: Timestamp,
    /// Upper bound of each pod's grace, in seconds; `None`: each pod has its own.
    pub grace: Option<u32>,
    /// Seconds after which the machine's shutdown continues, even if pods still run; `None`: the shutdown
    /// waits.
    pub within: Option<u32>,
    /// Boot id with which the drain ends; `None`: only `podkeeper resume` ends it.
    pub boot: Option<String>,
}

/// Path of the marker.
#[must_use]
pub fn path(root_dir: &Path) -> PathBuf {
    root_dir.join(NAME)
}

/// Reads the marker. A marker of an earlier boot does not count. A marker that is damaged or cannot be read
/// does count, without a bound on grace: an operator asked for a drain, and no pod may start by mistake.
#[must_use]
pub fn read(root_dir: &Path) -> Option<Drain> {
    let path = path(root_dir);
    match regular::read(&path, limits::DRAIN_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => log::error!("{}: {error}; the node counts as drained", path.display()),
        Ok(bytes) => match parse(&bytes) {
            Some(drain) if drain.boot.is_some() && drain.boot != boot_id() => return None,
            Some(drain) => return Some(drain),
            None => log::error!("{} is damaged; the node counts as drained", path.display()),
        },
    }
    let seconds = fs::symlink_metadata(&path).map(|meta| std::os::unix::fs::MetadataExt::mtime(&meta));
    let since = Timestamp::from_second(seconds.unwrap_or_default()).unwrap_or(Timestamp::UNIX_EPOCH);
    Some(Drain { since, grace: None, within: None, boot: None })
}

fn parse(bytes: &[u8]) -> Option<Drain> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let seconds = |name: &str| match value.get(name) {
        None => Some(None),
        Some(seconds) => u32::try_from(seconds.as_u64()?).ok().map(Some),
    };
    let (grace, within) = (seconds("graceSeconds")?, seconds("withinSeconds")?);
    let boot = match value.get("boot") {
        None => None,
        Some(boot) => Some(boot.as_str()?.to_owned()),
    };
    Some(Drain { since: value.get("since")?.as_str()?.parse().ok()?, grace, within, boot })
}

/// Writes the marker, whole or not at all; the marker is on the disk when this returns.
///
/// # Errors
/// An error of the file system.
pub fn write(root_dir: &Path, drain: &Drain) -> io::Result<()> {
    let mut value = json!({"since": drain.since.to_string()});
    if let Some(map) = value.as_object_mut() {
        map.extend(drain.grace.map(|grace| ("graceSeconds".to_owned(), grace.into())));
        map.extend(drain.within.map(|within| ("withinSeconds".to_owned(), within.into())));
        map.extend(drain.boot.clone().map(|boot| ("boot".to_owned(), boot.into())));
    }
    durable::write(&path(root_dir), format!("{value}\n").as_bytes())
}

/// Removes the marker. Returns whether there was one.
///
/// # Errors
/// An error of the file system.
pub fn remove(root_dir: &Path) -> io::Result<bool> {
    match fs::remove_file(path(root_dir)) {
        Ok(()) => durable::sync_parent(&path(root_dir)).map(|()| true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_the_marker_holds_nobody_up() {
        let dir = crate::base::testing::scratch("drain-pipe");
        crate::base::regular::fifo(&path(&dir));
        assert!(read(&dir).is_some(), "it counts as drained");
        crate::base::regular::fifo(&path(&dir).with_extension(durable::BESIDE));
        let drain = Drain { since: Timestamp::UNIX_EPOCH, grace: None, within: None, boot: None };
        assert_eq!(write(&dir, &drain).unwrap_err().raw_os_error(), Some(6), "ENXIO: nobody reads the pipe");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = crate::base::testing::scratch("drain");
        assert_eq!(read(&dir), None);
        assert!(!remove(&dir).unwrap());
        let since = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        for (grace, within, boot) in [
            (None, None, None),
            (Some(0), None, None),
            (Some(7), None, boot_id()),
            (None, Some(80), boot_id()),
        ] {
            let drain = Drain { since, grace, within, boot };
            write(&dir, &drain).unwrap();
            assert_eq!(read(&dir), Some(drain));
        }
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
        // The marker of an earlier boot.
        write(&dir, &Drain { since, grace: None, within: None, boot: Some("another".into()) }).unwrap();
        assert_eq!(read(&dir), None);
        // A damaged marker counts.
        for text in
            ["", "{", "[]", "{\"since\": 1}", "{\"since\": \"2026-01-02T03:04:05Z\", \"graceSeconds\": -1}"]
        {
            fs::write(path(&dir), text).unwrap();
            assert_eq!(read(&dir).map(|drain| drain.grace), Some(None), "{text}");
        }
        assert!(remove(&dir).unwrap());
        assert_eq!(read(&dir), None);
        fs::remove_dir_all(&dir).unwrap();
    }
}
