//! Whether a status file is current, and the warnings for the user before its content is shown.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::base::clock::{Clock, System, Timestamp};
use crate::base::limits;
use crate::base::locks;
use crate::base::logging::one_line;
use crate::cli::docker::engine;
use crate::cli::{VERSION, say};
use crate::daemon::drain::{self, Places};
use crate::status::file::{self, Status};
use crate::status::node_object::STATUS_UNKNOWN;
use crate::status::snapshot::{DockerView, NOT_ASKED, StatusFile};

/// The daemon of a run directory, by the status file that was read there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cli) enum Daemon {
    /// It has ended.
    Gone,
    /// It does not answer, and wrote the file at this time.
    Silent(Timestamp),
    /// This process runs, and the file is of a daemon before it: it has just begun, or cannot write.
    Unheard(u32),
    Answers,
}

impl Daemon {
    /// Asks the daemon, which may take a moment. One that cannot be asked counts as working: one of another version, in
    /// another PID namespace, or of another user.
    pub(in crate::cli) fn of(run_dir: &Path, file: &StatusFile) -> Daemon {
        if !locks::is_alive(run_dir) {
            return Daemon::Gone;
        }
        let holders = locks::holders(run_dir);
        if let Some(other) = other_than(file.pid, &holders, locks::id_for_itself) {
            return Daemon::Unheard(other);
        }
        if !holders.contains(&file.pid) || file.version != VERSION {
            return Daemon::Answers;
        }
        ask(run_dir, file.pid)
    }
}

/// The holder of the lock, if it is certain that it is not the process that wrote the file. A file names a process as that
/// sees itself (`id_for_itself`), the kernel's list as it is seen from here.
fn other_than(writer: u32, holders: &[u32], id_for_itself: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let may_be_writer = |pid: &u32| *pid == writer || id_for_itself(*pid).is_none_or(|id| id == writer);
    holders.first().copied().filter(|_| !holders.iter().any(may_be_writer))
}

/// Reads the status file; warns when no daemon keeps it up to date.
///
/// # Errors
/// A message for the user.
pub fn load(run_dir: &Path) -> Result<Status, String> {
    let (mut status, daemon) = read(run_dir)?;
    // The daemon notices only with its next call that Docker is silent; this command does not wait for that.
    let is_silent = || engine::is_silent(&status.file.docker.endpoint, limits::DOCKER_SLOW);
    if let Some(warning) = warning(daemon, &status.file, is_silent) {
        say(&format!("warning: {warning}"));
    }
    if let Some(note) = drained(&status.file, run_dir, daemon != Daemon::Gone) {
        say(&format!("note: {note}"));
    }
    match daemon {
        Daemon::Answers => read_until_now(&mut status.file, System::start().now().wall),
        Daemon::Gone | Daemon::Silent(_) | Daemon::Unheard(_) => nobody_posts(&mut status.file),
    }
    Ok(status)
}

/// Sources that are well are read again and again, and the daemon writes no file for that.
fn read_until_now(file: &mut StatusFile, now: Timestamp) {
    for source in file.sources.iter_mut().filter(|source| source.ready && source.problem.is_none()) {
        source.last_success = source.last_success.map(|_| now);
    }
}

/// Reads the status file, and asks its daemon. One that has just begun gets a moment to write its first state, and to ask
/// Docker.
fn read(run_dir: &Path) -> Result<(Status, Daemon), String> {
    let begun = Instant::now();
    loop {
        let status = file::read(run_dir).map_err(|error| error.to_string())?;
        let daemon = Daemon::of(run_dir, &status.file);
        let has_begun = match daemon {
            Daemon::Unheard(_) => false,
            // Its first state says nothing of pods that run.
            Daemon::Answers => {
                status.file.docker.problem.as_deref() != Some(NOT_ASKED)
                    && !is_looking(&status.file, System::start().now().wall)
            }
            Daemon::Gone | Daemon::Silent(_) => true,
        };
        if has_begun || begun.elapsed() >= limits::DAEMON_BEGINS {
            return Ok((status, daemon));
        }
        thread::sleep(limits::DAEMON_BEGINS_LOOK);
    }
}

/// Whether its daemon has started so recently that it may not have looked at all pods.
fn is_looking(file: &StatusFile, now: Timestamp) -> bool {
    let age = file.info.started.map(|at| Duration::try_from(now.duration_since(at)));
    age.is_some_and(|age| age.is_ok_and(|age| age < limits::DAEMON_LOOKS))
}

/// The reason why the file may be outdated. `is_silent` asks whether Docker does not answer, when the file does not
/// say.
fn warning(daemon: Daemon, file: &StatusFile, is_silent: impl FnOnce() -> bool) -> Option<String> {
    let pid = file.pid;
    match daemon {
        Daemon::Gone => {
            Some(format!("podkeeper is not running (it was process {pid}): this is the last state it knew"))
        }
        Daemon::Silent(written) => Some(format!(
            "podkeeper (process {pid}) does not answer, or cannot write its answer: this is the state it wrote at {written:.0}"
        )),
        Daemon::Unheard(now) => Some(format!(
            "podkeeper (process {now}) has not written its state yet, or cannot write it: this is the last state of the \
             one before it (process {pid})"
        )),
        Daemon::Answers => match without_docker(&file.docker) {
            Some(away) => Some(format!("{away}; what runs stays, and podkeeper waits for Docker")),
            None => is_silent().then(|| {
                let seconds = limits::DOCKER_SLOW.as_secs();
                format!("Docker has not answered for {seconds} s: this is the last state that was seen")
            }),
        },
    }
}

/// Fails when no daemon could carry a command out.
///
/// # Errors
/// A message for the user: no daemon runs, or it does not answer.
pub fn must_answer(run_dir: &Path, file: &StatusFile) -> Result<(), String> {
    match Daemon::of(run_dir, file) {
        Daemon::Answers => Ok(()),
        Daemon::Gone | Daemon::Silent(_) => {
            Err("podkeeper does not run, or does not answer: nobody would start again what is stopped"
                .to_owned())
        }
        Daemon::Unheard(pid) => Err(format!(
            "podkeeper (process {pid}) has not written its state: whether it would start again what is stopped is not known"
        )),
    }
}

/// A note that the node is drained. Without a daemon the file may be outdated: `drain` and `resume` work on the marker,
/// which the next daemon reads.
fn drained(file: &StatusFile, run_dir: &Path, alive: bool) -> Option<String> {
    let root_dir = Path::new(&file.root_dir);
    let is_known = !file.root_dir.is_empty()
        && match std::fs::symlink_metadata(drain::path(root_dir)) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
    if !alive && is_known {
        let places = Places { root: root_dir.to_owned(), run: run_dir.to_owned() };
        let since = drain::read(&places)?.since;
        return Some(format!(
            "this node is drained since {since:.0}: the next podkeeper starts nothing until podkeeper resume"
        ));
    }
    let drain = file.drain.as_ref()?;
    let left = match drain.left.len() {
        0 => String::new(),
        n => format!(" ({n} still to be stopped)"),
    };
    Some(format!("this node is drained since {:.0}{left}: podkeeper resume starts its pods", drain.since))
}

/// A message that Docker is not reachable, and why, without saying so twice: most errors begin with these words.
pub(in crate::cli) fn docker_is_away(problem: Option<&str>) -> String {
    const WORDS: &str = "Docker is not reachable";
    let why = one_line(problem.unwrap_or("no answer yet"));
    let cause = why.strip_prefix(WORDS).map_or(&*why, |rest| rest.trim_start_matches([':', ' ']));
    format!("{WORDS} ({cause})")
}

/// A message that Docker is not reachable, with the state that is shown meanwhile; `None` while it is reachable.
pub(in crate::cli) fn without_docker(docker: &DockerView) -> Option<String> {
    if docker.reachable {
        return None;
    }
    // The version comes with Docker's first answer.
    let known = match docker.version {
        Some(_) => "what is shown of containers is what was seen last",
        None => "it has not answered since podkeeper began, so that nothing is known of containers",
    };
    Some(format!("{}: {known}", docker_is_away(docker.problem.as_deref())))
}

/// Sets the conditions as the control plane does for a node whose kubelet is gone (`pkg/controller/nodelifecycle`).
fn nobody_posts(file: &mut StatusFile) {
    for condition in &mut file.conditions {
        condition.is_true = false;
        condition.reason = STATUS_UNKNOWN.into();
        condition.message = "Kubelet stopped posting node status.".into();
    }
}

/// Whether nobody keeps the state of this file, as [`load`] has found out.
pub(in crate::cli) fn is_outdated(file: &StatusFile) -> bool {
    file.conditions.iter().any(|condition| condition.reason == STATUS_UNKNOWN)
}

/// Asks the daemon of this id whether it still works: on a signal that only this command sends, its main thread gives the
/// status file a new time.
fn ask(run_dir: &Path, pid: u32) -> Daemon {
    let path = run_dir.join(file::NAME);
    let time = || {
        let meta = std::fs::metadata(&path).ok()?;
        Timestamp::new(meta.mtime(), i32::try_from(meta.mtime_nsec()).ok()?).ok()
    };
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Daemon::Answers };
    let Some(before) = time() else { return Daemon::Answers };
    match kill_process(pid, Signal::URG) {
        Ok(()) => {}
        // It has ended in this moment.
        Err(Errno::SRCH) => return Daemon::Gone,
        Err(_) => return Daemon::Answers,
    }
    let asked = Instant::now();
    while asked.elapsed() < limits::DAEMON_ANSWER {
        if time() != Some(before) {
            return Daemon::Answers;
        }
        thread::sleep(limits::DAEMON_LOOK);
    }
    Daemon::Silent(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::SignedDuration;
    use crate::cli::pods::tests::node;
    use crate::status::snapshot::DrainView;

    #[test]
    fn the_user_is_told_what_the_file_is_worth() {
        let check = |daemon, reachable, is_silent, expected: Option<&str>| {
            let mut file = node().file;
            (file.pid, file.docker.reachable, file.docker.problem) = (7, reachable, Some("no socket".into()));
            assert_eq!(warning(daemon, &file, || is_silent).as_deref(), expected, "{daemon:?}");
        };
        let written = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let gone = "podkeeper is not running (it was process 7): this is the last state it knew";
        let silent = "podkeeper (process 7) does not answer, or cannot write its answer: this is the state it wrote at \
                      2026-01-02T03:04:05Z";
        let away = "Docker is not reachable (no socket): what is shown of containers is what was seen last; what runs \
                    stays, and podkeeper waits for Docker";
        check(Daemon::Gone, false, true, Some(gone));
        check(Daemon::Silent(written), false, true, Some(silent));
        let unheard = "podkeeper (process 9) has not written its state yet, or cannot write it: this is the last state of \
                       the one before it (process 7)";
        check(Daemon::Unheard(9), true, false, Some(unheard));
        check(Daemon::Answers, false, true, Some(away));
        let slow = format!(
            "Docker has not answered for {} s: this is the last state that was seen",
            limits::DOCKER_SLOW.as_secs()
        );
        check(Daemon::Answers, true, true, Some(&slow));
        check(Daemon::Answers, true, false, None);
    }

    #[test]
    fn the_writer_of_a_file_is_told_from_another_daemon() {
        let check = |holders: &[u32], id: Option<u32>, expected: Option<u32>| {
            assert_eq!(other_than(7, holders, |_| id), expected, "{holders:?} {id:?}");
        };
        check(&[7], None, None);
        check(&[9], Some(9), Some(9));
        check(&[9, 7], Some(9), None);
        // In a PID namespace of its own it is number 7.
        check(&[9], Some(7), None);
        check(&[9], None, None);
        check(&[], Some(9), None);
    }

    /// Regression: after a restart on a run directory that could not be written, the old state was shown as current.
    #[test]
    fn the_state_of_the_daemon_before_is_not_current() {
        let run = crate::base::testing::scratch("unheard");
        let write_with = |pid: u32, version: &str, problem: Option<&str>| {
            let golden = include_bytes!("../../../tests/golden/cli/node.json");
            let mut value: serde_json::Value = serde_json::from_slice(golden).unwrap();
            (value["pid"], value["version"]) = (pid.into(), version.into());
            let ready = ["type", "reason", "message"].map(|key| (key.to_owned(), "Ready".into()));
            let since =
                [("isTrue".to_owned(), true.into()), ("since".to_owned(), "2026-01-02T03:04:05Z".into())];
            value["docker"]["problem"] = problem.into();
            value["conditions"] =
                vec![serde_json::Value::Object(ready.into_iter().chain(since).collect())].into();
            std::fs::write(run.join(".new"), value.to_string()).unwrap();
            std::fs::rename(run.join(".new"), run.join(file::NAME)).unwrap();
        };
        let write = |pid: u32, version: &str| write_with(pid, version, None);
        write(u32::MAX, VERSION);
        assert_eq!(read(&run).unwrap().1, Daemon::Gone);
        let own = std::process::id();
        let lock = std::fs::File::open(&run).unwrap();
        lock.lock().unwrap();
        let (mut status, daemon) = read(&run).unwrap();
        assert_eq!(daemon, Daemon::Unheard(own));
        assert!(must_answer(&run, &status.file).is_err() && !is_outdated(&status.file));
        nobody_posts(&mut status.file);
        assert!(is_outdated(&status.file));
        // It has only just begun. This test answers no signal, but a daemon of another version is not asked.
        let first = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(limits::DAEMON_BEGINS / 6);
                write(own, "other");
            });
            read(&run).unwrap()
        });
        assert_eq!((first.1, first.0.file.pid), (Daemon::Answers, own));
        // Regression: pods that run were shown as not made yet until Docker was asked.
        write_with(own, "other", Some(NOT_ASKED));
        let first = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(limits::DAEMON_BEGINS / 6);
                write(own, "other");
            });
            read(&run).unwrap()
        });
        assert_eq!((first.1, first.0.file.docker.problem), (Daemon::Answers, None));
        // Nor has it looked at all of them as soon as Docker answers.
        let after = |millis: i64| {
            let mut file = node().file;
            let started = "2026-01-02T03:04:05Z".parse().unwrap();
            file.info.started = Some(started);
            is_looking(&file, started.checked_add(SignedDuration::from_millis(millis)).unwrap())
        };
        assert_eq!([-1, 0, 499, 500].map(after), [false, true, true, false]);
        std::fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn without_a_daemon_the_marker_says_whether_the_node_is_drained() {
        let root = crate::base::testing::scratch("drained-note");
        let run = root.join("run");
        let since: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let marker = drain::Drain { since, grace: None, within: None, boot: None };
        let view = DrainView { since, grace_seconds: None, stopped: false, left: vec!["a/b".into()] };
        let file = |drain| StatusFile { root_dir: root.to_string_lossy().into_owned(), drain, ..node().file };
        let (is, was) = (file(Some(view)), file(None));
        let says = "this node is drained since 2026-01-02T03:04:05Z";
        let lives = format!("{says} (1 still to be stopped): podkeeper resume starts its pods");
        assert_eq!(drained(&is, &run, true).as_ref(), Some(&lives));
        assert_eq!((drained(&was, &run, true), drained(&was, &run, false)), (None, None));
        assert_eq!(drained(&is, &run, false), None, "resumed since");
        let places = Places { root: root.clone(), run: run.clone() };
        drain::write(&places, None, || (marker.clone(), drain::By::Operator)).unwrap();
        let next = format!("{says}: the next podkeeper starts nothing until podkeeper resume");
        assert_eq!(drained(&is, &run, false).as_ref(), Some(&next));
        assert_eq!(drained(&was, &run, false).as_ref(), Some(&next), "drained since");
        // The file of an earlier version does not say where the root directory is.
        let mute = StatusFile { root_dir: String::new(), ..is };
        assert_eq!(drained(&mute, &run, false), Some(lives));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn that_docker_is_not_reachable_is_said_once() {
        let check =
            |why, cause: &str| assert_eq!(docker_is_away(why), format!("Docker is not reachable ({cause})"));
        check(Some("Docker is not reachable: nobody listens"), "nobody listens");
        check(
            Some("Docker did not answer in time: GET /events"),
            "Docker did not answer in time: GET /events",
        );
        check(Some("not asked yet"), "not asked yet");
        check(None, "no answer yet");
    }

    #[test]
    fn where_docker_never_answered_nothing_is_known_of_containers() {
        let mut docker = node().file.docker;
        assert_eq!(without_docker(&docker), None);
        (docker.reachable, docker.problem) = (false, Some("no such file".to_owned()));
        let away = "Docker is not reachable (no such file): ";
        assert_eq!(
            without_docker(&docker).unwrap(),
            format!("{away}what is shown of containers is what was seen last")
        );
        docker.version = None;
        assert_eq!(
            without_docker(&docker).unwrap(),
            format!(
                "{away}it has not answered since podkeeper began, so that nothing is known of containers"
            )
        );
    }
}
