use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::stats::disk_use::{Progress, Reach};
use crate::stats::testing::Tree;

/// This process, which the fake cgroup files put into a cgroup of its own.
#[test]
fn what_a_process_holds_is_found() {
    let tree = Tree::new("stats-deleted");
    tree.write("cgroup/cgroup.controllers", "memory\n");
    tree.write("cgroup/pod/cgroup.procs", "");
    tree.write("cgroup/pod/app/below/cgroup.procs", &format!("4194305\n{}\n", std::process::id()));
    tree.write("file", "");
    let path = tree.root().join("file");
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    let again = file.try_clone().unwrap();
    let device = file.metadata().unwrap().dev();
    fs::remove_file(&path).unwrap();
    let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
    let counted = Counted { layers: true, devices: vec![device] };
    let proc = Path::new("/proc");
    let held = |round: &mut Round| held(proc, &hierarchies, &[PathBuf::from("pod")], &counted, round);
    let progress = Arc::<Progress>::default();
    let mut round = Round::until(Instant::now() + Duration::from_secs(60), Arc::clone(&progress));
    let found = held(&mut round);
    assert_eq!(round.reach(), Reach::Whole);
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    assert!(progress.steps() >= descriptors.min(4), "who watches sees it come further");
    // Other tests of this process may hold files, too.
    assert!(found.bytes >= 1 << 20 && found.inodes >= 1, "{found:?}");
    let with = |left, descriptors, process: &Path| {
        let mut round = Round::default();
        let mut look = Look { left, descriptors, ..Look::new(proc, &counted, &mut round) };
        look.table(process, Whose::Leader)
    };
    let mut own = Round::default();
    let mut alone = Look::new(proc, &counted, &mut own);
    for file in [&file, &again] {
        alone.file(&Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()), |_| true);
    }
    assert_eq!(alone.sum.inodes, 1, "each file counts once");
    assert!(alone.sum.bytes >= 1 << 20, "{:?}", alone.sum);
    let process = Path::new("/proc/self");
    assert_eq!(with(1, 1000, process), None, "there are more removed files");
    assert_eq!(with(1000, 2, process), None, "there are more descriptors");
    let mut late = Round::until(Instant::now(), Arc::default());
    assert_eq!((held(&mut late), late.reach()), (DiskUse::default(), Reach::Exceeded), "its time is over");
    let cut = vec![b'1'; usize::try_from(limits::DELETED_PROCESSES).unwrap()];
    fs::write(tree.root().join("cgroup/pod/cgroup.procs"), cut).unwrap();
    let mut round = Round::default();
    _ = held(&mut round);
    assert_eq!(round.reach(), Reach::Exceeded, "the list of processes is cut");
}

/// Regression: a pod that mapped a file, closed it and removed it had no limit, and others were evicted for its
/// usage.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn what_a_process_has_only_mapped_is_found() {
    let tree = Tree::new("stats-deleted-mapped");
    tree.write("cgroup/cgroup.controllers", "memory\n");
    let program = tree.root().join("program");
    fs::copy("/bin/sleep", &program).unwrap();
    let file = fs::metadata(&program).unwrap();
    let mut child = std::process::Command::new(&program).arg("1000").spawn().unwrap();
    // Its program appears a moment after the process.
    let maps = format!("/proc/{}/maps", child.id());
    let until = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&maps).unwrap().contains("/program\n") {
        assert!(Instant::now() < until, "it maps its program");
        std::thread::yield_now();
    }
    fs::remove_file(&program).unwrap();
    tree.write("cgroup/pod/cgroup.procs", &format!("{}\n", child.id()));
    let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
    let found = |devices| {
        let mut round = Round::default();
        let counted = Counted { layers: false, devices };
        let found = held(Path::new("/proc"), &hierarchies, &["pod".into()], &counted, &mut round);
        (found, round.reach())
    };
    let (mine, others) = (found(vec![file.dev()]), found(vec![u64::MAX]));
    child.kill().unwrap();
    child.wait().unwrap();
    let expected = DiskUse { bytes: file.blocks() * 512, inodes: 1 };
    assert_eq!((mine, others.0), ((expected, Reach::Whole), DiskUse::default()));
}

/// Regression: a file in a thread's own descriptor table was not counted.
#[test]
fn what_a_thread_alone_has_open_is_found() {
    use std::sync::mpsc::channel;
    let tree = Tree::new("stats-deleted-thread");
    tree.write("cgroup/cgroup.controllers", "memory\n");
    tree.write("cgroup/pod/cgroup.procs", &format!("{}\n", std::process::id()));
    tree.write("file", &"x".repeat(3 << 20));
    let path = tree.root().join("file");
    let file = fs::metadata(&path).unwrap();
    let ((ready, is_ready), (end, may_end)) = (channel(), channel::<()>());
    let thread = std::thread::spawn(move || {
        #[allow(deprecated, reason = "this thread opens one file, and nobody else uses it")]
        rustix::thread::unshare(rustix::thread::UnshareFlags::FILES).unwrap();
        let held = fs::File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        ready.send(()).unwrap();
        _ = may_end.recv();
        drop(held);
    });
    is_ready.recv().unwrap();
    let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
    let counted = Counted { layers: false, devices: vec![file.dev()] };
    let mut round = Round::default();
    let mut look = Look::new(Path::new("/proc"), &counted, &mut round);
    let tops = [hierarchies.tree().join("pod")];
    let whole = look.cgroups(&tops);
    let is_seen = look.seen.iter().any(|(_, number)| *number == file.ino());
    let mut few = Look { of_threads: 1, ..Look::new(Path::new("/proc"), &counted, &mut round) };
    let cut = few.cgroups(&tops);
    drop(end);
    thread.join().unwrap();
    assert_eq!((whole, is_seen, cut), (Some(()), true, None));
}

/// Regression: the first thread had ended, and with it the files in `/proc` about the process.
#[test]
fn what_a_process_has_whose_first_thread_has_ended_is_found() {
    let tree = Tree::new("stats-deleted-leader");
    tree.write("cgroup/cgroup.controllers", "memory\n");
    tree.write("cgroup/pod/cgroup.procs", "100\n");
    for thread in [100, 101, 102] {
        tree.write(&format!("proc/100/task/{thread}/comm"), "app\n");
        tree.write(&format!("proc/{thread}/maps"), "");
    }
    tree.write("proc/101/maps", "1-2 rw-s 00000000 08:01 131 /data/file (deleted)\n");
    tree.write("proc/101/map_files/none", "");
    tree.write("file", &"x".repeat(100_000));
    let path = tree.root().join("file");
    let file = fs::File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let held_by = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::os::unix::fs::symlink(held_by, tree.root().join("proc/101/map_files/1-2")).unwrap();
    let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
    let counted = Counted { layers: false, devices: vec![file.metadata().unwrap().dev()] };
    let mut round = Round::default();
    let found = held(&tree.root().join("proc"), &hierarchies, &["pod".into()], &counted, &mut round);
    let expected = DiskUse { bytes: file.metadata().unwrap().blocks() * 512, inodes: 1 };
    assert_eq!((found, round.reach()), (expected, Reach::Whole));
}

/// Regression: a file in a message that was not received counted for no pod.
#[test]
fn what_nobody_is_shown_is_told_as_more_than_is_counted() {
    let tree = Tree::new("stats-deleted-hidden");
    tree.write("cgroup/cgroup.controllers", "memory\n");
    tree.write("cgroup/pod/cgroup.procs", "100\n");
    let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
    let links = [(3, "socket:[77]"), (4, "anon_inode:[io_uring]")];
    for (number, target) in links {
        tree.write(&format!("proc/100/fdinfo/{number}"), "");
        fs::create_dir_all(tree.root().join("proc/100/fd")).unwrap();
        let link = tree.root().join(format!("proc/100/fd/{number}"));
        std::os::unix::fs::symlink(target, link).unwrap();
    }
    let reach = |socket: &str, ring: &str| {
        tree.write("proc/100/fdinfo/3", socket);
        tree.write("proc/100/fdinfo/4", ring);
        let mut round = Round::default();
        let proc = tree.root().join("proc");
        let found = held(&proc, &hierarchies, &["pod".into()], &Counted::default(), &mut round);
        assert_eq!(found, DiskUse::default());
        round.reach()
    };
    let (socket, ring) = ("pos:\t0\nscm_fds: 0\n", "pos:\t0\nUserFiles:\t0\nUserBufs:\t0\n");
    assert_eq!(reach(socket, ring), Reach::Whole);
    assert_eq!(reach("pos:\t0\n", ring), Reach::Whole, "of another family");
    assert_eq!(reach("pos:\t0\nscm_fds: 1\n", ring), Reach::Exceeded);
    let shown = "UserFiles:\t4\n    0: /v/x\n    1: \n    2: <none>\n    3: socket:[5]\nUserBufs:\t0\n";
    assert_eq!(reach(socket, shown), Reach::Whole);
    for (files, why) in [
        ("UserFiles:\t2\n    0: /v/x\n    1: /v/y\\040(deleted)\nUserBufs:\t0\n", "removed"),
        ("UserFiles:\t1\n    0: x\nUserBufs:\t0\n", "a last name tells nothing of it"),
        ("UserFiles:\t2\n    0: /v/x\n", "it was cut"),
        ("UserFiles:\t2\nUserBufs:\t0\n", "the ring is at work all the time"),
        ("pos:\t0\n", "the same"),
    ] {
        assert_eq!(reach(socket, files), Reach::Exceeded, "{why}");
    }
}

#[test]
fn what_lies_in_memory_is_not_on_a_disk() {
    let tree = Tree::new("stats-deleted-memory");
    tree.write(
        "mountinfo",
        "20 1 0:31 / / rw - overlay overlay rw,upperdir=/u\n\
         21 20 8:1 /pods/v /data rw,noatime master:1 - ext4 /dev/sda1 rw\n\
         22 20 8:2 / /other rw - ext4 /dev/sda2 rw\n\
         23 20 0:40 / /dev/shm rw - tmpfs shm rw\n\
         nonsense\n",
    );
    let devices = vec![rustix::fs::makedev(8, 1)];
    let found = |layers| {
        Mounts::of(&tree.root(), &Counted { layers, devices: devices.clone() })
            .numbers
            .iter()
            .collect::<Vec<u64>>()
    };
    assert_eq!(found(true), [20, 21]);
    assert_eq!(found(false), [21]);
}
