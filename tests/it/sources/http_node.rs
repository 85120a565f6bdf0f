//! A node whose pods come from a URL: running pods stay, whatever the server does.

use std::fs;

use podkeeper::testing::status::snapshot::SourceView;
use serde_json::json;

use crate::harness::hostile::{Server, ok, status};
use crate::harness::pods::Pod;
use crate::harness::{Node, Options};

const SECRET: &str = "c4n4ry-0f-4-h34d3r-4nd-4-qu3ry";

fn node(server: &Server) -> Node {
    let url = format!("--manifest-url={}?token={SECRET}", server.url());
    let header = format!("--manifest-url-header=x-token:{SECRET}");
    Node::with(Options::flags(&[&url, &header, "--http-check-frequency=200ms", "-v=4"]))
}

fn list(pods: &[Pod]) -> Vec<u8> {
    let items: Vec<String> = pods.iter().map(Pod::text).collect();
    ok("", format!("{{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[{}]}}", items.join(",")))
}

fn source(node: &Node) -> SourceView {
    let status = node.status().unwrap();
    status.sources.into_iter().find(|s| s.name == "http").unwrap()
}

fn wait_problem(node: &Node, part: &str) {
    node.wait_until(&format!("the source says: {part}"), || {
        source(node).problem.is_some_and(|problem| problem.contains(part))
    });
}

#[test]
fn what_runs_stays_whatever_the_server_does() {
    let server = Server::start();
    server.send(list(&[Pod::new("web")]));
    let node = node(&server);
    let web = node.wait_running("web", "app");
    node.wait_until("the source is ready", || source(&node).ready);
    server.send(status("404 Not Found"));
    wait_problem(&node, "the server answers 404 Not Found");
    let bad = Pod::new("bad").set("/spec/containers/0/image", "");
    server.send(list(&[Pod::new("web"), bad]));
    wait_problem(&node, "its content is not accepted");
    let address = server.address;
    drop(server);
    wait_problem(&node, "no connection: Connection refused");
    assert_eq!(node.running("web", "app"), std::slice::from_ref(&web));
    let server = Server::at(address);
    server.send(list(&[Pod::new("web"), Pod::new("more")]));
    node.wait_running("more", "app");
    node.wait_until("nothing is wrong any more", || source(&node).problem.is_none());
    assert_eq!(node.running("web", "app"), [web]);
    server.send(list(&[Pod::new("more")]));
    node.wait_gone("web");
    assert_eq!(source(&node).location, server.url());
    // The secrets of the request appear nowhere.
    let status = std::fs::read_to_string(node.run_dir().join("status.json")).unwrap();
    let more = node.inspect(&node.wait_running("more", "app").id).to_string();
    assert!(server.heads().iter().all(|head| head.matches(SECRET).count() == 2));
    for text in [node.log(), status, more] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn k4441_a_daemon_that_starts_while_the_server_is_down_touches_nothing() {
    let server = Server::start();
    server.send(list(&[Pod::new("web")]));
    let node = node(&server);
    let web = node.wait_running("web", "app");
    drop(server);
    node.restart();
    wait_problem(&node, "no connection: Connection refused");
    // A pod of the other source comes and goes: so the first one was not merely late.
    node.write("probe.yaml", Pod::new("probe").text());
    node.wait_phase("probe", "Running");
    node.remove("probe.yaml");
    node.wait_gone("probe");
    assert_eq!(node.running("web", "app"), [web]);
}

/// A pod moves to the other source and back, word for word: it is not restarted, whether both sources have it
/// for a while or the daemon is restarted in between.
#[test]
fn a_pod_moves_between_the_sources_without_a_restart() {
    let server = Server::start();
    server.send(list(&[Pod::new("other")]));
    let node = node(&server);
    let web = Pod::new("web");
    node.write("web.yaml", web.text());
    let first = node.wait_running("web", "app");
    node.wait_phase("web", "Running");
    let held_by = |source: &str| {
        node.wait_until(&format!("it is of source {source}"), || {
            let pods = node.podkeeper(&["get", "pods", "-A", "-o", "yaml"]);
            let text = String::from_utf8_lossy(&pods.stdout).into_owned();
            let of =
                text.split("- apiVersion").find(|pod| pod.contains(&format!("name: {}", node.full("web"))));
            of.is_some_and(|pod| pod.contains(&format!("kubernetes.io/config.source: {source}")))
        });
        assert_eq!(node.running("web", "app"), std::slice::from_ref(&first), "{source}");
    };
    held_by("file");
    server.send(list(&[Pod::new("other"), web.clone()]));
    node.wait_until("both are told", || {
        node.status()
            .unwrap()
            .problems
            .iter()
            .any(|problem| problem.message.starts_with("the same pod is in "))
    });
    node.remove("web.yaml");
    held_by("http");
    node.restart();
    held_by("http");
    node.write("web.yaml", web.text());
    server.send(list(&[Pod::new("other")]));
    held_by("file");
    node.wait_phase("web", "Running");
}

/// Without this handling the daemon would end at each start, and every pod of the node would be left
/// unattended.
#[test]
fn claims_of_an_earlier_version_that_cannot_be_moved_hold_up_their_pods_and_not_the_daemon() {
    let server = Server::start();
    let user = Pod::new("user")
        .set("/spec/volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
        .set("/spec/containers/0/volumeMounts", json!([{"name": "v", "mountPath": "/v"}]));
    let claim = "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":\"data\"},\
        \"spec\":{\"accessModes\":[\"ReadWriteOnce\"],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}";
    server.send(ok("", [&user.text(), &Pod::new("web").text(), claim].join("\n---\n")));
    let url = format!("--manifest-url={}", server.url());
    let node = Node::prepare(Options { no_files: true, ..Options::flags(&[&url]) });
    let storage = node.root().join("local-storage");
    fs::create_dir_all(storage.join("default/data/kept")).unwrap();
    fs::write(storage.join(".http"), "in the way").unwrap();
    node.launch();
    node.wait_running("web", "app");
    let why = "cannot be given to the source they belong to";
    node.wait_until("an event of the pod tells why it waits", || {
        let events = node.says(&["get", "events"]);
        events.lines().any(|line| line.contains("pod/user") && line.contains(why))
    });
    let source = node.says(&["get", "sources"]);
    assert!(source.contains("Degraded") && source.contains(why), "{source}");
    assert_eq!(node.running("user", "app"), []);
    fs::remove_file(storage.join(".http")).unwrap();
    node.wait_running("user", "app");
    assert_eq!(node.inside("user", "app", "ls /v").trim(), "kept");
    node.wait_until("nothing is wrong any more", || self::source(&node).degraded.is_none());
}
