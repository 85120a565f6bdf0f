//! `stats`: all figures of the node at once, in the shape of the kubelet's `/stats/summary`. The kernel is asked, and
//! Docker only where it keeps containers; the daemon need not run.

use std::path::{Path, PathBuf};
use std::thread;

use super::engine;
use crate::base::clock::{Clock as _, System};
use crate::base::{limits, locks};
use crate::cgroup::node::MOUNT;
use crate::cli::flags::{Options, Output, endpoint};
use crate::cli::show::get::four_spaces;
use crate::cli::show::yaml;
use crate::cli::{Outcome, pods, print, say};
use crate::runtime::docker::Docker;
use crate::runtime::{Call, ContainerFiles, ContainerSummary, DockerError, DockerState, Reply, labels};
use crate::stats::cgroup::Hierarchies;
use crate::stats::summary::asked::{Asked, PodPlace};
use crate::stats::summary::{Reader, Summary};
use crate::status::snapshot::StatusFile;

/// Prints the summary.
pub fn run(options: &Options) -> Outcome {
    let run_dir = &options.directories.run;
    let file = pods::load(run_dir)?.file;
    let docker = engine::docker(&endpoint(&file.docker.endpoint)?)?;
    let mut asked = asked(&file, options, locks::is_alive(run_dir));
    if let Err(error) = ask(&docker, &mut asked) {
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
        _ => format!("{}\n", four_spaces(&value)),
    })
}

/// What the daemon wrote.
fn asked(file: &StatusFile, options: &Options, is_alive: bool) -> Asked {
    let root_dir = match file.root_dir.is_empty() {
        true => options.directories.root.clone(),
        false => PathBuf::from(&file.root_dir),
    };
    Asked {
        node: file.node.clone(),
        daemon: is_alive.then_some(file.pid),
        socket: None,
        docker_root: None,
        pods: file.pods.iter().filter_map(|pod| PodPlace::of(pod, &root_dir)).collect(),
        root_dir,
    }
}

/// What only Docker knows: where its files are, and which containers are sandboxes. A container that is gone meanwhile
/// takes nothing.
fn ask(docker: &Docker, asked: &mut Asked) -> Result<(), DockerError> {
    asked.socket = docker.socket().map(Path::to_owned);
    if let Reply::Info(info) = docker.call(&Call::Info)? {
        asked.docker_root = Some(PathBuf::from(info.root_dir)).filter(|root| root.is_absolute());
    }
    let sandboxes = sandboxes(docker, &asked.root_dir)?;
    for pod in &mut asked.pods {
        let is_of = |it: &&ContainerSummary| it.labels.get(labels::POD_UID) == Some(&pod.reference.uid);
        pod.sandbox = sandboxes.iter().find(is_of).map(|it| it.id.clone());
        for container in &mut pod.containers {
            container.files = files(docker, &container.id)?;
        }
    }
    Ok(())
}

/// Those that run.
fn sandboxes(docker: &Docker, root_dir: &Path) -> Result<Vec<ContainerSummary>, DockerError> {
    let wanted = [
        format!("{}={}", labels::TYPE, labels::TYPE_SANDBOX),
        format!("{}={}", labels::ROOT_DIR, root_dir.display()),
    ];
    match docker.call(&Call::List { labels: wanted.into() })? {
        Reply::Containers(mut all) => {
            all.retain(|it| it.state == DockerState::Running);
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

fn files(docker: &Docker, id: &str) -> Result<Option<ContainerFiles>, DockerError> {
    let ask = |size| match docker.call(&Call::Files { id: id.to_owned(), size }) {
        Ok(Reply::Files(files)) => Ok(Some(*files)),
        Ok(_) | Err(DockerError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    };
    let found = ask(false)?;
    match &found {
        // Only some storage drivers have a directory that can be counted from here.
        Some(files) if files.upper_dir.is_none() => ask(true),
        _ => Ok(found),
    }
}
