//! The marker file of a drained node. It lies below the root directory, so it outlives the daemon and a
//! reboot; where that cannot be written, one that ends with the boot lies in the run directory. `podkeeper drain` writes
//! it, `podkeeper resume` removes it, and the daemon reads it at its start and on SIGHUP.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::base::json::json;
use serde_json::Value;

use crate::base::clock::{Timestamp, boot_id};
use crate::base::durable;
use crate::base::{limits, regular};

/// Name of the marker in the root directory.
const NAME: &str = "drained";
/// Name of the marker in the run directory. Another one, because both directories may be the same.
const OF_BOOT: &str = "drained-until-reboot";
/// [`By::Shutdown`] in the marker.
const SHUTDOWN: &str = "shutdown";

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

/// The party that wants the drain. A shutdown that ends no boot (`systemctl soft-reboot`, another target and back) leaves its
/// marker behind, and the unit that made it takes it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Operator,
    /// `drain --shutdown`.
    Shutdown,
}

/// The directories that a marker may be in.
#[derive(Debug, Clone)]
pub struct Places {
    pub root: PathBuf,
    /// Only for a marker that ends with the boot, where the root directory takes none.
    pub run: PathBuf,
}

impl Places {
    fn all(&self) -> [PathBuf; 2] {
        // The one in the run directory is the later one: it is removed when one can be written to the root directory.
        [self.run.join(OF_BOOT), self.root.join(NAME)]
    }
}

/// Path of the marker in the root directory.
#[must_use]
pub fn path(root_dir: &Path) -> PathBuf {
    root_dir.join(NAME)
}

/// Reads the marker. A marker of an earlier boot does not count. A marker that is damaged or cannot be read
/// does count, without a bound on grace: an operator asked for a drain, and no pod may start by mistake.
#[must_use]
pub fn read(places: &Places) -> Option<Drain> {
    standing(places).next().map(|(drain, _)| drain)
}

/// Like [`read`], with the origin; then a marker that this one covers.
pub fn standing(places: &Places) -> impl Iterator<Item = (Drain, By)> {
    places.all().into_iter().filter_map(|path| read_one(&path))
}

fn read_one(path: &Path) -> Option<(Drain, By)> {
    match regular::read(path, limits::DRAIN_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => log::error!("{}: {error}; the node counts as drained", path.display()),
        Ok(bytes) => match parse(&bytes) {
            Some((drain, _)) if drain.boot.is_some() && drain.boot != boot_id() => return None,
            Some(found) => return Some(found),
            None => log::error!("{} is damaged; the node counts as drained", path.display()),
        },
    }
    let seconds = fs::symlink_metadata(path).map(|meta| std::os::unix::fs::MetadataExt::mtime(&meta));
    let since = Timestamp::from_second(seconds.unwrap_or_default()).unwrap_or(Timestamp::UNIX_EPOCH);
    Some((Drain { since, grace: None, within: None, boot: None }, By::Operator))
}

fn parse(bytes: &[u8]) -> Option<(Drain, By)> {
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
    let by =
        if value.get("by").and_then(Value::as_str) == Some(SHUTDOWN) { By::Shutdown } else { By::Operator };
    Some((Drain { since: value.get("since")?.as_str()?.parse().ok()?, grace, within, boot }, by))
}

/// Writes the marker, whole or not at all; the marker is on the disk when this returns. On a disk that is full or
/// read-only the run directory takes one that is to end with this boot. `make` is asked when no other process writes it, and
/// sees what stands then.
///
/// # Errors
/// An error of the root directory's file system.
pub fn write(places: &Places, this_boot: Option<&str>, make: impl Fn() -> (Drain, By)) -> io::Result<()> {
    let [of_boot, path] = places.all();
    let put = |path: &Path, boot: Option<&str>| {
        durable::write_in_turn(path, || {
            let (drain, by) = make();
            let boot = boot.map(str::to_owned).or(drain.boot);
            text(&Drain { boot, ..drain }, by).into_bytes()
        })
    };
    match put(&path, None) {
        Ok(()) => durable::remove(&of_boot),
        Err(error) if this_boot.is_some() => put(&of_boot, this_boot).map_err(|_| error),
        Err(error) => Err(error),
    }
}

fn text(drain: &Drain, by: By) -> String {
    let mut value = json!({"since": drain.since.to_string()});
    if let Some(map) = value.as_object_mut() {
        map.extend(drain.grace.map(|grace| ("graceSeconds".to_owned(), grace.into())));
        map.extend(drain.within.map(|within| ("withinSeconds".to_owned(), within.into())));
        map.extend(drain.boot.clone().map(|boot| ("boot".to_owned(), boot.into())));
        map.extend((by == By::Shutdown).then(|| ("by".to_owned(), SHUTDOWN.into())));
    }
    format!("{value}\n")
}

/// Removes the marker. Returns whether there was one.
///
/// # Errors
/// An error of the file system.
pub fn remove(places: &Places) -> io::Result<bool> {
    remove_each(places, |_| true)
}

/// Removes the marker that a shutdown has made in this boot. Returns whether there was one.
///
/// # Errors
/// An error of the file system.
pub fn undo_shutdown(places: &Places) -> io::Result<bool> {
    let is_its_own =
        |path: &Path| read_one(path).is_some_and(|(drain, by)| by == By::Shutdown && drain.boot.is_some());
    remove_each(places, is_its_own)
}

/// The root directory comes first: where it keeps its marker, the node stays drained as it was.
fn remove_each(places: &Places, is_meant: impl Fn(&Path) -> bool) -> io::Result<bool> {
    let mut any = false;
    for path in places.all().iter().rev().filter(|path| is_meant(path)) {
        match fs::remove_file(path) {
            Ok(()) => durable::sync_parent(path)?,
            // A read-only file system does not tell that there is none.
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem && !path.exists() => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        any = true;
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dir: &Path) -> Places {
        Places { root: dir.to_owned(), run: dir.join("run") }
    }

    #[test]
    fn a_pipe_in_the_place_of_the_marker_holds_nobody_up() {
        let dir = crate::base::testing::scratch("drain-pipe");
        crate::base::regular::fifo(&path(&dir));
        assert!(read(&at(&dir)).is_some(), "it counts as drained");
        crate::base::regular::fifo(&path(&dir).with_extension(durable::BESIDE));
        let drain = Drain { since: Timestamp::UNIX_EPOCH, grace: None, within: None, boot: None };
        assert_eq!(
            write(&at(&dir), None, || (drain.clone(), By::Operator)).unwrap_err().raw_os_error(),
            Some(6),
            "ENXIO: nobody reads the pipe"
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_temporary_file_of_another_process_stays() {
        let dir = crate::base::testing::scratch("drain-locked");
        let beside = path(&dir).with_extension(durable::BESIDE);
        let other = fs::File::create(&beside).unwrap();
        rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let drain = Drain { since: Timestamp::UNIX_EPOCH, grace: None, within: None, boot: None };
        let error = write(&at(&dir), None, || (drain.clone(), By::Operator)).unwrap_err();
        let why = format!("another process is writing it, and has locked {}", beside.display());
        assert_eq!(error.to_string(), why);
        assert!(beside.exists() && read(&at(&dir)).is_none());
        drop(other);
        write(&at(&dir), None, || (drain.clone(), By::Operator)).unwrap();
        assert_eq!((beside.exists(), read(&at(&dir))), (false, Some(drain)));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = crate::base::testing::scratch("drain");
        let places = at(&dir);
        assert_eq!(read(&places), None);
        assert!(!remove(&places).unwrap());
        let since = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        for (grace, within, boot) in [
            (None, None, None),
            (Some(0), None, None),
            (Some(7), None, boot_id()),
            (None, Some(80), boot_id()),
        ] {
            for by in [By::Operator, By::Shutdown] {
                let drain = Drain { since, grace, within, boot: boot.clone() };
                write(&places, None, || (drain.clone(), by)).unwrap();
                assert_eq!(standing(&places).collect::<Vec<_>>(), [(drain.clone(), by)]);
                assert_eq!(read(&places), Some(drain));
            }
        }
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
        // The marker of an earlier boot.
        let earlier = Drain { since, grace: None, within: None, boot: Some("another".into()) };
        write(&places, None, || (earlier.clone(), By::Operator)).unwrap();
        assert_eq!(read(&places), None);
        // A damaged marker counts.
        for text in
            ["", "{", "[]", "{\"since\": 1}", "{\"since\": \"2026-01-02T03:04:05Z\", \"graceSeconds\": -1}"]
        {
            fs::write(path(&dir), text).unwrap();
            assert_eq!(read(&places).map(|drain| drain.grace), Some(None), "{text}");
        }
        assert!(remove(&places).unwrap());
        assert_eq!(read(&places), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_run_directory_has_the_marker_of_this_boot_where_the_root_directory_takes_none() {
        let dir = crate::base::testing::scratch("drain-places");
        let places = Places { root: dir.join("root"), run: dir.join("run") };
        for dir in [&places.root, &places.run] {
            fs::create_dir(dir).unwrap();
        }
        let (boot, since) = (boot_id(), Timestamp::UNIX_EPOCH);
        let endless = Drain { since, grace: None, within: None, boot: None };
        write(&places, None, || (endless.clone(), By::Operator)).unwrap();
        // Nothing can be written beside it.
        let in_the_way = path(&places.root).with_extension(durable::BESIDE);
        fs::create_dir(&in_the_way).unwrap();
        assert!(
            write(&places, None, || (endless.clone(), By::Operator)).is_err(),
            "it would end with the boot"
        );
        let asked = Drain { within: Some(80), ..endless.clone() };
        write(&places, boot.as_deref(), || (asked.clone(), By::Shutdown)).unwrap();
        let of_boot = Drain { boot: boot.clone(), ..asked.clone() };
        assert_eq!(
            standing(&places).collect::<Vec<_>>(),
            [(of_boot.clone(), By::Shutdown), (endless.clone(), By::Operator)]
        );
        // A shutdown undoes its own alone.
        assert!(undo_shutdown(&places).unwrap());
        assert_eq!((read(&places), undo_shutdown(&places).unwrap()), (Some(endless), false));
        // A marker in the root directory replaces the other one, and both are removed.
        write(&places, boot.as_deref(), || (asked.clone(), By::Shutdown)).unwrap();
        fs::remove_dir(&in_the_way).unwrap();
        write(&places, boot.as_deref(), || (of_boot.clone(), By::Operator)).unwrap();
        assert_eq!(standing(&places).collect::<Vec<_>>(), [(of_boot, By::Operator)]);
        fs::write(places.run.join(OF_BOOT), "").unwrap();
        assert!(remove(&places).unwrap());
        assert_eq!(read(&places), None);
        fs::remove_dir_all(&dir).unwrap();
    }
}
