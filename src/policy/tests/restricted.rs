//! Each check of level restricted alone: the pods that it allows, and its exact words; and the sentence of them all.

use serde_json::{Value, json};

use super::baseline::{check, containers, with_pod};
use super::violations;

#[test]
fn capabilities_must_be_dropped() {
    let id = "capabilities_restricted";
    let caps = |drop: &[&str], add: &[&str]| json!({"capabilities": {"drop": drop, "add": add}});
    let bad = containers(&[
        caps(&["NET_RAW"], &["NET_BIND_SERVICE"]),
        caps(&["ALL"], &["KILL", "CHOWN"]),
        caps(&["FOO", "ALL"], &["NET_BIND_SERVICE"]),
        json!({}),
        json!(null),
        caps(&["all"], &["AUDIT_WRITE"]),
    ]);
    check(
        "restricted",
        id,
        bad.clone(),
        concat!(
            r#"unrestricted capabilities: containers "a", "d", "e", "f" must set securityContext.capabilities.drop=["ALL"]; "#,
            r#"containers "b", "f" must not include "AUDIT_WRITE", "CHOWN", "KILL" in securityContext.capabilities.add"#
        ),
    );
    check("restricted:v1.21", id, bad, "");
    check(
        "restricted:v1.22",
        id,
        containers(&[json!({})]),
        r#"unrestricted capabilities: container "a" must set securityContext.capabilities.drop=["ALL"]"#,
    );
    check("restricted", id, containers(&[caps(&["ALL"], &[])]), "");
    let mut windows = containers(&[caps(&[], &["KILL"])]);
    windows["os"] = json!({"name": "windows"});
    check("restricted:v1.25", id, windows.clone(), "");
    check(
        "restricted:v1.24",
        id,
        windows,
        concat!(
            r#"unrestricted capabilities: container "a" must set securityContext.capabilities.drop=["ALL"]; "#,
            r#"container "a" must not include "KILL" in securityContext.capabilities.add"#
        ),
    );
}

#[test]
fn restricted_volumes() {
    let id = "restrictedVolumes";
    let kinds = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    for kind in kinds {
        check(
            "restricted",
            id,
            json!({"volumes": [{"name": "a", kind: {}}]}),
            &format!(r#"restricted volume types: volume "a" uses restricted volume type "{kind}""#),
        );
        check("baseline", id, json!({"volumes": [{"name": "a", kind: {}}]}), "");
    }
    let good = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    for kind in good {
        check("restricted:v1.0", id, json!({"volumes": [{"name": "a", kind: {}}]}), "");
    }
    let spec = json!({"volumes": [{"name": "z", "nfs": {}}, {"name": "y", "fc": {}}, {"name": "x", "nfs": {}},
        {"name": "w", "secret": {}}, {"name": "v"}]});
    check(
        "restricted:v1.0",
        id,
        spec,
        concat!(
            r#"restricted volume types: volumes "z", "y", "x", "v" use "#,
            r#"restricted volume types "fc", "nfs", "unknown""#
        ),
    );
}

#[test]
fn allow_privilege_escalation() {
    let id = "allowPrivilegeEscalation";
    let allow = |value: Value| json!({"allowPrivilegeEscalation": value});
    let spec = containers(&[allow(json!(true)), allow(json!(false)), allow(json!(null)), json!(null)]);
    let says = concat!(
        r#"allowPrivilegeEscalation != false: containers "a", "c", "d" must set "#,
        "securityContext.allowPrivilegeEscalation=false"
    );
    check("restricted:v1.8", id, spec.clone(), says);
    check("restricted", id, spec.clone(), says);
    check("restricted:v1.7", id, spec.clone(), "");
    let mut windows = spec.clone();
    windows["os"] = json!({"name": "windows"});
    check("restricted:v1.24", id, windows.clone(), says);
    check("restricted:v1.25", id, windows, "");
    let mut linux = spec;
    linux["os"] = json!({"name": "linux"});
    check("restricted:v1.25", id, linux, says);
    check(
        "restricted",
        id,
        containers(&[allow(json!(true))]),
        r#"allowPrivilegeEscalation != false: container "a" must set securityContext.allowPrivilegeEscalation=false"#,
    );
}

#[test]
fn run_as_non_root() {
    let id = "runAsNonRoot";
    let root = |value: bool| json!({"runAsNonRoot": value});
    let none = || json!({});
    let must = |who: &str| format!("runAsNonRoot != true: {who} must set securityContext.runAsNonRoot=true");
    let not =
        |who: &str| format!("runAsNonRoot != true: {who} must not set securityContext.runAsNonRoot=false");
    check("restricted", id, containers(&[none()]), &must(r#"pod or container "a""#));
    check(
        "restricted",
        id,
        containers(&[none(), root(true), json!(null)]),
        &must(r#"pod or containers "a", "c""#),
    );
    check("restricted", id, with_pod(root(false), &[root(true)]), &not("pod"));
    check(
        "restricted",
        id,
        with_pod(root(true), &[none(), root(false), root(false)]),
        &not(r#"containers "b", "c""#),
    );
    check("restricted", id, with_pod(root(false), &[none(), root(false)]), &not(r#"pod and container "b""#));
    check("restricted", id, with_pod(root(true), &[none(), json!(null)]), "");
    check("restricted", id, containers(&[root(true), root(true)]), "");
    let mut users = containers(&[none()]);
    users["hostUsers"] = json!(false);
    check("restricted:v1.34", id, users.clone(), &must(r#"pod or container "a""#));
    check("restricted:v1.35", id, users.clone(), "");
    users["hostUsers"] = json!(true);
    check("restricted:v1.35", id, users, &must(r#"pod or container "a""#));
}

#[test]
fn run_as_user() {
    let id = "runAsUser";
    let user = |value: Value| json!({"runAsUser": value});
    check(
        "restricted",
        id,
        with_pod(user(json!(0)), &[user(json!(1000))]),
        "runAsUser=0: pod must not set runAsUser=0",
    );
    check(
        "restricted",
        id,
        with_pod(user(json!(1)), &[user(json!(0)), user(json!(null)), user(json!(0))]),
        r#"runAsUser=0: containers "a", "c" must not set runAsUser=0"#,
    );
    let both = with_pod(user(json!(0)), &[json!({}), user(json!(0))]);
    let says = r#"runAsUser=0: pod and container "b" must not set runAsUser=0"#;
    check("restricted:v1.23", id, both.clone(), says);
    check("restricted:v1.22", id, both.clone(), "");
    check("baseline", id, both.clone(), "");
    let mut users = both;
    users["hostUsers"] = json!(false);
    check("restricted:v1.34", id, users.clone(), says);
    check("restricted", id, users, "");
    check("restricted", id, with_pod(json!({}), &[json!({}), user(json!(-1))]), "");
}

#[test]
fn seccomp_must_be_set() {
    let id = "seccompProfile_restricted";
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let must = |who: &str| {
        format!(
            r#"seccompProfile: pod or {who} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
        )
    };
    let not = |who: &str| {
        format!(r#"seccompProfile: {who} must not set securityContext.seccompProfile.type to "Unconfined""#)
    };
    let bare = containers(&[json!({}), profile("Localhost"), json!(null)]);
    check("restricted:v1.19", id, bare.clone(), &must(r#"containers "a", "c""#));
    check("restricted:v1.18", id, bare, "");
    check("restricted", id, containers(&[json!({})]), &must(r#"container "a""#));
    check("restricted", id, with_pod(profile("RuntimeDefault"), &[json!({}), profile("Localhost")]), "");
    check("restricted", id, containers(&[profile("RuntimeDefault")]), "");
    check("restricted", id, with_pod(profile("Unconfined"), &[json!({})]), &not("pod"));
    check(
        "restricted",
        id,
        with_pod(profile("Localhost"), &[profile("Unconfined"), json!({})]),
        &not(r#"container "a""#),
    );
    let mut windows = containers(&[json!({})]);
    windows["os"] = json!({"name": "windows"});
    check("restricted:v1.24", id, windows.clone(), &must(r#"container "a""#));
    check("restricted:v1.25", id, windows, "");
}

#[test]
fn the_whole_sentence_is_kubectls() {
    let spec = json!({"hostNetwork": true, "containers": [{"name": "app"}],
        "volumes": [{"name": "data", "hostPath": {"path": "/data"}}]});
    let say = |level: &str| {
        super::super::standards::message(&super::at(level), &violations(level, &json!({}), &spec))
    };
    assert_eq!(
        say("restricted"),
        concat!(
            r#"violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true), "#,
            r#"allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false), "#,
            r#"unrestricted capabilities (container "app" must set securityContext.capabilities.drop=["ALL"]), "#,
            r#"restricted volume types (volume "data" uses restricted volume type "hostPath"), "#,
            r#"runAsNonRoot != true (pod or container "app" must set securityContext.runAsNonRoot=true), "#,
            r#"seccompProfile (pod or container "app" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
        )
    );
    assert_eq!(
        say("baseline:v1.25"),
        concat!(
            r#"violates PodSecurity "baseline:v1.25": host namespaces (hostNetwork=true), "#,
            r#"hostPath volumes (volume "data")"#
        )
    );
    assert_eq!(violations("privileged", &json!({}), &spec), []);
}
