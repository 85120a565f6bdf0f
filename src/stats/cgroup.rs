//! Figures of one cgroup, of version 1 or 2, as the kubelet counts them (cAdvisor, `container/libcontainer/handler.go`).

use std::path::{Path, PathBuf};

use super::pressure::Pressures;
use super::{field, number, text};
use crate::cgroup::values::Version;

/// Usage of one cgroup and all below it. A part is `None` if the kernel does not report it: the controller is not
/// mounted, or the cgroup is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// CPU time since the cgroup was made, nanoseconds.
    pub cpu: Option<u64>,
    /// Bytes of memory without page cache that was unused for a while: memory that the kernel cannot reclaim at once.
    /// Eviction and `kubectl top` use this figure.
    pub working_set: Option<u64>,
    /// Bytes of memory with all page cache.
    pub usage: Option<u64>,
    /// Bytes of the page cache that is in the working set.
    pub active_cache: Option<u64>,
    /// Limit of memory in bytes; `None` without a limit.
    pub limit: Option<u64>,
    /// Number of processes and threads.
    pub tasks: Option<u64>,
}

/// More figures, which only a request for everything needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Details {
    /// Bytes of anonymous memory, without swapped-out memory.
    pub rss: Option<u64>,
    /// Page faults since the cgroup was made.
    pub page_faults: Option<u64>,
    /// Page faults that read from a disk.
    pub major_page_faults: Option<u64>,
    /// Bytes of swap; `None` if the kernel does not count them.
    pub swap: Option<u64>,
    /// Limit of swap in bytes; `None` without a limit.
    pub swap_limit: Option<u64>,
}

/// The cgroup file systems of a machine.
#[derive(Debug, Clone)]
pub struct Hierarchies {
    /// Usually `/sys/fs/cgroup`.
    root: PathBuf,
    /// Version of the hierarchy that is mounted there. A hybrid machine has version 1.
    version: Version,
}

impl Hierarchies {
    /// The hierarchies mounted at `root`.
    #[must_use]
    pub fn open(root: PathBuf) -> Hierarchies {
        let whole = root.join("cgroup.controllers").exists();
        Hierarchies { version: if whole { Version::V2 } else { Version::V1 }, root }
    }

    /// The directory whose tree contains every cgroup with processes; in version 1 the tree of one controller, because
    /// Docker creates a container's cgroup in each.
    #[must_use]
    pub fn tree(&self) -> PathBuf {
        self.controller("memory")
    }

    /// The directory in which podkeeper can request notifications about the memory usage of a cgroup. Version 2 has no
    /// such notifications.
    #[must_use]
    pub fn threshold_events(&self, cgroup: &Path) -> Option<PathBuf> {
        (self.version == Version::V1).then(|| self.controller("memory").join(cgroup))
    }

    /// The version that is mounted.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Processes in this cgroup itself, without those in cgroups below it.
    #[must_use]
    pub fn processes(&self, cgroup: &Path) -> Vec<u32> {
        let text = text(&self.controller("memory").join(cgroup).join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Details of a cgroup, with its path as for [`Hierarchies::read`].
    #[must_use]
    pub fn details(&self, cgroup: &Path) -> Details {
        let at = self.controller("memory").join(cgroup);
        let stat = text(&at.join("memory.stat")).unwrap_or_default();
        match self.version {
            Version::V1 => Details {
                rss: field(&stat, "total_rss"),
                page_faults: field(&stat, "total_pgfault"),
                major_page_faults: field(&stat, "total_pgmajfault"),
                swap: field(&stat, "total_swap"),
                // The kernel limits memory and swap together.
                swap_limit: limit_v1(&at.join("memory.memsw.limit_in_bytes"))
                    .zip(limit_v1(&at.join("memory.limit_in_bytes")))
                    .map(|(both, memory)| both.saturating_sub(memory)),
            },
            Version::V2 => Details {
                rss: field(&stat, "anon"),
                page_faults: field(&stat, "pgfault"),
                major_page_faults: field(&stat, "pgmajfault"),
                swap: number(&at.join("memory.swap.current")),
                swap_limit: number(&at.join("memory.swap.max")),
            },
        }
    }

    /// How long tasks of a cgroup had to wait. Version 1 does not report this; on a hybrid machine, the cgroup exists a
    /// second time, in the hierarchy of version 2 without controllers.
    #[must_use]
    pub fn pressures(&self, cgroup: &Path) -> Pressures {
        let at = match self.version {
            Version::V1 => self.root.join("unified").join(cgroup),
            Version::V2 => self.root.join(cgroup),
        };
        let read = |resource: &str| text(&at.join(format!("{resource}.pressure")));
        Pressures::of(read)
    }

    /// The mount point of this controller; in version 2 all have the same.
    #[must_use]
    pub(super) fn controller(&self, controller: &str) -> PathBuf {
        match self.version {
            Version::V1 => self.root.join(controller),
            Version::V2 => self.root.clone(),
        }
    }

    /// Figures of a cgroup; `cgroup` is its path without a leading slash, and without that of the mount.
    #[must_use]
    pub fn read(&self, cgroup: &Path) -> Figures {
        match self.version {
            Version::V1 => Figures {
                cpu: number(&self.controller("cpuacct").join(cgroup).join("cpuacct.usage")),
                limit: limit_v1(&self.controller("memory").join(cgroup).join("memory.limit_in_bytes")),
                tasks: number(&self.controller("pids").join(cgroup).join("pids.current")),
                ..memory(
                    &self.controller("memory").join(cgroup),
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                    "total_active_file",
                )
            },
            Version::V2 => {
                let at = self.root.join(cgroup);
                let cpu = text(&at.join("cpu.stat")).and_then(|text| field(&text, "usage_usec"));
                Figures {
                    cpu: cpu.and_then(|microseconds| microseconds.checked_mul(1000)),
                    // `max` is not a number: no limit.
                    limit: number(&at.join("memory.max")),
                    tasks: number(&at.join("pids.current")),
                    ..memory(&at, "memory.current", "inactive_file", "active_file")
                }
            }
        }
    }
}

/// Reads a limit of version 1, where the kernel writes its largest number of whole pages for "none".
fn limit_v1(file: &Path) -> Option<u64> {
    number(file).filter(|limit| *limit < u64::MAX >> 2)
}

fn memory(at: &Path, usage: &str, cache: &str, active: &str) -> Figures {
    let usage = number(&at.join(usage));
    let stat = text(&at.join("memory.stat"));
    let active_cache = stat.as_ref().and_then(|stat| field(stat, active));
    let working_set =
        usage.zip(stat).map(|(usage, stat)| usage.saturating_sub(field(&stat, cache).unwrap_or(0)));
    Figures { usage, working_set, active_cache, ..Figures::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn version_1() {
        let tree = Tree::new("stats-cgroup-v1");
        tree.write("memory/p/memory.usage_in_bytes", "104857600\n");
        tree.write(
            "memory/p/memory.stat",
            "cache 9\ninactive_file 7\ntotal_rss 3\ntotal_inactive_file 4857600\ntotal_active_file 50\n",
        );
        tree.write("memory/p/memory.limit_in_bytes", "268435456\n");
        tree.write("memory/bare/memory.limit_in_bytes", "9223372036854771712\n");
        tree.write("pids/p/pids.current", "5\n");
        tree.write("cpuacct/p/cpuacct.usage", "123456789\n");
        tree.write("memory/bare/memory.usage_in_bytes", "1000\n");
        tree.write("memory/bare/memory.stat", "total_inactive_file 4000\n");
        let read = |cgroup: &str| Hierarchies::open(tree.root()).read(Path::new(cgroup));
        let expected = Figures {
            cpu: Some(123_456_789),
            working_set: Some(100_000_000),
            usage: Some(104_857_600),
            active_cache: Some(50),
            limit: Some(268_435_456),
            tasks: Some(5),
        };
        assert_eq!(read("p"), expected);
        // More cache than usage, because the two are not read at the same time; no limit; controllers that are not
        // mounted.
        assert_eq!(read("bare"), Figures { working_set: Some(0), usage: Some(1000), ..Figures::default() });
        assert_eq!(read("gone"), Figures::default());
    }

    #[test]
    fn version_2() {
        let tree = Tree::new("stats-cgroup-v2");
        tree.write("cgroup.controllers", "cpu memory pids\n");
        tree.write("p/cpu.stat", "usage_usec 4500\nuser_usec 4000\nsystem_usec 500\n");
        tree.write("p/memory.current", "3000\n");
        tree.write("p/memory.stat", "anon 1200\nfile 1800\ninactive_file 800\nactive_file 600\n");
        let read = |cgroup: &str| Hierarchies::open(tree.root()).read(Path::new(cgroup));
        tree.write("p/memory.max", "max\n");
        tree.write("p/pids.current", "2\n");
        let expected = Figures {
            cpu: Some(4_500_000),
            working_set: Some(2200),
            usage: Some(3000),
            active_cache: Some(600),
            limit: None,
            tasks: Some(2),
        };
        assert_eq!(read("p"), expected);
        tree.write("p/memory.max", "4096\n");
        assert_eq!(read("p").limit, Some(4096));
        tree.write("p/memory.current", "a lot\n");
        assert_eq!(read("p").working_set, None);
        assert_eq!(read("gone"), Figures::default());
    }

    #[test]
    fn details_of_version_1() {
        let tree = Tree::new("stats-details-v1");
        tree.write(
            "memory/p/memory.stat",
            "rss 1\npgfault 2\nswap 9\ntotal_rss 4096\ntotal_swap 300\ntotal_pgfault 77\ntotal_pgmajfault 5\n",
        );
        tree.write("memory/p/memory.limit_in_bytes", "1000000\n");
        tree.write("memory/p/memory.memsw.limit_in_bytes", "1500000\n");
        tree.write("memory/p/cgroup.procs", "12\n7\n");
        tree.write("unified/p/memory.pressure", "some avg10=1.50 avg60=0.00 avg300=0.00 total=42\n");
        let hierarchies = Hierarchies::open(tree.root());
        let expected = Details {
            rss: Some(4096),
            page_faults: Some(77),
            major_page_faults: Some(5),
            swap: Some(300),
            swap_limit: Some(500_000),
        };
        assert_eq!(hierarchies.details(Path::new("p")), expected);
        assert_eq!(hierarchies.processes(Path::new("p")), [12, 7]);
        let told = hierarchies.pressures(Path::new("p"));
        assert_eq!(told.memory.unwrap().some.unwrap().total, 42);
        assert_eq!((told.cpu, told.io), (None, None));
        // Docker sets both limits to the same value: no swap. Without a memory limit, the swap limit is unknown.
        tree.write("memory/p/memory.memsw.limit_in_bytes", "1000000\n");
        assert_eq!(hierarchies.details(Path::new("p")).swap_limit, Some(0));
        tree.write("memory/p/memory.memsw.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(hierarchies.details(Path::new("p")).swap_limit, None);
        assert_eq!(hierarchies.details(Path::new("gone")), Details::default());
        assert_eq!(hierarchies.pressures(Path::new("gone")), Pressures::default());
    }

    #[test]
    fn details_of_version_2() {
        let tree = Tree::new("stats-details-v2");
        tree.write("cgroup.controllers", "cpu memory pids\n");
        tree.write("p/memory.stat", "anon 1200\nfile 1800\npgfault 11\npgmajfault 2\n");
        tree.write("p/memory.swap.current", "500\n");
        tree.write("p/memory.swap.max", "4096\n");
        tree.write("p/cgroup.procs", "");
        tree.write("p/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
        let hierarchies = Hierarchies::open(tree.root());
        let expected = Details {
            rss: Some(1200),
            page_faults: Some(11),
            major_page_faults: Some(2),
            swap: Some(500),
            swap_limit: Some(4096),
        };
        assert_eq!(hierarchies.details(Path::new("p")), expected);
        assert!(hierarchies.processes(Path::new("p")).is_empty());
        assert_eq!(hierarchies.pressures(Path::new("p")).cpu.unwrap().some.unwrap().total, 9);
        tree.write("p/memory.swap.max", "max\n");
        assert_eq!(hierarchies.details(Path::new("p")).swap_limit, None);
    }

    /// The files of this machine's kernel.
    #[test]
    fn this_machines_cgroups_tell_something() {
        let hierarchies = Hierarchies::open(PathBuf::from("/sys/fs/cgroup"));
        let found = super::super::places::containers(&hierarchies);
        for path in found.values() {
            // A container may end meanwhile, and its groups go one after the other.
            let told = (0..500).find_map(|_| {
                let figures = hierarchies.read(path);
                let is_whole = figures.cpu.is_some() && figures.working_set.is_some();
                std::thread::sleep(std::time::Duration::from_millis(if is_whole { 0 } else { 10 }));
                (is_whole || !hierarchies.tree().join(path).exists()).then_some(())
            });
            assert!(told.is_some(), "{path:?} {:?}", hierarchies.read(path));
        }
    }
}
