//! Tests on directories that look like mounted hierarchies. The kernel creates a cgroup's files with it; here
//! the writes create them.

mod owners;

use super::*;
use crate::cgroup::values::{Values, Version};

pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn scratch(name: &str, files: &[&str]) -> Scratch {
    let dir =
        crate::base::testing::temporary().join(format!("podkeeper-cgroup-{name}-{}", std::process::id()));
    _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for file in files {
        match file.strip_suffix('/') {
            Some(directory) => std::fs::create_dir_all(dir.join(directory)).unwrap(),
            None => std::fs::write(dir.join(file), "cpuset cpu io memory hugetlb pids rdma misc\n").unwrap(),
        }
    }
    Scratch(dir)
}

pub(super) fn settings(memory: Option<i64>) -> Settings {
    Settings { per_qos: true, root: String::new(), milli_cpu: 2000, memory, is_enforced: true }
}

pub(super) fn pod(uid: &str, qos: Qos, milli_cpu: i64) -> PodCgroup {
    let values = Values { cpu_shares: cpu::shares(milli_cpu), memory: Some(1 << 20), ..Values::default() };
    PodCgroup { uid: uid.to_owned(), qos, milli_cpu, values }
}

fn text(dir: &Scratch, path: &str) -> String {
    std::fs::read_to_string(dir.0.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Removes the plain files of a directory, which the kernel would remove with a cgroup.
fn empty(dir: &Scratch, path: &str) {
    for entry in std::fs::read_dir(dir.0.join(path)).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn version_2() {
    let dir = scratch("v2", &["cgroup.controllers", "cgroup.subtree_control"]);
    let all = Cgroups::new(settings(Some(1 << 30)), dir.0.clone(), "/root".to_owned());
    assert!(!all.is_decided());
    all.decide("cgroupfs");
    assert!(all.is_decided());
    assert_eq!(text(&dir, "kubepods/cpu.weight"), "79");
    assert_eq!(text(&dir, "kubepods/memory.max"), "1073741824");
    assert_eq!(text(&dir, "kubepods/besteffort/cpu.weight"), "1");
    all.ensure(&pod("a", Qos::Burstable, 1000)).1.unwrap();
    all.ensure(&pod("b", Qos::Burstable, 500)).1.unwrap();
    all.ensure(&pod("c", Qos::Guaranteed, 500)).1.unwrap();
    assert_eq!(text(&dir, "kubepods/burstable/poda/memory.max"), "1048576");
    assert_eq!(text(&dir, "kubepods/burstable/poda/cpu.max"), "max 100000");
    assert_eq!(text(&dir, "kubepods/podc/pids.max"), "max");
    assert_eq!(text(&dir, "kubepods/burstable/cpu.weight"), "59");
    // Again with other values, as after a resize.
    all.ensure(&pod("a", Qos::Burstable, 2000)).1.unwrap();
    assert_eq!(text(&dir, "kubepods/burstable/poda/cpu.weight"), "79");
    assert_eq!(text(&dir, "kubepods/burstable/cpu.weight"), "98");
    empty(&dir, "kubepods/burstable/poda");
    all.remove("a").unwrap();
    assert!(!dir.0.join("kubepods/burstable/poda").exists());
    assert_eq!(text(&dir, "kubepods/burstable/cpu.weight"), "20");
    all.remove("never-was").unwrap();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn that_the_limits_of_all_pods_hold_is_told_once_and_tried_again() {
    let dir = scratch("limits", &["cgroup.controllers", "cgroup.subtree_control"]);
    let of = |is_enforced| {
        let settings = Settings { is_enforced, ..settings(Some(1 << 30)) };
        Cgroups::new(settings, dir.0.clone(), "/root".to_owned())
    };
    // A limit that the kernel rejects.
    std::fs::create_dir_all(dir.0.join("kubepods/memory.max")).unwrap();
    std::fs::write(dir.0.join("kubepods/memory.max/x"), "").unwrap();
    // Without a mark it would count as another program's.
    assert!(Tree::open(dir.0.clone(), "/root".to_owned()).mark(std::path::Path::new("kubepods")));
    let all = of(true);
    assert_eq!(all.limited(), None, "it is not known yet where they are");
    all.decide("cgroupfs");
    let why = all.limited().unwrap().unwrap_err();
    assert!(why.starts_with("1073741824 cannot be written to "), "{why}");
    assert_eq!(all.limited(), None, "the same again");
    std::fs::remove_dir_all(dir.0.join("kubepods/memory.max")).unwrap();
    assert_eq!(all.limited(), Some(Ok(())));
    assert_eq!(text(&dir, "kubepods/memory.max"), "1073741824");
    assert_eq!(all.limited(), None);
    let other = of(false);
    other.decide("cgroupfs");
    assert_eq!(other.limited(), None, "nobody asked for it");
}

/// A reservation that was taken away stayed in force until the cgroup was gone, and the event said "Updated".
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn the_limit_of_an_earlier_reservation_is_taken_away() {
    let dir = scratch("no-limit", &["cgroup.controllers", "cgroup.subtree_control"]);
    for (memory, limit) in [(Some(1 << 30), "1073741824"), (None, "max")] {
        let all = Cgroups::new(settings(memory), dir.0.clone(), "/root".to_owned());
        all.decide("cgroupfs");
        assert_eq!(all.limited(), Some(Ok(())));
        assert_eq!(text(&dir, "kubepods/memory.max"), limit);
    }
}

#[test]
fn controllers_are_given_down() {
    let dir = scratch("delegate", &["cgroup.controllers"]);
    std::fs::write(dir.0.join("cgroup.subtree_control"), "memory").unwrap();
    let tree = Tree::open(dir.0.clone(), "/root".to_owned());
    assert_eq!(tree.version, Version::V2);
    tree.make(std::path::Path::new("a/b")).unwrap();
    // A plain file has the content of the last write: pids, the last controller that can be delegated.
    assert_eq!(text(&dir, "cgroup.subtree_control"), "+pids");
}

#[test]
fn version_1() {
    let dir = scratch("v1", &["cpu,cpuacct/", "memory/", "pids/", "systemd/kubepods/podx/", "hugetlb/"]);
    std::os::unix::fs::symlink("cpu,cpuacct", dir.0.join("cpu")).unwrap();
    let all = Cgroups::new(settings(None), dir.0.clone(), "/root".to_owned());
    all.decide("cgroupfs");
    assert_eq!(text(&dir, "cpu/kubepods/cpu.shares"), "2048");
    assert!(!dir.0.join("memory/kubepods/memory.limit_in_bytes").exists());
    std::fs::create_dir_all(dir.0.join("hugetlb/kubepods/podx")).unwrap();
    std::fs::write(dir.0.join("hugetlb/kubepods/podx/hugetlb.2MB.limit_in_bytes"), "").unwrap();
    std::fs::write(dir.0.join("hugetlb/kubepods/podx/hugetlb.2MB.rsvd.limit_in_bytes"), "").unwrap();
    all.ensure(&pod("x", Qos::Guaranteed, 1000)).1.unwrap();
    assert_eq!(text(&dir, "cpu,cpuacct/kubepods/podx/cpu.shares"), "1024");
    assert_eq!(text(&dir, "cpu/kubepods/podx/cpu.cfs_quota_us"), "-1");
    assert_eq!(text(&dir, "memory/kubepods/podx/memory.limit_in_bytes"), "1048576");
    assert_eq!(text(&dir, "hugetlb/kubepods/podx/hugetlb.2MB.limit_in_bytes"), "0");
    assert_eq!(text(&dir, "hugetlb/kubepods/podx/hugetlb.2MB.rsvd.limit_in_bytes"), "");
    for controller in ["cpu", "memory", "pids", "hugetlb"] {
        empty(&dir, &format!("{controller}/kubepods/podx"));
    }
    all.remove("x").unwrap();
    for controller in ["cpu", "memory", "pids", "hugetlb", "systemd"] {
        assert!(!dir.0.join(controller).join("kubepods/podx").exists(), "{controller}");
    }
}

/// One test at a time uses real cgroups of the kernel: a sweep removes all that have its podkeeper's mark.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Checked without the code under test, so that a mistake there cannot skip its tests.
fn real_ones_can_be_made() -> bool {
    let unified = PathBuf::from(MOUNT).join("cgroup.controllers").exists();
    let parent = if unified { PathBuf::from(MOUNT) } else { PathBuf::from(MOUNT).join("memory") };
    let probe = parent.join(format!("podkeeper-probe-{:?}", std::thread::current().id()));
    let made = std::fs::create_dir(&probe).is_ok();
    made && std::fs::remove_dir(&probe).is_ok()
}

#[test]
fn a_sweep_takes_what_is_marked_and_not_kept() {
    let _alone = alone();
    // Marks need the kernel's own file system.
    let real = PathBuf::from(MOUNT);
    let tree = Tree::open(real.clone(), "/podkeeper-test".to_owned());
    let root = format!("podkeeper-test-{}", std::process::id());
    let of = |owner: &str| {
        let settings = Settings { root: root.clone(), ..settings(None) };
        let all = Cgroups::new(settings, real.clone(), owner.to_owned());
        all.decide("cgroupfs");
        all
    };
    let (ours, theirs) = (of("/ours"), of("/theirs"));
    if !real_ones_can_be_made() {
        assert!(ours.kubepods().is_none(), "then there are none to sweep");
        return;
    }
    assert!(ours.kubepods().is_some());
    ours.ensure(&pod("a", Qos::Burstable, 100)).1.unwrap();
    ours.ensure(&pod("b", Qos::Guaranteed, 100)).1.unwrap();
    theirs.ensure(&pod("c", Qos::Burstable, 100)).1.unwrap();
    // A worker that requested them needs them, even if the sweep's list is older.
    ours.sweep(&Set::new());
    let path = |rest: &str| PathBuf::from(format!("{root}/kubepods/{rest}"));
    assert!(tree.exists(&path("burstable/poda")) && tree.exists(&path("podb")));
    // The next daemon.
    of("/ours").sweep(&Set::from(["b".to_owned()]));
    assert!(!tree.exists(&path("burstable/poda")));
    assert!(tree.exists(&path("podb")));
    assert!(tree.exists(&path("burstable/podc")));
    tree.remove(&PathBuf::from(&root)).unwrap();
}

/// Two podkeepers with the same manifests: their pods have the same UIDs.
#[test]
fn a_cgroup_in_which_another_podkeeper_runs_a_pod_is_left_to_it() {
    let _alone = alone();
    let root = format!("podkeeper-test-two-{}", std::process::id());
    let of = |owner: &str| {
        let settings = Settings { root: root.clone(), ..settings(None) };
        let all = Cgroups::new(settings, MOUNT.into(), owner.to_owned());
        all.decide("cgroupfs");
        all
    };
    // A sweep looks for its root directory on the whole machine.
    let (ours, theirs) = (of("/two/ours"), of("/two/theirs"));
    if !real_ones_can_be_made() {
        assert!(ours.kubepods().is_none(), "then there are none to share");
        return;
    }
    let tree = Tree::open(MOUNT.into(), "/two/ours".to_owned());
    let path = PathBuf::from(format!("{root}/kubepods/poda"));
    theirs.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap();
    let container = path.join("container");
    tree.make(&container).unwrap();
    let mut process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    for hierarchy in tree.written() {
        std::fs::write(hierarchy.join(&container).join("cgroup.procs"), process.id().to_string()).unwrap();
    }

    let error = ours.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap_err().to_string();
    assert_eq!(
        error,
        format!("a pod with the same UID runs in {} for --root-dir /two/theirs", path.display())
    );
    ours.remove("a").unwrap();
    ours.sweep(&Set::new());
    assert!(process.try_wait().unwrap().is_none(), "it was killed");
    assert!(tree.exists(&container));

    theirs.remove("a").unwrap();
    process.wait().unwrap();
    ours.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap();
    tree.remove(&PathBuf::from(&root)).unwrap();
}

/// Two podkeepers with the same manifests start at the same time: a cgroup has no processes before the first
/// container.
#[test]
fn of_two_podkeepers_that_begin_at_once_the_first_has_the_cgroup() {
    let _alone = alone();
    let root = format!("podkeeper-test-boot-{}", std::process::id());
    let dir = crate::base::testing::scratch("cgroup-boot");
    let other = dir.to_string_lossy().into_owned();
    let of = |owner: &str| {
        let settings = Settings { root: root.clone(), ..settings(None) };
        let all = Cgroups::new(settings, MOUNT.into(), owner.to_owned());
        all.decide("cgroupfs");
        all
    };
    let (ours, theirs) = (of("/boot/ours"), of(&other));
    if !real_ones_can_be_made() {
        assert!(ours.kubepods().is_none(), "then there are none to share");
        return;
    }
    let lock = std::fs::File::create(dir.join(crate::base::locks::LOCK)).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let tree = Tree::open(MOUNT.into(), other.clone());
    let path = PathBuf::from(format!("{root}/kubepods/poda"));
    theirs.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap();
    let error = ours.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap_err().to_string();
    assert_eq!(error, format!("a pod with the same UID runs in {} for --root-dir {other}", path.display()));
    ours.remove("a").unwrap();
    assert!(tree.is_ours(&path), "removed, or taken over");

    // Cgroups of an earlier podkeeper that is gone may be taken over.
    drop(lock);
    ours.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap();
    assert!(!tree.is_ours(&path));
    tree.remove(&PathBuf::from(&root)).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn kubepods_goes_with_the_last_pod() {
    let _alone = alone();
    let tree = Tree::open(MOUNT.into(), String::new());
    let root = format!("podkeeper-test-last-{}", std::process::id());
    let of = |owner: &str| {
        let settings = Settings { root: root.clone(), ..settings(None) };
        Cgroups::new(settings, MOUNT.into(), owner.to_owned())
    };
    let (ours, theirs) = (of("/ours"), of("/theirs"));
    let top = PathBuf::from(format!("{root}/kubepods"));
    let there = || tree.exists(&top);
    for all in [&ours, &theirs] {
        all.decide("cgroupfs");
    }
    if !real_ones_can_be_made() {
        assert!(ours.kubepods().is_none() && !there());
        return;
    }
    assert!(ours.kubepods().is_some() && !there(), "no pod yet");
    ours.ensure(&pod("a", Qos::Burstable, 100)).1.unwrap();
    theirs.ensure(&pod("b", Qos::BestEffort, 0)).1.unwrap();
    ours.remove("a").unwrap();
    assert!(there() && tree.exists(&top.join("burstable")), "in use by another");
    theirs.remove("b").unwrap();
    assert!(!there());
    // Created again as before.
    ours.ensure(&pod("a", Qos::Burstable, 1000)).1.unwrap();
    let shares = |class: &str| {
        let (controller, file) = match tree.version {
            Version::V1 => ("cpu", "cpu.shares"),
            Version::V2 => ("", "cpu.weight"),
        };
        std::fs::read_to_string(PathBuf::from(MOUNT).join(controller).join(&top).join(class).join(file))
            .unwrap()
    };
    let expected = match tree.version {
        Version::V1 => ("2048\n", "1024\n", "2\n"),
        Version::V2 => ("79\n", "39\n", "1\n"),
    };
    assert_eq!((&*shares(""), &*shares("burstable"), &*shares("besteffort")), expected);
    // A restarted daemon without pods.
    of("/ours").decide("cgroupfs");
    assert!(there());
    ours.remove("a").unwrap();
    assert!(!there());
    // A `kubepods` that podkeeper has not created is not touched.
    tree.make(&top).unwrap();
    ours.ensure(&pod("a", Qos::Guaranteed, 100)).1.unwrap();
    ours.remove("a").unwrap();
    assert!(there());
    tree.remove(&PathBuf::from(&root)).unwrap();
}

#[test]
fn what_cannot_be_made_is_done_without() {
    let dir = scratch("none", &[]);
    let check = |driver: &str, settings: Settings, mount: PathBuf| {
        let all = Cgroups::new(settings, mount, "/root".to_owned());
        all.decide(driver);
        assert!(all.is_decided());
        assert_eq!(all.parents.get(), None);
        all.ensure(&pod("a", Qos::Burstable, 100)).1.unwrap();
        all.remove("a").unwrap();
        all.sweep(&Set::new());
    };
    check("none", settings(None), dir.0.clone());
    check("cgroupfs", settings(None), dir.0.clone());
    check("cgroupfs", settings(None), "/proc/none".into());
    check("cgroupfs", Settings { per_qos: false, ..settings(None) }, MOUNT.into());
}
