//! `drain` and `resume`: write or remove the marker of a drained node and signal the daemon, which does the work. The
//! command shows only the daemon's status file.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use rustix::process::Pid;

use super::exit::Exit;
use super::flags::Options;
use super::lock::{self, Notified};
use super::pods::{self, Daemon};
use super::{Outcome, print, say};
use crate::base::clock::{Clock, System, boot_id};
use crate::base::human::many;
use crate::base::limits;
use crate::base::locks;
use crate::daemon::drain::{self, By, Drain, Places};
use crate::status::file;
use crate::status::snapshot::DrainView;

/// Stops all pods and waits until they have stopped.
pub fn drain(options: &Options) -> Outcome {
    let root_dir = &options.directories.root;
    if let Some(why) = of_two(root_dir, &options.directories.run) {
        return Err(format!("{why}; nothing is stopped"));
    }
    lock::check_root(root_dir).map_err(|why| format!("{why}; nothing is stopped"))?;
    let is_shutdown = options.drain.shutdown;
    let boot = if options.drain.until_reboot || is_shutdown { boot_id() } else { None };
    // A shutdown may begin when the timeout ends: the daemon tells each pod in time.
    let within = u32::try_from(options.drain.timeout.as_secs()).ok().filter(|_| boot.is_some());
    // An operator's drain that is in force stays so, and one without an end has none. The node is drained since the first.
    let places = places(options);
    let make = || {
        let since = drain::read(&places).map_or_else(|| System::start().now().wall, |drain| drain.since);
        let grace = options.drain.grace;
        let of_operator: Vec<Drain> = match boot {
            Some(_) => drain::standing(&places).filter(|it| it.1 == By::Operator).map(|it| it.0).collect(),
            None => Vec::new(),
        };
        let by = if is_shutdown && of_operator.is_empty() { By::Shutdown } else { By::Operator };
        let is_endless = of_operator.iter().any(|old| old.boot.is_none());
        (Drain { since, grace, within, boot: boot.clone().filter(|_| !is_endless) }, by)
    };
    let place = drain::path(root_dir);
    drain::write(&places, boot.as_deref(), make).map_err(|error| {
        let endless = error.kind() == io::ErrorKind::ReadOnlyFilesystem && boot.is_none();
        let hint = if endless { ", and --until-reboot needs no room on it" } else { "" };
        format!("{}: {error}{hint}; nothing is stopped", place.display())
    })?;
    match lock::tell(root_dir, &options.directories.run) {
        Notified::Nobody => Ok(print(
            "drained; podkeeper is not running here: what runs goes on until the next one begins, which stops \
             it and starts nothing\n",
        )),
        Notified::Deaf => Err(lock::DEAF.to_owned()),
        Notified::Daemon(pid) => wait(options, pid),
    }
}

/// Lets pods run again.
pub fn resume(options: &Options) -> Outcome {
    let root_dir = &options.directories.root;
    if let Some(why) = of_two(root_dir, &options.directories.run) {
        return Err(format!("{why}; nothing is started"));
    }
    lock::check_root(root_dir).map_err(|why| format!("{why}; nothing is started"))?;
    let place = drain::path(root_dir);
    let remove = if options.drain.shutdown { drain::undo_shutdown } else { drain::remove };
    if !remove(&places(options))
        .map_err(|error| format!("{}: {error}; nothing is started", place.display()))?
    {
        let by = if options.drain.shutdown { " by a shutdown" } else { "" };
        return Ok(print(&format!("the node is not drained{by}\n")));
    }
    let told = lock::tell(root_dir, &options.directories.run);
    if options.drain.shutdown && drain::read(&places(options)).is_some() {
        // An operator's drain is not undone with that of a shutdown.
        return Ok(print("the drain of the shutdown is undone; the node stays drained by an operator\n"));
    }
    match told {
        Notified::Nobody => {
            Ok(print("resumed; podkeeper is not running here: the next one starts the pods\n"))
        }
        Notified::Deaf => Err(lock::DEAF.to_owned()),
        Notified::Daemon(pid) => {
            let begun = Instant::now();
            while view(&options.directories.run, pid).is_none_or(|view| view.is_some()) {
                if drain::read(&places(options)).is_some() {
                    return Err("the node was drained again meanwhile: its pods are stopped".to_owned());
                }
                if begun.elapsed() > limits::FORGET_PATIENCE {
                    let said =
                        format!("resumed; podkeeper (process {pid}) was told, and does not answer yet\n");
                    return Ok(print(&said));
                }
                sleep(limits::DRAIN_LOOK);
            }
            Ok(print(&format!("resumed: podkeeper (process {pid}) starts the pods\n")))
        }
    }
}

fn places(options: &Options) -> Places {
    Places { root: options.directories.root.clone(), run: options.directories.run.clone() }
}

/// The reason why these are not the directories of one daemon: the marker would be where the intended daemon does not
/// look. A run directory may have been removed under its daemon, so one without a daemon is not refused.
fn of_two(root_dir: &Path, run_dir: &Path) -> Option<String> {
    let (root, run) = (root_dir.display(), run_dir.display());
    if !locks::is_alive(run_dir) {
        return None;
    }
    if !locks::is_alive(root_dir) {
        return Some(format!(
            "podkeeper runs on run directory {run}, and not on root directory {root}: give the --root-dir of the \
             one, or the --run-dir of the other"
        ));
    }
    let (of_root, of_run) = (locks::holder(root_dir)?, locks::holder(run_dir)?);
    (of_root != of_run).then(|| {
        format!(
            "podkeeper on root directory {root} (process {of_root}) is another one than that on run directory {run} \
             (process {of_run}): give both directories of the one that is meant"
        )
    })
}

/// The drain in this daemon's status; `None` when the status is of another daemon, or missing.
fn view(run_dir: &Path, pid: Pid) -> Option<Option<DrainView>> {
    let status = file::read(run_dir).ok()?.file;
    (status.pid.cast_signed() == pid.as_raw_nonzero().get()).then_some(status.drain)
}

fn wait(options: &Options, pid: Pid) -> Outcome {
    let begun = Instant::now();
    let mut before: Option<Vec<String>> = None;
    let mut asked = false;
    loop {
        // Another command may have ended this drain, and another one begun the next.
        let marker = drain::read(&places(options))
            .ok_or_else(|| "the node was resumed meanwhile: its pods start again".to_owned())?;
        let drain = view(&options.directories.run, pid).flatten().filter(|view| view.since == marker.since);
        if let Some(DrainView { left, stopped, .. }) = drain {
            for line in progress(before.as_deref(), &left) {
                // The wait goes on when the reader went away: the exit code counts.
                _ = print(&line);
            }
            if stopped {
                return Ok(print(done(&marker)));
            }
            before = Some(left);
        }
        let over = begun.elapsed() > options.drain.timeout;
        // The warning comes early: five minutes are long for a daemon that does not answer.
        if over || (before.is_none() && !asked && begun.elapsed() > limits::DAEMON_ANSWER) {
            asked = true;
            let state = state(options, pid, before.as_deref());
            if over {
                say(&format!("error: not drained after {:?}; {state}", options.drain.timeout));
                return Ok(Exit::TimedOut);
            }
            say(&format!("warning: {state}"));
        }
        let root_dir = &options.directories.root;
        let is_another = |holder: u32| holder.cast_signed() != pid.as_raw_nonzero().get();
        if !locks::is_alive(root_dir) || locks::holder(root_dir).is_some_and(is_another) {
            return Err("podkeeper ended meanwhile; the next one goes on".to_owned());
        }
        sleep(limits::DRAIN_LOOK);
    }
}

/// The message when nothing runs any more: how long that lasts.
fn done(marker: &Drain) -> &'static str {
    match marker.boot {
        None => "drained: nothing runs, and nothing starts until podkeeper resume\n",
        Some(_) => {
            "drained: nothing runs, and nothing starts until podkeeper resume or the next boot of this machine\n"
        }
    }
}

/// A message about a drain that is not complete.
fn state(options: &Options, pid: Pid, left: Option<&[String]>) -> String {
    let status = file::read(&options.directories.run).ok().map(|status| status.file);
    let of_daemon = status.filter(|file| file.pid.cast_signed() == pid.as_raw_nonzero().get());
    let Some(file) = of_daemon else {
        let run_dir = options.directories.run.display();
        return format!(
            "podkeeper (process {pid}) was told, and says nothing in {run_dir}: is that its --run-dir?",
        );
    };
    let silent = matches!(Daemon::of(&options.directories.run, &file), Daemon::Silent(_));
    match left {
        _ if silent => format!(
            "podkeeper (process {pid}) does not answer: whether anything is being stopped is not known; the node \
             is marked as drained, and who runs here next stops what is left"
        ),
        None => format!("podkeeper (process {pid}) was told, and is busy"),
        Some(left) if !file.docker.reachable => {
            without_docker(left, &pods::docker_is_away(file.docker.problem.as_deref()))
        }
        Some([]) => "what still runs is not known; it is being stopped".to_owned(),
        Some(left) => format!("still running: {}; they are being stopped", left.join(", ")),
    }
}

/// The same while Docker does not answer: a daemon that has not heard of it yet knows of no pod.
fn without_docker(left: &[String], away: &str) -> String {
    let runs = match left {
        [] => "what still runs is not known".to_owned(),
        left => format!("still running: {}", left.join(", ")),
    };
    format!("{runs}; {away}: what runs is stopped when it answers")
}

/// Messages about the pods that have stopped since the last look.
fn progress(before: Option<&[String]>, left: &[String]) -> Vec<String> {
    let pods = |n: usize| many(n, "pod");
    match before {
        None if left.is_empty() => Vec::new(),
        None => vec![format!("stopping {}\n", pods(left.len()))],
        Some(before) => {
            let gone: Vec<&String> = before.iter().filter(|pod| !left.contains(pod)).collect();
            let line = |(after, pod): (usize, &&String)| {
                format!("pod {pod} has stopped; {} left\n", pods(left.len().saturating_add(after)))
            };
            // Several pods may have stopped since the last look: each line counts those that are not named yet.
            let later = (0..gone.len()).rev();
            later.zip(&gone).map(line).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::{Command, parse};

    #[test]
    fn without_a_root_directory_nothing_is_stopped_started_or_forgotten() {
        let dir = crate::base::testing::scratch("drain-nowhere");
        let (none, run) = (dir.join("none"), format!("--run-dir {}", dir.display()));
        let why = |line: &str, then: &str| {
            let words = format!("{line} --root-dir {}", none.display());
            let outcome =
                match parse(words.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
                    Ok(Command::Drain(options)) => drain(&options),
                    Ok(Command::Resume(options)) => resume(&options),
                    Ok(Command::Forget(options, source)) => crate::cli::forget::run(&options, source),
                    other => panic!("{words}: {other:?}"),
                };
            let expected =
                format!("the root directory {} (--root-dir) does not exist; {then}", none.display());
            assert_eq!(outcome.unwrap_err(), expected);
        };
        why(&format!("drain {run}"), "nothing is stopped");
        why(&format!("resume {run}"), "nothing is started");
        why("forget --source file", "nothing is forgotten");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// The second drain moved the time since when the node is drained.
    #[test]
    fn a_node_is_drained_since_the_first_of_several_drains() {
        let dir = crate::base::testing::scratch("drain-again");
        let line = |more: &str| format!("drain --root-dir {0} --run-dir {0} {more}", dir.display());
        let places = Places { root: dir.clone(), run: dir.clone() };
        let first =
            Drain { since: "2026-01-02T03:04:05Z".parse().unwrap(), grace: None, within: None, boot: None };
        drain::write(&places, None, || (first.clone(), By::Operator)).unwrap();
        let parsed =
            parse(line("--grace 5").split_whitespace().map(Into::into), &|_| Err("no file".to_owned()));
        let Ok(Command::Drain(options)) = parsed else { panic!("{parsed:?}") };
        drain(&options).unwrap();
        assert_eq!(drain::read(&places), Some(Drain { grace: Some(5), ..first }));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// One failed because the other had renamed the temporary file, and each wrote a time of its own.
    #[test]
    fn drains_in_the_same_moment_are_one_drain() {
        let dir = crate::base::testing::scratch("drain-together");
        let line = format!("drain --root-dir {0} --run-dir {0}", dir.display());
        let places = Places { root: dir.clone(), run: dir.clone() };
        let one = || {
            let parsed = parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned()));
            let Ok(Command::Drain(options)) = parsed else { panic!("{parsed:?}") };
            drain(&options).unwrap();
            drain::read(&places).unwrap().since
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
            running.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(all, [all[0]; 8]);
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, [drain::path(&dir).file_name().unwrap()]);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_drain_until_reboot_says_so() {
        let marker = |boot| Drain { since: System::start().now().wall, grace: None, within: None, boot };
        assert!(done(&marker(None)).ends_with("until podkeeper resume\n"));
        assert!(done(&marker(Some("id".into()))).ends_with("or the next boot of this machine\n"));
    }

    /// It said "still running: ;".
    #[test]
    fn while_docker_does_not_answer_an_empty_list_is_no_list() {
        let told = |left: &[&str]| {
            without_docker(&left.iter().map(ToString::to_string).collect::<Vec<_>>(), "Docker is away")
        };
        let then = "Docker is away: what runs is stopped when it answers";
        assert_eq!(told(&[]), format!("what still runs is not known; {then}"));
        assert_eq!(told(&["a/b", "c/d"]), format!("still running: a/b, c/d; {then}"));
    }

    #[test]
    fn progress_names_who_stopped() {
        let check = |before: Option<&[&str]>, left: &[&str], expected: &[&str]| {
            let owned = |pods: &[&str]| pods.iter().map(ToString::to_string).collect::<Vec<_>>();
            let before = before.map(owned);
            assert_eq!(progress(before.as_deref(), &owned(left)), expected);
        };
        check(None, &[], &[]);
        check(None, &["a/b"], &["stopping 1 pod\n"]);
        check(Some(&["a/b", "c/d"]), &["a/b", "c/d"], &[]);
        check(Some(&["a/b", "c/d"]), &["c/d"], &["pod a/b has stopped; 1 pod left\n"]);
        let two = ["pod a/b has stopped; 2 pods left\n", "pod c/d has stopped; 1 pod left\n"];
        check(Some(&["a/b", "c/d", "e/f"]), &["e/f"], &two);
        check(Some(&["a/b"]), &[], &["pod a/b has stopped; 0 pods left\n"]);
    }
}
