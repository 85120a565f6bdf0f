//! A Docker that answers badly, not at all, or with errors: one bad container or call must not harm the
//! other pods, and nothing may stop the daemon. The real engine is behind the proxy, so that everything else
//! is real.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use podkeeper::testing::runtime::DockerState;
use serde_json::{Value, json};

use crate::faults::{Faulty, assert_single, assert_untouched, lives};
use crate::harness::Container;
use crate::harness::pods::Pod;
use crate::harness::proxy::{Edit, Request, Verdict};

fn creates(r: &Request, container: &str) -> bool {
    r.is("POST", "/containers/create") && r.query.contains(&format!("k8s_{container}_"))
}

/// kubernetes/kubernetes#94829: the inspect of one container never returns; the other pods start, restart
/// and end as usual.
#[test]
fn k94829_one_inspect_that_hangs() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("bad.yaml", Pod::new("bad").text());
    let bad = node.wait_running("bad", "app");
    node.wait_phase("bad", "Running");
    let path = format!("/containers/{}/json", bad.id);
    faulty.proxy.rule(move |r| r.is("GET", &path).then_some(Verdict::Hold));
    node.kill9();
    faulty.launch();
    // The new daemon inspects everything that it finds.
    faulty.proxy.wait_for("GET", &format!("/containers/{}/json", bad.id), 1);
    node.write("good.yaml", Pod::new("good").text());
    let good = node.wait_running("good", "app");
    node.kill_container(&good.id, "KILL");
    node.wait_until("the other pod's container runs again", || {
        node.running("good", "app").iter().any(|c| c.attempt == 1)
    });
    node.remove("good.yaml");
    node.wait_until("the other pod has gone", || node.of("good").is_empty());
    // The container with the hanging inspect is handled as the list shows it.
    node.wait_phase("bad", "Running");
    assert_eq!(node.wait_running("bad", "app").id, bad.id);
    faulty.proxy.no_rule();
}

/// moby/moby#22312: DELETE fails with 500 for ever. The dead container holds nothing up: neither its own
/// pod's restart, edit and end, nor another pod.
#[test]
fn k22312_a_removal_that_fails_for_ever() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    let busy = "driver failed to remove root filesystem: device or resource busy";
    faulty.proxy.rule(move |r| (r.method == "DELETE").then(|| Verdict::Answer(500, busy.to_owned())));
    let pod = |uid: &str| Pod::new("p").set("/metadata/uid", uid).text();
    node.write("p.yaml", pod("removal-one"));
    let first = node.wait_running("p", "app");
    node.kill_container(&first.id, "KILL");
    node.wait_until("it is restarted", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    node.write("p.yaml", pod("removal-two"));
    node.wait_until("the edited pod runs", || {
        node.running("p", "app").iter().any(|c| c.uid == "removal-two")
    });
    assert_single(node, "edited");
    node.remove("p.yaml");
    node.wait_gone("p");
    node.write("q.yaml", Pod::new("q").text());
    node.wait_running("q", "app");
    node.write("p.yaml", pod("three"));
    node.wait_until("wanted again, it runs", || node.running("p", "app").iter().any(|c| c.uid == "three"));
    node.remove("p.yaml");
    node.wait_gone("p");
    faulty.proxy.no_rule();
    node.wait_until("what was left is removed once Docker can", || node.of("p").is_empty());
}

/// moby/moby#22312: containers that Docker calls `dead` or `removing` count as stopped.
#[test]
fn k22312_a_container_that_docker_calls_dead() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("p.yaml", Pod::new("p").text());
    let first = node.wait_running("p", "app");
    node.wait_phase("p", "Running");
    let id = first.id.clone();
    let edit: Edit = Arc::new(move |value: &mut Value| {
        value["State"]["Status"] = json!("dead");
        value["State"]["Dead"] = json!(true);
    });
    faulty.proxy.rule(move |r| {
        let stuck = || Verdict::Answer(500, "removal in progress".to_owned());
        let ours = r.path.contains(&id);
        match r.method.as_str() {
            "DELETE" if ours => Some(stuck()),
            "GET" if ours => Some(Verdict::Edit(Arc::clone(&edit))),
            _ => None,
        }
    });
    node.kill_container(&first.id, "KILL");
    node.wait_until("another one runs", || node.running("p", "app").iter().any(|c| c.id != first.id));
}

/// kubernetes/kubernetes#40443: the name is held by a container that does not exist; the pod runs under a
/// name with a suffix, once, and a new daemon recognizes it.
#[test]
fn k40443_a_name_held_by_a_ghost() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    let ghost = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let taken = Arc::new(Mutex::new(Vec::<String>::new()));
    let names = Arc::clone(&taken);
    faulty.proxy.rule(move |r| {
        if !r.is("POST", "/containers/create") {
            return None;
        }
        let mut names = names.lock().unwrap();
        // The first name of each container is taken for good.
        let container = r.query.split('_').nth(1).unwrap_or_default().to_owned();
        let haunted = match names.iter().find(|n| n.split('_').nth(1) == Some(&container)) {
            Some(name) => *name == r.query,
            None => {
                names.push(r.query.clone());
                true
            }
        };
        let name = r.query.trim_start_matches("name=").to_owned();
        haunted.then(|| {
            let why = format!(
                "Conflict. The container name \"/{name}\" is already in use by container \"{ghost}\". You have \
                 to remove (or rename) that container to be able to reuse that name."
            );
            Verdict::Answer(409, why)
        })
    });
    node.write("p.yaml", Pod::new("p").text());
    let app = node.wait_running("p", "app");
    let sandbox = node.wait_running("p", "POD");
    for c in [&app, &sandbox] {
        assert_eq!(c.name.split('_').count(), 7, "{}: a suffix", c.name);
    }
    let before = lives(node);
    assert_eq!(before.len(), 2, "{before:?}");
    node.kill9();
    faulty.launch();
    node.wait_phase("p", "Running");
    node.kill_container(&app.id, "KILL");
    node.wait_until("it is restarted", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    assert_eq!(node.running("p", "POD")[0].id, sandbox.id);
}

/// kubernetes/kubernetes#40443: a stranger holds the name: this is reported and waited for; once the
/// stranger is gone the pod runs.
#[test]
fn k40443_a_name_held_by_a_stranger() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("other.yaml", Pod::new("other").text());
    let stranger = node.wait_running("other", "app");
    let id = stranger.id.clone();
    // The stranger is a real container; the daemon sees it without podkeeper's labels.
    let strip: Edit = Arc::new(|value: &mut Value| value["Config"]["Labels"] = json!({}));
    faulty.proxy.rule(move |r| {
        if creates(r, "app") && r.query.contains("_p-") {
            let why = format!("Conflict. The container name \"/x\" is already in use by container \"{id}\".");
            return Some(Verdict::Answer(409, why));
        }
        let asks = r.method == "GET" && r.path.contains("k8s_app_p-");
        (asks && r.path.ends_with("/json")).then(|| Verdict::Edit(Arc::clone(&strip)))
    });
    // The daemon looks the name up: the stranger appears where it looks.
    node.write("p.yaml", Pod::new("p").text());
    faulty.proxy.wait_for("POST", "/containers/create", 4);
    faulty.proxy.no_rule();
    node.wait_running("p", "app");
    assert_eq!(node.wait_running("other", "app").id, stranger.id, "the stranger was touched");
}

/// balena-os/meta-balena#2062: an engine that alters or drops parts of a request. Nothing is created again
/// because of that: neither by the daemon that created it nor by the next one.
#[test]
fn k2062_inspect_that_drops_and_alters_fields() {
    let faulty = Faulty::prepare(&["--sync-frequency", "1s"]);
    let node = &faulty.node;
    let alter: Edit = Arc::new(|value: &mut Value| {
        let Some(top) = value.as_object_mut() else { return };
        for gone in
            ["NetworkSettings", "Mounts", "GraphDriver", "Driver", "Platform", "Args", "Path", "LogPath"]
        {
            top.remove(gone);
        }
        top.insert("HostConfig".to_owned(), Value::Null);
        top.insert("RestartCount".to_owned(), json!("many"));
        let config = &mut top["Config"];
        for other in ["Env", "Cmd", "Entrypoint", "Image", "Hostname", "StopSignal", "Tty", "Healthcheck"] {
            config[other] = json!(null);
        }
    });
    faulty.proxy.rule(move |r| {
        let inspect = r.method == "GET" && r.path.starts_with("/containers/") && r.path != "/containers/json";
        inspect.then(|| Verdict::Edit(Arc::clone(&alter)))
    });
    let pod = Pod::new("p").set("/spec/containers/0/resources", json!({"requests": {"memory": "8Mi"}}));
    node.write("p.yaml", pod.text());
    faulty.launch();
    node.wait_running("p", "app");
    node.wait_phase("p", "Running");
    let before = lives(node);
    let lists = faulty.proxy.count("GET", "/containers/json");
    faulty.proxy.wait_for("GET", "/containers/json", lists + 3);
    node.kill9();
    faulty.launch();
    faulty.proxy.wait_for("GET", "/containers/json", 3);
    node.wait_phase("p", "Running");
    assert_untouched(&before, node, "an altered inspect");
    assert_eq!(faulty.proxy.changes(), 0, "{:#?}", faulty.proxy.log());
}

/// Each field of the inspection is left out in turn, and then replaced by null: the adopted pod is not
/// touched, whatever its status can still show.
#[test]
fn k2062_each_field_of_inspect_is_lost_once() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("p.yaml", Pod::new("p").text());
    let app = node.wait_running("p", "app");
    node.wait_phase("p", "Running");
    let before = lives(node);
    let shape = node.inspect(&app.id);
    let mut places: Vec<String> = Vec::new();
    for (key, value) in shape.as_object().unwrap() {
        places.push(format!("/{key}"));
        if ["State", "Config"].contains(&key.as_str()) {
            places.extend(value.as_object().unwrap().keys().map(|inner| format!("/{key}/{inner}")));
        }
    }
    // A different field for every inspect; each daemon makes two, and asks again when it cannot use the
    // answer.
    let next = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&next);
    let all = places.clone();
    faulty.proxy.rule(move |r| {
        let inspect = r.method == "GET" && r.path.starts_with("/containers/") && r.path != "/containers/json";
        let place = all[counted.load(Ordering::Relaxed) % all.len()].clone();
        inspect.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            let edit: Edit = Arc::new(move |value: &mut Value| {
                let (parent, key) = place.rsplit_once('/').unwrap();
                if let Some(Value::Object(map)) = value.pointer_mut(parent) {
                    map.remove(key);
                }
            });
            Verdict::Edit(edit)
        })
    });
    while next.load(Ordering::Relaxed) < places.len() {
        node.kill9();
        faulty.launch();
        faulty.proxy.wait_for("GET", "/json", 4);
        node.wait_until("the status is written", || node.phase("p") == "Running");
    }
    assert_untouched(&before, node, "a lost field");
    assert_eq!(node.containers().len(), before.len());
}

/// An engine that is too old is reported in the status, and the daemon stays; when the engine is upgraded,
/// the pods run.
#[test]
fn an_engine_that_is_too_old_and_is_upgraded() {
    let faulty = Faulty::prepare(&[]);
    let node = &faulty.node;
    faulty.proxy.rule(|r| r.is("GET", "/_ping").then_some(Verdict::Header("Api-Version", "1.24")));
    node.write("p.yaml", Pod::new("p").text());
    faulty.launch();
    node.wait_until("the status says why", || {
        let docker = node.status().map(|s| s.docker);
        docker.is_some_and(|d| {
            !d.reachable && d.problem.is_some_and(|p| p.contains("1.24") && p.contains("1.40"))
        })
    });
    assert!(node.exited().is_none(), "the daemon ended");
    faulty.proxy.no_rule();
    node.wait_running("p", "app");
    node.wait_until("the status is well again", || node.status().is_some_and(|s| s.docker.reachable));
}

/// Every reply to a change is cut in the middle, once: the daemon finds the change done, and does not repeat
/// it.
#[test]
fn replies_that_are_cut_in_the_middle() {
    let faulty = Faulty::prepare(&[]);
    let node = &faulty.node;
    let cut = Mutex::new(std::collections::BTreeSet::<String>::new());
    faulty.proxy.rule(move |r| {
        let first = r.mutation.is_some() && cut.lock().unwrap().insert(format!("{}{}", r.path, r.query));
        first.then_some(Verdict::CutReply)
    });
    node.write("p.yaml", Pod::new("p").text());
    faulty.launch();
    node.wait_running("p", "app");
    node.wait_phase("p", "Running");
    let all: Vec<Container> = node.containers();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|c| c.state == DockerState::Running && c.attempt == 0), "{all:?}");
}

/// The socket exists but nothing answers, and later something does; the daemon stays, reports it, and
/// touches nothing.
#[test]
fn k37865_an_engine_that_hangs_as_a_whole() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("p.yaml", Pod::new("p").text());
    node.wait_phase("p", "Running");
    let before = lives(node);
    faulty.proxy.rule(|_| Some(Verdict::Hold));
    faulty.proxy.break_all();
    node.wait_until("the status says that Docker does not answer", || {
        node.status().is_some_and(|s| !s.docker.reachable && s.docker.problem.is_some())
    });
    assert!(node.exited().is_none(), "the daemon ended");
    faulty.proxy.no_rule();
    faulty.proxy.break_all();
    node.wait_until("the status is well again", || node.status().is_some_and(|s| s.docker.reachable));
    assert_untouched(&before, node, "a hung engine");
    node.write("q.yaml", Pod::new("q").text());
    node.wait_running("q", "app");
}
