//! The contract with an API server, by what a real kubelet sent to one and what that answered: Kubernetes 1.36 on one node,
//! recorded, and reduced to one request of each form and to the answers about three pods. In one role what podkeeper sends
//! is compared with what the kubelet did in the same place; in the other the server's answers drive podkeeper.
//!
//! `cluster/recorded/differences.txt` has all differences. A new one is either right or a bug.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};

use super::answer::Answer;
use super::node::heart::{Ask as NodeAsk, Heart, Next as NodeNext};
use super::node::{Settings, object};
use super::pods::desk::{Ask, Desk, Next, World};
use super::{event_sender, events, heartbeat, pod_status};
use crate::api_client::pods::PodsOfNode;
use crate::api_client::{ApiError, Request};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::table::Set;
use crate::base::testing::{golden, recorded};
use crate::cluster::pods::added::Failures;
use crate::node::facts::Facts;
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::recorder::{List, ObjectEvent, Ring, Subject, words};
use crate::status::snapshot::{ConditionView, DockerView, PodView, Snapshot, SourceView};

const WALL: Timestamp = Timestamp::constant(1_795_000_000, 0);

fn at(seconds: u64) -> Now {
    Now { mono: Mono(Duration::from_secs(seconds)), wall: WALL }
}

/// The shape of bodies: by path the types of the values. `[]` is an element of a list, `*` a name that a user chooses.
type Shape = BTreeMap<String, Set<&'static str>>;

/// Objects whose fields are such names.
const OPEN: [&str; 7] =
    ["labels", "annotations", "capacity", "allocatable", "requests", "limits", "allocatedResources"];

fn shape(of: &Value, path: &str, into: &mut Shape) {
    let kind = match of {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    into.entry(path.to_owned()).or_default().insert(kind);
    let is_open = OPEN.iter().any(|name| path.rsplit('.').next() == Some(*name));
    match of {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if is_open { "*" } else { name };
                shape(value, &format!("{path}.{name}"), into);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| shape(one, &format!("{path}[]"), into)),
        _ => {}
    }
}

/// Method and path without names and query.
fn form(method: &str, path: &str) -> String {
    let mut before = "";
    let parts = path.split('?').next().unwrap().split('/').map(|part| {
        let is_name = ["namespaces", "pods", "events", "nodes", "leases"].contains(&before);
        before = part;
        if is_name { "*" } else { part }
    });
    format!("{method} {}", parts.collect::<Vec<_>>().join("/"))
}

/// The kubelet's requests, by form.
struct Kubelet {
    bodies: BTreeMap<String, (Shape, Set<String>)>,
}

impl Kubelet {
    fn recorded() -> Kubelet {
        let mut bodies: BTreeMap<String, (Shape, Set<String>)> = BTreeMap::new();
        for row in recorded("requests.jsonl") {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let (all, types) = bodies.entry(form(&text("method"), &text("path"))).or_default();
            types.insert(text("contentType"));
            shape(&row["body"], "", all);
        }
        // Of the node's status a kubelet sends what has changed, and little did.
        let whole = bodies["POST /api/v1/nodes"].0.clone();
        bodies.get_mut("PATCH /api/v1/nodes/*/status").unwrap().0.extend(whole);
        Kubelet { bodies }
    }

    /// Fields that the kubelet did not send in a request of this form.
    fn differences(&self, request: &Request) -> Vec<String> {
        let form = form(request.method.word(), &request.path);
        let Some((known, types)) = self.bodies.get(&form) else { return vec![form] };
        let Some(body) = &request.body else { return Vec::new() };
        let mut ours = Shape::new();
        shape(&serde_json::from_slice(body).unwrap(), "", &mut ours);
        let is_alike = types.contains(request.method.content_type());
        let wrong_type = (!is_alike).then(|| format!("{form}: {}", request.method.content_type()));
        let fields = ours.iter().filter_map(|(path, kinds)| match known.get(path) {
            None => Some(format!("{form} {path}")),
            // A patch removes with null.
            Some(known) if kinds.iter().all(|kind| *kind == "null" || known.contains(kind)) => None,
            Some(known) => Some(format!("{form} {path}: {kinds:?} and not {known:?}")),
        });
        wrong_type.into_iter().chain(fields).collect()
    }

    /// Fields that every body of this form had, and this one lacks.
    fn missing(&self, request: &Request) -> Vec<String> {
        let form = form(request.method.word(), &request.path);
        let rows = recorded("requests.jsonl");
        let same = rows
            .iter()
            .filter(|row| self::form(row["method"].as_str().unwrap(), row["path"].as_str().unwrap()) == form);
        let shapes = same.map(|row| {
            let mut all = Shape::new();
            shape(&row["body"], "", &mut all);
            all.into_keys().collect::<Set<_>>()
        });
        let always =
            shapes.reduce(|a, b| a.into_iter().filter(|it| b.contains(it)).collect()).unwrap_or_default();
        let mut ours = Shape::new();
        shape(&serde_json::from_slice(request.body.as_deref().unwrap_or(b"null")).unwrap(), "", &mut ours);
        always
            .into_iter()
            .filter(|path| !ours.contains_key(path))
            .map(|path| format!("{form} {path}"))
            .collect()
    }
}

/// The server's answer to a request of this form; the first of this code.
fn answered(form: &str, code: u16) -> Answer {
    let rows = recorded("answers.jsonl");
    let row = rows.iter().find(|row| {
        let of = self::form(row["method"].as_str().unwrap(), row["path"].as_str().unwrap());
        of == form && row["status"] == code
    });
    let body = row.unwrap_or_else(|| panic!("{form} {code} is not recorded"))["body"].clone();
    if code < 300 {
        return Answer::of(Ok(body));
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (reason, message) = (text("reason"), text("message"));
    Answer::of(Err(ApiError::Status { code, reason, message, retry_after: None }))
}

/// The events of the watch on a pod, by version.
fn watched(name: &str) -> BTreeMap<u64, Value> {
    let rows = recorded("answers.jsonl");
    let frames = rows.iter().filter_map(|row| row["frames"].as_array()).flatten();
    let of = frames.map(|frame| &frame["object"]).filter(|object| object["metadata"]["name"] == name);
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    of.map(|object| (version(object), object.clone())).collect()
}

/// All requests about the node in its first minute, by the server's answers.
fn of_node() -> Vec<Request> {
    let labels = [("kubernetes.io/hostname", "node1"), ("kubernetes.io/os", "linux")];
    let mut snapshot = Snapshot { node: "node1".into(), ..Snapshot::default() };
    snapshot.docker = DockerView { reachable: true, ..DockerView::default() };
    snapshot.conditions = vec![ConditionView {
        type_: "Ready".into(),
        is_true: true,
        reason: "KubeletReady".into(),
        message: "kubelet is posting ready status".into(),
        since: WALL,
    }];
    snapshot.info.labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let resources: BTreeMap<String, String> =
        [("cpu", "2"), ("memory", "262144Ki"), ("pods", "110")].map(|(a, b)| (a.into(), b.into())).into();
    (snapshot.info.capacity, snapshot.info.allocatable) = (resources.clone(), resources);
    let settings = Settings { port: Some(10250), ..Settings::of("node1") };
    let (facts, images, addresses) =
        (Facts::default(), json!([{"names": ["busybox:1"], "sizeBytes": 7}]), ["192.0.2.9".to_owned()]);
    let around =
        object::Around { facts: &facts, addresses: &addresses, images: &images, docker: Some("20.10.24") };
    let mut heart = Heart::new(settings.clone(), 1, Mono::default());
    let (mut all, mut millis) = (Vec::new(), 0_u64);
    while millis < 60_000 {
        let now = Now { mono: Mono(Duration::from_millis(millis)), wall: WALL };
        match heart.next(&snapshot, &around, &now) {
            NodeNext::Wait(until) => {
                millis = u64::try_from(until.0.as_millis()).unwrap().max(millis + 1);
            }
            NodeNext::Ask(ask) => {
                let request = heartbeat::request("node1", &ask);
                let form = form(request.method.word(), &request.path);
                let answer = match &ask {
                    NodeAsk::Create(_) | NodeAsk::CreateLease(_) => answered(&form, 201),
                    NodeAsk::ReadLease => answered(&form, 404),
                    NodeAsk::Read => answered("PATCH /api/v1/nodes/*/status", 200),
                    NodeAsk::Patch(_) | NodeAsk::RenewLease(_) => answered(&form, 200),
                };
                let ours = object::node(&settings, &snapshot, &around, WALL);
                heart.told(&ask, answer, &ours, now.mono);
                all.push(request);
                millis += 1;
            }
        }
    }
    all
}

fn of_events() -> Vec<Request> {
    let key = PodKey { namespace: "default".into(), name: "web".into() };
    let subject = Subject { list: List::Regular, name: "app".into() };
    let event = || {
        ObjectEvent::new(key.clone(), "u".into(), Some(subject.clone()), words::rejected("Reason", "Told."))
    };
    let (mut ring, mut post, mut all) = (Ring::default(), events::Post::default(), Vec::new());
    ring.add(ObjectEvent::of_node("node1", words::node_is("node1", "NodeReady", true)), &at(0));
    for seconds in 0..3 {
        ring.add(event(), &at(seconds));
        while let events::Next::Ask(ask) = post.next(&ring.all(), "node1", at(seconds).mono) {
            all.push(event_sender::request(&ask));
            post.told(&ask, &Answer::Done(json!({})), 0, at(seconds).mono);
        }
    }
    all
}

/// One pod here and at the server.
struct Sides {
    desk: Desk,
    view: PodView,
    server: PodsOfNode,
    asked: Vec<Request>,
    seconds: u64,
}

impl Sides {
    /// The node has the pod as the server's object says.
    fn new(object: &Value, source: Source) -> Sides {
        let pod: Pod = serde_json::from_value(object.clone()).unwrap();
        let (metadata, status) = (pod.metadata, pod.status.unwrap_or_default());
        let name = metadata.name.clone().unwrap();
        let annotations = metadata.annotations.clone().unwrap_or_default();
        // What a pod of a file has as UID the server keeps in its mirror's annotation.
        let hash = annotations.get("kubernetes.io/config.hash").cloned();
        let desired = DesiredPod {
            key: PodKey { namespace: "default".into(), name },
            uid: hash.or(metadata.uid.clone()).unwrap(),
            written: None,
            shape: None,
            source,
            origin: Origin { path: String::new(), document: 0 },
            metadata,
            spec: Arc::new(pod.spec.unwrap()),
            status: PodStatus::default(),
            withheld: Default::default(),
            ceiling: i32::MAX,
            weight: 0,
        };
        let view = PodView { is_kept: true, ..PodView::shown(Arc::new(desired), Arc::new(status)) };
        let server = PodsOfNode { is_complete: true, ..PodsOfNode::default() };
        Sides { desk: Desk::default(), view, server, asked: Vec::new(), seconds: 0 }
    }

    /// The watch tells of this version; `None`: the pod is gone.
    fn watch(&mut self, object: Option<&Value>) {
        let copy = object.map(|object| Arc::new(serde_json::from_value(object.clone()).unwrap()));
        let key = self.view.pod.key.clone();
        self.server.pods = copy.into_iter().map(|copy| (key.clone(), copy)).collect();
    }

    fn status(&mut self, object: &Value) {
        self.view.status = Arc::new(serde_json::from_value(object["status"].clone()).unwrap());
    }

    /// The request that is due now; its answer is passed on.
    fn ask(&mut self, answer: impl Fn(&Ask) -> Answer) -> Option<Ask> {
        self.seconds += 1;
        let source = |name: &str| SourceView { ready: true, ..SourceView::silent(name) };
        let snapshot = Snapshot {
            node: "node1".into(),
            pods: vec![self.view.clone()],
            sources: vec![source("file"), source("api")],
            ..Snapshot::default()
        };
        let address = self.view.status.host_ip.clone().unwrap_or_default();
        let addresses = [address];
        let world = World {
            snapshot: &snapshot,
            server: &self.server,
            failures: &Failures::default(),
            addresses: &addresses,
            node: "node1",
            uid: Some("node-uid"),
        };
        match self.desk.next(&world, &at(self.seconds)) {
            Next::Wait(_) => None,
            Next::Ask(key, ask) => {
                self.asked.push(pod_status::request(&key, &ask));
                let answer = answer(&ask);
                self.desk.told(&key, ask.clone(), answer, &self.server, at(self.seconds).mono);
                Some(ask)
            }
        }
    }
}

/// A pod from its first status to its end, as the server had it. Returns what was asked.
fn of_pod() -> Vec<Request> {
    let all = watched("web");
    let frame = |version: u64| &all[&version];
    let mut sides = Sides::new(frame(350), Source::Api);
    sides.watch(Some(frame(303)));
    let Some(Ask::Status(patch)) = sides.ask(|_| Answer::Done(frame(350).clone())) else {
        panic!("it runs, and that is not told")
    };
    assert_eq!(patch["metadata"]["uid"], frame(303)["metadata"]["uid"]);
    assert_eq!(patch["status"]["phase"], "Running");
    assert_eq!(sides.ask(|_| panic!("twice")), None, "the answer counts before the watch has it");
    for version in [303, 305, 328, 350] {
        sides.watch(Some(frame(version)));
        assert_eq!(
            sides.ask(|_| panic!("{version}")),
            None,
            "a watch that lags behind makes nobody tell it twice"
        );
    }
    // Deleted: its end is told, then the object goes, and nothing is asked of one that is gone.
    sides.watch(Some(frame(429)));
    sides.view.leaving = Some(WALL);
    sides.ask(|_| Answer::Done(frame(429).clone()));
    sides.status(frame(438));
    sides.view.is_over = true;
    let told = sides.ask(|_| Answer::Done(frame(438).clone()));
    assert!(matches!(told, Some(Ask::Status(_))), "{told:?}");
    let part = |at: u64, of: &str| frame(at)["metadata"][of].as_str().unwrap().to_owned();
    let (uid, version) = (part(350, "uid"), Some(part(438, "resourceVersion")));
    let finished = sides.ask(|_| answered("DELETE /api/v1/namespaces/*/pods/*", 200));
    assert_eq!(finished, Some(Ask::Finish { uid, version }));
    assert_eq!(sides.ask(|_| panic!("twice")), None);
    sides.watch(None);
    assert_eq!(sides.ask(|_| panic!("of one that is gone")), None);
    sides.asked
}

/// A mirror pod, which somebody deletes.
fn of_mirror() -> Vec<Request> {
    let all = watched("static-node1");
    let rows = recorded("requests.jsonl");
    let made = rows.iter().find(|row| row["method"] == "POST" && row["body"]["kind"] == "Pod").unwrap();
    let mut sides = Sides::new(&made["body"], Source::File);
    sides.status(&all[&411]);
    let made = sides.ask(|_| answered("POST /api/v1/namespaces/*/pods", 201));
    assert!(matches!(made, Some(Ask::MakeMirror(_))), "{made:?}");
    sides.watch(Some(&all[&406]));
    let told = sides.ask(|_| Answer::Done(all[&411].clone()));
    assert!(matches!(told, Some(Ask::Status(_))), "{told:?}");
    sides.watch(Some(&all[&411]));
    assert_eq!(sides.ask(|_| panic!("again")), None);
    // Its object alone goes, and there is another one.
    sides.watch(Some(&all[&415]));
    let dropped = sides.ask(|_| answered("DELETE /api/v1/namespaces/*/pods/*", 200));
    let uid = all[&415]["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(dropped, Some(Ask::DropMirror(uid)));
    sides.watch(None);
    let again = sides.ask(|_| answered("POST /api/v1/namespaces/*/pods", 409));
    assert!(matches!(again, Some(Ask::MakeMirror(_))), "{again:?}");
    sides.watch(Some(&all[&418]));
    let told = sides.ask(|_| Answer::Done(all[&424].clone()));
    assert!(matches!(told, Some(Ask::Status(_))), "{told:?}");
    sides.asked
}

#[test]
fn what_is_sent_is_of_the_kubelets_form() {
    let kubelet = Kubelet::recorded();
    let requests: Vec<Request> =
        [of_node(), of_events(), of_pod(), of_mirror()].into_iter().flatten().collect();
    let more: Set<String> = requests.iter().flat_map(|request| kubelet.differences(request)).collect();
    // Of a patch nothing has to be there.
    let whole = requests.iter().filter(|request| request.method.word() != "PATCH");
    let less: Set<String> = whole.flat_map(|request| kubelet.missing(request)).collect();
    // What is below something that differs differs with it.
    let is_below = |line: &str, other: &String| {
        line.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let lines = |head: &str, all: &Set<String>| {
        let top = all.iter().filter(|line| !all.iter().any(|other| is_below(line, other)));
        format!("{head}\n{}\n", top.map(|line| format!("  {line}\n")).collect::<String>())
    };
    let text = lines("sent, and not by the kubelet", &more)
        + &lines("always sent by the kubelet, and not here", &less);
    golden("cluster/recorded/differences.txt", &(text.trim_end().to_owned() + "\n"));
}

/// The server has the status that its kubelet sent: a node with the same one sends nothing.
#[test]
fn what_the_server_has_is_not_told_again() {
    let mut judged = 0;
    for name in ["web", "once", "static-node1"] {
        for (version, object) in watched(name) {
            let source = if name == "static-node1" { Source::File } else { Source::Api };
            let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
            // Before its first status the server alone has spoken.
            if object["status"]["containerStatuses"].is_null() || is_deleted {
                continue;
            }
            let mut sides = Sides::new(&object, source);
            sides.watch(Some(&object));
            assert_eq!(sides.ask(|_| panic!("told")), None, "{name} {version}");
            judged += 1;
        }
    }
    assert!(judged >= 6, "{judged}");
}

#[test]
fn what_the_kubelet_would_not_send_is_found() {
    let kubelet = Kubelet::recorded();
    let path = "/api/v1/namespaces/default/pods/web/status";
    let check = |method, path: &str, body: Value, expected: &[&str]| {
        assert_eq!(kubelet.differences(&Request::with(method, path, &body)), expected);
    };
    use crate::api_client::Method;
    check(Method::StrategicPatch, path, json!({"status": {"phase": "Running", "startTime": null}}), &[]);
    let form = "PATCH /api/v1/namespaces/*/pods/*/status";
    let unknown = format!("{form} .status.weather");
    check(Method::StrategicPatch, path, json!({"status": {"weather": 1}}), &[&unknown]);
    let wrong = format!("{form} .status.phase: {{\"number\"}} and not {{\"string\"}}");
    check(Method::StrategicPatch, path, json!({"status": {"phase": 1}}), &[&wrong]);
    check(Method::Put, path, json!({}), &["PUT /api/v1/namespaces/*/pods/*/status"]);
}
