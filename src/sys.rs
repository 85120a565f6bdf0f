//! What is asked of the kernel about this process and machine, in safe words.

use rustix::thread::CapabilitySet;

/// Lowest `oom_score_adj` a process may ever have.
const OOM_LOWEST: i32 = -1000;

/// The lowest `oom_score_adj` that may be asked for: -1000 with `CAP_SYS_RESOURCE`, else this process's
/// own value. Asking for less makes a container's start fail (spec/10 section 10).
#[must_use]
pub fn oom_floor() -> i32 {
    let may =
        rustix::thread::capabilities(None).is_ok_and(|c| c.effective.contains(CapabilitySet::SYS_RESOURCE));
    // In a user namespace of its own the capability counts for nothing outside.
    let may = may && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_whole_id_map(&map));
    let own = || std::fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    if may { OOM_LOWEST } else { own().unwrap_or(0) }
}

/// All ids stand for themselves: the initial user namespace.
fn is_whole_id_map(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The node's name as the kernel has it (`uname -n`), unchanged.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Lifts this process's soft limit of open files to the hard one: each pod has a mailbox and connections.
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

/// The machine's architecture in the word of label `kubernetes.io/arch` (Go's `GOARCH`). It is the one
/// this binary was built for, as with the kubelet.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
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
    fn name_and_architecture() {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(hostname(), name.trim_end());
        assert!(["amd64", "arm64", "arm", "riscv64"].contains(&architecture()));
    }
}
