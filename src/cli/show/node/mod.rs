//! `get node` and `describe node`: the node as kubectl shows it, from what the daemon wrote and what the machine says
//! of itself.

mod describe;
mod facts;

use serde_json::{Map, Value, json};

use super::get::four_spaces;
use super::table::List;
use super::{human, yaml};
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::logging::one_line;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, print};
use crate::status::snapshot::{ConditionView, StatusFile};

pub use describe::run as describe;
use facts::Facts;

/// `get node`.
pub fn get(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    is_this(&status.file, names)?;
    let (facts, now) = (Facts::of_machine(), System::start().now().wall);
    Ok(print(&render(options, &status.file, &facts, now)))
}

/// There is one node.
fn is_this(file: &StatusFile, names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| **name != file.node) {
        Some(other) => Err(format!("nodes {other:?} not found; this node is {}", file.node)),
        None => Ok(()),
    }
}

fn render(options: &Options, file: &StatusFile, facts: &Facts, now: Timestamp) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let headings = (!options.command.no_headers).then(|| headings(wide));
            List::default().render(headings, vec![cells(file, facts, wide, now)])
        }
        Output::Name => format!("node/{}\n", file.node),
        Output::Json => format!("{}\n", four_spaces(&object(file, facts))),
        Output::Yaml => yaml::emit(&object(file, facts)),
    }
}

fn headings(wide: bool) -> Vec<String> {
    let narrow = ["NAME", "STATUS", "ROLES", "AGE", "VERSION"];
    let more: &[&str] = match wide {
        true => &["INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"],
        false => &[],
    };
    narrow.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// `printNode` of `pkg/printers/internalversion/printers.go`.
fn cells(file: &StatusFile, facts: &Facts, wide: bool, now: Timestamp) -> Vec<String> {
    let ready = file.conditions.iter().find(|condition| condition.type_ == "Ready");
    let mut status = match ready {
        Some(ready) if ready.is_true => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if file.drain.is_some() {
        status.push_str(",SchedulingDisabled");
    }
    let age = file.info.started.map(|started| now.as_second().saturating_sub(started.as_second()));
    let age = age.map_or_else(|| "<unknown>".to_owned(), human::duration);
    let mut cells = vec![one_line(&file.node), status, "<none>".to_owned(), age, version(file)];
    if wide {
        let ip = file.addresses.first().map_or("<none>", String::as_str);
        cells.extend([one_line(ip), "<none>".to_owned()]);
        cells.extend([&facts.os_image, &facts.kernel, &runtime(file)].map(|text| one_line(text)));
    }
    cells
}

/// This program's, in the place of the kubelet's.
fn version(file: &StatusFile) -> String {
    format!("podkeeper-{}", one_line(&file.version))
}

fn runtime(file: &StatusFile) -> String {
    match &file.docker.version {
        Some(version) => format!("docker ({version})"),
        None => "docker".to_owned(),
    }
}

/// The API's `Node`.
fn object(file: &StatusFile, facts: &Facts) -> Value {
    let addresses = file.addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip}));
    let addresses: Vec<Value> =
        addresses.chain([json!({"type": "Hostname", "address": file.node})]).collect();
    let condition = |c: &ConditionView| {
        json!({"type": c.type_, "status": status_word(c), "reason": c.reason, "message": c.message,
               "lastTransitionTime": seconds(c.since)})
    };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), file.node.as_str().into());
    metadata.insert("labels".to_owned(), json!(file.info.labels));
    if let Some(started) = file.info.started {
        metadata.insert("creationTimestamp".to_owned(), seconds(started).into());
    }
    let spec = match file.drain {
        Some(_) => json!({"unschedulable": true}),
        None => json!({}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "addresses": addresses,
            "allocatable": file.info.allocatable,
            "capacity": file.info.capacity,
            "conditions": file.conditions.iter().map(condition).collect::<Vec<_>>(),
            "nodeInfo": {
                "architecture": facts.architecture,
                "bootID": facts.boot_id,
                "containerRuntimeVersion": runtime(file),
                "kernelVersion": facts.kernel,
                "kubeletVersion": version(file),
                "machineID": facts.machine_id,
                "operatingSystem": "linux",
                "osImage": facts.os_image,
                "systemUUID": facts.system_uuid,
            },
        },
    })
}

fn status_word(condition: &ConditionView) -> &'static str {
    if condition.is_true { "True" } else { "False" }
}

fn seconds(time: Timestamp) -> String {
    crate::status::seconds(time).0.to_string()
}

#[cfg(test)]
mod tests;
