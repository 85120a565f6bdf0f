//! Nodes that ask the cluster for their certificates.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Way};
use crate::harness::pods::{Pod, free_port};
use crate::harness::{Bounded as _, Node, Options};

/// The kubelet's server answers within this time while the API server does not: a complete call may take 30 s and
/// more.
const ANSWERED: Duration = Duration::from_secs(20);

/// A node that has only a bootstrap token.
fn stranger(plane: &ControlPlane, way: Option<&Way>, flags: &[&str]) -> Node {
    let node = Node::prepare(Options::flags(flags));
    let bootstrap = plane.file("bootstrap.kubeconfig");
    let bootstrap = match way {
        None => bootstrap,
        Some(way) => {
            let own = node.base.join("bootstrap");
            fs::copy(&bootstrap, &own).unwrap();
            way.kubeconfig(plane, &own)
        }
    };
    let mut options = node.options.borrow_mut();
    options.flags.push(format!("--bootstrap-kubeconfig={}", bootstrap.display()));
    options.flags.push(format!("--kubeconfig={}", node.base.join("kubeconfig").display()));
    drop(options);
    node
}

/// The file that holds the client certificate.
fn current(node: &Node) -> Option<PathBuf> {
    fs::canonicalize(node.root().join("pki/kubelet-client-current.pem")).ok()
}

fn lease(plane: &ControlPlane, node: &Node) -> String {
    let what = ["-n", "kube-node-lease", "get", "lease", &node.name, "-o", "jsonpath={.spec.renewTime}"];
    String::from_utf8_lossy(&plane.kubectl(&what).stdout).into_owned()
}

fn is_registered(plane: &ControlPlane, node: &Node) -> bool {
    plane.kubectl(&["get", "node", &node.name]).status.success()
}

#[test]
fn a_node_gets_its_certificate_by_a_token_and_renews_it_without_a_restart() {
    let Some(plane) = ControlPlane::get() else { return };
    let way = Way::to(plane.port());
    way.set_open(false);
    let node = stranger(plane, Some(&way), &[]);
    node.write("own.yaml", Pod::new("own").text());
    node.launch();
    // The node's own pods do not wait for the API server.
    node.wait_until("the pod of a file runs", || node.phase("own") == "Running");
    way.set_open(true);
    node.wait_until("the node is registered", || is_registered(plane, &node));
    let (kubeconfig, first) = (node.base.join("kubeconfig"), current(&node).unwrap());
    for path in [&kubeconfig, &first] {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    assert!(fs::read_to_string(&kubeconfig).unwrap().contains("kubelet-client-current.pem"));
    assert!(!node.root().join("pki/kubelet-client.key.asked").exists());
    let pid = node.pid();
    // When the third certificate exists, the first one has expired.
    for _ in 0..2 {
        let before = current(&node);
        node.wait_until("the certificate is renewed", || current(&node) != before);
    }
    let before = lease(plane, &node);
    node.wait_until("the lease is renewed with a new one", || lease(plane, &node) != before);
    assert_eq!(node.pid(), pid);
    let kept = fs::read_dir(node.root().join("pki")).unwrap().count();
    assert_eq!(kept, 3, "the link, the pair in use and the one before it");
    // After a restart the daemon finds its certificates, and requests none.
    let requests = node.log().matches("has signed a client certificate").count();
    node.restart();
    let before = lease(plane, &node);
    node.wait_until("the lease is renewed", || lease(plane, &node) != before);
    assert!(node.log().matches("has signed a client certificate").count() <= requests + 1);
    assert!(!node.log().contains("BEGIN"), "a key in the log");
}

#[test]
fn a_certificate_that_has_ended_is_replaced_by_way_of_the_bootstrap_credentials() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = stranger(plane, None, &[]);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{}", node.name));
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let pem = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    let ended = node.base.join("ended.pem");
    fs::write(&ended, pem).unwrap();
    let text = fs::read_to_string(plane.file("bootstrap.kubeconfig")).unwrap();
    let user = format!("client-certificate: {0}, client-key: {0}", ended.display());
    let (before, after) = text.split_once("token: ").unwrap();
    let (token, after) = after.split_once('}').unwrap();
    fs::write(node.base.join("kubeconfig"), format!("{before}{user}}}{after}")).unwrap();
    // The token in a file of its own, beside the kubeconfig.
    let bootstrap = node.base.join("bootstrap.kubeconfig");
    fs::write(&bootstrap, format!("{before}tokenFile: token}}{after}")).unwrap();
    fs::write(node.base.join("token"), format!("{}\n", token.trim().trim_matches('"'))).unwrap();
    node.options.borrow_mut().flags.push(format!("--bootstrap-kubeconfig={}", bootstrap.display()));
    node.launch();
    node.wait_until("the node is registered", || is_registered(plane, &node));
    assert!(current(&node).is_some());
}

/// Requests of a node, as `verb resource[/subresource]`, and those that the server forbade. The server's authorizer may hear
/// of a pod after the node: what it allows to the same node a moment later is not forbidden.
fn asked(plane: &ControlPlane, node: &Node) -> (BTreeSet<String>, Vec<String>) {
    let (mut all, mut refused) = (BTreeSet::new(), Vec::new());
    for event in plane.audit(&node.name) {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (resource, sub) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let separator = if sub.is_empty() { "" } else { "/" };
        let what = format!("{} {resource}{separator}{sub}", text("/verb"));
        let begin = format!("{what} {}: ", text("/requestURI"));
        if event.pointer("/responseStatus/code").and_then(Value::as_u64) == Some(403) {
            refused.push(begin + text("/responseStatus/message"));
        } else {
            let is_late = |line: &String| line.starts_with(&begin) && line.contains("no relationship found");
            refused.retain(|line| !is_late(line));
        }
        all.insert(what);
    }
    (all, refused)
}

#[test]
fn a_node_never_asks_for_more_than_a_node_may() {
    let Some(plane) = ControlPlane::get() else { return };
    let node = stranger(plane, None, &[]);
    node.write("own.yaml", Pod::new("own").text());
    node.launch();
    node.wait_until("the node is registered", || is_registered(plane, &node));
    let name = format!("rights-{}", node.name);
    let data = json!({"a": "b"});
    plane.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}));
    plane.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}),
    );
    let mut pod = Pod::new(&name).set("/spec/nodeName", node.name.as_str());
    pod = pod.set("/spec/containers/0/envFrom", json!([{"configMapRef": {"name": name}}]));
    pod = pod.set("/spec/volumes", json!([{"name": "s", "secret": {"secretName": name}}]));
    let mounts = json!([{"name": "s", "mountPath": "/s"}]);
    plane.apply(&pod.set("/spec/containers/0/volumeMounts", mounts).0);
    let phase = |name: &str| plane.kubectl(&["get", "pod", name, "-o", "jsonpath={.status.phase}"]).stdout;
    node.wait_until("the server sees the pod run", || phase(&name) == b"Running");
    let mirror = node.full("own");
    node.wait_until("the server sees the pod of a file", || phase(&mirror) == b"Running");
    plane.says(&["delete", "pod", &mirror, "--wait=false"]);
    plane.says(&["delete", "pod", &name, "--wait=false"]);
    node.wait_until("the pod is gone", || phase(&name).is_empty());
    let before = current(&node);
    node.wait_until("the certificate is renewed", || current(&node) != before);
    let (all, refused) = asked(plane, &node);
    assert!(refused.is_empty(), "refused: {refused:#?}\nof {all:#?}");
    for needed in [
        "create nodes",
        "patch nodes/status",
        "create leases",
        "update leases",
        "watch pods",
        "patch pods/status",
        "create pods",
        "delete pods",
        "get configmaps",
        "get secrets",
        "create serviceaccounts/token",
        "create certificatesigningrequests",
        "create events",
    ] {
        assert!(all.contains(needed), "{needed} is not among {all:#?}");
    }
}

/// The values that a node needs to join: the address, and the digest of the authority's key.
fn invitation(plane: &ControlPlane) -> (String, String) {
    let script = "openssl x509 -in \"$0\" -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum";
    let output = Command::new("sh").args(["-c", script]).arg(plane.file("ca.crt")).output().unwrap();
    let digest = String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned();
    (format!("https://127.0.0.1:{}", plane.port()), format!("sha256:{digest}"))
}

#[test]
fn a_node_joins_by_a_token_and_a_digest_and_its_server_has_a_certificate_of_the_cluster() {
    const TOKEN: &str = "07401b.f395accd246ae52d";
    let Some(plane) = ControlPlane::get() else { return };
    let (server, digest) = invitation(plane);
    let port = free_port();
    let node = Node::prepare(Options::default());
    let bootstrap = node.base.join("bootstrap.kubeconfig");
    let join = |token: &str, digest: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
        command.args(["join", &server, "--token", token, "--ca-cert-hash", digest]);
        command.arg("--bootstrap-kubeconfig").arg(&bootstrap).ends()
    };
    let says = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    node.wait_until("the cluster has signed what it publishes", || {
        let wrong = says(&join(TOKEN, &format!("sha256:{}", "0".repeat(64))));
        assert!(!wrong.contains("f395accd246ae52d"), "{wrong}");
        wrong.contains(&digest)
    });
    let wrong = says(&join("07401b.f395accd246ae52e", &digest));
    assert!(wrong.contains("not signed with this token"), "{wrong}");
    assert!(!bootstrap.exists());
    let done = join(TOKEN, &digest);
    assert!(done.status.success(), "{}", says(&done));
    let ca = node.base.join("cluster-ca.crt");
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(printed.contains(&format!("bootstrapKubeconfig: {}", bootstrap.display())), "{printed}");
    assert_eq!(fs::metadata(&bootstrap).unwrap().permissions().mode() & 0o777, 0o600);
    node.options.borrow_mut().flags = vec![
        format!("--bootstrap-kubeconfig={}", bootstrap.display()),
        format!("--kubeconfig={}", node.base.join("kubeconfig").display()),
        format!("--client-ca-file={}", ca.display()),
        format!("--port={port}"),
        "--node-ip=127.0.0.1".to_owned(),
        "--rotate-server-certificates".to_owned(),
    ];
    node.launch();
    node.wait_until("the node is registered", || is_registered(plane, &node));
    let curl = || {
        let url = format!("https://127.0.0.1:{port}/healthz");
        Command::new("curl").args(["-sS", "--cacert"]).arg(&ca).arg(url).ends()
    };
    // The node's own certificate is not the cluster's.
    node.wait_until("the server listens", || says(&curl()).contains("certificate"));
    let mine = || {
        let what = "jsonpath={range .items[?(@.spec.signerName=='kubernetes.io/kubelet-serving')]}{.metadata.name} \
                    {.spec.username}{'\\n'}{end}";
        let all = plane.says(&["get", "csr", "-o", what]);
        let user = format!(" system:node:{}", node.name);
        all.lines().find_map(|line| line.strip_suffix(&user).map(str::to_owned))
    };
    let request = node.wait_for("a serving certificate is asked for", mine);
    plane.says(&["certificate", "approve", &request]);
    node.wait_until("the server shows a certificate of the cluster", || curl().status.success());
}

/// Status and body of the kubelet's server, and the duration of the request.
fn ask(port: u16, how: &[&str], path: &str) -> (u16, String, Duration) {
    let begun = Instant::now();
    let url = format!("https://127.0.0.1:{port}{path}");
    let output =
        Command::new("curl").args(["-sSk", "-m", "20", "-w", "\n%{http_code}"]).args(how).arg(url).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.parse().unwrap_or(0), body.to_owned(), begun.elapsed())
}

#[test]
fn the_api_server_says_whose_a_token_is_and_what_its_user_may() {
    let Some(plane) = ControlPlane::get() else { return };
    let (way, port, api) = (Way::to(plane.port()), free_port(), free_port());
    let node = Node::prepare(Options::default());
    let kubeconfig = way.kubeconfig(plane, &plane.node(&node.name));
    node.options.borrow_mut().flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--api-address=127.0.0.1:{api}"),
        format!("--client-ca-file={}", plane.file("ca.crt").display()),
        format!("--port={port}"),
        "--max-pods=17".to_owned(),
        "--authentication-token-webhook".to_owned(),
        "--authorization-mode=Webhook".to_owned(),
    ];
    let name = format!("reader-{}", node.name);
    let account = format!("default:{name}");
    plane.says(&["create", "serviceaccount", &name]);
    let may = ["nodes/metrics,pods", "nodes/pods"].map(|what| format!("--resource={what}"));
    plane.says(&["create", "clusterrole", &name, "--verb=get", &may[0], &may[1]]);
    let role = format!("--clusterrole={name}");
    plane.says(&["create", "clusterrolebinding", &name, &role, "--serviceaccount", &account]);
    let token = plane.says(&["create", "token", &name]);
    node.launch();
    let header = format!("Authorization: Bearer {}", token.trim());
    let reader = ["-H", header.as_str()];
    node.wait_until("the server answers", || ask(port, &reader, "/metrics").0 == 200);
    assert_eq!(ask(port, &reader, "/pods").0, 200);
    let forbidden = |verb: &str, subresources: &str| {
        let user = format!("system:serviceaccount:{account}");
        format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])\n")
    };
    let (status, body, _) = ask(port, &[reader[0], reader[1], "-X", "POST"], "/exec/default/a/b?command=x");
    assert_eq!((status, body), (403, forbidden("create", "proxy")));
    let (status, body, _) = ask(port, &reader, "/configz");
    assert_eq!((status, body), (403, forbidden("get", "configz proxy")));
    let stranger = ["-H", "Authorization: Bearer no.such.token"];
    assert_eq!(ask(port, &stranger, "/metrics").0, 401);
    assert_eq!(ask(port, &[], "/metrics").0, 401);
    // The token is valid on the node's API too, and the cluster decides which objects and paths its user may access.
    node.wait_until("the API answers", || ask(api, &reader, "/version").0 == 200);
    assert_eq!(ask(api, &reader, "/api/v1/namespaces/default/pods/none").0, 404);
    let (status, body, _) = ask(api, &reader, "/api/v1/namespaces/default/pods");
    assert!(status == 403 && body.contains("cannot list resource"), "{status} {body}");
    assert_eq!(ask(api, &reader, "/api/v1/namespaces/default/secrets/none").0, 403);
    assert_eq!(ask(api, &reader, "/nothing").0, 403);
    let review = r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"x"}}}"#;
    let how = [reader[0], reader[1], "-H", "Content-Type: application/json", "-d", review];
    let (status, body, _) = ask(api, &how, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    assert!(status == 201 && body.contains("\"allowed\":true"), "{status} {body}");
    for how in [&stranger[..], &[]] {
        assert_eq!(ask(api, how, "/api/v1/pods").0, 401);
    }
    // The cluster is asked about the user of a certificate as well.
    let files = ["admin.crt", "admin.key"].map(|file| plane.file(file).display().to_string());
    let admin = ["--cert", files[0].as_str(), "--key", files[1].as_str()];
    let (status, body, _) = ask(port, &admin, "/configz");
    let configz: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &configz["kubeletconfig"]["maxPods"]), (200, &json!(17)));
    assert_eq!(configz["kubeletconfig"]["authorization"]["mode"], "Webhook");
    // Without the API server: earlier decisions stay valid, and no client waits for long.
    way.set_open(false);
    assert_eq!(ask(port, &reader, "/metrics").0, 200);
    let (status, body, took) = ask(port, &admin, "/logs/");
    assert!(
        status == 500 && body.starts_with("Authorization error (user=admin, verb=get"),
        "{status} {body}"
    );
    assert!(took < ANSWERED, "{took:?}");
    let (status, body, took) = ask(api, &reader, "/api/v1/namespaces/x/pods");
    assert!(status == 500 && body.contains("whether this is allowed is not known"), "{status} {body}");
    assert!(took < ANSWERED, "{took:?}");
    let other = ["-H", "Authorization: Bearer another.such.token"];
    let (status, body, took) = ask(port, &other, "/metrics");
    assert_eq!((status, body.as_str()), (401, "Unauthorized"));
    assert!(took < ANSWERED, "{took:?}");
    way.set_open(true);
    node.wait_until("the server is asked again", || ask(port, &admin, "/logs/").0 != 500);
    assert!(!node.log().contains(token.trim()), "a token in the log");
    let (_, refused) = asked(plane, &node);
    assert!(refused.is_empty(), "{refused:#?}");
}
