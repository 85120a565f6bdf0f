//! The preload thread on the in-memory engine.

use std::fs::FileTimes;
use std::time::SystemTime;

use super::*;
use crate::runtime::Call;
use crate::runtime::fake::Fake;
use crate::runtime::sandbox_image::tar::{Entry, archive};

struct Rig {
    base: PathBuf,
    fake: Fake,
    came: Receiver<Vec<String>>,
    out: Sender<Vec<String>>,
    refused: Arc<Mutex<Vec<String>>>,
    preload: Option<Preload>,
}

const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut test: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !test() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn image_tar(name: &str) -> Vec<u8> {
    let manifest = format!(r#"[{{"Config":"c","RepoTags":["{name}"],"Layers":[]}}]"#);
    archive(&[Entry { path: "manifest.json", mode: 0o644, content: manifest.as_bytes() }])
}

impl Rig {
    fn new(name: &str) -> Rig {
        let base = crate::base::testing::scratch(name);
        fs::create_dir(base.join("root")).unwrap();
        let (out, came) = bounded(100);
        let fake = Fake::new(Arc::new(System::start()), 1);
        Rig { base, fake, came, out, refused: Arc::default(), preload: None }
    }

    /// Writes a file with a change time one minute ago.
    fn write(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.base.join("images")).unwrap();
        let beside = self.base.join("beside");
        fs::write(&beside, bytes).unwrap();
        let then = SystemTime::now() - Duration::from_secs(60);
        fs::File::options()
            .write(true)
            .open(&beside)
            .unwrap()
            .set_times(FileTimes::new().set_modified(then))
            .unwrap();
        fs::rename(beside, self.base.join("images").join(name)).unwrap();
    }

    fn start(&mut self) {
        self.preload = None;
        let out = self.out.clone();
        let refused = Arc::clone(&self.refused);
        let sink = Box::new(move |told| match told {
            Told::Came(names) => out.send(names).is_ok(),
            Told::Refused(why) => {
                refused.lock().unwrap().push(why);
                true
            }
        });
        let (dir, root) = (self.base.join("images"), self.base.join("root"));
        let docker = Docker::Fake(self.fake.clone());
        self.preload = Some(
            Preload::start(dir, &root, Duration::from_millis(20), docker, sink, Box::new(|_| ())).unwrap(),
        );
    }

    fn handle(&self) -> &Preload {
        self.preload.as_ref().unwrap()
    }

    fn comes(&self) -> Vec<String> {
        self.came.recv_timeout(PATIENCE).expect("nothing came")
    }

    fn memory(&self) -> Vec<String> {
        remembered::read(&self.base.join("root").join(MEMORY))
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    fn has(&self, image: &str) -> bool {
        self.fake.perform(&Call::ImageInspect { image: image.into() }).is_ok()
    }

    fn lose(&self, image: &str) {
        self.fake.with(|state| state.remove_image(image));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.preload = None;
        let _ = fs::remove_dir_all(&self.base);
    }
}

#[test]
fn archives_are_loaded_when_they_come_and_when_they_change() {
    let mut rig = Rig::new("preload-change");
    rig.start();
    // The directory may be created later.
    rig.write("a.tar", &image_tar("web:1"));
    assert_eq!(rig.comes(), ["docker.io/library/web:1"]);
    rig.write("README", b"no archive");
    rig.write(".b.tar", &image_tar("hidden:1"));
    rig.write("b.tar", &image_tar("r.io/b:1"));
    assert_eq!(rig.comes(), ["r.io/b:1"]);
    rig.write("a.tar", &image_tar("web:longer-name"));
    assert_eq!(rig.comes(), ["docker.io/library/web:longer-name"]);
    assert_eq!(rig.memory(), ["a.tar", "b.tar"]);
    let brought: Vec<String> = rig.handle().brought().into_iter().flatten().collect();
    assert_eq!(brought, ["docker.io/library/web:longer-name", "r.io/b:1"]);
    fs::remove_file(rig.base.join("images/a.tar")).unwrap();
    until("it is forgotten", || rig.memory() == ["b.tar"]);
    assert!(rig.has("web:1") && !rig.has("hidden:1"), "nothing is removed from Docker");
    // A directory that vanishes does not count as empty.
    fs::rename(rig.base.join("images"), rig.base.join("unmounted")).unwrap();
    rig.handle().rescan();
    rig.write("c.tar", &image_tar("c:1"));
    assert_eq!(rig.comes(), ["docker.io/library/c:1"]);
}

/// k3s-io/k3s#8781: importing everything at each start blocked the boot for ten minutes.
#[test]
fn k8781_what_was_loaded_is_not_loaded_again() {
    let mut rig = Rig::new("preload-again");
    rig.write("a.tar", &image_tar("web:1"));
    rig.start();
    rig.comes();
    let memory = rig.base.join("root").join(MEMORY);
    let written = fs::metadata(&memory).unwrap().modified().unwrap();
    rig.start();
    rig.write("b.tar", &image_tar("b:1"));
    assert_eq!(rig.comes(), ["docker.io/library/b:1"], "a.tar was not loaded again");
    assert!(fs::metadata(&memory).unwrap().modified().unwrap() >= written);
    // Docker lost it while the daemon was down.
    rig.preload = None;
    rig.lose("web:1");
    rig.start();
    assert_eq!(rig.comes(), ["docker.io/library/web:1"]);
    // It may also happen while the daemon runs: this is noticed when a pod wants it.
    rig.lose("web:1");
    rig.handle().missing("web:1");
    assert_eq!(rig.comes(), ["docker.io/library/web:1"]);
    // A damaged list counts as empty.
    rig.preload = None;
    fs::write(&memory, "torn").unwrap();
    rig.start();
    let both: Set<String> = rig.comes().into_iter().chain(rig.comes()).collect();
    assert_eq!(both.len(), 2, "{both:?}");
    until("it is written anew", || rig.base.join("root").join(MEMORY).metadata().unwrap().len() > 100);
}

#[test]
fn a_bad_archive_stops_nothing_and_is_tried_again_when_it_changes() {
    let mut rig = Rig::new("preload-bad");
    rig.write("0-empty.tar", b"");
    rig.write("1-text.tar", b"this is no archive");
    rig.write("2-cut.tar", &image_tar("cut:1")[..530]);
    rig.write("3-none.tar", &archive(&[Entry { path: "x", mode: 0o644, content: b"y" }]));
    fs::create_dir(rig.base.join("images/4-dir.tar")).unwrap();
    std::os::unix::fs::symlink("nowhere", rig.base.join("images/5-link.tar")).unwrap();
    rig.write("6-good.tar", &image_tar("good:1"));
    rig.start();
    assert_eq!(rig.comes(), ["docker.io/library/good:1"]);
    assert_eq!(rig.memory(), ["6-good.tar"]);
    // Only the log told of it, and a pod without its image looked like one of a wrong manifest.
    let refused = rig.refused.lock().unwrap().clone();
    let of_cut: Vec<&String> = refused.iter().filter(|why| why.contains("/images/2-cut.tar: ")).collect();
    assert_eq!(of_cut.len(), 1, "{refused:?}");
    assert!(of_cut[0].ends_with("; it is left alone until it changes"), "{refused:?}");
    rig.write("2-cut.tar", &image_tar("cut:1"));
    assert_eq!(rig.comes(), ["docker.io/library/cut:1"]);
}

#[test]
fn what_may_still_be_written_waits() {
    let now = System::start().now();
    let young = |ago: i64| is_young(Stamp { size: 1, mtime: (now.wall.as_second() - ago, 0) }, &now);
    assert!(young(0) && young(1));
    assert!(!young(2) && !young(100));
    assert!(!young(-100), "a clock that was set back holds up nothing");
}

#[test]
fn without_docker_it_is_tried_again() {
    let mut rig = Rig::new("preload-down");
    rig.fake.with(|state| state.set_down(true));
    rig.write("a.tar", &image_tar("web:1"));
    rig.start();
    // The thread has tried by now, or will when Docker is up.
    rig.fake.with(|state| state.set_down(false));
    rig.handle().connected();
    assert_eq!(rig.comes(), ["docker.io/library/web:1"]);
}

#[test]
fn an_image_that_a_pod_wants_has_the_directory_looked_at_at_once() {
    let mut rig = Rig::new("preload-wanted");
    let (dir, root, out) = (rig.base.join("images"), rig.base.join("root"), rig.out.clone());
    let sink = Box::new(move |told| match told {
        Told::Came(names) => out.send(names).is_ok(),
        Told::Refused(_) => true,
    });
    let docker = Docker::Fake(rig.fake.clone());
    rig.preload =
        Some(Preload::start(dir, &root, Duration::from_secs(3600), docker, sink, Box::new(|_| ())).unwrap());
    rig.write("a.tar", &image_tar("web:1"));
    rig.handle().missing("web:1");
    assert_eq!(rig.comes(), ["docker.io/library/web:1"]);
}
