//! All visible effects of a manifest: its problems, the life of its pod, its files, the node's decisions about it
//! beside other pods, the policy's decisions.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::json::json;
use crossbeam_channel::unbounded;
use serde_json::Value;

use crate::base::clock::{Mono, Now, System, Timestamp};
use crate::daemon::drain::Drain;
use crate::daemon::turn::{Effect, Event, RuntimeEvent, Turn};
use crate::layout;
use crate::machine::Wish;
use crate::machine::tests::story::story;
use crate::manifest::{self, Context};
use crate::pod::allocatable::Allocatable;
use crate::pod::object::Objects;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Source};
use crate::policy::standards::evaluate;
use crate::policy::{LevelVersion, Policies, SourcePolicy};
use crate::runtime::engine_root::EngineRoot;
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::volumes::claim_move::Claims;
use crate::volumes::manager::{PodVolumes, Settings, Volumes};
use crate::volumes::{Interest, Order, Report, SetUp, helper, mounts};

/// Name of the node.
const NODE: &str = "node";

/// The effects of one manifest.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Errors of the manifest.
    pub errors: Vec<String>,
    /// Warnings, with their fields.
    pub warnings: Vec<(String, String)>,
    /// The input of all other effects; `None` when the manifest gives no pod.
    of: Option<Of>,
    /// The other effects by [`PARTS`], each computed when it is first needed.
    facts: [OnceLock<Vec<String>>; PARTS.len()],
}

#[derive(Debug)]
struct Of {
    pod: Arc<DesiredPod>,
    /// The same pod with other sizes.
    resized: Arc<DesiredPod>,
    objects: Arc<Objects>,
}

/// Sources of facts, the fastest first: if one of them differs, the others need not be computed.
const PARTS: [fn(&Of) -> Vec<String>; 4] = [
    at_once,
    |of| story(&of.pod, &of.objects, &of.resized),
    |of| files(&of.pod, &of.objects),
    |of| among_others(&of.pod),
];

pub(super) fn decode(manifest: &Value) -> manifest::Decoded {
    let context = Context { node_name: NODE, source: Source::File, path: "/m/web.yaml" };
    manifest::decode(manifest.to_string().as_bytes(), &context)
}

/// Looks at a pod, with local objects beside it.
pub(super) fn look(manifest: &Value, objects: &Arc<Objects>) -> Seen {
    let mut seen = Seen::default();
    let decoded = decode(manifest);
    if let Some(pod) = decoded.pods.first() {
        let resized = decode(&resized(manifest)).pods.first().cloned();
        let resized = resized.unwrap_or_else(|| Arc::clone(pod));
        seen.of = Some(Of { pod: Arc::clone(pod), resized, objects: Arc::clone(objects) });
    }
    for problem in decoded.problems {
        match problem.severity {
            Severity::Error => seen.errors.push(problem.message),
            Severity::Warning => seen.warnings.push((problem.field.unwrap_or_default(), problem.message)),
        }
    }
    seen
}

impl Seen {
    /// All facts of one part.
    fn part(&self, at: usize) -> &[String] {
        let (Some(of), Some(part), Some(facts)) = (&self.of, PARTS.get(at), self.facts.get(at)) else {
            return &[];
        };
        facts.get_or_init(|| {
            let mut facts = part(of);
            // An annotation is always kept beside the pod; this is not an effect of its own.
            for (key, value) in of.pod.metadata.annotations.iter().flatten() {
                let kept = format!("\"annotation.{key}\":{},", json!(value));
                facts.iter_mut().for_each(|fact| *fact = fact.replace(&kept, ""));
            }
            facts
        })
    }

    /// The first part in which they differ: its facts in both.
    pub(super) fn difference<'s>(&'s self, other: &'s Seen) -> Option<(&'s [String], &'s [String])> {
        (0..PARTS.len()).map(|at| (self.part(at), other.part(at))).find(|(own, others)| own != others)
    }
}

/// Facts without any process over time.
fn at_once(of: &Of) -> Vec<String> {
    let containers = of.pod.containers().map(|(kind, container)| format!("{kind:?} {}", container.name));
    let mut facts: Vec<String> = containers.collect();
    for level in ["baseline", "restricted"] {
        let level = LevelVersion::parse(level).unwrap();
        let violations = evaluate(&level, &of.pod.metadata, &of.pod.spec);
        facts.extend(violations.iter().map(|violation| format!("{violation:?}")));
    }
    facts
}

/// The same pod, with all sizes of its containers halved.
fn resized(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = manifest.pointer_mut(list).and_then(Value::as_array_mut);
        for resources in containers.into_iter().flatten().filter_map(|c| c.get_mut("resources")) {
            let lists = resources.as_object_mut().into_iter().flat_map(|r| r.values_mut());
            for (name, size) in lists.filter_map(Value::as_object_mut).flatten() {
                match name.as_str() {
                    "cpu" => *size = json!("50m"),
                    "memory" => *size = json!("32Mi"),
                    _ => {}
                }
            }
        }
    }
    manifest
}

/// Sets the volumes up in a directory of the test, and lists the resulting files.
fn files(pod: &Arc<DesiredPod>, objects: &Arc<Objects>) -> Vec<String> {
    if layout::volumes(pod).next().is_none() {
        return Vec::new();
    }
    let mut facts = Vec::new();
    for volume in layout::volumes(pod) {
        if let Some(nfs) = &volume.nfs {
            let read_only = nfs.read_only.unwrap_or(false);
            facts.push(format!("{:?}", helper::nfs_arguments(&nfs.server, &nfs.path, read_only, &[])));
        }
    }
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let base = crate::base::testing::scratch(&format!("effects-{thread}"));
    let own = fs::canonicalize(&base).unwrap();
    // A claim that has content already.
    let claim = base.join("local-storage/default/c");
    fs::create_dir_all(claim.join("old")).unwrap();
    std::os::unix::fs::chown(&claim, None, Some(2000)).unwrap();
    fs::set_permissions(&claim, std::os::unix::fs::PermissionsExt::from_mode(0o2770)).unwrap();
    let allocatable = Allocatable { memory: 1 << 30, ..Allocatable::default() };
    let settings = Settings {
        root: base.clone(),
        name: NODE.into(),
        allocatable,
        docker: None,
        engine_root: EngineRoot::default(),
        policies: Arc::default(),
        claims: Arc::new(Claims::new(base.clone(), vec![pod.source], Box::new(|_| ()))),
    };
    let volumes = Volumes::new(settings, System::start());
    let (tell, told) = unbounded();
    let hand = PodVolumes::new(&volumes, pod.key.clone(), Arc::new(move |report| tell.send(report).unwrap()));
    let interest = Interest::default();
    let wanted = interest.of_an_order();
    hand.order(Order::SetUp(SetUp { pod: Arc::clone(pod), objects: Arc::clone(objects), wanted }));
    let Report::SetUp { failed, .. } = told.recv().unwrap() else { panic!("another report") };
    facts.extend(failed.iter().map(|failure| format!("{failure:?}")));
    tree(&base, &mut facts);
    for mount in mounts::below(&mounts::table().unwrap(), &own) {
        let size = rustix::fs::statvfs(&mount.at).unwrap().f_blocks;
        facts.push(format!("{} is {} of {size}", mount.at.display(), mount.kind));
    }
    hand.order(Order::TearDown { uid: pod.uid.clone() });
    let Report::TornDown { result, .. } = told.recv().unwrap() else { panic!("another report") };
    result.unwrap();
    fs::remove_dir_all(&base).unwrap();
    let (base, own) = (base.display().to_string(), own.display().to_string());
    facts.into_iter().map(|fact| fact.replace(&own, "ROOT").replace(&base, "ROOT")).collect()
}

/// Every file below a directory: mode, owner, content. Times in names are left out.
fn tree(at: &Path, facts: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let meta = fs::symlink_metadata(&path).unwrap();
        let is_dated = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".."));
        let content = if meta.is_file() {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        } else if meta.is_symlink() && !is_dated {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::new()
        };
        let name = if is_dated { "..".to_owned() } else { path.display().to_string() };
        facts.push(format!("{name} {:o} {}:{} {content:?}", meta.mode(), meta.uid(), meta.gid()));
        if meta.is_dir() {
            tree(&path, facts);
        }
    }
}

/// The decisions of a node with labels, a device and two other pods, one of which wants the same host port.
fn among_others(pod: &Arc<DesiredPod>) -> Vec<String> {
    let mut config = crate::daemon::turn::tests::rig::config();
    config.node_name = NODE.into();
    config.node_labels.insert("disk".into(), "flash".into());
    let mut facts = Vec::new();
    for privileged in [false, true] {
        let (allow_privileged, host_network) = (privileged, privileged);
        let policy = SourcePolicy { allow_privileged, host_network, ..SourcePolicy::default() };
        config.policy = Arc::new(Policies::all(policy));
        let mut turn = Turn::new(Arc::new(config.clone()));
        let now = now();
        let listed = RuntimeEvent::Listed { containers: Vec::new(), version: Some("1.41".into()) };
        let set = |pods: Vec<Arc<DesiredPod>>| {
            let update = SourceUpdate::Full(PodSet { pods, ..PodSet::default() });
            Event::Source(FromSource { source: Source::File, update })
        };
        let pods = vec![other("aaa", 100), Arc::clone(pod), other("zzz", 0)];
        let drain = Drain { since: now.wall, grace: None, within: None, boot: None };
        for event in [Event::Runtime(listed), set(pods), Event::Drain(Some(drain))] {
            for effect in turn.handle(event, &now) {
                facts.extend(match effect {
                    Effect::Wish(key, Wish::Run(pod)) => Some(format!("run {key} {}", pod.uid)),
                    // The pod in it is the one that runs.
                    Effect::Wish(key, Wish::Stop(order)) => Some(format!(
                        "stop {key} within {:?} s: {}, {:?}",
                        order.grace, order.why, order.target
                    )),
                    Effect::Objects(key, objects) => {
                        Some(format!("{key} {:?}", objects.keys().collect::<Vec<_>>()))
                    }
                    Effect::Log(_, line) => Some(line),
                    _ => None,
                });
            }
            for view in turn.snapshot(&now).pods {
                facts.push(format!("{} {}", view.pod.key, crate::base::json::text(&*view.status)));
            }
        }
    }
    facts
}

/// A pod of 2020 that wants port 8080 of the host.
fn other(name: &str, priority: i32) -> Arc<DesiredPod> {
    let manifest = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"priority": priority, "containers": [
            {"name": "app", "image": "busybox", "ports": [{"containerPort": 1, "hostPort": 8080}]}]}});
    Arc::clone(decode(&manifest).pods.first().unwrap())
}

fn now() -> Now {
    let wall = Timestamp::from_second(1_800_000_000).unwrap();
    Now { mono: Mono(Duration::from_secs(1)), wall }
}
