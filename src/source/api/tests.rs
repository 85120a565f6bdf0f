//! Tests of the whole source against a real server over TLS.

mod events;
mod node;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};
use serde_json::{Value, json};

use super::{ApiSource, Parts, Patience};
use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::api_client::testing::{Asked, Authority, Server, begin, chunk, json as answer};
use crate::base::clock::System;
use crate::base::testing::{recorded, scratch};
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::{PodSet, SourceUpdate};
use crate::status::task::{Pulses, Task};

const PATIENCE: Duration = Duration::from_secs(60);

/// Answers requests that are not for the list of pods.
type Objects = fn(&Asked, &mut dyn Write) -> std::io::Result<bool>;

struct Rig {
    _source: ApiSource,
    _server: Server,
    pods: ServerPods,
    heard: Receiver<SourceUpdate>,
}

fn pod(name: &str, spec: &Value, status: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = "n1".into();
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mount = |volume: &Value| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"])});
    let mounts: Vec<Value> = volumes.map(mount).collect();
    spec["containers"] = json!([{"name": "app", "image": "busybox", "volumeMounts": mounts}]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "5"},
    })
}

/// The time limits of these tests: long for one call, because the machine may be busy.
fn patience() -> Patience {
    Patience { objects: Duration::from_secs(1), again: Duration::from_millis(400), ..Patience::default() }
}

fn start(name: &str, serve: Box<crate::api_client::testing::Answerer>) -> Rig {
    start_with(name, patience(), serve)
}

fn start_with(name: &str, patience: Patience, serve: Box<crate::api_client::testing::Answerer>) -> Rig {
    start_on("n1", name, patience, serve)
}

/// The same on a node of this name.
fn start_on(
    node: &str,
    name: &str,
    patience: Patience,
    serve: Box<crate::api_client::testing::Answerer>,
) -> Rig {
    let (authority, directory) = (Authority::new(), scratch(name));
    let server = Server::start(&authority, serve);
    let client = Client::new(server.kubeconfig(&directory, &authority, ""));
    let (tell, heard) = unbounded();
    let pods = ServerPods::default();
    let source = ApiSource::start(Parts {
        client,
        acceptor: Acceptor::new(Source::Api, node.to_owned()),
        store: None,
        pods: pods.clone(),
        clock: System::start(),
        patience,
        pulses: Pulses::default(),
        out: Box::new(move |from| tell.send(from.update).is_ok()),
    });
    Rig { _source: source.unwrap(), _server: server, pods, heard }
}

#[test]
fn the_thread_is_watched() {
    let ((say, said), (go_on, gate)) = (unbounded(), bounded::<()>(0));
    let directory = scratch("api-watched");
    let pulses = Pulses::default();
    let source = ApiSource::start(Parts {
        client: Client::new(directory.join("missing")),
        acceptor: Acceptor::new(Source::Api, "n1".to_owned()),
        store: None,
        pods: ServerPods::default(),
        clock: System::start(),
        patience: Patience::default(),
        pulses: pulses.clone(),
        out: Box::new(move |from| {
            say.send(from.update).unwrap();
            _ = gate.recv();
            true
        }),
    });
    let tasks = || pulses.busy().into_iter().map(|busy| busy.task).collect::<Vec<_>>();
    assert!(matches!(said.recv(), Ok(SourceUpdate::Failed(_))));
    assert_eq!(tasks(), [Task::Source(Source::Api)], "nobody takes what it says");
    drop(go_on);
    let end = Instant::now() + PATIENCE;
    while !tasks().is_empty() {
        assert!(Instant::now() < end, "it waits until it asks again");
        thread::sleep(Duration::from_millis(5));
    }
    drop(source);
    std::fs::remove_dir_all(directory).unwrap();
}

/// A server that streams these pods.
fn with(name: &str, patience: Patience, pods: Vec<Value>, objects: Objects) -> Rig {
    start_with(
        name,
        patience,
        Box::new(move |asked, out| {
            if !asked.line.starts_with("GET /api/v1/pods?") {
                return objects(asked, out);
            }
            begin(out)?;
            for pod in &pods {
                chunk(out, &format!("{}\n", json!({"type": "ADDED", "object": pod})))?;
            }
            let end = json!({"kind": "Pod", "metadata": {"resourceVersion": "5",
                "annotations": {"k8s.io/initial-events-end": "true"}}});
            chunk(out, &format!("{}\n", json!({"type": "BOOKMARK", "object": end})))?;
            thread::sleep(PATIENCE);
            Ok(false)
        }),
    )
}

fn not_found(out: &mut dyn Write) -> std::io::Result<bool> {
    answer(
        out,
        404,
        &json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}).to_string(),
    )
}

impl Rig {
    /// The first set of this kind.
    fn set(&self, what: &str, is_it: impl Fn(&PodSet) -> bool) -> PodSet {
        let until = Instant::now() + PATIENCE;
        let mut last = None;
        while let Ok(update) = self.heard.recv_deadline(until) {
            match update {
                SourceUpdate::Full(set) if is_it(&set) => return set,
                other => last = Some(other),
            }
        }
        panic!("{what}: {last:?}")
    }
}

fn names(set: &PodSet) -> Vec<&str> {
    set.pods.iter().map(|pod| pod.key.name.as_str()).collect()
}

#[test]
fn a_pod_whose_objects_the_server_does_not_give_holds_no_other_one_up() {
    let token = json!({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]});
    let maybe = json!({"volumes": [{"name": "s", "secret": {"secretName": "broken", "optional": true}}]});
    let pods = vec![
        pod("bad", &token, &json!({})),
        pod("good", &json!({}), &json!({})),
        pod("maybe", &maybe, &json!({})),
    ];
    let rig =
        with("api-no-token", patience(), pods, |asked, out| match asked.line.contains("secrets/broken") {
            true => answer(out, 500, "{}"),
            false => not_found(out),
        });
    let set = rig.set("the first set", |_| true);
    // Its status shows what it waits for; it must not start without an object that may exist.
    assert_eq!(names(&set), ["bad", "good"]);
    assert_eq!(set.broken.len(), 1, "what runs of it is left alone: {:?}", set.broken);
    assert!(set.broken[0].ends_with("/api/v1/namespaces/shop/pods/maybe"), "{:?}", set.broken);
    let told: Vec<String> = set.problems.iter().map(|it| it.message.clone()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("without the environment variables of Services"), "{told:?}");
    assert!(told[1].contains("the token of service account default") && told[1].contains("404"), "{told:?}");
    assert!(told[2].contains("Secret shop/broken") && told[2].contains("500"), "{told:?}");
    // The cluster's users see it, too: nothing else is known of such a pod at the server.
    let waiting: Vec<(&str, &str)> = set.waiting.iter().map(|it| (&*it.key.name, &*it.uid)).collect();
    assert_eq!(waiting, [("bad", "uid-bad"), ("maybe", "uid-maybe")]);
    assert!(set.waiting[0].why.starts_with("waits for the token of service account default: "), "{set:?}");
    // An answer without a change is not sent again.
    assert!(rig.heard.recv_timeout(patience().again * 3).is_err());
}

#[test]
fn the_server_is_not_asked_for_a_name_that_no_object_has() {
    let volumes = ["..", "a/b", "A", "a b"].into_iter().enumerate().flat_map(|(i, name)| {
        [
            json!({"name": format!("s{i}"), "secret": {"secretName": name}}),
            json!({"name": format!("c{i}"), "configMap": {"name": name}}),
            json!({"name": format!("p{i}"), "persistentVolumeClaim": {"claimName": name}}),
        ]
    });
    let pods = vec![pod("odd", &json!({"volumes": volumes.collect::<Vec<_>>()}), &json!({}))];
    let rig = with("api-odd-names", patience(), pods, |asked, out| match asked.line.contains("/services") {
        true => not_found(out),
        false => answer(out, 500, "{}"),
    });
    let set = rig.set("the first set", |_| true);
    assert_eq!((names(&set), set.broken.len()), (vec!["odd"], 0));
    let told: Vec<&str> = set.problems.iter().map(|it| it.message.as_str()).collect();
    assert!(told.iter().all(|it| !it.contains("500")), "{told:?}");
}

#[test]
fn an_object_whose_reading_hangs_does_not_hold_up_those_of_other_pods() {
    let of = |kind: &str, spec: Value| json!({"volumes": [{"name": "v", kind: spec}]});
    let pods = vec![
        pod("aaa", &of("secret", json!({"secretName": "hang"})), &json!({})),
        pod("zzz", &of("configMap", json!({"name": "cm"})), &json!({})),
    ];
    let rig =
        with("api-hang", Patience { call: Duration::from_secs(1), ..patience() }, pods, |asked, out| {
            if asked.line.ends_with("secrets/hang") {
                thread::sleep(PATIENCE);
                return Ok(false);
            }
            answer(
                out,
                200,
                &json!({"metadata": {"name": "cm", "namespace": "shop"}, "data": {"a": "b"}}).to_string(),
            )
        });
    rig.set("the ConfigMap is looked up", |set| {
        set.objects.iter().any(|object| object.key.to_string() == "ConfigMap shop/cm")
    });
}

/// It was found with the common round, a minute later.
#[test]
fn an_object_that_is_made_later_than_its_pod_is_found_soon() {
    let of = json!({"volumes": [{"name": "v", "configMap": {"name": "cm"}}]});
    static ASKED_FOR: AtomicUsize = AtomicUsize::new(0);
    let pods = vec![pod("early", &of, &json!({}))];
    let rig = with("api-later-object", patience(), pods, |asked, out| {
        let is_it = asked.line.contains("configmaps/cm");
        if !is_it || ASKED_FOR.fetch_add(1, Ordering::SeqCst) < 3 {
            return not_found(out);
        }
        let object = json!({"metadata": {"name": "cm", "namespace": "shop"}, "data": {"a": "b"}});
        answer(out, 200, &object.to_string())
    });
    let set = rig.set("the pod without it", |set| names(set) == ["early"]);
    assert!(set.objects.iter().all(|it| it.key.to_string() != "ConfigMap shop/cm"), "{:?}", set.objects);
    rig.set("the ConfigMap", |set| set.objects.iter().any(|it| it.key.to_string() == "ConfigMap shop/cm"));
}

#[test]
fn a_pod_that_cannot_be_read_is_kept_as_it_was_and_told() {
    let lists = AtomicUsize::new(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        if asked.line.contains("sendInitialEvents") {
            return answer(out, 422, "{}");
        }
        let list =
            |pods: &[Value]| json!({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": pods});
        match (asked.line.contains("watch=1"), lists.load(Ordering::SeqCst)) {
            (true, 1) => answer(out, 410, "{}"),
            (true, _) => {
                begin(out)?;
                thread::sleep(PATIENCE);
                Ok(false)
            }
            (false, before) => {
                lists.fetch_add(1, Ordering::SeqCst);
                let strange = json!({"hostIPs": [{"ip": 5}]});
                let good = pod("good", &json!({}), if before == 0 { &Value::Null } else { &strange });
                let other = pod("other", &json!({}), &strange);
                answer(out, 200, &list(&[good, other]).to_string())
            }
        }
    };
    let rig = start("api-strange", Box::new(serve));
    let first = rig.set("the first set", |_| true);
    assert_eq!((names(&first), first.problems.len()), (vec!["good"], 2), "one is about Services");
    let set = rig.set("the second set", |set| set.problems.len() == 3);
    assert_eq!(names(&set), ["good"], "it was left out");
    assert_eq!(set.broken.len(), 2, "an earlier daemon may have started both");
    let told: Vec<String> = set.problems.iter().map(ToString::to_string).collect();
    assert!(told[1].contains("shop/good") && told[1].contains("status"), "{told:?}");
    assert!(told[2].contains("shop/other") && told[2].contains("status"), "{told:?}");
}

#[test]
fn a_server_without_services_holds_no_pod_up() {
    let rig = with("api-no-services", patience(), vec![pod("p", &json!({}), &json!({}))], |_, out| {
        out.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nnone",
        )?;
        Ok(true)
    });
    let set = rig.set("the first set", |_| true);
    assert_eq!((names(&set), set.objects.len()), (vec!["p"], 1));
    let told = &set.problems[0].message;
    let expected = "namespace shop: containers start without the environment variables of Services";
    assert!(told.contains(expected), "{told}");
}

/// No pod of the namespace started, and the reason shown was that a ConfigMap was not found.
#[test]
fn more_services_than_a_process_can_be_told_of_hold_no_pod_up() {
    let rig = with("api-many-services", patience(), vec![pod("p", &json!({}), &json!({}))], |asked, out| {
        if !asked.line.starts_with("GET /api/v1/namespaces/shop/services") {
            return not_found(out);
        }
        let service = |n: usize| {
            json!({"metadata": {"namespace": "shop", "name": format!("service-{n:05}-of-a-large-namespace")},
                   "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "name": "http"}]}})
        };
        let all: Vec<Value> = (0..4000).map(service).collect();
        answer(out, 200, &json!({"items": all}).to_string())
    });
    let set = rig.set("the first set", |_| true);
    assert_eq!((names(&set), set.objects.len()), (vec!["p"], 1));
    assert!((400 << 10..600 << 10).contains(&set.objects[0].size()), "{}", set.objects[0].size());
    let told = &set.problems[0].message;
    assert!(told.starts_with("namespace shop: ") && told.contains(" of 4000 Services have no "), "{told}");
}

/// Objects are remembered as text, Secrets too.
#[test]
fn k12396_the_objects_of_a_server_show_no_secret_when_they_are_formatted() {
    use crate::pod::object::testing;
    const CANARY: &str = "canary-0123456789-abcdefghijklmn";
    let text = testing::secret("s", &format!("{{k: {CANARY}}}"));
    let mut objects = super::objects::Objects::new(Duration::from_secs(1));
    for object in testing::snapshot(&text).values() {
        objects.remember(object.clone(), text.clone());
    }
    let shown = format!("{objects:?}");
    assert!(shown.contains("\"s\"") && !shown.contains(CANARY), "{shown}");
}

/// The answer of a real server to a kubelet, for one request of podkeeper's; `cluster/tests.rs` says where it is from.
fn recorded_answer(asked: &str, rows: &[Value]) -> Option<Value> {
    let (method, path) = asked.split_once(' ')?;
    // Of Services it asks one namespace, where the kubelet asked all.
    let path = &path.replace("/namespaces/default/services", "/services");
    let bare = |path: &str| path.split('?').next().unwrap().to_owned();
    let of = |row: &&Value| {
        row["method"] == method && row["path"].as_str().is_some_and(|it| bare(it) == bare(path))
    };
    if let Some(row) = rows.iter().find(of) {
        return Some(row["body"].clone());
    }
    // The kubelet lists one object by its name, and podkeeper gets it.
    let bare = bare(path);
    let (list, name) = bare.rsplit_once('/')?;
    let lists =
        rows.iter().filter(|row| row["path"].as_str().is_some_and(|it| it.starts_with(&format!("{list}?"))));
    lists
        .filter_map(|row| row["body"]["items"].as_array())
        .flatten()
        .find(|item| item["metadata"]["name"] == name)
        .cloned()
}

#[test]
fn what_a_real_server_told_a_kubelet_is_followed() {
    let (go_on, gate) = bounded::<()>(1);
    let rows = recorded("answers.jsonl");
    let rig = start_on(
        "node1",
        "api-recorded",
        patience(),
        Box::new(move |asked, out| {
            if !asked.line.starts_with("GET /api/v1/pods?") {
                return match recorded_answer(&asked.line, &rows) {
                    Some(body) => answer(out, 200, &body.to_string()),
                    None => not_found(out),
                };
            }
            let (is_watch, streams) =
                (asked.line.contains("watch=1"), asked.line.contains("sendInitialEvents"));
            let is_alike = |row: &&Value| {
                row["path"].as_str().is_some_and(|path| {
                    path.starts_with("/api/v1/pods?")
                        && path.contains("watch=true") == is_watch
                        && path.contains("sendInitialEvents") == streams
                })
            };
            let row = rows.iter().find(is_alike).unwrap();
            if !is_watch {
                return answer(out, 200, &row["body"].to_string());
            }
            begin(out)?;
            for frame in row["frames"].as_array().unwrap() {
                // From here on the pods are deleted.
                if frame["object"]["metadata"]["resourceVersion"] == "429" {
                    _ = gate.recv();
                }
                chunk(out, &format!("{frame}\n"))?;
            }
            if streams {
                // This server could not stream, said so, and ended the answer.
                out.write_all(b"0\r\n\r\n")?;
                out.flush()?;
                return Ok(true);
            }
            thread::sleep(PATIENCE);
            Ok(false)
        }),
    );
    rig.set("the list has none", |set| set.pods.is_empty());
    let set = rig.set("a mirror pod is nobody's wish", |set| names(set) == ["once", "web"]);
    assert!(set.problems.is_empty() && set.broken.is_empty(), "{:?}", set.problems);
    let objects: Vec<String> = set.objects.iter().map(|object| object.key.to_string()).collect();
    for wanted in ["ConfigMap default/settings", "Secret default/token", "ConfigMap default/kube-root-ca.crt"]
    {
        assert!(objects.contains(&wanted.to_owned()), "{wanted}: {objects:?}");
    }
    go_on.send(()).unwrap();
    rig.set("they are deleted and gone", |set| set.pods.is_empty());
}
