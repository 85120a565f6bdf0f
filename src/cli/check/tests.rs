//! What `check` says, by whole reports.

use super::*;
use crate::base::testing::scratch;
use crate::cli::parse::{Command, parse};

/// A report with these flags, on node1.
fn empty(flags: &str) -> Report {
    let line = format!("check {flags} x");
    match parse(line.split_whitespace().map(Into::into), &|path| {
        std::fs::read(path).map_err(|e| e.to_string())
    }) {
        Ok(Command::Check(options, _)) => Report::new(&options, "node1").unwrap(),
        other => panic!("{other:?}"),
    }
}

/// One line for each problem.
fn lines(report: &Report) -> Vec<String> {
    report.problems.iter().map(line).collect()
}

fn report(paths: &[&Path]) -> Report {
    let mut report = empty("");
    for path in paths {
        report.visit(path);
    }
    report.judge();
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
    crate::base::testing::golden("cli/check.txt", &text);
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
    assert_eq!(report(&[&dir]).summary(), "0 files, 0 pods: 0 errors, 1 warning\n");
    crate::base::regular::fifo(&dir.join("pipe.yaml"));
    let found = report(&[&dir]);
    let told: Vec<String> =
        lines(&found).iter().map(|line| line.replace(&dir.display().to_string(), "DIR")).collect();
    assert_eq!(
        told,
        [
            "DIR/pipe.yaml: error: cannot be read: it is not a regular file",
            "DIR/sub.yaml: warning: is a directory: ignored"
        ]
    );
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
        let mut report = empty(&format!("--pod-security {standard}"));
        report.decode(text.as_bytes(), "far.yaml", None);
        report.judge();
        report
    };
    let good = decode("baseline", strange);
    assert_eq!(good.count(Severity::Error), 0, "{:?}", good.problems);
    assert!(good.count(Severity::Warning) > 4 && good.names.len() == 1, "{:?}", good.problems);
    let bad = decode("restricted", strange);
    let errors: Vec<String> =
        bad.problems.iter().filter(|p| p.severity == Severity::Error).map(line).collect();
    let says = r#"violates PodSecurity "restricted:latest": procMount (container "Not_A_Name" "#;
    let says = format!("{says}must not set securityContext.procMount to \"Unmasked\")");
    assert_eq!(errors, [format!("far.yaml:11:5: error: pod default/far: {says}")]);
    // A file that is no manifest of pods is an error under every standard.
    for text in ["a: [", "", "kind: Pod", "apiVersion: v1\nkind: Deployment\n"] {
        assert_eq!(decode("privileged", text).count(Severity::Error), 1, "{text}");
    }
    let misfit = strange.replace("hostUsers: false", "hostUsers: maybe");
    assert_eq!(decode("privileged", &misfit).count(Severity::Error), 1);
    assert_eq!(decode("http=restricted", strange).count(Severity::Error), 0);
}

#[test]
fn the_lists_of_the_node_hold_for_good_pods() {
    let mut report = empty("--allowed-images=");
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b:1}]}\n";
    report.decode(pod.as_bytes(), "web.yaml", None);
    report.decode(pod.replace("name: a", "name: A").as_bytes(), "bad.yaml", None);
    let lines: Vec<String> = report.problems.iter().map(line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        "web.yaml:4:21: error: pod default/web: container \"a\": image \"b:1\" is not allowed on this node"
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
    let mut found = empty(&format!("--verify-key {}", golden.join("node.pub").display()));
    found.visit(&dir);
    let lines: Vec<String> =
        found.problems.iter().map(|p| line(p).replace(dir.to_string_lossy().as_ref(), "DIR")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "DIR/stripped.yaml: error: is not signed: there is no .minisig beside it");
    assert!(lines[1].starts_with("DIR/swapped.yaml: error: its signature with key "), "{lines:?}");
    assert_eq!(found.summary(), "3 files, 1 pod: 2 errors, 0 warnings\n");
    // The good one has a time and no version.
    let floor = |least: &str| {
        let key = golden.join("node.pub");
        let mut found = empty(&format!("--manifest-min-version {least} --verify-key {}", key.display()));
        found.visit(&dir.join("good.yaml"));
        found.problems.iter().map(|p| p.message.clone()).collect::<Vec<_>>()
    };
    let asks = "has timestamp 1790000000, and --manifest-min-version asks for";
    assert_eq!(floor("timestamp:1790000000"), [""; 0]);
    assert_eq!(floor("timestamp:1790000001"), [format!("{asks} timestamp 1790000001 or higher")]);
    assert_eq!(floor("1"), [format!("{asks} version 1 or higher")]);
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
    let mut found = empty("");
    for (name, after) in [("a", "c=ready"), ("b", "default/a"), ("c", "d,b=succeeded"), ("me", "me")] {
        found.decode(pod(name, after).as_bytes(), &format!("{name}.yaml"), None);
    }
    found.decode(pod("bad", "a=soon").as_bytes(), "bad.yaml", None);
    found.judge();
    let lines: Vec<String> = found.problems.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "bad.yaml:3:37: error: pod default/bad: metadata.annotations[podkeeper.dev/after]: Invalid value: \
             \"a=soon\": \"soon\" must be ready or succeeded",
            "c.yaml:3:35: error: pod default/c: metadata.annotations[podkeeper.dev/after]: waits for pod default/d to \
             run, which is in none of the files that were checked; it starts without it after 300 s",
            "c.yaml:3:35: error: pod default/c: metadata.annotations[podkeeper.dev/after]: podkeeper.dev/after of \
             default/c-node1 closes a cycle: \
             default/c-node1 -> default/b-node1 -> default/a-node1 -> default/c-node1",
            "me.yaml:3:36: error: pod default/me: metadata.annotations[podkeeper.dev/after]: podkeeper.dev/after of \
             default/me-node1 closes a cycle: default/me-node1 -> default/me-node1",
        ]
    );
}

#[test]
fn what_is_wrong_with_manifests() {
    let mut found = empty("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n";
    let good = format!("{pod}  - {{name: app, image: a}}\n");
    found.decode(good.as_bytes(), "good.yaml", None);
    found.decode(good.as_bytes(), "copy.yaml", None);
    let ports =
        format!("{pod}  - name: app\n    image: a\n    ports: [{{containerPort: 70000}}]\n    typo: 1\n");
    found.decode(ports.as_bytes(), "ports.yaml", None);
    found.decode(b"a: [", "syntax.yaml", None);
    let probe =
        good.replace("web", "probe").replace("image: a", "image: a, livenessProbe: {tcpSocket: {port: 1}}");
    found.decode(probe.as_bytes(), "probe.yaml", None);
    let refs = good.replace("web", "refs").replace(
        "image: a",
        "image: a, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: o, optional: true}}], env: [
          {name: A, valueFrom: {configMapKeyRef: {name: c, key: there}}},
          {name: B, valueFrom: {configMapKeyRef: {name: c, key: gone}}},
          {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
    );
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {there: x}\n";
    found.decode(refs.as_bytes(), "refs.yaml", None);
    found.decode(map.as_bytes(), "z.yaml", None);
    found.decode(map.as_bytes(), "zz.yaml", None);
    found.judge();
    let lines: String = found.problems.iter().map(|p| line(p) + "\n").collect();
    crate::base::testing::golden("cli/check-problems.txt", &(lines + &found.summary()));
}

#[test]
fn a_pipe_is_neither_manifest_nor_signature() {
    let dir = scratch("check-pipe");
    let (manifest, pipe) = (dir.join("a.yaml"), dir.join("b.yaml"));
    fs::write(&manifest, "apiVersion: v1\nkind: PodList\nitems: []\n").unwrap();
    crate::base::regular::fifo(&signature::beside(&manifest));
    crate::base::regular::fifo(&pipe);
    let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/signature/node.pub");
    let mut report = empty(&format!("--verify-key {}", key.display()));
    report.visit(&manifest);
    report.visit(&pipe);
    let texts: Vec<&str> = report.problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        texts,
        ["is not signed: there is no .minisig beside it", "cannot be read: it is not a regular file"]
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// A cluster of pods of which the daemon starts none: each is an error, with its place.
#[test]
fn what_the_daemon_would_not_start_is_an_error() {
    let dir = scratch("check-admission");
    let pod = |name: &str, metadata: &str, pod: &str, container: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}spec:\n{pod}  containers:\n  - name: app\n    \
             image: a\n{container}"
        );
        fs::write(dir.join(format!("{name}.yaml")), text).unwrap();
    };
    let port = "    ports:\n    - containerPort: 80\n    - {containerPort: 81, hostPort: 8080}\n";
    pod("port-a", "", "", port);
    pod("port-b", "", "", port);
    pod("affinity", "", "  nodeSelector: {disk: fast}\n", "");
    pod("cpu", "", "", "    resources:\n      requests: {cpu: 100k}\n");
    pod("sysctl", "", "  securityContext:\n    sysctls: [{name: kernel.msgmax, value: '1'}]\n", "");
    pod("privileged", "", "", "    securityContext:\n      privileged: true\n");
    pod("after", "  annotations:\n    podkeeper.dev/after: nobody, port-a\n", "", "");
    pod("cycle", "  annotations:\n    podkeeper.dev/after: cycle\n", "", "");
    pod("elsewhere", "", "  nodeName: far\n", "");
    fs::write(
        dir.join("c.yml"),
        "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\nnodeLabels: {a: b}\n",
    )
    .unwrap();
    let config = dir.join("c.yml");
    fs::create_dir(dir.join("m")).unwrap();
    for entry in fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
    {
        fs::rename(&entry, dir.join("m").join(entry.file_name().unwrap())).unwrap();
    }
    let mut found = empty(&format!("--config {}", config.display()));
    found.visit(&dir.join("m"));
    found.judge();
    let told: String =
        lines(&found).iter().map(|l| l.replace(dir.to_string_lossy().as_ref(), "DIR") + "\n").collect();
    let told = told + &found.summary();
    // The machine's own size is in the message about cpu.
    let cpu = told.lines().find(|l| l.contains("OutOfcpu")).unwrap();
    let told = told.replace(&cpu[cpu.find("requested").unwrap()..], "...");
    let uid = told.find("with UID \"").map(|at| told[at + 10..at + 42].to_owned()).unwrap();
    crate::base::testing::golden("cli/check-admission.txt", &told.replace(&uid, "..."));
    // A pod that a flag or the file allows is no error.
    let mut allowed =
        empty("--allow-privileged --node-labels disk=fast --allowed-unsafe-sysctls kernel.msg*");
    for name in ["privileged", "affinity", "sysctl", "port-a"] {
        allowed.visit(&dir.join("m").join(format!("{name}.yaml")));
    }
    allowed.judge();
    assert_eq!(lines(&allowed), [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The daemon's settings make the standard one rule among others.
#[test]
fn a_standard_in_the_configuration_file_does_not_make_errors_warnings() {
    let dir = scratch("check-config-standard");
    let config = dir.join("c.yml");
    let head = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";
    fs::write(&config, format!("{head}podSecurity: http=restricted,file=privileged\n")).unwrap();
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: A, image: b}\n";
    let errors = |flags: &str, text: &str| {
        let mut found = empty(&format!("--config {} {flags}", config.display()));
        found.decode(text.as_bytes(), "web.yaml", None);
        found.judge();
        lines(&found)
    };
    let told = errors("", pod);
    assert!(told.len() == 1 && told[0].contains("spec.containers[0].name: Invalid value"), "{told:?}");
    // Each source has its own rules.
    let good = pod.replace("name: A", "name: a");
    assert_eq!(errors("", &good), [""; 0]);
    let told = errors("--source http", &good);
    assert!(
        told.len() == 1 && told[0].starts_with("web.yaml:6:5: error: pod default/web: violates PodSecurity"),
        "{told:?}"
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// What two sources say together, as `run` decides it.
#[test]
fn what_one_source_keeps_from_another_is_told() {
    let dir = scratch("check-sources");
    let write = |place: &str, text: &str| {
        fs::create_dir_all(dir.join(place).parent().unwrap()).unwrap();
        fs::write(dir.join(place), text).unwrap();
    };
    let pod = |metadata: &str, container: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  {metadata}\nspec:\n  containers:\n  - {{name: a, image: b{container}}}\n"
        )
    };
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n";
    write("m/web.yaml", &pod("{name: web}", ""));
    write("m/uid.yaml", &pod("{name: mine, uid: u-1}", ", ports: [{containerPort: 1, hostPort: 80}]"));
    write("m/map.yaml", map);
    write("u/web.yaml", &pod("{name: web}", ", command: [x]"));
    write("u/uid.yaml", &pod("{name: other, uid: u-1}", ""));
    write("u/port.yaml", &pod("{name: port}", ", ports: [{containerPort: 1, hostPort: 80}]"));
    write("u/refers.yaml", &pod("{name: refers}", ", envFrom: [{configMapRef: {name: c}}]"));
    let told = |flags: &str| {
        let source = format!("{flags} --source=http={}", dir.join("u").display());
        let line = format!("check {source} {}", dir.join("m").display());
        let Ok(Command::Check(options, paths)) =
            parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned()))
        else {
            panic!("{line}")
        };
        let mut report = Report::new(&options, "node1").unwrap();
        report.read_all(&options, &paths);
        report.judge();
        let all: String = lines(&report).iter().map(|line| format!("{line}\n")).collect();
        (all + &report.summary()).replace(&dir.display().to_string(), "DIR")
    };
    crate::base::testing::golden("cli/check-sources.txt", &told(""));
    let shared = told("--source-policy http=shared-objects=file/ConfigMap/default/c");
    assert!(!shared.contains("refers"), "{shared}");
    fs::remove_dir_all(&dir).unwrap();
}

/// One pod's misfit hides neither what else is wrong with it nor what is wrong with the others.
#[test]
fn a_misfit_hides_nothing() {
    let pod = |name: &str, spec: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}---\n")
    };
    let misfit = pod(
        "misfit",
        "  volumes: [{name: 5, emptyDir: {}}, {name: w, hostPath: {path: 7}}]\n  containers:\n  - name: app\n    image: 7\n    \
         volumeMounts: [{name: '5', mountPath: /v}]\n    ports: [oops, {containerPort: 70000}]\n    typo: 1\n  - {name: Two, \
         image: b}\n",
    );
    let other = pod("other", "  nodeName: far\n  containers: [{name: app, image: a}]\n");
    let mut found = empty("");
    found.decode((misfit + &other).as_bytes(), "a.yaml", None);
    found.judge();
    let told: String = lines(&found).iter().map(|l| format!("{l}\n")).collect();
    crate::base::testing::golden("cli/check-misfit.txt", &told);
}

#[test]
fn a_report_for_programs() {
    let mut found = empty("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: a, image: b, typo: 1}]\n  hostname: X\n";
    found.decode(pod.as_bytes(), "web.yaml", None);
    found.decode(b"a: [", "syntax.yaml", None);
    found.judge();
    crate::base::testing::golden("cli/check-json.txt", &get::four_spaces(&found.json()));
}

#[test]
fn annotations_that_would_be_podkeepers_are_told() {
    let mut found = empty("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    podkeeper.dev/afte: db\n    \
               podkeeper.dev/other: x\n    example.com/other: x\nspec:\n  containers: [{name: a, image: b}]\n";
    found.decode(pod.as_bytes(), "web.yaml", None);
    let at = "web.yaml:{}:5: warning: pod default/web: metadata.annotations";
    assert_eq!(
        lines(&found),
        [
            format!(
                "{}[podkeeper.dev/afte]: unknown annotation, ignored; did you mean podkeeper.dev/after?",
                at.replace("{}", "6")
            ),
            format!("{}[podkeeper.dev/other]: unknown annotation, ignored", at.replace("{}", "7")),
        ]
    );
}

#[test]
fn a_file_that_is_given_twice_is_checked_once() {
    let dir = scratch("check-twice");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, image: x}]}}";
    let file = dir.join("a.yaml");
    fs::write(&file, pod).unwrap();
    let other = dir.join("../").join(dir.file_name().unwrap()).join("a.yaml");
    let said = report(&[&file, &file, &dir, &other]);
    assert_eq!((lines(&said), said.files), (Vec::new(), 1));
    // As for the daemon, what a link leads to is there twice.
    std::os::unix::fs::symlink("a.yaml", dir.join("b.yaml")).unwrap();
    let said = report(&[&dir]);
    assert_eq!(said.files, 2);
    assert!(
        lines(&said)[0].contains("b.yaml:1:52: error: pod default/web: the name is held"),
        "{:?}",
        lines(&said)
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// The words of the messages lead elsewhere: another port has the number, another container the name.
#[test]
fn a_refusal_stands_at_its_field_whatever_its_words_are() {
    let places = |flags: &str, text: &str| {
        let mut found = empty(flags);
        let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n";
        found.decode(format!("{head}{text}").as_bytes(), "web.yaml", None);
        found.decode(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: a, image: busybox, ports: [{containerPort: 1, hostPort: 80}]}\n".as_bytes(),
            "a.yaml",
            None,
        );
        found.judge();
        let errors = found.problems.iter().filter(|p| p.severity == Severity::Error);
        errors.map(|p| (p.path.clone(), p.at.unwrap())).collect::<Vec<_>>()
    };
    let at = |line, column| vec![("web.yaml".to_owned(), (line, column))];
    let ports = "  containers:\n  - {name: c, image: d, ports: [{containerPort: 80, hostPort: 80, protocol: UDP}]}\n  \
                 - name: e\n    image: d\n    ports:\n    - containerPort: 80\n      hostPort: 80\n";
    assert_eq!(places("", ports), at(11, 7));
    let images = "  containers:\n  - {name: 'ghcr', image: busybox}\n  - {name: e, image: ghcr}\n";
    assert_eq!(places("--allowed-images busybox", images), at(7, 5));
}

#[test]
fn an_image_name_that_is_none_is_a_warning_with_its_place() {
    let mut found = empty("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: Busy Box}\n  - \
               {name: b, image: 'ok:1'}\n";
    found.decode(pod.as_bytes(), "web.yaml", None);
    let says = "InvalidImageName: Failed to apply default image tag \"Busy Box\": couldn't parse image name \"Busy Box\": \
                invalid reference format: repository name must be lowercase: the container is not started";
    assert_eq!(
        lines(&found),
        [format!("web.yaml:6:15: warning: pod default/web: spec.containers[0].image: {says}")]
    );
}
