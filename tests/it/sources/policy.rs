//! `check --pod-security` as a process: its exit code for one file.

use std::fs;
use std::process::{Command, Stdio};

/// Exit code and standard error of `check` with these flags on a file of this content.
fn check(name: &str, flags: &[&str], manifest: &str) -> (Option<i32>, String) {
    let file = std::env::temp_dir().join(format!("podkeeper-it-policy-{name}-{}.yaml", std::process::id()));
    fs::write(&file, manifest).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_podkeeper"))
        .arg("check")
        .args(flags)
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_file(&file).unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Just within restricted, with many fields that podkeeper ignores.
const RESTRICTED: &str = "apiVersion: v1
kind: Pod
metadata:
  name: restricted
  annotations:
    container.apparmor.security.beta.kubernetes.io/app: runtime/default
spec:
  os: {name: linux}
  serviceAccountName: robot
  securityContext:
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
    sysctls: [{name: net.ipv4.tcp_syncookies, value: '0'}]
    seLinuxOptions: {type: container_t}
  initContainers:
  - name: init
    image: registry.example.com/init
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  containers:
  - name: app
    image: registry.example.com/app
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
      appArmorProfile: {type: Localhost, localhostProfile: x}
  volumes:
  - {name: claim, persistentVolumeClaim: {claimName: c}}
  - {name: csi, csi: {driver: d}}
  - {name: token, projected: {sources: []}}
";

#[test]
fn a_pod_within_the_standard_passes_though_it_cannot_run_here() {
    for level in
        ["privileged", "baseline", "restricted", "restricted:v1.0", "restricted:v1.25", "file=restricted"]
    {
        let (code, err) = check("pass", &["--pod-security", level], RESTRICTED);
        assert_eq!(code, Some(0), "{level}: {err}");
        assert!(err.contains(": warning: ") && !err.contains(": error: "), "{level}: {err}");
    }
    // Without a standard the exit code is that of the daemon's own rules: the pod cannot run here.
    assert_eq!(check("strict", &[], RESTRICTED).0, Some(1));
}

#[test]
fn a_violation_fails_in_kubectls_words() {
    let bad = RESTRICTED.replace("runAsNonRoot: true", "runAsNonRoot: false");
    let (code, err) = check("fail", &["--pod-security=restricted:v1.30"], &bad);
    assert_eq!(code, Some(1), "{err}");
    let says = "error: pod default/restricted: violates PodSecurity \"restricted:v1.30\": runAsNonRoot != true \
                (pod must not set securityContext.runAsNonRoot=false)\n";
    assert!(err.contains(says), "{err}");
    assert_eq!(err.matches(": error: ").count(), 1, "{err}");
    assert_eq!(check("base", &["--pod-security=baseline"], &bad).0, Some(0));
}

#[test]
fn the_nodes_lists_hold_beside_the_standard() {
    let flags =
        ["--pod-security=privileged", "--allowed-images=registry.example.com/app", "--require-image-digest"];
    let (code, err) = check("lists", &flags, RESTRICTED);
    assert_eq!(code, Some(1), "{err}");
    let says = "container \"init\": image \"registry.example.com/init\" is not allowed on this node\n";
    assert!(err.contains(says) && err.contains("must be named by its digest"), "{err}");
}

#[test]
fn what_is_no_pod_passes_nothing() {
    for text in
        ["", "a: [", "apiVersion: v1\nkind: Pod\nspec: {containers: 3}\n", "apiVersion: v1\nkind: Service\n"]
    {
        let (code, err) = check("none", &["--pod-security=privileged"], text);
        assert_eq!(code, Some(1), "{text}: {err}");
    }
    assert_eq!(check("usage", &["--pod-security=paranoid"], RESTRICTED).0, Some(2));
}
