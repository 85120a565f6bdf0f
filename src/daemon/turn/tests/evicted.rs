//! Evicted pods, when they start again, and which pods may start while the node is short of
//! something.

use std::sync::Arc;
use std::time::Duration;

use super::rig::{Rig, acts, key, pod, pod_of};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::daemon::turn::admission::{Chosen, Room, admit};
use crate::daemon::turn::{Earlier, Event};
use crate::eviction::{Eviction, News};
use crate::node::pressure::{Pressure, Pressures};
use crate::pod::DesiredPod;

pub(super) fn eviction(name: &str, uid: &str, of_the_node: bool) -> Event {
    let message = "The node was low on resource: memory. ".to_owned();
    Event::Node(News::Evict(Eviction { key: key(name), uid: uid.to_owned(), grace: 1, message, of_the_node }))
}

pub(super) fn short_of(what: &[Pressure]) -> Event {
    Event::Node(News::Pressures(what.iter().copied().collect()))
}

/// One running pod of each name.
pub(super) fn running(names: &[&str]) -> (Rig, Vec<Arc<DesiredPod>>) {
    let pods: Vec<Arc<DesiredPod>> = names.iter().map(|name| pod(name)).collect();
    let mut rig = Rig::listed();
    rig.want(&pods);
    pods.iter().for_each(|pod| _ = rig.status(pod, "Running", false));
    (rig, pods)
}

/// The loop after this time, with all due effects.
pub(super) fn later(rig: &mut Rig, wait: Duration) -> Vec<String> {
    rig.now = rig.now.after(wait);
    acts(rig.handle(Event::Tick))
}

/// An order about another pod would have no effect, and the keeper would wait for its end.
#[test]
fn the_keeper_is_shown_which_pods_it_can_order_to_go() {
    let kept = |rig: &Rig| rig.snapshot().pods.iter().map(|view| view.is_kept).collect::<Vec<_>>();
    let mut rig = Rig::new();
    rig.want(&[pod("a")]);
    assert_eq!(kept(&rig), [false], "Docker was not listed yet");
    rig.list(&[]);
    assert_eq!(kept(&rig), [true]);
    assert!(!rig.snapshot().pods[0].is_told, "nobody knows yet which containers it has");
    rig.status(&pod("a"), "Running", false);
    assert!(rig.snapshot().pods[0].is_told);
    rig.handle(eviction("a", "a-1", true));
    assert_eq!(kept(&rig), [false], "it was told already");
}

#[test]
fn an_evicted_pod_ends_in_the_kubelets_words_and_says_when_it_returns() {
    let (mut rig, _) = running(&["a", "b"]);
    let told = rig.handle(eviction("a", "a-1", true));
    assert_eq!(acts(told.clone()), ["stop a within 1 s: it is evicted"]);
    assert_eq!(told[0], "WARN: pod default/a: Evicted: The node was low on resource: memory.");
    // The worker reports the end of the pod.
    rig.status(&pod("a"), "Running", true);
    assert_eq!(rig.shown(), "a Running terminating, b Running");
    rig.gone("a");
    assert_eq!(rig.shown(), "a Failed Evicted, b Running");
    let snapshot = rig.snapshot();
    let status = &snapshot.pods[0].status;
    assert_eq!(
        status.message.as_deref().unwrap(),
        "The node was low on resource: memory. It starts again at 2027-01-15T08:05:00Z at the earliest, once the node \
         has been short of nothing for a while."
    );
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
        ("DisruptionTarget", Some("TerminationByKubelet"), Some("The node was low on resource: memory."))
    );
}

#[test]
fn an_order_about_another_version_of_the_pod_does_nothing() {
    let (mut rig, pods) = running(&["a"]);
    assert_eq!(rig.handle(eviction("a", "a-0", true)), [""; 0]);
    assert_eq!(rig.handle(eviction("b", "b-1", true)), [""; 0]);
    rig.handle(eviction("a", "a-1", true));
    assert_eq!(rig.handle(eviction("a", "a-1", true)), [""; 0], "twice");
    // No source wants the pod any more.
    assert_eq!(acts(rig.want(&[])).len(), 1);
    rig.gone("a");
    assert_eq!(rig.shown(), "");
    assert_eq!(later(&mut rig, limits::EVICTED_MAX), [""; 0]);
    drop(pods);
}

#[test]
fn it_returns_each_time_later_and_not_while_the_node_is_short_of_something() {
    let (mut rig, pods) = running(&["a"]);
    rig.handle(short_of(&[Pressure::Memory]));
    let returns = ["spawn a, empty", "run a/a-1"];
    for minutes in [5_u64, 10, 20, 40, 60, 60] {
        rig.handle(eviction("a", "a-1", true));
        rig.gone("a");
        let wait = Duration::from_secs(60 * minutes);
        assert_eq!(later(&mut rig, wait - Duration::from_secs(1)), [""; 0], "{minutes}");
        // The time is over, but the node is still short.
        assert_eq!(later(&mut rig, Duration::from_secs(1)), [""; 0], "{minutes}");
        assert_eq!(acts(rig.handle(short_of(&[]))), returns, "{minutes}");
        rig.status(&pods[0], "Running", false);
        rig.handle(short_of(&[Pressure::Memory]));
    }
    // A long time without evictions resets the count.
    rig.handle(short_of(&[]));
    later(&mut rig, limits::EVICTED_MAX);
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    assert_eq!(later(&mut rig, limits::EVICTED_MIN), returns);
}

#[test]
fn a_pod_over_a_limit_of_its_own_does_not_wait_for_the_node() {
    let (mut rig, _) = running(&["a"]);
    rig.handle(short_of(&[Pressure::Disk]));
    rig.handle(eviction("a", "a-1", false));
    rig.gone("a");
    // The pod waits for its time; then it is admitted like any other pod.
    assert_eq!(later(&mut rig, limits::EVICTED_MIN), [""; 0]);
    assert_eq!(rig.shown(), "a Failed Evicted");
    assert_eq!(acts(rig.handle(short_of(&[])))[1], "run a/a-1");
}

#[test]
fn evicted_pods_return_one_by_one_the_most_important_first() {
    let pods = [
        pod("a"),
        pod_of("b", "{priority: 7, containers: [{name: app}]}"),
        pod_of("c", "{priority: 7, containers: [{name: app}]}"),
    ];
    let mut rig = Rig::listed();
    rig.want(&pods);
    for pod in &pods {
        rig.handle(eviction(&pod.key.name, &pod.uid, true));
        rig.gone(&pod.key.name);
    }
    let runs =
        |acts: Vec<String>| acts.into_iter().filter(|line| line.starts_with("run ")).collect::<Vec<_>>();
    assert_eq!(runs(later(&mut rig, limits::EVICTED_MIN)), ["run b/b-1"]);
    assert_eq!(runs(later(&mut rig, limits::EVICTED_APART - Duration::from_secs(1))), [""; 0]);
    assert_eq!(runs(later(&mut rig, Duration::from_secs(1))), ["run c/c-1"]);
    assert_eq!(runs(later(&mut rig, limits::EVICTED_APART)), ["run a/a-1"]);
    assert_eq!(runs(later(&mut rig, limits::EVICTED_MAX)), [""; 0]);
}

/// A daemon that ends in between does not reset the wait.
#[test]
fn an_evicted_pod_waits_on_under_the_next_daemon() {
    let (mut rig, _) = running(&["a", "b", "c"]);
    for name in ["a", "b"] {
        rig.handle(eviction(name, &format!("{name}-1"), true));
        rig.gone(name);
    }
    later(&mut rig, limits::EVICTED_MIN);
    rig.status(&pod("a"), "Running", false);
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let earlier = rig.snapshot().evictions;
    let counts: Vec<(&str, u32)> = earlier.iter().map(|(key, it)| (key.as_str(), it.count)).collect();
    assert_eq!(counts, [("default/a", 1), ("default/b", 0)]);

    // Pod "b" was started by hand meanwhile; "d" is another pod of that name.
    let mut next = Rig::new();
    next.now = rig.now.after(Duration::from_secs(60));
    let mut earlier = earlier;
    earlier.insert("default/c".to_owned(), earlier["default/a"].clone());
    next.turn.restore_unfinished(
        Earlier { evictions: earlier, ..Earlier::default() },
        Set::new(),
        Table::new(),
    );
    next.want(&[pod("a"), pod("b"), pod("c")]);
    let acts_of = acts(next.list(&["b/b-1/POD running", "b/b-1/app running"]));
    assert!(!acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");
    assert!(acts_of.contains(&"run c/c-1".to_owned()), "the UID is another one: {acts_of:?}");
    assert_eq!(next.shown(), "a Failed Evicted, b Pending, c Pending");
    let message = next.snapshot().pods[0].status.message.clone().unwrap();
    assert!(message.contains("The node was low on resource: memory. It starts again at "), "{message}");
    assert_eq!(later(&mut next, Duration::from_secs(539)), [""; 0]);
    let acts_of = later(&mut next, Duration::from_secs(1));
    assert!(acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");
    assert_eq!(next.snapshot().evictions["default/a"].count, 1);
}

/// The daemon may be killed again before the pods come, and start on a node that is still short.
#[test]
fn what_was_evicted_waits_also_after_two_daemons() {
    let (mut rig, _) = running(&["a"]);
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let mut second = Rig::new();
    second.now = rig.now.after(Duration::from_secs(30));
    second.goes_on_from(&rig.snapshot());
    let kept = second.snapshot().evictions;
    assert_eq!(kept, rig.snapshot().evictions, "no source has spoken yet");

    let mut third = Rig::new();
    third.now = second.now.after(limits::EVICTED_MIN);
    third.turn.restore_unfinished(
        Earlier { evictions: kept.clone(), ..Earlier::default() },
        Set::new(),
        Table::new(),
    );
    third.handle(short_of(&[Pressure::Memory]));
    third.want(&[pod("a")]);
    third.list(&[]);
    assert_eq!(third.shown(), "a Failed Evicted", "its time has passed, and the node is short");
    assert!(!later(&mut third, limits::EVICTED_MIN).contains(&"run a/a-1".to_owned()));
    let acts_of = acts(third.handle(short_of(&[])));
    assert!(acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");

    let mut late = Rig::new();
    late.now = rig.now.after(limits::EVICTED_MIN + limits::EVICTED_MAX);
    late.turn.restore_unfinished(Earlier { evictions: kept, ..Earlier::default() }, Set::new(), Table::new());
    assert!(late.snapshot().evictions.is_empty(), "the next one would not count with it");
}

/// The clock may have been set meanwhile.
#[test]
fn an_eviction_in_the_far_future_ends_all_the_same() {
    let (mut rig, _) = running(&["a"]);
    rig.handle(eviction("a", "a-1", true));
    let mut earlier = rig.snapshot().evictions;
    let view = earlier.get_mut("default/a").unwrap();
    view.until = view.until.checked_add(Duration::from_secs(1 << 30)).unwrap();
    let mut next = Rig::new();
    next.turn.restore_unfinished(
        Earlier { evictions: earlier, ..Earlier::default() },
        Set::new(),
        Table::new(),
    );
    next.want(&[pod("a")]);
    next.list(&[]);
    assert_eq!(next.shown(), "a Failed Evicted");
    let acts_of = later(&mut next, limits::EVICTED_MAX);
    assert!(acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");
}

#[test]
fn an_edited_pod_is_another_one() {
    let (mut rig, _) = running(&["a"]);
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let runs = acts(rig.want(&[pod("a/a-2")]));
    assert_eq!(runs.last().unwrap(), "run a/a-2");
    // The first wait of the old pod is over; it belongs to no pod any more.
    assert_eq!(later(&mut rig, limits::EVICTED_MIN), [""; 0]);
}

#[test]
fn an_evicted_pod_holds_nothing_that_others_need() {
    let with_port = |name: &str| super::rig::with_port(name, 80);
    let mut rig = Rig::listed();
    rig.want(&[with_port("a"), with_port("b")]);
    assert_eq!(rig.shown(), "a Pending, b Failed NodePorts");
    rig.handle(eviction("a", "a-1", true));
    let acts = acts(rig.gone("a"));
    assert!(acts.contains(&"run b/b-1".to_owned()), "{acts:?}");
    // The other way round, when it starts again.
    assert_eq!(later(&mut rig, limits::EVICTED_MIN), [""; 0]);
    assert_eq!(rig.shown(), "a Failed NodePorts, b Pending");
}

#[test]
fn who_is_admitted_under_pressure() {
    let check = |spec: &str, what: &[Pressure], expected: &str| {
        let pressures: Pressures = what.iter().copied().collect();
        let config = super::rig::config();
        let got = match admit(
            &pod_of("a", spec),
            std::iter::empty(),
            &config,
            &pressures,
            Chosen::Here,
            Room::Counts,
        ) {
            Ok(()) => String::new(),
            Err(rejection) => format!("{}: {}", rejection.reason, rejection.message),
        };
        assert_eq!(got, expected, "{spec} {what:?}");
    };
    let (memory, disk, pid) = (Pressure::Memory, Pressure::Disk, Pressure::Pid);
    let best_effort = "{containers: [{name: app}]}";
    let burstable = "{containers: [{name: app, resources: {requests: {memory: 1Mi}}}]}";
    let critical = "{priorityClassName: system-node-critical, containers: [{name: app}]}";
    let tolerant = |more: &str| {
        let toleration = format!("{{key: node.kubernetes.io/memory-pressure, {more}}}");
        format!("{{tolerations: [{toleration}], containers: [{{name: app}}]}}")
    };
    let refused = |names: &str| format!("Evicted: The node had condition: [{names}].");
    check(best_effort, &[], "");
    check(best_effort, &[memory], &refused("MemoryPressure"));
    check(burstable, &[memory], "");
    check(&tolerant("operator: Exists"), &[memory], "");
    check(&tolerant("operator: Exists, effect: NoSchedule"), &[memory], "");
    check(&tolerant("operator: Exists, effect: NoExecute"), &[memory], &refused("MemoryPressure"));
    check(&tolerant("value: other"), &[memory], &refused("MemoryPressure"));
    check(&tolerant("operator: Exists"), &[memory, disk], &refused("MemoryPressure DiskPressure"));
    check(burstable, &[disk], &refused("DiskPressure"));
    check(burstable, &[memory, pid], &refused("MemoryPressure PIDPressure"));
    check(critical, &[memory, disk, pid], "");
    // Other words than those of an eviction, for all pods.
    let out_of_disk = "OutOfDisk: cannot be started due to lack of disk space.";
    check(burstable, &[Pressure::OutOfDisk], out_of_disk);
    check(burstable, &[memory, Pressure::OutOfDisk], out_of_disk);
    check(critical, &[disk, Pressure::OutOfDisk], out_of_disk);
    check(burstable, &[disk, Pressure::OutOfDisk], &refused("DiskPressure"));
}

#[test]
fn a_node_out_of_disk_says_so_where_a_flag_asks_for_it() {
    let mut config = super::rig::config();
    config.eviction.low_disk_space = 256 << 20;
    let mut rig = Rig::listed_with(config);
    let condition = |rig: &Rig| {
        let all = rig.snapshot().conditions;
        let found = all.iter().find(|c| c.type_ == "OutOfDisk").unwrap();
        format!("{} {}: {}", found.is_true, found.reason, found.message)
    };
    assert_eq!(
        condition(&rig),
        "false KubeletHasSufficientDisk: kubelet has sufficient disk space available"
    );
    rig.want(&[pod("a")]);
    rig.handle(short_of(&[Pressure::OutOfDisk]));
    assert_eq!(condition(&rig), "true KubeletOutOfDisk: out of disk space");
    rig.want(&[pod("a"), pod("b")]);
    assert_eq!(rig.shown(), "a Pending, b Failed OutOfDisk", "what is there stays");
    let acts_of = acts(rig.handle(short_of(&[])));
    assert!(acts_of.contains(&"run b/b-1".to_owned()), "{acts_of:?}");
}

#[test]
fn what_runs_is_not_refused_and_what_was_refused_starts_after_the_pressure() {
    let mut rig = Rig::new();
    rig.handle(short_of(&[Pressure::Disk]));
    rig.want(&[pod("a"), pod("b")]);
    let acts_of = acts(rig.list(&["a/a-1/POD running", "a/a-1/app running"]));
    assert!(
        acts_of.contains(&"run a/a-1".to_owned()) && !acts_of.contains(&"run b/b-1".to_owned()),
        "{acts_of:?}"
    );
    assert_eq!(rig.shown(), "a Pending, b Failed Evicted");
    // An edit replaces the running pod.
    rig.seen("a", &["a/a-1/POD running"]);
    assert_eq!(acts(rig.want(&[pod("a/a-2"), pod("b")])).last().unwrap(), "run a/a-2");
    let acts_of = acts(rig.handle(short_of(&[])));
    assert!(acts_of.contains(&"run b/b-1".to_owned()), "{acts_of:?}");
}

#[test]
fn the_nodes_conditions_are_the_kubelets_and_change_with_an_event() {
    let mut rig = Rig::new();
    let conditions = |rig: &Rig| -> Vec<String> {
        let word = |c: &crate::status::snapshot::ConditionView| {
            format!("{}={} {}: {}", c.type_, c.is_true, c.reason, c.message)
        };
        rig.snapshot().conditions.iter().map(word).collect()
    };
    let events = |rig: &Rig| -> Vec<String> {
        let of_node = |kept: &&Arc<crate::recorder::ring::Kept>| kept.event.uid == "n1";
        rig.turn.events().iter().filter(of_node).map(|kept| kept.event.message.clone()).collect()
    };
    rig.handle(short_of(&[]));
    assert_eq!(conditions(&rig)[0], "Ready=false KubeletNotReady: container runtime is down: not asked yet");
    rig.list(&[]);
    assert_eq!(
        conditions(&rig),
        [
            "Ready=true KubeletReady: kubelet is posting ready status",
            "MemoryPressure=false KubeletHasSufficientMemory: kubelet has sufficient memory available",
            "DiskPressure=false KubeletHasNoDiskPressure: kubelet has no disk pressure",
            "PIDPressure=false KubeletHasSufficientPID: kubelet has sufficient PID available",
        ]
    );
    assert_eq!(events(&rig), ["Node n1 status is now: NodeReady"]);
    let before = rig.snapshot().conditions[2].since;
    rig.now = rig.now.after(Duration::from_secs(9));
    rig.handle(short_of(&[Pressure::Disk]));
    assert_eq!(conditions(&rig)[2], "DiskPressure=true KubeletHasDiskPressure: kubelet has disk pressure");
    assert_eq!(rig.snapshot().conditions[2].since, rig.now().wall);
    assert_ne!(rig.snapshot().conditions[2].since, before);
    assert_eq!(events(&rig)[1], "Node n1 status is now: NodeHasDiskPressure");
    rig.handle(short_of(&[Pressure::Disk]));
    assert_eq!(events(&rig).len(), 2, "nothing changed");
}

#[test]
fn what_ran_before_the_machine_started_anew_comes_back_on_a_full_disk() {
    let mut rig = Rig::new();
    rig.handle(short_of(&[Pressure::Disk]));
    rig.want(&[pod("a"), pod("b")]);
    let acts_of = acts(rig.list(&["a/a-1/POD exited", "a/a-1/app exited"]));
    assert!(acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");
    assert_eq!(rig.shown(), "a Pending, b Failed Evicted");
}

#[test]
fn the_version_that_waits_returns_and_not_the_one_that_was_evicted() {
    let (mut rig, _) = running(&["a"]);
    let mut newer = (*pod("a/a-2")).clone();
    let after = ("podkeeper.dev/after".to_owned(), "never".to_owned());
    newer.metadata.annotations.get_or_insert_default().extend([after]);
    rig.want(&[Arc::new(newer)]);
    assert_eq!(rig.shown(), "a Running", "the new one waits, and the old one runs on");
    let images = rig.snapshot().also_wanted;
    assert_eq!(images.len(), 0, "of the same spec");
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let acts_of = later(&mut rig, limits::EVICTED_MAX);
    assert!(!acts_of.contains(&"run a/a-1".to_owned()), "{acts_of:?}");
}

#[test]
fn the_image_of_a_version_that_waits_is_wanted() {
    let old = pod_of("a/a-1", "{containers: [{name: app, image: app:1}]}");
    let mut newer = (*pod_of("a/a-2", "{containers: [{name: app, image: app:2}]}")).clone();
    let after = ("podkeeper.dev/after".to_owned(), "never".to_owned());
    newer.metadata.annotations.get_or_insert_default().extend([after]);
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&old));
    rig.status(&old, "Running", false);
    rig.want(&[Arc::new(newer)]);
    let wants = crate::garbage::wants::Wants::of_snapshot(&rig.snapshot());
    for image in ["app:1", "app:2"] {
        let names = [crate::image::reference::normal(image)].into();
        assert_eq!(wants.of("sha256:00", &names), Some("default/a"), "{image}");
    }
}

#[test]
fn a_pod_that_is_being_stopped_is_leaving_before_its_worker_says_so() {
    let (mut rig, _) = running(&["a"]);
    rig.handle(eviction("a", "a-1", true));
    assert_eq!(rig.shown(), "a Running terminating");
}
