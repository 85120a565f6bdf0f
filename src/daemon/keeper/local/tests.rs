use std::fs;
use std::path::Path;

use crossbeam_channel::unbounded;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStatus, EmptyDirVolumeSource, PodStatus,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::verdicts::{is_hopeless, judged, over_uncounted};
use super::*;
use crate::base::clock::System;
use crate::base::table::Table;
use crate::base::testing::scratch;
use crate::pod::DesiredPod;
use crate::runtime::docker::Endpoint;
use crate::runtime::testing::slow_docker;
use crate::status::file::tests::snapshot;
use crate::status::snapshot::ClaimView;

fn within(left: u64) -> Verdict {
    Verdict::Within { percent: 1, left }
}

fn over() -> Verdict {
    Verdict::Over("too much".to_owned())
}

/// Regression: a pod that moved directories to and fro was never found over its limit, because the first
/// incomplete count was used.
#[test]
fn who_moves_directories_while_they_are_counted_escapes_no_limit() {
    let of = |counts: &[(Reach, Verdict)]| {
        let mut left = counts.iter().cloned();
        judged(|| left.next().unwrap())
    };
    assert_eq!(of(&[(Reach::Whole, within(7))]), (within(7), Reach::Whole));
    assert_eq!(of(&[(Reach::Moved, within(90)), (Reach::Whole, over())]), (over(), Reach::Whole));
    let hidden = [(Reach::Moved, within(90)), (Reach::Moved, over()), (Reach::Moved, over())];
    assert_eq!(of(&hidden), (over(), Reach::Moved));
    let twice = [(Reach::Moved, over()), (Reach::Moved, within(90)), (Reach::Moved, within(70))];
    assert_eq!(of(&twice), (within(70), Reach::Moved), "what one count has met twice evicts nobody");
    assert_eq!(of(&[(Reach::Exceeded, within(90))]), (within(90), Reach::Exceeded));
    assert_eq!(of(&[(Reach::Unreadable, within(90))]), (within(90), Reach::Unreadable));
}

#[test]
fn a_pod_that_takes_long_rests_longer_and_never_for_hours() {
    let seconds = Duration::from_secs;
    assert_eq!(paused(seconds(10), Duration::from_millis(1)), seconds(10));
    assert_eq!(paused(seconds(10), seconds(2)), seconds(40));
    assert_eq!(paused(seconds(10), seconds(120)), limits::LIMITS_SLOW);
}

/// Regression: all pods shared one count, so the files of one pod hid those of another, and all waited for the
/// slowest.
#[test]
fn each_pod_is_looked_at_when_it_is_due() {
    let root = scratch("keeper-local");
    let (out, heard) = unbounded();
    let docker = Docker::connect(&Endpoint::Unix(root.join("none.sock")), System::start());
    let mut rounds = Rounds {
        shared: Arc::default(),
        disks: Disks::new(docker, root.clone(), EngineRoot::default()),
        out,
        before: Table::new(),
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
        let mount = VolumeMount { name: "v".into(), mount_path: "/v".into(), ..VolumeMount::default() };
        let app = Container { name: "app".into(), volume_mounts: Some(vec![mount]), ..Container::default() };
        spec.containers = vec![app];
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
    assert!(due > Instant::now() && due <= Instant::now() + limits::LIMITS_NEAR, "both are new");
    // The small pod grows, and is looked at when it is due.
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

/// A node with one pod that writes to these claims, of which each holds 2 MiB in its only file.
fn writing_to(root: &Path, claims: &[ClaimView]) -> Snapshot {
    let mut node = snapshot();
    node.pods.truncate(1);
    let state =
        Some(ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() });
    let container = ContainerStatus { name: "app".into(), state, ..ContainerStatus::default() };
    let status = PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() };
    node.pods[0].status = Arc::new(status);
    node.claims.insert(node.pods[0].pod.uid.clone(), claims.to_vec());
    for claim in claims {
        let at = root.join("local-storage/default").join(&claim.name);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("file"), "x".repeat(2 << 20)).unwrap();
    }
    node
}

/// The messages for pods that the next look evicts.
fn evicted(root: &Path, node: &Snapshot) -> Vec<(String, String)> {
    let (out, heard) = unbounded();
    let docker = Docker::connect(&Endpoint::Unix(root.join("none.sock")), System::start());
    let disks = Disks::new(docker, root.to_owned(), EngineRoot::default());
    let mut rounds = Rounds { shared: Arc::default(), disks, out, before: Table::new() };
    assert!(rounds.look(node).is_ok());
    let told = heard.try_iter().filter_map(|event| match event {
        Event::Node(News::Evict(eviction)) => Some((eviction.key.name, eviction.message)),
        _ => None,
    });
    told.collect()
}

/// Regression: a pod of 1 MiB filled the disk through its claim, which counted for no pod.
#[test]
fn the_size_of_a_claim_is_a_limit_where_its_source_is_held_to_a_level() {
    let root = scratch("keeper-local-claim");
    let claim = ClaimView { name: "big".into(), storage: Some(1 << 20), is_held: true, together: Most::All };
    let mut node = writing_to(&root, std::slice::from_ref(&claim));
    let told = evicted(&root, &node);
    assert!(told.iter().any(|(_, message)| message.contains("exceeds its size \"1Mi\"")), "{told:?}");
    let status = std::mem::take(&mut node.pods[0].status);
    assert_eq!(limited(&node).count(), 0, "it waits, and is not evicted");
    node.pods[0].status = status;
    node.claims.insert(node.pods[0].pod.uid.clone(), vec![ClaimView { is_held: false, ..claim }]);
    assert_eq!(limited(&node).count(), 0, "who runs the node says what its disk is for");
    fs::remove_dir_all(root).unwrap();
}

/// Regression: a claim of 1Ti, or one claim after the other, filled the disk: the source itself sets the size.
#[test]
fn all_claims_of_a_source_have_a_limit_together() {
    let root = scratch("keeper-local-together");
    let claim = |name: &str, mi: u64| ClaimView {
        name: name.into(),
        storage: Some(1 << 40),
        is_held: true,
        together: Most::Bytes(mi << 20),
    };
    let of = |mi| writing_to(&root, &[claim("big", mi)]);
    assert_eq!(evicted(&root, &of(3)), []);
    let told = evicted(&root, &of(1));
    assert!(told.iter().any(|(_, message)| message.contains("all PersistentVolumeClaims")), "{told:?}");
    // Claims of removed manifests count, too.
    fs::create_dir_all(root.join("local-storage/default/left")).unwrap();
    fs::write(root.join("local-storage/default/left/file"), "x".repeat(2 << 20)).unwrap();
    assert_eq!(evicted(&root, &of(3)).len(), 1);
    // The pod with the fullest claim is evicted first.
    let mut node = of(3);
    let mut other = node.pods[0].clone();
    let mut pod = DesiredPod::clone(&other.pod);
    (pod.uid, pod.key.name) = ("u-other".to_owned(), "other".to_owned());
    other.pod = Arc::new(pod);
    node.pods.push(other);
    node.claims.insert("u-other".to_owned(), vec![claim("large", 3)]);
    fs::create_dir_all(root.join("local-storage/default/large")).unwrap();
    fs::write(root.join("local-storage/default/large/file"), "x".repeat(5 << 20)).unwrap();
    let told: Vec<String> = evicted(&root, &node).into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, ["other"]);
    // Other sources have their own bound.
    fs::create_dir_all(root.join("local-storage/.http/default/large")).unwrap();
    fs::rename(root.join("local-storage/default"), root.join("local-storage/.http/other")).unwrap();
    assert_eq!(evicted(&root, &of(3)), []);
    fs::remove_dir_all(root).unwrap();
}

/// Regression: ten pods of one source whose trees took two minutes each made the checks of all others twenty
/// minutes late.
#[test]
fn who_takes_long_has_a_turn_after_the_others() {
    let root = scratch("keeper-local-slow");
    let claim = ClaimView { name: "big".into(), storage: Some(1 << 20), is_held: true, together: Most::All };
    let mut node = writing_to(&root, std::slice::from_ref(&claim));
    let template = node.pods.pop().unwrap();
    for name in ["a", "b", "c"] {
        let mut pod = DesiredPod::clone(&template.pod);
        (pod.uid, pod.key.name) = (name.to_owned(), name.to_owned());
        node.pods.push(PodView { pod: Arc::new(pod), ..template.clone() });
        node.claims.insert(name.to_owned(), vec![claim.clone()]);
    }
    let (out, heard) = unbounded();
    let docker = Docker::connect(&Endpoint::Unix(root.join("none.sock")), System::start());
    let disks = Disks::new(docker, root.clone(), EngineRoot::default());
    let mut rounds = Rounds { shared: Arc::default(), disks, out, before: Table::new() };
    let (at, took) = (Instant::now(), Duration::ZERO);
    for (name, later) in [("a", 1), ("b", 0)] {
        let due = at + Duration::from_nanos(later);
        let before = Before { left: 1, at, due, took, uncounted: 0, is_slow: true };
        rounds.before.insert(name.to_owned(), before);
    }
    let mut evicted = || {
        assert!(rounds.look(&node).is_ok());
        let told = heard.try_iter().filter_map(|event| match event {
            Event::Node(News::Evict(eviction)) => Some(eviction.key.name),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!([evicted(), evicted(), evicted()], [vec!["c", "b"], vec!["a"], vec![]]);
    assert!(rounds.before.values().all(|before| !before.is_slow), "they are quick by now");
    fs::remove_dir_all(root).unwrap();
}

/// Regression: a pod that made each count run out of time had no limit.
#[test]
fn who_can_never_be_counted_is_over_its_limits_where_its_source_is_held_to_a_level() {
    for (reach, rounds, expected) in [
        (Reach::Whole, 100, false),
        (Reach::Unreadable, 100, false),
        (Reach::Exceeded, 0, false),
        (Reach::Exceeded, 2, false),
        (Reach::Exceeded, 3, true),
        (Reach::Moved, 9, false),
        (Reach::Moved, 10, true),
    ] {
        assert_eq!(is_hopeless(reach, rounds), expected, "{reach:?} {rounds}");
    }
    assert_eq!(over_uncounted(over()), over(), "which says more");
    assert!(
        matches!(over_uncounted(within(7)), Verdict::Over(message) if message.contains("cannot be counted"))
    );
    let held = |level: Option<&str>| {
        PolicyView { pod_security: level.map(str::to_owned), ..PolicyView::default() }.is_held()
    };
    let levels = [None, Some("privileged"), Some("baseline:latest"), Some("restricted"), Some("nonsense")];
    assert_eq!(levels.map(held), [false, false, true, true, false]);
}

/// Pods `l0` to `l7` with a limit of their only container, and `volume` with an emptyDir over its size limit.
fn beside_a_volume(root: &Path) -> Snapshot {
    let mut node = snapshot();
    node.pods.truncate(1);
    let template = node.pods.pop().unwrap();
    for name in ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "volume"] {
        let mut pod = DesiredPod::clone(&template.pod);
        (pod.uid, pod.key.name) = (name.to_owned(), name.to_owned());
        let limits = serde_json::json!({"limits": {"ephemeral-storage": "1Mi"}});
        let spec = match name {
            "volume" => {
                serde_json::json!({"containers": [{"name": "app", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]})
            }
            _ => serde_json::json!({"containers": [{"name": "app", "resources": limits}, {"name": "other"}]}),
        };
        pod.spec = Arc::new(serde_json::from_value(spec).unwrap());
        let container = ContainerStatus {
            name: "app".into(),
            container_id: Some(format!("docker://{}", name.repeat(8))),
            ..ContainerStatus::default()
        };
        let status = PodStatus {
            phase: Some("Running".into()),
            container_statuses: Some(vec![container]),
            ..PodStatus::default()
        };
        node.pods.push(PodView { pod: Arc::new(pod), status: Arc::new(status), ..template.clone() });
    }
    let at = root.join("pods/volume/volumes/kubernetes.io~empty-dir/v");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("file"), "x".repeat(2 << 20)).unwrap();
    node
}

/// Regression: with a slow Docker, a pod of which podkeeper could count everything by itself waited for Docker's answers
/// about the containers of all other pods.
#[test]
fn a_volume_over_its_limit_waits_for_no_answer_of_docker() {
    let root = scratch("keeper-local-docker");
    let delay = Duration::from_secs(1);
    let docker = slow_docker(&root, delay, Duration::from_secs(20), &root);
    let node = beside_a_volume(&root);
    // The last one has too much in its layer.
    let layer = root.join("l7".repeat(8));
    fs::create_dir_all(&layer).unwrap();
    fs::write(layer.join("file"), "x".repeat(2 << 20)).unwrap();
    let (out, heard) = unbounded();
    let disks = Disks::new(docker, root.clone(), EngineRoot::default());
    let mut rounds = Rounds { shared: Arc::default(), disks, out, before: Table::new() };
    let began = Instant::now();
    let looking = std::thread::spawn(move || (rounds.look(&node).is_ok(), rounds));
    let evicted = || match heard.recv_timeout(Duration::from_secs(60)).unwrap() {
        Event::Node(News::Evict(eviction)) => (eviction.key.name, began.elapsed()),
        other => panic!("{other:?}"),
    };
    let (first, took) = evicted();
    assert!(first == "volume" && took < delay, "{first} {took:?}");
    let (second, took) = evicted();
    assert!(second == "l7" && took < 5 * delay, "{second} {took:?}: about all at once");
    let (is_ok, rounds) = looking.join().unwrap();
    assert!(is_ok && rounds.before.values().all(|before| before.took < delay && !before.is_slow));
    fs::remove_dir_all(root).unwrap();
}

/// Regression: after one look at which Docker did not answer in time, the pod was not looked at for ten minutes, and its
/// layer counted as empty meanwhile.
#[test]
fn a_pod_of_which_docker_has_not_told_is_looked_at_again_soon() {
    let root = scratch("keeper-local-unknown");
    let (delay, patience) = (Duration::from_secs(60), Duration::from_secs(1));
    let docker = slow_docker(&root, delay, patience, &root);
    let mut node = beside_a_volume(&root);
    node.pods.truncate(2);
    let (out, heard) = unbounded();
    let disks = Disks::new(docker, root.clone(), EngineRoot::default());
    let mut rounds = Rounds { shared: Arc::default(), disks, out, before: Table::new() };
    let at = Instant::now();
    let before = Before { left: 7, at, due: at, took: Duration::ZERO, uncounted: 0, is_slow: false };
    rounds.before.insert("l1".to_owned(), before);
    let due = rounds.look(&node).ok().unwrap();
    assert!(due <= Instant::now() + limits::LIMITS_NEAR);
    assert_eq!(rounds.before["l0"].left, u64::MAX, "nothing is known");
    assert_eq!((rounds.before["l1"].left, rounds.before["l1"].at), (7, at), "as at the last look");
    // Docker answers again.
    let again = root.join("again");
    fs::create_dir_all(&again).unwrap();
    rounds.disks = Disks::new(
        slow_docker(&again, Duration::ZERO, patience * 20, &root),
        root.clone(),
        EngineRoot::default(),
    );
    let layer = root.join("l0".repeat(8));
    fs::create_dir_all(&layer).unwrap();
    fs::write(layer.join("file"), "x".repeat(2 << 20)).unwrap();
    rounds.before.values_mut().for_each(|before| before.due = Instant::now());
    assert!(rounds.look(&node).is_ok());
    assert_eq!(heard.try_iter().count(), 1, "l0 goes");
    fs::remove_dir_all(root).unwrap();
}
