//! Upstream: `pkg/kubelet/preemption/preemption_test.go`; each row has its name there.

use proptest::prelude::*;

use super::*;
use crate::plan::testing;

const MIB: i64 = 1 << 20;

/// A pod of upstream's `getTestPods`.
fn pod(name: &str) -> DesiredPod {
    let (requests, limits, priority) = match name {
        "bestEffort" => ("", "", ""),
        "burstable" => ("requests: {cpu: 100m, memory: 100Mi}", "", ""),
        "high-request-burstable" => ("requests: {cpu: 300m, memory: 300Mi}", "", ""),
        "guaranteed" => ("requests: {cpu: 100m, memory: 100Mi}", ", limits: {cpu: 100m, memory: 100Mi}", ""),
        "high-request-guaranteed" => {
            ("requests: {cpu: 300m, memory: 300Mi}", ", limits: {cpu: 300m, memory: 300Mi}", "")
        }
        "cluster-critical" => ("requests: {cpu: 100m, memory: 100Mi}", "", "priority: 2000000000, "),
        "node-critical" => ("requests: {cpu: 100m, memory: 100Mi}", "", "priority: 2000000100, "),
        _ => panic!("{name}"),
    };
    let resources = format!("resources: {{{requests}{limits}}}");
    let mut pod = testing::pod(&format!("{{{priority}containers: [{{name: c, {resources}}}]}}"));
    pod.key = PodKey { namespace: "default".into(), name: name.into() };
    pod
}

/// The pods that are stopped for these amounts of cpu, memory (MiB) and pods, in the order of the names.
fn chosen(names: &str, missing: [i64; 3]) -> Option<String> {
    let needs = ["cpu", "memory", PODS].into_iter().zip([missing[0], missing[1] * MIB, missing[2]]);
    let needs: Vec<(&str, i64)> = needs.filter(|(_, amount)| *amount > 0).collect();
    let resources: Vec<&str> = needs.iter().map(|(resource, _)| *resource).collect();
    let missing: Vec<i64> = needs.iter().map(|(_, amount)| *amount).collect();
    let pods: Vec<DesiredPod> = names.split_whitespace().map(pod).collect();
    let pods: Vec<Candidate> =
        pods.iter().filter_map(|pod| Candidate::of(&[pod], &resources, false)).collect();
    let mut names: Vec<String> = choose(&missing, &pods)?.into_iter().map(|key| key.name).collect();
    names.sort();
    Some(names.join(" "))
}

#[test]
fn pods_to_preempt() {
    let check = |what: &str, pods: &str, missing: [i64; 3], expected: Option<&str>| {
        assert_eq!(chosen(pods, missing).as_deref(), expected, "{what}");
    };
    let all = "bestEffort burstable high-request-burstable guaranteed high-request-guaranteed";
    check("no requirements", "", [0, 0, 0], Some(""));
    check("no pods", "", [0, 0, 1], None);
    check("equal pods and resources requirements", "burstable", [100, 100, 1], Some("burstable"));
    check("higher requirements than pod requests", "burstable", [200, 200, 2], None);
    let (be, bu) = ("burstable bestEffort", "burstable guaranteed");
    check("choose between bestEffort and burstable", be, [0, 0, 1], Some("bestEffort"));
    check("choose between burstable and guaranteed", bu, [0, 0, 1], Some("burstable"));
    let three = "bestEffort high-request-burstable burstable";
    check("choose lower request burstable if it meets requirements", three, [100, 100, 0], Some("burstable"));
    check(
        "choose higher request burstable if lower does not meet requirements",
        "bestEffort burstable high-request-burstable",
        [150, 150, 0],
        Some("high-request-burstable"),
    );
    check("multiple pods required", all, [350, 350, 0], Some("burstable high-request-burstable"));
    check(
        "evict guaranteed when we have to, and dont evict the extra burstable",
        all,
        [0, 550, 0],
        Some("high-request-burstable high-request-guaranteed"),
    );
    check("can not evict node critical pod for cluster critical pod", "node-critical", [100, 0, 0], None);
    // `TestEvictPodsToFreeRequests`
    check("critical pods cannot be preempted", "cluster-critical", [0, 0, 1], None);
    check(
        "best effort pods are not preempted when attempting to free resources",
        "bestEffort",
        [0, 1, 0],
        None,
    );
    check(
        "multiple pods evicted",
        &format!("cluster-critical {all}"),
        [0, 550, 0],
        Some("high-request-burstable high-request-guaranteed"),
    );
    // Where podkeeper differs: "evict cluster critical pod for node critical pod".
    check("no critical pod goes, for a more critical one neither", "cluster-critical", [100, 0, 0], None);
}

#[test]
fn distances() {
    let check = |what: &str, missing: [i64; 3], name: &str, expected: f64| {
        let resources = ["cpu", "memory", PODS];
        let pod = Candidate::of(&[&pod(name)], &resources, false).unwrap();
        assert!((distance(&pod, &missing) - expected).abs() < 1e-9, "{what}");
    };
    check("no requirements", [0, 0, 0], "burstable", 0.0);
    check("no requests, some requirements", [100, 100 * MIB, 1], "bestEffort", 2.0);
    check("equal requests and requirements", [100, 100 * MIB, 1], "burstable", 0.0);
    check("higher requests than requirements", [50, 50 * MIB, 0], "burstable", 0.0);
}

#[test]
fn what_is_left_without_a_pod() {
    let check = |what: &str, missing: [i64; 3], name: &str, expected: [i64; 3]| {
        let pod = Candidate::of(&[&pod(name)], &["cpu", "memory", PODS], false).unwrap();
        assert_eq!(without(&missing, [&pod].into_iter()), expected, "{what}");
    };
    check("subtract a pod from no requirements", [0, 0, 0], "burstable", [0, 0, 0]);
    let some = [100, 100 * MIB, 1];
    check("subtract no requests from some requirements", some, "bestEffort", [100, 100 * MIB, 0]);
    check("equal requests and requirements", some, "burstable", [0, 0, 0]);
    check("subtract higher requests than requirements", [50, 50 * MIB, 0], "burstable", [0, 0, 0]);
    let left = [100, 100 * MIB, 0];
    check("subtract lower requests than requirements", [200, 200 * MIB, 1], "burstable", left);
}

fn candidate(name: &str, goes_first: bool, class: Qos, frees: [i64; 2]) -> Candidate {
    let key = PodKey { namespace: "default".into(), name: name.into() };
    Candidate { key, goes_first, class, frees: frees.to_vec(), memory: frees[1], cpu: frees[0] }
}

#[test]
fn pods_of_a_source_behind_others_go_first_whatever_their_class() {
    let own = candidate("own", false, Qos::BestEffort, [5, 5]);
    let behind = candidate("behind", true, Qos::Guaranteed, [5, 5]);
    let names = |missing: i64| {
        let chosen = choose(&[missing, 0], &[own.clone(), behind.clone()])?;
        Some(chosen.into_iter().map(|key| key.name).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(names(5).as_deref(), Some("behind"));
    assert_eq!(names(6).as_deref(), Some("behind own"));
    assert_eq!(names(11), None);
}

/// The kubelet has all three go.
#[test]
fn who_has_become_needless_stays() {
    let pods = [
        candidate("near", false, Qos::Burstable, [9, 9]),
        candidate("cpu", false, Qos::Burstable, [10, 0]),
        candidate("memory", false, Qos::Burstable, [0, 10]),
    ];
    let chosen = choose(&[10, 10], &pods).unwrap();
    let mut names: Vec<&str> = chosen.iter().map(|key| key.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cpu", "memory"]);
}

proptest! {
    /// Each chosen pod is needed, all together suffice, and none is chosen if all would not.
    #[test]
    fn who_goes_suffices_and_is_needed(
        missing in (0i64..40, 0i64..40),
        pods in prop::collection::vec((any::<bool>(), 0u8..3, 0i64..12, 0i64..12), 0..9),
    ) {
        let class = |n: u8| [Qos::BestEffort, Qos::Burstable, Qos::Guaranteed][usize::from(n)];
        let pods: Vec<Candidate> = pods
            .into_iter()
            .enumerate()
            .map(|(at, (behind, n, cpu, memory))| {
                candidate(&format!("p{at}"), behind, class(n), [cpu, memory])
            })
            .collect();
        let missing = [missing.0, missing.1];
        let of = |keys: &[&PodKey]| -> Vec<&Candidate> {
            pods.iter().filter(|pod| keys.contains(&&pod.key)).collect()
        };
        let everybody: Vec<&Candidate> = pods.iter().collect();
        match choose(&missing, &pods) {
            None => prop_assert!(!is_enough(&missing, &everybody)),
            Some(chosen) => {
                let all: Vec<&PodKey> = chosen.iter().collect();
                prop_assert!(is_enough(&missing, &of(&all)));
                for key in &chosen {
                    let others: Vec<&PodKey> = chosen.iter().filter(|other| *other != key).collect();
                    prop_assert!(!is_enough(&missing, &of(&others)), "{key} goes in vain");
                }
                let mut reversed = pods.clone();
                reversed.reverse();
                prop_assert_eq!(choose(&missing, &reversed), Some(chosen), "the order of pods decides nothing");
            }
        }
    }
}
