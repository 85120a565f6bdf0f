//! Helpers of this room's tests: a manifest language of one line per pod, a disk in memory with faults,
//! and temporary directories.

mod signer;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::{Context, Decoded};
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Origin, PodKey};
use crate::source::disk::{Disk, Found, Reading, Stamp};
use crate::source::entry::whole_file;
use crate::source::signature::Verifier;
use crate::source::{PodSet, SourceUpdate};

pub use signer::{Signer, base64};

thread_local! {
    /// Number of calls of [`decode`] in this thread.
    pub static DECODED: Cell<usize> = const { Cell::new(0) };
}

/// `pod NAME` is a pod, `warn` a warning, anything else an error. Every prefix of a line that still names a pod is
/// valid, as in YAML.
pub fn decode(bytes: &[u8], context: &Context<'_>) -> Decoded {
    DECODED.set(DECODED.get() + 1);
    let mut decoded = Decoded::default();
    for (document, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let report = |severity, text: &str| whole_file(severity, context.path, text.into());
        match line.split_once(' ') {
            Some(("pod", name)) if !name.is_empty() => decoded.pods.push(pod(name, document, context)),
            _ if line == "warn" => decoded.problems.push(report(Severity::Warning, "hm")),
            _ => decoded.problems.push(report(Severity::Error, "bad line")),
        }
    }
    if !decoded.is_good() {
        decoded.pods.clear();
    }
    decoded
}

fn pod(name: &str, document: usize, context: &Context<'_>) -> Arc<DesiredPod> {
    Arc::new(DesiredPod {
        written: None,
        shape: None,
        key: PodKey { namespace: "default".into(), name: name.into() },
        uid: name.into(),
        source: context.source,
        origin: Origin { path: context.path.into(), document: u32::try_from(document).unwrap() },
        metadata: ObjectMeta::default(),
        spec: Arc::new(PodSpec { node_name: Some(context.node_name.into()), ..PodSpec::default() }),
        status: PodStatus::default(),
        withheld: Default::default(),
        weight: 0,
        ceiling: i32::MAX,
    })
}

/// `a b; broken /m/x.yaml; /m/x.yaml: is empty`, or the text of a failure.
pub fn words(update: &SourceUpdate) -> String {
    match update {
        SourceUpdate::Same | SourceUpdate::Refused { .. } => unreachable!("not of this source"),
        SourceUpdate::Forgotten => "Forgotten".to_owned(),
        SourceUpdate::Store(trouble) => format!("Store({trouble:?})"),
        SourceUpdate::Remembered(set) => format!("Remembered({})", words(&SourceUpdate::Full(set.clone()))),
        SourceUpdate::Restored(set) => format!("Restored({})", words(&SourceUpdate::Full(set.clone()))),
        SourceUpdate::Failed(why) => format!("Failed({why})"),
        SourceUpdate::Full(set) => {
            let mut parts = vec![names(set).join(" ")];
            parts.extend(set.broken.iter().map(|path| format!("broken {path}")));
            parts.extend(set.problems.iter().map(ToString::to_string));
            parts.join("; ")
        }
    }
}

pub fn names(set: &PodSet) -> Vec<&str> {
    set.pods.iter().map(|p| p.key.name.as_str()).collect()
}

/// The entry at a path of a [`FakeDisk`].
#[derive(Debug, Clone)]
pub enum Node {
    /// A file: content, and seconds of wall time when it was written.
    File(String, i64),
    /// A file that changes while it is read.
    Restless(String),
    Directory,
    /// A directory on another file system.
    OtherVolume,
    /// A fifo or the like: reading it fails the test.
    Special,
    /// A link to nothing.
    Dangling,
    /// Every call fails with this error.
    Fault(io::ErrorKind),
    /// A directory that cannot be listed to its end.
    Unlistable(io::ErrorKind),
    /// A file that cannot be read to its end.
    Unreadable(io::ErrorKind),
}

/// A disk in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeDisk {
    nodes: Arc<Mutex<BTreeMap<PathBuf, Node>>>,
    reads: Arc<AtomicU64>,
}

impl FakeDisk {
    pub fn put(&self, path: &str, node: Node) {
        self.nodes.lock().unwrap().insert(path.into(), node);
    }
    pub fn file(&self, path: &str, content: &str, written: i64) {
        self.put(path, Node::File(content.into(), written));
    }
    pub fn remove(&self, path: &str) {
        self.nodes.lock().unwrap().remove(Path::new(path)).unwrap();
    }
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
    fn get(&self, path: &Path) -> io::Result<Node> {
        match self.nodes.lock().unwrap().get(path).cloned() {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Node::Fault(kind)) => Err(kind.into()),
            Some(node) => Ok(node),
        }
    }
}

fn stamp(content: &str, written: i64) -> Stamp {
    let nanos = i128::from(written) * 1_000_000_000;
    Stamp { file: (1, 1), size: content.len() as u64, modified: nanos, changed: nanos }
}

impl Disk for FakeDisk {
    fn find(&self, path: &Path) -> io::Result<Found> {
        match self.get(path)? {
            Node::File(content, written) => Ok(Found::File(stamp(&content, written))),
            Node::Restless(content) => Ok(Found::File(stamp(&content, 0))),
            Node::Unreadable(_) => Ok(Found::File(stamp("?", 0))),
            Node::Directory | Node::Unlistable(_) => Ok(Found::Directory(1)),
            Node::OtherVolume => Ok(Found::Directory(2)),
            Node::Special => Ok(Found::Special),
            Node::Dangling | Node::Fault(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
    fn is_link(&self, path: &Path) -> bool {
        matches!(self.get(path), Ok(Node::Dangling))
    }
    fn is_own(&self, _: &Path) -> bool {
        true
    }
    fn names(&self, directory: &Path, each: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        for path in self.nodes.lock().unwrap().keys() {
            if let (Some(name), true) = (path.file_name(), path.parent() == Some(directory)) {
                each(name);
            }
        }
        match self.get(directory)? {
            Node::Unlistable(kind) => Err(kind.into()),
            _ => Ok(()),
        }
    }
    fn read(&self, path: &Path, limit: usize) -> io::Result<Reading> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let (content, stamp) = match self.get(path)? {
            Node::File(content, written) => (content.clone(), Some(stamp(&content, written))),
            Node::Restless(content) => (content, None),
            Node::Unreadable(kind) => return Err(kind.into()),
            other => panic!("{} is read: {other:?}", path.display()),
        };
        let content = content.into_bytes().into_iter().take(limit + 1).collect::<Vec<u8>>().into();
        Ok(Reading { content, stamp })
    }
}

/// A directory that is removed at the end of the test.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("podkeeper-test-{}-{number}", std::process::id());
        let path = crate::base::testing::temporary().join(name);
        fs::create_dir_all(&path).unwrap();
        TempDir(path.canonicalize().unwrap())
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// Makes a directory inside.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

/// Puts a complete file there: written beside the directory, then moved in.
pub fn place(temp: &TempDir, path: &Path, content: &str) {
    let beside = temp.path("beside");
    fs::write(&beside, content).unwrap();
    fs::rename(beside, path).unwrap();
}

impl Signer {
    pub fn verifier(&self) -> Verifier {
        Verifier::parse(&self.key()).unwrap()
    }
}
