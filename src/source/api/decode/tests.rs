//! Tests of pods in the form of servers with admission plugins.

use super::*;
use crate::pod::Source;

const SERVER: &str = "https://a:6443";

fn acceptor() -> Acceptor {
    Acceptor::new(Source::Api, "n1".to_owned())
}

/// A pod in the form of a server with its admission plugins.
fn pod(more: &str) -> Value {
    let mut pod: Value = serde_json::from_str(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"u-1","resourceVersion":"7",
        "creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl"}],"generation":1,
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"r"}]},
        "spec":{"nodeName":"n1","serviceAccountName":"robot","serviceAccount":"robot","schedulerName":"default-scheduler",
        "priority":0,"preemptionPolicy":"PreemptLowerPriority","enableServiceLinks":true,"restartPolicy":"Always",
        "dnsPolicy":"ClusterFirst","terminationGracePeriodSeconds":30,"securityContext":{},
        "tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
        "containers":[{"name":"c","image":"i","imagePullPolicy":"Always","resources":{},
        "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
        "volumeMounts":[{"name":"t","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}]}],
        "volumes":[{"name":"t","projected":{"defaultMode":420,"sources":[
        {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
        {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
        {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}}]},
        "status":{"phase":"Pending","qosClass":"BestEffort"}}"#,
    )
    .unwrap();
    let more: Value = serde_json::from_str(more).unwrap();
    for (at, value) in more.as_object().unwrap() {
        let (parent, key) = at.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    pod
}

fn wanted(value: &Value) -> (Arc<DesiredPod>, Vec<Token>) {
    match read(value, &acceptor(), SERVER, None).unwrap().meaning {
        Meaning::Wanted(pod, tokens) => (pod, tokens),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_of_a_server_keeps_its_name_and_its_uid() {
    let (pod, tokens) = wanted(&pod("{}"));
    assert_eq!((pod.key.to_string().as_str(), pod.uid.as_str()), ("shop/web", "u-1"));
    assert_eq!(pod.origin.to_string(), "https://a:6443/api/v1/namespaces/shop/pods/web");
    assert_eq!(pod.spec.service_account_name.as_deref(), Some("robot"));
    assert!(pod.metadata.owner_references.is_some() && pod.written.is_none());
    let [token] = tokens.as_slice() else { panic!("{tokens:?}") };
    assert_eq!(
        (token.account.as_str(), token.lasts, token.key.name.as_str()),
        ("robot", 3607, "podkeeper:token:robot:u-1-0")
    );
    let refers = crate::pod::object::refs::references(&pod);
    let refers: Vec<String> = refers.iter().map(|each| each.key.to_string()).collect();
    let services = "the Services of namespace shop";
    assert!(refers.contains(&services.to_owned()) && refers.len() == 3, "{refers:?}");
    assert!(refers.contains(&"the token of service account shop/robot".to_owned()), "{refers:?}");
    assert!(refers.contains(&"ConfigMap shop/kube-root-ca.crt".to_owned()), "{refers:?}");
}

/// Regression: a resize without room was put in force by the next daemon, for the sizes of before belonged to no pod.
#[test]
fn a_resized_pod_is_the_same_pod() {
    let (small, _) = wanted(&pod("{}"));
    let (large, _) = wanted(&pod(r#"{"/spec/containers/0/resources":{"requests":{"cpu":"2"}}}"#));
    assert_eq!((small.shape.as_deref(), large.shape.as_deref()), (Some("u-1"), Some("u-1")));
}

#[test]
fn deletions_reach_the_pod() {
    let deleted =
        r#"{"/metadata/deletionTimestamp":"2026-01-01T00:00:30Z","/metadata/deletionGracePeriodSeconds":5}"#;
    let (pod, _) = wanted(&pod(deleted));
    assert!(pod.metadata.deletion_timestamp.is_some());
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(5));
}

#[test]
fn pods_that_are_not_started() {
    let meaning =
        |more: &str, before: Option<&Read>| read(&pod(more), &acceptor(), SERVER, before).unwrap().meaning;
    let mirror = r#"{"/metadata/annotations":{"kubernetes.io/config.mirror":"x"}}"#;
    assert!(matches!(meaning(mirror, None), Meaning::Mirror));
    let over = r#"{"/status/phase":"Succeeded"}"#;
    assert!(matches!(meaning(over, None), Meaning::Finished(_)));
    // A pod that this daemon has seen running is kept, for its logs.
    let before = read(&pod("{}"), &acceptor(), SERVER, None);
    assert!(matches!(meaning(over, before.as_ref()), Meaning::Wanted(..)));
    let Meaning::Refused(refused) = meaning(r#"{"/spec/hostUsers":false}"#, None) else {
        panic!("it is taken")
    };
    assert!(refused.message.contains("hostUsers"), "{}", refused.message);
    assert_eq!((refused.reason.as_str(), refused.pod.uid.as_str()), ("PodFeatureUnsupported", "u-1"));
    assert!(read(&json!({}), &acceptor(), SERVER, None).is_none());
}

#[test]
fn a_pod_that_names_the_token_of_another_one_is_refused() {
    let thief = |name: &str| {
        let volumes =
            json!({"/spec/volumes": [{"name": "t", "secret": {"secretName": name, "optional": true}}]});
        read(&pod(&volumes.to_string()), &acceptor(), SERVER, None).unwrap().meaning
    };
    // The pod's own UID is u-1: its stored text names this Secret.
    for name in ["other", "podkeeper:token:robot:u-1-0", "podkeeper-token-u-2-0"] {
        assert!(matches!(thief(name), Meaning::Wanted(..)), "{name}: {:?}", thief(name));
    }
    for name in ["podkeeper:token:robot:u-2-0", "podkeeper:token:robot:u-1-1-0", "podkeeper:token:"] {
        let Meaning::Refused(refused) = thief(name) else { panic!("{name} is taken") };
        assert!(refused.message.contains("spec.volumes[0].secret"), "{}", refused.message);
    }
}

#[test]
fn names_that_are_no_names_reach_nobody() {
    for (at, name) in [("name", "esc\u{1b}[31m\nx"), ("namespace", "a/b"), ("name", ".."), ("name", "A")] {
        let bad = json!({(format!("/metadata/{at}").as_str()): name});
        let read = read(&pod(&bad.to_string()), &acceptor(), SERVER, None).unwrap();
        let Meaning::Unusable(problem) = read.meaning else { panic!("{name:?}: {:?}", read.meaning) };
        assert_eq!(problem.field.as_deref(), Some(&*format!("metadata.{at}")), "{problem}");
    }
}

#[test]
fn what_is_remembered_of_a_pod_is_read_again() {
    let first = read(&pod("{}"), &acceptor(), SERVER, None).unwrap();
    assert!(!first.text.contains("status") && !first.text.contains("managedFields"));
    let again = read_remembered(&serde_json::from_str(&first.text).unwrap(), &acceptor(), SERVER).unwrap();
    assert_eq!((again.uid.as_str(), again.spec.containers.len()), ("u-1", 1));
}

#[test]
fn objects() {
    let value = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "x"}, "data": {"a": "b"}});
    let found = object(&value, ObjectKind::ConfigMap, &acceptor(), SERVER).unwrap();
    assert_eq!((found.key.to_string().as_str(), found.has_key("a")), ("ConfigMap shop/c", true));
    // An object that podkeeper makes keeps its name, which no object of the API has.
    let name = crate::pod::object::SERVICES;
    let value = json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"a": "b"}});
    let found = object(&value, ObjectKind::ConfigMap, &acceptor(), SERVER).unwrap();
    assert_eq!((found.key.name.as_str(), found.has_key("a")), (name, true));
}

/// Reads versions of a pod, one after the other: whether it is deleted, and its phase. Returns whether each is over.
fn are_over(versions: &[(bool, &str)]) -> Vec<bool> {
    let mut before = None;
    let read_next = |(is_deleted, phase): &(bool, &str)| {
        let mut value = pod("{}");
        value["status"]["phase"] = (*phase).into();
        if *is_deleted {
            value["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        }
        before = read(&value, &acceptor(), SERVER, before.as_ref());
        matches!(before.as_ref().unwrap().meaning, Meaning::Finished(_))
    };
    versions.iter().map(read_next).collect()
}

/// It was told that it had ended, and then ran.
#[test]
fn a_pod_that_an_older_state_of_the_server_deletes_no_more_is_over_when_its_end_was_told() {
    assert_eq!(are_over(&[(false, "Running"), (true, "Failed")]), [false, false], "its end is told");
    assert_eq!(are_over(&[(false, "Running"), (true, "Running"), (false, "Failed")]), [false, false, true]);
    assert_eq!(are_over(&[(true, "Running"), (false, "Running")]), [false, false], "it runs again");
}

/// Regression: it ran again when the static pod that had its name had gone.
#[test]
fn a_pod_that_failed_because_a_static_one_has_its_name_is_over() {
    let mut value = pod("{}");
    value["status"]["phase"] = "Running".into();
    let before = read(&value, &acceptor(), SERVER, None);
    let is_over = |status: Value| {
        let value = Value::from_iter(
            [("status".to_owned(), status)]
                .into_iter()
                .chain(value.as_object().unwrap().clone().into_iter().filter(|(key, _)| key != "status")),
        );
        let read = read(&value, &acceptor(), SERVER, before.as_ref()).unwrap();
        matches!(read.meaning, Meaning::Finished(_))
    };
    assert!(is_over(json!({ "phase": "Failed", "reason": DISPLACED })));
    assert!(!is_over(json!({ "phase": "Running", "reason": DISPLACED })), "it may run again");
    assert!(!is_over(json!({ "phase": "Failed", "reason": "Evicted" })), "this daemon has told it");
}
