//! What `check` says, by whole reports.

use super::*;
use crate::cli::scratch;

fn report(paths: &[&Path]) -> Report {
    let mut report = Report::default();
    for path in paths {
        report.visit(path, "node1");
    }
    report
}

#[test]
fn problems_name_their_place_on_one_line() {
    let problem = Problem {
        severity: Severity::Warning,
        path: "web.yaml".into(),
        at: Some((3, 5)),
        pod: Some("default/web".into()),
        field: Some("spec.volumes".into()),
        message: "not supported\nforged: line".into(),
    };
    let bare = Problem { severity: Severity::Error, at: None, pod: None, field: None, ..problem.clone() };
    let text = format!("{}\n{}\n", line(&problem), line(&bare));
    crate::cli::golden("cli/check.txt", &text);
}

#[test]
fn a_directory_is_read_as_the_daemon_reads_it() {
    let check =
        |name: &str, expected: bool| assert_eq!(is_manifest(&Path::new("/m").join(name)), expected, "{name}");
    check("web.yaml", true);
    check("web.yml", true);
    check("web.json", true);
    check(".web.yaml", false);
    check("web.yaml~", false);
    check("web.yaml.bak", false);
    check("web", false);
    let dir = scratch("check-dir");
    for name in ["b.yaml.bak", ".c.yaml.swp", "README"] {
        fs::write(dir.join(name), "{").unwrap();
    }
    fs::create_dir(dir.join("sub.yaml")).unwrap();
    assert_eq!(report(&[&dir]).summary(), "0 files, 0 pods: 0 errors, 0 warnings\n");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let dir = scratch("check-unreadable");
    let big = dir.join("big.yaml");
    fs::write(&big, vec![b' '; limits::MANIFEST_BYTES + 1]).unwrap();
    let gone = dir.join("gone.yaml");
    std::os::unix::fs::symlink("nowhere", dir.join("link.yaml")).unwrap();
    let found = report(&[&dir, &gone]);
    let lines: Vec<String> =
        found.problems.iter().map(|p| line(p).replace(dir.to_string_lossy().as_ref(), "DIR")).collect();
    assert_eq!(
        lines,
        [
            "DIR/big.yaml: error: cannot be read: it is larger than 1048576 bytes",
            "DIR/link.yaml: error: cannot be read: No such file or directory (os error 2)",
            "DIR/gone.yaml: error: cannot be read: No such file or directory (os error 2)",
        ]
    );
    assert_eq!(found.summary(), "1 file, 0 pods: 3 errors, 0 warnings\n");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_examples_are_without_a_problem() {
    let found = report(&[&Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples")]);
    assert_eq!(found.problems, []);
    assert_eq!(found.summary(), "4 files, 4 pods: 0 errors, 0 warnings\n");
}

/// Half of what is in here podkeeper cannot run: with a standard, that is no error, and the standard is.
#[test]
fn pods_are_judged_by_a_standard() {
    let strange = concat!(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: far, annotations: {a: b}}\nspec:\n",
        "  os: {name: windows}\n  hostUsers: false\n  serviceAccountName: robot\n  typo: 1\n",
        "  securityContext: {runAsNonRoot: true, sysctls: [{name: kernel.shm_rmid_forced, value: '0'}]}\n",
        "  containers:\n  - {name: Not_A_Name, image: x, securityContext: {procMount: Unmasked}}\n",
        "  ephemeralContainers: [{name: debug, image: y}]\n",
        "  volumes: [{name: v, csi: {driver: d}}, {name: v, persistentVolumeClaim: {claimName: c}}]\n",
    );
    let decode = |standard: &str, text: &str| {
        let policy =
            Policy { pod_security: crate::policy::parse_sources(standard).unwrap(), ..Policy::default() };
        let mut report = Report { policy, ..Report::default() };
        report.decode(text.as_bytes(), "far.yaml", "node1");
        report
    };
    let good = decode("baseline", strange);
    assert_eq!(good.count(Severity::Error), 0, "{:?}", good.problems);
    assert!(good.count(Severity::Warning) > 4 && good.pods.len() == 1, "{:?}", good.problems);
    let bad = decode("restricted", strange);
    let errors: Vec<String> =
        bad.problems.iter().filter(|p| p.severity == Severity::Error).map(line).collect();
    let says = r#"violates PodSecurity "restricted:latest": procMount (container "Not_A_Name" "#;
    let says = format!("{says}must not set securityContext.procMount to \"Unmasked\")");
    assert_eq!(errors, [format!("far.yaml: error: pod default/far: {says}")]);
    // What is no manifest of pods is an error under every standard.
    for text in ["a: [", "", "kind: Pod", "apiVersion: v1\nkind: Deployment\n"] {
        assert_eq!(decode("privileged", text).count(Severity::Error), 1, "{text}");
    }
    let misfit = strange.replace("hostUsers: false", "hostUsers: maybe");
    assert_eq!(decode("privileged", &misfit).count(Severity::Error), 1);
    assert_eq!(decode("http=restricted", strange).count(Severity::Error), 0);
}

#[test]
fn the_lists_of_the_node_hold_for_good_pods() {
    let policy = Policy { allowed_images: Some(Vec::new()), ..Policy::default() };
    let mut report = Report { policy, ..Report::default() };
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b:1}]}\n";
    report.decode(pod.as_bytes(), "web.yaml", "node1");
    report.decode(pod.replace("name: a", "name: A").as_bytes(), "bad.yaml", "node1");
    let lines: Vec<String> = report.problems.iter().map(line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        "web.yaml: error: pod default/web: container \"a\": image \"b:1\" is not allowed on this node"
    );
    assert!(lines[1].contains("spec.containers[0].name: Invalid value"), "{lines:?}");
}

#[test]
fn signatures_are_checked_as_the_daemon_does() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature");
    let dir = scratch("check-signed");
    for (from, to) in [
        ("v1.yaml", "good.yaml"),
        ("v1.minisig", "good.yaml.minisig"),
        ("v1.yaml", "stripped.yaml"),
        ("v1.yaml", "swapped.yaml"),
        ("v2.minisig", "swapped.yaml.minisig"),
    ] {
        fs::copy(golden.join(from), dir.join(to)).unwrap();
    }
    let verifier = super::super::run::verifier(&[golden.join("node.pub")]).unwrap();
    let mut found = Report { verifier, ..Report::default() };
    found.visit(&dir, "node1");
    let lines: Vec<String> =
        found.problems.iter().map(|p| line(p).replace(dir.to_string_lossy().as_ref(), "DIR")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "DIR/stripped.yaml: error: is not signed: there is no .minisig beside it");
    assert!(lines[1].starts_with("DIR/swapped.yaml: error: its signature with key "), "{lines:?}");
    assert_eq!(found.summary(), "3 files, 1 pod: 2 errors, 0 warnings\n");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn pods_that_wait_in_a_circle() {
    let pod = |name: &str, after: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{podkeeper.dev/after: '{after}'}}}}\n\
             spec: {{containers: [{{name: a, image: b}}]}}\n"
        )
    };
    let mut found = Report::default();
    for (name, after) in [("a", "c=ready"), ("b", "default/a"), ("c", "d,b=succeeded"), ("me", "me")] {
        found.decode(pod(name, after).as_bytes(), &format!("{name}.yaml"), "node1");
    }
    found.decode(pod("bad", "a=soon").as_bytes(), "bad.yaml", "node1");
    found.cycles("node1");
    let lines: Vec<String> = found.problems.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "bad.yaml:3:37: error: pod default/bad: metadata.annotations[podkeeper.dev/after]: Invalid value: \
             \"a=soon\": \"soon\" must be ready or succeeded",
            "c.yaml: error: pod default/c: podkeeper.dev/after closes a cycle: \
             default/c-node1 -> default/b-node1 -> default/a-node1 -> default/c-node1",
            "me.yaml: error: pod default/me: podkeeper.dev/after closes a cycle: \
             default/me-node1 -> default/me-node1",
        ]
    );
}

#[test]
fn what_is_wrong_with_manifests() {
    let mut found = Report::default();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n";
    let good = format!("{pod}  - {{name: app, image: a}}\n");
    found.decode(good.as_bytes(), "good.yaml", "node1");
    found.decode(good.as_bytes(), "copy.yaml", "node1");
    let ports =
        format!("{pod}  - name: app\n    image: a\n    ports: [{{containerPort: 70000}}]\n    typo: 1\n");
    found.decode(ports.as_bytes(), "ports.yaml", "node1");
    found.decode(b"a: [", "syntax.yaml", "node1");
    let probe =
        good.replace("web", "probe").replace("image: a", "image: a, livenessProbe: {tcpSocket: {port: 1}}");
    found.decode(probe.as_bytes(), "probe.yaml", "node1");
    let refs = good.replace("web", "refs").replace(
        "image: a",
        "image: a, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: o, optional: true}}], env: [
          {name: A, valueFrom: {configMapKeyRef: {name: c, key: there}}},
          {name: B, valueFrom: {configMapKeyRef: {name: c, key: gone}}},
          {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
    );
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {there: x}\n";
    found.decode(refs.as_bytes(), "refs.yaml", "node1");
    found.decode(map.as_bytes(), "z.yaml", "node1");
    found.decode(map.as_bytes(), "zz.yaml", "node1");
    found.look_up();
    let lines: String = found.problems.iter().map(|p| line(p) + "\n").collect();
    crate::cli::golden("cli/check-problems.txt", &(lines + &found.summary()));
}

#[test]
fn a_pipe_is_neither_manifest_nor_signature() {
    let dir = scratch("check-pipe");
    let (manifest, pipe) = (dir.join("a.yaml"), dir.join("b.yaml"));
    fs::write(&manifest, "apiVersion: v1\nkind: PodList\nitems: []\n").unwrap();
    crate::regular::fifo(&signature::beside(&manifest));
    crate::regular::fifo(&pipe);
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature/node.pub");
    let verifier = Verifier::load(&[key]).unwrap();
    let mut report = Report { verifier: Some(Arc::new(verifier)), ..Report::default() };
    report.visit(&manifest, "node1");
    report.visit(&pipe, "node1");
    let texts: Vec<&str> = report.problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        texts,
        ["is not signed: there is no .minisig beside it", "cannot be read: it is not a regular file"]
    );
    fs::remove_dir_all(&dir).unwrap();
}
