use std::fs;

use crossbeam_channel::unbounded;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, PodStatus, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::base::clock::System;
use crate::base::testing::scratch;
use crate::runtime::docker::Endpoint;
use crate::status::file::tests::snapshot;

fn within(left: u64) -> Verdict {
    Verdict::Within { percent: 1, left }
}

fn over() -> Verdict {
    Verdict::Over("too much".to_owned())
}

/// A pod that moved directories to and fro was never found over its limit, for the first cut count was believed.
#[test]
fn who_moves_directories_while_they_are_counted_escapes_no_limit() {
    let of = |counts: &[(Reach, Verdict)]| {
        let mut left = counts.iter().cloned();
        judged(|| left.next().unwrap())
    };
    assert_eq!(of(&[(Reach::Whole, within(7))]), (within(7), false));
    assert_eq!(of(&[(Reach::Moved, within(90)), (Reach::Whole, over())]), (over(), false));
    let hidden = [(Reach::Moved, within(90)), (Reach::Moved, over()), (Reach::Moved, over())];
    assert_eq!(of(&hidden), (over(), true));
    let twice = [(Reach::Moved, over()), (Reach::Moved, within(90)), (Reach::Moved, within(70))];
    assert_eq!(of(&twice), (within(70), true), "what one count has met twice evicts nobody");
    assert_eq!(of(&[(Reach::Exceeded, within(90))]), (within(90), true));
    assert_eq!(of(&[(Reach::Unreadable, within(90))]), (within(90), false), "which is not the pod's fault");
}

#[test]
fn a_pod_that_takes_long_rests_longer_and_never_for_hours() {
    let seconds = Duration::from_secs;
    assert_eq!(paused(seconds(10), Duration::from_millis(1)), seconds(10));
    assert_eq!(paused(seconds(10), seconds(2)), seconds(40));
    assert_eq!(paused(seconds(10), seconds(120)), limits::LIMITS_SLOW);
}

/// All pods shared one count, and what one had lying about hid what others wrote; and all waited for the slowest.
#[test]
fn each_pod_is_looked_at_when_it_is_due() {
    let root = scratch("keeper-local");
    let (out, heard) = unbounded();
    let docker = Docker::connect(&Endpoint::Unix(root.join("none.sock")), System::start());
    let mut rounds = Rounds {
        shared: Arc::default(),
        disks: Disks::new(docker, root.clone(), EngineRoot::default()),
        out,
        before: BTreeMap::new(),
    };
    let mut node = snapshot();
    node.pods.truncate(1);
    let template = node.pods.pop().unwrap();
    for name in ["large", "small"] {
        let mut view = template.clone();
        let mut pod = (*view.pod).clone();
        (pod.uid, pod.key.name) = (format!("u-{name}"), name.to_owned());
        let size_limit = Some(Quantity("1Mi".to_owned()));
        let empty_dir = Some(EmptyDirVolumeSource { size_limit, ..EmptyDirVolumeSource::default() });
        let mut spec = (*pod.spec).clone();
        spec.volumes = Some(vec![Volume { name: "v".into(), empty_dir, ..Volume::default() }]);
        pod.spec = Arc::new(spec);
        view.pod = Arc::new(pod);
        view.status = Arc::new(PodStatus { phase: Some("Running".into()), ..PodStatus::default() });
        node.pods.push(view);
        let at = root.join(format!("pods/u-{name}/volumes/kubernetes.io~empty-dir/v"));
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("file"), "x".repeat(if name == "large" { 2 << 20 } else { 1000 })).unwrap();
    }
    let evicted = || {
        let told = heard.try_iter().filter_map(|event| match event {
            Event::Node(News::Evict(eviction)) => Some(eviction.key.name),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let due = rounds.look(&node).ok().unwrap();
    assert_eq!(evicted(), ["large"]);
    assert_eq!(rounds.before.len(), 2);
    assert!(due > Instant::now());
    // The small one grows, and is looked at in its own time.
    let small = root.join("pods/u-small/volumes/kubernetes.io~empty-dir/v/file");
    fs::write(&small, "x".repeat(2 << 20)).unwrap();
    assert!(rounds.look(&node).is_ok());
    assert_eq!(evicted(), Vec::<String>::new(), "neither is due");
    rounds.before.get_mut("u-small").unwrap().due = Instant::now();
    assert!(rounds.look(&node).is_ok());
    assert_eq!(evicted(), ["small"]);
    node.pods.clear();
    assert!(rounds.look(&node).is_ok());
    assert!(rounds.before.is_empty());
    fs::remove_dir_all(root).unwrap();
}
