//! Directories of pods that nothing wants.

use super::*;
use crate::base::table::Set;
use crate::volumes::manager::Use;
use crate::volumes::{Gone, Parts};

/// The sweep removes directories without a user, and keeps those of workers.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_sweep_takes_down_what_nobody_wants() {
    let rig = rig("set-up-sweep");
    let volumes = "[{name: d, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}]";
    assert_eq!(rig.set_up("a", volumes, ""), "");
    // A state that an earlier daemon would have left.
    let other = rig_in(&rig.base);
    for uid in ["b", "c"] {
        assert_eq!(other.set_up(uid, volumes, ""), "");
        fs::write(rig.base.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/d/f"), "").unwrap();
    }
    fs::write(rig.base.join("pods/c/etc-hosts"), "somebody else's").unwrap();
    rig.volumes.sweep(Gone::These(["d".to_owned()].into()));
    assert!(rig.base.join("pods/c/volumes").exists());
    rig.volumes.sweep(Gone::AllBut(["b".to_owned()].into()));
    assert!(rig.base.join("pods/a/volumes").exists() && rig.base.join("pods/b/volumes").exists());
    let left = fs::read_dir(rig.base.join("pods/c")).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["etc-hosts"]);
    rig.end();
}

#[test]
fn the_removal_of_the_volumes_of_a_watched_pod_is_counted() {
    let rig = rig("set-up-ends");
    assert_eq!(rig.set_up("a", "[{name: v, emptyDir: {}}]", ""), "");
    let volume = crate::layout::volumes_dir(&rig.base, "a").unwrap().join("kubernetes.io~empty-dir/v");
    for number in 0..50 {
        std::fs::write(volume.join(number.to_string()), "").unwrap();
    }
    let ends = rig.volumes.ends().clone();
    ends.watch(vec![("a".to_owned(), None), ("b".to_owned(), None)]);
    rig.tear_down("a").unwrap();
    assert!(ends.steps("a") >= 50 && ends.steps("b") == 0, "{ends:?}");
    rig.end();
}

/// Regression: other pods were evicted while a sweep removed the files of a pod that was not wanted any more.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_sweep_tells_how_far_it_is() {
    let rig = rig("set-up-sweep-steps");
    let ends = rig.volumes.ends().clone();
    let pods = ["big", "stuck", "used"];
    let volume = |uid: &str| {
        let at = rig.base.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/v");
        fs::create_dir_all(&at).unwrap();
        at
    };
    for uid in pods {
        for number in 0..50 {
            fs::write(volume(uid).join(number.to_string()), "").unwrap();
        }
    }
    // Such a directory may hold other data.
    fs::create_dir_all(rig.base.join("pods/stuck/volumes/kubernetes.io~nfs/v/data")).unwrap();
    assert_eq!(rig.set_up("used", "[{name: v, emptyDir: {}}]", ""), "");
    ends.watch(pods.iter().map(|uid| ((*uid).to_owned(), None)).collect());
    std::thread::scope(|scope| {
        let sweep = scope.spawn(|| rig.volumes.sweep(Gone::AllBut(Set::new())));
        // The second one is tried again for a while, and no pod waits for it meanwhile.
        while ends.steps("big") < 50 || volumes_left(&rig, "big") || !ends.swept().is_empty() {
            assert!(!sweep.is_finished(), "{ends:?}");
            std::thread::yield_now();
        }
        assert!(ends.steps("used") == 0 && volumes_left(&rig, "used"), "{ends:?}");
        assert!(volumes_left(&rig, "stuck"));
        fs::remove_dir_all(rig.base.join("pods/stuck")).unwrap();
    });
    rig.end();
}

/// Regression: a daemon that was killed while it removed the files of a pod left them to a sweep that waited for all sources.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn an_interrupted_removal_goes_on_whatever_is_wanted() {
    let rig = rig("set-up-sweep-gone");
    let left = |uid: &str| rig.base.join("pods").join(uid).join(crate::layout::GONE);
    for uid in ["over", "again", "kept"] {
        fs::create_dir_all(left(uid).join("kubernetes.io~empty-dir/v")).unwrap();
        fs::write(left(uid).join("kubernetes.io~empty-dir/v/f"), "").unwrap();
    }
    // It is given again, and another pod is of no worker yet, and may be wanted.
    assert_eq!(rig.set_up("again", "[{name: v, emptyDir: {}}]", ""), "");
    let volume = |uid: &str| rig.base.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/v");
    fs::create_dir_all(volume("kept")).unwrap();
    fs::write(volume("again").join("new"), "").unwrap();
    rig.volumes.sweep(Gone::These(Set::new()));
    assert!(!rig.base.join("pods/over").exists());
    assert!(!left("again").exists() && volume("again").join("new").exists());
    assert!(!left("kept").exists() && volume("kept").exists());
    // A removal that finds what another one has left.
    fs::create_dir_all(left("again").join("kubernetes.io~secret/s")).unwrap();
    rig.tear_down("again").unwrap();
    assert!(!rig.base.join("pods/again").exists());
    // What may hold other data stays, and does not come back under its old name.
    let data = |name: &str| rig.base.join("pods/nfs").join(name).join("kubernetes.io~nfs/v/data");
    fs::create_dir_all(data("volumes")).unwrap();
    assert!(rig.tear_down("nfs").unwrap_err().contains("volumes"), "it is told");
    assert!(data(crate::layout::GONE).exists() && !data("volumes").exists());
    fs::remove_dir(data(crate::layout::GONE)).unwrap();
    rig.tear_down("nfs").unwrap();
    assert!(!rig.base.join("pods/nfs").exists());
    rig.end();
}

fn volumes_left(rig: &Rig, uid: &str) -> bool {
    let of_pod = rig.base.join("pods").join(uid);
    ["volumes", crate::layout::GONE].iter().any(|name| of_pod.join(name).exists())
}

/// Regression: each pod that a URL's bad manifest left began another thread that swept, beside those before.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn there_is_one_sweep_at_a_time() {
    let rig = rig("set-up-sweeps");
    let volume = |uid: &str| {
        let at = rig.base.join("pods").join(uid).join("volumes/kubernetes.io~empty-dir/m");
        fs::create_dir_all(&at).unwrap();
        at
    };
    let busy = volume("c");
    mounts::tmpfs(&rustix::fs::open(&busy, DIRECTORY, Mode::empty()).unwrap(), Some(1 << 20)).unwrap();
    let user = fs::File::create(busy.join("f")).unwrap();
    let gone = Gone::AllBut(["a".to_owned()].into());
    std::thread::scope(|scope| {
        let sweep = scope.spawn(|| rig.volumes.sweep(gone.clone()));
        while !rig.volumes.is_sweeping() {
            std::thread::yield_now();
        }
        let later = volume("d");
        rig.volumes.sweep(gone.clone());
        assert!(!sweep.is_finished(), "the other thread does it, and goes on");
        while later.exists() {
            assert!(!sweep.is_finished(), "without waiting for what is busy");
            std::thread::yield_now();
        }
        assert!(busy.exists());
        drop(user);
        sweep.join().unwrap();
        assert!(!busy.exists());
    });
    rig.end();
}

/// Regression: after a restart the removal of an untrusted pod's files waited for its turn, a pod of the node's own files got the
/// UID meanwhile, and lost its volumes three seconds into its run.
#[test]
fn a_removal_that_waits_for_its_turn_has_the_directory() {
    let rig = rig("set-up-queued");
    let dir = rig.base.join("pods/a/volumes/kubernetes.io~empty-dir/v");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("left"), "").unwrap();
    // The thread of its jobs is busy.
    let (goes_on, waits) = unbounded::<()>();
    let parts = Parts { sub_paths: Vec::new(), image_volumes: Vec::new() };
    let bound = Box::new(move |_| waits.recv().unwrap());
    rig.hand.prepare(None, ("a".to_owned(), "c".to_owned()), parts, bound);
    rig.hand.order(Order::TearDown { uid: "a".to_owned() });
    let other = rig.beside("other");
    let volumes = "[{name: v, emptyDir: {}}]";
    let why = "what another pod of its UID has or left is not removed yet";
    assert_eq!(other.set_up("a", volumes, ""), why);
    goes_on.send(()).unwrap();
    assert_eq!(rig.told.recv().unwrap(), Report::TornDown { uid: "a".to_owned(), result: Ok(()) });
    assert_eq!(other.set_up("a", volumes, ""), "");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    // What the sweep removes is not freed by a worker.
    fs::create_dir_all(rig.base.join("pods/b/volumes")).unwrap();
    assert!(rig.volumes.0.take("b", &Use::Sweep));
    assert_eq!(rig.tear_down("b"), Err("what an earlier daemon has left is being removed".to_owned()));
    assert!(!rig.volumes.0.take("b", &Use::Worker(PodKey { namespace: "default".into(), name: "p".into() })));
    rig.volumes.0.release("b", &Use::Sweep);
    other.tear_down("a").unwrap();
    rig.end();
}

/// Regression: a container's part was prepared behind the removal of its pod's volumes, when the container was withdrawn: the pod
/// had the directory for good, and another one of the UID never started.
#[test]
fn what_is_withdrawn_keeps_no_directory() {
    let rig = rig("set-up-withdrawn");
    let of = || ("a".to_owned(), "c".to_owned());
    let pod = |uid: &str| {
        let mut pod = testing::pod("{containers: [{name: c}]}");
        pod.uid = uid.to_owned();
        Arc::new(pod)
    };
    let parts = || Parts { sub_paths: Vec::new(), image_volumes: vec!["c~1".to_owned()] };
    // It waits behind another job, and is dropped.
    let (goes_on, waits) = unbounded::<()>();
    let none = Parts { sub_paths: Vec::new(), image_volumes: Vec::new() };
    rig.hand.prepare(None, ("a".to_owned(), "d".to_owned()), none, Box::new(move |_| waits.recv().unwrap()));
    let (tell, told) = unbounded();
    rig.hand.prepare(Some(&pod("a")), of(), parts(), Box::new(move |result| tell.send(result).unwrap()));
    rig.hand.withdraw(&of());
    goes_on.send(()).unwrap();
    assert!(told.recv().is_err(), "it is not told");
    assert!(!rig.base.join("pods/a").exists());
    // It is being made: the directory is free after that.
    let (goes_on, waits) = unbounded::<()>();
    let (begun, begins) = unbounded::<()>();
    let bound = Box::new(move |_| {
        begun.send(()).unwrap();
        waits.recv().unwrap();
    });
    rig.hand.prepare(Some(&pod("a")), of(), parts(), bound);
    begins.recv().unwrap();
    assert!(rig.volumes.0.is_used("a"));
    rig.hand.withdraw(&of());
    goes_on.send(()).unwrap();
    let other = rig.beside("other");
    let volumes = "[{name: v, emptyDir: {}}]";
    while !other.set_up("a", volumes, "").is_empty() {}
    other.tear_down("a").unwrap();
    // What follows of the pod frees it: nobody comes in between.
    let (goes_on, waits) = unbounded::<()>();
    let (begun, begins) = unbounded::<()>();
    let bound = Box::new(move |_| {
        begun.send(()).unwrap();
        waits.recv().unwrap();
    });
    rig.hand.prepare(Some(&pod("a")), of(), parts(), bound);
    begins.recv().unwrap();
    let (ended, end) = unbounded::<()>();
    let none = Parts { sub_paths: Vec::new(), image_volumes: Vec::new() };
    let of_next = ("a".to_owned(), "d".to_owned());
    rig.hand.prepare(None, of_next, none, Box::new(move |_| ended.send(()).unwrap()));
    rig.hand.withdraw(&of());
    goes_on.send(()).unwrap();
    end.recv().unwrap();
    assert!(rig.volumes.0.is_used("a"));
    rig.tear_down("a").unwrap();
    assert!(!rig.volumes.0.is_used("a"));
    assert_eq!(other.set_up("a", volumes, ""), "");
    // One that is wanted keeps it.
    let (tell, told) = unbounded();
    rig.hand.prepare(
        Some(&pod("b")),
        ("b".to_owned(), "c".to_owned()),
        parts(),
        Box::new(move |it| tell.send(it).unwrap()),
    );
    told.recv().unwrap().unwrap();
    assert_eq!(other.set_up("b", volumes, ""), "what another pod of its UID has or left is not removed yet");
    other.tear_down("a").unwrap();
    rig.end();
}
