use k8s_openapi::api::core::v1::PodCondition;
use proptest::prelude::*;

use super::*;
use crate::pod::Source;

fn read(after: &str, timeout: Option<&str>) -> Result<Option<After>, BadAfter> {
    let mut all = BTreeMap::from([(AFTER.to_owned(), after.to_owned())]);
    all.extend(timeout.map(|text| (TIMEOUT.to_owned(), text.to_owned())));
    parse("shop", Some(&all))
}

#[test]
fn annotations_are_read() {
    let words = |after: &After| after.on.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let check = |text: &str, expected: &str| match read(text, None) {
        Ok(after) => assert_eq!(words(&after.unwrap()), expected, "{text}"),
        Err(bad) => assert_eq!(bad.why, expected, "{text}"),
    };
    check("db", "pod shop/db to run");
    check("db=ready, other/job=succeeded ,db=ready", "pod shop/db to be ready; pod other/job to succeed");
    check("db,db=ready", "pod shop/db to run; pod shop/db to be ready");
    check("", "\"\" must be the name of a pod, or NAMESPACE/NAME");
    check("db,", "\"\" must be the name of a pod, or NAMESPACE/NAME");
    check("a/b/c", "\"a/b/c\" must be the name of a pod, or NAMESPACE/NAME");
    check("/b", "\"/b\" must be the name of a pod, or NAMESPACE/NAME");
    check("Db", "\"Db\" must be the name of a pod, or NAMESPACE/NAME");
    check("db=healthy", "\"healthy\" must be ready or succeeded");
    check("db=", "\"\" must be ready or succeeded");
    let many: Vec<String> = (0..=limits::AFTER_PODS).map(|n| format!("p{n}")).collect();
    check(&many.join(","), "must not name more than 64 pods");
    let timeout = |text: &str| read("db", Some(text)).map(|after| after.unwrap().timeout);
    assert_eq!(timeout("2m"), Ok(Duration::from_secs(120)));
    assert_eq!(read("db", None).unwrap().unwrap().timeout, limits::AFTER_TIMEOUT);
    for bad in ["", "2", "-1s", "0s", "soon"] {
        assert_eq!(timeout(bad).unwrap_err().key, TIMEOUT, "{bad}");
    }
    assert_eq!(parse("shop", None), Ok(None));
}

fn key(n: usize) -> PodKey {
    PodKey { namespace: "default".into(), name: format!("p{n}") }
}

/// A pod that waits for these.
fn waiter(key: &PodKey, on: &[PodKey]) -> DesiredPod {
    let mut pod = crate::plan::testing::pod("{containers: [{name: app}]}");
    pod.key = key.clone();
    let on: Vec<&str> = on.iter().map(|key| key.name.as_str()).collect();
    let annotations = [(AFTER.to_owned(), on.join(","))];
    pod.metadata.annotations = (!on.is_empty()).then(|| annotations.into());
    pod
}

fn ready(value: &str) -> PodStatus {
    let condition = PodCondition { type_: "Ready".into(), status: value.into(), ..PodCondition::default() };
    PodStatus { phase: Some("Running".into()), conditions: Some(vec![condition]), ..PodStatus::default() }
}

#[test]
fn who_may_start() {
    let phase = |phase: &str| PodStatus { phase: Some(phase.into()), ..PodStatus::default() };
    let check = |need: &str, status: Option<PodStatus>, expected: bool| {
        let after = read(&format!("db{need}"), None).unwrap().unwrap();
        let standing = |_: &Dependency| status.as_ref().map_or(Standing::Unknown, Standing::Status);
        let verdict = decide(&after, standing, Mono::default(), Mono::default());
        assert_eq!(verdict == Verdict::Start, expected, "{need} {status:?}");
    };
    for need in ["", "=ready", "=succeeded"] {
        check(need, None, false);
        check(need, Some(phase("Pending")), false);
    }
    check("", Some(phase("Running")), true);
    check("", Some(phase("Succeeded")), true);
    check("", Some(phase("Failed")), true);
    check("=ready", Some(phase("Running")), false);
    check("=ready", Some(ready("False")), false);
    check("=ready", Some(ready("True")), true);
    check("=ready", Some(phase("Succeeded")), false);
    check("=succeeded", Some(ready("True")), false);
    check("=succeeded", Some(phase("Failed")), false);
    check("=succeeded", Some(phase("Succeeded")), true);
}

#[test]
fn the_wait_ends() {
    let after = read("db=ready,gone", Some("10s")).unwrap().unwrap();
    let status = ready("False");
    let standing = |d: &Dependency| if d.name == "db" { Standing::Status(&status) } else { Standing::Absent };
    let at = |s: u64| Mono(Duration::from_secs(s));
    let message = "pod shop/db to be ready, pod shop/gone to run (there is no such pod)".to_owned();
    let wait = Verdict::Wait { message: message.clone(), until: at(15) };
    assert_eq!(decide(&after, standing, at(5), at(5)), wait);
    assert_eq!(decide(&after, standing, at(5), at(14)), wait);
    assert_eq!(decide(&after, standing, at(5), at(15)), Verdict::StartAnyway(message));
}

/// Regression: a pod of a URL that waited for one of the node's own files kept that one from starting for ever.
#[test]
fn a_pod_of_a_later_source_closes_no_cycle_for_those_before_it() {
    let of = |source: Source, from: usize, to: usize| {
        let mut pod = waiter(&key(from), &[key(to)]);
        pod.source = source;
        pod
    };
    let graph = |pod: DesiredPod| {
        let mut graph = Graph::default();
        graph.follow([Arc::new(pod)].iter(), "n");
        graph
    };
    let later = graph(of(Source::Http, 1, 2));
    let gives_way = |source| source > Source::File;
    assert_eq!(later.cycle(&of(Source::File, 2, 1), "n", gives_way), None);
    let way = graph(of(Source::File, 1, 2)).cycle(&of(Source::Http, 2, 1), "n", gives_way);
    assert_eq!(way.as_deref().map(super::way).as_deref(), Some("default/p2 -> default/p1 -> default/p2"));
    assert!(later.cycle(&of(Source::Http, 2, 1), "n", |_| false).is_some());
}

proptest! {
    /// Pods added one after the other without closing a cycle have none, and each refused one would have
    /// closed one.
    #[test]
    fn no_cycle_is_ever_accepted(edges in proptest::collection::vec((0..8usize, 0..8usize), 0..40), steps_back: bool) {
        let mut accepted: BTreeMap<PodKey, Vec<PodKey>> = BTreeMap::new();
        let mut followed = Graph::default();
        for (from, to) in edges {
            let mut now = accepted.clone();
            now.entry(key(from)).or_default().push(key(to));
            let next = |k: &PodKey| now.get(k).cloned().unwrap_or_default();
            let pods = |all: &BTreeMap<PodKey, Vec<PodKey>>| -> Vec<Arc<DesiredPod>> {
                all.iter().map(|(key, on)| Arc::new(waiter(key, on))).collect()
            };
            let before = pods(&accepted);
            let mut graph = Graph::default();
            graph.follow(before.iter(), "n");
            // It is the same by whichever way it has come to be.
            followed.follow(before.iter(), "n");
            let named = |graph: &Graph| -> Vec<(PodKey, Vec<PodKey>)> {
                let sorted = |waiters: &Vec<Arc<DesiredPod>>| {
                    let mut keys: Vec<PodKey> = waiters.iter().map(|pod| pod.key.clone()).collect();
                    keys.sort();
                    keys
                };
                graph.waiters.iter().map(|(key, waiters)| (key.clone(), sorted(waiters))).collect()
            };
            prop_assert_eq!(named(&graph), named(&followed));
            prop_assert!(!followed.follow(before.iter(), "n"));
            if steps_back {
                followed.follow(pods(&now).iter(), "n");
                followed.follow(std::iter::empty(), "n");
                prop_assert!(followed.waiters.is_empty());
            }
            match graph.cycle(&waiter(&key(from), &next(&key(from))), "n", |_| false) {
                None => accepted = now,
                Some(way) => {
                    // A real cycle, from the pod to itself, no longer than the number of pods.
                    prop_assert!(way.first() == Some(&key(from)) && way.last() == Some(&key(from)));
                    prop_assert!((2..=9).contains(&way.len()));
                    for two in way.windows(2) {
                        prop_assert!(next(&two[0]).contains(&two[1]), "{:?}", way);
                    }
                }
            }
        }
        // Kahn's algorithm: all pods can be put in an order.
        let mut left: Set<PodKey> = (0..8).map(key).collect();
        loop {
            let free: Vec<PodKey> = left.iter().filter(|k| {
                !accepted.get(k).into_iter().flatten().any(|d| left.contains(d))
            }).cloned().collect();
            if free.is_empty() { break; }
            for k in free { left.remove(&k); }
        }
        prop_assert!(left.is_empty(), "{:?}", left);
    }

    #[test]
    fn no_text_breaks_the_parser(text in "\\PC{0,40}", names in "[a-z/=,.-]{0,40}", timeout in "\\PC{0,10}") {
        let _ = read(&text, Some(&timeout));
        let _ = read(&names, None);
    }
}
