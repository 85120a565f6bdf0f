//! The kubelet's endpoints by `curl`, with certificates that are made as the man page describes: the access of each
//! client, and whether the answers are true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::Value;

use crate::harness::pods::{Pod, free_port};
use crate::harness::{Node, Options};

/// A node with all four servers.
struct Served {
    node: Node,
    port: u16,
    read_only: u16,
    healthz: u16,
    cadvisor: u16,
}

/// A client without a certificate, or a user of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Nobody,
    /// A client with a certificate of an authority that the node does not know.
    Forger,
    View,
    Admin,
}

const CLIENTS: [Client; 4] = [Client::Nobody, Client::Forger, Client::View, Client::Admin];

impl Served {
    fn start(more: &[&str]) -> Served {
        let [port, read_only, healthz, cadvisor] = [(); 4].map(|()| free_port());
        let ports = [
            format!("--port={port}"),
            format!("--read-only-port={read_only}"),
            format!("--healthz-port={healthz}"),
            format!("--cadvisor-port={cadvisor}"),
            "--address=127.0.0.1".to_owned(),
        ];
        let mut flags: Vec<&str> = ports.iter().map(String::as_str).collect();
        flags.extend(more);
        let node = Node::prepare(Options::flags(&flags));
        let ca = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
        };
        let (pem, known) = ca("the node's");
        let (_, other) = ca("another one");
        fs::write(node.base.join("ca.pem"), pem).unwrap();
        let certify = |file: &str, group: &str, by: &Issuer<'static, KeyPair>| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, "ann");
            params.distinguished_name.push(DnType::OrganizationName, group);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, by).unwrap();
            fs::write(node.base.join(format!("{file}.crt")), certificate.pem()).unwrap();
            fs::write(node.base.join(format!("{file}.key")), key.serialize_pem()).unwrap();
        };
        certify("view", "podkeeper:view", &known);
        certify("admin", "system:masters", &known);
        certify("forger", "system:masters", &other);
        node.options
            .borrow_mut()
            .flags
            .push(format!("--client-ca-file={}", node.base.join("ca.pem").display()));
        node.launch();
        let served = Served { node, port, read_only, healthz, cadvisor };
        served.node.wait_until("the servers listen", || served.plain(served.healthz, "/healthz").0 == 200);
        served.node.wait_until("the kubelet's too", || served.get(Client::Nobody, "/healthz").0 == 401);
        served
    }

    fn curl(&self, arguments: &[&str], url: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--insecure", "--max-time", "60"]).args(arguments).arg(url);
        command
    }

    /// Status and body.
    fn ask(&self, arguments: &[&str], url: &str) -> (u16, String) {
        let output = self.curl(arguments, url).args(["--write-out", "\n%{http_code}"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or(("", "0"));
        (status.parse().unwrap_or(0), body.to_owned())
    }

    fn plain(&self, port: u16, path: &str) -> (u16, String) {
        self.ask(&[], &format!("http://127.0.0.1:{port}{path}"))
    }

    fn credentials(&self, client: Client) -> Vec<String> {
        let name = match client {
            Client::Nobody => return Vec::new(),
            Client::Forger => "forger",
            Client::View => "view",
            Client::Admin => "admin",
        };
        let file = |end: &str| self.node.base.join(format!("{name}.{end}")).display().to_string();
        vec!["--cert".to_owned(), file("crt"), "--key".to_owned(), file("key")]
    }

    fn request(&self, client: Client, method: &str, path: &str) -> (u16, String) {
        let credentials = self.credentials(client);
        let mut arguments: Vec<&str> = credentials.iter().map(String::as_str).collect();
        match method {
            "HEAD" => arguments.push("--head"),
            _ => arguments.extend(["--request", method]),
        }
        self.ask(&arguments, &format!("https://127.0.0.1:{}{path}", self.port))
    }

    fn get(&self, client: Client, path: &str) -> (u16, String) {
        self.request(client, "GET", path)
    }
}

/// Every path of the kubelet, and some that it does not have; whether a viewer may see it by GET.
const PATHS: &[(&str, bool)] = &[
    ("/healthz", true),
    ("/healthz/ping", true),
    ("/pods", true),
    ("/pods/", true),
    ("/runningpods/", true),
    ("/stats/", true),
    ("/stats/container", true),
    ("/stats/summary", true),
    ("/stats/none/app", true),
    ("/stats/default/none/0/app", true),
    ("/spec/", true),
    ("/metrics", true),
    ("/metrics/cadvisor", true),
    ("/metrics/resource", true),
    ("/containerLogs/default/none/app", true),
    ("/logs/", false),
    ("/logs/syslog", false),
    ("/configz", false),
    ("/run/default/none/app?cmd=id", false),
    ("/exec/default/none/app?command=id&output=1", false),
    ("/attach/default/none/app?output=1", false),
    ("/portForward/default/none", false),
    ("/debug/pprof/", false),
    ("/checkpoint/default/none/app", false),
    ("/", false),
    ("/nothing", false),
    ("/pods/../exec/x", true),
    ("//pods", false),
    ("/%65xec/default/none/app?command=id&output=1", false),
];

#[test]
fn nobody_without_a_good_certificate_gets_anything_but_401_on_any_path_by_any_method() {
    let served = Served::start(&[]);
    let mut wrong = BTreeSet::new();
    for (path, may_view) in PATHS {
        // curl removes the dots otherwise.
        let asks = |client: Client, method: &str| {
            let credentials = served.credentials(client);
            let mut arguments: Vec<&str> = credentials.iter().map(String::as_str).collect();
            arguments.push("--path-as-is");
            match method {
                "HEAD" => arguments.push("--head"),
                _ => arguments.extend(["--request", method]),
            }
            served.ask(&arguments, &format!("https://127.0.0.1:{}{path}", served.port)).0
        };
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
            for client in CLIENTS {
                let status = asks(client, method);
                let is_get =
                    method == "GET" || method == "HEAD" || method == "POST" && path.starts_with("/stats/");
                let is_right = match client {
                    Client::Nobody | Client::Forger => status == 401,
                    Client::View if *may_view && is_get => status != 401 && status != 403 && status != 0,
                    Client::View => status == 403,
                    Client::Admin => status != 401 && status != 403 && status != 0,
                };
                if !is_right {
                    wrong.insert(format!("{client:?} {method} {path}: {status}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_the_servers_tell_is_what_is() {
    let served = Served::start(&[]);
    let node = &served.node;
    let script = "echo first; echo second >&2; head -c 3000000 /dev/zero >/data/f; trap 'exit 0' TERM; sleep 100000 & wait";
    let pod = Pod::new("web").script(script);
    let pod = pod.set("/spec/volumes", serde_json::json!([{"name": "data", "emptyDir": {}}]));
    let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
    node.write("web.yaml", pod.set("/spec/containers/0/volumeMounts", mounts).text());
    let app = node.wait_running("web", "app");
    let full = node.full("web");

    // Pods: the same on both ports and in the status file.
    let running = |(status, body): (u16, String)| {
        let list: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
        let phase = list["items"][0]["status"]["phase"].as_str()? == "Running";
        phase.then_some(list)
    };
    let list = node.wait_for("the pod is told to run", || running(served.get(Client::View, "/pods")));
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"PodList".into(), &"v1".into()));
    assert_eq!(list["items"][0]["metadata"]["name"], full.as_str());
    assert!(running(served.plain(served.read_only, "/pods/")).is_some());
    let (_, body) = served.get(Client::Admin, "/runningpods/");
    let list: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(list["items"][0]["spec"]["containers"][0]["name"], "app", "{body}");

    // Logs.
    let log = |query: &str| served.get(Client::View, &format!("/containerLogs/default/{full}/app{query}"));
    node.wait_until("both lines are there", || log("").1.lines().count() == 2);
    assert_eq!(log("?tailLines=0"), (200, String::new()));
    assert_eq!(log("?limitBytes=3").1.len(), 3);
    let stamped = log("?timestamps=true&sinceSeconds=100").1;
    assert!(stamped.lines().all(|line| line.len() > 31 && &line[10..11] == "T"), "{stamped}");
    assert_eq!(log("?tailLines=-1"), (422, "{\"message\": \"Invalid request.\"}".to_owned()));
    let (status, text) = served.get(Client::View, "/containerLogs/default/none/app");
    assert_eq!((status, text.trim_end()), (404, "pod \"none\" does not exist"));

    // A log that is followed ends with its container, and the disappearance of a client is noticed.
    let credentials = served.credentials(Client::View);
    let arguments: Vec<&str> = credentials.iter().map(String::as_str).chain(["--no-buffer"]).collect();
    let url = format!("https://127.0.0.1:{}/containerLogs/default/{full}/app?follow=true", served.port);
    let follow = || served.curl(&arguments, &url).stdout(Stdio::piped()).spawn().unwrap();
    let threads = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", node.pid().unwrap())).unwrap().flatten();
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks
            .filter(|task| fs::read_to_string(task.path().join("stat")).is_ok())
            .map(name)
            .collect::<Vec<_>>()
    };
    let mut gone = follow();
    node.wait_until("a thread follows", || threads().iter().any(|name| name.trim() == "pk-request"));
    gone.kill().unwrap();
    gone.wait().unwrap();
    node.wait_until("no thread is left", || !threads().iter().any(|name| name.trim() == "pk-request"));
    let ends = follow();

    // Figures.
    let (_, body) = served.get(Client::View, "/stats/summary");
    let summary: Value = serde_json::from_str(&body).unwrap();
    let told = &summary["pods"][0];
    assert_eq!(
        (&told["podRef"]["name"], &told["containers"][0]["name"]),
        (&full.as_str().into(), &"app".into())
    );
    let number = |pointer: &str| {
        told.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {told}"))
    };
    assert!(number("/cpu/usageCoreNanoSeconds") > 0 && number("/memory/workingSetBytes") > 0);
    assert!(number("/volume/0/usedBytes") >= 3_000_000, "{told}");
    let (_, body) = served.get(Client::View, "/stats/summary?only_cpu_and_memory=true");
    let light: Value = serde_json::from_str(&body).unwrap();
    assert!(light["pods"][0]["cpu"].is_object() && light["pods"][0].get("network").is_none(), "{light}");
    assert!(light["node"].get("fs").is_none());

    let page = |path: &str| super::exposition::samples(&served.get(Client::View, path).1);
    let resource = page("/metrics/resource");
    let label = format!("container=\"app\",pod=\"{full}\",namespace=\"default\"");
    let of = |page: &BTreeMap<String, Vec<(String, f64)>>, family: &str, part: &str| {
        let all = page.get(family).unwrap_or_else(|| panic!("no {family}"));
        let found = all.iter().find(|(labels, _)| labels.contains(part));
        found.unwrap_or_else(|| panic!("{family}: {all:?}")).1
    };
    assert!(of(&resource, "container_memory_working_set_bytes", &label) > 0.0);
    assert!(of(&resource, "pod_cpu_usage_seconds_total", &format!("pod=\"{full}\"")) > 0.0);
    assert!(of(&resource, "node_cpu_usage_seconds_total", "") > 0.0);
    assert_eq!(of(&resource, "resource_scrape_error", ""), 0.0);
    let cadvisor = page("/metrics/cadvisor");
    let name = node.of("web").into_iter().find(|it| it.id == app.id).unwrap().name;
    let docker = format!("name=\"{name}\"");
    assert!(of(&cadvisor, "container_cpu_usage_seconds_total", &docker) > 0.0);
    assert!(of(&cadvisor, "container_network_receive_bytes_total", "interface=\"eth0\"") >= 0.0);
    assert!(of(&cadvisor, "machine_memory_bytes", "") > 0.0);
    let own = page("/metrics");
    assert_eq!(of(&own, "kubelet_running_pods", ""), 1.0);
    assert_eq!(of(&own, "kubelet_running_containers", "running"), 1.0);
    assert!(of(&own, "process_resident_memory_bytes", "") > 0.0);

    old_paths(&served, &full, &app.id);

    // Each port serves only its own purpose.
    assert_eq!(served.plain(served.read_only, "/metrics/resource").0, 200);
    for path in ["/containerLogs/default/x/y", "/runningpods/", "/exec/default/x/y", "/logs/"] {
        assert_eq!(served.plain(served.read_only, path).0, 404, "{path}");
    }
    assert_eq!(served.plain(served.healthz, "/pods").0, 404);
    assert_eq!(
        served.plain(served.healthz, "/healthz?verbose").1.lines().last(),
        Some("healthz check passed")
    );

    node.remove("web.yaml");
    let followed = ends.wait_with_output().unwrap();
    assert!(followed.status.success(), "{followed:?}");
    assert_eq!(String::from_utf8(followed.stdout).unwrap().lines().count(), 2, "both lines, once");
}

/// The answers of kubelets until 1.20 and of cAdvisor's port about a container, which has another id for each.
fn old_paths(served: &Served, full: &str, id: &str) {
    let json = |(status, body): (u16, String)| -> Value {
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let list = json(served.get(Client::View, "/pods"));
    let uid = list["items"][0]["metadata"]["uid"].as_str().unwrap();
    let spec = json(served.get(Client::View, "/spec/"));
    assert!(spec["num_cores"].as_u64() > Some(0) && spec["memory_capacity"].as_u64() > Some(0), "{spec}");
    let one = json(served.get(Client::View, &format!("/stats/{full}/app")));
    assert!(one["stats"][0]["cpu"]["usage"]["total"].as_u64() > Some(0), "{one}");
    assert!(one["stats"][0]["memory"]["usage"].as_u64() > Some(0), "{one}");
    assert_eq!(one["labels"]["io.kubernetes.pod.name"], full);
    let by_uid = json(served.plain(served.read_only, &format!("/stats/default/{full}/{uid}/app")));
    assert_eq!((&by_uid["name"], &by_uid["aliases"]), (&one["name"], &one["aliases"]));
    let other = served.get(Client::View, &format!("/stats/default/{full}/another/app"));
    assert_eq!(other.0, 404, "{}", other.1);
    let root = json(served.get(Client::View, "/stats/"));
    assert_eq!(root["name"], "/");
    let wanted = r#"{"containerName": "/", "subcontainers": true, "num_stats": 1}"#;
    let credentials = served.credentials(Client::View);
    let mut arguments: Vec<&str> = credentials.iter().map(String::as_str).collect();
    arguments.extend(["--data", wanted]);
    let all = json(served.ask(&arguments, &format!("https://127.0.0.1:{}/stats/container", served.port)));
    assert!(all.as_object().unwrap().contains_key(one["name"].as_str().unwrap()), "{all}");

    let cadvisor = |path: &str| served.plain(served.cadvisor, path);
    assert_eq!(json(cadvisor("/api/v1.3/machine"))["boot_id"], spec["boot_id"]);
    let named = json(cadvisor(&format!("/api/v1.3/docker/{id}")));
    assert_eq!(named.as_object().unwrap().len(), 1, "{named}");
    let below = json(cadvisor(&format!("/api/v1.0/containers{}", one["name"].as_str().unwrap())));
    assert_eq!(below["name"], one["name"]);
    assert!(json(cadvisor("/api/v1.2/subcontainers/")).as_array().unwrap().len() > 1);
    assert!(cadvisor("/metrics").1.contains("container_cpu_usage_seconds_total"));
    assert_eq!(
        (cadvisor("/api/v2.0/machine").0, cadvisor("/pods").0, cadvisor("/exec/a/b/c").0),
        (400, 404, 404)
    );
}

#[test]
fn endpoints_that_run_something_can_be_turned_off() {
    let served = Served::start(&["--enable-debugging-handlers=false", "--enable-system-log-handler"]);
    for path in ["/exec/default/x/y", "/containerLogs/default/x/y", "/runningpods/", "/logs/"] {
        let (status, text) = served.get(Client::Admin, path);
        assert_eq!((status, text.trim_end()), (405, "Debug endpoints are disabled."), "{path}");
    }
    assert_eq!(served.get(Client::Admin, "/pods").0, 200);
}
