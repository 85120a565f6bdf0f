//! `/metrics`: the kubelet's own (upstream `pkg/kubelet/metrics/metrics.go`), as far as the node's state has them.

use std::path::Path;

use super::text::{Kind, Page, float, seconds};
use crate::base::table::Table;
use crate::pod::is_final;
use crate::server::http::answer::Answer;
use crate::server::kubelet::Node;
use crate::stats::{node as machine, process};
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// The whole page.
pub fn page(at: &Node) -> Answer {
    let mut page = Page::default();
    let snapshot = at.pods.get();
    of_snapshot(&mut page, &snapshot);
    of_podkeeper(&mut page, &snapshot);
    of_process(&mut page);
    page.answer()
}

fn of_snapshot(page: &mut Page, snapshot: &Snapshot) {
    page.family("kubelet_node_name", Kind::Gauge, "The node's name. The count is always 1.").sample(
        &[("node", &snapshot.node)],
        1.0,
        None,
    );
    let build = [("git_version", concat!("v", env!("CARGO_PKG_VERSION"))), ("platform", PLATFORM)];
    page.family(
        "kubernetes_build_info",
        Kind::Gauge,
        "A metric with a constant '1' value labeled by version and platform.",
    )
    .sample(&build, 1.0, None);
    let is_desired = |view: &&PodView| view.status.reason.as_deref() != Some(UNMANAGED);
    let desired = snapshot.pods.iter().filter(is_desired).count() as u64;
    let mut family = page.family(
        "kubelet_desired_pods",
        Kind::Gauge,
        "The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.",
    );
    // Pods of files and the URL are static.
    family.sample(&[("static", "")], 0.0, None);
    family.sample(&[("static", "true")], float(desired), None);
    let is_active = |view: &&PodView| is_desired(view) && !is_final(view.status.phase.as_deref());
    let active = snapshot.pods.iter().filter(is_active).count() as u64;
    let mut family = page.family(
        "kubelet_active_pods",
        Kind::Gauge,
        "The number of pods the kubelet considers active and which are being considered when admitting new pods. \
         static is true if the pod is not from the apiserver.",
    );
    family.sample(&[("static", "")], 0.0, None);
    family.sample(&[("static", "true")], float(active), None);
    let states = states(snapshot);
    let running = snapshot.pods.iter().filter(|view| runs(view)).count() as u64;
    page.family("kubelet_running_pods", Kind::Gauge, "Number of pods that have a running pod sandbox")
        .sample(&[], float(running), None);
    let mut family =
        page.family("kubelet_running_containers", Kind::Gauge, "Number of containers currently running");
    for (state, count) in states {
        family.sample(&[("container_state", state)], float(count), None);
    }
}

/// Metrics that no kubelet has: why pods do not run, and whether their dependencies work.
fn of_podkeeper(page: &mut Page, snapshot: &Snapshot) {
    let mut family = page.family(
        "podkeeper_pods",
        Kind::Gauge,
        "Number of pods by phase, and by the reason that kubectl shows where it is not the phase.",
    );
    let mut phases: Table<(&str, &str), u64> = Table::new();
    for view in &snapshot.pods {
        let phase = view.status.phase.as_deref().unwrap_or("Unknown");
        let count = phases.get_or_default((phase, view.status.reason.as_deref().unwrap_or_default()));
        *count = count.saturating_add(1);
    }
    for ((phase, reason), count) in phases {
        family.sample(&[("phase", phase), ("reason", reason)], float(count), None);
    }
    let mut family = page.family("podkeeper_source_ready", Kind::Gauge, "1 when the source was read well.");
    for source in &snapshot.sources {
        let is_well = source.ready && source.problem.is_none();
        family.sample(&[("source", &source.name)], f64::from(u8::from(is_well)), None);
    }
    page.family("podkeeper_docker_reachable", Kind::Gauge, "1 while Docker answers.").sample(
        &[],
        f64::from(u8::from(snapshot.docker.reachable)),
        None,
    );
    let mut family =
        page.family("podkeeper_node_condition", Kind::Gauge, "1 while the condition of the node holds.");
    for condition in &snapshot.conditions {
        family.sample(&[("condition", &condition.type_)], f64::from(u8::from(condition.is_true)), None);
    }
}

const PLATFORM: &str = if cfg!(target_arch = "x86_64") {
    "linux/amd64"
} else if cfg!(target_arch = "aarch64") {
    "linux/arm64"
} else if cfg!(target_arch = "arm") {
    "linux/arm"
} else if cfg!(target_arch = "riscv64") {
    "linux/riscv64"
} else {
    "linux"
};

/// Containers by state, in the kubelet's words.
fn states(snapshot: &Snapshot) -> [(&'static str, u64); 3] {
    let (mut running, mut exited, mut created) = (0_u64, 0_u64, 0_u64);
    for view in &snapshot.pods {
        let status = &view.status;
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        for container in lists.into_iter().flatten().flatten() {
            let state = container.state.as_ref();
            let count = match state {
                Some(state) if state.running.is_some() => &mut running,
                Some(state) if state.terminated.is_some() => &mut exited,
                _ if container.container_id.is_some() => &mut created,
                _ => continue,
            };
            *count = count.saturating_add(1);
        }
    }
    [("created", created), ("exited", exited), ("running", running)]
}

/// Whether a container of the pod runs.
fn runs(view: &PodView) -> bool {
    let mut lists =
        view.status.container_statuses.iter().chain(&view.status.init_container_statuses).flatten();
    lists.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// Metrics of this process (with the names of Prometheus' client library).
fn of_process(page: &mut Page) {
    let (proc, pid) = (Path::new("/proc"), std::process::id());
    let Some(figures) = process::read(proc, pid) else { return };
    page.family(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Total user and system CPU time spent in seconds.",
    )
    .sample(&[], seconds(figures.cpu), None);
    page.family("process_resident_memory_bytes", Kind::Gauge, "Resident memory size in bytes.").sample(
        &[],
        float(figures.rss),
        None,
    );
    let open = std::fs::read_dir("/proc/self/fd").map(|all| all.count() as u64);
    if let Ok(open) = open {
        page.family("process_open_fds", Kind::Gauge, "Number of open file descriptors.").sample(
            &[],
            float(open),
            None,
        );
    }
    page.family("process_threads", Kind::Gauge, "Number of threads.").sample(&[], float(figures.tasks), None);
    if let Some(boot) = machine::boot_seconds(proc) {
        let began = float(boot) + figures.started.as_secs_f64();
        page.family(
            "process_start_time_seconds",
            Kind::Gauge,
            "Start time of the process since unix epoch in seconds.",
        )
        .sample(&[], began, None);
    }
}
