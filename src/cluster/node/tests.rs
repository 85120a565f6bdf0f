//! The node object from facts, and the order of requests.

mod another;
mod trouble;

use std::time::Duration;

use serde_json::{Value, json};

use super::heart::{Ask, Heart, News, Next};
use super::{Settings, images, lease, object, parse_taints, status};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::cluster::answer::Answer;
use crate::node::facts::Facts;
use crate::runtime::ImageSummary;
use crate::status::snapshot::{ConditionView, DockerView, NodeView, Snapshot};

const WALL: Timestamp = Timestamp::constant(1_795_000_000, 123_456_000);

fn condition(kind: &str, is_true: bool, reason: &str, message: &str) -> ConditionView {
    let (type_, reason, message) = (kind.to_owned(), reason.to_owned(), message.to_owned());
    ConditionView { type_, is_true, reason, message, since: Timestamp::constant(1_794_000_000, 0) }
}

fn snapshot(ready: bool) -> Snapshot {
    let resources = |memory: &str| {
        [("cpu", "2"), ("memory", memory), ("pods", "110"), ("podkeeper.dev/serial", "1")]
            .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
            .into()
    };
    let labels =
        [("kubernetes.io/hostname", "n1"), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "arm64")];
    let (reason, message) = match ready {
        true => ("KubeletReady", "kubelet is posting ready status"),
        false => ("KubeletNotReady", "container runtime is down"),
    };
    Snapshot {
        node: "n1".into(),
        docker: DockerView { reachable: ready, version: Some("API 1.41".into()), ..DockerView::default() },
        conditions: vec![
            condition("Ready", ready, reason, message),
            condition(
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
        ],
        info: NodeView {
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            capacity: resources("262144Ki"),
            allocatable: resources("159744Ki"),
            started: None,
        },
        ..Snapshot::default()
    }
}

fn facts() -> Facts {
    Facts {
        os_image: "Alpine Linux v3.20".into(),
        kernel: "6.6.1".into(),
        architecture: "arm64".into(),
        machine_id: "3d12".into(),
        boot_id: "boot-1".into(),
        system_uuid: String::new(),
    }
}

fn node(ready: bool) -> Value {
    let list = [ImageSummary {
        id: "sha256:1".into(),
        tags: vec!["busybox:1".into()],
        digests: vec!["busybox@sha256:2".into()],
        size: 7,
        ..ImageSummary::default()
    }];
    let taints = parse_taints("edge=true:NoSchedule,alone:NoExecute").unwrap();
    let settings = Settings { port: Some(10250), taints, ..Settings::of("n1") };
    let told = images(&list, Some(50));
    let addresses = ["192.0.2.9".to_owned()];
    let around =
        object::Around { facts: &facts(), addresses: &addresses, images: &told, docker: Some("20.10.24") };
    object::node(&settings, &snapshot(ready), &around, WALL)
}

#[test]
fn the_object() {
    let text = serde_json::to_string_pretty(&node(true)).unwrap();
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    crate::base::testing::golden("cluster/node.json", &(text + "\n"));
}

/// `kubectl logs` of a pod of a hollow node reached the kubelet of the machine.
#[test]
fn a_node_that_cannot_be_reached_tells_its_name_alone() {
    let (facts, images) = (facts(), json!([]));
    let addresses = ["192.0.2.9".to_owned()];
    let around = object::Around { facts: &facts, addresses: &addresses, images: &images, docker: None };
    let told = |is_reached: bool| {
        let settings = Settings { is_reached, ..Settings::of("n1") };
        let node = object::node(&settings, &snapshot(true), &around, WALL);
        let all = node["status"]["addresses"].as_array().unwrap().clone();
        all.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (told(true), told(false)),
        (vec!["InternalIP".into(), "Hostname".into()], vec!["Hostname".into()])
    );
}

#[test]
fn taints_and_images() {
    assert!(parse_taints("").unwrap().is_empty());
    for bad in ["a", "a=b", "a=b:Never", "=b:NoSchedule", ":NoExecute", "a b:NoSchedule"] {
        assert!(parse_taints(bad).is_err(), "{bad}");
    }
    let image = |id: &str, size: u64, names: usize| ImageSummary {
        id: id.into(),
        tags: (0..names).map(|n| format!("{id}:{n}")).collect(),
        digests: vec![format!("{id}@sha256:1"), "<none>@<none>".into()],
        size,
        ..ImageSummary::default()
    };
    let told = images(&[image("small", 1, 1), image("large", 9, 9), image("middle", 5, 0)], Some(2));
    assert_eq!(
        told,
        json!([
            {"names": ["large@sha256:1", "large:0", "large:1", "large:2", "large:3"], "sizeBytes": 9},
            {"names": ["middle@sha256:1"], "sizeBytes": 5},
        ])
    );
}

#[test]
fn a_status_keeps_what_is_of_others() {
    let theirs = json!({
        "capacity": {"cpu": "4", "example.com/gpu": "2", "podkeeper.dev/gone": "1"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "volumesAttached": [{"name": "x"}],
        "conditions": [
            {"type": "NetworkUnavailable", "status": "False"},
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "a", "lastTransitionTime": "b"},
        ],
    });
    let ours = node(true);
    let wanted = status::wanted(&theirs, &ours["status"]);
    assert_eq!(wanted["capacity"]["cpu"], "2");
    assert_eq!(wanted["capacity"]["example.com/gpu"], "2");
    assert_eq!(wanted["capacity"]["podkeeper.dev/gone"], "0");
    let ready = wanted["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!((&ready["type"], &ready["lastTransitionTime"]), (&json!("Ready"), &json!("b")));
    assert_eq!(wanted["conditions"][0]["type"], "NetworkUnavailable");
    let body = status::body(&theirs, &wanted);
    assert_eq!(body.as_object().unwrap().len(), 1, "nothing but the status is touched");
    assert_eq!(
        body["status"]["addresses"],
        json!([
            {"type": "InternalIP", "address": "192.0.2.9"},
            {"type": "Hostname", "address": "n1"},
            {"$patch": "replace"},
        ])
    );
    assert_eq!(body["status"].get("volumesAttached"), None);
    assert!(status::differs(&theirs, &wanted));
    let mut later = wanted.clone();
    later["conditions"][1]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z".into();
    assert!(!status::differs(&wanted, &later));
    assert_eq!(status::body(&wanted, &wanted), json!({"status": {}}));
}

#[test]
fn leases() {
    let made = lease::renewed(None, "n1", Some("u"), Duration::from_secs(40), WALL);
    assert_eq!(made["spec"]["renewTime"], "2026-11-18T11:06:40.123456Z");
    let mut known = made.clone();
    known["metadata"]["resourceVersion"] = "7".into();
    known["metadata"]["managedFields"] = json!([]);
    let renewed = lease::renewed(Some(&known), "n1", None, Duration::from_secs(40), WALL);
    assert_eq!(renewed["metadata"]["resourceVersion"], "7");
    assert_eq!(renewed["metadata"]["ownerReferences"], made["metadata"]["ownerReferences"]);
    assert_eq!(renewed["metadata"].get("managedFields"), None);
}

/// The heart, and a server that keeps one node and one lease.
struct Rig {
    heart: Heart,
    ready: bool,
    millis: u64,
    story: Vec<String>,
    news: Vec<News>,
}

impl Rig {
    fn new() -> Rig {
        let heart = Heart::new(Settings::of("n1"), 1, Mono::default());
        Rig { heart, ready: true, millis: 0, story: Vec::new(), news: Vec::new() }
    }

    fn now(&self) -> Now {
        Now { mono: Mono(Duration::from_millis(self.millis)), wall: WALL }
    }

    fn next(&mut self) -> Next {
        let (facts, images) = (facts(), json!([]));
        let addresses = ["192.0.2.9".to_owned()];
        let around = object::Around {
            facts: &facts,
            addresses: &addresses,
            images: &images,
            docker: Some("20.10.24"),
        };
        self.heart.next(&snapshot(self.ready), &around, &self.now())
    }

    /// Runs until then, with these answers; records each request, with its time in seconds.
    fn run(&mut self, until: u64, mut server: impl FnMut(&Ask) -> Answer) {
        while self.millis < until {
            match self.next() {
                Next::Wait(at) => self.millis = u64::try_from(at.0.as_millis()).unwrap().max(self.millis + 1),
                Next::Ask(ask) => {
                    let word = match &ask {
                        Ask::Create(_) => "create",
                        Ask::Read => "read",
                        Ask::Patch(_) => "patch",
                        Ask::ReadLease => "read lease",
                        Ask::CreateLease(_) => "create lease",
                        Ask::RenewLease(_) => "renew lease",
                    };
                    self.story.push(format!("{} {word}", self.millis / 1000));
                    let answer = server(&ask);
                    let news = self.heart.told(&ask, answer, &node(self.ready), self.now().mono);
                    self.news.extend(news);
                    // A request takes time.
                    self.millis += 1;
                }
            }
        }
    }
}

fn stored(ready: bool) -> Value {
    let mut node = node(ready);
    node["metadata"]["uid"] = "node-uid".into();
    node
}

fn kind_server(ask: &Ask) -> Answer {
    match ask {
        Ask::Create(_) | Ask::Patch(_) | Ask::Read => {
            let mut node = stored(true);
            node["status"]["images"] = json!([]);
            node["status"].as_object_mut().unwrap().remove("daemonEndpoints");
            Answer::Done(node)
        }
        Ask::ReadLease => Answer::Missing,
        Ask::CreateLease(lease) | Ask::RenewLease(lease) => Answer::Done(lease.clone()),
    }
}

#[test]
fn a_node_registers_and_then_its_lease_alone_is_renewed() {
    let mut rig = Rig::new();
    rig.run(45_000, kind_server);
    assert_eq!(
        rig.story,
        [
            "0 create",
            "0 read lease",
            "0 create lease",
            "0 patch",
            "10 renew lease",
            "20 renew lease",
            "30 renew lease",
            "40 renew lease"
        ]
    );
    assert_eq!(rig.heart.uid(), Some("node-uid"));
    assert_eq!(rig.news, [News::Registered("node-uid".into())]);
    // A change is sent within the next period, once.
    rig.ready = false;
    rig.story.clear();
    rig.run(62_000, |ask| match ask {
        Ask::Patch(_) => {
            let mut node = stored(false);
            node["status"]["images"] = json!([]);
            node["status"].as_object_mut().unwrap().remove("daemonEndpoints");
            Answer::Done(node)
        }
        other => kind_server(other),
    });
    assert_eq!(rig.story.iter().filter(|line| line.ends_with("patch")).count(), 1, "{:?}", rig.story);
}

#[test]
fn a_node_that_is_there_is_taken_over() {
    let mut rig = Rig::new();
    rig.run(1_000, |ask| match ask {
        Ask::Create(_) => Answer::Forbidden("may not".into()),
        Ask::Read => {
            let mut node = stored(true);
            node["status"]["nodeInfo"]["bootID"] = "an earlier one".into();
            node["metadata"]["labels"]["kubernetes.io/hostname"] = "other".into();
            node["metadata"]["labels"].as_object_mut().unwrap().insert("mine".into(), "1".into());
            Answer::Done(node)
        }
        Ask::Patch(patch) if patch.get("metadata").is_some() => {
            assert_eq!(patch, &json!({"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}));
            Answer::Done(stored(true))
        }
        other => kind_server(other),
    });
    assert_eq!(rig.story.first_chunk::<3>().unwrap(), &["0 create", "0 read", "0 patch"]);
    assert_eq!(rig.news, [News::Rebooted, News::Registered("node-uid".into())]);
}

#[test]
fn a_node_that_was_deleted_comes_back() {
    let mut rig = Rig::new();
    rig.run(1_000, kind_server);
    rig.story.clear();
    rig.ready = false;
    let mut gone = true;
    rig.run(30_000, |ask| match ask {
        Ask::Patch(_) if std::mem::take(&mut gone) => Answer::Missing,
        other => kind_server(other),
    });
    assert!(rig.story.iter().any(|line| line.ends_with("create")), "{:?}", rig.story);
}

#[test]
fn answers_that_contradict_themselves_make_no_storm() {
    for answer in [Answer::Conflict, Answer::Exists, Answer::Missing, Answer::Refused("no".into())] {
        let mut rig = Rig::new();
        rig.run(1_000, kind_server);
        rig.story.clear();
        rig.ready = false;
        rig.run(61_000, |ask| match ask {
            Ask::Patch(_) | Ask::RenewLease(_) | Ask::CreateLease(_) => answer.clone(),
            other => kind_server(other),
        });
        assert!(rig.story.len() < 900, "{answer:?}: {} requests", rig.story.len());
    }
}

/// A server without declared features got the whole status every ten seconds.
#[test]
fn a_server_that_drops_the_declared_features_is_told_no_more_often() {
    let ours = json!({"conditions": [], "declaredFeatures": ["A", "B"]});
    let kept = json!({"conditions": [], "declaredFeatures": ["A"]});
    let dropped = json!({"conditions": []});
    let is_sent = |theirs: &Value| status::differs(theirs, &status::wanted(theirs, &ours));
    assert_eq!([&ours, &kept, &dropped].map(is_sent), [false, true, false]);
    let patch = status::body(&dropped, &status::wanted(&dropped, &ours));
    assert_eq!(patch, json!({"status": {"declaredFeatures": ["A", "B"]}}), "with the next one that is due");
}

/// A daemon that ran on while the server's data went back heard of no pod for minutes: its watch was silent.
#[test]
fn a_lease_that_is_older_than_before_tells_that_the_servers_data_went_back_and_once() {
    let mut rig = Rig::new();
    let mut version = 0;
    let mut server = |versions: std::ops::Range<u64>, rig: &mut Rig| {
        version = versions.start;
        let until = rig.millis + 50_000;
        rig.run(until, |ask| match ask {
            Ask::CreateLease(lease) | Ask::RenewLease(lease) => {
                let mut lease = lease.clone();
                lease["metadata"]["resourceVersion"] = version.to_string().into();
                version = (version + 7).min(versions.end);
                Answer::Done(lease)
            }
            other => kind_server(other),
        });
        std::mem::take(&mut rig.news).iter().filter(|news| **news == News::WentBack).count()
    };
    assert_eq!(server(100..1000, &mut rig), 0);
    assert_eq!(server(60..1000, &mut rig), 1);
    assert_eq!(server(5000..5001, &mut rig), 0, "a version that jumps, and one that stays");
    assert_eq!(server(4..1000, &mut rig), 1);
    // The lease of the older state is read after a conflict.
    let mut conflict = true;
    let until = rig.millis + 20_000;
    rig.run(until, |ask| match ask {
        Ask::RenewLease(_) if std::mem::take(&mut conflict) => Answer::Conflict,
        Ask::ReadLease => Answer::Done(json!({"metadata": {"resourceVersion": "3"}})),
        other => kind_server(other),
    });
    assert_eq!(rig.news.iter().filter(|news| **news == News::WentBack).count(), 1, "{:?}", rig.story);
    rig.news.clear();
    let opaque = |ask: &Ask| match ask {
        Ask::RenewLease(_) => Answer::Done(json!({"metadata": {"resourceVersion": "v1-x"}})),
        other => kind_server(other),
    };
    let until = rig.millis + 30_000;
    rig.run(until, opaque);
    assert_eq!(rig.news, [], "it is not said that versions are numbers");
}
