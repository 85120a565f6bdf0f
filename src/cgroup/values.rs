//! Values of a pod's cgroup: sums over its containers, in the formats of both versions of cgroups (upstream
//! `pkg/kubelet/cm/helpers_linux.go`). Pure.

use super::cpu;
use crate::base::table::Table;
use crate::pod::DesiredPod;
use crate::pod::qos::{self, Qos};
use crate::pod::requests::{self, HUGE_PAGES};

/// Version of a cgroup hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

/// The wanted cgroup of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// UID of the pod.
    pub uid: String,
    /// The pod's class, which determines the path.
    pub qos: Qos,
    /// Thousandths of a CPU that the pod requests: its part of its class's weight.
    pub milli_cpu: i64,
    /// Weight and limits.
    pub values: Values,
}

/// Weight and limits of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    /// Weight in shares (2 to 262144).
    pub cpu_shares: i64,
    /// Microseconds of each period of 100 ms; `None` for no limit.
    pub cpu_quota: Option<i64>,
    /// Bytes; `None` for no limit.
    pub memory: Option<i64>,
    /// Processes and threads; `None` for no limit.
    pub pids: Option<i64>,
    /// Bytes of huge pages, by size in the kernel's format (`2MB`); other sizes are limited to 0.
    pub huge_pages: Table<String, i64>,
}

impl PodCgroup {
    /// The cgroup of this pod. `pids`: `--pod-max-pids`.
    #[must_use]
    pub fn of(pod: &DesiredPod, pids: Option<i64>) -> PodCgroup {
        let spec = &pod.spec;
        let qos = qos::class(spec);
        let milli_cpu = requests::request(spec, "cpu");
        let limited = qos != Qos::BestEffort;
        let quota = requests::limit(spec, "cpu").filter(|_| limited).map(cpu::quota);
        let huge_pages = requests::names(spec).filter_map(|name| {
            let size = kernel_size(name.strip_prefix(HUGE_PAGES)?)?;
            Some((size, requests::request(spec, name)))
        });
        let values = Values {
            cpu_shares: if limited { cpu::shares(milli_cpu) } else { cpu::shares(0) },
            cpu_quota: quota,
            memory: requests::limit(spec, "memory").filter(|_| limited),
            pids,
            huge_pages: huge_pages.collect(),
        };
        PodCgroup { uid: pod.uid.clone(), qos, milli_cpu, values }
    }

    /// Takes the larger value of both for each limit: while containers are changed one after the other, the
    /// pod has room for both.
    #[must_use]
    pub fn with_room_for(mut self, other: &PodCgroup) -> PodCgroup {
        let more = |a: Option<i64>, b: Option<i64>| a.zip(b).map(|(a, b)| a.max(b));
        let (own, other) = (&mut self.values, &other.values);
        own.cpu_shares = own.cpu_shares.max(other.cpu_shares);
        own.cpu_quota = more(own.cpu_quota, other.cpu_quota);
        own.memory = more(own.memory, other.memory);
        self
    }
}

/// `2Mi` -> `2MB`, the kernel's names for sizes of huge pages.
fn kernel_size(size: &str) -> Option<String> {
    let bytes = crate::base::quantity::value(size).ok().filter(|bytes| *bytes > 0)?;
    let units = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let (unit, whole) = units.into_iter().find(|(_, whole)| bytes % whole == 0)?;
    Some(format!("{}{unit}", bytes / whole))
}

/// One file of a cgroup: controller, name, content.
pub type Entry = (&'static str, String, String);

impl Values {
    /// The files, in the order of writing. `sizes`: sizes of huge pages that the kernel supports.
    #[must_use]
    pub fn files(&self, version: Version, sizes: &[String]) -> Vec<Entry> {
        let limit = |value: Option<i64>| match (value, version) {
            (Some(value), _) => value.to_string(),
            (None, Version::V1) => "-1".to_owned(),
            (None, Version::V2) => "max".to_owned(),
        };
        let pids = self.pids.map_or("max".to_owned(), |pids| pids.to_string());
        let mut files = match version {
            Version::V1 => vec![
                ("cpu", "cpu.shares".to_owned(), self.cpu_shares.to_string()),
                ("cpu", "cpu.cfs_period_us".to_owned(), cpu::PERIOD.to_string()),
                ("cpu", "cpu.cfs_quota_us".to_owned(), limit(self.cpu_quota)),
                ("memory", "memory.limit_in_bytes".to_owned(), limit(self.memory)),
                ("pids", "pids.max".to_owned(), pids),
            ],
            Version::V2 => vec![
                ("cpu", "cpu.weight".to_owned(), weight(self.cpu_shares).to_string()),
                ("cpu", "cpu.max".to_owned(), format!("{} {}", limit(self.cpu_quota), cpu::PERIOD)),
                ("memory", "memory.max".to_owned(), limit(self.memory)),
                ("pids", "pids.max".to_owned(), pids),
            ],
        };
        let file = if version == Version::V1 { "limit_in_bytes" } else { "max" };
        files.extend(sizes.iter().map(|size| {
            let bytes = self.huge_pages.get(size).copied().unwrap_or(0);
            ("hugetlb", format!("hugetlb.{size}.{file}"), bytes.to_string())
        }));
        files
    }

    /// Properties of a slice, for systemd. Huge pages are not included: they are written to files there, too.
    #[must_use]
    pub fn properties(&self, version: Version) -> Vec<String> {
        // systemd uses whole percents of a CPU; rounded up, as in upstream's runc.
        let quota = self.cpu_quota.map(|quota| format!("{}%", quota.saturating_add(999) / 1000));
        let pids = self.pids.map_or("infinity".to_owned(), |pids| pids.to_string());
        vec![
            weight_property(version, self.cpu_shares),
            format!("CPUQuota={}", quota.unwrap_or_default()),
            memory_property(version, self.memory),
            format!("TasksMax={pids}"),
        ]
    }
}

/// The property of a slice's weight.
#[must_use]
pub fn weight_property(version: Version, shares: i64) -> String {
    match version {
        Version::V1 => format!("CPUShares={}", shares.clamp(2, 262_144)),
        Version::V2 => format!("CPUWeight={}", weight(shares)),
    }
}

/// The property of a slice's memory limit, bytes.
#[must_use]
pub fn memory_property(version: Version, memory: Option<i64>) -> String {
    let name = match version {
        Version::V1 => "MemoryLimit",
        Version::V2 => "MemoryMax",
    };
    memory.map_or_else(|| format!("{name}=infinity"), |memory| format!("{name}={memory}"))
}

/// The file of the weight of a class or of `kubepods`.
#[must_use]
pub fn weight_file(version: Version, shares: i64) -> Entry {
    match version {
        Version::V1 => ("cpu", "cpu.shares".to_owned(), shares.to_string()),
        Version::V2 => ("cpu", "cpu.weight".to_owned(), weight(shares).to_string()),
    }
}

/// The file of the memory limit of all pods together, bytes; `None`: without a limit.
#[must_use]
pub fn memory_file(version: Version, memory: Option<i64>) -> Entry {
    let (file, unlimited) = match version {
        Version::V1 => ("memory.limit_in_bytes", "-1"),
        Version::V2 => ("memory.max", "max"),
    };
    ("memory", file.to_owned(), memory.map_or_else(|| unlimited.to_owned(), |memory| memory.to_string()))
}

/// Shares of version 1 as a weight of version 2 (upstream `pkg/kubelet/cm`).
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::pod;

    fn of(spec: &str) -> PodCgroup {
        PodCgroup::of(&pod(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)), Some(100))
    }

    fn files(cgroup: &PodCgroup, version: Version) -> Vec<String> {
        let files = cgroup.values.files(version, &["2MB".to_owned(), "1GB".to_owned()]);
        files.into_iter().map(|(controller, file, text)| format!("{controller} {file}={text}")).collect()
    }

    #[test]
    fn a_guaranteed_pod() {
        let cgroup = of(r#"{"containers":[
            {"name":"a","resources":{"limits":{"cpu":"500m","memory":"64Mi","hugepages-2Mi":"4Mi"}}},
            {"name":"b","resources":{"limits":{"cpu":"1","memory":"64Mi"}}}]}"#);
        assert_eq!((cgroup.qos, cgroup.milli_cpu), (Qos::Guaranteed, 1500));
        let v1 = [
            "cpu cpu.shares=1536",
            "cpu cpu.cfs_period_us=100000",
            "cpu cpu.cfs_quota_us=150000",
            "memory memory.limit_in_bytes=134217728",
            "pids pids.max=100",
            "hugetlb hugetlb.2MB.limit_in_bytes=4194304",
            "hugetlb hugetlb.1GB.limit_in_bytes=0",
        ];
        assert_eq!(files(&cgroup, Version::V1), v1);
        let v2 = [
            "cpu cpu.weight=59",
            "cpu cpu.max=150000 100000",
            "memory memory.max=134217728",
            "pids pids.max=100",
            "hugetlb hugetlb.2MB.max=4194304",
            "hugetlb hugetlb.1GB.max=0",
        ];
        assert_eq!(files(&cgroup, Version::V2), v2);
        assert_eq!(
            cgroup.values.properties(Version::V2),
            ["CPUWeight=59", "CPUQuota=150%", "MemoryMax=134217728", "TasksMax=100"]
        );
        let little = Values { cpu_quota: Some(1), ..cgroup.values };
        assert_eq!(little.properties(Version::V1)[1], "CPUQuota=1%");
    }

    #[test]
    fn limits_need_every_container() {
        let burstable = of(r#"{"containers":[
            {"name":"a","resources":{"limits":{"cpu":"500m","memory":"64Mi"}}},
            {"name":"b","resources":{"requests":{"cpu":"100m"},"limits":{"memory":"1Mi"}}}]}"#);
        let expected = Values {
            cpu_shares: 614,
            cpu_quota: None,
            memory: Some(65 << 20),
            pids: Some(100),
            huge_pages: Table::new(),
        };
        assert_eq!((burstable.qos, &burstable.values), (Qos::Burstable, &expected));
        assert_eq!(
            burstable.values.properties(Version::V1),
            ["CPUShares=614", "CPUQuota=", "MemoryLimit=68157440", "TasksMax=100"]
        );
        let nothing = of(r#"{"containers":[{"name":"a"}]}"#);
        assert_eq!((nothing.qos, nothing.values.cpu_shares), (Qos::BestEffort, 2));
        let nothing_of_pids = Values { pids: None, ..nothing.values.clone() };
        assert_eq!(
            nothing_of_pids.properties(Version::V2),
            ["CPUWeight=1", "CPUQuota=", "MemoryMax=infinity", "TasksMax=infinity"]
        );
        assert_eq!(
            files(&nothing, Version::V1)[2..4],
            ["cpu cpu.cfs_quota_us=-1", "memory memory.limit_in_bytes=-1"]
        );
        assert_eq!(
            files(&nothing, Version::V2)[..3],
            ["cpu cpu.weight=1", "cpu cpu.max=max 100000", "memory memory.max=max"]
        );
    }

    #[test]
    fn the_pods_own_resources_count_first() {
        let cgroup = of(r#"{"resources":{"requests":{"cpu":"250m"},"limits":{"cpu":"2","memory":"1Gi"}},
            "containers":[{"name":"a"},{"name":"b"}]}"#);
        assert_eq!(cgroup.qos, Qos::Burstable);
        assert_eq!((cgroup.values.cpu_shares, cgroup.values.cpu_quota), (256, Some(200_000)));
        assert_eq!(cgroup.values.memory, Some(1 << 30));
    }

    #[test]
    fn room_for_both() {
        let small = of(r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"64Mi"}}}]}"#);
        let large =
            of(r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"500m","memory":"1Gi"}}}]}"#);
        let both = small.clone().with_room_for(&large).values;
        assert_eq!((both.cpu_shares, both.cpu_quota, both.memory), (1024, Some(100_000), Some(1 << 30)));
        let open = of(r#"{"containers":[{"name":"a"}]}"#);
        assert_eq!(small.with_room_for(&open).values.memory, None);
    }

    #[test]
    fn weights_and_sizes() {
        for (shares, expected) in
            [(0, 1), (2, 1), (102, 4), (1024, 39), (262_144, 10_000), (i64::MAX, 10_000)]
        {
            assert_eq!(weight(shares), expected, "{shares}");
        }
        for (size, expected) in
            [("2Mi", Some("2MB")), ("1Gi", Some("1GB")), ("64Ki", Some("64KB")), ("3", None), ("x", None)]
        {
            assert_eq!(kernel_size(size).as_deref(), expected);
        }
    }
}
