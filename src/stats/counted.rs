//! Figures of one cgroup beyond [`super::cgroup`], which only cAdvisor's metrics have (cAdvisor,
//! `container/libcontainer/handler.go`).

use std::path::Path;

use super::cgroup::Hierarchies;
use super::{field, number, text};
use crate::cgroup::values::Version;

/// A part is `None` if the kernel does not report it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// CPU time in user mode, nanoseconds.
    pub user: Option<u64>,
    /// CPU time in the kernel, nanoseconds.
    pub system: Option<u64>,
    /// Periods of the quota; periods in which it was used up; nanoseconds for which tasks waited then.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled: Option<u64>,
    /// Bytes of page cache.
    pub cache: Option<u64>,
    /// Bytes of files that are mapped.
    pub mapped_file: Option<u64>,
    /// Highest memory usage so far, bytes.
    pub max_usage: Option<u64>,
    /// How often the memory limit was hit.
    pub failures: Option<u64>,
    /// Out-of-memory kills.
    pub oom_kills: Option<u64>,
    /// Period and quota, microseconds; the quota is `None` if there is none.
    pub period: Option<u64>,
    pub quota: Option<u64>,
    /// CPU shares in the scale of version 1.
    pub shares: Option<u64>,
    /// Bytes and operations, summed over all devices.
    pub io: Io,
}

/// Reads and writes that reached a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub writes: Option<u64>,
}

/// Length of a tick in `cpuacct.stat`, nanoseconds.
const TICK: u64 = super::node::TICK;

/// Reads a cgroup; the path is as for [`Hierarchies::read`].
#[must_use]
pub fn read(hierarchies: &Hierarchies, cgroup: &Path) -> Counted {
    match hierarchies.version() {
        Version::V1 => version_1(hierarchies, cgroup),
        Version::V2 => version_2(hierarchies, cgroup),
    }
}

fn version_1(hierarchies: &Hierarchies, cgroup: &Path) -> Counted {
    let at = |controller: &str| hierarchies.controller(controller).join(cgroup);
    let (memory, cpu, blkio) = (at("memory"), at("cpu"), at("blkio"));
    let time = text(&at("cpuacct").join("cpuacct.stat")).unwrap_or_default();
    let ticks = |name: &str| field(&time, name).and_then(|ticks| ticks.checked_mul(TICK));
    let quota = text(&cpu.join("cpu.stat")).unwrap_or_default();
    let stat = text(&memory.join("memory.stat")).unwrap_or_default();
    let oom = text(&memory.join("memory.oom_control")).unwrap_or_default();
    let bytes = text(&blkio.join("blkio.throttle.io_service_bytes")).unwrap_or_default();
    let operations = text(&blkio.join("blkio.throttle.io_serviced")).unwrap_or_default();
    Counted {
        user: ticks("user"),
        system: ticks("system"),
        periods: field(&quota, "nr_periods"),
        throttled_periods: field(&quota, "nr_throttled"),
        throttled: field(&quota, "throttled_time"),
        cache: field(&stat, "total_cache"),
        mapped_file: field(&stat, "total_mapped_file"),
        max_usage: number(&memory.join("memory.max_usage_in_bytes")),
        failures: number(&memory.join("memory.failcnt")),
        oom_kills: field(&oom, "oom_kill"),
        period: number(&cpu.join("cpu.cfs_period_us")),
        // -1 is not a valid number here: no quota.
        quota: number(&cpu.join("cpu.cfs_quota_us")),
        shares: number(&cpu.join("cpu.shares")),
        io: Io {
            read_bytes: devices(&bytes, "Read"),
            written_bytes: devices(&bytes, "Write"),
            reads: devices(&operations, "Read"),
            writes: devices(&operations, "Write"),
        },
    }
}

fn version_2(hierarchies: &Hierarchies, cgroup: &Path) -> Counted {
    let at = hierarchies.controller("").join(cgroup);
    let read = |name: &str| text(&at.join(name)).unwrap_or_default();
    let (cpu, stat, events, max, io) =
        (read("cpu.stat"), read("memory.stat"), read("memory.events"), read("cpu.max"), read("io.stat"));
    let micros = |name: &str| field(&cpu, name).and_then(|micros| micros.checked_mul(1000));
    let mut words = max.split_whitespace();
    let (quota, period) = (words.next(), words.next());
    Counted {
        user: micros("user_usec"),
        system: micros("system_usec"),
        periods: field(&cpu, "nr_periods"),
        throttled_periods: field(&cpu, "nr_throttled"),
        throttled: micros("throttled_usec"),
        cache: field(&stat, "file"),
        mapped_file: field(&stat, "file_mapped"),
        max_usage: number(&at.join("memory.peak")),
        failures: field(&events, "max"),
        oom_kills: field(&events, "oom_kill"),
        period: period.and_then(|text| text.parse().ok()),
        quota: quota.and_then(|text| text.parse().ok()),
        shares: number(&at.join("cpu.weight")).map(shares),
        io: Io {
            read_bytes: pairs(&io, "rbytes="),
            written_bytes: pairs(&io, "wbytes="),
            reads: pairs(&io, "rios="),
            writes: pairs(&io, "wios="),
        },
    }
}

/// The inverse of runc's conversion (`ConvertCPUSharesToCgroupV2Value`).
fn shares(weight: u64) -> u64 {
    weight.saturating_sub(1).saturating_mul(262_142).checked_div(9999).unwrap_or(0).saturating_add(2)
}

/// The sum over the lines `MAJOR:MINOR WORD NUMBER`; `None` without such a line.
fn devices(text: &str, word: &str) -> Option<u64> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let device = words.next()?;
        (device.contains(':') && words.next()? == word).then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    text.lines().filter_map(of_line).reduce(u64::saturating_add)
}

/// The sum over the values of words with this beginning; `None` without such a word.
fn pairs(text: &str, name: &str) -> Option<u64> {
    let numbers = text.split_whitespace().filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    numbers.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn version_1() {
        let tree = Tree::new("counted-v1");
        tree.write("cpuacct/p/cpuacct.stat", "user 150\nsystem 50\n");
        tree.write("cpu/p/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 777\n");
        tree.write("cpu/p/cpu.cfs_period_us", "100000\n");
        tree.write("cpu/p/cpu.cfs_quota_us", "-1\n");
        tree.write("cpu/p/cpu.shares", "1024\n");
        tree.write("memory/p/memory.stat", "cache 1\ntotal_cache 4096\ntotal_mapped_file 512\n");
        tree.write("memory/p/memory.max_usage_in_bytes", "9999\n");
        tree.write("memory/p/memory.failcnt", "2\n");
        tree.write("memory/p/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
        let bytes = "8:0 Read 100\n8:0 Write 7\n8:16 Read 11\n8:0 Total 118\nTotal 118\n";
        tree.write("blkio/p/blkio.throttle.io_service_bytes", bytes);
        let found = read(&Hierarchies::open(tree.root()), Path::new("p"));
        let expected = Counted {
            user: Some(1_500_000_000),
            system: Some(500_000_000),
            periods: Some(9),
            throttled_periods: Some(3),
            throttled: Some(777),
            cache: Some(4096),
            mapped_file: Some(512),
            max_usage: Some(9999),
            failures: Some(2),
            oom_kills: Some(4),
            period: Some(100_000),
            quota: None,
            shares: Some(1024),
            io: Io { read_bytes: Some(111), written_bytes: Some(7), reads: None, writes: None },
        };
        assert_eq!(found, expected);
        assert_eq!(read(&Hierarchies::open(tree.root()), Path::new("gone")), Counted::default());
    }

    #[test]
    fn version_2() {
        let tree = Tree::new("counted-v2");
        tree.write("cgroup.controllers", "cpu memory\n");
        tree.write(
            "p/cpu.stat",
            "usage_usec 9\nuser_usec 4\nsystem_usec 5\nnr_periods 2\nnr_throttled 1\nthrottled_usec 3\n",
        );
        tree.write("p/cpu.max", "max 100000\n");
        tree.write("p/cpu.weight", "39\n");
        tree.write("p/memory.stat", "anon 1\nfile 4096\nfile_mapped 512\n");
        tree.write("p/memory.events", "low 0\nhigh 0\nmax 6\noom 1\noom_kill 1\n");
        tree.write(
            "p/io.stat",
            "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=5 wbytes=0 rios=1 wios=0\n",
        );
        let found = read(&Hierarchies::open(tree.root()), Path::new("p"));
        let expected = Counted {
            user: Some(4000),
            system: Some(5000),
            periods: Some(2),
            throttled_periods: Some(1),
            throttled: Some(3000),
            cache: Some(4096),
            mapped_file: Some(512),
            max_usage: None,
            failures: Some(6),
            oom_kills: Some(1),
            period: Some(100_000),
            quota: None,
            shares: Some(998),
            io: Io { read_bytes: Some(15), written_bytes: Some(20), reads: Some(2), writes: Some(2) },
        };
        assert_eq!(found, expected);
    }
}
