//! A short notation for pods and observations in tests of `plan` and `status`. For tests only.

use std::sync::Arc;

use crate::base::clock::{Mono, Timestamp};
use crate::base::table::Table;
use crate::manifest::hash::container_hash;
use crate::plan::actions::PodActions;
use crate::plan::restart::UNKNOWN_EXIT;
use crate::plan::{
    Exit, Kept, Link, Manifest, Observed, Owned, ProbeVerdict, Probes, Role, RunState, SandboxAction,
};
use crate::pod::{ContainerKind, DesiredPod, Origin, PodKey, Source};

/// UID of the pods made here.
pub(crate) const UID: &str = "uid-1";

/// A pod `default/web-node` of the file source with this spec (JSON or YAML); containers without an image
/// get `busybox`, and the first one mounts the volumes that no container mounts: unused ones are not set up.
pub(crate) fn pod(spec: &str) -> DesiredPod {
    pod_of(serde_saphyr::from_str(spec).unwrap_or_else(|e| panic!("{spec}: {e}")))
}

/// Like [`pod`], from a decoded spec.
pub(crate) fn pod_of(mut spec: serde_json::Value) -> DesiredPod {
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(|l| l.as_array_mut()).into_iter().flatten() {
            container.as_object_mut().unwrap().entry("image").or_insert("busybox".into());
        }
    }
    mount_all(&mut spec);
    DesiredPod {
        withheld: Default::default(),
        weight: 0,
        ceiling: i32::MAX,
        written: None,
        shape: None,
        key: PodKey { namespace: "default".into(), name: "web-node".into() },
        uid: UID.into(),
        source: Source::File,
        origin: Origin { path: "/manifests/web.yaml".into(), document: 0 },
        metadata: Default::default(),
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
        status: Default::default(),
    }
}

fn mount_all(spec: &mut serde_json::Value) {
    let names = |value: &serde_json::Value| -> Vec<serde_json::Value> {
        value.as_array().into_iter().flatten().filter_map(|it| it.get("name").cloned()).collect()
    };
    let containers = ["initContainers", "containers"].map(|list| spec.get(list).cloned());
    let containers = containers.iter().flatten().filter_map(|list| list.as_array()).flatten();
    let mounted: Vec<_> = containers.filter_map(|it| it.get("volumeMounts")).flat_map(names).collect();
    let volumes = spec.get("volumes").map(names).unwrap_or_default();
    let unused: Vec<_> = volumes.into_iter().filter(|name| !mounted.contains(name)).collect();
    let Some(first) = spec.get_mut("containers").and_then(|list| list.get_mut(0)) else { return };
    for (at, name) in unused.into_iter().enumerate() {
        let mounts = first.as_object_mut().unwrap().entry("volumeMounts").or_insert(serde_json::json!([]));
        let mount = serde_json::json!({"name": name, "mountPath": format!("/unused/{at}")});
        mounts.as_array_mut().unwrap().push(mount);
    }
}

/// A wall time, `n` seconds after a fixed one.
pub(crate) fn at(n: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + n).unwrap()
}

/// An observation from text: items `NAME[#ATTEMPT][@SANDBOX] STATE [FLAG…]`, separated by `;` or lines.
///
/// NAME is `sandbox` or a container's; SANDBOX the attempt of the sandbox it joined (0). STATE is `created`,
/// `running`, `exited CODE`, `oom CODE`, `cannot-run CODE` or `removing`. Flags: `uid=…`, `hash=other`,
/// `hash=none`, `kind=init|sidecar|regular|ephemeral`, `index=N`, `no-ip`, `lost`, `unfinished`, `hostnet`, `uninspected`,
/// `error=text`, `seen=SECONDS`, `killed`. Ids are `sandbox-0`, `app-1` (with another uid: `old/app-1`).
pub(crate) fn observed(pod: &DesiredPod, text: &str) -> Observed {
    let items = text.split([';', '\n']).map(str::trim).filter(|item| !item.is_empty());
    Observed { all: items.map(|item| owned(pod, item)).collect() }
}

fn owned(pod: &DesiredPod, item: &str) -> Owned {
    let mut words = item.split_whitespace();
    let (head, state) = (words.next().unwrap(), words.next().unwrap_or_else(|| panic!("no state: {item}")));
    let words: Vec<&str> = words.collect();
    let flag = |name: &str| words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
    let has = |name: &str| words.contains(&name);
    let (head, joined) = head.split_once('@').unwrap_or((head, "0"));
    let (name, attempt) = head.split_once('#').unwrap_or((head, "0"));
    let attempt: u32 = attempt.parse().unwrap();
    let base = i64::from(attempt.min(10_000)) * 60;
    let exit = |oom_killed, cannot_run| {
        RunState::Exited(Exit {
            code: words.first().unwrap().parse().unwrap(),
            oom_killed,
            cannot_run,
            message: flag("error").unwrap_or_default().into(),
            started: Some(at(base + 1)),
            finished: Some(at(base + 10)),
            seen: flag("seen").map(|s| Mono(std::time::Duration::from_secs(s.parse().unwrap()))),
        })
    };
    let state = match state {
        "created" => RunState::Created,
        "running" => RunState::Running { started: Some(at(base + 1)).filter(|_| !has("uninspected")) },
        "exited" => exit(false, false),
        "oom" => exit(true, false),
        "cannot-run" => exit(false, true),
        "removing" => RunState::Removing,
        _ => panic!("unknown state: {item}"),
    };
    let uid = flag("uid").unwrap_or(UID);
    let prefix = if uid == UID { String::new() } else { format!("{uid}/") };
    let role = if name == "sandbox" {
        let ips = if has("no-ip") || has("hostnet") || has("uninspected") {
            vec![]
        } else {
            vec![format!("10.0.0.{attempt}")]
        };
        let link = match () {
            () if has("lost") => Link::Lost,
            () if has("unfinished") => Link::Unfinished,
            () => Link::Untold,
        };
        Role::Sandbox {
            host_network: has("hostnet"),
            ips,
            link,
            kept: Kept { restart: has("restart"), ..Kept::default() },
        }
    } else {
        let place = pod.containers().enumerate().find(|(_, (_, c))| c.name == name);
        let (kind, image) = place.map_or((ContainerKind::Regular, "busybox"), |(_, (kind, c))| {
            (kind, c.image.as_deref().unwrap())
        });
        let kind = match flag("kind") {
            Some("init") => ContainerKind::Init,
            Some("sidecar") => ContainerKind::Sidecar,
            Some("regular") => ContainerKind::Regular,
            Some("ephemeral") => ContainerKind::Ephemeral,
            _ => kind,
        };
        let index = flag("index").map_or(place.map_or(0, |(i, _)| i), |i| i.parse().unwrap());
        let hash = match flag("hash") {
            Some("other") => Some(1),
            Some("none") => None,
            _ => Some(container_hash(name, image)),
        };
        let sandbox_id = format!("{prefix}sandbox-{joined}");
        Role::Container { name: name.into(), kind, index: u32::try_from(index).unwrap(), sandbox_id, hash }
    };
    Owned {
        id: format!("{prefix}{name}-{attempt}"),
        docker_name: format!("k8s_{name}_web-node_default_{uid}_{attempt}"),
        key: pod.key.clone(),
        uid: uid.into(),
        role,
        attempt,
        state,
        start_sent: false,
        killed: has("killed"),
        never_ran: 0,
        image: "busybox".into(),
        image_id: "sha256:feed".into(),
        grace: None,
        manifest: Manifest { source: Some(pod.source), ..Manifest::default() },
        pre_stop: None,
        message: Default::default(),
        stop_signal: None,
        created: Some(at(base)),
        log_path: String::new(),
        resources: Default::default(),
    }
}

/// Probe results from text: `startup app-0 ok; liveness app-0 failed`.
pub(crate) fn probes(text: &str) -> Probes {
    let mut probes = Probes::default();
    for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        let [kind, id, verdict] = item.split(' ').collect::<Vec<_>>()[..] else { panic!("{item}") };
        let results: &mut Table<String, ProbeVerdict> = match kind {
            "liveness" => &mut probes.liveness,
            "startup" => &mut probes.startup,
            "readiness" => &mut probes.readiness,
            _ => panic!("{item}"),
        };
        let verdict = if verdict == "ok" { ProbeVerdict::Success } else { ProbeVerdict::Failure };
        results.insert(id.into(), verdict);
    }
    probes
}

/// The actions in one line: `keep sandbox-0 | start app, log | kill app-0 (why)`.
pub(crate) fn show(pod: &DesiredPod, actions: &PodActions) -> String {
    let mut parts = vec![match &actions.sandbox {
        SandboxAction::Keep { id, running: true } => format!("keep {id}"),
        SandboxAction::Keep { id, running: false } => format!("keep {id}, start it"),
        SandboxAction::Replace { attempt } => format!("new sandbox {attempt}"),
        SandboxAction::Finish => "finish".into(),
    }];
    if !actions.start.is_empty() {
        let name = |s| crate::plan::actions::container_of(pod, s).unwrap().name.clone();
        let names: Vec<String> = actions.start.iter().map(|s| name(*s)).collect();
        parts.push(format!("start {}", names.join(", ")));
    }
    for kill in &actions.kill {
        parts.push(format!("kill {} ({:?}: {})", kill.id, kill.reason, kill.message));
    }
    if !actions.remove.is_empty() {
        parts.push(format!("remove {}", actions.remove.join(", ")));
    }
    parts.join(" | ")
}

/// Carries out one step of a plan on an observation, as on a node on which every call succeeds immediately.
/// Containers to be stopped stop in order, one step at a time; plain init containers end with code 0 before
/// the step.
pub(crate) fn carry_out(pod: &DesiredPod, seen: &mut Observed, actions: &PodActions) {
    let die = |owned: &mut Owned, code: i64| {
        let end = Exit {
            code,
            oom_killed: false,
            cannot_run: false,
            message: String::new(),
            started: None,
            finished: None,
            seen: None,
        };
        owned.state = RunState::Exited(end);
    };
    for owned in seen.all.iter_mut().filter(|c| c.uid == pod.uid && c.is_kind(ContainerKind::Init)) {
        if owned.state.is_running() {
            die(owned, 0);
        }
    }
    let sandbox = match &actions.sandbox {
        SandboxAction::Keep { id, .. } => id.clone(),
        SandboxAction::Replace { .. } | SandboxAction::Finish => {
            let step: Vec<String> =
                crate::plan::stop_now(seen, |c| c.uid == pod.uid).into_iter().map(|c| c.id.clone()).collect();
            if !step.is_empty() {
                seen.all.iter_mut().filter(|c| step.contains(&c.id)).for_each(|c| die(c, UNKNOWN_EXIT));
                return;
            }
            let SandboxAction::Replace { attempt } = actions.sandbox else { return };
            let host = if pod.host_network() { "hostnet" } else { "" };
            let made = owned(pod, &format!("sandbox#{attempt} created {host}"));
            seen.all.retain(|c| c.id != made.id);
            seen.all.push(made);
            return;
        }
    };
    seen.all.retain(|c| !actions.remove.contains(&c.id));
    for owned in seen.all.iter_mut().filter(|c| actions.kill.iter().any(|k| k.id == c.id)) {
        die(owned, UNKNOWN_EXIT);
    }
    if let Some(sandbox) = seen.all.iter_mut().find(|c| c.id == sandbox) {
        sandbox.state = RunState::Running { started: Some(at(0)) };
        if let Role::Sandbox { host_network: false, ips, link, .. } = &mut sandbox.role {
            (*ips, *link) = (vec!["10.0.0.9".into()], Link::Up);
        }
    }
    for start in &actions.start {
        let container = crate::plan::actions::container_of(pod, *start).unwrap();
        let made = crate::plan::actions::made_for(pod, seen, &sandbox, *start).map(|c| c.id.clone());
        let id = made.unwrap_or_else(|| {
            let attempt = seen.newest(&pod.uid, &container.name).map_or(0, |c| c.attempt + 1);
            let mut new = owned(pod, &format!("{}#{attempt} created", container.name));
            if let Role::Container { sandbox_id, .. } = &mut new.role {
                sandbox_id.clone_from(&sandbox);
            }
            let id = new.id.clone();
            seen.all.push(new);
            id
        });
        let started = seen.all.iter_mut().find(|c| c.id == id).unwrap();
        started.state = RunState::Running { started: Some(at(1)) };
    }
}
