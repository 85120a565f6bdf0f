//! `stats`: prints all figures of the node, in the shape of the kubelet's `/stats/summary`. It asks the kernel, and
//! Docker only for the places of containers; the daemon need not run.

use std::path::PathBuf;
use std::thread;

use super::engine;
use crate::base::clock::{Clock as _, System};
use crate::base::{limits, locks};
use crate::cgroup::node::MOUNT;
use crate::cli::flags::{Options, Output, endpoint};
use crate::cli::show::json;
use crate::cli::show::yaml;
use crate::cli::{Outcome, pods, print, say};
use crate::stats::cgroup::Hierarchies;
use crate::stats::engine as engine_side;
use crate::stats::summary::asked::{Asked, PodPlace};
use crate::stats::summary::{Reader, Summary};
use crate::status::snapshot::StatusFile;

/// Prints the summary.
pub fn run(options: &Options) -> Outcome {
    let run_dir = &options.directories.run;
    let file = pods::load(run_dir)?.file;
    let docker = engine::docker(&endpoint(&file.docker.endpoint)?)?;
    let mut asked = asked(&file, locks::is_alive(run_dir));
    if let Err(error) = engine_side::ask(&docker, &mut asked) {
        say(&format!("warning: what containers take of the disk is not known: {error}"));
    }
    let reader = Reader::new(PathBuf::from("/proc"), Hierarchies::open(PathBuf::from(MOUNT)), &asked);
    let before = reader.counters();
    thread::sleep(limits::TOP_WINDOW);
    let summary = reader.summary(&before, System::start().now().wall);
    render(options, &summary).map(|text| print(&text))
}

fn render(options: &Options, summary: &Summary) -> Result<String, String> {
    let value =
        serde_json::to_value(summary).map_err(|error| format!("figures cannot be written: {error}"))?;
    Ok(match options.command.output {
        Output::Yaml => yaml::emit(&value),
        _ => format!("{}\n", json::emit(&value)),
    })
}

/// The question for the figures, made of the status file.
fn asked(file: &StatusFile, is_alive: bool) -> Asked {
    let root_dir = pods::root_dir(file);
    Asked {
        node: file.node.clone(),
        daemon: is_alive.then_some(file.pid),
        socket: None,
        docker_root: None,
        pods: file.pods.iter().filter_map(|pod| PodPlace::of(pod, &root_dir)).collect(),
        root_dir,
    }
}
