use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// The wait of the stopped process: longer than any wait that a relative time-out may cover.
const LONG: Duration = Duration::from_millis(2500);

fn reading(stream: &UnixStream) -> Vec<PollFd<'_>> {
    vec![PollFd::new(stream, PollFlags::IN)]
}

#[test]
fn what_is_there_ends_the_wait_and_so_does_the_time() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    for time in [Duration::from_millis(20), limits::WAIT_RELATIVE + Duration::from_millis(20)] {
        let at = Instant::now() + time;
        assert_eq!(until(reading(&ours), Some(at)), Ok(vec![PollFlags::empty()]));
        assert!(Instant::now() >= at);
    }
    std::io::Write::write_all(&mut theirs, b"x").unwrap();
    for at in [None, Some(Instant::now()), Some(Instant::now() + LONG * 100)] {
        assert_eq!(until(reading(&ours), at), Ok(vec![PollFlags::IN]));
    }
}

/// Set in the stopped process: this test binary again, running the same test.
const IS_STOPPED: &str = "PODKEEPER_TEST_IS_STOPPED";

/// The code of the stopped process.
fn wait_and_tell() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let at = Instant::now() + LONG;
    println!("\nit waits");
    assert_eq!(until(reading(&ours), Some(at)), Ok(vec![PollFlags::empty()]));
    println!("\nit is awake");
}

/// Waits until all threads of the process are in this state.
fn wait_for_state(pid: u32, state: &str) {
    let is = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with(state)
    };
    while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(is) {
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_was_stopped_wakes_when_its_time_has_come() {
    if std::env::var_os(IS_STOPPED).is_some() {
        return wait_and_tell();
    }
    // A timer that stopped with the process takes most of its time again, in each try; a busy machine is late
    // only now and then.
    let late: Vec<Duration> =
        (0..3).map(|_| time_after_the_stop()).take_while(|more| *more >= LONG / 2).collect();
    assert!(late.len() < 3, "{late:?} more");
}

/// Stops a waiting process until its deadline has passed; returns how long it waits after it continues.
fn time_after_the_stop() -> Duration {
    let own_name = "base::wait::tests::a_process_that_was_stopped_wakes_when_its_time_has_come";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", own_name, "--nocapture"])
        .env(IS_STOPPED, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut wait_for_line = |wanted: &str| assert!(lines.any(|line| line == wanted), "no {wanted:?}");
    wait_for_line("it waits");
    let begun = Instant::now();
    let pid = Pid::from_child(&child);
    wait_for_state(child.id(), "S");
    kill_process(pid, Signal::STOP).unwrap();
    wait_for_state(child.id(), "T");
    // The deadline passes without any other event.
    std::thread::sleep(LONG.saturating_sub(begun.elapsed()));
    kill_process(pid, Signal::CONT).unwrap();
    let goes_on = Instant::now();
    wait_for_line("it is awake");
    let more = goes_on.elapsed();
    assert!(child.wait().unwrap().success());
    more
}
