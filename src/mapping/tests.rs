use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::manifest::{self, Context};
use crate::mapping::env;
use crate::mapping::observe;
use crate::pod::allocatable::Allocatable;
use crate::pod::downward::Facts;
use crate::pod::object::Objects;
use crate::pod::{Origin, PodKey, Source};
use crate::runtime::{ContainerSummary, DockerState};

/// A pod as `manifest/` returns it, from the JSON of a manifest with its defaults written out.
pub(crate) fn pod(json: &str) -> DesiredPod {
    let pod: Pod = serde_json::from_str(json).unwrap();
    let name = pod.metadata.name.clone().unwrap();
    DesiredPod {
        withheld: Default::default(),
        weight: 0,
        ceiling: i32::MAX,
        written: None,
        shape: None,
        key: PodKey { namespace: pod.metadata.namespace.clone().unwrap_or("default".into()), name },
        uid: pod.metadata.uid.clone().unwrap_or("0123456789abcdef0123456789abcdef".into()),
        source: Source::File,
        origin: Origin { path: "/etc/kubernetes/manifests/pod.yaml".into(), document: 1 },
        metadata: pod.metadata,
        spec: Arc::new(pod.spec.unwrap()),
        status: pod.status.unwrap_or_default(),
    }
}

pub(crate) fn config() -> MapConfig {
    MapConfig {
        root_dir: "/var/lib/podkeeper".into(),
        oom_floor: -1000,
        infra_image: "podkeeper.dev/sandbox:0123456789ab".into(),
        node_memory: 1 << 30,
        logs: crate::mapping::logs::LogSettings {
            driver: Default::default(),
            max_bytes: Some(1 << 20),
            max_files: 5,
        },
        node_name: "node1".into(),
        network: Default::default(),
        policies: Default::default(),
    }
}

/// Like [`super::container`], for a pod that needs no local object.
pub(crate) fn container(
    pod: &DesiredPod,
    at: StartRef,
    attempt: u32,
    sandbox_id: &str,
    config: &MapConfig,
) -> Option<(String, CreateBody)> {
    container_with(&Objects::new(), pod, at, attempt, sandbox_id, config)
}

fn container_with(
    objects: &Objects,
    pod: &DesiredPod,
    at: StartRef,
    attempt: u32,
    sandbox_id: &str,
    config: &MapConfig,
) -> Option<(String, CreateBody)> {
    let spec = crate::plan::actions::container_of(pod, at)?;
    let ips = ["10.0.0.2".to_owned(), "fd00::2".to_owned()];
    let facts = Facts {
        pod,
        node_name: &config.node_name,
        host_ips: &["192.0.2.2".to_owned()],
        pod_ips: &ips,
        allocatable: &Allocatable { milli_cpu: 4000, memory: 1 << 30, ephemeral_storage: 1 << 33 },
    };
    let expanded = env::expand(spec, &pod.key.namespace, objects, Some(&facts)).unwrap();
    let mounts = mounts::of(
        pod,
        spec,
        &expanded.env,
        Path::new(&config.root_dir),
        &config.policies,
        &Default::default(),
    )
    .unwrap();
    let made = super::container(pod, at, attempt, sandbox_id, Ready { expanded, ips: &ips, mounts }, config)?;
    Some((made.name, *made.body))
}

pub(crate) fn sandbox(pod: &DesiredPod, attempt: u32, config: &MapConfig) -> (String, CreateBody) {
    let made = super::sandbox(pod, attempt, config);
    (made.name, *made.body)
}

/// The local objects of a golden case: `<case>.objects.yaml`, if there is one.
fn objects(input: &Path) -> Objects {
    let path = input.to_str().unwrap().replace(".pod.json", ".objects.yaml");
    let Ok(bytes) = std::fs::read(&path) else { return Objects::new() };
    let decoded =
        manifest::decode(&bytes, &Context { node_name: "n", source: Source::File, path: "objects.yaml" });
    assert_eq!(decoded.problems, [], "{path}");
    decoded.objects.into_iter().map(|object| (object.key.clone(), object)).collect()
}

/// The indexes of all containers, as the plan would give them.
fn places(pod: &DesiredPod) -> Vec<StartRef> {
    let init = pod.init_containers().iter().enumerate();
    let init = init.map(|(index, c)| StartRef { kind: init_kind(c), index });
    let regular =
        (0..pod.spec.containers.len()).map(|index| StartRef { kind: ContainerKind::Regular, index });
    init.chain(regular).collect()
}

fn golden_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/docker")
}

/// Every `<case>.pod.json` maps to `<case>.docker.json`: name and body of the sandbox (attempt 2) and of
/// each container (attempt 3).
#[test]
fn golden() {
    let sandbox_id = "5a".repeat(32);
    let files = std::fs::read_dir(golden_directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<PathBuf> =
        files.filter(|path| path.to_string_lossy().ends_with(".pod.json")).collect();
    inputs.sort();
    assert!(inputs.len() >= 12, "{inputs:?}");
    for input in inputs {
        let pod = pod(&std::fs::read_to_string(&input).unwrap());
        let mut config = config();
        if input.ends_with("oom-floor.pod.json") {
            config.oom_floor = -5;
        }
        let (name, body) = sandbox(&pod, 2, &config);
        let mut all = vec![json!({ "name": name, "body": body })];
        for at in places(&pod) {
            let (name, body) = container_with(&objects(&input), &pod, at, 3, &sandbox_id, &config).unwrap();
            all.push(json!({ "name": name, "body": body }));
        }
        let actual = serde_json::to_string_pretty(&all).unwrap() + "\n";
        let output = PathBuf::from(input.to_str().unwrap().replace(".pod.json", ".docker.json"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&output, &actual).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&output).unwrap(), actual, "{}", output.display());
    }
}

#[test]
fn no_such_place() {
    let pod = pod(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"i"}]}}"#);
    let get = |kind, index| container(&pod, StartRef { kind, index }, 0, "id", &config());
    assert!(get(ContainerKind::Regular, 0).is_some());
    assert_eq!(get(ContainerKind::Regular, 1), None);
    assert_eq!(get(ContainerKind::Init, 0), None);
    assert_eq!(get(ContainerKind::Sidecar, 0), None);
}

#[test]
fn hostnames() {
    let check = |name: &str, spec: &str, expected: &str| {
        let spec = format!(r#"{{"containers":[]{spec}}}"#);
        let pod = pod(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#));
        assert_eq!(pod.hostname(), expected);
        assert_eq!(sandbox(&pod, 0, &config()).1.hostname.as_deref(), Some(expected));
    };
    check("web", "", "web");
    check("web", r#","hostname":"other""#, "other");
    check("web", r#","hostname":"""#, "web");
    check("web", r#","hostname":"other","hostnameOverride":"db.example""#, "db.example");
    check(&"a".repeat(63), "", &"a".repeat(63));
    check(&"a".repeat(64), "", &"a".repeat(63));
    check(&format!("{}-.-b", "a".repeat(60)), "", &"a".repeat(60));
    check(&format!("{}é", "a".repeat(62)), "", &"a".repeat(62));
}

#[test]
fn our_labels_win_whatever_the_user_wrote() {
    let stolen = |prefix: &str| {
        let keys = labels::OURS.iter().filter_map(|key| key.strip_prefix(prefix));
        keys.map(|key| (key.to_string(), "stolen".to_string())).collect::<BTreeMap<_, _>>()
    };
    let mut pod = pod(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"i"}]}}"#);
    pod.metadata.labels = Some(stolen(""));
    pod.metadata.annotations = Some(stolen(labels::ANNOTATION));
    // Labels from annotations: podkeeper itself writes these now.
    for own in [devices::ASSIGNED, CONFIG_SEEN] {
        pod.metadata.annotations.as_mut().unwrap().remove(own);
    }
    pod.metadata.labels.as_mut().unwrap().insert("app".into(), "web".into());
    pod.metadata.annotations.as_mut().unwrap().insert("note".into(), "yes".into());
    let at = StartRef { kind: ContainerKind::Regular, index: 0 };
    let bodies = [sandbox(&pod, 1, &config()).1, container(&pod, at, 1, "id", &config()).unwrap().1];
    for body in &bodies {
        assert!(body.labels.values().all(|value| value != "stolen"), "{:?}", body.labels);
    }
    assert_eq!(bodies[0].labels["app"], "web");
    assert_eq!(bodies[0].labels["annotation.note"], "yes");
    assert!(!bodies[1].labels.contains_key("app"), "pod labels are on the sandbox only");
}

/// Docker adds the image's labels below those of the create: an image must not make the daemon send requests
/// when its pod stops, or give an orphan an endless grace period.
#[test]
fn no_label_of_an_image_is_read() {
    let pod = pod(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"i"}]}}"#);
    let at = StartRef { kind: ContainerKind::Regular, index: 0 };
    let bodies = [sandbox(&pod, 1, &config()), container(&pod, at, 1, "id", &config()).unwrap()];
    for (name, body) in bodies {
        let images = labels::OURS.iter().map(|key| ((*key).to_owned(), "7".to_owned()));
        let mut all: BTreeMap<String, String> = images.collect();
        all.extend(body.labels.clone());
        let seen = |labels: BTreeMap<String, String>| {
            let summary = ContainerSummary {
                id: "x".into(),
                name: name.clone(),
                image: "i".into(),
                image_id: "sha256:1".into(),
                labels,
                state: DockerState::Running,
                status: "Up".into(),
                created: 0,
                ips: None,
                networks: Vec::new(),
                length: 0,
            };
            observe::from_summary(&summary, &config().root_dir).unwrap()
        };
        let owned = seen(all);
        assert_eq!(owned, seen(body.labels));
        assert_eq!(owned.kept().cloned().unwrap_or_default(), crate::plan::Kept::default());
        assert_eq!(
            (owned.pre_stop.is_none(), owned.grace, owned.manifest.written, owned.manifest.shape),
            (true, None, None, None)
        );
    }
}

/// Older versions of podkeeper wrote only labels that have a value: a missing one may come from the image,
/// even one that claims that all were written.
#[test]
fn no_label_of_an_image_on_a_container_of_an_older_podkeeper_is_believed() {
    let pod = pod(r#"{"metadata":{"name":"a"},"spec":{"terminationGracePeriodSeconds":9,
        "containers":[{"name":"a","image":"i"}]}}"#);
    let at = StartRef { kind: ContainerKind::Regular, index: 0 };
    let (name, body) = container(&pod, at, 1, "id", &config()).unwrap();
    let mut older = body.labels;
    older.retain(|key, value| !value.is_empty() && key != labels::SEALED);
    for said in ["7", "", "other"] {
        let mut all: BTreeMap<String, String> =
            labels::OURS.iter().map(|key| ((*key).to_owned(), "99".to_owned())).collect();
        all.insert(labels::SEALED.to_owned(), said.to_owned());
        all.extend(older.clone());
        let summary = ContainerSummary {
            id: "x".into(),
            name: name.clone(),
            image: "i".into(),
            image_id: "sha256:1".into(),
            labels: all,
            state: DockerState::Running,
            status: "Up".into(),
            created: 0,
            ips: None,
            networks: Vec::new(),
            length: 0,
        };
        let owned = observe::from_summary(&summary, &config().root_dir).unwrap();
        let crate::plan::Manifest { written, shape, .. } = owned.manifest.clone();
        assert_eq!((owned.grace, written, shape, owned.kept()), (Some(9), None, None, None));
        assert_eq!(owned.pre_stop.map(|hook| hook.sealed), Some(false), "{said:?}");
    }
}

#[test]
fn a_hook_too_long_for_a_label_is_left_out() {
    let hook = |length: usize| {
        let mut pod = pod(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"i",
            "lifecycle":{"preStop":{"exec":{"command":["x"]}}}}]}}"#);
        let lifecycle = Arc::make_mut(&mut pod.spec).containers[0].lifecycle.as_mut().unwrap();
        let exec = lifecycle.pre_stop.as_mut().unwrap().exec.as_mut().unwrap();
        exec.command = Some(vec!["<".repeat(length)]);
        let at = StartRef { kind: ContainerKind::Regular, index: 0 };
        container(&pod, at, 1, "id", &config()).unwrap().1.labels[labels::PRE_STOP].len()
    };
    assert_eq!(hook(limits::LABEL_OURS), 0);
    assert!(hook(1000) > 1000);
}

/// Docker sends all labels with each event and in each list.
#[test]
fn what_is_copied_to_labels_is_bounded() {
    let mut pod = pod(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"i"}]}}"#);
    let long = "<".repeat(limits::LABEL_COPIED + 1);
    let fits = "<".repeat(limits::LABEL_COPIED);
    let mut notes = BTreeMap::from([("a".to_owned(), long), ("z".to_owned(), "short".to_owned())]);
    notes.extend((0..100).map(|n| (format!("n{n:03}"), fits.clone())));
    pod.metadata.annotations = Some(notes);
    let labels = sandbox(&pod, 1, &config()).1.labels;
    assert!(!labels.contains_key("annotation.a"));
    assert_eq!(labels["annotation.n000"], fits);
    assert_eq!(labels["annotation.z"], "short", "what fits in what is left");
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes < limits::LABELS_COPIED + 4096, "{bytes}");
}

#[test]
fn k129385_defaults_and_other_fields_do_not_change_the_hash() {
    let hash_of = |container_json: &str| {
        let pod =
            pod(&format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[{container_json}]}}}}"#));
        let at = StartRef { kind: ContainerKind::Regular, index: 0 };
        container(&pod, at, 0, "id", &config()).unwrap().1.labels[labels::HASH].clone()
    };
    let plain = hash_of(r#"{"name":"a","image":"i:1"}"#);
    let full = hash_of(
        r#"{"name":"a","image":"i:1","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/x",
            "env":[{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}},"tty":true}"#,
    );
    assert_eq!(plain, full);
    assert_ne!(plain, hash_of(r#"{"name":"a","image":"i:2"}"#));
    assert_ne!(plain, hash_of(r#"{"name":"b","image":"i:1"}"#));
}
