//! Images from a real registry, and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::harness::pods::{OBEYS, Pod};
use crate::harness::registry::{
    AUTH, Cleanup, Gate, Image, Mode, PASSWORD, Registry, digest as layer_digest, forget, is_there,
};
use crate::harness::{Node, Options};

fn pod(name: &str, image: &str, policy: &str) -> String {
    let pod = Pod::new(name).script(OBEYS).set("/spec/containers/0/image", image);
    pod.set("/spec/containers/0/imagePullPolicy", policy).text()
}

fn message(node: &Node, pod: &str) -> String {
    let state = node.container_status(pod, "app").and_then(|c| c.state);
    state.and_then(|s| s.waiting).and_then(|w| w.message).unwrap_or_default()
}

/// `podkeeper pull` and `load` need no node.
fn podkeeper(arguments: &[&str]) -> (Option<i32>, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_podkeeper")).args(arguments).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = run.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn an_image_is_pulled_once_for_all_and_its_digest_is_told() {
    let mut registry = Registry::start(false);
    let gate = Gate::before(&registry);
    let repository = format!("127.0.0.1:{}/team/app", gate.port);
    let mut cleanup = Cleanup::default();
    let image = cleanup.image(format!("{repository}:1"));
    let made = Image::new(1000);
    let digest = made.push(&registry, "team/app", "1");
    let by_digest = cleanup.image(format!("{repository}@{digest}"));
    let node = Node::prepare(Options::default());
    for name in ["one", "two", "three"] {
        node.write(&format!("{name}.yaml"), pod(name, &image, "IfNotPresent"));
    }
    node.launch();
    for name in ["one", "two", "three"] {
        node.wait_phase(name, "Running");
    }
    // The layer that no other image has.
    let layer = format!("GET /v2/team/app/blobs/{}", layer_digest(&made.layers[1]));
    assert_eq!(gate.count(&layer), 1);
    node.wait_until("the digest is told", || {
        let id = node.container_status("one", "app").unwrap().image_id;
        id == format!("docker-pullable://{by_digest}")
    });
    // With its digest the reference names the same image, which is there.
    node.write("digest.yaml", pod("digest", &by_digest, "IfNotPresent"));
    node.wait_phase("digest", "Running");
    node.write("always.yaml", pod("always", &image, "Always"));
    node.wait_phase("always", "Running");
    assert_eq!(gate.count(&layer), 1);
    // A registry that is gone prevents no pod from starting with a local image.
    registry.stop();
    node.write("offline.yaml", pod("offline", &image, "Always"));
    node.write("nothing.yaml", pod("nothing", &format!("{repository}:2"), "IfNotPresent"));
    node.wait_phase("offline", "Running");
    assert!(node.log().contains("the copy on this machine is used"));
    node.wait_until("what is not here is told", || node.waits_for("nothing", "app") == "ErrImagePull");
}

#[test]
fn credentials_are_looked_up_tried_in_turn_and_never_told() {
    let registry = Registry::start(true);
    let host = format!("127.0.0.1:{}", registry.port);
    let mut cleanup = Cleanup::default();
    Image::new(1000).push(&registry, "team/app", "1");
    let image = cleanup.image(format!("{host}/team/app:1"));
    let node = Node::start();
    node.write("none.yaml", pod("none", &image, "IfNotPresent"));
    node.wait_until("nobody is let in", || node.waits_for("none", "app") == "ErrImagePull");
    assert!(message(&node, "none").contains("no basic auth credentials"), "{}", message(&node, "none"));
    // A secret may come late. (That it ends the back-off is tested where the test controls the clock.)
    let with_secret = |name: &str, key: &str, text: String| {
        let pod = Pod::new(name).script(OBEYS).set("/spec/containers/0/image", image.clone());
        let pod = pod.set("/spec/containers/0/imagePullPolicy", "Always");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "type": format!("kubernetes.io/{}", &key[1..]), "stringData": {key: text}});
        (pod.set("/spec/imagePullSecrets", json!([{"name": name}])).text(), secret.to_string())
    };
    let auth = json!({host.clone(): {"auth": AUTH}});
    let (late, secret) = with_secret("late", ".dockerconfigjson", json!({"auths": auth}).to_string());
    node.write("late.yaml", late);
    node.wait_until("it is backed off", || node.waits_for("late", "app") == "ImagePullBackOff");
    assert!(node.log().contains("Unable to retrieve some image pull secrets (late);"));
    node.write("secret.yaml", secret);
    node.wait_phase("late", "Running");
    let (old, secret) = with_secret("old", ".dockercfg", auth.to_string());
    node.write("old.yaml", format!("{old}---\n{secret}\n"));
    node.wait_phase("old", "Running");
    for name in ["late", "secret", "old", "none"] {
        node.remove(&format!("{name}.yaml"));
    }
    node.wait_until("nothing holds the image", || node.containers().is_empty());
    forget(&image);
    let root = node.root();
    let root = root.to_str().unwrap();
    let (code, _, error) = podkeeper(&["pull", "--root-dir", root, &image]);
    assert_eq!(code, Some(1));
    assert!(error.contains("no basic auth credentials"), "{error}");
    // The more specific one is wrong, so the next one is tried.
    let auths = json!({"auths": {
        format!("{host}/team"): {"username": "robot", "password": "wrong-canary"},
        host.clone(): {"auth": AUTH},
    }});
    let beside = node.base.join("config.json");
    fs::write(&beside, auths.to_string()).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).unwrap();
    fs::rename(beside, node.root().join("config.json")).unwrap();
    node.write("some.yaml", pod("some", &image, "IfNotPresent"));
    node.wait_phase("some", "Running");
    assert!(node.log().contains("everybody may read it"));
    forget(&image);
    let (code, out, error) = podkeeper(&["pull", "--root-dir", root, &image, "Not An Image"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(out.contains(&format!("{image}: pulling\n{image}: pulled (sha256:")), "{out}");
    assert!(
        error.contains("error: Not An Image: this is no name of an image: invalid reference format"),
        "{error}"
    );
    assert_eq!(podkeeper(&["pull", "--root-dir", root, &image]).0, Some(0));
    let told = format!(
        "{}{}{out}{error}",
        node.log(),
        fs::read_to_string(node.run_dir().join("status.json")).unwrap()
    );
    for secret in [PASSWORD, "wrong-canary", AUTH] {
        assert!(!told.contains(secret), "{secret} is told");
    }
}

/// Docker answers a pull by digest of a local image without asking the registry.
#[test]
fn the_digest_of_a_private_image_is_no_secret() {
    let registry = Registry::start(true);
    let host = format!("127.0.0.1:{}", registry.port);
    let mut cleanup = Cleanup::default();
    Image::new(1000).push(&registry, "team/private", "1");
    let image = cleanup.image(format!("{host}/team/private:1"));
    let node = Node::start();
    let auths = json!({"auths": {host.clone(): {"auth": AUTH}}}).to_string();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths}});
    let with_key = |name: &str, image: &str| {
        let pod = Pod::new(name).script(OBEYS).set("/spec/containers/0/image", image);
        let pod = pod.set("/spec/containers/0/imagePullPolicy", "IfNotPresent");
        pod.set("/spec/imagePullSecrets", json!([{"name": "key"}])).text()
    };
    node.write("owner.yaml", format!("{}---\n{secret}\n", with_key("owner", &image)));
    node.wait_phase("owner", "Running");
    let digest = node.wait_for("its digest is told", || {
        let id = node.container_status("owner", "app")?.image_id;
        Some(id.rsplit_once('@')?.1.to_owned())
    });
    for (name, image) in [
        ("thief", format!("{host}/team/private@{digest}")),
        ("tagged", format!("{host}/team/private:1@{digest}")),
    ] {
        node.write(&format!("{name}.yaml"), pod(name, &image, "IfNotPresent"));
        node.wait_until("the registry is asked", || {
            ["ErrImagePull", "ImagePullBackOff"].contains(&node.waits_for(name, "app").as_str())
        });
    }
    node.write("heir.yaml", with_key("heir", &format!("{host}/team/private@{digest}")));
    node.wait_phase("heir", "Running");
}

#[test]
fn a_pull_that_hangs_ends_and_one_that_is_cut_goes_on() {
    let registry = Registry::start(false);
    let gate = Gate::before(&registry);
    let mut cleanup = Cleanup::default();
    let [hangs, cut] = ["hangs", "cut"].map(|name| {
        Image::new(1 << 20).push(&registry, name, "1");
        cleanup.image(format!("127.0.0.1:{}/{name}:1", gate.port))
    });
    let node = Node::with(Options::flags(&["--image-pull-progress-deadline", "2s"]));
    // Local images do not wait behind it.
    gate.mode(Mode::Hang(100_000));
    node.write("hangs.yaml", pod("hangs", &hangs, "IfNotPresent"));
    node.wait_until("the pull begins", || gate.count("GET /v2/hangs/blobs/") > 0);
    node.write("other.yaml", Pod::new("other").text());
    node.wait_phase("other", "Running");
    node.wait_until("it is given up", || node.waits_for("hangs", "app") == "ErrImagePull");
    assert!(message(&node, "hangs").contains("no progress in 2 s"), "{}", message(&node, "hangs"));
    // Docker itself requests the rest of a layer that was cut off, after five seconds.
    gate.mode(Mode::Pass);
    node.stop();
    node.options.replace(Options::default());
    gate.mode(Mode::CutOnce(500_000));
    node.write("hangs.yaml", pod("cut", &cut, "IfNotPresent"));
    node.launch();
    node.wait_phase("cut", "Running");
}

/// Regression: a registry that sent a little now and then held up all pulls, even after its pod was
/// deleted.
#[test]
fn a_registry_that_drips_holds_nobody_up() {
    let (registry, quick) = (Registry::start(false), Registry::start(false));
    let gate = Gate::before(&registry);
    let mut cleanup = Cleanup::default();
    let drips = ["left", "slow"].map(|name| {
        Image::new(1 << 20).push(&registry, name, "1");
        cleanup.image(format!("127.0.0.1:{}/{name}:1", gate.port))
    });
    let fine = ["one", "two"].map(|name| {
        Image::new(1000).push(&quick, name, "1");
        cleanup.image(format!("127.0.0.1:{}/{name}:1", quick.port))
    });
    gate.mode(Mode::Slow(100));
    let node = Node::with(Options::flags(&["--image-pull-progress-deadline", "20s"]));
    node.write("left.yaml", pod("left", &drips[0], "IfNotPresent"));
    node.wait_until("the pull begins", || gate.count("GET /v2/left/blobs/") > 0);
    node.write("one.yaml", pod("one", &fine[0], "IfNotPresent"));
    node.remove("left.yaml");
    node.wait_phase("one", "Running");
    assert!(!node.log().contains("others wait for its place"), "it waited for a pull that nobody wants");
    node.write("slow.yaml", pod("slow", &drips[1], "IfNotPresent"));
    node.wait_until("the pull begins", || gate.count("GET /v2/slow/blobs/") > 0);
    node.write("two.yaml", pod("two", &fine[1], "IfNotPresent"));
    node.wait_until("it is given up", || message(&node, "slow").contains("others wait for its place"));
    node.wait_phase("two", "Running");
}

#[test]
fn how_far_a_slow_pull_is_can_be_seen() {
    let registry = Registry::start(false);
    let gate = Gate::before(&registry);
    let mut cleanup = Cleanup::default();
    let [by_pod, by_hand] = ["pod", "hand"].map(|name| {
        Image::new(2 << 20).push(&registry, name, "1");
        cleanup.image(format!("127.0.0.1:{}/{name}:1", gate.port))
    });
    // Two layers of 2 MiB, each on a connection of its own: seven seconds.
    gate.mode(Mode::Slow(15_000));
    let node = Node::start();
    node.write("slow.yaml", pod("slow", &by_pod, "IfNotPresent"));
    let hand = std::thread::spawn(move || podkeeper(&["pull", "--root-dir", "/nonexistent", &by_hand]));
    let shown = node.wait_for("it is shown", || Some(message(&node, "slow")).filter(|m| m.contains("MiB")));
    assert!(shown.starts_with(&format!("pulling image \"{by_pod}\": ")), "{shown}");
    assert!(shown.ends_with("of 2 layers ready"), "{shown}");
    assert_eq!(node.waits_for("slow", "app"), "ContainerCreating");
    node.wait_phase("slow", "Running");
    let (code, out, error) = hand.join().unwrap();
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() >= 3 && lines[1].contains("iB of "), "{out}");
}

/// Writes a file that looks unchanged for a minute.
fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    let then = std::time::SystemTime::now() - Duration::from_secs(60);
    let file = fs::File::options().write(true).open(&beside).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(then)).unwrap();
    fs::rename(beside, path).unwrap();
}

/// The file packed by `program`, if there is such a program.
fn packed(program: &str, bytes: &[u8], base: &Path) -> Option<Vec<u8>> {
    let path = base.join("to-pack");
    fs::write(&path, bytes).unwrap();
    let output = Command::new(program).arg("-c").arg(&path).output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn changed(mut image: Image) -> Image {
    // In the content of the random file, not in a header.
    image.layers[1][600] ^= 1;
    image
}

/// A boot without network, DNS or registry (k3s-io/k3s#8781): pods run from archives, and at once.
#[test]
fn k8781_preloaded_images_need_no_registry() {
    let mut cleanup = Cleanup::default();
    let mut image =
        |name: &str| cleanup.image(format!("127.0.0.1:1/preload-{}/{name}:1", std::process::id()));
    let names = [image("plain"), image("gzip"), image("zstd")];
    let changed_name = image("changed");
    let node = Node::prepare(Options::default());
    let dir = node.base.join("images");
    node.options.borrow_mut().flags = vec!["--image-preload-dir".into(), dir.display().to_string()];
    let tar = |name: &String| Image::new(100_000).saved(name);
    put(&dir.join("plain.tar"), &tar(&names[0]));
    let mut pods = vec![("plain", &names[0])];
    for (program, suffix, name) in [("gzip", "gz", &names[1]), ("zstd", "zst", &names[2])] {
        if let Some(bytes) = packed(program, &tar(name), &node.base) {
            put(&dir.join(format!("{program}.tar.{suffix}")), &bytes);
            pods.push((program, name));
        }
    }
    // Each one is reported, and none is in the way of the others.
    put(&dir.join("0-empty.tar"), b"");
    put(&dir.join("0-text.tar"), b"nothing");
    put(&dir.join("0-cut.tar"), &tar(&names[0])[..50_000]);
    put(&dir.join("0-changed.tar"), &changed(Image::new(10_000)).saved(&changed_name));
    fs::create_dir(dir.join("0-dir.tar")).unwrap();
    for (at, (name, image)) in pods.iter().enumerate() {
        let policy = ["IfNotPresent", "Always", "Never"][at % 3];
        node.write(&format!("{name}.yaml"), pod(name, image, policy));
    }
    node.launch();
    for (name, _) in &pods {
        node.wait_phase(name, "Running");
    }
    let bad = [
        ("0-empty.tar: it is empty", 1),
        ("0-text.tar: it is no image archive", 1),
        ("0-cut.tar: it is cut off or damaged", 1),
        ("0-changed.tar: a layer is not the one that the image names", 1),
        ("0-dir.tar: it is a directory", 1),
        ("plain.tar is loaded (", 1),
    ];
    let told = |node: &Node| bad.map(|(words, _)| (words, node.log().matches(words).count()));
    assert_eq!(told(&node), bad);
    assert!(!is_there(&changed_name));
    // Nothing is loaded again at the next boot; but an image that Docker lost is, as soon as a pod wants
    // it.
    node.restart();
    node.remove("plain.yaml");
    node.wait_until("its containers are gone", || node.of("plain").is_empty());
    forget(&names[0]);
    node.write("again.yaml", pod("again", &names[0], "IfNotPresent"));
    node.wait_phase("again", "Running");
    assert_eq!(node.log().matches("plain.tar is loaded (").count(), 2);
    assert_eq!(node.log().matches("gzip.tar.gz is loaded (").count(), usize::from(pods.len() > 1));
}

#[test]
fn a_pod_that_waits_for_an_archive_starts_when_it_comes() {
    let mut cleanup = Cleanup::default();
    let image = cleanup.image(format!("127.0.0.1:1/preload-{}/late:1", std::process::id()));
    let node = Node::prepare(Options::default());
    let dir = node.base.join("images");
    let flags = ["--file-check-frequency", "200ms", "--image-preload-dir", dir.to_str().unwrap()];
    node.options.replace(Options::flags(&flags));
    node.write("late.yaml", pod("late", &image, "IfNotPresent"));
    node.launch();
    node.wait_until("it is backed off", || node.waits_for("late", "app") == "ImagePullBackOff");
    put(&dir.join("late.tar"), &Image::new(1000).saved(&image));
    node.wait_phase("late", "Running");
}

/// kubernetes/website#41616: data that is on the disk already is not checked in a pull. Docker compares
/// each layer that it takes from an archive.
#[test]
fn k41616_a_changed_layer_is_refused_and_the_next_archive_is_loaded() {
    let mut cleanup = Cleanup::default();
    let base = std::env::temp_dir().join(format!("podkeeper-it-load-{}", std::process::id()));
    let name = cleanup.image(format!("podkeeper-it-load-{}:1", std::process::id()));
    let tar = Image::new(10_000).saved(&name);
    put(&base.join("good.tar"), &tar);
    put(&base.join("cut.tar"), &tar[..tar.len() / 2]);
    put(&base.join("changed.tar"), &changed(Image::new(10_000)).saved(&name));
    let path = |name: &str| base.join(name).display().to_string();
    let (code, out, error) = podkeeper(&["load", &path("cut.tar"), &path("changed.tar"), &path("good.tar")]);
    assert_eq!((code, out), (Some(1), format!("{}: loaded {name}\n", path("good.tar"))));
    assert!(error.contains("cut.tar: it is cut off or damaged"), "{error}");
    assert!(error.contains("changed.tar: a layer is not the one that the image names"), "{error}");
    assert_eq!(podkeeper(&["load", &path("good.tar")]).0, Some(0));
    let zstd = packed("zstd", &tar, &base);
    if let Some(zstd) = zstd {
        put(&base.join("packed"), &zstd);
        assert_eq!(podkeeper(&["load", &path("packed")]).0, Some(0));
    }
    fs::remove_dir_all(base).unwrap();
}
