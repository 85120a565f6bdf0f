//! Each reason for which a pod is refused; the first one counts.

use std::sync::Arc;

use super::rig::{Rig, acts, config, pod, pod_of, with_port};
use crate::base::limits;
use crate::daemon::turn::Event;
use crate::daemon::turn::admission::{Chosen, Room, admit};
use crate::node::pressure::Pressures;
use crate::pod::{DesiredPod, Source};

fn verdict(pod: &DesiredPod, others: &[&DesiredPod]) -> String {
    match admit(pod, others.iter().copied(), &config(), &Pressures::new(), Chosen::Here, Room::Counts) {
        Ok(()) => "fine".into(),
        Err(rejection) => format!("{}: {}", rejection.reason, rejection.message),
    }
}

#[test]
fn reasons() {
    let check = |spec: &str, expected: &str| assert_eq!(verdict(&pod_of("a", spec), &[]), expected, "{spec}");
    let app = "containers: [{name: app}]";
    check(&format!("{{{app}}}"), "fine");
    check(&format!("{{{app}, os: {{name: linux}}}}"), "fine");
    check(
        &format!("{{{app}, os: {{name: windows}}}}"),
        "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS",
    );
    check(&format!("{{{app}, nodeSelector: {{disk: flash}}}}"), "fine");
    for selector in ["{disk: ssd}", "{disk: flash, gpu: 'yes'}"] {
        check(
            &format!("{{{app}, nodeSelector: {selector}}}"),
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        );
    }
    let terms = |terms: &str| {
        let required =
            format!("requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}");
        format!("{{{app}, affinity: {{nodeAffinity: {{{required}}}}}}}")
    };
    check(&terms("[{matchExpressions: [{key: disk, operator: In, values: [ssd, flash]}]}]"), "fine");
    check(&terms("[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]"), "fine");
    check(&format!("{{{app}, affinity: {{nodeAffinity: {{}}}}}}"), "fine");
    for unmet in [
        "[{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]",
        "[{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]",
        "[{}]",
    ] {
        check(
            &terms(unmet),
            "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        );
    }
    // What a scheduler only prefers refuses nothing.
    check(
        &format!(
            "{{{app}, affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, \
             preference: {{matchExpressions: [{{key: disk, operator: In, values: [ssd]}}]}}}}]}}}}}}"
        ),
        "fine",
    );
    check(&format!("{{{app}, nodeName: n1}}"), "fine");
    check(&format!("{{{app}, nodeName: ''}}"), "fine");
    check(
        &format!("{{{app}, nodeName: n2}}"),
        "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name",
    );
    check(&format!("{{{app}, hostNetwork: true}}"), "fine");
    check(
        "{containers: [{name: app, securityContext: {privileged: true}}]}",
        "Forbidden: pod with UID \"a-1\" specified privileged container, but is disallowed (--allow-privileged, --source-policy)",
    );
    check(
        "{initContainers: [{name: i, securityContext: {privileged: true}}], containers: [{name: app}]}",
        "Forbidden: pod with UID \"a-1\" specified privileged init container, but is disallowed (--allow-privileged, --source-policy)",
    );
    // Two reasons apply: the check that comes first counts.
    check(
        &format!("{{{app}, nodeName: n2, nodeSelector: {{disk: ssd}}, os: {{name: windows}}}}"),
        "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS",
    );
}

#[test]
fn the_os_label_of_the_pod_itself() {
    let labelled = |os: &str| {
        let mut pod = (*pod("a")).clone();
        pod.metadata.labels = Some([("kubernetes.io/os".to_owned(), os.to_owned())].into());
        verdict(&pod, &[])
    };
    assert_eq!(labelled("linux"), "fine");
    let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
    assert_eq!(labelled("windows"), format!("PodOSSelectorNodeLabelDoesNotMatch: {message}"));
}

#[test]
fn host_network_is_for_the_sources_that_may() {
    let mut pod = (*pod_of("a", "{hostNetwork: true, containers: [{name: app}]}")).clone();
    pod.source = Source::Http;
    let message = "pod with UID \"a-1\" specified host networking, but is disallowed (--host-network-sources, --source-policy)";
    assert_eq!(verdict(&pod, &[]), format!("Forbidden: {message}"));
}

/// Podkeeper sends probes and hooks from the host's network.
#[test]
fn whom_probes_and_hooks_ask_is_for_the_sources_that_may_use_the_hosts_network() {
    let of = |source: Source, probes: &str| {
        let mut pod = (*pod_of("a", &format!("{{containers: [{{name: app, {probes}}}]}}"))).clone();
        pod.source = source;
        verdict(&pod, &[])
    };
    for probes in [
        "livenessProbe: {httpGet: {port: 80, host: 127.0.0.1}}",
        "readinessProbe: {tcpSocket: {port: 80, host: 127.0.0.1}}",
        "lifecycle: {preStop: {httpGet: {port: 80, host: 127.0.0.1}}}",
    ] {
        let message = "pod with UID \"a-1\" specified host \"127.0.0.1\" of a probe or hook, which is asked from the \
                       host's network, but is disallowed (--host-network-sources, --source-policy)";
        assert_eq!(of(Source::Http, probes), format!("Forbidden: {message}"));
        assert_eq!(of(Source::File, probes), "fine");
        assert_eq!(of(Source::Http, &probes.replace(", host: 127.0.0.1", "")), "fine");
    }
}

#[test]
fn host_ports() {
    let check = |a: &str, b: &str, clash: bool| {
        let pod = |name: &str, ports: &str| {
            pod_of(name, &format!("{{containers: [{{name: app, ports: [{ports}]}}]}}"))
        };
        let (a, b) = (pod("a", a), pod("b", b));
        assert_eq!(verdict(&a, &[&b]) != "fine", clash, "{a:?} {b:?}");
        assert_eq!(verdict(&b, &[&a]) != "fine", clash, "and the other way round");
    };
    let any = "{containerPort: 80, hostPort: 8080}";
    check(any, any, true);
    check(any, "{containerPort: 81, hostPort: 8080, protocol: TCP}", true);
    check(any, "{containerPort: 80, hostPort: 8080, protocol: UDP}", false);
    check(any, "{containerPort: 80, hostPort: 8081}", false);
    check(any, "{containerPort: 80}", false);
    check("{containerPort: 80, hostPort: 0}", "{containerPort: 80, hostPort: 0}", false);
    let one = "{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.1}";
    check(one, one, true);
    check(one, any, true);
    check(one, "{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.2}", false);
    check(one, "{containerPort: 80, hostPort: 8080, hostIP: '::'}", true);
    let taken = verdict(&with_port("a", 80), &[&with_port("b", 80)]);
    let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: \
                   host port 80 is taken by pod default/b";
    assert_eq!(taken, format!("NodePorts: {message}"));
}

#[test]
fn ports_of_sidecars_count_and_those_of_init_containers_do_not() {
    let with = |name: &str, policy: &str| {
        pod_of(
            name,
            &format!(
                "{{initContainers: [{{name: i{policy}, ports: [{{containerPort: 80, hostPort: 80}}]}}], \
                 containers: [{{name: app}}]}}"
            ),
        )
    };
    let init = with("i", "");
    let side = with("s", ", restartPolicy: Always");
    let plain = with_port("p", 80);
    assert_eq!(verdict(&init, &[&plain]), "fine");
    assert_ne!(verdict(&side, &[&plain]), "fine");
    assert_ne!(verdict(&plain, &[&side]), "fine");
    assert_eq!(verdict(&plain, &[&init]), "fine");
}

#[test]
fn a_refused_pod_is_told_once_and_shown_as_failed() {
    let mut rig = Rig::listed();
    let bad = pod_of("a", "{nodeName: n2, containers: [{name: app}]}");
    let told = rig.want(&[Arc::clone(&bad)]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told.iter()
            .all(|line| line.starts_with("WARN: pod default/a: NodeName: Predicate NodeName failed: ")),
        "{told:?}"
    );
    assert_eq!(rig.shown(), "a Failed NodeName");
    // Other pods come and go: the refusal is not logged again.
    assert_eq!(rig.want(&[bad.clone(), pod("b")]), ["spawn b, empty", "run b/b-1"]);
    assert_eq!(acts(rig.want(&[bad])), ["stop b: its manifest is gone"]);
    assert_eq!(rig.want(&[]), [""; 0], "it never had a worker");
    assert_eq!(rig.shown(), "");
}

#[test]
fn a_mended_pod_runs() {
    let mut rig = Rig::listed();
    rig.want(&[pod_of("a", "{nodeName: n2, containers: [{name: app}]}")]);
    // Under the same UID, and under another.
    assert_eq!(rig.want(&[pod("a")]), ["spawn a, empty", "run a/a-1"]);
    let mut rig = Rig::listed();
    rig.want(&[pod_of("a", "{nodeName: n2, containers: [{name: app}]}")]);
    assert_eq!(rig.want(&[pod("a/a-2")]), ["spawn a, empty", "run a/a-2"]);
    assert_eq!(rig.shown(), "a Pending");
}

/// An edit that this node cannot run: the running version is stopped, and the pod is shown as refused.
#[test]
fn an_edit_that_is_refused_stops_what_ran() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    let bad = pod_of("a/a-2", "{nodeName: n2, containers: [{name: app}]}");
    assert_eq!(acts(rig.want(&[bad])), ["stop a: it was rejected"]);
    assert_eq!(rig.gone("a"), ["retire a"]);
    assert_eq!(rig.shown(), "a Failed NodeName");
}

/// Regression: a thousand pods of a URL, most of which had no place, were all judged again for each report of each worker.
/// The main loop had no time for anything else, and a container of another source that had ended was down for minutes.
#[test]
fn many_refused_pods_are_judged_together_and_not_while_there_is_no_place() {
    let mut config = config();
    Arc::make_mut(&mut config.node).max_pods = 100;
    let mut rig = Rig::listed_with(config);
    let pods: Vec<Arc<DesiredPod>> = (0..1000).map(|n| pod(&format!("p{n:03}"))).collect();
    rig.want(&pods);
    let admitted = |rig: &Rig| rig.turn.waiting.admitted.get();
    let begun = admitted(&rig);
    assert!(begun <= 2 * pods.len(), "{begun}");
    let runs = |rig: &Rig| rig.shown().matches("OutOfpods").count();
    assert_eq!(runs(&rig), 900);
    // Nothing has become free.
    for running in &pods[..100] {
        rig.status(running, "Running", false);
        rig.status(running, "Running", false);
    }
    assert_eq!(admitted(&rig), begun);
    // Ten end within a short time: their places are given away together.
    for ended in &pods[..10] {
        rig.status(ended, "Succeeded", false);
    }
    rig.now = rig.turn.next_due().unwrap();
    rig.handle(Event::Tick);
    assert_eq!(runs(&rig), 890);
    assert!(admitted(&rig) <= begun + 30, "{} more", admitted(&rig) - begun);
    // A few are judged at once.
    rig.want(&pods[..120]);
    rig.now = rig.now.after(limits::READMISSION.saturating_mul(4));
    rig.handle(Event::Tick);
    assert_eq!(runs(&rig), 10);
    rig.status(&pods[50], "Succeeded", false);
    assert_eq!(runs(&rig), 9);
}
