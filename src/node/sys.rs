//! Queries to the kernel about this process and machine, without unsafe code.

use std::path::Path;

use rustix::thread::CapabilitySet;

use crate::base::limits;
use crate::base::table::Table;
use crate::node::Machine;
use crate::pod::allocatable::Allocatable;
use crate::pod::requests::HUGE_PAGES;

/// This process's own `oom_score_adj` (`pkg/kubelet/qos/policy.go`).
const OOM_OWN: i32 = -999;

/// Lowest `oom_score_adj` a process may ever have.
const OOM_LOWEST: i32 = -1000;

/// The lowest `oom_score_adj` that a container may be given: -1000 with `CAP_SYS_RESOURCE`, else this
/// process's own value. A lower one makes the container's start fail (seen with Docker 20.10.24).
#[must_use]
pub fn oom_floor() -> i32 {
    let may =
        rustix::thread::capabilities(None).is_ok_and(|c| c.effective.contains(CapabilitySet::SYS_RESOURCE));
    // In a separate user namespace, the capability has no effect outside.
    let may = may && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_whole_id_map(&map));
    let own = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    if may { OOM_LOWEST } else { own().unwrap_or(0) }
}

/// Whether all ids are mapped to themselves: the initial user namespace.
fn is_whole_id_map(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The node's name from the kernel (`uname -n`), unchanged.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Kubernetes' name of a processor architecture (Go's `GOARCH`).
#[must_use]
pub fn architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Raises this process's soft limit of open files to the hard one: each pod has a mailbox and connections.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let lifted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, lifted)
    {
        log::warn!("the limit of open files stays at {:?}: {error}", limit.current);
    }
}

/// Memory of the machine in bytes; at least 1.
#[must_use]
pub fn total_memory() -> i64 {
    let info = rustix::system::sysinfo();
    let bytes = u128::from(info.totalram).saturating_mul(u128::from(info.mem_unit));
    i64::try_from(bytes).unwrap_or(i64::MAX).max(1)
}

/// The number of bytes of other parties' objects that this machine accepts: at most `most`, and at most one part in
/// `part` of its memory, because objects take many times more memory than text. At least [`limits::OBJECTS_LEAST`].
#[must_use]
pub fn share(most: usize, part: usize) -> usize {
    share_of(usize::try_from(total_memory()).unwrap_or(usize::MAX), most, part)
}

fn share_of(memory: usize, most: usize, part: usize) -> usize {
    memory.checked_div(part).unwrap_or(most).clamp(limits::OBJECTS_LEAST, most)
}

/// Facts about the machine; `root_dir` is on the file system that pods share.
#[must_use]
pub fn machine(root_dir: &Path) -> Machine {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let milli_cpu = i64::try_from(online_cpus().unwrap_or(cpus)).unwrap_or(i64::MAX).saturating_mul(1000);
    let app_armor = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    Machine {
        capacity: Allocatable {
            milli_cpu,
            memory: total_memory(),
            ephemeral_storage: file_system_size(root_dir).unwrap_or(0),
        },
        huge_pages: huge_pages(Path::new("/sys/kernel/mm/hugepages")),
        app_armor: app_armor.is_ok_and(|text| text.starts_with('Y')),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
    }
}

/// Number of CPUs of the machine, including those that this process may not use.
fn online_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let mut count = 0_usize;
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

/// Whether the file system of this directory is mounted read-only, as far as that is known.
#[must_use]
pub fn is_read_only(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|it| it.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Size in bytes of the file system of this directory, or of its nearest existing parent.
fn file_system_size(directory: &Path) -> Option<i64> {
    let found = directory.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
    i64::try_from(u128::from(found.f_blocks).saturating_mul(u128::from(found.f_frsize))).ok()
}

/// Bytes of huge pages by resource name; 0 for a size without pages.
fn huge_pages(directory: &Path) -> Table<String, i64> {
    let sizes = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let kib: i64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages: i64 =
            std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        let size = match kib {
            kib if kib % (1 << 20) == 0 => format!("{}Gi", kib >> 20),
            kib if kib % (1 << 10) == 0 => format!("{}Mi", kib >> 10),
            kib => format!("{kib}Ki"),
        };
        Some((format!("{HUGE_PAGES}{size}"), pages.checked_mul(kib)?.checked_mul(1024)?))
    };
    sizes.filter_map(bytes).collect()
}

/// Makes the kernel's OOM killer kill this process last. Its children inherit this; Docker's containers
/// are not its children.
///
/// # Errors
/// This process may not do it (no `CAP_SYS_RESOURCE`).
pub fn protect_from_oom_killer() -> std::io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", OOM_OWN.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_namespace_is_told_by_its_map() {
        assert!(is_whole_id_map("         0          0 4294967295\n"));
        assert!(!is_whole_id_map("         0     100000      65536\n"));
        assert!(!is_whole_id_map(""));
    }

    #[test]
    fn a_small_machine_takes_less() {
        let (mib, most) = (1_usize << 20, 32 << 20);
        assert_eq!(share_of(256 * mib, most, 64), 4 * mib);
        assert_eq!(share_of(16 * mib, most, 64), limits::OBJECTS_LEAST);
        assert_eq!(share_of(4096 * mib, most, 64), most);
    }

    #[test]
    fn floor_follows_the_capability() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
        // CAP_SYS_RESOURCE is bit 24.
        assert_eq!(oom_floor(), if mask >> 24 & 1 == 1 { -1000 } else { own });
    }

    #[test]
    fn memory_is_what_proc_says() {
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kib: i64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        assert_eq!(total_memory(), kib * 1024);
    }

    #[test]
    fn the_machine_in_figures() {
        let machine = machine(Path::new("/var/lib/podkeeper-none/below"));
        let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
        assert_eq!(machine.capacity.milli_cpu, i64::try_from(cpus).unwrap() * 1000);
        assert_eq!(machine.capacity.memory, total_memory());
        assert!(machine.capacity.ephemeral_storage > 0);
        assert!(!machine.kernel.is_empty());
        let dir =
            crate::base::testing::temporary().join(format!("podkeeper-hugepages-{}", std::process::id()));
        for (name, pages) in
            [("hugepages-2048kB", "3\n"), ("hugepages-1048576kB", "0\n"), ("hugepages-64kB", "1\n")]
        {
            std::fs::create_dir_all(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join("nr_hugepages"), pages).unwrap();
        }
        let expected = [("hugepages-1Gi", 0), ("hugepages-2Mi", 6 << 20), ("hugepages-64Ki", 64 << 10)];
        assert_eq!(huge_pages(&dir), expected.map(|(name, bytes)| (name.to_owned(), bytes)).into());
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(huge_pages(&dir).is_empty());
    }

    #[test]
    fn the_name_is_the_kernels() {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(hostname(), name.trim_end());
    }
}
