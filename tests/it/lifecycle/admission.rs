//! Pods that this node refuses, with the kubelet's reasons.

use serde_json::{Value, json};

use crate::harness::pods::{Pod, free_port};
use crate::harness::{Node, Options};

/// With these flags the pod is refused for this reason, and no container is created for it.
fn check_refused(flags: &[&str], pod: &Pod, reason: &str) {
    let node = Node::with(Options::flags(flags));
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Failed");
    assert_eq!(node.reason("web"), reason);
    // An admissible pod runs, and comes later: so the refused one was not merely late.
    node.write("zz-probe.yaml", Pod::new("zz-probe").text());
    node.wait_phase("zz-probe", "Running");
    assert_eq!(node.of("web"), []);
    let line = node.says(&["get", "pods", "web", "--no-headers"]);
    assert!(line.contains(reason), "{line}");
    let described = node.says(&["describe", "pod", "web"]);
    assert!(described.contains("Pod was rejected"), "{described}");
}

/// With these flags the pod is admitted: its containers are made. (Whether a privileged one can be started
/// depends on the machine's rules for Docker.)
fn check_admitted(flags: &[&str], pod: &Pod) {
    let node = Node::with(Options::flags(flags));
    node.write("web.yaml", pod.text());
    node.wait_until("its container is made", || node.of("web").iter().any(|c| c.container == "app"));
    assert_eq!(node.reason("web"), "");
}

fn privileged() -> Pod {
    Pod::new("web").set("/spec/containers/0/securityContext", json!({"privileged": true}))
}

fn selects() -> Pod {
    Pod::new("web").set("/spec/nodeSelector", json!({"disk": "ssd"}))
}

fn requires_one_of(terms: &[Value]) -> Pod {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    Pod::new("web").set("/spec/affinity", json!({"nodeAffinity": required}))
}

fn requires() -> Pod {
    let key = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
    requires_one_of(&[json!({"matchExpressions": [key]})])
}

fn host_network() -> Pod {
    Pod::new("web").set("/spec/hostNetwork", true)
}

#[test]
fn a_privileged_pod_needs_the_flag() {
    check_refused(&[], &privileged(), "Forbidden");
    check_admitted(&["--allow-privileged"], &privileged());
}

#[test]
fn a_node_selector_is_compared_with_the_nodes_labels() {
    check_refused(&["--node-labels=disk=hdd"], &selects(), "NodeAffinity");
    check_admitted(&["--node-labels=disk=ssd"], &selects());
}

/// Required node affinity of a file's pod was only warned of, and the pod ran.
#[test]
fn required_node_affinity_is_compared_with_the_nodes_labels_and_its_name() {
    check_refused(&["--node-labels=disk=hdd"], &requires(), "NodeAffinity");
    check_admitted(&["--node-labels=disk=ssd"], &requires());
    let elsewhere =
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]});
    check_refused(&[], &requires_one_of(&[elsewhere]), "NodeAffinity");
}

#[test]
fn a_pod_for_another_node_is_refused() {
    check_refused(&[], &Pod::new("web").set("/spec/nodeName", "elsewhere"), "NodeName");
}

#[test]
fn host_network_may_be_denied_to_a_source() {
    check_refused(&["--host-network-sources="], &host_network(), "Forbidden");
    check_admitted(&["--host-network-sources=file"], &host_network());
}

#[test]
fn of_two_pods_with_one_host_port_the_second_waits_for_the_first_to_go() {
    let node = Node::start();
    let port = free_port();
    node.write("first.yaml", Pod::new("first").host_port(port).text());
    node.wait_phase("first", "Running");
    let first = node.of("first");
    node.write("second.yaml", Pod::new("second").host_port(port).text());
    node.wait_phase("second", "Failed");
    assert_eq!(node.reason("second"), "NodePorts");
    assert_eq!((node.of("first"), node.of("second").len()), (first, 0));
    node.remove("first.yaml");
    node.wait_phase("second", "Running");
    node.wait_until("nothing of the first is left", || node.of("first").is_empty());
}

#[test]
fn the_pod_that_holds_a_host_port_keeps_it_over_a_restart() {
    let node = Node::start();
    let port = free_port();
    // Later by name, earlier in time.
    node.write("b.yaml", Pod::new("b").host_port(port).text());
    node.wait_phase("b", "Running");
    let before = node.of("b");
    node.write("a.yaml", Pod::new("a").host_port(port).text());
    node.wait_phase("a", "Failed");
    node.restart();
    node.wait_phase("a", "Failed");
    node.wait_phase("b", "Running");
    assert_eq!((node.of("b"), node.of("a").len()), (before, 0));
}

#[test]
fn a_refused_pod_that_is_edited_to_fit_runs() {
    let node = Node::start();
    node.write("web.yaml", privileged().text());
    node.wait_phase("web", "Failed");
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
}

/// An edit to a privileged container, or to the host's network, stopped what ran, and an edit that another policy refuses
/// did not.
#[test]
fn a_running_pod_that_is_edited_to_what_is_forbidden_keeps_running_and_the_edit_is_told() {
    // Two writes instead of one must not get around the flag.
    let edits = [(None, privileged()), (Some("fixed-uid-4"), privileged()), (None, host_network())];
    for (fixed, edit) in edits {
        let node = Node::with(Options::flags(&["--host-network-sources="]));
        let with_uid = |pod: Pod| match fixed {
            Some(uid) => pod.set("/metadata/uid", uid),
            None => pod,
        };
        node.write("web.yaml", with_uid(Pod::new("web")).text());
        node.wait_phase("web", "Running");
        let before = node.of("web");
        let sneaky = edit
            .set("/spec/containers/0/image", node.inspect_image(crate::harness::pods::IMAGE)["Id"].clone());
        node.write("web.yaml", with_uid(sneaky).text());
        let is_told = || {
            let sources = node.says(&["get", "sources"]);
            sources.contains("Degraded") && sources.contains("but is disallowed")
        };
        node.wait_until("the edit is refused", is_told);
        assert!(node.says(&["describe", "pod", "web"]).contains("but is disallowed"));
        assert_eq!(node.of("web"), before);
        // The version before it is remembered: a restart brings it back, also without its containers.
        node.kill9();
        before.iter().for_each(|container| node.kill_container(&container.id, "SIGKILL"));
        node.launch();
        node.wait_until("the version before it runs again", || {
            node.running("web", "app").iter().any(|now| before.iter().all(|old| old.id != now.id))
        });
        for now in node.of("web").iter().filter(|now| now.runs()) {
            let host = node.inspect(&now.id)["HostConfig"].clone();
            assert_eq!((&host["Privileged"], host["NetworkMode"] == "host"), (&json!(false), false));
        }
    }
}

#[test]
fn a_running_pod_that_is_edited_to_a_taken_host_port_is_refused_and_the_other_untouched() {
    let node = Node::start();
    let port = free_port();
    node.write("first.yaml", Pod::new("first").host_port(port).text());
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("first", "Running");
    node.wait_phase("web", "Running");
    let first = node.of("first");
    node.write("web.yaml", Pod::new("web").host_port(port).text());
    node.wait_until("it is refused", || node.reason("web") == "NodePorts");
    assert_eq!(node.of("first"), first);
}

/// The next daemon refused a job that had ended for the port that another pod had got, removed its containers, and ran it a
/// second time when the other pod left.
#[test]
fn a_pod_that_has_ended_stays_so_over_a_restart_beside_one_that_has_its_port() {
    let node = Node::with(Options::default());
    let port = free_port();
    let with_port = |name: &str| {
        let pod =
            Pod::new(name).set("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": port}]));
        pod.set("/spec/restartPolicy", "Never")
    };
    node.write("job.yaml", with_port("job").script("echo once").text());
    node.wait_phase("job", "Succeeded");
    node.wait_until("its sandbox has ended", || node.of("job").iter().all(|c| !c.runs()));
    let ended = node.of("job");
    node.write("web.yaml", with_port("web").text());
    node.wait_phase("web", "Running");
    for _ in 0..2 {
        node.restart();
        node.wait_phase("job", "Succeeded");
        node.wait_phase("web", "Running");
    }
    node.remove("web.yaml");
    node.wait_until("the other pod has gone", || node.of("web").is_empty());
    node.write("probe.yaml", Pod::new("probe").text());
    node.wait_phase("probe", "Running");
    assert_eq!(node.of("job"), ended, "the same containers, ended");
}
