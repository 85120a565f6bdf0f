//! The kubelet's tables of ranking (`pkg/kubelet/eviction/helpers_test.go`), row by row, and cases that they leave out.

use proptest::prelude::*;

use super::*;

const MI: u64 = 1 << 20;

fn pod(name: &str, priority: i32, used: Option<u64>, request: u64) -> Candidate {
    Candidate {
        key: PodKey { namespace: "default".to_owned(), name: name.to_owned() },
        source: Source::File,
        uid: format!("{name}-uid"),
        priority,
        used,
        is_cut: false,
        images: 0,
        goes_first: false,
        request,
        asked: request,
        own_request: None,
        containers: Vec::new(),
    }
}

fn ranked(resource: Resource, mut pods: Vec<Candidate>) -> Vec<String> {
    rank(resource, &mut pods);
    pods.into_iter().map(|pod| pod.key.name).collect()
}

/// `TestOrderedByMemory`: largest use over request first.
#[test]
fn ordered_by_memory() {
    let pods = [
        ("pod1", 500, 0),
        ("pod2", 300, 0),
        ("pod3", 800, 100),
        ("pod4", 300, 100),
        ("pod5", 800, 1024),
        ("pod6", 200, 1024),
    ];
    let pods = pods.map(|(name, used, request)| pod(name, 0, Some(used * MI), request * MI));
    assert_eq!(ranked(Resource::Memory, pods.into()), ["pod3", "pod1", "pod2", "pod4", "pod5", "pod6"]);
}

/// `TestOrderedbyDisk`, `TestOrderedbyInodes`: the order is by usage over the request of disk; inodes have no request.
#[test]
fn ordered_by_disk_and_inodes() {
    let used = [("pod1", 200), ("pod2", 300), ("pod3", 400), ("pod4", 450), ("pod5", 550), ("pod6", 650)];
    let requests = [0, 0, 100, 400, 400, 700];
    let pods = used.iter().zip(requests).map(|((name, used), request)| pod(name, 0, Some(*used), request));
    // 200, 300, 300, 50 and 150 over the request, and one within it.
    assert_eq!(ranked(Resource::Storage, pods.collect()), ["pod2", "pod3", "pod1", "pod5", "pod4", "pod6"]);
    let pods = used.map(|(name, used)| pod(name, 0, Some(used), 0));
    assert_eq!(ranked(Resource::Inodes, pods.into()), ["pod6", "pod5", "pod4", "pod3", "pod2", "pod1"]);
}

/// `TestOrderedByPriority`, `TestOrderedByPriorityDisk`, `TestOrderedByPriorityMemory`, `TestOrderedByPriorityProcesses`.
#[test]
fn ordered_by_priority() {
    let disk = [
        ("above-requests-low-priority-high-usage", -1, 900, 100),
        ("above-requests-low-priority-low-usage", -1, 500, 100),
        ("above-requests-high-priority-high-usage", 1, 850, 100),
        ("above-requests-high-priority-low-usage", 1, 500, 100),
        ("below-requests-low-priority-high-usage", -1, 900, 1024),
        ("below-requests-low-priority-low-usage", -1, 500, 1024),
        ("below-requests-high-priority-high-usage", 1, 900, 1024),
        ("below-requests-high-priority-low-usage", 1, 500, 1024),
    ];
    for resource in [Resource::Memory, Resource::Storage] {
        let pods = disk
            .iter()
            .rev()
            .map(|(name, priority, used, request)| pod(name, *priority, Some(*used), *request));
        assert_eq!(ranked(resource, pods.collect()), disk.map(|row| row.0));
    }
    // A pod above its request comes before a pod with a lower priority.
    let pods = vec![pod("low", -1, Some(1), 5), pod("high", 1, Some(6), 5)];
    assert_eq!(ranked(Resource::Memory, pods), ["high", "low"]);
    // For processes the priority comes first, and requests do not matter.
    let pids = [
        ("low-priority-high-usage", -1, 20),
        ("low-priority-low-usage", -1, 6),
        ("default-priority", 0, 20),
        ("high-priority-high-usage", 1, 20),
        ("high-priority-low-usage", 1, 5),
    ];
    let pods = pids.iter().rev().map(|(name, priority, used)| pod(name, *priority, Some(*used), 0));
    assert_eq!(ranked(Resource::Pids, pods.collect()), pids.map(|row| row.0));
}

/// `TestSortByEvictionPriority` with pods without figures: they are evicted first.
#[test]
fn pods_without_figures_go_first() {
    let pods = vec![pod("known", -1, Some(900), 0), pod("unknown", 1, None, 0), pod("other", 0, None, 0)];
    assert_eq!(ranked(Resource::Memory, pods.clone()), ["other", "unknown", "known"]);
    assert_eq!(ranked(Resource::Pids, pods), ["known", "other", "unknown"]);
}

/// `TestEvictionMessage` and `TestGetThresholdMetInfo`.
#[test]
fn messages_are_the_kubelets() {
    let container = |name: &str, used, request| ContainerUse { name: name.to_owned(), used, request };
    let mut web = pod("web", 0, Some(300 * MI), 100 * MI);
    web.containers = vec![
        container("a", 200 * MI, 100 * MI),
        container("quiet", 5 * MI, 5 * MI),
        container("c", 100 * MI + 1, 0),
    ];
    assert_eq!(
        message(Resource::Memory, &web, 100 * MI, 99_500_032),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 97168Ki. Container a was using \
         200Mi, request is 100Mi, has larger consumption of memory. Container c was using 104857601, request is 0, has \
         larger consumption of memory. "
    );
    assert_eq!(
        message(Resource::Pids, &web, 1000, 17),
        "The node was low on resource: pids. Threshold quantity: 1k, available: 17. "
    );
    web.own_request = Some(400 * MI);
    web.containers.truncate(0);
    assert_eq!(
        message(Resource::Memory, &web, MI, 0),
        "The node was low on resource: memory. Threshold quantity: 1Mi, available: 0. Pod web was using 300Mi, \
         request is 400Mi, has larger consumption of memory. "
    );
    web.is_cut = true;
    assert_eq!(
        message(Resource::Storage, &web, MI, 0),
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1Mi, available: 0. What pod web has of it \
         could not be counted whole. "
    );
    assert_eq!(
        message(Resource::Inodes, &pod("x", 0, Some(7), 0), 5000, 12),
        "The node was low on resource: inodes. Threshold quantity: 5k, available: 12. "
    );
}

#[test]
fn what_lies_on_the_file_system_counts() {
    let counted = |of_docker, volumes| Counted { of_docker, volumes };
    for (signal, dedicated, expected) in [
        (Signal::NodeFs, false, counted(true, true)),
        (Signal::NodeFs, true, counted(false, true)),
        (Signal::ImageFs, false, counted(true, true)),
        (Signal::ImageFsInodes, true, counted(true, false)),
        (Signal::Memory, true, counted(false, false)),
    ] {
        assert_eq!(Counted::of(signal, dedicated), expected, "{signal}");
    }
}

prop_compose! {
    fn any_pod()(name in "[a-c]", priority in -2..3_i32, used in proptest::option::of(0_u64..4), request in 0_u64..4)
        -> Candidate { pod(&name, priority, used, request) }
}

proptest! {
    /// A pod within its request never comes before one above it, and the order of the list does not matter.
    #[test]
    fn who_keeps_to_the_request_is_kept(pods in proptest::collection::vec(any_pod(), 0..8), turn in 0_usize..8) {
        let mut sorted = pods.clone();
        rank(Resource::Memory, &mut sorted);
        let over = |p: &Candidate| p.used.is_none_or(|used| used > p.request);
        prop_assert!(sorted.windows(2).all(|pair| over(&pair[0]) || !over(&pair[1])), "{sorted:?}");
        let mut turned = pods.clone();
        turned.rotate_left(turn.min(pods.len()));
        rank(Resource::Memory, &mut turned);
        let names = |pods: &[Candidate]| pods.iter().map(|p| (p.key.name.clone(), p.used, p.priority)).collect::<Vec<_>>();
        let first = |pods: &[Candidate]| names(pods).into_iter().next();
        prop_assert_eq!(first(&sorted).map(|p| p.0), first(&turned).map(|p| p.0));
    }
    #[test]
    fn every_resource_has_one_order(mut pods in proptest::collection::vec(any_pod(), 0..20)) {
        for resource in [Resource::Memory, Resource::Storage, Resource::Inodes, Resource::Pids] {
            rank(resource, &mut pods);
        }
    }
}
