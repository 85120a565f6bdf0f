//! Tables of requests about pods. Times are fixed; the server's pods and the node's are written as JSON.

mod phases;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::desk::{Ask, Desk, News, Next, World};
use super::wanted::{Here, patch};
use crate::api_client::pods::PodsOfNode;
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::table::Table;
use crate::cluster::answer::Answer;
use crate::cluster::pods::added::Failures;
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::status::snapshot::{PodView, Snapshot, SourceView};

const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);

fn at(seconds: u64) -> Now {
    Now { mono: Mono(Duration::from_secs(seconds)), wall: NOW }
}

/// A pod of one container `app`, of this source.
fn desired(source: Source, uid: &str, spec: Value) -> DesiredPod {
    let mut metadata = ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
    let annotations = [("kubernetes.io/config.hash".to_owned(), uid.to_owned())];
    metadata.annotations = (source != Source::Api).then(|| annotations.into());
    DesiredPod {
        key: PodKey { namespace: "default".into(), name: "web".into() },
        uid: uid.to_owned(),
        written: None,
        shape: None,
        source,
        origin: Origin { path: String::new(), document: 0 },
        metadata,
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
        status: PodStatus::default(),
        withheld: Default::default(),
        ceiling: i32::MAX,
        weight: 0,
    }
}

fn spec() -> Value {
    json!({ "containers": [{ "name": "app", "image": "busybox" }], "restartPolicy": "Never" })
}

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

fn view(source: Source, uid: &str, told: Value) -> PodView {
    PodView {
        pod: Arc::new(desired(source, uid, spec())),
        status: Arc::new(status(told)),
        leaving: None,
        stale: false,
        is_kept: true,
        is_told: true,
        is_over: false,
        others: Vec::new(),
        runs: false,
        returns: false,
    }
}

fn copy(value: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(value).unwrap())
}

/// Both sides, and the requests.
struct Rig {
    desk: Desk,
    views: Vec<PodView>,
    server: PodsOfNode,
    uid: Option<String>,
    seconds: u64,
}

impl Rig {
    fn new(views: Vec<PodView>, server: Vec<Arc<Pod>>) -> Rig {
        let key = PodKey { namespace: "default".into(), name: "web".into() };
        let pods: Table<PodKey, Arc<Pod>> = server.into_iter().map(|pod| (key.clone(), pod)).collect();
        let server = PodsOfNode { is_complete: true, pods };
        Rig { desk: Desk::default(), views, server, uid: Some("node-uid".into()), seconds: 0 }
    }

    fn next(&mut self) -> Next {
        let source = |name: &str| SourceView { ready: true, ..SourceView::silent(name) };
        let snapshot = Snapshot {
            node: "n1".into(),
            pods: self.views.clone(),
            sources: vec![source("file"), source("api")],
            ..Snapshot::default()
        };
        let addresses = ["192.0.2.9".to_owned()];
        let world = World {
            snapshot: &snapshot,
            server: &self.server,
            failures: &Failures::default(),
            addresses: &addresses,
            node: "n1",
            uid: self.uid.as_deref(),
        };
        self.desk.next(&world, &at(self.seconds))
    }

    fn ask(&mut self) -> Ask {
        match self.next() {
            Next::Ask(_, ask) => ask,
            Next::Wait(_) => panic!("nothing is asked"),
        }
    }

    fn answer(&mut self, ask: Ask, answer: Answer) {
        let key = PodKey { namespace: "default".into(), name: "web".into() };
        let now = at(self.seconds).mono;
        self.desk.told(&key, ask, answer, &self.server, now);
    }

    fn watch(&mut self, pods: Vec<Arc<Pod>>) {
        self.server = Rig::new(Vec::new(), pods).server;
    }
}

fn running() -> Value {
    json!({
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "podIP": "172.17.0.2",
        "podIPs": [{"ip": "172.17.0.2"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
        "containerStatuses": [{"name": "app", "image": "busybox", "imageID": "", "ready": true, "restartCount": 0,
            "started": true, "state": {"running": {"startedAt": "2026-01-01T00:00:08Z"}}}],
    })
}

fn api_copy(uid: &str, version: &str, status: Value, deleted: bool) -> Arc<Pod> {
    let mut metadata = json!({"name": "web", "namespace": "default", "uid": uid, "resourceVersion": version});
    if deleted {
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
    }
    copy(json!({"metadata": metadata, "status": status}))
}

#[test]
fn a_status_is_sent_once_and_nothing_regresses() {
    let pending = json!({"phase": "Pending", "qosClass": "BestEffort",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                       {"type": "example.com/gate", "status": "True"}]});
    let mut rig =
        Rig::new(vec![view(Source::Api, "u1", running())], vec![api_copy("u1", "5", pending, false)]);
    let ask = rig.ask();
    let Ask::Status(body) = &ask else { panic!("{ask:?}") };
    assert_eq!(body["metadata"], json!({"uid": "u1"}));
    assert_eq!(body["status"]["phase"], "Running");
    assert_eq!(body["status"]["hostIP"], "192.0.2.9");
    // A condition of another component stays, and one that this node no longer reports is removed.
    let types: Vec<&Value> =
        body["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["type"]).collect();
    assert_eq!(types, ["Ready", "PodScheduled"]);
    assert_eq!(body["status"].get("qosClass"), None);
    // The answer counts until the watch shows it.
    let mut now = running();
    now["hostIP"] = "192.0.2.9".into();
    now["hostIPs"] = json!([{"ip": "192.0.2.9"}]);
    now["qosClass"] = "BestEffort".into();
    now["conditions"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"type": "example.com/gate", "status": "True"}));
    let done = api_copy("u1", "6", now.clone(), false);
    rig.answer(ask, Answer::Done(serde_json::to_value(&*done).unwrap()));
    assert_eq!(rig.next(), Next::Wait(Some(at(15).mono)), "the watch lags behind");
    rig.watch(vec![api_copy("u1", "6", now, false)]);
    assert_eq!(rig.next(), Next::Wait(None));
}

#[test]
fn a_status_that_the_server_does_not_keep_is_sent_again_more_and_more_rarely() {
    let kept = |version: &str, phase: &str| {
        let mut all = running();
        all["hostIP"] = "192.0.2.9".into();
        all["phase"] = phase.into();
        api_copy("u1", version, all, false)
    };
    let mut rig = Rig::new(vec![view(Source::Api, "u1", running())], vec![kept("5", "Pending")]);
    let mut sent = Vec::new();
    for second in 0..1200 {
        rig.seconds = second;
        while let Next::Ask(_, ask) = rig.next() {
            sent.push(second);
            assert!(sent.len() < 20, "{sent:?}");
            // It does not know `hostIPs`; another server returns nothing of the pod at all.
            let answer =
                if second < 60 { serde_json::to_value(&*kept("6", "Running")).unwrap() } else { json!({}) };
            rig.answer(ask, Answer::Done(answer));
            rig.watch(vec![kept("6", "Running")]);
        }
    }
    assert_eq!(sent, [0, 0, 10, 30, 70, 150, 310, 610, 910]);
    // Another status is another request.
    let mut moved = running();
    moved["podIP"] = "172.17.0.3".into();
    rig.views[0].status = Arc::new(status(moved));
    assert!(matches!(rig.ask(), Ask::Status(_)));
}

#[test]
fn the_server_went_back_to_an_older_state() {
    let pending = json!({"phase": "Pending"});
    let mut rig =
        Rig::new(vec![view(Source::Api, "u1", running())], vec![api_copy("u1", "5", pending.clone(), false)]);
    let ask = rig.ask();
    rig.answer(ask, Answer::Done(serde_json::to_value(&*api_copy("u1", "9", running(), false)).unwrap()));
    rig.watch(vec![api_copy("u1", "4", pending, false)]);
    rig.seconds = 60;
    assert!(matches!(rig.ask(), Ask::Status(_)));
}

#[test]
fn a_deleted_pod_is_finished_when_the_server_has_its_end() {
    let mut ending = view(Source::Api, "u1", running());
    ending.leaving = Some(NOW);
    let mut rig = Rig::new(vec![ending.clone()], vec![api_copy("u1", "5", running(), true)]);
    let ask = rig.ask();
    let Ask::Status(body) = &ask else { panic!("{ask:?}") };
    assert_eq!(
        body["status"],
        json!({"hostIP": "192.0.2.9", "hostIPs": [{"ip": "192.0.2.9"}],
        "$setElementOrder/hostIPs": [{"ip": "192.0.2.9"}]})
    );
    ending.is_over = true;
    rig.views = vec![ending];
    let ask = rig.ask();
    let Ask::Status(body) = &ask else { panic!("{ask:?}") };
    assert_eq!(body["status"]["phase"], "Failed");
    // Where the server's data go back, the pod is not deleted, and may run again: it must not end by this.
    assert_eq!(body["metadata"], json!({"uid": "u1", "resourceVersion": "5"}));
    rig.answer(ask.clone(), Answer::Conflict);
    assert_eq!(rig.next(), Next::Wait(Some(Mono(limits::POD_RETRY_MIN))), "it has changed meanwhile");
    let c = &body["status"]["containerStatuses"][0];
    assert_eq!((&c["state"]["terminated"]["exitCode"], &c["ready"]), (&json!(137), &json!(false)));
    assert_eq!(body["status"]["conditions"][0]["reason"], "PodFailed");
    // The server's copy after the patch.
    let mut failed = running();
    for (name, value) in body["status"].as_object().unwrap().clone() {
        failed[&name] = value;
    }
    failed["conditions"][0]["type"] = "Ready".into();
    let done = api_copy("u1", "6", failed, true);
    rig.answer(ask, Answer::Done(serde_json::to_value(&*done).unwrap()));
    let finish = rig.ask();
    assert_eq!(finish, Ask::Finish { uid: "u1".into(), version: Some("6".into()) });
    rig.answer(finish, Answer::Done(json!({})));
    assert_eq!(rig.next(), Next::Wait(Some(at(15).mono)), "the watch lags behind");
    // A new pod under the same name, which this node does not know.
    rig.watch(vec![api_copy("u2", "7", json!({"phase": "Pending"}), false)]);
    assert_eq!(rig.next(), Next::Wait(None));
}

/// Regression: the server's data went back to a state of before the last write, of which a watch tells nothing: the status was
/// never told again.
#[test]
fn a_write_that_no_watch_shows_is_repeated() {
    let mut rig =
        Rig::new(vec![view(Source::Api, "u1", running())], vec![api_copy("u1", "5", json!({}), false)]);
    let ask = rig.ask();
    let Ask::Status(body) = &ask else { panic!("{ask:?}") };
    let done = api_copy("u1", "6", body["status"].clone(), false);
    rig.answer(ask, Answer::Done(serde_json::to_value(&*done).unwrap()));
    rig.seconds = 14;
    assert!(matches!(rig.next(), Next::Wait(Some(_))));
    rig.seconds = 15;
    assert!(matches!(rig.ask(), Ask::Status(_)));
}

/// Regression: after etcd was restored to an older state, the status of a pod that had been removed was never told again.
#[test]
fn a_pod_that_the_server_has_again_is_told_again() {
    let ended = json!({"phase": "Failed", "containerStatuses": []});
    let mut ending = view(Source::Api, "u1", ended.clone());
    (ending.is_over, ending.leaving) = (true, Some(NOW));
    let mut rig = Rig::new(vec![ending], vec![api_copy("u1", "6", ended, true)]);
    let finish = rig.ask();
    assert!(matches!(finish, Ask::Finish { .. }), "{finish:?}");
    rig.answer(finish, Answer::Done(json!({})));
    let again = api_copy("u1", "4", json!({"phase": "Pending"}), false);
    rig.watch(vec![again]);
    rig.views = vec![view(Source::Api, "u1", running())];
    let believed = at(15).mono;
    assert_eq!(rig.next(), Next::Wait(Some(believed)), "it may be an event of before the removal");
    rig.seconds = 15;
    assert!(matches!(rig.ask(), Ask::Status(_)));
}

#[test]
fn a_pod_of_the_same_name_never_gets_the_old_ones_status() {
    let other = api_copy("u2", "7", json!({"phase": "Pending"}), false);
    let mut rig = Rig::new(vec![view(Source::Api, "u1", running())], vec![other]);
    assert_eq!(rig.next(), Next::Wait(None));
}

fn mirror_copy(uid: &str, hash: &str, status: Value) -> Arc<Pod> {
    let annotations = json!({"kubernetes.io/config.mirror": hash, "kubernetes.io/config.hash": hash});
    copy(json!({"metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": "3",
        "annotations": annotations}, "status": status}))
}

#[test]
fn mirror_pods() {
    let mut rig = Rig::new(vec![view(Source::File, "h1", running())], Vec::new());
    rig.uid = None;
    assert_eq!(rig.next(), Next::Wait(None), "the node is not registered yet");
    rig.uid = Some("node-uid".into());
    let ask = rig.ask();
    let Ask::MakeMirror(body) = &ask else { panic!("{ask:?}") };
    assert_eq!(body["metadata"]["annotations"]["kubernetes.io/config.mirror"], "h1");
    assert_eq!(
        body["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true}])
    );
    let made = mirror_copy("m1", "h1", json!({"phase": "Pending"}));
    rig.answer(ask, Answer::Done(serde_json::to_value(&*made).unwrap()));
    let ask = rig.ask();
    assert!(
        matches!(&ask, Ask::Status(body) if body["metadata"]["uid"] == "m1"),
        "under its own UID: {ask:?}"
    );
    // Deleted by hand.
    rig.watch(vec![made]);
    rig.next();
    rig.watch(Vec::new());
    assert!(matches!(rig.ask(), Ask::MakeMirror(_)));
    // Of another version.
    rig.watch(vec![mirror_copy("m2", "h0", running())]);
    assert_eq!(rig.ask(), Ask::DropMirror("m2".into()));
    // While it ends, it is told to no mirror of another version.
    let mut ending = view(Source::File, "h1", running());
    ending.leaving = Some(NOW);
    let stays = std::mem::replace(&mut rig.views, vec![ending]);
    assert_eq!(rig.next(), Next::Wait(None));
    rig.views = stays;
    // Another user's pod: see `displaced`.
    let mut not_yet = view(Source::File, "h1", json!({"phase": "Pending"}));
    not_yet.others = vec!["x".into()];
    let runs = std::mem::replace(&mut rig.views, vec![not_yet]);
    rig.watch(vec![api_copy("x", "1", running(), false)]);
    assert_eq!(rig.next(), Next::Wait(None));
    rig.views = runs;
    // The manifest is gone.
    rig.views.clear();
    assert_eq!(rig.next(), Next::Wait(None));
    rig.watch(vec![mirror_copy("m3", "h1", running())]);
    assert_eq!(rig.ask(), Ask::DropMirror("m3".into()));
}

#[test]
fn a_server_that_does_not_answer_is_asked_rarely_and_one_that_refuses_hardly_again() {
    let pending = || api_copy("u1", "5", json!({"phase": "Pending"}), false);
    let mut rig = Rig::new(vec![view(Source::Api, "u1", running())], vec![pending()]);
    for _ in 0..20 {
        let ask = rig.ask();
        rig.answer(ask, Answer::Failed("connection refused".into()));
        assert!(matches!(rig.next(), Next::Wait(Some(_))));
        rig.seconds += 5;
    }
    let ask = rig.ask();
    rig.answer(ask, Answer::Refused("invalid".into()));
    assert!(matches!(rig.next(), Next::Wait(Some(_))));
    rig.views[0].status = Arc::new(status(json!({"phase": "Running"})));
    assert!(matches!(rig.ask(), Ask::Status(_)), "another status is another request");
}

#[test]
fn an_end_that_an_earlier_daemon_has_told_stays_in_a_pod_that_is_over() {
    let told = json!({"phase": "Succeeded", "containerStatuses": [{"name": "app", "image": "b", "imageID": "", "ready": false, "started": false,
        "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
    let waits = json!({"phase": "Pending", "containerStatuses": [{"name": "app", "image": "b", "imageID": "", "ready": false, "started": false,
        "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
    let mut view = view(Source::Api, "u1", waits);
    (view.is_over, view.is_kept) = (true, false);
    let mut rig = Rig::new(vec![view], vec![api_copy("u1", "5", told, true)]);
    let ask = rig.ask();
    assert_eq!(ask, Ask::Finish { uid: "u1".into(), version: Some("5".into()) });
}
