//! The whole machine, from `/proc`.

use std::path::Path;

use super::{field, number, text};

/// Usage of the machine. A part is `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// CPU time since the boot, summed over all CPUs, nanoseconds; without waiting for a disk.
    pub cpu: Option<u64>,
    /// Bytes of memory that are not free, without page cache that was unused for a while.
    pub working_set: Option<u64>,
    /// Total bytes of memory.
    pub memory: Option<u64>,
    /// Bytes of memory that programs can get without swapping, by the kernel's estimate: it would reclaim page cache
    /// that is in use, too.
    pub available: Option<u64>,
    /// Processes and threads.
    pub tasks: Option<u64>,
    /// Highest possible number of tasks.
    pub most_tasks: Option<u64>,
}

/// Length of the ticks in `/proc/stat`, nanoseconds: `USER_HZ` is 100 on every architecture podkeeper is built for.
pub(super) const TICK: u64 = 10_000_000;

/// Reads `proc`, which is `/proc`.
#[must_use]
pub fn read(proc: &Path) -> Figures {
    let limit = |name: &str| number(&proc.join("sys/kernel").join(name));
    let meminfo = text(&proc.join("meminfo"));
    Figures {
        cpu: text(&proc.join("stat")).and_then(|text| cpu(&text)),
        working_set: meminfo.as_deref().and_then(working_set),
        available: meminfo.as_deref().and_then(|text| field(text, "MemAvailable")?.checked_mul(1024)),
        memory: meminfo.as_deref().and_then(|text| field(text, "MemTotal")?.checked_mul(1024)),
        tasks: text(&proc.join("loadavg")).and_then(|text| tasks(&text)),
        most_tasks: [limit("pid_max"), limit("threads-max")].into_iter().flatten().min(),
    }
}

/// When the machine was booted, in seconds of wall time.
#[must_use]
pub fn boot_seconds(proc: &Path) -> Option<u64> {
    text(&proc.join("stat")).and_then(|text| field(&text, "btime"))
}

/// Parses `0.52 2.09 3.03 1/345 4711`: the number of tasks is after the slash.
fn tasks(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal. Stolen time belongs to other machines,
/// and "user" includes guests already.
fn cpu(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let used =
        [0, 1, 2, 5, 6].iter().filter_map(|i| ticks.get(*i)).fold(0_u64, |sum, n| sum.saturating_add(*n));
    ticks.get(3)?;
    used.checked_mul(TICK)
}

fn working_set(text: &str) -> Option<u64> {
    let bytes = |name: &str| field(text, name).and_then(|kib| kib.checked_mul(1024));
    let usage = bytes("MemTotal")?.saturating_sub(bytes("MemFree")?);
    Some(usage.saturating_sub(bytes("Inactive(file)").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn a_machine() {
        let tree = Tree::new("stats-node");
        tree.write("stat", "cpu  10 2 30 400 50 6 7 800 9 0\ncpu0 1 1 1 1\n");
        tree.write(
            "meminfo",
            "MemTotal:  1000 kB\nMemFree: 300 kB\nMemAvailable: 650 kB\nInactive:  9 kB\nInactive(file):  200 kB\n",
        );
        tree.write("loadavg", "0.52 2.09 3.03 1/345 4711\n");
        tree.write("sys/kernel/pid_max", "32768\n");
        tree.write("sys/kernel/threads-max", "15000\n");
        let expected = Figures {
            cpu: Some(55 * 10_000_000),
            working_set: Some(512_000),
            available: Some(650 * 1024),
            memory: Some(1_024_000),
            tasks: Some(345),
            most_tasks: Some(15_000),
        };
        assert_eq!(read(&tree.root()), expected);
        tree.write("stat", "cpu  10 2\n");
        tree.write("meminfo", "MemFree:  1000 kB\n");
        tree.write("loadavg", "0.52 2.09\n");
        tree.write("sys/kernel/pid_max", "many\n");
        let bare = Figures { most_tasks: Some(15_000), ..Figures::default() };
        assert_eq!(read(&tree.root()), bare);
        assert_eq!(read(Path::new("/nonexistent")), Figures::default());
    }

    #[test]
    fn this_machine() {
        let figures = read(Path::new("/proc"));
        assert!(figures.cpu.unwrap() > 0, "{figures:?}");
        let capacity = u64::try_from(crate::node::sys::total_memory()).unwrap();
        let used = figures.working_set.unwrap();
        assert!(used > 0 && used < capacity, "{figures:?}");
    }
}
