//! Volumes that cannot be set up, and repeated work; containers' views are tested on the real Docker.

mod bound;
mod memory;
mod odd_names;
mod owners;
mod sweep;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};

use super::*;
use crate::base::clock::System;
use crate::plan::testing;
use crate::pod::allocatable::Allocatable;
use crate::pod::object::testing::snapshot;
use crate::pod::{PodKey, Source};
use crate::policy::{Policies, SourcePolicy};
use crate::runtime::engine_root::EngineRoot;
use crate::volumes::claim_move::Claims;
use crate::volumes::manager::{PodVolumes, Settings, Volumes};
use crate::volumes::{Interest, Order, Report};

struct Rig {
    base: PathBuf,
    volumes: Volumes,
    hand: PodVolumes,
    engine_root: EngineRoot,
    told: Receiver<Report>,
}

fn rig(name: &str) -> Rig {
    rig_in(&crate::base::testing::scratch(name))
}

fn rig_in(base: &Path) -> Rig {
    rig_of(base, "p")
}

/// A worker of this pod.
fn rig_of(base: &Path, name: &str) -> Rig {
    rig_with(base, name, Policies::default())
}

/// The same on a node with this policy.
fn rig_with(base: &Path, name: &str, policies: Policies) -> Rig {
    rig_from(base, name, policies, &[Source::File, Source::Http])
}

/// The same with these sources.
fn rig_from(base: &Path, name: &str, policies: Policies, sources: &[Source]) -> Rig {
    let policies = Arc::new(policies);
    let allocatable = Allocatable { memory: 1 << 30, ..Allocatable::default() };
    let claims = Arc::new(Claims::new(base.to_owned(), sources.to_vec(), Box::new(|_| ())));
    let root = base.to_owned();
    let engine_root = EngineRoot::default();
    let settings = Settings {
        root,
        name: "n".into(),
        allocatable,
        docker: None,
        engine_root: engine_root.clone(),
        policies,
        claims,
    };
    worker(base, (Volumes::new(settings, System::start()), engine_root), name)
}

fn worker(base: &Path, (volumes, engine_root): (Volumes, EngineRoot), name: &str) -> Rig {
    let (tell, told) = unbounded();
    let key = PodKey { namespace: "default".into(), name: name.into() };
    let hand = PodVolumes::new(&volumes, key, Arc::new(move |report| tell.send(report).unwrap()));
    Rig { base: base.to_owned(), volumes, hand, engine_root, told }
}

impl Rig {
    /// Another pod's worker in the same daemon.
    fn beside(&self, name: &str) -> Rig {
        worker(&self.base, (self.volumes.clone(), self.engine_root.clone()), name)
    }

    /// Sets up the volumes (YAML) of a pod; returns the failures as text.
    fn set_up(&self, uid: &str, volumes: &str, objects: &str) -> String {
        self.set_up_of(Source::File, uid, volumes, objects)
    }

    /// The same for a pod of this source.
    fn set_up_of(&self, source: Source, uid: &str, volumes: &str, objects: &str) -> String {
        self.set_up_with_notes(source, uid, volumes, objects).0
    }

    /// The same for a pod that is gone meanwhile.
    fn set_up_in_vain(&self, uid: &str, volumes: &str) -> String {
        let spec = format!("{{containers: [{{name: a}}], volumes: {volumes}}}");
        let mut pod = testing::pod(&spec);
        pod.uid = uid.to_owned();
        let wanted = Interest::default().of_an_order();
        self.hand.order(Order::SetUp(SetUp { pod: Arc::new(pod), objects: Arc::default(), wanted }));
        match self.told.recv().unwrap() {
            Report::SetUp { failed, .. } => {
                failed.into_iter().map(|it| it.why).collect::<Vec<_>>().join("; ")
            }
            other => panic!("{other:?}"),
        }
    }

    /// The failures and the notes.
    fn set_up_with_notes(
        &self,
        source: Source,
        uid: &str,
        volumes: &str,
        objects: &str,
    ) -> (String, Vec<Note>) {
        let container = "{name: a, resources: {requests: {cpu: 1}}}";
        self.set_up_pod(source, uid, &format!("{{containers: [{container}], volumes: {volumes}}}"), objects)
    }

    /// The same for a pod with this spec.
    fn set_up_pod(&self, source: Source, uid: &str, spec: &str, objects: &str) -> (String, Vec<Note>) {
        let mut pod = testing::pod(spec);
        pod.uid = uid.to_owned();
        pod.source = source;
        let objects = if objects.is_empty() { Arc::default() } else { snapshot(objects) };
        let interest = Interest::default();
        let wanted = interest.of_an_order();
        self.hand.order(Order::SetUp(SetUp { pod: Arc::new(pod), objects, wanted }));
        let mut notes = Vec::new();
        loop {
            match self.told.recv().unwrap() {
                Report::SetUp { failed, .. } => {
                    let words =
                        failed.iter().map(|f| f.why.replace(&self.base.display().to_string(), "ROOT"));
                    return (words.collect::<Vec<_>>().join("; "), notes);
                }
                Report::Note { note, .. } => notes.push(note),
                other @ Report::TornDown { .. } => panic!("{other:?}"),
            }
        }
    }

    fn tear_down(&self, uid: &str) -> Result<(), String> {
        self.hand.order(Order::TearDown { uid: uid.to_owned() });
        match self.told.recv().unwrap() {
            Report::TornDown { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    fn end(self) {
        for uid in ["a", "b", "c"] {
            self.tear_down(uid).unwrap();
        }
        let table = mounts::table().unwrap();
        assert_eq!(
            mounts::below(&table, &fs::canonicalize(&self.base).unwrap()),
            Vec::<&mounts::Mounted>::new()
        );
        fs::remove_dir_all(self.base).unwrap();
    }
}

/// Pods whose names changed at each look piled up threads and mounts.
#[test]
fn a_pod_that_is_gone_gets_no_further_volume() {
    let rig = rig("set-up-in-vain");
    let why = rig.set_up_in_vain("a", "[{name: v, emptyDir: {}}, {name: w, emptyDir: {}}]");
    assert_eq!(why, "the pod is not wanted any more; the pod is not wanted any more");
    assert!(!rig.base.join("pods").exists());
}

#[test]
fn types_of_host_paths() {
    let rig = rig("set-up-host-path");
    let base = rig.base.clone();
    fs::write(base.join("file"), "").unwrap();
    fs::create_dir(base.join("dir")).unwrap();
    symlink("file", base.join("link")).unwrap();
    let _socket = UnixListener::bind(base.join("socket")).unwrap();
    let check = |path: &str, kind: &str, expected: &str| {
        let path =
            if path.starts_with('/') { path.to_owned() } else { base.join(path).display().to_string() };
        let volumes = format!("[{{name: v, hostPath: {{path: '{path}', type: '{kind}'}}}}]");
        assert_eq!(rig.set_up("a", &volumes, ""), expected, "{path} {kind}");
    };
    let not = |path: &str, what: &str| format!("hostPath type check failed: {path} is not {what}");
    check("dir", "", "");
    check("file", "", "");
    check("made/deep", "", "");
    check("dir", "Directory", "");
    check("file", "Directory", &not("ROOT/file", "a directory"));
    check("missing", "Directory", &not("ROOT/missing", "a directory"));
    check("made/too", "DirectoryOrCreate", "");
    check("file", "DirectoryOrCreate", &not("ROOT/file", "a directory"));
    check("file", "File", "");
    check("link", "File", "");
    check("dir", "File", &not("ROOT/dir", "a file"));
    check("missing", "File", &not("ROOT/missing", "a file"));
    check("new", "FileOrCreate", "");
    check("new", "FileOrCreate", "");
    check("dir", "FileOrCreate", &not("ROOT/dir", "a file"));
    check("no/parent", "FileOrCreate", "hostPath ROOT/no/parent: No such file or directory (os error 2)");
    check("socket", "Socket", "");
    check("file", "Socket", &not("ROOT/file", "a socket file"));
    check("/dev/null", "CharDevice", "");
    check("/dev/null", "BlockDevice", &not("/dev/null", "a block device"));
    check("file", "CharDevice", &not("ROOT/file", "a character device"));
    check("file", "Pipe", "Pipe is an invalid volume type");
    check("/a/../etc", "", "invalid HostPath `/a/../etc`: must not contain '..'");
    let mode = |path: &str| fs::metadata(base.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("made/deep"), mode("made/too"), mode("new")), (0o755, 0o755, 0o644));
    rig.end();
}

#[test]
fn what_cannot_be_had() {
    let rig = rig("set-up-failures");
    let check = |volume: &str, expected: &str| {
        assert_eq!(rig.set_up("a", &format!("[{{name: v, {volume}}}]"), ""), expected, "{volume}");
    };
    check("emptyDir: {medium: Disk}", "unknown storage medium \"Disk\"");
    check(
        "emptyDir: {medium: HugePages}",
        "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
    );
    check("emptyDir: {medium: HugePages-x}", "unknown storage medium \"HugePages-x\"");
    check("csi: {driver: x}", "no volume plugin matched");
    check("configMap: {name: c}", "configmap \"c\" not found");
    check(
        "persistentVolumeClaim: {claimName: p}",
        "error processing PVC default/p: persistentvolumeclaim \"p\" not found",
    );
    // One failure does not stop the others.
    let both = rig.set_up("a", "[{name: bad, configMap: {name: c}}, {name: good, emptyDir: {}}]", "");
    assert_eq!(both, "configmap \"c\" not found");
    assert!(rig.base.join("pods/a/volumes/kubernetes.io~empty-dir/good").is_dir());
    rig.end();
}

#[test]
fn a_claim_of_one_pod_is_no_other_s() {
    let rig = rig("set-up-claim");
    let volume = CLAIM;
    assert_eq!(rig.set_up("a", volume, &claim("ReadWriteOnce")), "");
    assert_eq!(rig.set_up("b", volume, &claim("ReadWriteMany")), "");
    let refused = rig.set_up("c", volume, &claim("ReadWriteOncePod"));
    assert!(refused.starts_with("node has pod using PersistentVolumeClaim with the same name"), "{refused}");
    fs::write(rig.base.join("local-storage/default/p/data"), "kept").unwrap();
    rig.tear_down("a").unwrap();
    rig.tear_down("b").unwrap();
    assert_eq!(rig.set_up("c", volume, &claim("ReadWriteOncePod")), "");
    assert_eq!(rig.set_up("c", volume, &claim("ReadWriteOncePod")), "", "its own use does not count");
    rig.tear_down("c").unwrap();
    assert_eq!(fs::read(rig.base.join("local-storage/default/p/data")).unwrap(), b"kept");
    assert!(!rig.base.join("pods/c").exists());
    rig.end();
}

fn claim(mode: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: p}}, spec: {{accessModes: [{mode}], resources: {{requests: {{storage: 1}}}}}}}}\n"
    )
}

/// Regression: a pod of an untrusted source filled the node's disk through a claim of 1 MiB.
#[test]
fn no_pod_begins_with_a_claim_that_holds_more_than_its_size_where_sources_are_held_to_a_level() {
    let base = crate::base::testing::scratch("set-up-claim-size");
    let mut policies = Policies::default();
    let mut held = policies.of(Source::Http).clone();
    held.set("pod-security", "restricted").unwrap();
    policies = policies.with(Source::Http, held);
    let rig = rig_with(&base, "p", policies);
    let of = |size: &str| claim("ReadWriteOnce").replace("storage: 1}", &format!("storage: {size}}}"));
    assert_eq!(rig.set_up_of(Source::Http, "a", CLAIM, &of("1Mi")), "");
    let data = base.join("local-storage/.http/default/p/data");
    fs::write(&data, "x".repeat(2 << 20)).unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "a", CLAIM, &of("1Mi")), "", "one that has begun goes on");
    let refused = rig.set_up_of(Source::Http, "b", CLAIM, &of("1Mi"));
    let says = "Usage of PersistentVolumeClaim \"p\" exceeds its size \"1Mi\": it holds 2.0 MiB in ROOT/local-storage/.http/default/p.";
    assert!(refused.starts_with(says), "{refused}");
    assert_eq!(rig.set_up_of(Source::Http, "b", CLAIM, &of("3Mi")), "", "it asks for more");
    let trusted = base.join("local-storage/default/p");
    fs::create_dir_all(&trusted).unwrap();
    fs::write(trusted.join("data"), "x".repeat(2 << 20)).unwrap();
    assert_eq!(rig.set_up("c", CLAIM, &of("1Mi")), "", "who runs the node says what its disk is for");
    rig.end();
}

const CLAIM: &str = "[{name: v, persistentVolumeClaim: {claimName: p}}]";

#[test]
fn each_source_has_claims_of_its_own() {
    let rig = rig("set-up-claim-sources");
    let alone = claim("ReadWriteOncePod");
    assert_eq!(rig.set_up("a", CLAIM, &alone), "");
    fs::write(rig.base.join("local-storage/default/p/data"), "file").unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "b", CLAIM, &alone), "", "another claim, though of one name");
    assert_eq!(fs::read_dir(rig.base.join("local-storage/.http/default/p")).unwrap().count(), 0);
    // The same when its pod is gone, and when the pod moves from one source to the other.
    rig.tear_down("a").unwrap();
    assert_eq!(rig.set_up("c", CLAIM, &alone), "");
    assert_eq!(rig.set_up_of(Source::Http, "c", CLAIM, &claim("ReadWriteOnce")), "");
    assert_eq!(fs::read(rig.base.join("local-storage/default/p/data")).unwrap(), b"file");
    assert_eq!(fs::read_dir(rig.base.join("local-storage/.http/default/p")).unwrap().count(), 0);
    rig.end();
}

/// An earlier version had the claims of all sources in one place.
#[test]
fn a_pod_takes_what_its_claim_held_before_sources_were_told_apart() {
    let rig = rig("set-up-claim-former");
    let former = fs::canonicalize(&rig.base).unwrap().join("local-storage/default/p");
    fs::create_dir_all(&former).unwrap();
    fs::write(former.join("data"), "kept").unwrap();
    for uid in ["a", "b"] {
        let users = rig.base.join("pods").join(uid).join("volumes/kubernetes.io~local-volume");
        fs::create_dir_all(&users).unwrap();
        symlink(&former, users.join("p")).unwrap();
    }
    let (once, moved) = (claim("ReadWriteOnce"), rig.base.join("local-storage/.http/default/p/data"));
    let (failed, notes) = rig.set_up_with_notes(Source::Http, "c", CLAIM, &once);
    assert_eq!(failed, "");
    let [Note::BeginsEmpty(why)] = &*notes else { panic!("{notes:?}") };
    let says = "PersistentVolumeClaim default/p of source http begins empty: what is in ";
    assert!(why.starts_with(says) && why.contains("stop the pod and move it to"), "{why}");
    assert_eq!(rig.set_up_with_notes(Source::Http, "c", CLAIM, &once), (String::new(), Vec::new()), "once");
    assert!(!moved.exists(), "it never had it");
    fs::remove_dir(moved.parent().unwrap()).unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "a", CLAIM, &once), "");
    assert!(!moved.exists() && former.join("data").exists(), "another pod has it too");
    fs::remove_dir(moved.parent().unwrap()).unwrap();
    rig.tear_down("a").unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "b", CLAIM, &once), "");
    assert_eq!(fs::read(&moved).unwrap(), b"kept");
    assert_eq!(rig.set_up_of(Source::Http, "b", CLAIM, &once), "", "and again");
    assert_eq!(fs::read(&moved).unwrap(), b"kept");
    rig.end();
}

#[test]
fn claims_of_an_earlier_version_that_cannot_be_moved_wait_and_nothing_else_does() {
    let base = crate::base::testing::scratch("set-up-claim-left");
    fs::create_dir_all(base.join("local-storage/default/p/data")).unwrap();
    fs::write(base.join("local-storage/.http"), "in the way").unwrap();
    let rig = rig_from(&base, "p", Policies::default(), &[Source::Http]);
    let both = format!("{}, {{name: e, emptyDir: {{}}}}]", CLAIM.trim_end_matches(']'));
    let failed = rig.set_up_of(Source::Http, "a", &both, &claim("ReadWriteOnce"));
    let says =
        "claims of an earlier version in ROOT/local-storage cannot be given to the source they belong to: ";
    assert!(failed.starts_with(says) && !failed.contains("; claims"), "{failed}");
    assert!(base.join("local-storage/default/p/data").exists());
    fs::remove_file(base.join("local-storage/.http")).unwrap();
    assert_eq!(rig.set_up_of(Source::Http, "a", &both, &claim("ReadWriteOnce")), "", "tried again");
    assert!(base.join("local-storage/.http/default/p/data").exists());
    rig.end();
}

#[test]
fn a_claim_is_not_alone_when_nobody_can_say_so() {
    let rig = rig("set-up-claim-unknown");
    fs::create_dir_all(rig.base.join("pods/b/volumes")).unwrap();
    fs::write(rig.base.join("pods/b/volumes/kubernetes.io~local-volume"), "no directory").unwrap();
    let refused = rig.set_up("a", CLAIM, &claim("ReadWriteOncePod"));
    let says = "cannot find out whether another pod uses PersistentVolumeClaim default/p: pod b: ";
    assert!(refused.starts_with(says), "{refused}");
    assert_eq!(rig.set_up("a", CLAIM, &claim("ReadWriteOnce")), "");
    fs::remove_dir_all(rig.base.join("pods/b")).unwrap();
    assert_eq!(rig.set_up("a", CLAIM, &claim("ReadWriteOncePod")), "");
    rig.end();
}

/// Containers get the target that was checked, even if a pod changes the path later.
/// Two workers, one UID: the second one does not touch the directory.
#[test]
fn the_directory_of_a_uid_is_one_pod_s() {
    let rig = rig("set-up-uid");
    let volumes = "[{name: d, emptyDir: {}}]";
    assert_eq!(rig.set_up("a", volumes, ""), "");
    let other = rig.beside("evil");
    let why = "what another pod of its UID has or left is not removed yet";
    assert_eq!(other.set_up("a", volumes, ""), why);
    other.tear_down("a").unwrap();
    assert!(rig.base.join("pods/a/volumes/kubernetes.io~empty-dir/d").exists(), "it is not its to remove");
    rig.tear_down("a").unwrap();
    assert_eq!(other.set_up("a", volumes, ""), "");
    other.tear_down("a").unwrap();
    rig.end();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn an_empty_directory_is_set_up_once_and_one_in_memory_after_each_boot() {
    let rig = rig("set-up-empty-dir");
    let volumes = "[{name: d, emptyDir: {}}, {name: m, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: t, emptyDir: {mode: 1023}}]";
    assert_eq!(rig.set_up("a", volumes, ""), "");
    let at = |name: &str| rig.base.join("pods/a/volumes/kubernetes.io~empty-dir").join(name);
    let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d"), mode("m"), mode("t")), (0o777, 0o1777, 0o1777));
    fs::set_permissions(at("d"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(at("m").join("f"), "").unwrap();
    assert_eq!(rig.set_up("a", volumes, ""), "");
    assert_eq!(mode("d"), 0o700, "the container may have changed it");
    assert!(at("m").join("f").exists());
    mounts::end(&at("m")).unwrap();
    assert_eq!(rig.set_up("a", volumes, ""), "");
    assert!(!at("m").join("f").exists());
    let table = mounts::table().unwrap();
    assert!(mounts::at(&table, &fs::canonicalize(at("m")).unwrap()).is_some());
    rig.end();
}
