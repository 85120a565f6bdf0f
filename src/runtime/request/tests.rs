//! Every request as bytes, against `tests/golden/docker/requests.txt`.

use super::*;
use crate::runtime::{CreateBody, ExecBody, HostConfig, LogConfig, PortBinding, Resources};

fn every_request() -> Vec<Request> {
    let id = || "3f4a".repeat(16);
    let create = CreateBody {
        image: "busybox:1.36".into(),
        cmd: Some(vec!["sh".into(), "-c".into(), "echo \"é\"".into()]),
        labels: [("io.kubernetes.pod.name".into(), "web".into())].into(),
        exposed_ports: [("80/tcp".into(), crate::runtime::Empty {})].into(),
        host_config: HostConfig {
            port_bindings: [(
                "80/tcp".into(),
                vec![PortBinding { host_ip: String::new(), host_port: "8080".into() }],
            )]
            .into(),
            oom_score_adj: Some(-998),
            log_config: Some(LogConfig {
                driver: "json-file".into(),
                config: [("max-size".into(), "1m".into())].into(),
            }),
            ..HostConfig::default()
        },
        ..CreateBody::default()
    };
    let exec = ExecBody {
        attach_stdin: true,
        attach_stdout: true,
        attach_stderr: true,
        tty: false,
        cmd: vec!["ls".into(), "-l".into()],
    };
    let calls = [
        Call::Info,
        Call::List { labels: vec![] },
        Call::List { labels: vec!["podkeeper.dev/root-dir=/var/lib/podkeeper".into(), "a&b".into()] },
        Call::Inspect { id: id() },
        Call::Inspect { id: "../x?y".into() },
        Call::Files { id: id(), size: true },
        Call::Create { name: "k8s_POD_web_default_0123_0".into(), body: Box::new(create) },
        Call::Start { id: id() },
        Call::Kill { id: id(), signal: "SIGTERM".into() },
        Call::Kill { id: id(), signal: "SIGRTMIN+3".into() },
        Call::Remove { id: id(), force: false },
        Call::Remove { id: id(), force: true },
        Call::Update {
            id: id(),
            resources: Resources {
                cpu_shares: Some(2),
                memory: Some(64 << 20),
                memory_swap: Some(64 << 20),
                ..Resources::default()
            },
        },
        Call::Resize { id: id(), rows: 24, columns: 80 },
        Call::ExecCreate { id: id(), body: exec },
        Call::ExecInspect { id: id() },
        Call::ExecResize { id: id(), rows: 24, columns: 80 },
        Call::ImageInspect { image: "reg.example:5000/team/app@sha256:00ff".into() },
        Call::ImageInspect { image: "a b?c".into() },
        Call::ImageList { all: false },
        Call::ImageList { all: true },
        Call::ImageRemove { image: "reg.example:5000/team/app@sha256:00ff".into() },
        Call::ImageTag { image: "sha256:00ff".into(), name: "reg.example:5000/team/app:1".into() },
        Call::DiskUsage,
        Call::BuildPrune,
    ];
    let logs = LogOptions { follow: false, tail: None, since: None, timestamps: false };
    let all_logs =
        LogOptions { follow: true, tail: Some(10), since: Some("12.000000001".into()), timestamps: true };
    let mut all = vec![Request::ping()];
    all.extend(calls.iter().map(Request::call));
    all.extend([
        Request::events(&["k=v".into()], None),
        Request::image_events(1),
        Request::events(&["k=v".into()], Some(0)),
        Request::pull("reg:5000/team/app", None),
        Request::pull("busybox@sha256:00ff", Some("e30=\r\nEvil: 1")),
        Request::load(),
        Request::logs(&id(), &logs),
        Request::logs(&id(), &all_logs),
        Request::attach(&id(), AttachOptions { stdin: false, logs: false }),
        Request::attach(&id(), AttachOptions { stdin: true, logs: true }),
        Request::exec_start(&id(), true),
    ]);
    all
}

#[test]
fn golden() {
    let mut got = String::new();
    for request in every_request() {
        let version = if request.target == "/_ping" { None } else { Some((1, 41)) };
        let bytes = String::from_utf8(request.bytes(version)).unwrap();
        got.push_str(&format!("### {}\n{}\n\n", request.what(), bytes.replace('\r', "").trim_end()));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/docker/requests.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(path).unwrap(), "run with UPDATE=1 and read the difference");
}

#[test]
fn line_ends_and_lengths() {
    let bytes = Request::exec_start("x", false).bytes(Some((1, 40)));
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1.40/exec/x/start HTTP/1.1\r\nHost: docker\r\n"), "{head}");
    assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
    assert_eq!(body, r#"{"Detach":false,"Tty":false}"#);
}

proptest::proptest! {
    /// No name, however odd, becomes another request or another header.
    #[test]
    fn nothing_breaks_out_of_the_request_line(text in ".*") {
        let calls = [
            Call::Inspect { id: text.clone() },
            Call::Kill { id: text.clone(), signal: text.clone() },
            Call::ImageInspect { image: text.clone() },
            Call::ImageRemove { image: text.clone() },
            Call::List { labels: vec![text.clone()] },
        ];
        let mut requests: Vec<Request> = calls.iter().map(Request::call).collect();
        requests.push(Request::pull(&text, Some("e30=")));
        requests.push(Request::events(&[text], None));
        for request in requests {
            let bytes = String::from_utf8(request.bytes(Some((1, 41)))).unwrap();
            let line = bytes.lines().next().unwrap_or_default();
            proptest::prop_assert_eq!(line.split(' ').count(), 3, "{}", line);
            proptest::prop_assert!(line.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{}", line);
            proptest::prop_assert!(bytes.lines().count() <= 7, "{}", bytes);
        }
    }
}

#[test]
fn image_references() {
    let check = |image: &str, name: &str, tag: &str| assert_eq!(split_image(image), (name, tag), "{image}");
    check("busybox", "busybox", "latest");
    check("busybox:1.36", "busybox", "1.36");
    check("reg:5000/a/b", "reg:5000/a/b", "latest");
    check("reg:5000/a/b:v1", "reg:5000/a/b", "v1");
    check("a/b@sha256:00", "a/b", "sha256:00");
    check("reg:5000/a:v1@sha256:00", "reg:5000/a", "sha256:00");
    check("", "", "latest");
}
