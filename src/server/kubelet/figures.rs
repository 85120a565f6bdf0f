//! Figures for HTTP clients, measured on request; expensive results are kept for the next request. Without requests
//! nothing is measured.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;

use super::Node;
use crate::base::clock::{Clock as _, System};
use crate::base::limits;
use crate::cgroup::node::MOUNT;
use crate::server::http::answer::{Answer, JSON};
use crate::server::http::query::Query;
use crate::stats::cgroup::Hierarchies;
use crate::stats::engine;
use crate::stats::summary::asked::{Asked, PodPlace};
use crate::stats::summary::{Counters, Reader, Summary};

/// Results of earlier answers.
#[derive(Debug, Default)]
pub struct Figures {
    /// Locked while figures are taken: simultaneous requests wait for the first and use its result.
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// CPU times from which rates are computed, and when they were read.
    counters: Option<(Counters, Instant)>,
    /// The last summary with rates, and the pods in it.
    told: Option<(Summary, Vec<String>)>,
    /// The last summary with figures of disks.
    whole: Option<(Summary, Instant)>,
}

/// Answers `/stats/summary`.
pub fn summary(node: &Node, query: &Query) -> Answer {
    let is_light = query.switch("only_cpu_and_memory").unwrap_or(false);
    let summary = if is_light { node.figures.light(node) } else { node.figures.whole(node) };
    match serde_json::to_vec_pretty(&summary) {
        Ok(bytes) => Answer::new(200, JSON, bytes),
        Err(error) => Answer::text(500, &format!("figures cannot be written: {error}")),
    }
}

impl Figures {
    /// CPU and memory only.
    #[must_use]
    pub fn light(&self, node: &Node) -> Summary {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = asked(node);
        asked.pods.iter_mut().for_each(|pod| pod.volumes.clear());
        let mut summary = take_or_tell(&mut last, &asked);
        summary.keep_cpu_and_memory();
        summary
    }

    /// All figures. Those of disks are taken at most once a minute (upstream's `volumeStatsAggPeriod`); a pod that is
    /// newer gets them the next time.
    #[must_use]
    pub fn whole(&self, node: &Node) -> Summary {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = asked(node);
        let fresh = last.whole.as_ref().filter(|(_, at)| at.elapsed() < limits::SERVER_DISKS);
        if let Some((counted, _)) = fresh.cloned() {
            asked.pods.iter_mut().for_each(|pod| pod.volumes.clear());
            let mut summary = take_or_tell(&mut last, &asked);
            summary.take_disks_of(&counted);
            return summary;
        }
        if let Err(error) = engine::ask(&node.docker, &mut asked) {
            log::debug!("what containers take of the disk is not known: {error}");
        }
        let summary = take(&mut last, &asked);
        last.whole = Some((summary.clone(), Instant::now()));
        summary
    }
}

/// Figures without disks. A very recent summary is returned again, because no rate can be computed in that time:
/// otherwise many simultaneous requests would each wait for all before them.
fn take_or_tell(last: &mut Last, asked: &Asked) -> Summary {
    let is_fresh = last.counters.as_ref().is_some_and(|(_, at)| at.elapsed() < limits::TOP_WINDOW);
    if let Some((summary, _)) = last.told.as_ref().filter(|(_, pods)| is_fresh && *pods == uids(asked)) {
        return summary.clone();
    }
    take(last, asked)
}

fn uids(asked: &Asked) -> Vec<String> {
    asked.pods.iter().map(|pod| pod.reference.uid.clone()).collect()
}

/// Reads all figures, with rates since the last reading; without a suitable one it waits for a moment.
fn take(last: &mut Last, asked: &Asked) -> Summary {
    let reader = Reader::new(PathBuf::from("/proc"), Hierarchies::open(PathBuf::from(MOUNT)), asked);
    let is_fit = |at: &Instant| (limits::TOP_WINDOW..limits::SERVER_RATES).contains(&at.elapsed());
    let before = match last.counters.take() {
        Some((counters, at)) if is_fit(&at) => counters,
        _ => {
            let counters = reader.counters();
            thread::sleep(limits::TOP_WINDOW);
            counters
        }
    };
    let summary = reader.summary(&before, System::start().now().wall);
    last.counters = Some((reader.counters(), Instant::now()));
    last.told = Some((summary.clone(), uids(asked)));
    summary
}

/// Pods with a running container, as far as that is known without Docker.
pub fn asked(node: &Node) -> Asked {
    let snapshot = node.pods.get();
    let pods = snapshot.pods.iter().filter_map(|view| {
        let pod = Pod {
            metadata: view.pod.metadata.clone(),
            spec: Some((*view.pod.spec).clone()),
            status: Some((*view.status).clone()),
        };
        PodPlace::of(&pod, &node.root_dir)
    });
    Asked {
        node: snapshot.node.clone(),
        daemon: Some(std::process::id()),
        docker_root: None,
        socket: node.docker.socket().map(Path::to_owned),
        pods: pods.collect(),
        root_dir: node.root_dir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summary::PodRef;

    #[test]
    fn those_who_ask_at_once_find_what_the_first_one_took() {
        let (mut last, mut asked) = (Last::default(), Asked::default());
        let begun = Instant::now();
        for _ in 0..10 {
            take_or_tell(&mut last, &asked);
        }
        assert!(begun.elapsed() < limits::TOP_WINDOW * 10, "each one waits for its own");
        // Unless there is a new pod.
        let reference =
            PodRef { name: "web".to_owned(), namespace: "default".to_owned(), uid: "u".to_owned() };
        asked.pods.push(PodPlace {
            reference,
            started: None,
            host_network: true,
            sandbox: None,
            containers: Vec::new(),
            volumes: Vec::new(),
        });
        assert_eq!(take_or_tell(&mut last, &asked).pods.len(), 1);
    }
}
