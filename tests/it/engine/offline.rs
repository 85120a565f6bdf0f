//! A node that boots with no network at all: neither dockerd nor the daemon has more than a dead loopback,
//! the URL cannot be reached, and the manifests on disk are changed or damaged.

use serde_json::json;

use crate::faults::assert_single;
use crate::harness::hostile::{Server, ok};
use crate::harness::pods::Pod;
use crate::harness::private_engine::{Engine, image_archive};
use crate::harness::{Node, Options};

fn pod(name: &str) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true)
}

/// Asserts that a process cannot reach anything: it has no device but a loopback, and no route.
fn assert_cut(pid: u32) {
    let lines = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    // Two header lines.
    let devices = lines("dev");
    assert!(devices.iter().skip(2).all(|line| line.starts_with("lo:")), "{devices:?}");
    let routes = lines("route");
    assert!(routes.len() <= 1, "at most its head: {routes:?}");
}

/// Cut off from the network and started again, the node runs the same pods as before.
#[test]
fn k4441_cut_from_the_network_everything_runs_again() {
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let server = Server::start();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"word": "c4n4ry-0f-4-s3cr3t-fr0m-4-server"}});
    let with_secret = pod("url-1").set(
        "/spec/containers/0/env",
        json!([{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "word"}}}]),
    );
    let documents = [secret.to_string(), with_secret.text(), pod("url-2").text()];
    server.send(ok("", documents.join("\n---\n")));
    let socket = Some(engine.socket());
    let url = format!("--manifest-url={}", server.url());
    let node = Node::prepare(Options {
        endpoint: socket.clone(),
        look_at: socket,
        ..Options::flags(&[&url, "--host-network-sources=file,http"])
    });
    for name in ["file-1", "file-2", "file-3"] {
        node.write(&format!("{name}.yaml"), pod(name).text());
    }
    node.launch();
    let pods = ["file-1", "file-2", "file-3", "url-1", "url-2"];
    pods.iter().for_each(|name| node.wait_phase(name, "Running"));
    node.wait_until("all of it is remembered", || {
        let count = |source: &str| {
            let store = node.root().join("last-good").join(source);
            std::fs::read_dir(store).map_or(0, |entries| entries.count())
        };
        (count("file"), count("http")) == (3, 1)
    });

    // The power fails; the node comes back without a network, and with a damaged disk.
    node.kill9();
    engine.kill9();
    node.write_in_place("file-2.yaml", "apiVersion: v1\nkind: Pod\nmeta");
    node.write_in_place("file-3.yaml", "");
    node.options.borrow_mut().cut = true;
    node.launch();
    engine.start();
    assert_cut(node.pid().unwrap());
    let boot = |name: &str| node.running(name, "app").into_iter().next();
    node.wait_until("everything runs again", || pods.iter().all(|name| boot(name).is_some()));
    assert_single(&node, "after the power cut");
    pods.iter().for_each(|name| node.wait_phase(name, "Running"));
    let env = node.inspect(&boot("url-1").unwrap().id)["Config"]["Env"].to_string();
    assert!(env.contains("WORD=c4n4ry-0f-4-s3cr3t-fr0m-4-server"), "{env}");
    let sources = node.status().unwrap().sources;
    let http = sources.iter().find(|s| s.name == "http").unwrap();
    assert!(!http.ready && http.problem.is_some(), "{http:?}");
    let stale = node.podkeeper(&["get", "pods", "-A"]);
    let stale = String::from_utf8_lossy(&stale.stdout).into_owned();
    assert_eq!(stale.matches("STALE").count(), 4, "{stale}");
    drop(node);
}

/// A machine out of the box: an empty engine, no registry, no name server, no route, and one archive in the
/// preload directory. Its pod runs, also after a power cut.
#[test]
fn k8781_an_air_gapped_machine_boots_to_a_running_pod() {
    let mut engine = Engine::new(&[]);
    engine.start();
    let socket = Some(engine.socket());
    let node = Node::prepare(Options {
        endpoint: socket.clone(),
        look_at: socket,
        cut: true,
        ..Options::flags(&["--host-network-sources=file"])
    });
    let images = node.base.join("images");
    std::fs::create_dir(&images).unwrap();
    std::fs::write(images.join("pods.tar"), image_archive()).unwrap();
    node.options.borrow_mut().flags.push(format!("--image-preload-dir={}", images.display()));
    node.write("first.yaml", pod("first").text());
    node.launch();
    let first = node.wait_running("first", "app");
    assert_cut(node.pid().unwrap());
    node.kill9();
    engine.kill9();
    engine.start();
    node.launch();
    node.wait_until("it runs again", || node.running("first", "app").iter().any(|c| c.id != first.id));
    node.wait_phase("first", "Running");
    assert_eq!(node.log().matches("pods.tar is loaded (").count(), 1, "{}", node.log());
}
