//! Tests of the whole source on real directories with the real inotify. Each wait is for a condition.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use crossbeam_channel::{Receiver, unbounded};

use super::*;
use crate::pod::Source;
use crate::source::SourceUpdate;
use crate::source::accept::Acceptor;
use crate::source::last_good::LastGood;
use crate::source::last_good::saver::tests::on_a_dead_disk;
use crate::source::testing::{TempDir, decode, place, words};
use crate::source::watch::Opener;

const NEVER: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(30);

/// A running source and its updates. The handle is dropped first, while the channel is still open.
struct Live {
    source: FileSource,
    updates: Receiver<FromSource>,
    said: Vec<String>,
}

/// A store that cannot store anything: that may only cause a log line.
fn no_store() -> LastGood {
    LastGood::new(Path::new("/nonexistent"), None, Source::File)
}

impl Live {
    fn with(path: &Path, frequency: Duration, open: Opener, settle: Duration) -> Live {
        Live::storing(path, frequency, open, settle, no_store())
    }
    fn storing(
        path: &Path,
        frequency: Duration,
        open: Opener,
        settle: Duration,
        store: impl Into<Saver>,
    ) -> Live {
        let (sender, updates) = unbounded();
        let mut scanner = Scanner::new(path.to_owned(), Acceptor::new(Source::File, "node1".into()));
        scanner.acceptor.decode = decode;
        scanner.settle = settle;
        let watch = Watch::new(path.to_owned(), open);
        let sink: Sink = Box::new(move |update| sender.send(update).is_ok());
        let source =
            FileSource::spawn(scanner, watch, frequency, store.into(), sink, Pulses::default()).unwrap();
        Live { source, updates, said: Vec::new() }
    }
    fn start(path: &Path) -> Live {
        Live::with(path, NEVER, Inotify::init, limits::SCAN_SETTLE)
    }
    fn next(&mut self) -> &str {
        let from = loop {
            let from = self.updates.recv_timeout(PATIENCE);
            let from = from.unwrap_or_else(|_| panic!("silent after {:?}", self.said));
            assert_eq!(from.source, Source::File);
            // Updates of the store have tests of their own.
            if !matches!(from.update, SourceUpdate::Store(_)) {
                break from;
            }
        };
        self.said.push(words(&from.update));
        self.said.last().unwrap()
    }
    /// Waits for exactly this update.
    fn until(&mut self, expected: &str) {
        while self.next() != expected {}
    }
    /// Waits for a failure.
    fn until_failed(&mut self) {
        while !self.next().starts_with("Failed(") {}
    }
}

#[test]
fn files_come_change_and_go() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let mut live = Live::start(&dir);
    assert_eq!(live.next(), "");
    place(&temp, &dir.join("a.yaml"), "pod a");
    live.until("a");
    fs::write(dir.join("b.json"), "pod b").unwrap();
    live.until("a b");
    place(&temp, &dir.join("a.yaml"), "pod x");
    live.until("x b");
    fs::remove_file(dir.join("a.yaml")).unwrap();
    live.until("b");
    fs::rename(dir.join("b.json"), temp.path("away")).unwrap();
    live.until("");
}

#[test]
fn k252_a_byte_by_byte_writer_is_waited_for() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    // Two equal looks never suffice here: a slow test must not take the writer's pause for the end.
    let mut live = Live::with(&dir, NEVER, Inotify::init, NEVER);
    live.until("");
    let mut writer = File::create(dir.join("z.yaml")).unwrap();
    for (n, byte) in b"pod name\npod second".iter().enumerate() {
        writer.write_all(&[*byte]).unwrap();
        // Another file makes the source look at the incomplete one each time.
        place(&temp, &dir.join("a.yaml"), &format!("pod a{n}"));
        live.until(&format!("a{n}; broken {}/z.yaml", dir.display()));
    }
    drop(writer);
    live.until("a18 name second");
    let half = |said: &&String| said.contains(" name") && !said.contains(" name second");
    assert_eq!(live.said.iter().filter(half).count(), 0);
}

#[test]
fn k252_a_writer_that_truncates_and_writes_again() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let file = dir.join("a.yaml");
    place(&temp, &file, "pod a");
    let mut live = Live::start(&dir);
    live.until("a");
    for n in 0..20 {
        fs::write(&file, "").unwrap();
        fs::write(&file, format!("pod a{n}")).unwrap();
        live.until(&format!("a{n}"));
    }
    // An empty file that stays is broken.
    fs::write(&file, "").unwrap();
    live.until(&format!("a19; broken {0}; {0}: is empty", file.display()));
    assert!(!live.said.iter().skip(1).any(|said| said.is_empty()), "{:?}", live.said);
}

#[test]
fn k136962_backup_and_swap_files_cause_nothing() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let file = dir.join("a.yaml");
    place(&temp, &file, "pod a");
    let mut live = Live::start(&dir);
    live.until("a");
    let said = live.said.len();
    for name in ["a.yaml.backup", "a.yaml~", ".a.yaml.swp", "4913"] {
        fs::copy(&file, dir.join(name)).unwrap();
    }
    place(&temp, &file, "pod b");
    assert_eq!(live.next(), "b");
    assert_eq!(live.said.len(), said + 1);
}

#[test]
fn k40123_data_swap() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    for (version, content) in [("..v1", "pod a1"), ("..v2", "pod a2")] {
        fs::write(temp.directory(&format!("m/{version}")).join("a.yaml"), content).unwrap();
    }
    symlink("..v1", dir.join("..data")).unwrap();
    symlink("..data/a.yaml", dir.join("a.yaml")).unwrap();
    let mut live = Live::start(&dir);
    live.until("a1");
    symlink("..v2", dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    live.until("a2");
    assert!(!live.said.iter().skip(1).any(|said| said.is_empty()), "{:?}", live.said);
}

#[test]
fn k40123_symlink_to_a_file_that_comes_later_and_changes_unheard() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let target = temp.path("volume/a.yaml");
    symlink(&target, dir.join("a.yaml")).unwrap();
    let mut live = Live::with(&dir, OFTEN, Inotify::init, limits::SCAN_SETTLE);
    let link = dir.join("a.yaml");
    live.until(&format!("; broken {0}; {0}: is a symbolic link to nothing", link.display()));
    temp.directory("volume");
    fs::write(&target, "pod a").unwrap();
    live.until("a");
    fs::write(&target, "pod b").unwrap();
    live.until("b");
}

#[test]
fn k40123_the_folder_is_deleted_and_comes_back() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    place(&temp, &dir.join("a.yaml"), "pod a");
    let mut live = Live::start(&dir);
    live.until("a");
    // Moved away complete: no file was deleted.
    fs::rename(&dir, temp.path("gone")).unwrap();
    live.until_failed();
    fs::create_dir(&dir).unwrap();
    place(&temp, &dir.join("b.yaml"), "pod b");
    live.until("b");
    assert!(!live.said.contains(&String::new()), "{:?}", live.said);
    // Events of the new directory arrive at once.
    place(&temp, &dir.join("c.yaml"), "pod c");
    live.until("b c");
}

#[test]
fn k40123_the_folder_is_replaced() {
    let temp = TempDir::new();
    let (dir, new) = (temp.directory("m"), temp.directory("new"));
    place(&temp, &dir.join("a.yaml"), "pod a");
    place(&temp, &new.join("b.yaml"), "pod b");
    let mut live = Live::start(&dir);
    live.until("a");
    fs::rename(&dir, temp.path("old")).unwrap();
    fs::rename(&new, &dir).unwrap();
    live.until("b");
    assert!(!live.said.contains(&String::new()), "{:?}", live.said);
    fs::remove_file(dir.join("b.yaml")).unwrap();
    live.until("");
}

#[test]
fn k120345_a_folder_that_is_missing_at_start_is_said_and_awaited() {
    let temp = TempDir::new();
    let dir = temp.path("no/such/m");
    let mut live = Live::start(&dir);
    let missing = format!("Failed({}: does not exist)", dir.display());
    assert_eq!(live.next(), missing);
    // The parent is missing, too: the path is found by time.
    fs::create_dir_all(&dir).unwrap();
    place(&temp, &dir.join("a.yaml"), "pod a");
    live.until("a");
}

#[test]
fn k7490_no_inotify_means_polling() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let refuse: Opener = || Err(io::Error::from_raw_os_error(24));
    let mut live = Live::with(&dir, OFTEN, refuse, limits::SCAN_SETTLE);
    live.until("");
    place(&temp, &dir.join("a.yaml"), "pod a");
    live.until("a");
    place(&temp, &dir.join("b.yaml"), "pod b");
    live.until("a b");
    fs::remove_file(dir.join("a.yaml")).unwrap();
    live.until("b");
    fs::remove_file(dir.join("b.yaml")).unwrap();
    live.until("");
}

#[test]
fn a_rescan_looks_without_any_event() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let refuse: Opener = || Err(io::Error::from_raw_os_error(24));
    let mut live = Live::with(&dir, NEVER, refuse, limits::SCAN_SETTLE);
    live.until("");
    place(&temp, &dir.join("a.yaml"), "pod a");
    // Many requests never block.
    (0..100_000).for_each(|_| live.source.rescan());
    live.until("a");
}

#[test]
fn a_thousand_manifests_and_the_longest_name() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let mut live = Live::start(&dir);
    live.until("");
    let mut expected = Vec::new();
    for n in 0..1000 {
        place(&temp, &dir.join(format!("{n:04}.yaml")), &format!("pod p{n:04}"));
        expected.push(format!("p{n:04}"));
    }
    live.until(&expected.join(" "));
    let long = "n".repeat(253);
    place(&temp, &dir.join(format!("{}.yaml", "z".repeat(250))), &format!("pod {long}"));
    expected.push(long);
    live.until(&expected.join(" "));
    fs::remove_dir_all(&dir).unwrap();
    live.until_failed();
}

#[test]
fn a_single_file_is_replaced_by_rename_and_never_empty() {
    let temp = TempDir::new();
    let file = temp.path("pods.conf");
    place(&temp, &file, "pod a");
    let mut live = Live::start(&file);
    live.until("a");
    for n in 0..20 {
        place(&temp, &file, &format!("pod a{n}"));
        live.until(&format!("a{n}"));
    }
    fs::remove_file(&file).unwrap();
    live.until_failed();
    place(&temp, &file, "pod b");
    live.until("b");
    assert!(!live.said.contains(&String::new()), "{:?}", live.said);
}

#[test]
fn the_thread_ends_with_its_handle_or_its_listener() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let mut live = Live::start(&dir);
    live.until("");
    let Live { source, updates, .. } = live;
    drop(source);
    // The sink was dropped with the thread.
    assert!(updates.recv().is_err());
    let (sender, updates) = unbounded();
    let sink: Sink = Box::new(move |update| sender.send(update).is_err());
    let acceptor = Acceptor::new(Source::File, "node1".into());
    let source = FileSource::start(dir, NEVER, acceptor, no_store(), sink, Pulses::default()).unwrap();
    assert!(updates.recv().is_ok());
    assert!(updates.recv().is_err());
    drop(source);
}

/// A disk that never answers, like a mount of a server that is gone.
struct Hung(Receiver<()>);

impl crate::source::disk::Disk for Hung {
    fn find(&self, _: &Path) -> io::Result<crate::source::disk::Found> {
        let _never = self.0.recv();
        Err(io::ErrorKind::NotFound.into())
    }
    fn is_link(&self, _: &Path) -> bool {
        false
    }
    fn names(&self, _: &Path, _: &mut dyn FnMut(&std::ffi::OsStr)) -> io::Result<()> {
        Ok(())
    }
    fn read(&self, _: &Path, _: usize) -> io::Result<crate::source::disk::Reading> {
        Err(io::ErrorKind::NotFound.into())
    }
}

#[test]
fn a_thread_that_hangs_in_a_dead_file_system_is_not_waited_for() {
    let (answer, hung) = unbounded();
    let path = Path::new("/nonexistent/m").to_owned();
    let acceptor = Acceptor::new(Source::File, "node1".into());
    let scanner = Scanner::on(Box::new(Hung(hung)), path.clone(), acceptor);
    let (sender, updates) = unbounded();
    let sink: Sink = Box::new(move |update| sender.send(update).is_ok());
    let watch = Watch::new(path, Inotify::init);
    let source =
        FileSource::spawn(scanner, watch, NEVER, no_store().into(), sink, Pulses::default()).unwrap();
    drop(source);
    // The thread still exists, and ends when the disk comes back.
    drop(answer);
    while updates.recv().is_ok() {}
}

#[test]
fn a_path_that_is_a_swapped_link_is_seen_at_once() {
    let temp = TempDir::new();
    for (dir, pod) in [("one", "pod a"), ("two", "pod b")] {
        place(&temp, &temp.directory(dir).join("a.yaml"), pod);
    }
    let path = temp.path("m");
    symlink(temp.path("one"), &path).unwrap();
    let mut live = Live::start(&path);
    live.until("a");
    symlink(temp.path("two"), temp.path("new")).unwrap();
    fs::rename(temp.path("new"), &path).unwrap();
    live.until("b");
}

#[test]
fn a_directory_that_is_removed_with_all_its_files_stops_no_pod() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    let names: Vec<String> = (0..200).map(|n| format!("p{n:03}")).collect();
    for name in &names {
        place(&temp, &dir.join(format!("{name}.yaml")), &format!("pod {name}"));
    }
    let mut live = Live::start(&dir);
    let all = names.join(" ");
    live.until(&all);
    let said = live.said.len();
    fs::remove_dir_all(&dir).unwrap();
    live.until_failed();
    assert_eq!(live.said.len(), said + 1, "{:?}", &live.said[said..]);
}

/// A manifest was not read while the disk of the store hung with the one before it.
#[test]
fn a_dead_disk_of_the_store_keeps_no_manifest_from_being_read() {
    let temp = TempDir::new();
    let dir = temp.directory("m");
    place(&temp, &dir.join("a.yaml"), "pod a");
    let store = on_a_dead_disk(&temp.directory("root"));
    let mut live = Live::storing(&dir, NEVER, Inotify::init, limits::SCAN_SETTLE, store);
    live.until("a");
    // The store's thread is writing it by now, in vain.
    std::thread::sleep(limits::SCAN_COALESCE * 2);
    place(&temp, &dir.join("b.yaml"), "pod b");
    live.until("a b");
}
