//! Out-of-memory kills from the kernel's log (`/dev/kmsg`): of containers, whose status then has the right reason even
//! when Docker has missed the kill, and of other processes, which are reported to the operator.
//!
//! Never here: a decision about a pod.

use std::collections::VecDeque;
use std::fs;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Instant;

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::{limits, thread, wait};
use crate::cgroup::names::container_id;
use crate::daemon::turn::{Event, OutOfMemory};

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct KernelLog {
    _stop: OwnedFd,
}

impl KernelLog {
    /// Starts the thread `pk-kmsg`, which reads the kernel's log: first what it still has of earlier kills, for Docker may
    /// have missed one, and the daemon that heard of it has ended. Returns `None` if the log cannot be read: the daemon
    /// works without it, and Docker reports most kills.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start(path: &Path, out: Sender<Event>) -> io::Result<Option<KernelLog>> {
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
        let log = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(log) => log,
            Err(error) => {
                log::info!(
                    "{} cannot be read: {error}; which process was killed for want of memory is not told",
                    path.display()
                );
                return Ok(None);
            }
        };
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        thread::spawn("pk-kmsg", limits::WORKER_STACK, move || {
            let mut log = log;
            let earlier = earlier(&mut log);
            if earlier.is_empty() || out.send(Event::OutOfMemoryEarlier(earlier)).is_ok() {
                follow(log, &stopped, &out);
            }
        })?;
        Ok(Some(KernelLog { _stop: stop }))
    }
}

/// The containers of the latest kills that the log still has. The log is at its end then.
fn earlier(log: &mut (impl Read + Seek)) -> Vec<String> {
    let mut found: VecDeque<String> = VecDeque::new();
    for _ in 0..limits::KERNEL_RECORDS {
        let mut record = [0_u8; limits::KERNEL_RECORD];
        match log.read(&mut record) {
            Ok(0) => return found.into(),
            Ok(length) => {
                let record = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
                let Some(id) = parse(&record).and_then(|kill| kill.container) else { continue };
                if !found.contains(&id) {
                    found.push_back(id);
                }
                if found.len() > limits::OOM_EARLIER {
                    found.pop_front();
                }
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::PIPE | Errno::INTR) => {}
                // It is at its end, or cannot be read: the one who follows it tells.
                _ => return found.into(),
            },
        }
    }
    if let Err(error) = log.seek(SeekFrom::End(0)) {
        log::debug!("the rest of the kernel's log is not skipped: {error}");
    }
    found.into()
}

/// Reads until the handle is gone, the main loop is gone, or the log cannot be read any more.
fn follow(mut log: File, stopped: &OwnedFd, out: &Sender<Event>) {
    let mut told = Pace::default();
    loop {
        let set = vec![
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(log.as_fd(), PollFlags::IN),
        ];
        match wait::until(set, None) {
            Ok(ready) if ready.first().is_none_or(|flags| !flags.is_empty()) => return,
            Ok(_) => {}
            Err(error) => {
                // `poll` failed for lack of memory; podkeeper tries again in a moment.
                log::warn!("waiting for what the kernel says failed: {error}; tried again in a moment");
                std::thread::sleep(limits::WAIT_AGAIN);
                continue;
            }
        }
        // Reads one record at a time and checks the handle in between: the kernel may write many records.
        let mut record = [0_u8; limits::KERNEL_RECORD];
        match log.read(&mut record) {
            Ok(0) => return,
            Ok(length) => {
                let record = record.get(..length).unwrap_or_default();
                let found = parse(&String::from_utf8_lossy(record));
                if let Some(kill) = found.filter(|_| told.allows(Instant::now()))
                    && out.send(Event::OutOfMemory(kill)).is_err()
                {
                    return;
                }
            }
            Err(error) => match Errno::from_io_error(&error) {
                // There is no record, or some were overwritten before they were read.
                Some(Errno::AGAIN | Errno::PIPE | Errno::INTR) => {}
                _ => {
                    log::warn!("the kernel's log cannot be read any more: {error}");
                    return;
                }
            },
        }
    }
}

/// Reports at most [`limits::OOM_KILLS`] kills in each [`limits::OOM_WINDOW`]: a container can make the kernel kill its
/// child processes as fast as it creates them.
#[derive(Debug, Default)]
struct Pace {
    begun: Option<Instant>,
    told: usize,
}

impl Pace {
    fn allows(&mut self, now: Instant) -> bool {
        if self.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= limits::OOM_WINDOW) {
            (self.begun, self.told) = (Some(now), 0);
        }
        self.told = self.told.saturating_add(1);
        self.told <= limits::OOM_KILLS
    }
}

/// A kill in one record: `6,339,5140900,-;oom-kill:constraint=CONSTRAINT_MEMCG,…,oom_memcg=/a,task_memcg=/a/b,task=x,
/// pid=7,uid=0` (`mm/oom_kill.c`, `dump_oom_summary`). A program may have any name, so the last `pid=` and the first
/// `task_memcg=` are used. Records that programs wrote into the log are ignored.
#[must_use]
pub fn parse(record: &str) -> Option<OutOfMemory> {
    let (head, text) = record.lines().next()?.split_once(';')?;
    // The facility is above the three bits of the priority; the kernel's facility is 0.
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    let text = text.strip_prefix("oom-kill:constraint=").filter(|_| priority < 8)?;
    let (constraint, rest) = text.split_once(",task_memcg=")?;
    let (cgroup, rest) = rest.split_once(",task=")?;
    let (process, rest) = rest.rsplit_once(",pid=")?;
    let (pid, _) = rest.split_once(",uid=")?;
    Some(OutOfMemory {
        container: cgroup.split('/').find_map(container_id).map(str::to_owned),
        of_the_node: constraint.split(',').any(|part| part == "global_oom"),
        process: process.to_owned(),
        pid: pid.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_kernels_words() {
        let id = "0123456789abcdef".repeat(4);
        let check = |record: &str, expected: Option<(bool, bool, &str, u32)>| {
            let found = parse(record);
            let of = found.as_ref().map(|kill| {
                assert!(kill.container.as_ref().is_none_or(|found| *found == id));
                (kill.container.is_some(), kill.of_the_node, kill.process.as_str(), kill.pid)
            });
            assert_eq!(of, expected, "{record}");
        };
        let limit = "CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods/podu";
        let cgroupfs = format!("/kubepods/podu/{id}");
        let slice = format!("/kubepods.slice/kubepods-podu.slice/docker-{id}.scope/init");
        let memcg = |cgroup: &str, task: &str| {
            format!(
                "6,339,514,-;oom-kill:constraint={limit},task_memcg={cgroup},task={task},pid=711,uid=0\n SUBSYSTEM=x\n"
            )
        };
        check(&memcg(&cgroupfs, "tail"), Some((true, false, "tail", 711)));
        check(&memcg(&slice, "tail"), Some((true, false, "tail", 711)));
        check(&memcg("/system.slice/sshd.service", "sshd"), Some((false, false, "sshd", 711)));
        check(&memcg(&cgroupfs, "a,pid=1,task=b"), Some((true, false, "a,pid=1,task=b", 711)));
        let node = "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom";
        let global = format!("3,1,2,-;oom-kill:constraint={node},task_memcg={cgroupfs},task=x,pid=7,uid=33");
        check(&global, Some((true, true, "x", 7)));
        check(&global.replacen("3,", "11,", 1), None);
        for other in [
            "",
            "6,1,2,-;veth0: entered disabled state",
            "oom-kill:constraint=",
            "6,1;oom-kill:constraint=,pid=1",
        ] {
            check(other, None);
        }
    }

    /// A log that gives one record for each read.
    struct Records {
        all: Vec<Result<String, Errno>>,
        is_skipped: bool,
    }

    impl Read for Records {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let next = if self.all.is_empty() { Err(Errno::AGAIN) } else { self.all.remove(0) };
            let next = next?;
            out[..next.len()].copy_from_slice(next.as_bytes());
            Ok(next.len())
        }
    }

    impl Seek for Records {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.is_skipped = to == SeekFrom::End(0);
            Ok(0)
        }
    }

    /// Regression: a container that Docker had missed the kill of had failed with `OOMKilled`, and after a restart of the
    /// daemon with `Error`.
    #[test]
    fn the_kills_that_the_log_still_has_are_known_at_the_start() {
        let id = |n: usize| format!("{n:064x}");
        let kill = |n: usize| {
            let limit = "CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods/podu";
            Ok(format!(
                "6,3,5,-;oom-kill:constraint={limit},task_memcg=/kubepods/podu/{},task=a,pid=7,uid=0",
                id(n)
            ))
        };
        let other = || Ok("6,1,2,-;veth0: entered disabled state".to_owned());
        let check = |all: Vec<Result<String, Errno>>, expected: Vec<usize>, is_skipped: bool| {
            let mut log = Records { all, is_skipped: false };
            let expected: Vec<String> = expected.into_iter().map(id).collect();
            assert_eq!((earlier(&mut log), log.is_skipped), (expected, is_skipped));
        };
        check(vec![], vec![], false);
        check(
            vec![Err(Errno::PIPE), kill(1), other(), kill(2), Err(Errno::INTR), kill(1)],
            vec![1, 2],
            false,
        );
        check(vec![kill(1), Err(Errno::INVAL), kill(2)], vec![1], false);
        let most = limits::OOM_EARLIER;
        check((0..most + 5).map(kill).collect(), (5..most + 5).collect(), false);
        let mut long: Vec<_> = vec![kill(1)];
        long.extend((0..limits::KERNEL_RECORDS).map(|_| other()));
        check(long, vec![1], true);
    }

    #[test]
    fn a_storm_of_kills_is_told_in_part() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        let allowed = (0..10 * limits::OOM_KILLS).filter(|_| pace.allows(begun)).count();
        assert_eq!(allowed, limits::OOM_KILLS);
        assert!(!pace.allows(begun + limits::OOM_WINDOW - Duration::from_millis(1)));
        assert!(pace.allows(begun + limits::OOM_WINDOW));
    }

    #[test]
    fn without_a_log_there_is_no_thread() {
        let (out, _events) = crossbeam_channel::bounded(1);
        assert!(KernelLog::start(Path::new("/nonexistent"), out).unwrap().is_none());
    }
}
