//! Limits of local storage that pods set themselves: the pod that exceeds one is evicted, and no
//! other.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use podkeeper::testing::runtime::{Call, CreateBody, Reply};
use serde_json::json;

use crate::harness::pods::{IMAGE, Pod, container};
use crate::harness::private_engine::Engine;
use crate::harness::{Node, Options};

/// A script that writes this many MiB to a place, and keeps running.
fn writes(to: &str, mebibytes: u32) -> String {
    let bytes = mebibytes * 1024 * 1024;
    format!(
        "head -c {bytes} /dev/zero | tr '\\0' x | fold -w 1000 > {to}; trap 'exit 0' TERM; \
         sleep 100000 & wait"
    )
}

/// Reason and message of the pod's status.
fn told(node: &Node, pod: &str) -> (String, String) {
    let status = node.pod(pod).and_then(|pod| pod.status).unwrap_or_default();
    (status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

#[test]
fn the_pod_that_is_over_a_limit_of_its_own_goes_and_no_other() {
    const LIMIT: &str = "/spec/containers/0/resources/limits/ephemeral-storage";
    let node = Node::with(Options::flags(&["--container-log-max-size=4Mi"]));
    let volume = |name: &str, mebibytes: u32, limit: &str| {
        let volume = serde_json::json!([{"name": "data", "emptyDir": {"sizeLimit": limit}}]);
        let mounts = serde_json::json!([{"name": "data", "mountPath": "/data"}]);
        let pod = Pod::new(name).script(&writes("/data/file", mebibytes)).set("/spec/volumes", volume);
        pod.set("/spec/containers/0/volumeMounts", mounts)
    };
    let log = |name: &str, limit: &str| Pod::new(name).script(&writes("/dev/stdout", 3)).set(LIMIT, limit);
    let layer = |name: &str, limit: &str| Pod::new(name).script(&writes("/file", 6)).set(LIMIT, limit);
    let sum = |name: &str| {
        // It writes when the other one has: otherwise it alone may be over its limit at a look.
        let waits = format!("until [ -e /together/written ]; do sleep 0.1; done; {}", writes("/file", 3));
        let first = writes("/file", 6).replace("; trap", "; touch /together/written; trap");
        let (mounts, volumes) = (
            serde_json::json!([{"name": "together", "mountPath": "/together"}]),
            serde_json::json!([{"name": "together", "emptyDir": {}}]),
        );
        let pod = Pod::new(name).script(&first).set(LIMIT, "7Mi").and(container("second", &waits));
        let pod = pod.set("/spec/containers/1/resources/limits/ephemeral-storage", "1Mi");
        let pod = pod.set("/spec/volumes", volumes).set("/spec/containers/0/volumeMounts", mounts.clone());
        pod.set("/spec/containers/1/volumeMounts", mounts)
    };
    let staying = [volume("volume-fine", 2, "4Mi"), log("log-fine", "8Mi"), layer("layer-fine", "8Mi")];
    let free = container("free", "trap 'exit 0' TERM; sleep 100000 & wait");
    let file = |name: &str, path: &str| Pod::new(name).script(&writes(path, 3)).set(LIMIT, "2Mi");
    let going = [
        volume("volume", 6, "4Mi"),
        log("log", "2Mi"),
        layer("layer", "4Mi").and(free),
        sum("sum"),
        file("hostname", "/etc/hostname"),
        file("hosts", "/etc/hosts"),
        file("resolver", "/etc/resolv.conf"),
        file("message", "/dev/termination-log"),
    ];
    let names = ["volume", "log", "layer", "sum", "hostname", "hosts", "resolver", "message"];
    for (name, pod) in ["volume-fine", "log-fine", "layer-fine"].iter().zip(&staying) {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    let before: Vec<String> = ["volume-fine", "log-fine", "layer-fine"]
        .iter()
        .map(|name| node.wait_running(name, "app").id)
        .collect();
    for (name, pod) in names.iter().zip(&going) {
        node.write(&format!("{name}.yaml"), pod.text());
    }
    for (name, message) in [
        ("volume", "Usage of EmptyDir volume \"data\" exceeds the limit \"4Mi\"."),
        // With a single container the sum is its limit, and is checked first, like with the
        // kubelet.
        ("log", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
        ("layer", "Container app exceeded its local ephemeral storage limit \"4Mi\"."),
        ("sum", "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi."),
        // Files that Docker and podkeeper give to a container besides its layer count for the pod.
        ("hostname", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
        ("hosts", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
        ("resolver", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
        ("message", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."),
    ] {
        node.wait_until(&format!("{name} is evicted"), || told(&node, name).0 == "Evicted");
        let (_, told) = told(&node, name);
        assert!(told.starts_with(message), "{name}: {told}");
        node.wait_until(&format!("{name} is stopped"), || node.running(name, "app").is_empty());
    }
    for (name, id) in ["volume-fine", "log-fine", "layer-fine"].iter().zip(before) {
        assert_eq!(node.wait_running(name, "app").id, id, "{name}");
        assert_eq!(told(&node, name), (String::new(), String::new()));
    }
}

fn ask(engine: &Engine, request: &str) -> String {
    let mut stream = UnixStream::connect(engine.socket()).unwrap();
    write!(stream, "{request} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Makes an image that declares a volume, `voluminous:1`.
fn declare_volume(engine: &Engine, node: &Node, at: &str) {
    let body = CreateBody { image: IMAGE.into(), cmd: Some(vec!["x".into()]), ..CreateBody::default() };
    let call = Call::Create { name: "basis".into(), body: Box::new(body) };
    let Reply::Created { id, .. } = node.docker(&call) else { panic!("no container") };
    let target = format!("/commit?container={id}&repo=voluminous&tag=1&changes=VOLUME%20{at}");
    let answer = ask(engine, &format!("POST {target}"));
    assert!(answer.starts_with("HTTP/1.0 201"), "{answer}");
    node.docker(&Call::Remove { id, force: false });
}

/// Docker copies what the image has at the path of a declared volume into it, at each create, and no pod could be charged
/// with that: an image with a file of 45 MB and 32 volumes filled a disk before it had a container.
#[test]
fn volumes_of_images_begin_empty_for_a_source_that_goes_first() {
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let socket = Some(engine.socket());
    let first = ["--source-policy=file=evict-first=true"];
    let node = Node::prepare(Options { endpoint: socket.clone(), look_at: socket, ..Options::flags(&first) });
    declare_volume(&engine, &node, "/bin");
    node.launch();
    let tool = json!([{"name": "tool", "hostPath": {"path": "/bin/busybox", "type": "File"}}]);
    // The second run finds what the first one wrote, like in an emptyDir.
    let script = "/tools/busybox ls -A /bin | /tools/busybox wc -l > /dev/termination-log; echo x >> /bin/mine || exit 1; \
                  [ $(/tools/busybox wc -l < /bin/mine) = 2 ]";
    let pod = Pod::new("empty").set("/spec/hostNetwork", true).set("/spec/restartPolicy", "OnFailure");
    let pod = pod.set("/spec/containers/0/image", "voluminous:1").set("/spec/volumes", tool);
    let pod = pod.set("/spec/containers/0/command", json!(["/tools/busybox", "sh", "-c", script]));
    let pod = pod.set("/spec/containers/0/securityContext/runAsUser", 65534);
    let mounts = json!([{"name": "tool", "mountPath": "/tools/busybox"}]);
    let uid = "0d5a9b1e-2f6c-4d0e-9b1a-6a4d1c7e0f55";
    let pod = pod.set("/spec/containers/0/volumeMounts", mounts).set("/metadata/uid", uid);
    node.write("empty.yaml", pod.text());
    node.wait_until("the first run has found nothing", || {
        let last = node.container_status("empty", "app").and_then(|status| status.last_state?.terminated);
        last.is_some_and(|first| first.message.as_deref() == Some("0\n"))
    });
    node.wait_phase("empty", "Succeeded");
    let ended = node.container_status("empty", "app").and_then(|status| status.state?.terminated);
    assert_eq!(ended.and_then(|ended| ended.message).as_deref(), Some("1\n"), "what is in it");
    assert!(!ask(&engine, "GET /volumes").contains("Mountpoint"), "it is none of Docker's");
    let greedy =
        pod.set("/metadata/name", "greedy").set("/metadata/uid", "0d5a9b1e-2f6c-4d0e-9b1a-6a4d1c7e0f56");
    let script = "/tools/busybox dd if=/dev/zero of=/bin/much bs=1M count=6; /tools/busybox sleep 600";
    let greedy = greedy.set("/spec/containers/0/command", json!(["/tools/busybox", "sh", "-c", script]));
    let limit = "/spec/containers/0/resources/limits/ephemeral-storage";
    node.write("greedy.yaml", greedy.set(limit, "4Mi").text());
    node.wait_until("it is evicted", || told(&node, "greedy").0 == "Evicted");
    node.remove("empty.yaml");
    node.remove("greedy.yaml");
    let pods = node.root().join("pods");
    node.wait_until("it has gone with the pod", || {
        std::fs::read_dir(&pods).is_ok_and(|all| all.count() == 0)
    });
    drop(node);
}

/// Docker makes a directory of its own for it, which is not part of the writable layer.
#[test]
fn what_a_pod_writes_to_a_volume_of_its_image_counts() {
    let mut engine = Engine::new(&[]);
    engine.start_with_image();
    let socket = Some(engine.socket());
    let node = Node::prepare(Options { endpoint: socket.clone(), look_at: socket, ..Options::flags(&[]) });
    declare_volume(&engine, &node, "/data");
    node.launch();
    let pod = |name: &str, mebibytes: u32| {
        let limit = "/spec/containers/0/resources/limits/ephemeral-storage";
        let pod = Pod::new(name).script(&writes("/data/file", mebibytes)).set(limit, "4Mi");
        pod.set("/spec/hostNetwork", true).set("/spec/containers/0/image", "voluminous:1")
    };
    node.write("small.yaml", pod("small", 1).text());
    let stays = node.wait_running("small", "app");
    node.write("large.yaml", pod("large", 6).text());
    node.wait_until("it is evicted", || told(&node, "large").0 == "Evicted");
    assert!(told(&node, "large").1.contains("4Mi"), "{}", told(&node, "large").1);
    assert_eq!(node.wait_running("small", "app").id, stays.id);
    drop(node);
}
