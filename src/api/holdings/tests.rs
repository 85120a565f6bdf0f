//! Tests that written objects are there again after a restart, and that unacceptable ones are refused before they are
//! stored.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::base::testing::scratch;
use crate::source::accept::Acceptor;

/// Updates for the main loop.
type Sent = Receiver<FromSource>;

fn open(dir: &Path) -> (Holdings, Sent, Reading) {
    let (sender, sent) = crossbeam_channel::unbounded();
    let send: Send = Arc::new(move |update| sender.send(update).is_ok());
    let acceptor = Acceptor::new(Source::Api, "n".to_owned());
    let holdings = Holdings::new(dir.to_owned(), None, acceptor, ApiBoard::default(), send);
    let reading = holdings.read().unwrap();
    (holdings, sent, reading)
}

fn set(sent: &Sent) -> PodSet {
    match sent.recv_timeout(Duration::from_secs(30)).unwrap().update {
        SourceUpdate::Full(set) => set,
        other => panic!("{other:?}"),
    }
}

fn id(resource: Resource, namespace: &str, name: &str) -> Id {
    (resource, (namespace.to_owned(), name.to_owned()))
}

fn put(holdings: &Holdings, id: &Id, value: Value) -> Result<(), Failure> {
    let decoded = holdings.decode(id, &value);
    assert_eq!(decoded.problems, []);
    holdings.begin().unwrap().put(id, value, decoded)
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
           "spec": {"containers": [{"name": "c", "image": "busybox"}]}})
}

fn map(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "uid": "u"},
           "data": {"a": "x".repeat(bytes)}})
}

/// They were listed, but could neither be read nor deleted.
#[test]
fn namespaces_are_found_after_a_restart() {
    let dir = scratch("api-holdings-namespaces");
    let (holdings, sent, reading) = open(&dir);
    set(&sent);
    let namespace = id(Resource::Namespaces, "", "empty");
    let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "empty"}});
    put(&holdings, &namespace, value.clone()).unwrap();
    // Names that an older version accepted.
    holdings.inner().store.save("namespaces/-/a/b", b"{}".to_vec()).unwrap();
    holdings.inner().store.save("namespaces/-/A", b"{}".to_vec()).unwrap();
    drop((holdings, sent, reading));
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let mut change = holdings.begin().unwrap();
    assert_eq!(change.get(&namespace).as_deref(), Some(&value));
    assert_eq!(change.inner.entries.len(), 1);
    change.remove(&namespace).unwrap();
    drop(change);
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    assert_eq!(holdings.inner().entries.len(), 0);
    fs::remove_dir_all(&dir).unwrap();
}

/// Regression: `get configmaps` showed the time since the daemon's start as the age of a new one.
#[test]
fn a_local_object_has_its_own_time() {
    let dir = scratch("api-holdings-time");
    let (holdings, ..) = open(&dir);
    let mut value = map("new", 1);
    value["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
    let decoded = holdings.decode(&id(Resource::ConfigMaps, "default", "new"), &value);
    assert_eq!(decoded.problems, []);
    let created: Vec<String> =
        decoded.objects.iter().filter_map(|it| it.about.created).map(|time| time.to_string()).collect();
    assert_eq!(created, ["2026-01-02T03:04:05Z"]);
    fs::remove_dir_all(&dir).unwrap();
}

/// Regression: each new claim had a warning about the name of its volume, which nobody had written.
#[test]
fn what_the_api_puts_in_itself_is_not_warned_of() {
    let dir = scratch("api-holdings-put-in");
    let (holdings, _sent, _reading) = open(&dir);
    let told = |resource, value: Value| problems(&holdings.decode(&id(resource, "default", "a"), &value)).1;
    let claim = |volume: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "volumeName": volume}})
    };
    assert_eq!(told(Resource::Claims, claim("a")), [""; 0]);
    assert_eq!(told(Resource::Claims, claim("b")).len(), 1);
    let mut with = pod("a");
    with["spec"]["enableServiceLinks"] = true.into();
    assert_eq!(told(Resource::Pods, with), [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

/// An acknowledged write was lost after a restart, with its pod.
#[test]
fn what_cannot_be_read_again_is_not_stored() {
    let dir = scratch("api-holdings-bounds");
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let at = id(Resource::Pods, "default", "a");
    let with = |fields: Value| {
        let mut value = pod("a");
        value["metadata"]["managedFields"] = json!([{"fieldsV1": fields}]);
        value
    };
    let deep = (0..100).fold(json!({}), |inner, _| json!({"f:a": inner}));
    assert_eq!(put(&holdings, &at, with(deep)).unwrap_err().code, 422);
    let large = json!({"f:a": "x".repeat(limits::API_STORED - 500)});
    assert_eq!(put(&holdings, &at, with(large)).unwrap_err().code, 413);
    let most = json!({"f:a": "x".repeat(limits::API_STORED - limits::API_SEAL - 500)});
    put(&holdings, &at, with(most)).unwrap();
    let (again, sent, _reading) = open(&dir);
    assert_eq!(set(&sent).pods.len(), 1);
    assert_eq!(again.inner().store.unread(), 0);
    fs::remove_dir_all(&dir).unwrap();
}

/// It was stopped: "no manifest names it".
#[test]
fn a_pod_of_a_file_that_is_not_understood_goes_on() {
    let dir = scratch("api-holdings-unknown");
    let (holdings, sent, _reading) = open(&dir);
    assert_eq!(set(&sent).broken, [""; 0]);
    holdings.inner().store.save("pods/default/a", b"{]".to_vec()).unwrap();
    let (again, sent, _reading) = open(&dir);
    let place = dir.join("api/pods/default/a").display().to_string();
    assert_eq!(set(&sent).broken, [place]);
    // It is written again, and known.
    put(&again, &id(Resource::Pods, "default", "a"), pod("a")).unwrap();
    assert_eq!(set(&sent).broken, [""; 0]);
    // A damaged file may have been any pod's.
    for file in fs::read_dir(dir.join("api")).unwrap() {
        fs::write(file.unwrap().path(), b"x").unwrap();
    }
    let (again, sent, _reading) = open(&dir);
    let set_of = set(&sent);
    let place = format!("{}/", dir.join("api").display());
    assert_eq!(set_of.broken, [place.as_str()]);
    assert!(set_of.problems[0].to_string().contains("1 file of the store cannot be read"), "{set_of:?}");
    put(&again, &id(Resource::Pods, "default", "a"), pod("a")).unwrap();
    assert_eq!(set(&sent).broken, [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

/// A pod of 20,000 containers was accepted without its defaults, and was too large with them after a restart.
#[test]
fn a_pod_whose_defaults_make_it_too_large_is_refused_and_one_that_is_stored_goes_on() {
    let dir = scratch("api-holdings-defaults");
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let at = id(Resource::Pods, "default", "a");
    assert_eq!(holdings.check_again(&at, &pod("a")), Ok(()));
    let mut large = pod("a");
    large["spec"]["containers"][0]["args"] = json!(["x".repeat(limits::MANIFEST_BYTES)]);
    let failure = holdings.check_again(&at, &large).unwrap_err();
    assert!(failure.code == 422 && failure.message.contains("is larger than"), "{failure:?}");
    holdings.inner().store.save("pods/default/a", large.to_string().into_bytes()).unwrap();
    let (_again, sent, _reading) = open(&dir);
    let set = set(&sent);
    assert_eq!((set.pods.len(), set.broken), (0, vec![dir.join("api/pods/default/a").display().to_string()]));
    fs::remove_dir_all(&dir).unwrap();
}

/// 33 ConfigMaps of 1 MB were stored, of which the node accepts 16; a new one pushed out one that pods use.
#[test]
fn what_the_node_does_not_take_is_refused() {
    let dir = scratch("api-holdings-quota");
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let size = 1_000_000;
    let most = limits::OBJECT_BYTES_PER_SOURCE / size;
    let at = |n: usize| id(Resource::ConfigMaps, "default", &format!("c{n:02}"));
    for n in 0..most {
        put(&holdings, &at(n), map(&format!("c{n:02}"), size)).unwrap();
    }
    let full = put(&holdings, &id(Resource::ConfigMaps, "default", "a00"), map("a00", size)).unwrap_err();
    assert_eq!((full.code, full.reason), (403, "Forbidden"));
    assert!(full.message.contains("16777216 bytes of ConfigMaps and Secrets"), "{}", full.message);
    // An existing one may become smaller, and pods count separately.
    put(&holdings, &at(0), map("c00", 10)).unwrap();
    put(&holdings, &id(Resource::Pods, "default", "a"), pod("a")).unwrap();
    let last = sent.try_iter().last().unwrap();
    let SourceUpdate::Full(last) = last.update else { panic!("{last:?}") };
    assert_eq!((last.objects.len(), last.pods.len(), last.problems), (most, 1, vec![]));
    fs::remove_dir_all(&dir).unwrap();
}

/// `--force` had no effect, and with a finalizer the grace period was lost.
#[test]
fn a_deletion_is_told_with_its_grace_period_and_may_be_shortened() {
    let dir = scratch("api-holdings-grace");
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let graces = |sent: &Sent| -> Vec<Vec<Option<i64>>> {
        let all = sent.try_iter().map(|update| match update.update {
            SourceUpdate::Full(set) => set.pods,
            other => panic!("{other:?}"),
        });
        all.map(|pods| pods.iter().map(|pod| pod.metadata.deletion_grace_period_seconds).collect()).collect()
    };
    let at = |name: &str| id(Resource::Pods, "default", name);
    put(&holdings, &at("a"), pod("a")).unwrap();
    holdings.begin().unwrap().remove_pod(&at("a"), pod("a"), 3600).unwrap();
    holdings.begin().unwrap().hurry(&at("a"), pod("a"), 0);
    assert_eq!(graces(&sent), [vec![None], vec![Some(3600)], vec![], vec![Some(0)], vec![]]);
    // Another pod of that name is not affected.
    let mut other = pod("a");
    other["metadata"]["uid"] = "other".into();
    holdings.begin().unwrap().hurry(&at("a"), other, 0);
    assert!(graces(&sent).is_empty());
    put(&holdings, &at("b"), pod("b")).unwrap();
    let mut waits = pod("b");
    waits["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let decoded = holdings.decode(&at("b"), &waits);
    holdings.begin().unwrap().put_leaving(&at("b"), waits, decoded, 1).unwrap();
    assert_eq!(graces(&sent), [vec![None], vec![Some(1)], vec![]]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The next daemon gave a pod its whole grace period again, and the pod's own one instead of that of the deletion.
#[test]
fn a_deletion_goes_on_after_a_restart_with_the_rest_of_its_grace_period() {
    use crate::api::write::written::leaving;
    use crate::base::clock::{Clock as _, SignedDuration, System};
    use crate::status::snapshot::{DockerView, Snapshot};

    let at = id(Resource::Pods, "default", "a");
    for finalizers in [json!([]), json!(["a.io/x"])] {
        let dir = scratch("api-holdings-rest");
        // The grace periods in the next two sets.
        let graces = |sent: &Sent| {
            [set(sent), set(sent)].map(|set| match set.pods.as_slice() {
                [] => None,
                [pod] => pod.metadata.deletion_grace_period_seconds,
                pods => panic!("{pods:?}"),
            })
        };
        let waits = finalizers != json!([]);
        let mut value = pod("a");
        value["metadata"]["finalizers"] = finalizers;
        // An hour, of which 100 seconds are left.
        let mut going = leaving(&value, 3600);
        let end = System::start().now().wall.checked_add(SignedDuration::from_secs(100)).unwrap();
        going["metadata"]["deletionTimestamp"] = crate::status::seconds(end).0.to_string().into();
        {
            let (holdings, sent, _reading) = open(&dir);
            set(&sent);
            put(&holdings, &at, value).unwrap();
            let mut change = holdings.begin().unwrap();
            if waits {
                change.put_leaving(&at, going.clone(), holdings.decode(&at, &going), 3600).unwrap();
            } else {
                change.remove_pod(&at, going.clone(), 3600).unwrap();
            }
        }
        let (holdings, sent, _reading) = open(&dir);
        let [left, then] = graces(&sent);
        assert!(left.is_some_and(|left| (60..=100).contains(&left)), "{left:?} {waits}");
        assert_eq!(then, None, "{waits}");
        // A second deletion counts from the first one, too.
        let sooner = leaving(&going, 3550);
        {
            let mut change = holdings.begin().unwrap();
            if waits {
                change.put_leaving(&at, sooner.clone(), holdings.decode(&at, &sooner), 3550).unwrap();
            } else {
                change.hurry(&at, sooner.clone(), 3550);
            }
        }
        let [less, then] = graces(&sent);
        assert!(less.is_some_and(|less| (10..=50).contains(&less)), "{less:?} {waits}");
        assert_eq!(then, None, "{waits}");
        drop(holdings);
        let (holdings, sent, _reading) = open(&dir);
        let [less, _] = graces(&sent);
        assert!(less.is_some_and(|less| (0..=50).contains(&less)), "it is stored: {less:?} {waits}");
        // The pod has ended.
        let docker = DockerView { reachable: true, ..DockerView::default() };
        holdings.0.told.tell(Arc::new(Snapshot { docker, ..Snapshot::default() }), Arc::default());
        drop(holdings.begin().unwrap());
        drop(holdings);
        let (holdings, sent, _reading) = open(&dir);
        assert_eq!(set(&sent).pods.len(), usize::from(waits));
        assert_eq!(holdings.begin().unwrap().get(&at).is_some(), waits, "a pod with finalizers stays");
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// The deletion of a pod under a killed daemon could not be shortened.
#[test]
fn a_deletion_that_an_earlier_daemon_began_may_be_shortened() {
    use crate::base::clock::Timestamp;
    use crate::status::snapshot::{PodView, Snapshot};

    let dir = scratch("api-holdings-orphan");
    let (holdings, sent, _reading) = open(&dir);
    set(&sent);
    let at = id(Resource::Pods, "default", "a");
    // The form of a pod that the node finds without a manifest.
    let found = Arc::clone(&holdings.decode(&at, &pod("a")).pods[0]);
    let told = |source: Source, leaving: Option<Timestamp>| {
        let view = PodView {
            pod: Arc::new(DesiredPod { source, ..DesiredPod::clone(&found) }),
            status: Arc::default(),
            leaving,
            stale: false,
            is_kept: false,
            is_told: false,
            is_over: false,
            others: Vec::new(),
            runs: false,
            returns: false,
        };
        holdings.0.told.tell(Arc::new(Snapshot { pods: vec![view], ..Snapshot::default() }), Arc::default());
    };
    let graces = || -> Vec<Vec<Option<i64>>> {
        let all = sent.try_iter().map(|update| match update.update {
            SourceUpdate::Full(set) => set.pods,
            other => panic!("{other:?}"),
        });
        all.map(|pods| pods.iter().map(|pod| pod.metadata.deletion_grace_period_seconds).collect()).collect()
    };
    for (source, leaving, expected) in [
        (Source::Api, None, vec![]),
        (Source::File, Some(Timestamp::UNIX_EPOCH), vec![]),
        (Source::Api, Some(Timestamp::UNIX_EPOCH), vec![vec![Some(0)], vec![]]),
        // It is known from now on.
        (Source::Api, None, vec![vec![Some(0)], vec![]]),
    ] {
        told(source, leaving);
        holdings.begin().unwrap().hurry(&at, pod("a"), 0);
        assert_eq!(graces(), expected, "{source} {leaving:?}");
    }
    fs::remove_dir_all(&dir).unwrap();
}
