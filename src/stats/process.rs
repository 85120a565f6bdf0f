//! Usage of single processes, for programs without a cgroup of their own.

use std::path::Path;
use std::time::Duration;

use super::node::TICK;
use super::{field, text};

/// Usage of one process, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// CPU time of all its threads, nanoseconds; without that of children.
    pub cpu: u64,
    /// Bytes of memory; shared memory counts with each process.
    pub rss: u64,
    /// Bytes of swap.
    pub swap: u64,
    /// Threads.
    pub tasks: u64,
    /// Start time since the boot; of several processes the earliest.
    pub started: Duration,
}

/// Reads one process; `None` when it does not exist. `proc` is `/proc`.
#[must_use]
pub fn read(proc: &Path, pid: u32) -> Option<Figures> {
    let at = proc.join(pid.to_string());
    // The program's name may contain any character.
    let stat = text(&at.join("stat"))?;
    let numbers: Vec<u64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
    // Fields 14, 15, 20 and 22 of proc_pid_stat(5); the first one here is the third.
    let number = |field: usize| numbers.get(field - 3).copied();
    let ticks = |ticks: u64| ticks.checked_mul(TICK);
    let status = text(&at.join("status"))?;
    let bytes = |name: &str| field(&status, name).unwrap_or(0).saturating_mul(1024);
    Some(Figures {
        cpu: ticks(number(14)?.checked_add(number(15)?)?)?,
        rss: bytes("VmRSS"),
        swap: bytes("VmSwap"),
        tasks: number(20)?,
        started: Duration::from_nanos(ticks(number(22)?)?),
    })
}

/// Reads those of the processes that exist; `None` when none does.
#[must_use]
pub fn read_all(proc: &Path, pids: &[u32]) -> Option<Figures> {
    pids.iter().filter_map(|pid| read(proc, *pid)).reduce(|a, b| Figures {
        cpu: a.cpu.saturating_add(b.cpu),
        rss: a.rss.saturating_add(b.rss),
        swap: a.swap.saturating_add(b.swap),
        tasks: a.tasks.saturating_add(b.tasks),
        started: a.started.min(b.started),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn processes() {
        let tree = Tree::new("stats-process");
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194304 98 0 0 0 150 50 9 9 20 0 4 0 7327249 3133440 413 1 2 3\n";
        tree.write("7/stat", stat);
        tree.write("7/status", "Name:\ta\nVmRSS:\t    2048 kB\nVmSwap:\t      10 kB\nThreads:\t4\n");
        let expected = Figures {
            cpu: 2_000_000_000,
            rss: 2 << 20,
            swap: 10 << 10,
            tasks: 4,
            started: Duration::from_millis(73_272_490),
        };
        assert_eq!(read(&tree.root(), 7), Some(expected));
        // A kernel thread has no memory.
        tree.write("8/stat", &stat.replacen("7 (a)", "8 (k)", 1).replace("7327249", "12"));
        tree.write("8/status", "Name:\tk\n");
        let both = read_all(&tree.root(), &[7, 8, 9]).unwrap();
        assert_eq!((both.cpu, both.rss, both.tasks), (4_000_000_000, 2 << 20, 8));
        assert_eq!(both.started, Duration::from_millis(120));
        assert_eq!(read_all(&tree.root(), &[9]), None);
        tree.write("9/stat", "9 (x) S 1\n");
        tree.write("9/status", "Name:\tx\n");
        assert_eq!(read(&tree.root(), 9), None);
    }

    /// The files of this machine's kernel.
    #[test]
    fn this_process() {
        let figures = read(Path::new("/proc"), std::process::id()).unwrap();
        assert!(
            figures.rss > 1 << 20 && figures.tasks >= 1 && figures.started > Duration::ZERO,
            "{figures:?}"
        );
        assert_eq!(read(Path::new("/proc"), 0), None);
    }
}
