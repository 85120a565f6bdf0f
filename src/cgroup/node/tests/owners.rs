//! Other programs that use cgroups: a kubelet in the same `kubepods`, a daemon with other flags, a systemd
//! that does not answer.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::cgroup::{Order, PodCgroups, Report};

/// A `systemctl` that runs this script.
fn slices(dir: &Scratch, script: &str) -> Manager {
    let program = dir.0.join("systemctl");
    std::fs::write(&program, format!("#!/bin/sh\ncd {}\n{script}\n", dir.0.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    Manager::Slices(Slices::of(dir.0.join("control"), program))
}

fn hand(all: &Cgroups) -> (PodCgroups, Receiver<Report>) {
    let (out, told) = channel();
    let out = Mutex::new(out);
    let hand = PodCgroups::new(all, Arc::new(move |report| drop(out.lock().unwrap().send(report))));
    (hand, told)
}

/// Much longer than the work takes, and shorter than the timeout of `systemctl`.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn a_systemctl_that_hangs_holds_up_one_pod() {
    // Each step at which the first pod may hang: above its own slice, at it, and at the common weight.
    for (case, hangs) in [
        ("top", "*set-property*kubepods.slice*"),
        ("own", "*set-property*poda.slice*"),
        ("weight", "*set-property*kubepods-burstable.slice*"),
    ] {
        let dir = scratch(&format!("hang-{case}"), &["cgroup.controllers"]);
        let script = format!("case \"$*\" in {hangs}) mkdir hung 2>/dev/null && exec sleep 9;; esac; :");
        let all = Cgroups::new(settings(None), dir.0.clone(), "/root".to_owned());
        all.decide_on(Ok((Driver::Systemd, slices(&dir, &script))));
        let ((a, told_a), (b, told_b)) = (hand(&all), hand(&all));
        a.order(Order::Ensure(Box::new(pod("a", Qos::Burstable, 100))));
        while !dir.0.join("hung").exists() {
            std::thread::yield_now();
        }
        b.order(Order::Ensure(Box::new(pod("b", Qos::Burstable, 100))));
        let report = told_b.recv_timeout(SOON).unwrap_or_else(|_| panic!("{case}: b waits for a"));
        assert!(matches!(report, Report::Ensured { result: Ok(()), .. }), "{case}: {report:?}");
        b.order(Order::Remove("b".to_owned()));
        let report = told_b.recv_timeout(SOON).unwrap_or_else(|_| panic!("{case}: b waits for a"));
        assert_eq!(report, Report::Removed { uid: "b".to_owned(), result: Ok(()) }, "{case}");
        assert!(told_a.try_recv().is_err(), "{case}: it hangs still");
    }
}

#[test]
fn directories_are_made_before_the_worker_goes_on() {
    let dir = scratch("at-once", &["cgroup.controllers", "cgroup.subtree_control"]);
    let all = Cgroups::new(settings(None), dir.0.clone(), "/root".to_owned());
    all.decide("cgroupfs");
    let (hand, told) = hand(&all);
    let ensure = |uid| hand.order(Order::Ensure(Box::new(pod(uid, Qos::Burstable, 100))));
    ensure("a");
    assert!(matches!(told.try_recv(), Ok(Report::Ensured { result: Ok(()), .. })));
    assert!(dir.0.join("kubepods/burstable/poda").exists());
    // Not while a sweep works on it: that may take long.
    let claim = all.shared.claim_unused("b").unwrap();
    ensure("b");
    // Nor before an earlier order is done.
    ensure("a");
    assert!(told.try_recv().is_err());
    drop(claim);
    for uid in ["b", "a"] {
        let report = told.recv_timeout(SOON).unwrap();
        assert!(matches!(report, Report::Ensured { pod, result: Ok(()), .. } if pod.uid == uid));
    }
}

/// Before the kernel sets a lower limit, it reclaims memory above it, which takes seconds if pages have to be written
/// to a disk.
#[test]
fn a_lower_limit_of_memory_is_not_set_on_the_workers_thread() {
    let dir = scratch("lower", &["cgroup.controllers", "cgroup.subtree_control"]);
    let all = Cgroups::new(settings(None), dir.0.clone(), "/root".to_owned());
    all.decide("cgroupfs");
    let (out, told) = channel();
    let out = Mutex::new(out);
    let tell = move |_| out.lock().unwrap().send(std::thread::current().name().map(str::to_owned)).unwrap();
    let hand = PodCgroups::new(&all, Arc::new(tell));
    let own = std::thread::current().name().map(str::to_owned);
    for (memory, on_own) in [(None, true), (Some(2 << 20), false), (Some(2 << 20), true), (None, true)] {
        let mut pod = pod("a", Qos::Burstable, 100);
        pod.values.memory = memory;
        hand.order(Order::Ensure(Box::new(pod)));
        let by = told.recv_timeout(SOON).unwrap();
        assert_eq!(by == own, on_own, "{memory:?}: {by:?}");
        while hand.is_at_work() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn containers_are_found_by_their_cgroups() {
    let dir = scratch("inside", &["cgroup.controllers", "cgroup.subtree_control"]);
    let all = Cgroups::new(settings(None), dir.0.clone(), "/root".to_owned());
    all.decide("cgroupfs");
    let (hand, told) = hand(&all);
    let inside = || {
        hand.order(Order::Ensure(Box::new(pod("a", Qos::Burstable, 100))));
        let Ok(Report::Ensured { mut inside, .. }) = told.try_recv() else { panic!("not at once") };
        inside.sort();
        inside
    };
    assert_eq!(inside(), [""; 0]);
    let (one, other) = ("1".repeat(64), "f".repeat(64));
    for name in [&one, &format!("docker-{other}.scope"), "init", &"g".repeat(64), &one[1..]] {
        std::fs::create_dir(dir.0.join("kubepods/burstable/poda").join(name)).unwrap();
    }
    assert_eq!(inside(), [one, other]);
}

#[test]
fn a_sweep_that_hangs_holds_up_the_pod_that_it_sweeps() {
    let all = Cgroups::new(settings(None), PathBuf::from("/none"), "/root".to_owned());
    let claim = all.shared.claim_unused("a").unwrap();
    assert!(all.shared.claim_unused("a").is_none());
    drop(all.shared.claim("b"));
    drop(claim);
    drop(all.shared.claim("a"));
    all.shared.lock().used.insert("a".to_owned(), None);
    assert!(all.shared.claim_unused("a").is_none(), "a worker counts on it");
}

/// In the kernel's own file system, because of the marks; `None` if cgroups cannot be created.
fn real(name: &str) -> Option<(String, Tree, impl Fn(&str) -> Cgroups)> {
    let root = format!("podkeeper-test-{name}-{}", std::process::id());
    let tree = Tree::open(MOUNT.into(), "/ours".to_owned());
    let made = tree.make(&PathBuf::from(&root)).is_ok() && tree.can_mark(&PathBuf::from(&root));
    let of = |root: &str| {
        let settings = Settings { root: root.to_owned(), ..settings(None) };
        let all = Cgroups::new(settings, MOUNT.into(), "/ours".to_owned());
        all.decide("cgroupfs");
        all
    };
    made.then_some((root, tree, of))
}

fn top_of(all: &Cgroups) -> String {
    all.parents.get().unwrap().top().display().to_string()
}

#[test]
fn a_kubepods_of_somebody_else_is_left_alone() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("foreign") else { return };
    // A kubelet without any pod so far.
    tree.make(&PathBuf::from(format!("{root}/kubepods/burstable"))).unwrap();
    let ours = of(&root);
    assert_eq!(top_of(&ours), format!("{root}/podkeeper/kubepods"));
    let (moved, done) = ours.ensure(&pod("a", Qos::Burstable, 100));
    done.unwrap();
    assert_eq!(moved, None, "said at the start");
    assert!(tree.exists(&PathBuf::from(format!("{root}/podkeeper/kubepods/burstable/poda"))));
    // The next daemon uses the same place.
    assert_eq!(top_of(&of(&root)), format!("{root}/podkeeper/kubepods"));
    ours.remove("a").unwrap();
    assert!(!tree.exists(&PathBuf::from(format!("{root}/podkeeper/kubepods"))));
    assert!(tree.exists(&PathBuf::from(format!("{root}/kubepods/burstable"))), "not ours to remove");
    tree.remove(&PathBuf::from(root)).unwrap();
}

/// Regression: each removed the unused `kubepods` that another one was about to use.
#[test]
fn of_podkeepers_that_begin_at_once_none_takes_another_for_a_stranger() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("at-once") else { return };
    std::thread::scope(|scope| {
        let begin = || {
            let each = (0..25).map(|n| {
                let ours = of(&root);
                let uid = format!("{:?}-{n}", std::thread::current().id()).replace(['(', ')'], "");
                let moved = ours.ensure(&pod(&uid, Qos::Burstable, 100)).0;
                ours.remove(&uid).unwrap();
                (top_of(&ours), moved)
            });
            each.collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..6).map(|_| scope.spawn(begin)).collect();
        for top in all.into_iter().flat_map(|one| one.join().unwrap()) {
            assert_eq!(top, (format!("{root}/kubepods"), None));
        }
    });
    tree.remove(&PathBuf::from(root)).unwrap();
}

/// Any process that may read the directory may lock it.
#[test]
fn who_keeps_the_lock_keeps_no_podkeeper_from_its_work() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("locked") else { return };
    let lock = tree.alone().unwrap();
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(top_of(&of(&root)), format!("{root}/kubepods"));
    }
    let took = begun.elapsed();
    assert!(took < limits::CGROUP_ALONE * 2, "it was waited for once: {took:?}");
    drop(lock);
    assert!(tree.alone().is_some());
    tree.remove(&PathBuf::from(root)).unwrap();
}

#[test]
fn what_an_earlier_version_made_without_a_mark_is_no_stranger() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("earlier") else { return };
    let pod_of_ours = PathBuf::from(format!("{root}/kubepods/poda"));
    tree.make(&pod_of_ours).unwrap();
    assert!(tree.mark(&pod_of_ours));
    assert_eq!(top_of(&of(&root)), format!("{root}/kubepods"));
    tree.make(&PathBuf::from(format!("{root}/kubepods/burstable/podb"))).unwrap();
    assert_eq!(top_of(&of(&root)), format!("{root}/podkeeper/kubepods"), "a kubelet's pod is among them");
    tree.remove(&PathBuf::from(root)).unwrap();
}

#[test]
fn who_takes_cgroups_away_from_under_pods_is_left_alone_and_told() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("taken") else { return };
    let ours = of(&root);
    for uid in ["a", "b"] {
        ours.ensure(&pod(uid, Qos::Guaranteed, 100)).1.unwrap();
        // Again, as for another sandbox: no program has touched it.
        assert_eq!(ours.ensure(&pod(uid, Qos::Guaranteed, 100)).0, None);
    }
    // A kubelet kills the unknown processes, and Docker creates the cgroup again.
    for uid in ["a", "b"] {
        let path = PathBuf::from(format!("{root}/kubepods/pod{uid}"));
        tree.remove(&path).unwrap();
        tree.make(&path).unwrap();
    }
    let (moved, done) = ours.ensure(&pod("a", Qos::Guaranteed, 100));
    done.unwrap();
    let words = moved.expect("it is told");
    assert!(words.contains(&format!("/{root}/kubepods is somebody else's")), "{words}");
    assert_eq!(top_of(&ours), format!("{root}/podkeeper/kubepods"));
    let (moved, done) = ours.ensure(&pod("b", Qos::Guaranteed, 100));
    done.unwrap();
    assert_eq!(moved, None, "told once");
    for uid in ["a", "b"] {
        assert!(tree.exists(&PathBuf::from(format!("{root}/podkeeper/kubepods/pod{uid}"))));
        ours.remove(uid).unwrap();
    }
    assert!(!tree.exists(&PathBuf::from(format!("{root}/podkeeper/kubepods"))));
    // The next daemon notices it before one of its own pods is killed, although podkeeper had created the tree.
    assert_eq!(top_of(&of(&root)), format!("{root}/podkeeper/kubepods"));
    tree.remove(&PathBuf::from(root)).unwrap();
}

#[test]
fn a_cgroup_root_of_an_earlier_flag_goes_with_the_first_sweep() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("flag") else { return };
    let exists = |path: &str| tree.exists(&PathBuf::from(format!("{root}/{path}")));
    let old = of(&format!("/{root}/old"));
    old.ensure(&pod("a", Qos::Burstable, 100)).1.unwrap();
    old.ensure(&pod("b", Qos::BestEffort, 0)).1.unwrap();
    // The next daemon has another flag; a container of `b` is left.
    let new = of(&format!("/{root}/new"));
    new.ensure(&pod("c", Qos::Guaranteed, 100)).1.unwrap();
    new.sweep(&Set::from(["b".to_owned()]));
    assert!(!exists("old/kubepods/burstable/poda") && exists("old/kubepods/besteffort/podb"));
    // Its container is recreated elsewhere, and then ends.
    new.ensure(&pod("b", Qos::BestEffort, 0)).1.unwrap();
    new.remove("b").unwrap();
    assert!(!exists("old/kubepods/besteffort/podb") && exists("new/kubepods/podc"));
    new.remove("c").unwrap();
    assert!(!exists("old/kubepods") && !exists("new/kubepods"));
    tree.remove(&PathBuf::from(root)).unwrap();
}

/// Regression: a kubelet killed all pods every two seconds, and the log did not say why.
#[test]
fn a_kubelet_that_comes_later_is_left_alone_with_a_later_sandbox() {
    let _alone = super::alone();
    let Some((root, tree, of)) = real("later") else { return };
    let ours = of(&root);
    let at = |path: &str| PathBuf::from(format!("{root}/kubepods/{path}"));
    for uid in ["a", "b"] {
        assert_eq!(ours.ensure(&pod(uid, Qos::Burstable, 100)).0, None);
    }
    let mut running = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    // Another podkeeper creates a pod's cgroup, marks it and starts a container; a third one has not marked its own
    // yet.
    tree.enter(&at("burstable/podc"), running.id()).unwrap();
    assert!(Tree::open(MOUNT.into(), "/another".to_owned()).mark(&at("burstable/podc")));
    tree.make(&at("burstable/podd-1")).unwrap();
    let after = |more: u64| Instant::now() + limits::CGROUP_STRANGER + Duration::from_secs(more);
    let stranger = |when: Instant| {
        let mut known = ours.shared.lock();
        let all = ours_of(&known).strangers();
        (all.len(), known.has_stayed(all, when))
    };
    for more in [0, 1, 2] {
        assert_eq!(stranger(after(more)), (0, false));
    }
    // Docker recreates a cgroup for a container that ends; the next cgroup of this name is a different one.
    for more in [3, 10, 17] {
        tree.enter(&at("burstable/pode"), running.id()).unwrap();
        assert_eq!(stranger(after(more)), (1, false));
        tree.enter(&at("burstable/podc"), running.id()).unwrap();
        tree.remove(&at("burstable/pode")).unwrap();
    }
    // A kubelet's.
    tree.enter(&at("podf"), running.id()).unwrap();
    assert_eq!(stranger(Instant::now()), (1, false));
    assert_eq!(ours.ensure(&pod("a", Qos::Burstable, 100)).0, None, "it is not known yet");
    ours.shared.lock().strangers.iter_mut().for_each(|(.., since)| *since -= limits::CGROUP_STRANGER);
    let (moved, done) = ours.ensure(&pod("a", Qos::Burstable, 100));
    done.unwrap();
    let words = moved.expect("it is told");
    assert!(words.contains(&format!("/{root}/kubepods is somebody else's")), "{words}");
    assert!(tree.exists(&PathBuf::from(format!("{root}/podkeeper/kubepods/burstable/poda"))));
    assert_eq!(ours.ensure(&pod("b", Qos::Burstable, 100)).0, None, "told once");
    // The next daemon notices it, too.
    assert_eq!(top_of(&of(&root)), format!("{root}/podkeeper/kubepods"));
    ["a", "b"].into_iter().for_each(|uid| ours.remove(uid).unwrap());
    _ = running.kill();
    _ = running.wait();
    tree.remove(&PathBuf::from(root)).unwrap();
}

fn ours_of(known: &Known) -> Arc<Kubepods> {
    known.kubepods.clone().unwrap()
}
