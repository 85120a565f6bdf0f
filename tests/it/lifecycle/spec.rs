//! The effects of a pod's spec on the real Docker, seen from inside the containers and from Docker's side;
//! and containers that are not podkeeper's.

use std::collections::BTreeMap;

use podkeeper::testing::runtime::{Call, CreateBody, Reply, labels};
use serde_json::{Value, json};

use crate::harness::pods::{IMAGE, OBEYS, Pod, container};
use crate::harness::{Container, Node, Options};

#[test]
fn names_and_labels_are_those_that_kubernetes_tools_know() {
    let node = Node::start();
    let pod = Pod::new("web")
        .set("/metadata/namespace", "edge")
        .set("/metadata/labels", json!({"app": "web"}))
        .set("/metadata/annotations", json!({"note": "it works"}));
    node.write("web.yaml", pod.text());
    let (app, sandbox) = (node.wait_running("web", "app"), node.wait_running("web", "POD"));
    let (full, uid) = (node.full("web"), app.uid.clone());
    assert_eq!(app.name, format!("k8s_app_{full}_edge_{uid}_0"));
    assert_eq!(sandbox.name, format!("k8s_POD_{full}_edge_{uid}_0"));
    let check = |container: &Container, expected: &[(&str, &str)]| {
        let inspect = node.inspect(&container.id);
        for (key, value) in expected {
            assert_eq!(inspect["Config"]["Labels"][*key], *value, "{key}");
        }
        assert_eq!(inspect["HostConfig"]["RestartPolicy"]["Name"], "no");
    };
    let common = [
        ("io.kubernetes.pod.name", full.as_str()),
        ("io.kubernetes.pod.namespace", "edge"),
        ("io.kubernetes.pod.uid", &uid),
    ];
    check(&app, &common);
    check(&sandbox, &common);
    check(
        &app,
        &[
            ("io.kubernetes.docker.type", "container"),
            ("io.kubernetes.container.name", "app"),
            ("io.kubernetes.sandbox.id", &sandbox.id),
            ("annotation.io.kubernetes.container.restartCount", "0"),
            ("annotation.io.kubernetes.pod.terminationGracePeriod", "1"),
        ],
    );
    check(
        &sandbox,
        &[
            ("io.kubernetes.docker.type", "podsandbox"),
            ("io.kubernetes.container.name", "POD"),
            ("app", "web"),
            ("annotation.note", "it works"),
        ],
    );
}

#[test]
fn k63814_a_container_carries_the_hash_that_no_version_may_change() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").text());
    let app = node.wait_running("web", "app");
    // FNV-1a 32 over `app`, a NUL and `busybox:static`, computed by another program.
    assert_eq!(node.inspect(&app.id)["Config"]["Labels"][labels::HASH], "afbfe1e2");
}

#[test]
fn variables_are_expanded_and_seen_from_inside() {
    let node = Node::start();
    let env = json!([
        {"name": "HOST", "value": "edge"},
        {"name": "URL", "value": "http://$(HOST)/$$(HOST)/$(NOBODY)"},
        {"name": "EMPTY"},
    ]);
    let pod = Pod::new("web")
        .script("echo \"$URL|$EMPTY|$1\"; pwd; exec sleep 100000")
        .set("/spec/containers/0/env", env)
        .set("/spec/containers/0/args", json!(["zero", "$(HOST)-$$(HOST)"]))
        .set("/spec/containers/0/workingDir", "/tmp/of-the-test");
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let printed = node.wait_for("it has printed", || {
        Some(node.says(&["logs", "web"])).filter(|text| text.lines().count() == 2)
    });
    assert_eq!(printed, "http://edge/$(HOST)/$(NOBODY)||edge-$(HOST)\n/tmp/of-the-test\n");
}

#[test]
fn the_containers_of_a_pod_share_network_and_hostname() {
    let node = Node::start();
    let pod = Pod::new("web").and(container("other", OBEYS)).set("/spec/hostname", "inside");
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let exec = |c: &str, command: &[&str]| {
        node.says(&[&["exec", "web", "-c", c, "--"], command].concat()).trim().to_owned()
    };
    for c in ["app", "other"] {
        assert_eq!(exec(c, &["hostname"]), "inside");
    }
    let namespace = |c: &str, kind: &str| exec(c, &["busybox", "readlink", &format!("/proc/self/ns/{kind}")]);
    for shared in ["net", "ipc"] {
        assert_eq!(namespace("app", shared), namespace("other", shared), "{shared}");
    }
    assert_ne!(namespace("app", "pid"), namespace("other", "pid"));
    let ip = node.pod("web").and_then(|p| p.status).and_then(|s| s.pod_ip).unwrap();
    assert!(exec("app", &["busybox", "ip", "addr"]).contains(&format!("inet {ip}/")), "{ip}");
}

#[test]
fn a_shared_process_namespace_has_the_sandbox_as_its_first_process() {
    let node = Node::start();
    let pod = Pod::new("web").and(container("other", OBEYS)).set("/spec/shareProcessNamespace", true);
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let ps = node.says(&["exec", "web", "-c", "app", "--", "ps", "-o", "pid,args"]);
    let first = ps.lines().find(|line| line.trim_start().starts_with("1 ")).unwrap_or_default();
    assert!(first.contains("pause"), "{ps}");
    assert_eq!(ps.matches("/bin/sh -c").count(), 2, "{ps}");
    node.remove("web.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
}

/// The inode that names a namespace of this process.
fn own(kind: &str) -> String {
    std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string()
}

#[test]
fn a_pod_may_use_the_hosts_namespaces() {
    let node = Node::start();
    let pod =
        Pod::new("web").set("/spec/hostNetwork", true).set("/spec/hostPID", true).set("/spec/hostIPC", true);
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    for kind in ["net", "ipc", "pid", "uts"] {
        let theirs =
            node.says(&["exec", "web", "--", "busybox", "readlink", &format!("/proc/self/ns/{kind}")]);
        assert_eq!(theirs.trim(), own(kind), "{kind}");
    }
}

#[test]
fn resources_become_dockers_fields() {
    let node = Node::start();
    let resources =
        json!({"requests": {"cpu": "250m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}});
    node.write("web.yaml", Pod::new("web").set("/spec/containers/0/resources", resources).text());
    let app = node.wait_running("web", "app");
    let host = node.inspect(&app.id)["HostConfig"].clone();
    let number = |key: &str| host[key].as_i64();
    assert_eq!(number("CpuShares"), Some(256));
    assert_eq!((number("CpuQuota"), number("CpuPeriod")), (Some(50_000), Some(100_000)));
    assert_eq!((number("Memory"), number("MemorySwap")), (Some(64 << 20), Some(64 << 20)));
    let adjust = number("OomScoreAdj").unwrap();
    assert!((3..=999).contains(&adjust), "{adjust}");
}

#[test]
fn a_host_port_reaches_the_pod() {
    let node = Node::start();
    let port = crate::harness::pods::free_port();
    let serve = "trap 'exit 0' TERM; while :; do echo hello | nc -l -p 80; done & echo started; wait";
    node.write("web.yaml", Pod::new("web").script(serve).host_port(port).text());
    node.wait_phase("web", "Running");
    let sandbox = node.wait_running("web", "POD");
    let bindings = node.inspect(&sandbox.id)["HostConfig"]["PortBindings"].clone();
    assert_eq!(bindings["80/tcp"][0]["HostPort"], port.to_string());
    node.wait_until("it answers", || {
        use std::io::Read as _;
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text == "hello\n"
    });
}

#[test]
fn a_terminal_and_an_open_input_are_given() {
    let node = Node::start();
    let pod = Pod::new("web").script("test -t 0 && echo terminal; exec sleep 100000");
    let pod = pod.set("/spec/containers/0/tty", true).set("/spec/containers/0/stdin", true);
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    node.wait_until("it has a terminal", || node.says(&["logs", "web"]).trim() == "terminal");
}

/// A container that podkeeper did not create.
struct Foreign<'a> {
    node: &'a Node,
    id: String,
}

impl<'a> Foreign<'a> {
    fn run(node: &'a Node, name: &str, labels: &[(&str, &str)]) -> Foreign<'a> {
        let body = CreateBody {
            image: IMAGE.to_owned(),
            cmd: Some(["sleep", "100000"].map(String::from).to_vec()),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            ..CreateBody::default()
        };
        let create = Call::Create { name: name.to_owned(), body: Box::new(body) };
        let Reply::Created { id, .. } = node.docker(&create) else { panic!("create answers oddly") };
        node.docker(&Call::Start { id: id.clone() });
        Foreign { node, id }
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        self.node.remove_container(&self.id);
    }
}

#[test]
fn k2062_foreign_containers_with_names_and_labels_like_ours_are_left_alone() {
    let node = Node::start();
    let unique = &node.name;
    let odd = [
        (format!("k8s_app_web-{unique}_default_0123456789abcdef0123456789abcdef_0"), vec![]),
        (format!("k8s_POD_only_{unique}"), vec![(labels::TYPE, "podsandbox")]),
        (
            format!("k8s_{unique}_a_b_c_d_e_f_g"),
            vec![(labels::POD_NAME, "web"), (labels::POD_NAMESPACE, "default")],
        ),
        (format!("{unique}-prefix"), vec![("podkeeper.dev/something", "else"), (labels::ROOT_DIR, "")]),
        (
            format!("k8s_app_other-{unique}_default_uid_0"),
            vec![
                (labels::ROOT_DIR, "/var/lib/another-podkeeper"),
                (labels::TYPE, "container"),
                (labels::POD_NAME, "other"),
                (labels::POD_NAMESPACE, "default"),
                (labels::POD_UID, "uid"),
                (labels::CONTAINER_NAME, "app"),
            ],
        ),
    ];
    let foreign: Vec<Foreign> = odd.iter().map(|(name, labels)| Foreign::run(&node, name, labels)).collect();
    // A container with podkeeper's label and nothing else: it is not understood, so it is not touched
    // either, and it stops no pod.
    let root = node.root().display().to_string();
    let half = Foreign::run(&node, &format!("half-{unique}"), &[(labels::ROOT_DIR, &root)]);
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    node.restart();
    node.wait_phase("web", "Running");
    node.remove("web.yaml");
    node.wait_until("the pod is gone", || node.of("web").is_empty());
    for container in foreign.iter().chain([&half]) {
        assert!(
            node.container(&container.id).is_some_and(|c| c.runs()),
            "{:?}",
            node.container(&container.id)
        );
    }
}

#[test]
fn k2062_a_name_that_a_foreign_container_holds_is_told_and_does_not_hurt_it() {
    let node = Node::start();
    let uid = "fixed-uid-5";
    let taken = format!("k8s_app_{}_default_{uid}_0", node.full("web"));
    let foreign = Foreign::run(&node, &taken, &[]);
    node.write("web.yaml", Pod::new("web").set("/metadata/uid", uid).text());
    node.wait_until("it is told", || node.waits_for("web", "app") == "CreateContainerError");
    let message = node.says(&["describe", "pod", "web"]);
    assert!(message.contains("did not make"), "{message}");
    assert!(node.container(&foreign.id).is_some_and(|c| c.runs()));
    drop(foreign);
    node.wait_phase("web", "Running");
}

/// Threads of the daemon, and the memory that it allocates, in KiB.
fn footprint(node: &Node) -> (usize, usize) {
    let text = std::fs::read_to_string(format!("/proc/{}/status", node.pid().unwrap())).unwrap();
    let field = |name: &str| -> usize {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    // The kernel decides how much of the program itself is in memory, and for a debug build it is much.
    (field("Threads:"), field("RssAnon:"))
}

#[test]
fn twenty_pods_at_once_run_on_few_threads_and_little_memory() {
    const PODS: usize = 20;
    let node = Node::with(Options::flags(&["-v=0"]));
    for pod in 0..PODS {
        node.write(&format!("p{pod}.yaml"), Pod::new(&format!("p{pod}")).text());
    }
    let phase = |pod: &Value| pod["status"]["phase"] == "Running";
    node.wait_until("all run", || {
        let list: Value = serde_json::from_str(&node.says(&["get", "pods", "-o", "json"])).unwrap();
        list["items"].as_array().is_some_and(|pods| pods.iter().filter(|p| phase(p)).count() == PODS)
    });
    let all = node.containers();
    assert_eq!((all.len(), all.iter().filter(|c| c.runs() && c.attempt == 0).count()), (2 * PODS, 2 * PODS));
    let (threads, memory) = footprint(&node);
    assert!(threads <= 12 + PODS, "{threads} threads");
    assert!(memory <= 7 * 1024, "{memory} KiB");
    for pod in 0..PODS {
        node.remove(&format!("p{pod}.yaml"));
    }
    node.wait_until("nothing is left", || node.containers().is_empty());
    node.wait_until("their threads are gone", || footprint(&node).0 <= 12);
}
