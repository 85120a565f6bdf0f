//! The end of the daemon: it comes soon, even if something hangs.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::harness::{Bounded as _, Node, Options};

/// A file system whose server never answers, like a mount from a machine that is gone.
struct Dead {
    at: PathBuf,
    _server: File,
}

impl Dead {
    fn mount(at: PathBuf) -> Dead {
        fs::create_dir_all(&at).unwrap();
        Dead::over(at, "40000")
    }

    /// The same in place of a single file.
    fn file(at: PathBuf) -> Dead {
        fs::write(&at, "").unwrap();
        Dead::over(at, "100644")
    }

    fn over(at: PathBuf, mode: &str) -> Dead {
        let server = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode={mode},user_id=0,group_id=0", server.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("dead", &at, "fuse", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        Dead { at, _server: server }
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        let _gone = unmount(&self.at, UnmountFlags::DETACH);
    }
}

#[test]
fn a_dead_file_system_below_the_manifests_does_not_hold_up_the_end() {
    let node = Node::prepare(Options::default());
    let dead = Dead::mount(node.base.join("dead"));
    fs::remove_dir(node.manifests()).unwrap();
    std::os::unix::fs::symlink(dead.at.join("manifests"), node.manifests()).unwrap();
    node.launch();
    let begun = Instant::now();
    assert!(node.stop().success());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// The main thread reads these files of the root directory before it handles any message: the record of pulled
/// images, and the remembered manifests of sources.
#[test]
fn a_root_directory_that_hangs_while_the_daemon_begins_does_not_hold_up_the_end() {
    for kind in ["pulled-images", "last-good"] {
        let node = Node::prepare(Options::default());
        let at = node.root().join(kind);
        let _dead = if kind == "last-good" { Dead::mount(at) } else { Dead::file(at) };
        node.launch_unawaited();
        let hangs = || {
            let of = |name: &str| {
                let tasks = fs::read_dir(format!("/proc/{}/task", node.pid().unwrap())).unwrap();
                let read =
                    |task: fs::DirEntry| fs::read_to_string(task.path().join(name)).unwrap_or_default();
                tasks.flatten().map(read).collect::<Vec<_>>()
            };
            let catches = of("comm").iter().any(|name| name.trim() == "pk-signals");
            catches && of("wchan").iter().any(|place| place.contains("fuse"))
        };
        node.wait_until("the main thread waits for the dead file system", hangs);
        let begun = Instant::now();
        assert!(node.stop().success(), "{kind}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{kind}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_file_that_becomes_unreadable_while_it_settles_leaves_the_source_awake() {
    let node = Node::start();
    let path = node.manifests().join("a.yaml");
    fs::write(&path, "kind: Pod\n").unwrap();
    std::os::unix::fs::symlink("/nowhere", node.base.join("link")).unwrap();
    fs::rename(node.base.join("link"), &path).unwrap();
    let told =
        || node.status().is_some_and(|s| s.problems.iter().any(|p| p.message.contains("link to nothing")));
    node.wait_until("the link to nothing is told", told);
    // A source that is asleep would not notice the request to forget.
    let mut forget = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
    let output = forget.args(["forget", "--source", "file", "--root-dir"]).arg(node.root()).ends();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("looks at the source again"), "{said}");
    assert!(node.stop().success());
}
