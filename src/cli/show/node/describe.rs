//! `describe node`, in the layout of kubectl's describer (`kubectl/pkg/describe/describe.go`, `describeNode`).

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::is_this;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::logging::one_line;
use crate::base::quantity;
use crate::cli::flags::Options;
use crate::cli::show::describe::Page;
use crate::cli::show::{events, table};
use crate::cli::{Outcome, pods, print, say};
use crate::node::facts::Facts;
use crate::pod::{is_final, requests};
use crate::recorder::object::{self, Events, Involved};
use crate::status::node_object::{About, status_word};
use crate::status::snapshot::{SourceView, StatusFile};

/// Prints the node.
pub fn run(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    is_this(&status.file, names)?;
    let happened = object::read(&options.directories.run).unwrap_or_else(|error| {
        say(&format!("warning: {error}"));
        Events::default()
    });
    Ok(print(&page(&status.file, &Facts::of_machine(), &happened, System::start().now().wall)))
}

/// The whole page.
pub(super) fn page(file: &StatusFile, facts: &Facts, happened: &Events, now: Timestamp) -> String {
    let mut page = Page::default();
    let info = &file.info;
    page.field(0, "Name", &file.node);
    page.field(0, "Roles", "<none>");
    page.list("Labels", info.labels.iter().map(|(key, value)| format!("{key}={value}")));
    page.list("Annotations", []);
    page.field(0, "CreationTimestamp", &human::date(info.started.map(Time).as_ref()));
    page.list("Taints", []);
    page.field(0, "Unschedulable", if file.drain.is_some() { "true" } else { "false" });
    conditions(&mut page, file);
    if !file.stuck.is_empty() {
        page.list("Stuck", file.stuck.iter().cloned());
    }
    let trouble = |source: &SourceView| {
        let why = source.problem.as_deref().or(source.degraded.as_deref())?;
        Some(format!("source {}: {}", source.name, one_line(why)))
    };
    let troubles: Vec<String> = file.sources.iter().filter_map(trouble).collect();
    if !troubles.is_empty() {
        page.list("Problems", troubles);
    }
    page.line(0, "Addresses:");
    for ip in &file.addresses {
        page.field(1, "InternalIP", ip);
    }
    page.field(1, "Hostname", &file.node);
    for (title, list) in [("Capacity:", &info.capacity), ("Allocatable:", &info.allocatable)] {
        page.line(0, title);
        for (resource, quantity) in list {
            page.field(1, resource, quantity);
        }
    }
    page.line(0, "System Info:");
    page.field(1, "Machine ID", &facts.machine_id);
    page.field(1, "System UUID", &facts.system_uuid);
    page.field(1, "Boot ID", &facts.boot_id);
    page.field(1, "Kernel Version", &facts.kernel);
    page.field(1, "OS Image", &facts.os_image);
    page.field(1, "Operating System", "linux");
    page.field(1, "Architecture", &facts.architecture);
    page.field(1, "Container Runtime Version", &About::of_file(file).runtime());
    page.field(1, "Kubelet Version", &About::of_file(file).kubelet_version());
    running(&mut page, file, now);
    let is_its = |of: &Involved| of.kind == object::NODE && of.uid == file.node;
    page.0.push_str(&events::describe(happened, &is_its, now));
    table::align(&page.0)
}

fn conditions(page: &mut Page, file: &StatusFile) {
    if file.conditions.is_empty() {
        return page.field(0, "Conditions", "<none>");
    }
    page.0.push_str("Conditions:\n  Type\tStatus\tLastTransitionTime\tReason\tMessage\n");
    page.0.push_str("  ----\t------\t------------------\t------\t-------\n");
    for c in &file.conditions {
        let since = human::date(Some(&Time(c.since)));
        let (reason, message) = (one_line(&c.reason), one_line(&c.message));
        let _ = writeln!(
            page.0,
            "  {} \t{} \t{since} \t{reason} \t{message}",
            one_line(&c.type_),
            status_word(c)
        );
    }
}

/// Resources of the table.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The pods that have not ended, with their requests and limits.
fn running(page: &mut Page, file: &StatusFile, now: Timestamp) {
    let has_ended = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        is_final(phase)
    };
    let pods: Vec<(&Pod, &PodSpec)> = file
        .pods
        .iter()
        .filter(|pod| !has_ended(pod))
        .filter_map(|pod| Some((pod, pod.spec.as_ref()?)))
        .collect();
    let _ = writeln!(page.0, "Non-terminated Pods:\t({} in total)", pods.len());
    page.0.push_str("  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge\n");
    page.0.push_str("  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---\n");
    for (pod, spec) in &pods {
        let [cpu, memory] = ["cpu", "memory"].map(|resource| asked(file, &[spec], resource));
        let text = |value: &Option<String>| one_line(value.as_deref().unwrap_or_default());
        let age = human::age(pod.status.as_ref().and_then(|status| status.start_time.as_ref()), now);
        let _ = writeln!(
            page.0,
            "  {}\t{}\t\t{}\t{}\t{}\t{}\t{age}",
            text(&pod.metadata.namespace),
            text(&pod.metadata.name),
            cpu[0],
            cpu[1],
            memory[0],
            memory[1]
        );
    }
    page.0.push_str("Allocated resources:\n");
    page.0.push_str("  (Total limits may be over 100 percent, i.e., overcommitted.)\n");
    page.0.push_str("  Resource\tRequests\tLimits\n  --------\t--------\t------\n");
    let specs: Vec<&PodSpec> = pods.iter().map(|(_, spec)| *spec).collect();
    for resource in RESOURCES {
        let [request, limit] = asked(file, &specs, resource);
        let _ = writeln!(page.0, "  {resource}\t{request}\t{limit}");
    }
}

/// Sums of requests and of limits of these pods, such as `850m (42%)`. A pod without a limit counts as 0, as in
/// kubectl.
fn asked(file: &StatusFile, specs: &[&PodSpec], resource: &str) -> [String; 2] {
    let sum = |of: &dyn Fn(&PodSpec) -> i64| specs.iter().map(|spec| of(spec)).fold(0, i64::saturating_add);
    let request = sum(&|spec| requests::request(spec, resource));
    let limit = sum(&|spec| requests::limits_told(spec, resource));
    let given = file.info.allocatable.get(resource).and_then(|text| match resource {
        "cpu" => quantity::milli(text).ok(),
        _ => quantity::value(text).ok(),
    });
    [request, limit].map(|amount| {
        let whole = i128::from(given.unwrap_or(0));
        let percent = if whole > 0 { i128::from(amount).saturating_mul(100) / whole } else { 0 };
        let text = match resource {
            "cpu" => quantity::cores(amount),
            _ => quantity::bytes(amount),
        };
        format!("{text} ({percent}%)")
    })
}
