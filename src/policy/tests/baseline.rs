//! Each check of level baseline alone: the pods that it allows, and its exact words.

use serde_json::{Value, json};

use super::violations;

/// Compares the verdict of the check `id` on a spec; no violation when `expected` is empty.
pub(super) fn check(level: &str, id: &str, spec: Value, expected: &str) {
    check_with(level, id, json!({}), spec, expected);
}

fn check_with(level: &str, id: &str, annotations: Value, spec: Value, expected: &str) {
    let found = violations(level, &annotations, &spec);
    let said: Vec<String> =
        found.iter().filter(|v| v.id == id).map(|v| format!("{}: {}", v.reason, v.detail)).collect();
    let expected: Vec<&str> = if expected.is_empty() { vec![] } else { vec![expected] };
    assert_eq!(said, expected, "{level} {id} {annotations} {spec}");
}

/// A spec with one container for each of these security contexts: `a`, `b`, `c` ...
pub(super) fn containers(contexts: &[Value]) -> Value {
    let each = |(i, context): (usize, &Value)| json!({"name": char::from(b'a' + i as u8).to_string(), "securityContext": context});
    json!({"containers": contexts.iter().enumerate().map(each).collect::<Vec<_>>()})
}

/// The same with a security context of the pod.
pub(super) fn with_pod(pod: Value, contexts: &[Value]) -> Value {
    let mut spec = containers(contexts);
    spec["securityContext"] = pod;
    spec
}

#[test]
fn every_kind_of_container_counts_in_order() {
    let privileged = json!({"privileged": true});
    let spec = json!({
        "ephemeralContainers": [{"name": "debug", "securityContext": privileged}],
        "containers": [{"name": "app", "securityContext": privileged}, {"name": "good"}],
        "initContainers": [{"name": "setup", "securityContext": privileged}],
    });
    let says =
        r#"privileged: containers "setup", "app", "debug" must not set securityContext.privileged=true"#;
    check("baseline", "privileged", spec, says);
}

#[test]
fn privileged() {
    let one =
        containers(&[json!({"privileged": true}), json!({"privileged": false}), json!({}), json!(null)]);
    let says = r#"privileged: container "a" must not set securityContext.privileged=true"#;
    check("baseline", "privileged", one.clone(), says);
    check("restricted:v1.0", "privileged", one.clone(), says);
    check("privileged", "privileged", one, "");
    check("baseline", "privileged", containers(&[json!({"privileged": false}), json!({})]), "");
}

#[test]
fn host_namespaces() {
    let id = "hostNamespaces";
    check(
        "baseline",
        id,
        json!({"hostIPC": true, "hostNetwork": true, "hostPID": true}),
        "host namespaces: hostNetwork=true, hostPID=true, hostIPC=true",
    );
    check("baseline:v1.0", id, json!({"hostPID": true, "hostIPC": false}), "host namespaces: hostPID=true");
    check("baseline", id, json!({"hostIPC": false, "hostNetwork": false, "hostPID": null}), "");
}

#[test]
fn host_ports_are_sorted_as_words() {
    let id = "hostPorts";
    let port = |n: Value| json!({"containerPort": 80, "hostPort": n});
    let one = |ports: Vec<Value>| json!({"containers": [{"name": "a", "ports": ports}]});
    check(
        "baseline",
        id,
        one(vec![port(json!(9000)), port(json!(10000)), port(json!(9000))]),
        r#"hostPort: container "a" uses hostPorts 10000, 9000"#,
    );
    check(
        "baseline",
        id,
        one(vec![port(json!(0)), port(json!(-1))]),
        r#"hostPort: container "a" uses hostPort -1"#,
    );
    check("baseline", id, one(vec![port(json!(0)), port(json!(null))]), "");
    let two = json!({"containers": [
        {"name": "a", "ports": [port(json!(80))]}, {"name": "b"}, {"name": "c", "ports": [port(json!(80))]},
    ]});
    check("baseline", id, two, r#"hostPort: containers "a", "c" use hostPort 80"#);
}

#[test]
fn capabilities_beyond_the_default() {
    let id = "capabilities_baseline";
    let add = |list: &[&str]| json!({"capabilities": {"add": list}});
    check(
        "baseline",
        id,
        containers(&[add(&["FOO", "BAR"]), add(&["CHOWN", "FOO"]), add(&["KILL"]), json!({})]),
        r#"non-default capabilities: containers "a", "b" must not include "BAR", "FOO" in securityContext.capabilities.add"#,
    );
    check(
        "baseline",
        id,
        containers(&[add(&["NET_RAW"])]),
        r#"non-default capabilities: container "a" must not include "NET_RAW" in securityContext.capabilities.add"#,
    );
    // Names are the API's: no prefix, upper case.
    check(
        "baseline",
        id,
        containers(&[add(&["CAP_CHOWN", "chown"])]),
        r#"non-default capabilities: container "a" must not include "CAP_CHOWN", "chown" in securityContext.capabilities.add"#,
    );
    let all = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    check("baseline", id, containers(&[add(&all), add(&[]), json!({"capabilities": {}})]), "");
    // Another check replaces it from v1.22 on.
    check(
        "restricted:v1.21",
        id,
        containers(&[add(&["ALL"])]),
        r#"non-default capabilities: container "a" must not include "ALL" in securityContext.capabilities.add"#,
    );
    check("restricted:v1.22", id, containers(&[add(&["ALL"])]), "");
    // Pods in their own user namespace are not exempt.
    let mut users = containers(&[add(&["SYS_ADMIN"])]);
    users["hostUsers"] = json!(false);
    check(
        "baseline",
        id,
        users,
        r#"non-default capabilities: container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add"#,
    );
}

#[test]
fn host_path_volumes() {
    let id = "hostPathVolumes";
    let spec = json!({"volumes": [{"name": "a", "hostPath": {"path": "/a"}}, {"name": "b", "emptyDir": {}},
        {"name": "c", "hostPath": {}}, {"name": "d", "hostPath": null}]});
    check("baseline", id, spec.clone(), r#"hostPath volumes: volumes "a", "c""#);
    check("restricted:v1.0", id, spec, "");
    check(
        "baseline",
        id,
        json!({"volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}),
        r#"hostPath volumes: volume "a""#,
    );
}

#[test]
fn seccomp_annotations_up_to_v1_18() {
    let id = "seccompProfile_baseline";
    let (pod, container) =
        ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/a");
    let spec = || containers(&[json!({}), json!({})]);
    for good in ["runtime/default", "docker/default", "localhost/", "localhost/x.json"] {
        check_with("baseline:v1.0", id, json!({pod: good, container: good}), spec(), "");
    }
    check_with(
        "baseline:v1.18",
        id,
        json!({pod: "unconfined"}),
        spec(),
        r#"seccompProfile: forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined""#,
    );
    check_with(
        "restricted:v1.18",
        id,
        json!({pod: "", container: "a\"b\n\u{a0}é"}),
        spec(),
        concat!(
            "seccompProfile: forbidden annotations ",
            r#"container.seccomp.security.alpha.kubernetes.io/a="a\"b\n\u00a0é", seccomp.security.alpha.kubernetes.io/pod="""#
        ),
    );
    // Annotation of a container that does not exist.
    check_with(
        "baseline:v1.0",
        id,
        json!({"container.seccomp.security.alpha.kubernetes.io/z": "unconfined"}),
        spec(),
        "",
    );
    check_with("baseline:v1.19", id, json!({pod: "unconfined"}), spec(), "");
}

#[test]
fn seccomp_fields_from_v1_19() {
    let id = "seccompProfile_baseline";
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let not = |who: &str, what: &str| {
        format!("seccompProfile: {who} must not set securityContext.seccompProfile.type to {what}")
    };
    for good in ["RuntimeDefault", "Localhost"] {
        check("baseline:v1.19", id, with_pod(profile(good), &[profile(good), json!({})]), "");
    }
    check(
        "baseline",
        id,
        with_pod(profile("Unconfined"), &[profile("Localhost")]),
        &not("pod", "\"Unconfined\""),
    );
    check(
        "baseline",
        id,
        with_pod(json!({}), &[profile("Unconfined"), json!({}), profile("runtimeDefault")]),
        &not(r#"containers "a", "c""#, r#""Unconfined", "runtimeDefault""#),
    );
    check(
        "baseline",
        id,
        with_pod(profile("Unconfined"), &[json!({"seccompProfile": {}})]),
        &not(r#"pod and container "a""#, r#""", "Unconfined""#),
    );
    check("baseline:v1.18", id, with_pod(profile("Unconfined"), &[]), "");
    check("restricted:v1.19", id, with_pod(profile("Unconfined"), &[]), "");
}

#[test]
fn app_armor_fields_and_annotations() {
    let id = "appArmorProfile";
    let profile = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    let key = |name: &str| format!("container.apparmor.security.beta.kubernetes.io/{name}");
    for good in ["", "runtime/default", "localhost/", "localhost/a"] {
        check_with("baseline", id, json!({key("a"): good, "other": "unconfined"}), containers(&[]), "");
    }
    for good in ["RuntimeDefault", "Localhost"] {
        check("baseline:v1.0", id, with_pod(profile(good), &[profile(good)]), "");
    }
    check_with(
        "baseline:v1.0",
        id,
        json!({key("a"): "unconfined"}),
        containers(&[]),
        concat!(
            "forbidden AppArmor profile: annotation must not set AppArmor profile type to ",
            r#""container.apparmor.security.beta.kubernetes.io/a="unconfined"""#
        ),
    );
    check_with(
        "baseline",
        id,
        json!({key("b"): "x", key("a"): "bogus"}),
        with_pod(profile("Unconfined"), &[profile("Unconfined"), profile("Localhost"), profile("Other")]),
        concat!(
            r#"forbidden AppArmor profiles: pod and containers "a", "c" and annotations must not set AppArmor profile type "#,
            r#"to "Other", "Unconfined", "container.apparmor.security.beta.kubernetes.io/a="bogus"", "#,
            r#""container.apparmor.security.beta.kubernetes.io/b="x"""#
        ),
    );
    check(
        "restricted",
        id,
        containers(&[profile("Unconfined")]),
        r#"forbidden AppArmor profile: container "a" must not set AppArmor profile type to "Unconfined""#,
    );
}

#[test]
fn se_linux_options() {
    let id = "seLinuxOptions";
    let options = |o: Value| json!({"seLinuxOptions": o});
    let says = |rest: &str| format!("seLinuxOptions: {rest}");
    for good in ["", "container_t", "container_init_t", "container_kvm_t"] {
        check(
            "baseline:v1.0",
            id,
            with_pod(options(json!({"type": good, "level": "s0"})), &[options(json!({"type": good}))]),
            "",
        );
    }
    let engine = containers(&[options(json!({"type": "container_engine_t"}))]);
    check("baseline:v1.31", id, engine.clone(), "");
    check(
        "baseline:v1.30",
        id,
        engine,
        &says(r#"container "a" set forbidden securityContext.seLinuxOptions: type "container_engine_t""#),
    );
    check(
        "baseline",
        id,
        with_pod(
            options(json!({"type": "x"})),
            &[
                options(json!({"type": "b", "user": "u"})),
                options(json!({"user": "", "role": ""})),
                options(json!({"role": "r"})),
            ],
        ),
        &says(concat!(
            r#"pod and containers "a", "c" set forbidden securityContext.seLinuxOptions: types "b", "x"; "#,
            "user may not be set; role may not be set"
        )),
    );
    check(
        "restricted",
        id,
        with_pod(options(json!({"user": "u"})), &[]),
        &says("pod set forbidden securityContext.seLinuxOptions: user may not be set"),
    );
    check(
        "restricted",
        id,
        containers(&[options(json!({"role": "r"}))]),
        &says(r#"container "a" set forbidden securityContext.seLinuxOptions: role may not be set"#),
    );
}

#[test]
fn proc_mount() {
    let mount = |kind: &str| json!({"procMount": kind});
    let spec = containers(&[mount("Unmasked"), mount("Default"), json!({}), mount("other")]);
    let says =
        r#"procMount: containers "a", "d" must not set securityContext.procMount to "Unmasked", "other""#;
    let mut users = spec.clone();
    users["hostUsers"] = json!(false);
    for spec in [&spec, &users] {
        check("baseline:v1.34", "procMount", spec.clone(), says);
        check("restricted:v1.34", "procMount", spec.clone(), says);
        check("restricted:v1.34", "procMount_restricted", spec.clone(), "");
        check("restricted:v1.35", "procMount", spec.clone(), "");
        check("restricted:v1.35", "procMount_restricted", spec.clone(), says);
    }
    check("baseline", "procMount", spec, says);
    check("baseline", "procMount", users, "");
    check("baseline", "procMount", containers(&[mount("Default"), json!({})]), "");
}

#[test]
fn sysctls() {
    let spec = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        json!({"securityContext": {"sysctls": all}})
    };
    let id = "sysctls";
    let since = [
        (0, "kernel.shm_rmid_forced"),
        (0, "net.ipv4.ip_local_port_range"),
        (0, "net.ipv4.tcp_syncookies"),
        (0, "net.ipv4.ping_group_range"),
        (0, "net.ipv4.ip_unprivileged_port_start"),
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_keepalive_time"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (29, "net.ipv4.tcp_keepalive_intvl"),
        (29, "net.ipv4.tcp_keepalive_probes"),
        (32, "net.ipv4.tcp_rmem"),
        (32, "net.ipv4.tcp_wmem"),
        (37, "net.ipv4.tcp_slow_start_after_idle"),
        (37, "net.ipv4.tcp_notsent_lowat"),
    ];
    for minor in 0..40 {
        for (first, name) in since {
            let says = if minor >= first { String::new() } else { format!("forbidden sysctls: {name}") };
            check(&format!("baseline:v1.{minor}"), id, spec(&[name]), &says);
        }
    }
    // As written: in order, repeated, with an empty name.
    check(
        "restricted",
        id,
        spec(&["z", "kernel.shm_rmid_forced", "a", "z", ""]),
        "forbidden sysctls: z, a, z, ",
    );
    check("baseline", id, spec(&[]), "");
}

#[test]
fn windows_host_process() {
    let id = "windowsHostProcess";
    let process = |value: bool| json!({"windowsOptions": {"hostProcess": value}});
    let says = |who: &str| {
        format!("hostProcess: {who} must not set securityContext.windowsOptions.hostProcess=true")
    };
    check(
        "baseline:v1.0",
        id,
        with_pod(process(true), &[process(true), process(false), process(true)]),
        &says(r#"pod and containers "a", "c""#),
    );
    check("restricted", id, with_pod(process(true), &[process(false)]), &says("pod"));
    check("baseline", id, with_pod(process(false), &[process(true)]), &says(r#"container "a""#));
    check("baseline", id, with_pod(process(false), &[json!({"windowsOptions": {}})]), "");
}

#[test]
fn hosts_of_probes_and_hooks() {
    let id = "hostProbesAndHostLifecycle";
    let get = |host: &str| json!({"httpGet": {"host": host, "port": 80}});
    let tcp = |host: &str| json!({"tcpSocket": {"host": host, "port": 80}});
    let spec = json!({
        "initContainers": [{"name": "z", "startupProbe": tcp("10.0.0.1")}],
        "containers": [
            {"name": "b", "livenessProbe": get("b.example"), "readinessProbe": tcp("a.example")},
            {"name": "a", "lifecycle": {"postStart": get("b.example"), "preStop": tcp("127.0.0.1")}},
            {"name": "c", "livenessProbe": get(""), "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}},
        ],
    });
    check(
        "baseline:v1.34",
        id,
        spec.clone(),
        concat!(
            r#"probe or lifecycle host: containers "a", "b", "z" use probe or lifecycle hosts "#,
            r#""10.0.0.1", "127.0.0.1", "a.example", "b.example""#
        ),
    );
    check("baseline:v1.33", id, spec, "");
    check(
        "restricted",
        id,
        json!({"containers": [{"name": "a", "readinessProbe": get("x")}]}),
        r#"probe or lifecycle host: container "a" uses probe or lifecycle host "x""#,
    );
    check(
        "baseline",
        id,
        json!({"containers": [{"name": "a", "readinessProbe": {"grpc": {"port": 1}}}]}),
        "",
    );
}
