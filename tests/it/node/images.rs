//! Unused images: an engine with a small disk that images fill until they have to be removed, and `prune` by
//! hand.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use podkeeper::testing::runtime::{Call, CreateBody, Reply};
use rustix::process::Signal;
use serde_json::Value;

use crate::faults::{assert_untouched, lives};
use crate::harness::pods::{IMAGE, Pod};
use crate::harness::private_engine::Engine;
use crate::harness::{Node, Options, docker_get};

/// Makes an image of one file with this many random bytes.
pub(super) fn make_image(engine: &Engine, name: &str, bytes: usize) {
    let dir = engine.base().join(format!("tar-{name}"));
    fs::create_dir_all(&dir).unwrap();
    let mut random = vec![0; bytes];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    fs::write(dir.join("content"), &random).unwrap();
    let tar = Command::new("tar").arg("-C").arg(&dir).args(["-c", "content"]).output().unwrap().stdout;
    fs::remove_dir_all(&dir).unwrap();
    let mut stream = UnixStream::connect(engine.socket()).unwrap();
    let target = format!("/images/create?fromSrc=-&repo={name}&tag=1");
    write!(stream, "POST {target} HTTP/1.0\r\nHost: docker\r\nContent-Length: {}\r\n\r\n", tar.len())
        .unwrap();
    stream.write_all(&tar).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let done = answer.starts_with("HTTP/1.0 200") && !answer.contains("errorDetail");
    assert!(done, "{answer}");
}

/// The names of all images except the sandbox's.
pub(super) fn names(engine: &Engine) -> Vec<String> {
    let list = docker_get(&engine.socket(), "/images/json");
    let tags = list.as_array().unwrap().iter().flat_map(|image| image["RepoTags"].as_array().unwrap());
    let tags = tags.map(|tag| tag.as_str().unwrap().to_owned());
    let mut names: Vec<String> = tags.filter(|tag| !tag.starts_with("podkeeper.dev/sandbox:")).collect();
    names.sort();
    names
}

/// A stranger's container, which never ran.
fn make_stranger(node: &Node, image: &str) {
    let body = CreateBody { image: image.into(), cmd: Some(vec!["x".into()]), ..CreateBody::default() };
    let made = node.docker(&Call::Create { name: "stranger".into(), body: Box::new(body) });
    assert!(matches!(made, Reply::Created { .. }), "{made:?}");
}

pub(super) fn node_on(engine: &Engine, flags: &[&str]) -> Node {
    let socket = Some(engine.socket());
    Node::prepare(Options { endpoint: socket.clone(), look_at: socket, ..Options::flags(flags) })
}

/// A pod that runs, and one that this node cannot run, whose image could not be pulled again.
fn write_pods(node: &Node) {
    node.write("p.yaml", Pod::new("p").set("/spec/hostNetwork", true).text());
    let refused =
        Pod::new("q").set("/spec/nodeSelector/no", "node").set("/spec/containers/0/image", "wanted:1");
    node.write("q.yaml", refused.text());
}

/// Used or wanted images stay, whoever uses them; unneeded ones are removed. Nothing is removed while no daemon
/// runs.
#[test]
fn prune_takes_what_nothing_needs_and_nothing_else() {
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    for name in ["a", "b", "used", "wanted", "pinned"] {
        make_image(&engine, name, 1000);
    }
    let node = node_on(&engine, &["--pinned-images=pin*:1"]);
    make_stranger(&node, "used:1");
    write_pods(&node);
    node.launch();
    node.wait_running("p", "app");
    node.wait_phase("q", "Failed");
    let kept = |image: &str| {
        let list: Value = serde_json::from_str(&node.says(&["images", "-o", "json"])).unwrap();
        let found = list["items"].as_array().unwrap().iter().find(|item| item["tags"][0] == image);
        found.unwrap_or_else(|| panic!("{image}: {list}"))["keptBecause"].clone()
    };
    assert_eq!(kept("wanted:1"), format!("wanted by pod default/{}", node.full("q")));
    assert_eq!(kept("used:1"), "used by container stranger");
    assert_eq!(kept(IMAGE), format!("used by pod default/{}", node.full("p")));
    assert_eq!(kept("a:1"), Value::Null);
    node.wait_until("the daemon has noted which images are pinned", || kept("pinned:1") == "pinned");

    let before = names(&engine);
    let said = node.says(&["prune", "--dry-run"]);
    assert!(said.contains("image a:1 (") && said.contains("would be removed"), "{said}");
    assert_eq!(names(&engine), before, "nothing is removed: {said}");

    // A manifest may come while no daemon looks, or the daemon may hang.
    let refused = |why: &str| {
        let refused = node.podkeeper(&["prune"]);
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(why) && said.contains("nothing is removed"), "{refused:?}");
    };
    node.signal(Signal::STOP);
    refused("podkeeper does not answer");
    node.signal(Signal::CONT);
    node.kill9();
    refused("without a podkeeper that runs");
    assert_eq!(names(&engine), before);
    node.launch();
    node.wait_running("p", "app");
    node.wait_phase("q", "Failed");
    let said = node.says(&["prune"]);
    assert_eq!(names(&engine), [IMAGE, "pinned:1", "used:1", "wanted:1"], "{said}");
    assert!(said.contains("image used:1: kept: used by container stranger"), "{said}");
    assert!(said.contains("2 images removed") && said.contains("build cache: "), "{said}");

    // After a boot the wanted images are not known yet.
    make_image(&engine, "c", 1000);
    node.kill9();
    fs::remove_file(node.run_dir().join("status.json")).unwrap();
    refused("status.json");
    assert!(names(&engine).contains(&"c:1".to_owned()));
    drop(node);
}

/// Percent of the file system that is used, counted like the kubelet does.
fn percent(path: &Path) -> u64 {
    let disk = rustix::fs::statvfs(path).unwrap();
    100 - disk.f_bavail * 100 / disk.f_blocks
}

/// From the high threshold down to the low one unneeded images are removed; `kill -9` in the middle changes
/// nothing.
#[test]
fn a_disk_full_of_images_loses_the_unused_ones_and_no_pod() {
    const LAYER: usize = 20 << 20;
    let mut engine = Engine::new(&[]);
    engine.put_on_a_disk_of(300);
    engine.start_with_image();
    for name in ["used", "wanted"] {
        make_image(&engine, name, 1000);
    }
    let flags =
        ["--image-gc-high-threshold=70", "--image-gc-low-threshold=50", "--minimum-image-ttl-duration=0s"];
    let node = node_on(&engine, &flags);
    make_stranger(&node, "used:1");
    write_pods(&node);
    node.launch();
    node.wait_running("p", "app");
    node.wait_phase("q", "Failed");
    let before = lives(&node);
    node.kill9();
    let mut made = 0;
    while percent(&engine.data()) < 75 {
        make_image(&engine, &format!("garbage-{made}"), LAYER);
        made += 1;
    }
    node.launch_unawaited();
    let garbage = || names(&engine).iter().filter(|name| name.starts_with("garbage-")).count();
    node.wait_until("the first image goes", || garbage() < made);
    node.kill9();
    node.launch();
    // Starting where the killed daemon stopped, the next one frees room only if usage is above the high
    // threshold.
    node.wait_until("there is room again", || percent(&engine.data()) < 70);
    assert!(garbage() > 0, "no more than had to go");
    for image in [IMAGE, "used:1", "wanted:1"] {
        assert!(names(&engine).contains(&image.to_owned()), "{image}");
    }
    assert_untouched(&before, &node, "images were removed");
    drop(node);
}
