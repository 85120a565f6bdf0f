//! Directories of pods that nothing wants.

use super::*;

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
    rig.volumes.sweep(&["b".to_owned()].into());
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
    let of = |name: &str| PodKey { namespace: "default".into(), name: name.into() };
    let ends = rig.volumes.ends().clone();
    ends.watch([of("p"), of("q")].into_iter().collect());
    rig.tear_down("a").unwrap();
    assert!(ends.steps(&of("p")) >= 50 && ends.steps(&of("q")) == 0, "{ends:?}");
    ends.watch([of("q")].into_iter().collect());
    ends.step(&of("p"));
    assert_eq!(ends.steps(&of("p")), 0, "it is not watched any more");
    rig.end();
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
    let keep = ["a".to_owned()].into();
    std::thread::scope(|scope| {
        let sweep = scope.spawn(|| rig.volumes.sweep(&keep));
        while !rig.volumes.is_sweeping() {
            std::thread::yield_now();
        }
        let later = volume("d");
        rig.volumes.sweep(&keep);
        assert!(!sweep.is_finished(), "the other thread does it, and goes on");
        drop(user);
        sweep.join().unwrap();
        assert!(!busy.exists() && !later.exists());
    });
    rig.end();
}
