use super::*;
use crate::mapping::tests::pod;

const GIB: i64 = 1 << 30;

/// A pod of one container with these resources.
fn one(resources: &str) -> DesiredPod {
    pod(&format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"a","image":"i","resources":{resources}}}]}}}}"#
    ))
}

fn applied(resources: &str, node_memory: i64, floor: i32) -> HostConfig {
    let pod = one(resources);
    let mut host = HostConfig::default();
    apply(&mut host, &pod, ContainerKind::Regular, &pod.spec.containers[0], node_memory, floor);
    host
}

#[test]
fn cpu() {
    let check = |resources: &str, shares: i64, quota: Option<i64>| {
        let host = applied(resources, GIB, -1000);
        assert_eq!(
            (resources, host.resources.cpu_shares, host.resources.cpu_quota),
            (resources, Some(shares), quota)
        );
        assert_eq!(
            host.resources.cpu_period,
            quota.map(|_| 100_000),
            "a quota needs its period, and only a quota does"
        );
    };
    check("{}", 2, None);
    check(r#"{"requests":{"cpu":"0"}}"#, 2, None);
    check(r#"{"requests":{"cpu":"1m"}}"#, 2, None);
    check(r#"{"requests":{"cpu":"250m"}}"#, 256, None);
    check(r#"{"requests":{"cpu":"1"}}"#, 1024, None);
    check(r#"{"requests":{"cpu":"256"}}"#, 262_144, None);
    check(r#"{"requests":{"cpu":"100000"}}"#, 262_144, None);
    check(r#"{"requests":{"cpu":"9223372036854775"}}"#, 262_144, None);
    check(r#"{"limits":{"cpu":"500m"}}"#, 512, Some(50_000));
    check(r#"{"limits":{"cpu":"500m"},"requests":{"cpu":"0"}}"#, 2, Some(50_000));
    check(r#"{"limits":{"cpu":"1m"}}"#, 2, Some(1000));
    check(r#"{"limits":{"cpu":"0"}}"#, 2, None);
    check(r#"{"limits":{"cpu":"9223372036854775"}}"#, 262_144, Some(i64::MAX));
}

#[test]
fn memory() {
    let check = |resources: &str, bytes: Option<i64>| {
        let host = applied(resources, GIB, -1000);
        assert_eq!((resources, host.resources.memory, host.resources.memory_swap), (resources, bytes, bytes));
    };
    check("{}", None);
    check(r#"{"requests":{"memory":"64Mi"}}"#, None);
    check(r#"{"limits":{"memory":"64Mi"}}"#, Some(67_108_864));
    check(r#"{"limits":{"memory":"0"}}"#, None);
    check(r#"{"limits":{"memory":"100e6"}}"#, Some(100_000_000));
}

#[test]
fn classes_and_scores() {
    let check = |resources: &str, class: Qos, score: i32| {
        let got = (qos::class(&one(resources).spec), applied(resources, GIB, -1000).oom_score_adj);
        assert_eq!((resources, got), (resources, (class, Some(score))));
    };
    let all = r#"{"cpu":"1","memory":"256Mi"}"#;
    check("{}", Qos::BestEffort, 1000);
    check(r#"{"requests":{"cpu":"0","memory":"0"},"limits":{"example.com/gpu":"1"}}"#, Qos::BestEffort, 1000);
    check(&format!(r#"{{"limits":{all}}}"#), Qos::Guaranteed, -997);
    check(&format!(r#"{{"limits":{all},"requests":{all}}}"#), Qos::Guaranteed, -997);
    check(&format!(r#"{{"limits":{all},"requests":{{"cpu":"1","memory":"128Mi"}}}}"#), Qos::Burstable, 875);
    check(&format!(r#"{{"requests":{all}}}"#), Qos::Burstable, 750);
    check(r#"{"limits":{"memory":"256Mi"}}"#, Qos::Burstable, 750);
    check(r#"{"requests":{"cpu":"1"}}"#, Qos::Burstable, 999);
    check(r#"{"requests":{"memory":"1Gi"}}"#, Qos::Burstable, 3);
    check(r#"{"requests":{"memory":"7Ei"}}"#, Qos::Burstable, 3);
}

#[test]
fn never_below_the_floor() {
    let all = r#"{"limits":{"cpu":"1","memory":"256Mi"}}"#;
    assert_eq!(applied(all, GIB, -500).oom_score_adj, Some(-500));
    assert_eq!(applied(all, GIB, 0).oom_score_adj, Some(0));
    assert_eq!(applied("{}", GIB, 0).oom_score_adj, Some(1000));
    assert_eq!(applied(r#"{"requests":{"cpu":"1"}}"#, 0, 0).oom_score_adj, Some(999), "unknown node memory");
    let mut host = HostConfig::default();
    apply_sandbox(&mut host, -7);
    assert_eq!(host.oom_score_adj, Some(-7));
    apply_sandbox(&mut host, -1000);
    assert_eq!(host.oom_score_adj, Some(-998));
}

#[test]
fn a_sidecar_is_never_killed_before_those_it_serves() {
    let pod = pod(r#"{"metadata":{"name":"p"},"spec":{
            "initContainers":[{"name":"s","image":"i","restartPolicy":"Always",
                "resources":{"requests":{"memory":"1Mi"}}}],
            "containers":[{"name":"a","image":"i","resources":{"requests":{"memory":"512Mi"}}},
                {"name":"b","image":"i","resources":{"requests":{"memory":"256Mi"}}}]}}"#);
    let sidecar = &pod.init_containers()[0];
    assert_eq!(oom_score_adj(&pod, ContainerKind::Sidecar, sidecar, GIB), 750);
    assert_eq!(oom_score_adj(&pod, ContainerKind::Init, sidecar, GIB), 999);
}

/// Regression: the kernel killed a pod of an untrusted source last, because of its class of service.
#[test]
fn a_class_counts_where_the_source_may_have_it() {
    let mut pod = pod(r#"{"metadata":{"name":"p"},"spec":{"priorityClassName":"system-node-critical",
            "containers":[{"name":"a","image":"i"}]}}"#);
    let score = |pod: &DesiredPod| oom_score_adj(pod, ContainerKind::Regular, &pod.spec.containers[0], GIB);
    assert_eq!(score(&pod), -997);
    pod.ceiling = priority::HIGHEST_OF_USERS;
    assert_eq!(score(&pod), 1000);
}
