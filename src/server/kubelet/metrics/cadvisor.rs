//! `/metrics/cadvisor` (cAdvisor, `metrics/prometheus.go`, with the labels of the kubelet's
//! `ContainerPrometheusLabelsFunc`): the kernel's counters of each cgroup of pods, and of the machine. Docker is not
//! asked.

use std::path::{Path, PathBuf};

use super::text::{Kind, Page, float, seconds};
use crate::base::clock::{Clock as _, System, Timestamp};
use crate::cgroup::Naming;
use crate::cgroup::node::MOUNT;
use crate::runtime::names;
use crate::server::http::answer::Answer;
use crate::server::kubelet::Node;
use crate::stats::cgroup::{Details, Figures, Hierarchies};
use crate::stats::counted::{self, Counted};
use crate::stats::network::{self, Interface};
use crate::stats::summary::asked::running;
use crate::stats::{node as machine, places};
use crate::status::snapshot::{PodView, Snapshot};
use k8s_openapi::api::core::v1::Pod;

/// One cgroup with its labels, which are empty when it belongs to no container or no pod.
pub struct Row {
    pub id: String,
    pub container: String,
    pub image: String,
    pub name: String,
    pub namespace: String,
    pub pod: String,
    pub started: Option<Timestamp>,
    pub figures: Figures,
    pub details: Details,
    pub counted: Counted,
    pub interfaces: Vec<Interface>,
}

/// The whole page.
pub fn page(at: &Node) -> Answer {
    let hierarchies = Hierarchies::open(PathBuf::from(MOUNT));
    let rows = rows(&at.pods.get(), &hierarchies, Path::new("/proc"));
    let now = System::start().now().wall.as_millisecond();
    let mut page = Page::default();
    for family in FAMILIES {
        let mut out = page.family(family.name, family.kind, family.help);
        for row in &rows {
            if let Some(value) = (family.take)(row) {
                let mut labels = row.labels();
                labels.extend(family.labels);
                crate::base::order::sort_by_key(&mut labels, |(name, _)| *name);
                out.sample(&labels, value, Some(now));
            }
        }
    }
    networks(&mut page, &rows, now);
    of_machine(&mut page);
    page.answer()
}

struct Of {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// Labels beside those of the row.
    labels: &'static [(&'static str, &'static str)],
    take: fn(&Row) -> Option<f64>,
}

const fn family(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: &'static [(&'static str, &'static str)],
    take: fn(&Row) -> Option<f64>,
) -> Of {
    Of { name, kind, help, labels, take }
}

/// cAdvisor's label of figures of all disks together.
const ALL_DEVICES: &[(&str, &str)] = &[("device", "")];

#[rustfmt::skip]
const FAMILIES: &[Of] = &[
    family("container_cpu_cfs_periods_total", Kind::Counter, "Number of elapsed enforcement period intervals.", &[], |row| limited(row, row.counted.periods).map(float)),
    family("container_cpu_cfs_throttled_periods_total", Kind::Counter, "Number of throttled period intervals.", &[], |row| limited(row, row.counted.throttled_periods).map(float)),
    family("container_cpu_cfs_throttled_seconds_total", Kind::Counter, "Total time duration the container has been throttled.", &[], |row| limited(row, row.counted.throttled).map(seconds)),
    family("container_cpu_system_seconds_total", Kind::Counter, "Cumulative system cpu time consumed in seconds.", &[], |row| row.counted.system.map(seconds)),
    family("container_cpu_usage_seconds_total", Kind::Counter, "Cumulative cpu time consumed in seconds.", &[("cpu", "total")], |row| row.figures.cpu.map(seconds)),
    family("container_cpu_user_seconds_total", Kind::Counter, "Cumulative user cpu time consumed in seconds.", &[], |row| row.counted.user.map(seconds)),
    family("container_fs_reads_bytes_total", Kind::Counter, "Cumulative count of bytes read", ALL_DEVICES, |row| row.counted.io.read_bytes.map(float)),
    family("container_fs_reads_total", Kind::Counter, "Cumulative count of reads completed", ALL_DEVICES, |row| row.counted.io.reads.map(float)),
    family("container_fs_writes_bytes_total", Kind::Counter, "Cumulative count of bytes written", ALL_DEVICES, |row| row.counted.io.written_bytes.map(float)),
    family("container_fs_writes_total", Kind::Counter, "Cumulative count of writes completed", ALL_DEVICES, |row| row.counted.io.writes.map(float)),
    family("container_last_seen", Kind::Gauge, "Last time a container was seen by the exporter", &[], |_| Some(now_seconds())),
    family("container_memory_cache", Kind::Gauge, "Number of bytes of page cache memory.", &[], |row| row.counted.cache.map(float)),
    family("container_memory_failcnt", Kind::Counter, "Number of memory usage hits limits", &[], |row| row.counted.failures.map(float)),
    family("container_memory_failures_total", Kind::Counter, "Cumulative count of memory allocation failures.", &[("failure_type", "pgfault"), ("scope", "hierarchy")], |row| row.details.page_faults.map(float)),
    family("container_memory_mapped_file", Kind::Gauge, "Size of memory mapped files in bytes.", &[], |row| row.counted.mapped_file.map(float)),
    family("container_memory_max_usage_bytes", Kind::Gauge, "Maximum memory usage recorded in bytes", &[], |row| row.counted.max_usage.map(float)),
    family("container_memory_rss", Kind::Gauge, "Size of RSS in bytes.", &[], |row| row.details.rss.map(float)),
    family("container_memory_swap", Kind::Gauge, "Container swap usage in bytes.", &[], |row| row.details.swap.map(float)),
    family("container_memory_usage_bytes", Kind::Gauge, "Current memory usage in bytes, including all memory regardless of when it was accessed", &[], |row| row.figures.usage.map(float)),
    family("container_memory_working_set_bytes", Kind::Gauge, "Current working set in bytes.", &[], |row| row.figures.working_set.map(float)),
    family("container_oom_events_total", Kind::Counter, "Count of out of memory events observed for the container", &[], |row| row.counted.oom_kills.map(float)),
    family("container_spec_cpu_period", Kind::Gauge, "CPU period of the container.", &[], |row| row.counted.period.map(float)),
    family("container_spec_cpu_quota", Kind::Gauge, "CPU quota of the container.", &[], |row| row.counted.quota.map(float)),
    family("container_spec_cpu_shares", Kind::Gauge, "CPU share of the container.", &[], |row| row.counted.shares.map(float)),
    family("container_spec_memory_limit_bytes", Kind::Gauge, "Memory limit for the container.", &[], |row| Some(float(row.figures.limit.unwrap_or(0)))),
    family("container_start_time_seconds", Kind::Gauge, "Start time of the container since unix epoch in seconds.", &[], |row| row.started.and_then(|started| u64::try_from(started.as_second()).ok()).map(float)),
    family("container_threads", Kind::Gauge, "Number of threads running inside the container", &[], |row| row.figures.tasks.map(float)),
];

/// cAdvisor reports these only for a cgroup with a quota.
fn limited(row: &Row, value: Option<u64>) -> Option<u64> {
    row.counted.quota.and(value)
}

fn now_seconds() -> f64 {
    u64::try_from(System::start().now().wall.as_second()).map_or(0.0, float)
}

impl Row {
    /// A row without labels and figures.
    pub fn of(id: &str) -> Row {
        Row {
            id: id.to_owned(),
            container: String::new(),
            image: String::new(),
            name: String::new(),
            namespace: String::new(),
            pod: String::new(),
            started: None,
            figures: Figures::default(),
            details: Details::default(),
            counted: Counted::default(),
            interfaces: Vec::new(),
        }
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        vec![
            ("container", &self.container),
            ("id", &self.id),
            ("image", &self.image),
            ("name", &self.name),
            ("namespace", &self.namespace),
            ("pod", &self.pod),
        ]
    }
}

fn networks(page: &mut Page, rows: &[Row], now: i64) {
    type Take = fn(&Interface) -> u64;
    let families: [(&str, &str, Take); 8] = [
        ("receive_bytes", "Cumulative count of bytes received", |it| it.received.bytes),
        ("receive_errors", "Cumulative count of errors encountered while receiving", |it| it.received.errors),
        ("receive_packets_dropped", "Cumulative count of packets dropped while receiving", |it| {
            it.received.dropped
        }),
        ("receive_packets", "Cumulative count of packets received", |it| it.received.packets),
        ("transmit_bytes", "Cumulative count of bytes transmitted", |it| it.sent.bytes),
        ("transmit_errors", "Cumulative count of errors encountered while transmitting", |it| it.sent.errors),
        ("transmit_packets_dropped", "Cumulative count of packets dropped while transmitting", |it| {
            it.sent.dropped
        }),
        ("transmit_packets", "Cumulative count of packets transmitted", |it| it.sent.packets),
    ];
    for (name, help, take) in families {
        let name = format!("container_network_{name}_total");
        let mut family = page.family(&name, Kind::Counter, help);
        for (row, interface) in rows.iter().flat_map(|row| row.interfaces.iter().map(move |it| (row, it))) {
            let mut labels = row.labels();
            labels.push(("interface", &interface.name));
            crate::base::order::sort_by_key(&mut labels, |(name, _)| *name);
            family.sample(&labels, float(take(interface)), Some(now));
        }
    }
}

fn of_machine(page: &mut Page) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    page.family("machine_cpu_cores", Kind::Gauge, "Number of logical CPU cores.").sample(
        &[],
        float(cores),
        None,
    );
    if let Some(memory) = machine::read(Path::new("/proc")).memory {
        page.family("machine_memory_bytes", Kind::Gauge, "Amount of memory installed on the machine.")
            .sample(&[], float(memory), None);
    }
}

/// The machine, the pods' own cgroups, and their containers.
pub fn rows(snapshot: &Snapshot, hierarchies: &Hierarchies, proc: &Path) -> Vec<Row> {
    let found = places::containers(hierarchies);
    let row = |path: &Path| Row {
        figures: hierarchies.read(path),
        details: hierarchies.details(path),
        counted: counted::read(hierarchies, path),
        ..Row::of(&format!("/{}", path.display()))
    };
    let mut rows = vec![row(Path::new(""))];
    for view in &snapshot.pods {
        let status = Pod { status: Some((*view.status).clone()), ..Pod::default() };
        let mut of_pod: Option<PathBuf> = None;
        let mut containers = Vec::new();
        for (container, id, started) in running(&status) {
            let Some(path) = found.get(id) else { continue };
            of_pod = of_pod.or_else(|| Naming::pod_of(path, &view.pod.uid).map(Path::to_owned));
            containers.push(Row {
                container: container.to_owned(),
                image: image(view, container),
                name: names::container(&view.pod.key, &view.pod.uid, container, restarts(view, container)),
                started,
                ..row(path)
            });
            // All containers of a pod share its network: one is read.
            if containers.len() == 1 && !view.pod.host_network() {
                let process = hierarchies.processes(path).first().copied();
                let interfaces = process.and_then(|pid| network::of_process(proc, pid)).unwrap_or_default();
                containers.iter_mut().for_each(|row| row.interfaces.clone_from(&interfaces));
            }
        }
        let mut all: Vec<Row> = of_pod.iter().map(|path| row(path)).collect();
        // The figures of the network belong to the pod.
        if let (Some(pod), Some(first)) = (all.first_mut(), containers.first_mut()) {
            pod.interfaces = std::mem::take(&mut first.interfaces);
        }
        all.extend(containers);
        for row in &mut all {
            (row.namespace, row.pod) = (view.pod.key.namespace.clone(), view.pod.key.name.clone());
        }
        rows.extend(all);
    }
    rows
}

fn image(view: &PodView, container: &str) -> String {
    let named = view.pod.container(container).and_then(|(_, container)| container.image.clone());
    named.unwrap_or_default()
}

fn restarts(view: &PodView, container: &str) -> u32 {
    let status = &view.status;
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    let count = all.find(|told| told.name == container).map(|told| told.restart_count);
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}
