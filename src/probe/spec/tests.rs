//! Probes of manifests: defaults (upstream `pkg/apis/core/v1/defaults.go`), ports and references.

use serde_json::{Value, json};

use super::*;

fn container(probe: Value) -> Container {
    let mut container = json!({
        "name": "app",
        "env": [
            {"name": "PORT", "value": "80"},
            {"name": "NESTED", "value": "p$(PORT)"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 9090}],
    });
    container["livenessProbe"] = probe;
    serde_json::from_value(container).unwrap()
}

fn read(probe: Value) -> Option<Probing> {
    let container = container(probe);
    Probing::of(container.liveness_probe.as_ref().unwrap(), &container)
}

#[test]
fn defaults() {
    let check = |probe: Value, expected: [u64; 5]| {
        let t = read(probe).unwrap().timing;
        let got = [
            t.initial_delay.as_secs(),
            t.timeout.as_secs(),
            t.period.as_secs(),
            u64::from(t.successes),
            u64::from(t.failures),
        ];
        assert_eq!(got, expected);
    };
    check(json!({"exec": {"command": ["true"]}}), [0, 1, 10, 1, 3]);
    let all = json!({"exec": {"command": ["true"]}, "initialDelaySeconds": 5, "timeoutSeconds": 4,
        "periodSeconds": 3, "successThreshold": 2, "failureThreshold": 1});
    check(all, [5, 4, 3, 2, 1]);
    let zeros = json!({"exec": {"command": ["true"]}, "initialDelaySeconds": 0, "timeoutSeconds": 0,
        "periodSeconds": 0, "successThreshold": 0, "failureThreshold": 0});
    check(zeros, [0, 1, 10, 1, 3]);
    check(json!({"exec": {"command": ["true"]}, "periodSeconds": -4}), [0, 1, 10, 1, 3]);
}

#[test]
fn references_in_a_command_are_static_values_only() {
    let words = ["$(PORT)", "$(NESTED)x", "$(POD_IP)", "$(NOPE)", "$$(PORT)", "sh -c \"a b\""];
    let Action::Exec(got) = read(json!({"exec": {"command": words}})).unwrap().action else { panic!() };
    assert_eq!(got, ["80", "p80x", "$(POD_IP)", "$(NOPE)", "$(PORT)", "sh -c \"a b\""]);
}

#[test]
fn no_value_of_a_local_object_gets_into_a_command() {
    let secret = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    let container: Container = serde_json::from_value(json!({
        "name": "app",
        "envFrom": [{"secretRef": {"name": "all"}}],
        "env": [
            {"name": "TOKEN", "value": "before"},
            {"name": "USES", "value": "u$(TOKEN)"},
            {"name": "TOKEN", "valueFrom": secret},
            {"name": "PLAIN", "valueFrom": secret},
            {"name": "PLAIN", "value": "after"},
            {"name": "LATE", "value": "l$(TOKEN)"},
        ],
        "readinessProbe": {"exec": {"command": ["$(TOKEN)", "$(PLAIN)", "$(USES)", "$(LATE)", "$(OF_ALL)"]}},
    }))
    .unwrap();
    let probe = Probing::of(container.readiness_probe.as_ref().unwrap(), &container).unwrap();
    let Action::Exec(got) = probe.action else { panic!() };
    assert_eq!(got, ["$(TOKEN)", "after", "u$(TOKEN)", "l$(TOKEN)", "$(OF_ALL)"]);
}

#[test]
fn ports() {
    let check = |port: Value, expected: Result<u16, &str>| {
        let Action::Tcp { port: got, host } = read(json!({"tcpSocket": {"port": port}})).unwrap().action
        else {
            panic!()
        };
        assert_eq!((got.as_ref().copied().map_err(String::as_str), host), (expected, None));
    };
    check(json!(80), Ok(80));
    check(json!("web"), Ok(8080));
    check(json!("9091"), Ok(9091));
    check(json!("nope"), Err("strconv.Atoi: parsing \"nope\": invalid syntax"));
    check(json!(0), Err("invalid port number: 0"));
    check(json!(65536), Err("invalid port number: 65536"));
    check(json!("-1"), Err("invalid port number: -1"));
}

#[test]
fn http_and_grpc() {
    let probe = json!({"httpGet": {"path": "/x?y", "port": "web", "scheme": "HTTPS", "host": "",
        "httpHeaders": [{"name": "A", "value": "1"}, {"name": "a", "value": "2"}]}});
    let headers = vec![("A".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
    let get = HttpGet { tls: true, host: None, port: Ok(8080), path: "/x?y".into(), headers };
    assert_eq!(read(probe).unwrap().action, Action::Http(get));
    let grpc = read(json!({"grpc": {"port": 9000, "service": "s"}})).unwrap().action;
    assert_eq!(grpc, Action::Grpc { port: 9000, service: "s".into() });
    assert_eq!(read(json!({})), None);
}

#[test]
fn whom_to_ask() {
    for (probe, own) in [
        (json!({"exec": {"command": ["x"]}}), false),
        (json!({"tcpSocket": {"port": 1}}), true),
        (json!({"tcpSocket": {"port": 1, "host": "h"}}), false),
        (json!({"httpGet": {"port": 1}}), true),
        (json!({"httpGet": {"port": 1, "host": "h"}}), false),
        (json!({"grpc": {"port": 1}}), true),
    ] {
        assert_eq!(read(probe.clone()).unwrap().action.needs_address(), own, "{probe}");
    }
}

#[test]
fn hooks() {
    let check = |handler: Value, expected: HookAction| {
        let handler: LifecycleHandler = serde_json::from_value(handler).unwrap();
        assert_eq!(HookAction::of(&handler, &[]), expected);
    };
    let run = HookAction::Do(Action::Exec(vec!["$(X)".into()]));
    check(json!({"exec": {"command": ["$(X)"]}}), run);
    check(json!({"sleep": {"seconds": 3}}), HookAction::Sleep(Duration::from_secs(3)));
    check(json!({"tcpSocket": {"port": 80}}), HookAction::Invalid);
}
