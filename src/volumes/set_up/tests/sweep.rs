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
