//! Tests of whole reports of `check`.

mod admission;

use super::*;
use crate::base::testing::scratch;
use crate::cli::parse::{Command, parse};

/// A report with these flags, on node1.
fn empty(flags: &str) -> Report {
    let line = format!("check {flags} x");
    match parse(line.split_whitespace().map(Into::into), &|path| {
        std::fs::read(path).map_err(|e| e.to_string())
    }) {
        Ok(Command::Check(parsed, _)) => Report::new(&parsed, "node1").unwrap(),
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
    // The first manifest has a time and no version.
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
        [
            "its signature (*.minisig) cannot be read: it is not a regular file",
            "cannot be read: it is not a regular file"
        ]
    );
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_report_for_programs() {
    let mut found = empty("");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: a, image: b, typo: 1}]\n  hostname: X\n";
    found.decode(pod.as_bytes(), "web.yaml", None);
    found.decode(b"a: [", "syntax.yaml", None);
    found.judge();
    crate::base::testing::golden("cli/check-json.txt", &show::json::emit(&found.json()));
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
    // As in the daemon, the target of a link is there twice.
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

/// The words of the messages point elsewhere: another port has the number, another container the name.
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
