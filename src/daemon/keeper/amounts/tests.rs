use std::fs;

use super::*;
use crate::base::clock::System;
use crate::base::table::Table;
use crate::base::testing::scratch;
use crate::policy::Most;
use crate::runtime::docker::{Docker, Endpoint};
use crate::runtime::engine_root::EngineRoot;
use crate::status::file::tests::snapshot;
use crate::status::snapshot::StandingView;

/// Regression: a pod filled the disk through its claim, counted as using nothing, and other pods
/// were evicted for it.
#[test]
fn what_a_claim_holds_counts_for_the_pods_that_may_write_to_it() {
    let root = scratch("keeper-amounts-claim");
    let at = root.join("local-storage/default/big");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("file"), "x".repeat(2 << 20)).unwrap();
    let cgroups = Hierarchies::open(root.join("cgroup"));
    let docker_root = EngineRoot::default();
    let docker = Docker::connect(&Endpoint::Unix(root.join("none.sock")), System::start());
    let disks = Disks::new(docker, root.clone(), docker_root.clone());
    let places = Places { proc: root.join("proc"), cgroups, root_dir: root.clone(), docker_root };
    let used = |signal, dedicated, storage, is_held| {
        let claims = [ClaimView { name: "big".into(), storage, is_held, together: Most::All }];
        let measure = Measure::new(&places, signal, dedicated);
        measure
            .on_disk((&snapshot().pods[0], limits::DISK_USE_PATIENCE), &claims, &disks, &Arc::default())
            .used
            .unwrap()
    };
    let mi = 1 << 20;
    assert!(used(Signal::NodeFs, false, Some(mi), true) >= 2 * mi);
    assert!(used(Signal::NodeFs, false, Some(100 * mi), true) >= 2 * mi, "its source said that itself");
    let above = used(Signal::NodeFs, false, Some(mi), false);
    assert!((mi..2 * mi).contains(&above), "{above}");
    assert_eq!(used(Signal::NodeFs, false, Some(3 * mi), false), 0, "the operator gave it so much");
    assert!(used(Signal::NodeFs, false, None, false) >= 2 * mi, "nobody knows its size");
    assert_eq!(used(Signal::NodeFsInodes, false, Some(mi), true), 2);
    assert_eq!(used(Signal::ImageFs, true, Some(mi), true), 0, "that is another disk");
    fs::remove_dir_all(root).unwrap();
}

/// Regression: a pod that requested the whole node was never above its request, and other pods were
/// evicted for its usage.
#[test]
fn requests_of_a_source_behind_others_count_as_its_part_of_the_node() {
    let mut node = snapshot();
    node.pods.truncate(1);
    node.pods[0].is_kept = true;
    let template = node.pods.pop().unwrap();
    for (name, source, request) in
        [("own", Source::File, "900Mi"), ("a", Source::Http, "600Mi"), ("b", Source::Http, "200Mi")]
    {
        let mut pod = crate::pod::DesiredPod::clone(&template.pod);
        (pod.uid, pod.key.name, pod.source) = (name.to_owned(), name.to_owned(), source);
        let spec = serde_json::json!({"containers": [{"name": "app", "resources": {"requests": {"memory": request}}}]});
        pod.spec = Arc::new(serde_json::from_value(spec).unwrap());
        let status = Arc::new(k8s_openapi::api::core::v1::PodStatus::default());
        node.pods.push(PodView { pod: Arc::new(pod), status, ..template.clone() });
    }
    let amounts: Amounts = node.pods.iter().map(|it| (it.pod.uid.clone(), PodUse::default())).collect();
    let rights = |node: &Snapshot| {
        let all = candidates(node, Resource::Memory, 1000 << 20, &amounts);
        all.iter().map(|it| (it.request >> 20, it.asked >> 20)).collect::<Vec<_>>()
    };
    assert_eq!(rights(&node), [(900, 900), (600, 600), (200, 200)]);
    let standings = |file, http| {
        let of = |requests| StandingView { requests, evict_first: false, claims: Most::All };
        Table::from([(Source::File, of(file)), (Source::Http, of(http))])
    };
    node.standings = standings(100, 10);
    assert_eq!(rights(&node), [(900, 900), (75, 600), (25, 200)]);
    node.standings = standings(50, 80);
    assert_eq!(rights(&node), [(500, 900), (600, 600), (200, 200)]);
}

#[test]
fn what_was_moved_meanwhile_is_counted_several_times_before_it_is_believed() {
    let of = |counts: &[(Reach, u64)]| {
        let mut left = counts.iter().copied();
        let used = believed(|| left.next().unwrap());
        assert_eq!(left.next(), None, "{counts:?}");
        used
    };
    assert_eq!(of(&[(Reach::Whole, 7)]), (Reach::Whole, 7));
    assert_eq!(of(&[(Reach::Moved, 3), (Reach::Whole, 7)]), (Reach::Whole, 7));
    let moved = [(Reach::Moved, 30), (Reach::Moved, 4), (Reach::Moved, 7)];
    assert_eq!(of(&moved), (Reach::Moved, 7), "neither what was missed nor what was met twice");
    // Regression: a pod with many files was evicted for the usage of another pod.
    assert_eq!(of(&[(Reach::Exceeded, 3)]), (Reach::Exceeded, 3));
    assert_eq!(of(&[(Reach::Unreadable, 3)]), (Reach::Unreadable, 3), "that is not the pod's fault");
    assert_eq!(of(&[(Reach::Moved, 3), (Reach::Unreadable, 3)]), (Reach::Unreadable, 3));
}

/// Regression: Docker hung for one container alone, whose pod had filled the disk from there: it counted as using
/// nothing, and the others were evicted one after the other.
#[test]
fn what_docker_does_not_tell_of_a_pod_counts_as_not_counted_whole() {
    let view = &snapshot().pods[0];
    let is_cut = |is_partial, is_cut| {
        let found = PodUse { used: Some(0), is_partial, is_cut, ..PodUse::default() };
        candidate(view, Resource::Storage, 0, &found).is_cut
    };
    assert_eq!([is_cut(false, false), is_cut(true, false), is_cut(false, true)], [false, true, true]);
}
