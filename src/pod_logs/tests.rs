use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::names::{Links, id_of};
use super::*;
use crate::pod::PodKey;

fn key(name: &str) -> PodKey {
    PodKey { namespace: "shop".into(), name: name.into() }
}

fn log(id: &str, container: &str, attempt: u32, file: &Path) -> ContainerLog {
    let file = file.to_string_lossy().into_owned();
    ContainerLog { id: id.into(), uid: "u1".into(), container: container.into(), attempt, file }
}

/// A directory with Docker's files, and a podkeeper's links.
struct Rig {
    base: PathBuf,
    logs: PodLogs,
}

impl Rig {
    fn new(name: &str) -> Rig {
        let base = crate::base::testing::scratch(name);
        fs::create_dir_all(base.join("docker")).unwrap();
        let logs = PodLogs::new(&base.join("log/pods"), &base.join("root"));
        Rig { base, logs }
    }

    fn file(&self, id: &str) -> PathBuf {
        let path = self.base.join("docker").join(format!("{id}-json.log"));
        fs::write(&path, id).unwrap();
        path
    }

    /// All entries below `log` without marks; links with their targets.
    fn tree(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.walk(&self.base.join("log"), &mut found);
        found.sort();
        found
    }

    fn walk(&self, dir: &Path, found: &mut Vec<String>) {
        let base = self.base.to_string_lossy().into_owned() + "/";
        let short = |path: &Path| path.to_string_lossy().replace(&base, "");
        for path in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            match fs::read_link(&path) {
                Ok(_) if path.ends_with(".podkeeper") => {}
                Ok(target) => found.push(format!("{} -> {}", short(&path), short(&target))),
                Err(_) => {
                    found.push(short(&path));
                    self.walk(&path, found);
                }
            }
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).unwrap();
    }
}

#[test]
fn names_are_the_kubelets() {
    let check = |name: &str, container: &str, id: &str, flat: &str| {
        let links = Links::of(&key(name), &log(id, container, 3, Path::new("/f"))).unwrap();
        assert_eq!(links.path(Path::new("/p")), Path::new(&format!("/p/shop_{name}_u1/{container}/3.log")));
        assert_eq!(links.flat, flat);
        assert!(links.flat.len() <= 255);
        assert_eq!(id_of(&links.flat), Some(id));
    };
    let id = "ab".repeat(32);
    check("web-n1", "app", &id, &format!("web-n1_shop_app-{id}.log"));
    let long = "p".repeat(253);
    check(&long, "app", &id, &format!("{}-{id}.log", "p".repeat(255 - 64 - 5)));
    let odd = |name: &str, container: &str, uid: &str| {
        let log = ContainerLog { uid: uid.into(), ..log("id", container, 0, Path::new("/f")) };
        Links::of(&key(name), &log)
    };
    assert!(odd("web", "app", "u").is_some());
    for (name, container, uid) in [
        ("../x", "app", "u"),
        ("web", "..", "u"),
        ("web", "a/b", "u"),
        ("web", "app", "u/../../x"),
        ("web", "", "u"),
    ] {
        assert_eq!(odd(name, container, uid), None, "{name} {container} {uid}");
    }
}

#[test]
fn links_come_and_go_with_containers() {
    let rig = Rig::new("logs-come-and-go");
    let none = ContainerLogs::new();
    let one = Set::from([log("id0", "app", 0, &rig.file("id0"))]);
    _ = rig.logs.set(&key("web"), &none, &one);
    let first = [
        "log/containers",
        "log/containers/web_shop_app-id0.log -> log/pods/shop_web_u1/app/0.log",
        "log/pods",
        "log/pods/shop_web_u1",
        "log/pods/shop_web_u1/app",
        "log/pods/shop_web_u1/app/0.log -> docker/id0-json.log",
    ];
    assert_eq!(rig.tree(), first);
    assert_eq!(fs::read_to_string(rig.base.join("log/containers/web_shop_app-id0.log")).unwrap(), "id0");
    // While a file is unknown, existing links stay.
    let unknown = Set::from([log("id0", "app", 0, Path::new(""))]);
    _ = rig.logs.set(&key("web"), &one, &unknown);
    assert_eq!(rig.tree(), first);
    // A new daemon finds them unchanged, and writes no link.
    let link = rig.base.join("log/pods/shop_web_u1/app/0.log");
    let inode = fs::symlink_metadata(&link).unwrap().ino();
    _ = rig.logs.set(&key("web"), &none, &one);
    assert_eq!(fs::symlink_metadata(&link).unwrap().ino(), inode);
    let two = Set::from([
        log("id1", "app", 1, &rig.file("id1")),
        log("id0", "app", 0, &rig.file("id0")),
        log("side", "side", 0, &rig.file("side")),
    ]);
    _ = rig.logs.set(&key("web"), &one, &two);
    assert_eq!(rig.tree().len(), 4 + 3 + 4);
    _ = rig.logs.set(&key("web"), &two, &one);
    assert_eq!(rig.tree(), first);
    _ = rig.logs.set(&key("web"), &one, &none);
    assert_eq!(rig.tree(), ["log/containers", "log/pods"]);
}

#[test]
fn what_others_made_is_left_alone() {
    let rig = Rig::new("logs-of-others");
    let none = ContainerLogs::new();
    let other = PodLogs::new(&rig.base.join("log/pods"), &rig.base.join("other"));
    let theirs = Set::from([log("id0", "app", 0, &rig.base.join("docker/gone"))]);
    _ = other.set(&key("web"), &none, &theirs);
    symlink("/nowhere", rig.base.join("log/containers/x_y_z-feed.log")).unwrap();
    fs::create_dir_all(rig.base.join("log/pods/a_b_c/app")).unwrap();
    symlink("/nowhere", rig.base.join("log/pods/a_b_c/app/0.log")).unwrap();
    let before = rig.tree();
    // The same pod, without containers: it still belongs to the other podkeeper.
    let ours = Set::from([log("id0", "app", 0, &rig.file("id0"))]);
    _ = rig.logs.set(&key("web"), &none, &ours);
    _ = rig.logs.set(&key("web"), &ours, &none);
    rig.logs.sweep(&Set::new());
    assert_eq!(rig.tree(), before);
    // A file in place of a link is not podkeeper's.
    _ = other.set(&key("web"), &theirs, &none);
    let path = rig.base.join("log/pods/shop_web_u1/app");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("0.log"), "theirs").unwrap();
    _ = rig.logs.set(&key("web"), &none, &ours);
    _ = rig.logs.set(&key("web"), &ours, &none);
    assert_eq!(fs::read_to_string(path.join("0.log")).unwrap(), "theirs");
}

#[test]
fn a_sweep_removes_what_dangles() {
    let rig = Rig::new("logs-sweep");
    let none = ContainerLogs::new();
    let file = rig.file("id0");
    _ = rig.logs.set(
        &key("gone"),
        &none,
        &Set::from([log("idg", "app", 0, &rig.base.join("docker/idg.log"))]),
    );
    _ = rig.logs.set(&key("web"), &none, &Set::from([log("id0", "app", 0, &file)]));
    // The log is being rotated: its file is missing for a moment.
    _ = rig.logs.set(
        &key("busy"),
        &none,
        &Set::from([log("idb", "app", 0, &rig.base.join("docker/idb.log"))]),
    );
    let before = rig.tree();
    rig.logs.sweep(&Set::from(["idb".to_owned()]));
    let kept: Vec<String> = before.into_iter().filter(|line| !line.contains("gone")).collect();
    assert_eq!(rig.tree(), kept);
    fs::remove_file(&file).unwrap();
    rig.logs.sweep(&Set::new());
    assert_eq!(rig.tree(), ["log/containers", "log/pods"]);
    // The directories do not exist.
    PodLogs::new(&rig.base.join("no/pods"), &rig.base).sweep(&Set::new());
}

#[test]
fn a_directory_that_cannot_be_made_is_told_once_and_tried_again() {
    let rig = Rig::new("logs-unwritable");
    fs::write(rig.base.join("log"), "no directory").unwrap();
    let one = Set::from([log("id0", "app", 0, &rig.file("id0"))]);
    let told = |logs: &PodLogs| logs.set(&key("web"), &ContainerLogs::new(), &one);
    assert!(told(&rig.logs).is_some_and(|why| why.contains("log/pods")));
    assert_eq!(told(&rig.logs), None, "once");
    fs::remove_file(rig.base.join("log")).unwrap();
    assert_eq!(told(&rig.logs), None);
    assert_eq!(rig.tree().len(), 6);
}
