//! Whose the volumes are that a pod finds in the directory of its UID.

use super::*;
use crate::pod::DesiredPod;
use crate::volumes::Parts;

const EMPTY_DIR: &str = "[{name: v, emptyDir: {}}]";

/// A pod as its source gives it; `written` is the hash of a manifest that does not give the UID itself.
fn given(name: &str, source: Source, written: Option<&str>, volumes: &str) -> DesiredPod {
    let mut pod = testing::pod(&format!("{{containers: [{{name: a}}], volumes: {volumes}}}"));
    pod.uid = "a".to_owned();
    pod.key.name = name.to_owned();
    pod.source = source;
    pod.written = written.map(str::to_owned);
    pod
}

/// What the pod finds of what was written before it. A new daemon each time: no worker knows of an earlier pod.
fn finds(base: &Path, pod: DesiredPod) -> Vec<String> {
    let rig = rig_of(base, &pod.key.name.clone());
    assert_eq!(rig.failures_of(pod), []);
    files(base)
}

impl Rig {
    fn failures_of(&self, pod: DesiredPod) -> Vec<Failure> {
        let interest = Interest::default();
        let wanted = interest.of_an_order();
        self.hand.order(Order::SetUp(SetUp { pod: Arc::new(pod), objects: Arc::default(), wanted }));
        let Report::SetUp { failed, .. } = self.told.recv().unwrap() else { panic!() };
        failed
    }
}

fn files(base: &Path) -> Vec<String> {
    let all = fs::read_dir(base.join("pods/a/volumes/kubernetes.io~empty-dir/v")).unwrap();
    all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn owner(base: &Path) -> String {
    fs::read_link(base.join("pods/a/owner")).unwrap().display().to_string()
}

/// Docker had lost the containers of a file's pod that is gone. A pod of the URL with its UID read its emptyDir.
#[test]
fn a_pod_finds_only_its_own_files() {
    let base = crate::base::testing::scratch("owners-own");
    let write = || fs::write(base.join("pods/a/volumes/kubernetes.io~empty-dir/v/secret"), "s").unwrap();
    let (file, http) = (Source::File, Source::Http);
    let nothing: [&str; 0] = [];

    assert_eq!(finds(&base, given("p", file, None, EMPTY_DIR)), nothing);
    assert_eq!(owner(&base), "file default/p -");
    write();
    assert_eq!(finds(&base, given("p", file, None, EMPTY_DIR)), ["secret"], "a restart");
    assert_eq!(finds(&base, given("p", file, Some("1"), EMPTY_DIR)), ["secret"], "an edit");
    assert_eq!(owner(&base), "file default/p 1");
    assert_eq!(finds(&base, given("p", http, Some("1"), EMPTY_DIR)), ["secret"], "a move as it is");
    assert_eq!(owner(&base), "http default/p 1");
    assert_eq!(finds(&base, given("p", file, Some("2"), EMPTY_DIR)), nothing, "a move with an edit");
    write();
    assert_eq!(finds(&base, given("q", file, Some("2"), EMPTY_DIR)), nothing, "another name");
    write();
    assert_eq!(finds(&base, given("q", http, None, EMPTY_DIR)), nothing, "another source");
    assert_eq!(owner(&base), "http default/q -");
    write();
    let objects = "[{name: v, emptyDir: {}}, {name: c, configMap: {name: c, optional: true}}]";
    assert_eq!(finds(&base, given("q", http, Some("3"), objects)), ["secret"]);
    assert_eq!(finds(&base, given("q", file, Some("3"), objects)), nothing, "its ConfigMap is another");

    let rig = rig_of(&base, "q");
    rig.tear_down("a").unwrap();
    assert!(!base.join("pods/a").exists());
    rig.end();
}

/// An update of podkeeper must not take away what pods have.
#[test]
fn files_without_an_owner_are_the_first_pods() {
    let base = crate::base::testing::scratch("owners-none");
    assert_eq!(finds(&base, given("p", Source::File, None, EMPTY_DIR)).len(), 0);
    fs::remove_file(base.join("pods/a/owner")).unwrap();
    fs::write(base.join("pods/a/volumes/kubernetes.io~empty-dir/v/kept"), "s").unwrap();
    // As a daemon leaves it that was killed.
    symlink("half", base.join("pods/a/owner~")).unwrap();
    assert_eq!(finds(&base, given("p", Source::File, None, EMPTY_DIR)), ["kept"]);
    assert_eq!(owner(&base), "file default/p -");
    rig_of(&base, "p").end();
}

/// After an update on a full disk another pod of the UID took a pod's files for its own: the link was written at the next
/// start only.
#[test]
fn a_link_that_cannot_be_written_is_tried_again_and_the_pod_runs_on() {
    let base = crate::base::testing::scratch("owners-full");
    assert_eq!(finds(&base, given("p", Source::File, None, EMPTY_DIR)).len(), 0);
    fs::remove_file(base.join("pods/a/owner")).unwrap();
    fs::create_dir_all(base.join("pods/a/owner~/in-the-way")).unwrap();
    let rig = rig_of(&base, "p");
    let failed = rig.failures_of(given("p", Source::File, None, EMPTY_DIR));
    let [failure] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(failure.usable && failure.why.starts_with("whose the volumes in "), "{failure:?}");
    fs::remove_dir_all(base.join("pods/a/owner~")).unwrap();
    assert_eq!(rig.failures_of(given("p", Source::File, None, EMPTY_DIR)), []);
    assert_eq!(owner(&base), "file default/p -");
    rig.end();
}

#[test]
fn a_pod_waits_for_what_cannot_be_removed() {
    let base = crate::base::testing::scratch("owners-stuck");
    assert_eq!(finds(&base, given("p", Source::File, None, EMPTY_DIR)).len(), 0);
    // Of a kind of which only an empty directory is removed.
    let stuck = base.join("pods/a/volumes/kubernetes.io~nfs/n");
    fs::create_dir_all(stuck.join("data")).unwrap();
    let rig = rig_of(&base, "p");
    let why = rig.set_up_of(Source::Http, "a", EMPTY_DIR, "");
    assert!(why.starts_with("what another pod of its UID has left is not removed yet: "), "{why}");
    assert_eq!(owner(&base), "file default/p -");
    fs::remove_dir_all(base.join("pods/a/volumes.gone/kubernetes.io~nfs/n/data")).unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "a", EMPTY_DIR, ""), "");
    rig.end();
}

/// On a full disk the directory of a pod that has only paths of the host could not be made, and its container stayed down.
#[test]
fn paths_of_the_host_need_no_owner() {
    let base = crate::base::testing::scratch("owners-host");
    let rig = rig_of(&base, "p");
    assert_eq!(rig.set_up("a", "[{name: v, hostPath: {path: /}}]", ""), "");
    assert!(!base.join("pods").exists());
    rig.end();
}

/// No order sets up a pod that has the volumes of its images alone.
#[test]
fn volumes_of_images_are_of_one_owner_too() {
    let base = crate::base::testing::scratch("owners-images");
    let at = base.join("pods/a/volumes/podkeeper.dev~image/c~1");
    let made = |source: Source| {
        let rig = rig_of(&base, "p");
        let parts = Parts { sub_paths: Vec::new(), image_volumes: vec!["c~1".to_owned()] };
        let (tell, told) = unbounded();
        let pod = Arc::new(given("p", source, None, "[]"));
        let bound = Box::new(move |result| tell.send(result).unwrap());
        rig.hand.prepare(Some(&pod), ("a".to_owned(), "c".to_owned()), parts, bound);
        told.recv().unwrap().unwrap();
        let found = fs::read_dir(&at).unwrap().count();
        fs::write(at.join("secret"), "s").unwrap();
        found
    };
    assert_eq!([made(Source::File), made(Source::File), made(Source::Http)], [0, 1, 0]);
    rig_of(&base, "p").end();
}

/// Regression: a pod that was edited from one UID to another, while its files of the first were being removed, read what a pod of
/// the second one had left in the volume of its image.
#[test]
fn a_part_is_of_the_version_that_asked_for_it() {
    let base = crate::base::testing::scratch("owners-version");
    let at = base.join("pods/a/volumes/podkeeper.dev~image/c~1");
    fs::create_dir_all(&at).unwrap();
    fs::write(at.join("secret"), "s").unwrap();
    symlink("http default/other -", base.join("pods/a/owner")).unwrap();
    let rig = rig_of(&base, "p");
    // The thread of its jobs is busy with the version before.
    let mut before = given("p", Source::File, None, "[]");
    before.uid = "b".to_owned();
    let (goes_on, waits) = unbounded::<()>();
    let none = Parts { sub_paths: Vec::new(), image_volumes: Vec::new() };
    let of = ("b".to_owned(), "c".to_owned());
    rig.hand.prepare(Some(&Arc::new(before)), of, none, Box::new(move |_| waits.recv().unwrap()));
    let pod = Arc::new(given("p", Source::File, None, "[]"));
    let parts = || Parts { sub_paths: Vec::new(), image_volumes: vec!["c~1".to_owned()] };
    let (tell, told) = unbounded();
    let tell_too = tell.clone();
    let bound = Box::new(move |result| tell.send(result).unwrap());
    rig.hand.prepare(Some(&pod), ("a".to_owned(), "c".to_owned()), parts(), bound);
    goes_on.send(()).unwrap();
    told.recv().unwrap().unwrap();
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    assert_eq!(owner(&base), "file default/p -");
    // Of a version that is not wanted any more nothing is made.
    let of = ("b".to_owned(), "c".to_owned());
    rig.hand.prepare(Some(&pod), of, parts(), Box::new(move |result| tell_too.send(result).unwrap()));
    assert_eq!(told.recv().unwrap(), Err("pod b is not wanted any more".to_owned()));
    rig.tear_down("a").unwrap();
    rig.end();
}
