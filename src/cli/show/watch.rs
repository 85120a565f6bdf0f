//! `get -w`: waits for the daemon to replace a file of its run directory; for pods, prints the rows that changed.
//! It sleeps in the kernel in between and does not poll, but for a few seconds when the directory is gone.

use std::path::{Path, PathBuf};

use inotify::{EventMask, Inotify, WatchMask};
use k8s_openapi::api::core::v1::Pod;

use super::table::List;
use crate::base::clock::{Clock, System};
use crate::base::limits;
use crate::base::logging::one_line;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, write};
use crate::status::columns::{Row, headings};
use crate::status::file::{self, ReadError, Status};

/// Room for many events at once, bytes.
const BUFFER: usize = 4096;

/// A watch on one file of a run directory.
pub struct Watcher {
    inotify: Inotify,
    run_dir: PathBuf,
    name: &'static str,
}

impl Watcher {
    /// Starts watching.
    ///
    /// # Errors
    /// A message for the user.
    pub fn new(run_dir: &Path, name: &'static str) -> Result<Watcher, String> {
        let inotify = Inotify::init().map_err(|e| format!("cannot watch: {e}"))?;
        // A directory lives on as long as a file in it is open: its own end is told late, those of its files at once.
        let ends = WatchMask::DELETE | WatchMask::DELETE_SELF | WatchMask::MOVE_SELF;
        let added = inotify.watches().add(run_dir, ends | WatchMask::MOVED_TO | WatchMask::ONLYDIR);
        added.map_err(|e| format!("cannot watch {}: {e}", run_dir.display()))?;
        Ok(Watcher { inotify, run_dir: run_dir.to_owned(), name })
    }

    /// Prints changed rows until the run directory or the reader is gone.
    pub fn run(mut self, options: &Options, names: &[String], first: &Status, mut list: List) -> Outcome {
        let mut known = rows(first, options, names);
        let mut headed = !known.is_empty();
        loop {
            self.wait()?;
            let status = match file::read(&options.directories.run) {
                Ok(status) => status,
                // The file is replaced again, or removed: the next event tells.
                Err(ReadError::Missing(_)) => continue,
                Err(error) => return Err(error.to_string()),
            };
            let now = rows(&status, options, names);
            let changed = changes(&known, &now);
            let text = render(&changed, options, !headed && !options.command.no_headers, &mut list);
            headed |= !changed.is_empty();
            known = now;
            if !write(&text)? {
                return Ok(Exit::Ok);
            }
        }
    }

    /// Waits until the file may have changed.
    ///
    /// # Errors
    /// A message for the user: the directory is gone, or cannot be watched.
    pub fn wait(&mut self) -> Result<(), String> {
        let mut buffer = [0; BUFFER];
        loop {
            let (mut replaced, mut removed) = (false, false);
            let events = self.inotify.read_events_blocking(&mut buffer);
            for event in events.map_err(|error| format!("cannot watch: {error}"))? {
                let is_of_file = event.name.is_some_and(|name| name == self.name);
                let ends = EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED;
                removed |=
                    event.mask.intersects(ends) || event.mask.contains(EventMask::DELETE) && is_of_file;
                replaced |= event.mask.contains(EventMask::Q_OVERFLOW) || is_of_file;
            }
            if removed {
                return self.again();
            }
            if replaced {
                return Ok(());
            }
        }
    }

    /// Watches the directory that the daemon makes anew when somebody has removed it.
    fn again(&mut self) -> Result<(), String> {
        let looks = limits::RUN_DIR_AGAIN.as_millis() / limits::RUN_DIR_LOOKS.as_millis().max(1);
        for _ in 0..looks {
            // First the watch, so that no change is missed.
            let new = Watcher::new(&self.run_dir, self.name);
            if let Ok(new) = new
                && self.run_dir.join(self.name).exists()
            {
                *self = new;
                return Ok(());
            }
            std::thread::sleep(limits::RUN_DIR_LOOKS);
        }
        Err(format!("{} is gone: podkeeper was stopped", self.run_dir.display()))
    }
}

fn rows(status: &Status, options: &Options, names: &[String]) -> Vec<Row> {
    let (found, _) = pods::select(&status.file, options, names);
    let pods: Vec<&Pod> = found.iter().filter_map(|i| status.file.pods.get(*i)).collect();
    pods.into_iter().map(Row::of).collect()
}

/// Rows that are new or different, and the last form of rows that are gone.
fn changes(known: &[Row], now: &[Row]) -> Vec<Row> {
    let gone = known.iter().filter(|old| !now.iter().any(|new| new.is_same_pod(old)));
    now.iter().filter(|new| !known.contains(new)).chain(gone).cloned().collect()
}

fn render(changed: &[Row], options: &Options, heading: bool, list: &mut List) -> String {
    if options.command.output == Output::Name {
        return changed.iter().map(|row| format!("pod/{}\n", one_line(row.name()))).collect();
    }
    let wide = options.command.output == Output::Wide;
    let now = System::start().now().wall;
    let namespaces = options.command.all_namespaces;
    let rows = changed.iter().map(|row| row.cells(wide, namespaces, now)).collect();
    list.render(heading.then(|| headings(wide, namespaces)), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_printed() {
        let (options, names) = pods::tests::options("get pods");
        let mut status = pods::tests::node();
        let before = rows(&status, &options, &names);
        assert_eq!(changes(&before, &before), []);
        let web = pods::find(&status.file, "default", "web").unwrap();
        status.file.pods[web].metadata.annotations = None;
        assert_eq!(changes(&before, &rows(&status, &options, &names)), [], "no column shows it");
        status.file.pods[web].metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("1970-01-01T00:00:00Z".parse().unwrap()),
        );
        let leaving = rows(&status, &options, &names);
        let changed = changes(&before, &leaving);
        assert_eq!(changed.len(), 1);
        assert!(
            render(&changed, &options, false, &mut List::default())
                .starts_with("web-node1   1/1   Terminating   0")
        );
        status.file.pods.remove(web);
        let gone = changes(&leaving, &rows(&status, &options, &names));
        assert_eq!(gone, changed);
    }

    #[test]
    fn a_replaced_file_wakes_and_a_removed_directory_ends() {
        let dir = crate::base::testing::scratch("watch");
        let mut watcher = Watcher::new(&dir, file::NAME).unwrap();
        file::write_atomically(&dir, file::NAME, b"{}").unwrap();
        watcher.wait().unwrap();
        // Regression: the watch on a directory that was made anew ended, or slept for ever where a file of the old one was open.
        for is_held in [false, true] {
            let held = is_held.then(|| std::fs::File::open(dir.join(file::NAME)).unwrap());
            std::fs::remove_dir_all(&dir).unwrap();
            std::fs::create_dir(&dir).unwrap();
            file::write_atomically(&dir, file::NAME, b"{}").unwrap();
            watcher.wait().unwrap();
            file::write_atomically(&dir, file::NAME, b"{}").unwrap();
            watcher.wait().unwrap();
            drop(held);
        }
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(watcher.wait().unwrap_err().ends_with("is gone: podkeeper was stopped"));
        assert!(Watcher::new(&dir, file::NAME).err().unwrap().contains("No such file"));
    }
}
