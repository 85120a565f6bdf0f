//! `/metrics/resource` (upstream `pkg/kubelet/metrics/collectors/resource_metrics.go`), which metrics-server reads.

use std::path::{Path, PathBuf};

use super::text::{Kind, Page, float, seconds};
use crate::base::clock::{Clock as _, System, Timestamp};
use crate::cgroup::Naming;
use crate::cgroup::node::MOUNT;
use crate::server::http::answer::Answer;
use crate::server::kubelet::{Node, figures};
use crate::stats::cgroup::{Details, Figures, Hierarchies};
use crate::stats::summary::asked::Asked;
use crate::stats::{node, places};

/// Use of a cgroup, with its labels.
struct Row {
    /// `container`, `pod` and `namespace`; a pod has no `container`.
    labels: Vec<(&'static str, String)>,
    started: Option<Timestamp>,
    figures: Figures,
    details: Details,
}

/// The whole page.
pub fn page(at: &Node) -> Answer {
    let hierarchies = Hierarchies::open(PathBuf::from(MOUNT));
    let asked = figures::asked(at);
    let (containers, pods) = rows(&asked, &hierarchies);
    let now = System::start().now().wall.as_millisecond();
    let mut page = Page::default();
    let machine = node::read(Path::new("/proc"));
    let mut one = |name: &str, kind, help: &str, value: Option<f64>| {
        let mut family = page.family(name, kind, help);
        value.into_iter().for_each(|value| family.sample(&[], value, Some(now)));
    };
    let (cpu, memory) = (machine.cpu.map(seconds), machine.working_set.map(float));
    one(
        "node_cpu_usage_seconds_total",
        Kind::Counter,
        "Cumulative cpu time consumed by the node in core-seconds",
        cpu,
    );
    one("node_memory_working_set_bytes", Kind::Gauge, "Current working set of the node in bytes", memory);
    let swap = hierarchies.details(Path::new("")).swap.map(float);
    one(
        "node_swap_usage_bytes",
        Kind::Gauge,
        "Current swap usage of the node in bytes. Reported only on non-windows systems",
        swap,
    );
    of_rows(&mut page, "container", &containers, now);
    let mut family = page.family(
        "container_start_time_seconds",
        Kind::Gauge,
        "Start time of the container since unix epoch in seconds",
    );
    for row in &containers {
        if let Some(started) = row.started {
            #[expect(clippy::cast_precision_loss, reason = "the format has no other numbers")]
            family.sample(&borrowed(&row.labels), started.as_nanosecond() as f64 / 1e9, None);
        }
    }
    of_rows(&mut page, "pod", &pods, now);
    for name in ["resource_scrape_error", "scrape_error"] {
        page.family(
            name,
            Kind::Gauge,
            "1 if there was an error while getting container metrics, 0 otherwise",
        )
        .sample(&[], 0.0, None);
    }
    page.answer()
}

fn of_rows(page: &mut Page, what: &str, rows: &[Row], now: i64) {
    type Take = fn(&Row) -> Option<f64>;
    let families: [(&str, Kind, &str, Take); 4] = [
        (
            "cpu_usage_seconds_total",
            Kind::Counter,
            "Cumulative cpu time consumed by the {} in core-seconds",
            |row| row.figures.cpu.map(seconds),
        ),
        ("memory_working_set_bytes", Kind::Gauge, "Current working set of the {} in bytes", |row| {
            row.figures.working_set.map(float)
        }),
        (
            "swap_usage_bytes",
            Kind::Gauge,
            "Current amount of the {} swap usage in bytes. Reported only on non-windows systems",
            |row| row.details.swap.map(float),
        ),
        ("swap_limit_bytes", Kind::Gauge, "Current amount of the {} swap limit in bytes", |row| {
            row.details.swap_limit.map(float)
        }),
    ];
    for (name, kind, help, take) in families {
        // The kubelet reports limits of swap for containers alone.
        if what == "pod" && name == "swap_limit_bytes" {
            continue;
        }
        let name = format!("{what}_{name}");
        let mut family = page.family(&name, kind, &help.replace("{}", what));
        for row in rows {
            if let Some(value) = take(row) {
                family.sample(&borrowed(&row.labels), value, Some(now));
            }
        }
    }
}

fn borrowed<'a>(labels: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    labels.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Containers that run, and their pods.
fn rows(asked: &Asked, hierarchies: &Hierarchies) -> (Vec<Row>, Vec<Row>) {
    let found = places::containers(hierarchies);
    let (mut containers, mut pods) = (Vec::new(), Vec::new());
    for pod in &asked.pods {
        let names = || {
            [("pod", pod.reference.name.clone()), ("namespace", pod.reference.namespace.clone())].into_iter()
        };
        let mut of_pod: Option<PathBuf> = None;
        for container in &pod.containers {
            let Some(path) = found.get(&container.id) else { continue };
            of_pod = of_pod.or_else(|| Naming::pod_of(path, &pod.reference.uid).map(Path::to_owned));
            containers.push(Row {
                labels: [("container", container.name.clone())].into_iter().chain(names()).collect(),
                started: container.started,
                figures: hierarchies.read(path),
                details: hierarchies.details(path),
            });
        }
        if let Some(path) = of_pod {
            pods.push(Row {
                labels: names().collect(),
                started: pod.started,
                figures: hierarchies.read(&path),
                details: hierarchies.details(&path),
            });
        }
    }
    (containers, pods)
}
