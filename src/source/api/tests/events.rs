//! Events of a watch: one after the other, before a connection breaks, and past the bound of all pods.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, names, not_found, pod, start};
use crate::api_client::testing::{Asked, begin, chunk, json as answer};
use crate::base::limits;
use crate::pod::DesiredPod;
use crate::source::{PodSet, SourceUpdate};

/// A line of a watch.
pub(super) fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// The bookmark behind the first part of a stream.
pub(super) fn end() -> Value {
    json!({"kind": "Pod", "metadata": {"resourceVersion": "5",
        "annotations": {"k8s.io/initial-events-end": "true"}}})
}

/// It was forgotten until the next event came, or five minutes had passed.
#[test]
fn what_was_heard_just_before_a_connection_breaks_counts() {
    let watches = AtomicUsize::new(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        begin(out)?;
        if watches.fetch_add(1, Ordering::SeqCst) == 0 {
            chunk(out, &event("ADDED", &pod("a", &json!({}), &json!({}))))?;
            let mut b = pod("b", &json!({}), &json!({}));
            b["metadata"]["resourceVersion"] = "6".into();
            chunk(out, &(event("BOOKMARK", &end()) + &event("ADDED", &b) + "{"))?;
            return Ok(false);
        }
        assert!(asked.line.contains("resourceVersion=6"), "{}", asked.line);
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = start("api-broken", Box::new(serve));
    rig.set("both are there", |set| names(set) == ["a", "b"]);
}

#[test]
fn events_without_a_pause_hold_up_nothing() {
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        begin(out)?;
        chunk(out, &event("BOOKMARK", &end()))?;
        chunk(out, &event("ADDED", &pod("b", &json!({}), &json!({}))))?;
        loop {
            chunk(out, &event("MODIFIED", &pod("a", &json!({}), &json!({}))))?;
            thread::sleep(Duration::from_millis(1));
        }
    };
    let rig = start("api-flood", Box::new(serve));
    rig.set("both are there", |set| names(set) == ["a", "b"]);
}

#[test]
fn past_its_bound_pods_that_are_known_still_change_and_go() {
    let (tell, go) = crossbeam_channel::bounded::<()>(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        let large = json!({"message": "x".repeat(1 << 20)});
        begin(out)?;
        for n in 10..36 {
            chunk(out, &event("ADDED", &pod(&format!("p{n}"), &json!({}), &large)))?;
        }
        chunk(out, &event("BOOKMARK", &end()))?;
        go.recv().unwrap();
        chunk(out, &event("DELETED", &pod("p10", &json!({}), &large)))?;
        let mut leaves = pod("p11", &json!({}), &large);
        leaves["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        chunk(out, &event("MODIFIED", &leaves))?;
        chunk(out, &event("ADDED", &pod("q", &json!({}), &json!({}))))?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = start("api-bound", Box::new(serve));
    let first = rig.set("the first set", |_| true);
    // The bound is 24 MiB, and each pod takes a little more than one.
    assert_eq!((first.pods.len(), first.broken.len()), (23, 3), "{:?}", first.broken);
    let message = "at most 4000, of 24 MiB; left out: 3, shop/p33 first";
    assert!(first.problems[0].message.contains(message), "{:?}", first.problems);
    tell.send(()).unwrap();
    let set = rig.set("a new one is there", |set| names(set).contains(&"q"));
    assert_eq!(set.pods.len(), 23);
    let leaves = set.pods.iter().find(|pod| pod.key.name == "p11").unwrap();
    assert!(leaves.metadata.deletion_timestamp.is_some() && !names(&set).contains(&"p10"));
    assert!(set.problems[0].message.contains(message));
}

/// The server tells it as two events within a millisecond; only the second one was seen, and the pod had its whole grace.
#[test]
fn a_forced_deletion_is_seen_before_the_pod_is_gone() {
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        begin(out)?;
        let mut a = pod("a", &json!({}), &json!({}));
        chunk(out, &(event("ADDED", &a) + &event("BOOKMARK", &end())))?;
        thread::sleep(Duration::from_millis(300));
        a["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        a["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        chunk(out, &(event("MODIFIED", &a) + &event("DELETED", &a)))?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = start("api-forced", Box::new(serve));
    rig.set("it is there", |set| names(set) == ["a"]);
    let marked =
        |set: &PodSet| set.pods.iter().any(|pod| pod.metadata.deletion_grace_period_seconds == Some(0));
    rig.set("its grace is told", marked);
    rig.set("it is gone", |set| names(set).is_empty());
}

/// A pod that was deleted by force while the server could not be reached had its whole grace, beside the one that replaced
/// it elsewhere. Data of an earlier version is a backup.
#[test]
fn what_has_vanished_meanwhile_gets_a_moment() {
    for (second, moment) in [("99", Some(2)), ("3", None)] {
        let lists = AtomicUsize::new(0);
        let serve = move |asked: &Asked, out: &mut dyn Write| {
            if !asked.line.starts_with("GET /api/v1/pods?") {
                return not_found(out);
            }
            if !asked.line.contains("sendInitialEvents") {
                return answer(
                    out,
                    410,
                    &json!({"kind": "Status", "code": 410, "reason": "Expired"}).to_string(),
                );
            }
            begin(out)?;
            let mut last = end();
            if lists.fetch_add(1, Ordering::SeqCst) == 0 {
                for name in ["a", "b"] {
                    chunk(out, &event("ADDED", &pod(name, &json!({}), &json!({}))))?;
                }
                chunk(out, &event("BOOKMARK", &last))?;
                return Ok(false);
            }
            last["metadata"]["resourceVersion"] = second.into();
            chunk(out, &(event("ADDED", &pod("b", &json!({}), &json!({}))) + &event("BOOKMARK", &last)))?;
            thread::sleep(PATIENCE);
            Ok(false)
        };
        let rig = start(&format!("api-vanished-{second}"), Box::new(serve));
        rig.set("both are there", |set| names(set) == ["a", "b"]);
        let change = rig.set("a change", |_| true);
        let grace = |pod: &DesiredPod| pod.metadata.deletion_grace_period_seconds;
        let a = change.pods.iter().find(|pod| pod.key.name == "a");
        assert_eq!(a.and_then(|pod| grace(pod)), moment, "{second}");
        assert!(change.pods.iter().any(|pod| pod.key.name == "b" && grace(pod).is_none()));
        if a.is_some() {
            rig.set("it is gone", |set| names(set) == ["b"]);
        }
    }
}

/// Each break doubled the wait before the next watch, up to a minute, for a balancer that closes what is silent.
#[test]
fn a_watch_that_has_worked_and_breaks_is_begun_again_at_once() {
    let watches = AtomicUsize::new(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        let nth = watches.fetch_add(1, Ordering::SeqCst);
        begin(out)?;
        if nth == 0 {
            chunk(out, &event("BOOKMARK", &end()))?;
        }
        if nth < 8 {
            chunk(out, &(event("ADDED", &pod(&format!("p{nth}"), &json!({}), &json!({}))) + "{"))?;
            return Ok(false);
        }
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let begun = Instant::now();
    let rig = start("api-breaks", Box::new(serve));
    rig.set("all are there", |set| set.pods.len() == 8);
    // 0.8, 1.6, 3.2 … s before each of them are more than the patience of this test.
    assert!(begun.elapsed() < PATIENCE);
    while let Ok(update) = rig.heard.try_recv() {
        assert!(!matches!(update, SourceUpdate::Failed(_)), "{update:?}");
    }
}

/// Regression: they took all places for requests for as long as they hung, and no new pod of a later namespace ran.
#[test]
fn many_objects_that_hang_leave_places_for_others() {
    let hanging = AtomicUsize::new(0);
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if asked.line.contains("/secrets/hangs") {
            hanging.fetch_add(1, Ordering::SeqCst);
            thread::sleep(PATIENCE);
            return Ok(false);
        }
        if asked.line.starts_with("GET /api/v1/nodes/") {
            return answer(out, 200, &json!({"kind": "Node", "metadata": {"name": "n1"}}).to_string());
        }
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        let of = |name: &str| json!({"volumes": [{"name": "s", "secret": {"secretName": name}}]});
        begin(out)?;
        let mut all = event("BOOKMARK", &end());
        for n in 0..24 {
            let name = format!("a{n}");
            let mut pod = pod(&name, &of(&format!("hangs-{n}")), &json!({}));
            pod["metadata"]["namespace"] = "aa".into();
            all += &event("ADDED", &pod);
        }
        chunk(out, &all)?;
        while hanging.load(Ordering::SeqCst) < limits::API_LOOK_UPS_AT_ONCE {
            thread::sleep(Duration::from_millis(10));
        }
        chunk(out, &event("ADDED", &pod("z", &json!({}), &json!({}))))?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = start("api-starved", Box::new(serve));
    rig.set("the new one is there", |set| names(set) == ["z"]);
}

/// Others waited for each of its objects in turn, and a pod with a good one behind several that hang for all of them.
#[test]
fn a_pod_whose_objects_do_not_come_holds_up_no_deletion_and_no_other_pod() {
    let serve = move |asked: &Asked, out: &mut dyn Write| {
        if asked.line.contains("/secrets/f-good") {
            let secret = json!({"kind": "Secret", "metadata": {"name": "f-good", "namespace": "shop"}});
            return answer(out, 200, &secret.to_string());
        }
        if asked.line.contains("/secrets/") {
            thread::sleep(PATIENCE);
            return Ok(false);
        }
        if asked.line.starts_with("GET /api/v1/nodes/") {
            return answer(out, 200, &json!({"kind": "Node", "metadata": {"name": "n1"}}).to_string());
        }
        if !asked.line.starts_with("GET /api/v1/pods?") {
            return not_found(out);
        }
        begin(out)?;
        let mut a = pod("a", &json!({}), &json!({}));
        chunk(out, &(event("ADDED", &a) + &event("BOOKMARK", &end())))?;
        thread::sleep(Duration::from_millis(300));
        let of = |name: &str| json!({"volumes": [{"name": "s", "secret": {"secretName": name}}]});
        let mut all = String::new();
        for name in ["b", "c", "d"] {
            all += &event("ADDED", &pod(name, &of(name), &json!({})));
        }
        a["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        all += &event("MODIFIED", &a);
        all += &event("ADDED", &pod("e", &json!({}), &json!({})));
        all += &event("ADDED", &pod("f", &of("f-good"), &json!({})));
        chunk(out, &all)?;
        thread::sleep(PATIENCE);
        Ok(false)
    };
    let rig = start("api-hangs", Box::new(serve));
    rig.set("it is there", |set| names(set) == ["a"]);
    let begun = Instant::now();
    rig.set("all are carried out", |set| {
        let is_deleted = |pod: &DesiredPod| pod.metadata.deletion_timestamp.is_some();
        let has = |name: &str| names(set).contains(&name);
        has("e") && has("f") && set.pods.iter().any(|pod| pod.key.name == "a" && is_deleted(pod))
    });
    assert!(begun.elapsed() < limits::API_OBJECT_FIRST, "they waited for the objects of others");
}
