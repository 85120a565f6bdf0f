//! `get node` and `describe node`: the node as kubectl shows it, from the daemon's status file and the machine's own
//! facts.

mod describe;

use serde_json::Value;

use super::json;
use super::table::List;
use super::yaml;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::logging::one_line;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, print};
use crate::node::facts::Facts;
use crate::status::node_object::About;
use crate::status::snapshot::StatusFile;

pub use describe::run as describe;

/// `get node`.
pub fn get(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    is_this(&status.file, names)?;
    let (facts, now) = (Facts::of_machine(), System::start().now().wall);
    Ok(print(&match &options.command.template {
        Some(template) => template.print(&object(names, &status.file, &facts), options.command.no_headers)?,
        None => render(options, names, &status.file, &facts, now),
    }))
}

/// Checks that the names are of this node, the only one.
pub(super) fn is_this(file: &StatusFile, names: &[String]) -> Result<(), String> {
    match names.iter().find(|name| **name != file.node) {
        Some(other) => Err(format!("nodes {other:?} not found; this node is {}", file.node)),
        None => Ok(()),
    }
}

fn render(options: &Options, names: &[String], file: &StatusFile, facts: &Facts, now: Timestamp) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let headings = (!options.command.no_headers).then(|| headings(wide));
            List::default().render(headings, vec![cells(file, facts, wide, now)])
        }
        Output::Name => format!("node/{}\n", file.node),
        Output::Json => format!("{}\n", json::emit(&object(names, file, facts))),
        Output::Yaml => yaml::emit(&object(names, file, facts)),
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

fn cells(file: &StatusFile, facts: &Facts, wide: bool, now: Timestamp) -> Vec<String> {
    let mut cells = About::of_file(file).cells(facts, wide, now);
    // kubectl shows no pressure in this column; without a control plane no other column would.
    let short = file.conditions.iter().filter(|condition| condition.type_ != "Ready" && condition.is_true);
    let short: String = short.map(|condition| format!(",{}", one_line(&condition.type_))).collect();
    if let Some(status) = cells.get_mut(1) {
        let at = status.find(',').unwrap_or(status.len());
        status.insert_str(at, &short);
    }
    cells
}

/// The API's `Node` when its name was given, else a list of it.
fn object(names: &[String], file: &StatusFile, facts: &Facts) -> Value {
    json::objects(names, vec![About::of_file(file).object(facts)])
}

#[cfg(test)]
mod tests;
